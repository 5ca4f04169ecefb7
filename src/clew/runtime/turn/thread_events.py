"""The events of a thread as they come: durable ones from the log, then the text of a running answer.

The text comes from the turn itself if that is at work in this process, and otherwise from the store, to which
the process of the turn writes it. It is void once its run has committed again, or has ended.
"""

import asyncio
from collections.abc import AsyncGenerator

from clew.core.values import ProvisionalText, Scope
from clew.database.database import Database
from clew.database.provisional import provisional_texts
from clew.database.thread import WATCH_SECONDS, Thread, changesets_after
from clew.runtime.records.events import Event, Mark, TextDelta, events_of
from clew.runtime.records.runs import RUNNING
from clew.runtime.state.run_state import RunState
from clew.runtime.turn.live_text import AnswerText, LiveTexts, ReplayedAnswer

POLL_SECONDS = 0.1
"""The time between two looks at the store, while a run of another process is followed."""


class ThreadEvents:
    """Follows a thread from the event after a mark on."""

    def __init__(self, db: Database, thread: str, texts: LiveTexts, mark: Mark) -> None:
        self._db = db
        self._thread: Thread = db.thread(thread)
        self._texts = texts
        self._mark = mark
        self._version = max(mark[0] - 1, 0)
        self._cursor = _TextCursor(self._thread)
        self._waiter: asyncio.Future[None] | None = None

    async def events(self) -> AsyncGenerator[Event, None]:
        """Iterate over the events, for ever."""
        while True:
            async for change in changesets_after(self._thread, self._version):
                self._version = change.version
                for event in events_of(change):
                    if event.mark is not None and event.mark > self._mark:
                        yield event
            change_task = asyncio.ensure_future(
                self._thread.wait_for_change(self._version, timeout=WATCH_SECONDS)
            )
            try:
                run = await self._running_run()
                while run is not None and not change_task.done():
                    delta = await self._next_delta(run)
                    if delta is not None and not change_task.done():
                        yield delta
                    await self._wait_for_text(change_task)
                await change_task
            finally:
                self._stop_waiting()
                change_task.cancel()

    async def _running_run(self) -> str | None:
        """Return the run that is at work on the thread, if every event before it was given out."""
        head = await self._thread.head()
        run = RunState.of(head.state)
        return run.id if run.status == RUNNING and head.version == self._version else None

    async def _next_delta(self, run: str) -> TextDelta | None:
        self._stop_waiting()
        recorder = self._texts.recorder(self._db, self._thread.id)
        if recorder is not None:
            self._waiter = recorder.waiter()  # before the text is read: what comes in between wakes it
        answer = await self._stored_answer() if recorder is None else recorder.answer
        if answer is None or answer.header.run != run:
            return None
        return await self._cursor.next_delta(answer, self._version)

    async def _wait_for_text(self, change_task: "asyncio.Future[None]") -> None:
        """Return when there may be more text, or the thread has changed."""
        if self._waiter is None:
            await asyncio.wait([change_task], timeout=POLL_SECONDS)
        else:
            await asyncio.wait([change_task, self._waiter], return_when=asyncio.FIRST_COMPLETED)

    def _stop_waiting(self) -> None:
        if self._waiter is not None:
            self._waiter.cancel()
            self._waiter = None

    async def _stored_answer(self) -> AnswerText | None:
        texts = provisional_texts(self._db.store)
        if texts is None:
            return None
        scope = Scope(tenant=self._db.tenant, user=self._db.user)
        text = await texts.read(scope, self._thread.id)
        return None if text is None else ReplayedAnswer(text)


class _TextCursor:
    """The position of a follower in the text of the running answer."""

    def __init__(self, thread: Thread) -> None:
        self._thread = thread
        self._id: str | None = None
        self._length = 0
        self._source: AnswerText | None = None
        self._piece_count = 0
        self._checked: tuple[str, int] | None = None
        self._is_void = False

    async def next_delta(self, answer: AnswerText, version: int) -> TextDelta | None:
        """Return what is new of an answer, for a follower that has had every event up to a version."""
        header = answer.header
        if self._checked != (header.id, version):
            self._is_void = await is_void(self._thread, header, version)
            self._checked = (header.id, version)
        if self._is_void:
            return None
        if self._id != header.id:
            self._id, self._length = header.id, 0
        text, offset = self._new_text(answer), self._length
        if not text:
            return None
        self._length += len(text)
        return TextDelta(run=header.run, text=text, step=header.step, attempt=header.attempt, offset=offset)

    def _new_text(self, answer: AnswerText) -> str:
        # Of a recorder's answer only the new pieces are joined. The store may divide the text otherwise.
        if answer is not self._source:
            self._source, self._piece_count = answer, len(answer.pieces)
            return "".join(answer.pieces)[self._length :]
        first, self._piece_count = self._piece_count, len(answer.pieces)
        return "".join(answer.pieces[first:])


async def is_void(thread: Thread, header: ProvisionalText, version: int) -> bool:
    """Return whether a text does not belong behind a version of a thread: its run has committed since."""
    if header.version > version:
        return True  # it is of a thread that had this id before
    async for change in changesets_after(thread, header.version, upto=version):
        if change.run_id == header.run:
            return True
    return False
