"""Turns under way in this process: begun, queued, taken up again, and ended when the runtime is closed."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

import msgspec

from clew.core.errors import ClewError, InvalidArgument, StoreFailed, TurnBusy
from clew.core.values import Drop
from clew.database.database import Database
from clew.runtime.context import MemoryMode
from clew.runtime.execution import queue
from clew.runtime.execution.drive import drive
from clew.runtime.execution.resume import resume
from clew.runtime.execution.safe_reply import without_store
from clew.runtime.execution.start import Asked, Interrupted, Started, earlier_run, key_id, made_before, start
from clew.runtime.execution.turn_lines import LinePlace, TurnLines
from clew.runtime.placement import Home
from clew.runtime.records.events import Event
from clew.runtime.records.runs import INTERRUPTED, QUEUED, SUSPENDED
from clew.runtime.turn.approvals import Decision
from clew.runtime.turn.journal import Recent
from clew.runtime.turn.result import Done

log = logging.getLogger("clew")
Emit = Callable[[Event], None]


class Turns:
    """The turns of one runtime."""

    def __init__(self) -> None:
        self.touched: dict[str, tuple[Database, int]] = {}
        self._recent = Recent()
        self._lines = TurnLines()
        self._tasks: dict[str, set[asyncio.Task[Done[Any]]]] = {}
        self._queues: dict[str, asyncio.Task[None]] = {}

    @property
    def is_idle(self) -> bool:
        """Whether no turn is at work, and none is about to begin."""
        return not self._tasks and not self._queues

    def is_busy(self, thread: str) -> bool:
        """Whether a turn is at work on a thread, or about to begin."""
        return thread in self._tasks or thread in self._queues

    async def cancel(self, thread: str) -> bool:
        """End the turns on a thread, durably; whether there were any."""
        tasks = list(self._tasks.get(thread, ()))
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        return bool(tasks)

    async def stop(self, threads: Iterable[str] | None = None) -> None:
        """End every turn, durably, also those that were about to begin; on some threads, or on all."""
        chosen = {*self._tasks, *self._queues} if threads is None else set(threads)
        queues = [self._queues[thread] for thread in chosen if thread in self._queues]
        turns = [task for thread in chosen for task in self._tasks.get(thread, ())]
        for task in (*queues, *turns):
            task.cancel()
        if queues or turns:
            await asyncio.wait([*queues, *turns])

    def task(self, thread: str, work: Coroutine[Any, Any, Done[Any]]) -> "asyncio.Task[Done[Any]]":
        """Work on a thread, in a task that is ended with the runtime."""
        task = asyncio.get_running_loop().create_task(work)
        running = self._tasks.setdefault(thread, set())
        running.add(task)

        def forget(over: "asyncio.Task[Done[Any]]") -> None:
            running.discard(over)
            if not running:
                self._tasks.pop(thread, None)

        task.add_done_callback(forget)
        return task

    async def waited(self, task: "asyncio.Task[Done[Any]]") -> Done[Any]:
        """The result of a turn; a caller that is cancelled cancels it."""
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise

    async def run(self, home: Home, asked: Asked, emit: Emit) -> Done[Any]:
        """Run a turn to its end, or put it into the queue. If none can be begun, the gates answer alone."""
        with self._lines.join(home.db, asked.thread) as place:
            try:
                await self._reach(home, asked, place)
                started = await self._begun(home, asked)
            except StoreFailed as failure:
                place.disperse()  # those behind find the store as it is; one after another they wait too long
                return await without_store(home.db, asked, home.settings, emit, failure)
            return await self._went_on(home, asked, started, emit, place)

    async def _reach(self, home: Home, asked: Asked, place: LinePlace) -> None:
        """Wait in line, if this is a turn of its own and is to wait.

        A turn sent again waits for its first sending alone, not for what came in between.
        """
        if asked.key is not None and await queue.holds(home.db, key_id(asked.thread, asked.key)):
            place.leave()  # the queue stands in line itself
            self.drain(home, asked.thread)
            seconds = home.settings.patience.turn
            await queue.left(home.db, asked.thread, key_id(asked.thread, asked.key), seconds=seconds)
        if asked.busy != "wait" and not place.is_reached:
            place.leave()
        if not place.is_reached and await earlier_run(home.db, asked) is not None:
            place.leave()
        await place.reach(home.db.thread(asked.thread))

    async def _begun(self, home: Home, asked: Asked) -> Started | Interrupted | Done[Any]:
        """Begin a turn, or put it into the queue."""
        db = home.db
        self.touch(home, asked.thread)
        if asked.busy != "queue":
            return await start(db, asked, home.settings, recent=self._recent)
        if await queue.first(db, asked.thread) is None:
            try:
                return await start(db, asked, home.settings, recent=self._recent)
            except TurnBusy:
                pass
        key = asked.key or home.settings.new_id()
        later = msgspec.structs.replace(asked, key=key, busy="wait")
        await queue.enqueue(db, key_id(asked.thread, key), later, home.settings.clock())
        self.drain(home, asked.thread)
        return Done(thread=asked.thread, run=key_id(asked.thread, key), version=0, termination=QUEUED)

    async def _went_on(
        self,
        home: Home,
        asked: Asked,
        started: Started | Interrupted | Done[Any],
        emit: Emit,
        place: LinePlace,
    ) -> Done[Any]:
        if isinstance(started, Done):
            return started
        if isinstance(started, Interrupted):
            return await self._taken_up(home, asked, started, emit, place)
        place.start_turn()
        done = await drive(started, home.settings, emit)
        place.end_turn(started.journal.version, awaited=started.journal.run.awaited)
        if done.termination != SUSPENDED and (rest := started.journal.rest) is not None:
            self._recent.keep(home.db, rest)
        return done

    def touch(self, home: Home, thread: str) -> None:
        """Remember which threads had turns here lately; those idle for longer are ended by the sweep."""
        if home.settings.memory_mode is MemoryMode.INCOGNITO:
            return  # it is forgotten at the close, not ended
        now = home.settings.clock()
        self.touched.pop(thread, None)
        self.touched[thread] = (home.db, now)
        idle = now - int(home.settings.idle_seconds * 1000)
        while (oldest := next(iter(self.touched.items())))[1][1] < idle:
            del self.touched[oldest[0]]

    async def _taken_up(
        self, home: Home, asked: Asked, broken: Interrupted, emit: Emit, place: LinePlace
    ) -> Done[Any]:
        """Go on with a turn that was begun before, unless somebody else does who was sent it too.

        If the thread has gone on without it, that is its end.
        """
        try:
            return await self.resumed(home, asked.thread, {}, emit, run=broken.run)
        except TurnBusy:
            if asked.busy != "wait":
                raise
            started = await start(home.db, asked, home.settings)
            return await self._went_on(home, asked, started, emit, place)
        except InvalidArgument:
            over = await made_before(home.db, asked, home.settings)
            if isinstance(over, Done):
                return over
            return Done(thread=asked.thread, run=broken.run, version=0, termination=INTERRUPTED)

    async def resume_run(
        self, home: Home, thread: str, decisions: Mapping[str, Decision], emit: Emit
    ) -> Done[Any]:
        """Take up the run that stopped on a thread, at once; a turn that comes meanwhile stands behind it."""
        with self._lines.join(home.db, thread) as place:
            if not place.is_reached:
                place.leave()
            return await self.resumed(home, thread, decisions, emit)

    async def record_voice(self, home: Home, asked: Asked) -> Done[Any]:
        """Commit a turn that was spoken in a call, whole, behind the turns that came before it.

        If its key was used before, it gives what became of the turn then.

        Raises:
            KeyReused: The key was used for another turn.
            TurnSuspended: The thread waits for a decision.
        """
        with self._lines.join(home.db, asked.thread) as place:
            await place.reach(home.db.thread(asked.thread))
            started = await start(home.db, asked, home.settings)
        if isinstance(started, Done):
            return started
        assert isinstance(started, Started)  # what is over when it begins is never interrupted
        run, reply = started.journal.run, asked.spoken.reply if asked.spoken is not None else ""
        return Done(thread=run.thread, run=run.id, version=started.journal.version, text=reply)

    async def resumed(
        self,
        home: Home,
        thread: str,
        decisions: Mapping[str, Decision],
        emit: Emit,
        run: str | None = None,
    ) -> Done[Any]:
        """Take a run up where it stopped, and bring it to its end."""
        resumed = await resume(home.db, thread, decisions, home.settings, only=run)
        if isinstance(resumed, Done):
            return resumed
        try:
            return await drive(resumed.started, home.settings, emit, resumed.begun)
        finally:
            self.drain(home, thread)

    def drain(self, home: Home, thread: str) -> None:
        """Begin the queued turns of a thread, one after another, in the background."""
        if thread not in self._queues:
            task = asyncio.get_running_loop().create_task(self._drained(home, thread))
            self._queues[thread] = task
            task.add_done_callback(lambda over: self._queues.pop(thread, None))

    async def _drained(self, home: Home, thread: str) -> None:
        async def begin(asked: Asked, leave: Drop) -> Done[Any]:
            with self._lines.join(home.db, asked.thread) as place:
                await place.reach(home.db.thread(asked.thread))
                self.touch(home, asked.thread)
                started = await start(home.db, asked, home.settings, leave, recent=self._recent)
                return await self._went_on(home, asked, started, nobody, place)

        try:
            await queue.drained(home.db, thread, begin)
        except ClewError as error:  # nobody awaits it; the next sweep looks at the queue again
            log.warning("The queued turns of thread %s wait for the next sweep: %s", thread, error)


def nobody(event: Event) -> None:
    """Nobody listens."""
