"""The text of running answers: recorded while they come, kept where another process finds it, and replayed.

An answer is written to the store in batches, beside the turn. One that is committed before the first batch is
due costs no write at all. Nothing that goes wrong here reaches the turn: at worst its text is not replayed,
and the message comes whole.
"""

import asyncio
import logging
from collections.abc import Coroutine
from functools import cached_property
from typing import Any, TypeAlias

import msgspec

from clew.core.errors import ClewError
from clew.core.log.rows import AskThread, ask
from clew.core.ports import ProvisionalTexts
from clew.core.values import ProvisionalText, Scope
from clew.database.database import Database
from clew.database.provisional import MOST_TEXTS, decode_parts, encode_part, provisional_texts
from clew.runtime.turn.journal import ThreadJournal

log = logging.getLogger("clew")
LONGEST_TEXT = 64 * 1024
"""The most bytes of an answer that are kept, unless a runtime is configured otherwise."""
WRITE_SECONDS = 0.1
"""The time from a delta until it is written. What an answer gains meanwhile is written together."""


class ReplayedAnswer:
    """An answer as a store has it: its run is at work in another process, or was."""

    def __init__(self, text: ProvisionalText) -> None:
        self.header = text
        self.pieces = decode_parts(text.parts)


class RecordedAnswer:
    """An answer that a turn of this process is about to give."""

    def __init__(self, journal: ThreadJournal, step: int, attempt: int) -> None:
        self.step = step
        self.attempt = attempt
        self.pieces: list[str] = []
        self.size = 0
        self.is_full = False
        self.written_count = 0
        self.is_lost = False
        """True if the store does not have it any more, or never had: nothing more is written."""
        self._journal = journal
        self._version = journal.version

    @cached_property
    def header(self) -> ProvisionalText:
        """The names that tell it from other answers. Most answers are over before anybody asks."""
        run = self._journal.run
        return ProvisionalText(
            thread=run.thread,
            owner=self._journal.owner,
            run=run.id,
            version=self._version,
            step=self.step,
            attempt=self.attempt,
        )


AnswerText: TypeAlias = ReplayedAnswer | RecordedAnswer


class TextRecorder:
    """Records the answers of one turn, one at a time: the newest that was begun."""

    def __init__(self, journal: ThreadJournal, longest: int) -> None:
        self.answer: RecordedAnswer | None = None
        self._journal = journal
        self._longest = longest
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._waiters: set[asyncio.Future[None]] = set()

    def add(self, text: str, step: int, attempt: int, offset: int) -> None:
        """Record some more text of a step and attempt, at an offset.

        Of an answer that is longer than it may be, the rest is left out.
        """
        answer = self.answer
        if answer is None or answer.attempt != attempt or answer.step != step:
            # Of two answers at a time the newer one counts. One whose beginning was dropped is left out.
            if offset or (answer is not None and (answer.step, answer.attempt) > (step, attempt)):
                return
            answer = self._begin(step, attempt)
        if answer.is_full:
            return
        answer.size += len(text) if text.isascii() else len(encode_part(text))
        if answer.size > self._longest:
            answer.is_full = True
            return
        answer.pieces.append(text)
        if self._waiters:
            self._wake()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WRITE_SECONDS, self._start_write)

    def end_answer(self) -> None:
        """Write no more of an answer that has ended: it is about to be committed, and the log has it then."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def forget(self) -> None:
        """Forget the answer: it is committed, or never will be. What the store has of it goes too."""
        answer, self.answer = self.answer, None
        self.end_answer()
        if answer is not None and answer.written_count:
            self._start(self._drop(answer))

    async def close(self) -> None:
        """Forget the answer, and return when the store has nothing of the turn."""
        self.forget()
        self._wake()
        if self._task is not None:
            await asyncio.wait([self._task])

    def waiter(self) -> "asyncio.Future[None]":
        """Return a future that is done once there is more text, or none any more."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        waiter.add_done_callback(self._waiters.discard)
        return waiter

    def _wake(self) -> None:
        for waiter in list(self._waiters):
            if not waiter.done():
                waiter.set_result(None)

    def _begin(self, step: int, attempt: int) -> RecordedAnswer:
        self.forget()
        self.answer = RecordedAnswer(self._journal, step, attempt)
        return self.answer

    def _start_write(self) -> None:
        self._timer = None
        answer, store = self.answer, provisional_texts(self._journal.db.store)
        if answer is not None and store is not None and not answer.is_lost:
            self._start(self._write(answer, store))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start some work on the store, after what was started before."""
        self._task = asyncio.get_running_loop().create_task(_run_after(self._task, work))

    async def _write(self, answer: RecordedAnswer, store: ProvisionalTexts) -> None:
        """Write what the store does not have yet."""
        if answer.is_lost or answer is not self.answer:
            return
        first, answer.written_count = answer.written_count, len(answer.pieces)
        part = encode_part("".join(answer.pieces[first:]))
        if first:
            answer.is_lost = not await store.extend(self._scope, answer.header, part)
        else:
            answer.is_lost = not await self._write_first(answer.header, part, store)

    async def _write_first(self, header: ProvisionalText, part: bytes, store: ProvisionalTexts) -> bool:
        """Write the first part of an answer; return whether the store has it."""
        text = msgspec.structs.replace(header, parts=(part,))
        if not await store.begin(self._scope, text, MOST_TEXTS):
            return False
        # After it is written, not before: erasing removes the thread first, and then the texts.
        if await self._journal.db.store.read(self._scope, ask(AskThread(header.thread))) is not None:
            return True
        await store.drop(self._scope, header.thread, header)
        return False

    async def _drop(self, answer: RecordedAnswer) -> None:
        store = provisional_texts(self._journal.db.store)
        if store is not None:
            await store.drop(self._scope, answer.header.thread, answer.header)

    @property
    def _scope(self) -> Scope:
        return Scope(tenant=self._journal.db.tenant, user=self._journal.db.user)


async def _run_after(previous: "asyncio.Task[None] | None", work: Coroutine[Any, Any, None]) -> None:
    """Run some work on the store once the work before it has ended. A failure is logged, and no more."""
    if previous is not None:
        await asyncio.wait([previous])
    try:
        await work
    except ClewError as error:
        log.warning("The text of a running answer is not kept for who reconnects: %s", error)


class LiveTexts:
    """The recorders of the turns of a runtime, by tenant and thread. If ``longest`` is 0 there are none."""

    def __init__(self, longest: int = LONGEST_TEXT) -> None:
        self.longest = longest
        self._recorders: dict[tuple[str, str], TextRecorder] = {}

    def start(self, journal: ThreadJournal) -> TextRecorder | None:
        """Start to record the answers of a turn."""
        if not self.longest:
            return None
        recorder = TextRecorder(journal, self.longest)
        self._recorders[journal.db.tenant, journal.run.thread] = recorder
        return recorder

    async def end(self, journal: ThreadJournal, recorder: TextRecorder | None) -> None:
        """Stop recording a turn; nothing of its text is left."""
        if recorder is None:
            return
        key = (journal.db.tenant, journal.run.thread)
        if self._recorders.get(key) is recorder:
            del self._recorders[key]
        await recorder.close()

    def recorder(self, db: Database, thread: str) -> TextRecorder | None:
        """Return the recorder of the turn that is at work on a thread in this process."""
        return self._recorders.get((db.tenant, thread))
