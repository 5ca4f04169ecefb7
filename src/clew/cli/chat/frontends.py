"""Frontends of a chat, for reading and writing: a person's terminal, plain lines, or lines of JSON."""

import sys
from collections.abc import Iterable, Mapping
from typing import Protocol, TextIO

import msgspec
from rich.console import Console
from rich.text import Text

from clew.cli.chat.answer import ChatReply, ReplyCollector, ReplyWriter
from clew.cli.chat.keyboard import has_partial_line, prompt_line
from clew.cli.chat.messages import ChatOutput, ChatQuestion
from clew.cli.chat.screen import PROMPT_MARK
from clew.cli.render import values
from clew.core.errors import InvalidArgument
from clew.runtime.records.events import Event

PROMPT_COLOUR, PROMPT_RESET = "\x01\x1b[1;36m\x02", "\x01\x1b[0m\x02"
"""How the mark before a line is coloured; readline counts nothing between the two signs."""


class Frontend(Protocol):
    """One side of a chat. ``is_live`` says that a person sits before it."""

    is_live: bool

    def read_line(self) -> str | None:
        """The next line; None if there are no more."""
        ...

    def ask(self, question: ChatQuestion) -> str:
        """The answer to a question; an empty one if there is none."""
        ...

    def show(self, output: ChatOutput) -> None:
        """Show an outcome."""
        ...

    def show_reply(self, events: Iterable[Event]) -> ChatReply:
        """Show an answer, as it comes if that makes sense."""
        ...

    def show_error(self, error: Exception) -> None:
        """Say what went wrong."""
        ...

    def show_note(self, words: str) -> None:
        """Say something in passing."""
        ...


class TerminalFrontend:
    """A person at a terminal."""

    is_live = True

    def __init__(self, out: Console, labels: Mapping[str, str]) -> None:
        self._out = out
        self._labels = labels
        mark = PROMPT_MARK if out.encoding.startswith("utf") else "> "
        is_plain = out.no_color or out.is_dumb_terminal
        self._mark = mark if is_plain else f"{PROMPT_COLOUR}{mark}{PROMPT_RESET}"

    def read_line(self) -> str | None:
        """The next line, edited with the keys that a terminal has. Ctrl-C throws one away that was begun."""
        try:
            return prompt_line(self._mark)
        except EOFError:
            self._out.print()
            return None
        except KeyboardInterrupt:
            self._out.print()
            if has_partial_line():
                return ""
            raise

    def ask(self, question: ChatQuestion) -> str:
        """The answer; Ctrl-C and Ctrl-D are none."""
        try:
            return prompt_line(question.prompt)
        except (EOFError, KeyboardInterrupt):
            self._out.print()
            return ""

    def show(self, output: ChatOutput) -> None:
        """Show it, and leave a line."""
        if output.display:
            self._out.print(output.display)
        if output.question is None and not output.ends_chat:
            self._out.print()

    def show_reply(self, events: Iterable[Event]) -> ChatReply:
        """Write the answer while it comes."""
        writer, collector = ReplyWriter(self._out, self._labels), ReplyCollector()
        writer.begin()
        try:
            for event in events:
                writer.show_event(event)
                collector.add(event)
        finally:
            writer.end()
        self._out.print()
        return collector.reply

    def show_error(self, error: Exception) -> None:
        """One sentence; what was typed wrong is no error."""
        if isinstance(error, InvalidArgument):
            self._out.print(Text(values.clean(str(error)), style="yellow"))
        else:
            self._out.print(values.error_line(error))
        self._out.print()

    def show_note(self, words: str) -> None:
        """A dim line."""
        self._out.print(Text(words, style="dim"))


class LineFrontend:
    """Lines from a pipe or a file; answers as they were kept, and nothing around them."""

    is_live = False

    def __init__(self, source: TextIO, out: Console, err: Console) -> None:
        self._source = source
        self._out = out
        self._err = err

    def read_line(self) -> str | None:
        """The next line."""
        line = self._source.readline()
        return line.rstrip("\r\n") if line else None

    def ask(self, question: ChatQuestion) -> str:
        """The next line is the answer."""
        return self.read_line() or ""

    def show(self, output: ChatOutput) -> None:
        """Print an outcome; how the chat opened is of no use here."""
        if output.display and output.kind != "opened":
            self._out.print(output.display)
            self._out.file.flush()

    def show_reply(self, events: Iterable[Event]) -> ChatReply:
        """Print the answer once it is there."""
        reply = _collect_reply(events)
        self._out.file.write(f"{values.clean(reply.text)}\n")
        self._out.file.flush()
        return reply

    def show_error(self, error: Exception) -> None:
        """One sentence on the error stream."""
        self._err.print(values.error_line(error))

    def show_note(self, words: str) -> None:
        """Nobody is there to read it."""


class JsonLineFrontend(LineFrontend):
    """One object for each line that was given, and one for how the chat opened."""

    def show(self, output: ChatOutput) -> None:
        """The facts."""
        if output.question is None or output.question.is_required:
            self._write_object({"type": output.kind, **output.facts})

    def show_reply(self, events: Iterable[Event]) -> ChatReply:
        """The answer, once it is there."""
        reply = _collect_reply(events)
        self._write_object({"type": "answer", **msgspec.structs.asdict(reply)})
        return reply

    def show_error(self, error: Exception) -> None:
        """An error is an outcome like any other."""
        self._write_object({"type": "error", **values.error_value(error)})

    def _write_object(self, fields: Mapping[str, object]) -> None:
        self._out.file.write(msgspec.json.encode(fields).decode() + "\n")
        self._out.file.flush()


def _collect_reply(events: Iterable[Event]) -> ChatReply:
    collector = ReplyCollector()
    for event in events:
        collector.add(event)
    return collector.reply


def frontend_for(out: Console, err: Console, labels: Mapping[str, str], *, as_json: bool) -> Frontend:
    """The front end that fits how the command was started; ``labels`` name the stages of a turn.

    Characters that cannot be read or shown become a mark.
    """
    for stream in (sys.stdin, sys.stdout):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    if as_json:
        return JsonLineFrontend(sys.stdin, out, err)
    return (
        TerminalFrontend(out, labels)
        if sys.stdin.isatty() and out.is_terminal
        else LineFrontend(sys.stdin, out, err)
    )
