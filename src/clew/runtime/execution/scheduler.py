"""The scheduler: the turns of this process, started, queued, resumed, and ended with the runtime."""

import asyncio
import contextvars
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping
from contextlib import aclosing
from typing import Any, TypeAlias

import msgspec

from clew.core.errors import ClewError, InvalidArgument, StoreFailed, TurnBusy
from clew.core.values import Drop
from clew.database.database import Database
from clew.runtime.context import MemoryMode
from clew.runtime.execution import queue
from clew.runtime.execution.drive import drive_turn
from clew.runtime.execution.resume import resume_run
from clew.runtime.execution.safe_reply import run_gates_without_store
from clew.runtime.execution.start import (
    StartedTurn,
    TurnRequest,
    check_writable,
    earlier_run,
    find_earlier_turn,
    start_turn,
)
from clew.runtime.execution.takeover import TAKEOVERS, stop_current_run
from clew.runtime.execution.turn_lines import LinePlace, TurnLines
from clew.runtime.placement import Placement
from clew.runtime.records.events import Event, ignore_event
from clew.runtime.records.runs import INTERRUPTED, NATURAL, QUEUED, SUSPENDED, Run, run_id_for_key
from clew.runtime.state.call_state import Decision
from clew.runtime.telemetry.scope import current_scope
from clew.runtime.turn.result import TurnResult

log = logging.getLogger("clew")
LOOK_SOON = 0.05
"""Seconds between two looks of a turn that ends the one at work before it in line."""

EmitEvent: TypeAlias = Callable[[Event], None]
"""Takes the events of a turn as they come."""


class Scheduler:
    """The turns of one runtime."""

    def __init__(self) -> None:
        self.recent_threads: dict[str, tuple[Database, int]] = {}
        """The database of each thread that had a turn here lately, and when the turn was asked for."""
        self._lines = TurnLines()
        self._tasks: dict[str, set[asyncio.Task[TurnResult[Any]]]] = {}
        self._queue_tasks: dict[str, asyncio.Task[None]] = {}

    @property
    def is_idle(self) -> bool:
        """True if no turn is at work, and none is about to start."""
        return not self._tasks and not self._queue_tasks

    def is_busy(self, thread: str) -> bool:
        """Return whether a turn is at work on a thread, or about to start."""
        return thread in self._tasks or thread in self._queue_tasks

    async def cancel(self, thread: str) -> bool:
        """Cancel the turns on a thread and wait for their durable ends; return whether there were any."""
        tasks = list(self._tasks.get(thread, ()))
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        return bool(tasks)

    async def stop(self, threads: Iterable[str] | None = None) -> None:
        """Cancel every turn on some threads or on all, also those about to start, and wait for the ends."""
        ids = {*self._tasks, *self._queue_tasks} if threads is None else set(threads)
        queues = [self._queue_tasks[thread] for thread in ids if thread in self._queue_tasks]
        turns = [task for thread in ids for task in self._tasks.get(thread, ())]
        for task in (*queues, *turns):
            task.cancel()
        if queues or turns:
            await asyncio.wait([*queues, *turns])

    def start_task(
        self, thread: str, work: Coroutine[Any, Any, TurnResult[Any]]
    ) -> "asyncio.Task[TurnResult[Any]]":
        """Start work on a thread, in a task that is ended with the runtime."""
        task = asyncio.get_running_loop().create_task(work)
        running = self._tasks.setdefault(thread, set())
        running.add(task)

        def forget(ended_task: "asyncio.Task[TurnResult[Any]]") -> None:
            running.discard(ended_task)
            if not running:
                self._tasks.pop(thread, None)

        task.add_done_callback(forget)
        return task

    def stream(
        self, thread: str, work: "Callable[[EmitEvent], Coroutine[Any, Any, TurnResult[Any]]]"
    ) -> "aclosing[AsyncGenerator[Event, None]]":
        """Iterate over the events of work on a thread, which starts then, and goes on if it is left."""
        return aclosing(self._events(thread, work))

    async def _events(
        self, thread: str, work: "Callable[[EmitEvent], Coroutine[Any, Any, TurnResult[Any]]]"
    ) -> AsyncGenerator[Event, None]:
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        task = self.start_task(thread, work(events.put_nowait))
        task.add_done_callback(lambda ended_task: events.put_nowait(None))
        while (event := await events.get()) is not None:
            yield event
        await task

    async def wait_for(self, task: "asyncio.Task[TurnResult[Any]]") -> TurnResult[Any]:
        """Wait for the result of a turn; a caller that is cancelled cancels the turn."""
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # A cancelled turn makes its end durable and returns a result. The caller is cancelled all the
            # same, but not before that end is on disk.
            task.cancel()
            await asyncio.wait([task])
            raise

    async def run(
        self, placement: Placement, request: TurnRequest, emit: Callable[[Event], None]
    ) -> TurnResult[Any]:
        """Run a turn to its end, or put it into the queue. If the store fails, the gates answer alone."""
        with (
            placement.settings.turn_scope(request.thread, request.user) as scope,
            self._lines.join(placement.db, request.thread) as place,
        ):
            try:
                await self._reach(placement, request, place)
                start = await self._start_or_queue(placement, request, place)
            except StoreFailed as failure:
                # The turns behind would each wait for the store to fail once more, one after another.
                place.disperse()
                result = await run_gates_without_store(
                    placement.db, request, placement.settings, emit, failure
                )
                scope.end_run(result.termination, failure)
                return result
            return await self._run_to_end(placement, request, start, emit, place)

    async def _reach(self, placement: Placement, request: TurnRequest, place: LinePlace) -> None:
        """Wait in line, if this is a turn of its own and is to wait.

        A turn sent again waits for its first sending alone, not for what came in between.
        """
        run = request.run_id
        if run is not None and await queue.is_queued(placement.db, run):
            await check_writable(placement.db, request.thread, placement.settings)
            place.leave()  # the queued turn takes a place in the line itself
            self.drain_queue(placement, request.thread)
            seconds = placement.settings.config.deadlines.turn_seconds
            await queue.wait_until_dequeued(placement.db, request.thread, run, seconds=seconds)
        if request.busy in ("refuse", "queue") and not place.is_reached:
            place.leave()  # the store then says that the thread is busy, and the turn is refused or queued
        if not place.is_reached and await earlier_run(placement.db, request) is not None:
            place.leave()
        if request.busy in TAKEOVERS:
            await self._overtake(placement, request, place)
        await place.reach(placement.db.thread(request.thread))

    async def _overtake(self, placement: Placement, request: TurnRequest, place: LinePlace) -> None:
        """Go before the turns that wait in line, and end the one at work."""
        place.overtake()
        while not place.is_reached:
            await stop_current_run(
                placement.db,
                request.thread,
                TAKEOVERS[request.busy],
                placement.settings,
                own_run=request.run_id,
            )
            # Again and again: the turn before may only be about to start.
            await place.wait_briefly(LOOK_SOON)

    async def _start_or_queue(
        self, placement: Placement, request: TurnRequest, place: LinePlace
    ) -> StartedTurn | Run | TurnResult[Any]:
        """Start a turn, or put it into the queue."""
        db = placement.db
        self.touch_thread(placement, request.thread)
        if request.busy != "queue":
            return await start_turn(db, request, placement.settings, place=place)
        # Behind a turn that waits in the queue this one waits too, even if the thread is free just now.
        if await queue.oldest_turn(db, request.thread) is None:
            try:
                return await start_turn(db, request, placement.settings, place=place)
            except TurnBusy:
                pass
        else:
            await check_writable(db, request.thread, placement.settings)
        # The key fixes the id of the run now, for the caller, and no two processes can run the turn twice.
        key = request.key or placement.settings.new_id()
        run = run_id_for_key(request.thread, key)
        scope = current_scope()
        scope.end_run(QUEUED)
        queued_request = msgspec.structs.replace(request, key=key, busy="wait", trace=scope.trace)
        now, agent = placement.settings.clock(), placement.settings.agent
        await queue.enqueue_turn(db, run, queued_request, now, agent=agent)
        self.drain_queue(placement, request.thread)
        return TurnResult(thread=request.thread, run=run, version=0, termination=QUEUED)

    async def _run_to_end(
        self,
        placement: Placement,
        request: TurnRequest,
        start: StartedTurn | Run | TurnResult[Any],
        emit: Callable[[Event], None],
        place: LinePlace,
    ) -> TurnResult[Any]:
        if isinstance(start, TurnResult):
            return start
        if isinstance(start, Run):
            return await self._resume_interrupted(placement, request, start, emit, place)
        place.start_turn()
        result = await drive_turn(start, placement.settings, emit)
        is_incognito = placement.settings.memory_mode is MemoryMode.INCOGNITO
        tails = {} if is_incognito else start.draft.tails  # what was said incognito is not remembered here
        place.end_turn(start.journal, tails, suspended=result.termination == SUSPENDED)
        return result

    def touch_thread(self, placement: Placement, thread: str) -> None:
        """Remember a thread as one that had a turn here lately: its episode is ended with the runtime.

        Those idle for longer are forgotten: the sweep ends their episodes.
        """
        if placement.settings.memory_mode is MemoryMode.INCOGNITO:
            return  # an incognito thread is forgotten at the close, and has no episode to end
        now = placement.settings.clock()
        self.recent_threads.pop(thread, None)  # it goes to the end: they are in the order of their last turns
        self.recent_threads[thread] = (placement.db, now)
        idle_before = now - placement.settings.config.sessions.idle_ms
        while self.recent_threads[oldest := next(iter(self.recent_threads))][1] < idle_before:
            del self.recent_threads[oldest]

    async def _resume_interrupted(
        self,
        placement: Placement,
        request: TurnRequest,
        run: Run,
        emit: Callable[[Event], None],
        place: LinePlace,
    ) -> TurnResult[Any]:
        """Resume a turn that was started before, unless another process that was sent it does so.

        If the thread has gone on without it, the turn stays interrupted.
        """
        try:
            return await self._resume(placement, request.thread, {}, emit, run=run.id)
        except TurnBusy:
            if request.busy in ("refuse", "queue"):
                raise
            started = await start_turn(placement.db, request, placement.settings)
            return await self._run_to_end(placement, request, started, emit, place)
        except InvalidArgument:
            result = await find_earlier_turn(placement.db, request, placement.settings)
            if isinstance(result, TurnResult):
                return result
            return TurnResult(thread=request.thread, run=run.id, version=0, termination=INTERRUPTED)

    async def resume_run(
        self,
        placement: Placement,
        thread: str,
        decisions: Mapping[str, Decision],
        emit: Callable[[Event], None],
    ) -> TurnResult[Any]:
        """Resume the run that stopped on a thread, at once; a turn that comes meanwhile waits behind it."""
        with placement.settings.turn_scope(thread, None), self._lines.join(placement.db, thread) as place:
            if not place.is_reached:
                place.leave()  # the run has the thread already, and goes before turns that want it
            return await self._resume(placement, thread, decisions, emit)

    async def record_voice(self, placement: Placement, request: TurnRequest) -> TurnResult[Any]:
        """Commit a turn that was spoken in a call, whole, behind the turns that came before it.

        If its key was used before, the result is that of the first turn.

        Raises:
            KeyReused: The key was used for another turn.
            TurnSuspended: The thread waits for a decision.
        """
        with (
            placement.settings.turn_scope(request.thread, request.user) as scope,
            self._lines.join(placement.db, request.thread) as place,
        ):
            await place.reach(placement.db.thread(request.thread))
            started = await start_turn(placement.db, request, placement.settings)
            if isinstance(started, TurnResult):
                return started
            assert isinstance(started, StartedTurn)  # one that is over when it starts is never interrupted
            scope.begin_run(started.journal.run.id)
            scope.end_run(NATURAL)
        run, reply = started.journal.run, request.spoken.reply if request.spoken is not None else ""
        return TurnResult(thread=run.thread, run=run.id, version=started.journal.version, text=reply)

    async def _resume(
        self,
        placement: Placement,
        thread: str,
        decisions: Mapping[str, Decision],
        emit: Callable[[Event], None],
        run: str | None = None,
    ) -> TurnResult[Any]:
        """Resume a run where it stopped, and drive it to its end."""
        start = await resume_run(placement.db, thread, decisions, placement.settings, only=run)
        if isinstance(start, TurnResult):
            return start
        try:
            return await drive_turn(start, placement.settings, emit)
        finally:
            self.drain_queue(placement, thread)

    def drain_queue(self, placement: Placement, thread: str) -> None:
        """Start the queued turns of a thread, one after another, in the background."""
        if thread not in self._queue_tasks:
            # In a context of its own: the turns of others are no part of the one that happens to wake them.
            task = asyncio.get_running_loop().create_task(
                self._run_queue(placement, thread), context=contextvars.Context()
            )
            self._queue_tasks[thread] = task
            task.add_done_callback(lambda ended_task: self._queue_tasks.pop(thread, None))

    async def _run_queue(self, placement: Placement, thread: str) -> None:
        async def run_turn(request: TurnRequest, queue_entry: Drop) -> TurnResult[Any]:
            settings = placement.settings
            with (
                settings.turn_scope(request.thread, request.user, parent=request.trace),
                self._lines.join(placement.db, request.thread) as place,
            ):
                await place.reach(placement.db.thread(request.thread))
                self.touch_thread(placement, request.thread)
                start = await start_turn(placement.db, request, settings, queue_entry, place=place)
                return await self._run_to_end(placement, request, start, ignore_event, place)

        try:
            await queue.run_queued_turns(placement.db, thread, run_turn)
        except ClewError as error:  # nobody awaits it; the next sweep looks at the queue again
            log.warning("The queued turns of thread %s wait for the next sweep: %s", thread, error)
