"""The course of a chat: read a line, answer it, until somebody leaves. Ctrl-C stops an answer."""

import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from types import FrameType

import msgspec

from clew.cli.chat import commands, views
from clew.cli.chat.frontends import Front
from clew.cli.chat.keyboard import Completion, held_back, install
from clew.cli.chat.messages import Told
from clew.cli.chat.session import Talk
from clew.core.errors import ClewError
from clew.runtime.records.events import Event
from clew.runtime.records.runs import NATURAL
from clew.runtime.sessions.status import NONE
from clew.sync import BackgroundLoop

AGAIN = "Ctrl-C again, Ctrl-D or /exit leaves."
STOPPED = "Stopped. Ctrl-C again leaves."
RECALLED = 100
"""How many earlier messages the arrow keys bring back."""


class Tally(msgspec.Struct, kw_only=True):
    """What a chat came to: how many turns, how many of them failed, and on which thread it ended.

    ``is_begun`` says that the thread can be gone on with.
    """

    thread: str
    is_begun: bool = False
    turns: int = 0
    failed: int = 0


class Chat:
    """A talk between a front, in this thread, and a runtime, which goes on in a thread of its own.

    A line is read with the terminal's own editing, which holds up its thread, and Ctrl-C reaches the main
    thread alone; meanwhile sessions have to be ended and leases renewed.
    """

    def __init__(self, talk: Talk, front: Front, loop: BackgroundLoop) -> None:
        self._talk = talk
        self._front = front
        self._loop = loop
        self.tally = Tally(thread=talk.who.thread)

    def converse(self) -> None:
        """Go on until there are no more lines, or somebody leaves."""
        with held_back() if self._front.is_live else nullcontext():
            self._open()
            self._go_on()

    def _open(self) -> None:
        opening = self._loop.run(views.opening, self._talk)
        self.tally.is_begun = opening.facts["status"] != NONE
        self._front.tell(opening)
        if self._front.is_live:
            self._install_completion()

    def _go_on(self) -> None:
        is_interrupted = False
        while True:
            try:
                line = self._front.read()
            except KeyboardInterrupt:
                if not self._front.is_live:
                    raise
                if is_interrupted:
                    return
                is_interrupted = self._noted(AGAIN)
                continue
            if line is None:
                return
            try:
                is_interrupted = False
                if line.strip() and not self._answered(line.strip()):
                    return
            except KeyboardInterrupt:
                is_interrupted = self._stopped()

    def _noted(self, words: str) -> bool:
        self._front.note(words)
        return True

    def _stopped(self) -> bool:
        """End the turn that is at work; where no person sits, the chat with it."""
        self._loop.run(self._talk.stop)
        if not self._front.is_live:
            raise KeyboardInterrupt
        return self._noted(STOPPED)

    def _answered(self, line: str) -> bool:
        """Answer a line; whether the chat goes on."""
        try:
            command = commands.parsed(line)
            if command is None:
                self._turn(line)
                return True
            told: Told | None = self._loop.run(commands.done, self._talk, *command)
            while told is not None:
                self._front.tell(told)
                if told.leaves:
                    return False
                told = self._asked_back(told)
        except BrokenPipeError:  # nobody reads any more
            raise
        except (ClewError, OSError) as error:
            self.tally.failed += not self._front.is_live  # a person has seen it
            self._front.complain(error)
        finally:
            self.tally.thread = self._talk.who.thread
        return True

    def _turn(self, line: str) -> None:
        self.tally.is_begun = True
        heard = self._front.hear(self._events(line))
        self.tally.turns += 1
        self.tally.failed += heard.termination != NATURAL

    def _events(self, line: str) -> Iterator[Event]:
        """The events of a turn, each as it comes. Leaving them does not end the turn."""
        steps: AsyncIterator[Event] = self._talk.turn(line)
        while (step := self._loop.run(anext, steps, None)) is not None:
            yield step

    def _asked_back(self, told: Told) -> Told | None:
        question = told.question
        if question is None:
            return None
        is_asked = self._front.is_live or question.needed
        return self._loop.run(question.then, self._front.ask(question) if is_asked else "")

    def _install_completion(self) -> None:
        talk, loop = self._talk, self._loop
        words = {
            "/resume": lambda: [thread.id for thread in loop.run(talk.threads, 100)],
            "/forget": lambda: [entry.id for entry in loop.run(talk.known)],
            "/memory": lambda: ["recall", "on", "off"],
            "/undo": lambda: ["turn"],
        }
        said = [message.text for message in loop.run(talk.said, RECALLED) if message.role == "user"]
        install(Completion(words), [" ".join(text.split()) for text in said])


def chatted(opening: AbstractAsyncContextManager[Talk], make_front: Callable[[], Front]) -> Tally:
    """Open a talk, converse, and close it, which ends its session. Ctrl-C while it closes gives that up."""
    loop = BackgroundLoop()
    try:
        with _signals():
            talk = loop.run(opening.__aenter__)
            try:
                chat = Chat(talk, make_front(), loop)
                chat.converse()
            finally:
                loop.run(opening.__aexit__, None, None, None)
            return chat.tally
    finally:
        loop.close()


@contextmanager
def _signals() -> Iterator[None]:
    """Ctrl-C as an exception here, not as the end of an event loop's task; other ends as polite ones."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    wanted = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: end, signal.SIGHUP: end}
    before = {number: signal.signal(number, how) for number, how in wanted.items()}
    try:
        yield
    finally:
        for number, how in before.items():
            signal.signal(number, how)
