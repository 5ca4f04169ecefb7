"""The course of a chat: read a line, answer it, until the user leaves. Ctrl-C stops an answer."""

import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from types import FrameType

import msgspec

from clew.cli.chat import commands, views
from clew.cli.chat.frontends import Frontend
from clew.cli.chat.keyboard import Completion, install_completion, without_echo
from clew.cli.chat.messages import ChatOutput
from clew.cli.chat.session import Chat
from clew.core.errors import ClewError
from clew.runtime.records.events import Event
from clew.runtime.records.runs import NATURAL
from clew.runtime.sessions.status import NONE
from clew.sync import BackgroundLoop

LEAVE_NOTE = "Ctrl-C again, Ctrl-D or /exit leaves."
STOP_NOTE = "Stopped. Ctrl-C again leaves."
MOST_HISTORY_LINES = 100
"""How many earlier messages the arrow keys bring back."""


class Tally(msgspec.Struct, kw_only=True):
    """The summary of a chat: its turns, the failed ones, and the thread on which it ended.

    ``has_thread`` says that the thread can be gone on with.
    """

    thread: str
    has_thread: bool = False
    turns: int = 0
    failures: int = 0


class ChatLoop:
    """A talk between a front, in this thread, and a runtime, which goes on in a thread of its own.

    A line is read with the terminal's own editing, which holds up its thread, and Ctrl-C reaches the main
    thread alone; meanwhile sessions have to be ended and leases renewed.
    """

    def __init__(self, chat: Chat, frontend: Frontend, loop: BackgroundLoop) -> None:
        self._chat = chat
        self._frontend = frontend
        self._loop = loop
        self.tally = Tally(thread=chat.participant.thread)

    def run(self) -> None:
        """Go on until there are no more lines, or the user leaves."""
        with without_echo() if self._frontend.is_live else nullcontext():
            self._show_opening()
            self._answer_lines()

    def _show_opening(self) -> None:
        opening = self._loop.run(views.opening, self._chat)
        self.tally.has_thread = opening.facts["status"] != NONE
        self._frontend.show(opening)
        if self._frontend.is_live:
            self._install_completion()

    def _answer_lines(self) -> None:
        is_interrupted = False
        while True:
            try:
                line = self._frontend.read_line()
            except KeyboardInterrupt:
                if not self._frontend.is_live:
                    raise
                if is_interrupted:
                    return
                is_interrupted = self._note_interrupt(LEAVE_NOTE)
                continue
            if line is None:
                return
            try:
                is_interrupted = False
                if line.strip() and not self._answer_line(line.strip()):
                    return
            except KeyboardInterrupt:
                is_interrupted = self._stop_turn()

    def _note_interrupt(self, words: str) -> bool:
        self._frontend.show_note(words)
        return True

    def _stop_turn(self) -> bool:
        """End the turn that is at work; where no person sits, the chat with it."""
        self._loop.run(self._chat.stop_turn)
        if not self._frontend.is_live:
            raise KeyboardInterrupt
        return self._note_interrupt(STOP_NOTE)

    def _answer_line(self, line: str) -> bool:
        """Answer a line; whether the chat goes on."""
        try:
            command = commands.parse_command(line)
            if command is None:
                self._run_turn(line)
                return True
            output: ChatOutput | None = self._loop.run(commands.run_chat_command, self._chat, *command)
            while output is not None:
                self._frontend.show(output)
                if output.ends_chat:
                    return False
                output = self._ask_question(output)
        except BrokenPipeError:  # nobody reads any more
            raise
        except (ClewError, OSError) as error:
            self.tally.failures += not self._frontend.is_live  # a person has seen it
            self._frontend.show_error(error)
        finally:
            self.tally.thread = self._chat.participant.thread
        return True

    def _run_turn(self, line: str) -> None:
        self.tally.has_thread = True
        reply = self._frontend.show_reply(self._turn_events(line))
        self.tally.turns += 1
        self.tally.failures += reply.termination != NATURAL
        if self._chat.shows_context and self._chat.participant.thread in self._chat.last_states:
            self._frontend.show(self._loop.run(views.context, self._chat, ()))

    def _turn_events(self, line: str) -> Iterator[Event]:
        """The events of a turn, each as it comes. Leaving them does not end the turn."""
        events: AsyncIterator[Event] = self._chat.turn_events(line)
        while (event := self._loop.run(anext, events, None)) is not None:
            yield event

    def _ask_question(self, output: ChatOutput) -> ChatOutput | None:
        question = output.question
        if question is None:
            return None
        is_asked = self._frontend.is_live or question.is_required
        return self._loop.run(question.on_answer, self._frontend.ask(question) if is_asked else "")

    def _install_completion(self) -> None:
        chat, loop = self._chat, self._loop
        sources = {
            "/resume": lambda: [thread.id for thread in loop.run(chat.threads, 100)],
            "/forget": lambda: [entry.id for entry in loop.run(chat.memory_entries)],
            "/memory": lambda: ["recall", "on", "off"],
            "/undo": lambda: ["turn"],
            "/context": lambda: ["on", "off"],
        }
        texts = [
            message.text for message in loop.run(chat.messages, MOST_HISTORY_LINES) if message.role == "user"
        ]
        install_completion(Completion(sources), [" ".join(text.split()) for text in texts])


def run_chat(opening: AbstractAsyncContextManager[Chat], make_frontend: Callable[[], Frontend]) -> Tally:
    """Open a talk, converse, and close it, which ends its session. Ctrl-C while it closes gives that up."""
    loop = BackgroundLoop()
    try:
        with _signals_as_exceptions():
            chat = loop.run(opening.__aenter__)
            try:
                chat_loop = ChatLoop(chat, make_frontend(), loop)
                chat_loop.run()
            finally:
                loop.run(opening.__aexit__, None, None, None)
            return chat_loop.tally
    finally:
        loop.close()


@contextmanager
def _signals_as_exceptions() -> Iterator[None]:
    """Ctrl-C as an exception here, not as the end of an event loop's task; other ends as polite ones."""

    def exit_process(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    handlers = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: exit_process,
        signal.SIGHUP: exit_process,
    }
    old_handlers = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, how in old_handlers.items():
            signal.signal(number, how)
