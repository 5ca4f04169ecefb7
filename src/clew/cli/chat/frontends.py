"""Where a chat is read and written: a person's terminal, plain lines, or lines of JSON."""

import sys
from collections.abc import Iterable, Mapping
from typing import Protocol, TextIO

import msgspec
from rich.console import Console
from rich.text import Text

from clew.cli.chat.answer import Answer, Heard, LiveAnswer
from clew.cli.chat.keyboard import is_begun, typed
from clew.cli.chat.messages import Question, Told
from clew.cli.chat.screen import MARK
from clew.cli.render import values
from clew.companion.values import STAGE_LABELS
from clew.core.errors import InvalidArgument
from clew.runtime.records.events import Event

COLOUR, PLAIN = "\x01\x1b[1;36m\x02", "\x01\x1b[0m\x02"
"""How the mark before a line is coloured; readline counts nothing between the two signs."""


class Front(Protocol):
    """One side of a chat. ``is_live`` says that a person sits before it."""

    is_live: bool

    def read(self) -> str | None:
        """The next line; None if there are no more."""
        ...

    def ask(self, question: Question) -> str:
        """The answer to a question; an empty one if there is none."""
        ...

    def tell(self, told: Told) -> None:
        """Show an outcome."""
        ...

    def hear(self, events: Iterable[Event]) -> Heard:
        """Show an answer, as it comes if that makes sense."""
        ...

    def complain(self, error: Exception) -> None:
        """Say what went wrong."""
        ...

    def note(self, words: str) -> None:
        """Say something in passing."""
        ...


class Screen:
    """A person at a terminal."""

    is_live = True

    def __init__(self, out: Console, labels: Mapping[str, str]) -> None:
        self._out = out
        self._labels = labels
        mark = MARK if out.encoding.startswith("utf") else "> "
        plain = out.no_color or out.is_dumb_terminal
        self._mark = mark if plain else f"{COLOUR}{mark}{PLAIN}"

    def read(self) -> str | None:
        """The next line, edited with the keys that a terminal has. Ctrl-C throws one away that was begun."""
        try:
            return typed(self._mark)
        except EOFError:
            self._out.print()
            return None
        except KeyboardInterrupt:
            self._out.print()
            if is_begun():
                return ""
            raise

    def ask(self, question: Question) -> str:
        """The answer; Ctrl-C and Ctrl-D are none."""
        try:
            return typed(question.prompt)
        except (EOFError, KeyboardInterrupt):
            self._out.print()
            return ""

    def tell(self, told: Told) -> None:
        """Show it, and leave a line."""
        if told.shown:
            self._out.print(told.shown)
        if told.question is None and not told.leaves:
            self._out.print()

    def hear(self, events: Iterable[Event]) -> Heard:
        """Write the answer while it comes."""
        live, answer = LiveAnswer(self._out, self._labels), Answer()
        live.begin()
        try:
            for event in events:
                live.hear(event)
                answer.hear(event)
        finally:
            live.end()
        self._out.print()
        return answer.heard

    def complain(self, error: Exception) -> None:
        """One sentence; what was typed wrong is no error."""
        if isinstance(error, InvalidArgument):
            self._out.print(Text(values.clean(str(error)), style="yellow"))
        else:
            self._out.print(values.error_line(error))
        self._out.print()

    def note(self, words: str) -> None:
        """A dim line."""
        self._out.print(Text(words, style="dim"))


class Lines:
    """Lines from a pipe or a file; answers as they were kept, and nothing around them."""

    is_live = False

    def __init__(self, given: TextIO, out: Console, err: Console) -> None:
        self._given = given
        self._out = out
        self._err = err

    def read(self) -> str | None:
        """The next line."""
        line = self._given.readline()
        return line.rstrip("\r\n") if line else None

    def ask(self, question: Question) -> str:
        """The next line is the answer."""
        return self.read() or ""

    def tell(self, told: Told) -> None:
        """Print an outcome; how the chat opened is of no use here."""
        if told.shown and told.kind != "opened":
            self._out.print(told.shown)
            self._out.file.flush()

    def hear(self, events: Iterable[Event]) -> Heard:
        """Print the answer once it is there."""
        heard = _collected(events)
        self._out.file.write(f"{values.clean(heard.text)}\n")
        self._out.file.flush()
        return heard

    def complain(self, error: Exception) -> None:
        """One sentence on the error stream."""
        self._err.print(values.error_line(error))

    def note(self, words: str) -> None:
        """Nobody is there to read it."""


class JsonLines(Lines):
    """One object for each line that was given, and one for how the chat opened."""

    def tell(self, told: Told) -> None:
        """The facts."""
        if told.question is None or told.question.needed:
            self._write({"type": told.kind, **told.facts})

    def hear(self, events: Iterable[Event]) -> Heard:
        """The answer, once it is there."""
        heard = _collected(events)
        self._write({"type": "answer", **msgspec.structs.asdict(heard)})
        return heard

    def complain(self, error: Exception) -> None:
        """An error is an outcome like any other."""
        self._write({"type": "error", **values.error_value(error)})

    def _write(self, line: Mapping[str, object]) -> None:
        self._out.file.write(msgspec.json.encode(line).decode() + "\n")
        self._out.file.flush()


def _collected(events: Iterable[Event]) -> Heard:
    answer = Answer()
    for event in events:
        answer.hear(event)
    return answer.heard


def front_for(out: Console, err: Console, *, as_json: bool) -> Front:
    """The front that fits how the command was started. What cannot be read or shown becomes a mark."""
    for stream in (sys.stdin, sys.stdout):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    if as_json:
        return JsonLines(sys.stdin, out, err)
    return Screen(out, STAGE_LABELS) if sys.stdin.isatty() and out.is_terminal else Lines(sys.stdin, out, err)
