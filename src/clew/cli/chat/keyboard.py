"""The keyboard: lines are edited and completed with the terminal's own means; typing ahead is not shown."""

import sys
import termios
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType

from clew.cli.chat.commands import COMMANDS_BY_NAME

WordSource = Callable[[], Sequence[str]]


class Completion:
    """Completes commands, and behind a command what it takes. Matches are asked for one after another."""

    def __init__(self, sources: Mapping[str, WordSource]) -> None:
        self._sources = sources
        self._matches: list[str] = []

    def find_matches(self, line: str, word: str) -> list[str]:
        """The completions of the last word of a line."""
        words_before = line[: len(line) - len(word)].split()
        if words_before:
            candidates: Sequence[str] = (
                self._sources[words_before[0]]() if words_before[0] in self._sources else ()
            )
        else:
            candidates = list(COMMANDS_BY_NAME) if word.startswith("/") else ()
        self._matches = [f"{each} " for each in candidates if each.startswith(word)]
        return self._matches

    def match(self, number: int) -> str | None:
        """One of the matches, by its number."""
        return self._matches[number] if number < len(self._matches) else None


READLINE_SETTINGS = ("bell-style none", "show-all-if-ambiguous on", "enable-bracketed-paste on")
LOCAL_FLAGS_INDEX = 3
"""The index of the keyboard's flags among the attributes of a terminal."""


def install_completion(completion: Completion, history: Sequence[str]) -> None:
    """Have lines completed and edited. What was typed before is offered, and kept nowhere."""
    readline = _readline_module()
    if readline is None:
        return

    def complete(word: str, number: int) -> str | None:
        if number == 0:
            completion.find_matches(readline.get_line_buffer()[: readline.get_endidx()], word)
        return completion.match(number)

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n")
    if "libedit" in (readline.__doc__ or ""):
        readline.parse_and_bind("bind ^I rl_complete")
    else:
        for line in ("tab: complete", *(f"set {setting}" for setting in READLINE_SETTINGS)):
            readline.parse_and_bind(line)
    readline.clear_history()
    for line in history:
        readline.add_history(line)


def prompt_line(prompt: str) -> str:
    """A line that is typed now.

    Raises:
        EOFError: There are no more.
        KeyboardInterrupt: It was broken off.
    """
    with _echo(on=True):
        return input(prompt)


def has_partial_line() -> bool:
    """Return whether the line that was broken off has text."""
    readline = _readline_module()
    return readline is not None and bool(readline.get_line_buffer())


@contextmanager
def without_echo() -> Iterator[None]:
    """Turn the echo off, so that text typed ahead does not show in the middle of an answer."""
    with _echo(on=False):
        yield


@contextmanager
def _echo(*, on: bool) -> Iterator[None]:
    old_attributes = termios.tcgetattr(sys.stdin)
    flags = (
        old_attributes[LOCAL_FLAGS_INDEX] | termios.ECHO
        if on
        else old_attributes[LOCAL_FLAGS_INDEX] & ~termios.ECHO
    )
    termios.tcsetattr(
        sys.stdin,
        termios.TCSANOW,
        [*old_attributes[:LOCAL_FLAGS_INDEX], flags, *old_attributes[LOCAL_FLAGS_INDEX + 1 :]],
    )
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, old_attributes)


def _readline_module() -> ModuleType | None:
    """The line editor; None on systems without one, where lines can be typed all the same."""
    try:
        import readline
    except ImportError:
        return None
    return readline
