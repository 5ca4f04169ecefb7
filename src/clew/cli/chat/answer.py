"""An answer as it comes: text streamed, messages stored, and the screen meanwhile."""

from collections.abc import Mapping

import msgspec
from rich.console import Console
from rich.text import Text

from clew.cli.chat.screen import INDENT
from clew.cli.chat.wrap import LineWrapper
from clew.cli.render.values import clean, shorten
from clew.runtime.model.messages import CALL
from clew.runtime.records.events import Event, MessageAdded, RunFinished, RunStarted, StageStarted, TextDelta
from clew.runtime.records.runs import NATURAL

ERASE_LINE = "\r\x1b[K"


class ChatReply(msgspec.Struct, frozen=True, kw_only=True):
    """The reply of a turn."""

    run: str | None = None
    text: str = ""
    termination: str = NATURAL
    problem: str | None = None


class ReplyCollector:
    """Collects the texts of a turn from its events. What was kept counts, not what was streamed before."""

    def __init__(self) -> None:
        self._messages: list[str] = []
        self._stream_text = ""
        self._reply = ChatReply()

    def add(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case RunStarted():
                self._reply = msgspec.structs.replace(self._reply, run=event.run)
            case TextDelta():
                self._stream_text += event.text
            case MessageAdded(message=message) if message.role == "assistant" and message.text:
                self._messages.append(message.text)
            case RunFinished():
                self._reply = msgspec.structs.replace(
                    self._reply, termination=event.termination, problem=event.problem
                )

    @property
    def reply(self) -> ChatReply:
        """All of it; a reply that could not be kept is what was streamed."""
        text = "\n\n".join(self._messages) if self._messages else self._stream_text
        return msgspec.structs.replace(self._reply, text=text)


class ReplyWriter:
    """Writes an answer while it comes, and a word about what is at work until then.

    A second attempt begins anew. A message that was not streamed, or was kept otherwise, is written whole.
    """

    def __init__(self, console: Console, labels: Mapping[str, str]) -> None:
        self._console = console
        self._labels = labels
        self._wrapper = LineWrapper(console.width, INDENT)
        self._message_text = ""
        self._attempt: tuple[int, int] | None = None
        self._is_waiting = False

    def begin(self) -> None:
        """Show that the message was heard."""
        self._show_status("…")

    def show_event(self, event: Event) -> None:
        """Show one event."""
        match event:
            case StageStarted(name=name) if name in self._labels and not self._message_text:
                self._show_status(f"{self._labels[name]} …")
            case TextDelta():
                self._write_delta(event)
            case MessageAdded(message=message) if message.kind == CALL:
                self._end_message()
                self._console.print(Text(f"{INDENT}· {clean(str(message.name))}", style="dim"))
            case MessageAdded(message=message) if message.role == "assistant" and message.text:
                self._write_message(message.text)

    def end(self) -> None:
        """Finish the line, whether or not the answer is whole."""
        self._end_message()

    def _write_delta(self, event: TextDelta) -> None:
        attempt = (event.step, event.attempt)
        if self._message_text and attempt != self._attempt:
            is_retry = self._attempt is not None and event.step == self._attempt[0]
            self._end_message()
            if is_retry:
                self._console.print(Text(f"{INDENT}(That was cut off. Once more:)", style="dim"))
        self._attempt = attempt
        self._message_text += event.text
        self._write(self._wrapper.add(clean(event.text)))

    def _write_message(self, text: str) -> None:
        if self._message_text != text:
            self._end_message()
            self._write(self._wrapper.add(clean(text)))
        self._end_message()

    def _end_message(self) -> None:
        self._write(self._wrapper.end())
        self._message_text = ""

    def _show_status(self, words: str) -> None:
        if self._console.is_dumb_terminal:
            return
        self._console.file.write(ERASE_LINE)
        self._console.print(Text(INDENT + shorten(words, self._console.width - 4)), style="dim", end="")
        self._console.file.flush()
        self._is_waiting = True

    def _write(self, text: str) -> None:
        if self._is_waiting:
            self._console.file.write(ERASE_LINE)
            self._is_waiting = False
        self._console.file.write(text)
        self._console.file.flush()
