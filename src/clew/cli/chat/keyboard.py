"""The keyboard: lines are edited and completed with the terminal's own means; typing ahead is not shown."""

import sys
import termios
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType

from clew.cli.chat.commands import NAMES

Words = Callable[[], Sequence[str]]


class Completion:
    """Completes commands, and behind a command what it takes. Matches are asked for one after another."""

    def __init__(self, words: Mapping[str, Words]) -> None:
        self._words = words
        self._found: list[str] = []

    def look(self, line: str, word: str) -> list[str]:
        """What the last word of a line may become."""
        before = line[: len(line) - len(word)].split()
        if before:
            offered: Sequence[str] = self._words[before[0]]() if before[0] in self._words else ()
        else:
            offered = list(NAMES) if word.startswith("/") else ()
        self._found = [f"{each} " for each in offered if each.startswith(word)]
        return self._found

    def match(self, number: int) -> str | None:
        """One of the matches, by its number."""
        return self._found[number] if number < len(self._found) else None


SETTINGS = ("bell-style none", "show-all-if-ambiguous on", "enable-bracketed-paste on")
FLAGS = 3
"""Where the flags of the keyboard stand among the attributes of a terminal."""


def install(completion: Completion, earlier: Sequence[str]) -> None:
    """Have lines completed and edited. What was typed before is offered, and kept nowhere."""
    readline = _readline()
    if readline is None:
        return

    def match(word: str, number: int) -> str | None:
        if number == 0:
            completion.look(readline.get_line_buffer()[: readline.get_endidx()], word)
        return completion.match(number)

    readline.set_completer(match)
    readline.set_completer_delims(" \t\n")
    if "libedit" in (readline.__doc__ or ""):
        readline.parse_and_bind("bind ^I rl_complete")
    else:
        for line in ("tab: complete", *(f"set {setting}" for setting in SETTINGS)):
            readline.parse_and_bind(line)
    readline.clear_history()
    for line in earlier:
        readline.add_history(line)


def typed(prompt: str) -> str:
    """A line that is typed now.

    Raises:
        EOFError: There are no more.
        KeyboardInterrupt: It was broken off.
    """
    with _echo(on=True):
        return input(prompt)


def is_begun() -> bool:
    """Whether something stood in the line that was broken off."""
    readline = _readline()
    return readline is not None and bool(readline.get_line_buffer())


@contextmanager
def held_back() -> Iterator[None]:
    """What is typed ahead waits for its prompt, and does not show in the middle of an answer."""
    with _echo(on=False):
        yield


@contextmanager
def _echo(*, on: bool) -> Iterator[None]:
    before = termios.tcgetattr(sys.stdin)
    flags = before[FLAGS] | termios.ECHO if on else before[FLAGS] & ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSANOW, [*before[:FLAGS], flags, *before[FLAGS + 1 :]])
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


def _readline() -> ModuleType | None:
    """What edits lines; there is none on some systems, where they can be typed all the same."""
    try:
        import readline
    except ImportError:
        return None
    return readline
