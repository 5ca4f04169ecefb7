"""An answer as it is told: what was streamed, what was kept, and what a person sees of it meanwhile."""

from collections.abc import Mapping

import msgspec
from rich.console import Console
from rich.text import Text

from clew.cli.chat.screen import INDENT
from clew.cli.chat.wrap import Wrapping
from clew.cli.render.values import clean, short
from clew.runtime.model.messages import CALL
from clew.runtime.records.events import Event, MessageAdded, RunFinished, RunStarted, StageStarted, TextDelta
from clew.runtime.records.runs import NATURAL

ERASE = "\r\x1b[K"


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn came to."""

    run: str | None = None
    text: str = ""
    termination: str = NATURAL
    problem: str | None = None


class Answer:
    """Collects the texts of a turn from its events. What was kept counts, not what was streamed before."""

    def __init__(self) -> None:
        self._kept: list[str] = []
        self._live = ""
        self._heard = Heard()

    def hear(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case RunStarted():
                self._heard = msgspec.structs.replace(self._heard, run=event.run)
            case TextDelta():
                self._live += event.text
            case MessageAdded(message=message) if message.role == "assistant" and message.text:
                self._kept.append(message.text)
            case RunFinished():
                self._heard = msgspec.structs.replace(
                    self._heard, termination=event.termination, problem=event.problem
                )

    @property
    def heard(self) -> Heard:
        """All of it; a reply that could not be kept is what was streamed."""
        text = "\n\n".join(self._kept) if self._kept else self._live
        return msgspec.structs.replace(self._heard, text=text)


class LiveAnswer:
    """Writes an answer while it comes, and a word about what is at work until then.

    A second attempt begins anew. A message that was not streamed, or was kept otherwise, is written whole.
    """

    def __init__(self, console: Console, labels: Mapping[str, str]) -> None:
        self._console = console
        self._labels = labels
        self._lines = Wrapping(console.width, INDENT)
        self._said = ""
        self._attempt: tuple[int, int] | None = None
        self._waiting = False

    def begin(self) -> None:
        """Show that the message was heard."""
        self._wait("…")

    def hear(self, event: Event) -> None:
        """Show one event."""
        match event:
            case StageStarted(name=name) if name in self._labels and not self._said:
                self._wait(f"{self._labels[name]} …")
            case TextDelta():
                self._stream(event)
            case MessageAdded(message=message) if message.kind == CALL:
                self._close()
                self._console.print(Text(f"{INDENT}· {clean(str(message.name))}", style="dim"))
            case MessageAdded(message=message) if message.role == "assistant" and message.text:
                self._keep(message.text)

    def end(self) -> None:
        """Finish the line, whether or not the answer is whole."""
        self._close()

    def _stream(self, event: TextDelta) -> None:
        attempt = (event.step, event.attempt)
        if self._said and attempt != self._attempt:
            again = self._attempt is not None and event.step == self._attempt[0]
            self._close()
            if again:
                self._console.print(Text(f"{INDENT}(That was cut off. Once more:)", style="dim"))
        self._attempt = attempt
        self._said += event.text
        self._write(self._lines.add(clean(event.text)))

    def _keep(self, text: str) -> None:
        if self._said != text:
            self._close()
            self._write(self._lines.add(clean(text)))
        self._close()

    def _close(self) -> None:
        self._write(self._lines.end())
        self._said = ""

    def _wait(self, words: str) -> None:
        if self._console.is_dumb_terminal:
            return
        self._console.file.write(ERASE)
        self._console.print(Text(INDENT + short(words, self._console.width - 4)), style="dim", end="")
        self._console.file.flush()
        self._waiting = True

    def _write(self, text: str) -> None:
        if self._waiting:
            self._console.file.write(ERASE)
            self._waiting = False
        self._console.file.write(text)
        self._console.file.flush()
