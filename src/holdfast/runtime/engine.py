"""The runtime: turns on threads that survive whatever happens to the process."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypedDict, Unpack, cast

import msgspec

from holdfast.core.encoding import check_id
from holdfast.core.errors import InvalidArgument, InvalidId, TurnBusy
from holdfast.core.ops import Document
from holdfast.core.values import Drop, Page, Window
from holdfast.runtime import queueing
from holdfast.runtime.asking import Patience
from holdfast.runtime.cancelling import cancel_elsewhere
from holdfast.runtime.compaction import Compacted, Compaction, Summarize
from holdfast.runtime.context import MemoryMode
from holdfast.runtime.declaring import schema_of
from holdfast.runtime.draft import Draft
from holdfast.runtime.driving import drive
from holdfast.runtime.ending import Finalize, end_now, nothing_left
from holdfast.runtime.episodes import Episode
from holdfast.runtime.events import Event, Mark, events_of
from holdfast.runtime.inputs import Given, checked_inputs, user_item
from holdfast.runtime.loop import Stage, respond
from holdfast.runtime.messages import Message, item_of
from holdfast.runtime.models import Model
from holdfast.runtime.outputs import Done, Output
from holdfast.runtime.resting import compact_at_rest
from holdfast.runtime.resuming import resume
from holdfast.runtime.rewinding import Rewound, rewind
from holdfast.runtime.runs import INTERRUPTED, QUEUED
from holdfast.runtime.schema import Conversation, Shape
from holdfast.runtime.settings import Settings, new_run_id, now_ms
from holdfast.runtime.starting import Asked, Busy, Interrupted, key_id, reader, start
from holdfast.runtime.suspension import Decision
from holdfast.runtime.sweeping import Sweeper, end_all
from holdfast.runtime.tools import Tool
from holdfast.runtime.upgrades import Upgrade, current
from holdfast.threads.database import Database
from holdfast.threads.thread import Thread

Emit = Callable[[Event], None]


class TurnOptions(TypedDict, total=False):
    """What can be said about a turn.

    ``user`` is on whose behalf it runs, ``key`` makes repeating it safe, ``busy`` says what to do while
    another turn runs: wait, refuse, or queue. ``message_id`` names the message and ``messages`` come before
    it; those that the thread has had before are left out. ``replace_state`` becomes the base state.
    ``origin`` and ``parent`` say where the run comes from.
    """

    user: str | None
    key: str | None
    busy: Busy
    message_id: str | None
    messages: Sequence[Message]
    replace_state: Document | None
    origin: str
    parent: str | None


class Runtime(Generic[Shape, Output]):
    """Runs turns on the threads of a database. Use it as an async context manager.

    While it is open it closes runs whose process died and begins turns that were queued. Leaving it ends
    the turns that still run. The database stays open.
    """

    def __init__(
        self,
        db: Database,
        *,
        schema: type[Shape] = Conversation,  # type: ignore[assignment]  # the default of Shape
        stages: Sequence[Stage] | None = None,
        model: Model | None = None,
        response_model: Model | None = None,
        tools: Sequence[Tool] = (),
        instructions: str = "",
        compaction: Compaction | None = None,
        output: type[Output] | None = None,
        schema_version: int = 1,
        upgrades: Mapping[int, Upgrade] | None = None,
        patience: Patience | None = None,
        lease_seconds: float = 15.0,
        sweep_seconds: float = 30.0,
        idle_seconds: float = 20 * 60.0,
        close_seconds: float = 10.0,
        finalize: Finalize = nothing_left,
        finalize_active_sessions_on_close: bool = True,
        memory_mode: MemoryMode = MemoryMode.LOCAL,
        clock: Callable[[], int] = now_ms,
        new_id: Callable[[], str] = new_run_id,
    ) -> None:
        self._db = db
        self._tasks: dict[str, set[asyncio.Task[Done[Any]]]] = {}
        self._queues: dict[str, asyncio.Task[None]] = {}
        self._touched: dict[str, tuple[Database, int]] = {}
        self._close_seconds = close_seconds if finalize_active_sessions_on_close else None
        self._compaction = compaction or Compaction()
        answer = respond(instructions=instructions, tools=tools, compaction=compaction)
        self._settings = Settings(
            schema=schema_of(schema, schema_version),
            stages=list(stages) if stages is not None else [answer],
            model=model,
            response_model=response_model,
            output=output,
            upgrades=upgrades or {},
            patience=patience or Patience(),
            lease_seconds=lease_seconds,
            idle_seconds=idle_seconds,
            finalize=finalize,
            memory_mode=memory_mode,
            memory_store=db.records,
            crisis_log_backend=db.records,
            clock=clock,
            new_id=new_id,
        )
        self._sweeper = Sweeper(db, self._settings, sweep_seconds, self._drain)

    async def __aenter__(self) -> Self:
        self._sweeper.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the turns that still run, and the episodes of the threads that had turns here, durably."""
        await self._sweeper.end()
        queues = list(self._queues.values())
        turns = [task for running in self._tasks.values() for task in running]
        for task in (*queues, *turns):
            task.cancel()
        if queues or turns:
            await asyncio.wait([*queues, *turns])
        if self._close_seconds is not None:
            await end_all(self._touched, self._settings, self._close_seconds)

    # Turns.

    async def run_turn(self, thread: str, message: Given, **options: Unpack[TurnOptions]) -> Done[Output]:
        """Run one turn and give its result once its end is on disk.

        Raises:
            InvalidId: There is no thread id; the runtime never invents one.
            TurnBusy: Another turn is running and ``busy`` says to refuse.
            TurnSuspended: The thread waits for a decision.
            RunFailed: The turn could not be finished.
        """
        asked = self._asked(thread, message, options)
        return await self._waited(self._task(thread, self._turn(asked, _nobody)))

    async def stream_turn(
        self, thread: str, message: Given, **options: Unpack[TurnOptions]
    ) -> AsyncIterator[Event]:
        """Run one turn and tell of it as it goes. A listener that leaves does not end the turn."""
        asked = self._asked(thread, message, options)
        told: asyncio.Queue[Event | None] = asyncio.Queue()
        task = self._task(thread, self._turn(asked, told.put_nowait))
        task.add_done_callback(lambda over: told.put_nowait(None))
        while (event := await told.get()) is not None:
            yield event
        await task

    async def resume(
        self, thread: str, decisions: Mapping[str, Decision] | None = None, *, user: str | None = None
    ) -> Done[Output]:
        """Go on with a run that waits for decisions, or that was interrupted, in whatever process.

        Raises:
            DecisionRefused: A decision is about no waiting call, or about one decided otherwise.
            InvalidArgument: There is nothing to resume.
            TurnBusy: The run is still at work somewhere.
        """
        work = self._resumed(self._scoped(user), thread, decisions or {}, _nobody)
        return await self._waited(self._task(thread, work))

    async def cancel(self, thread: str, *, user: str | None = None) -> bool:
        """End the run that is at work or waits on a thread, in whatever process; whether there was one.

        A run elsewhere is told, and ends when its lease is next renewed.
        """
        tasks = list(self._tasks.get(thread, ()))
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
            return True
        return await cancel_elsewhere(self._scoped(user), thread, self._settings)

    async def events(
        self, thread: str, *, after: Mark | None = None, user: str | None = None
    ) -> AsyncIterator[Event]:
        """The durable events of a thread as they commit, from the one after a mark on, or from now.

        They are read from the log, so any process tells the same, each once.
        """
        found = self._scoped(user).thread(thread)
        mark = ((await found.head()).version, LAST) if after is None else after
        async for change in found.watch(after=max(mark[0] - 1, 0)):
            for event in events_of(change):
                if event.mark is not None and event.mark > mark:
                    yield event

    def _asked(self, thread: str, message: Given, options: TurnOptions) -> Asked:
        if not thread:
            raise InvalidId(what="thread id", problem="it is missing, and the runtime never makes one up")
        schema = self._settings.schema
        inputs = checked_inputs(schema, message)
        said = user_item(schema, inputs, id=options.get("message_id"))
        return Asked(
            thread=check_id(thread, "thread id"),
            inputs=inputs,
            items=(*map(item_of, options.get("messages", ())), *said),
            user=options.get("user"),
            key=options.get("key"),
            busy=options.get("busy", "wait"),
            replace=options.get("replace_state"),
            origin=options.get("origin", "user"),
            parent=options.get("parent"),
        )

    def _task(self, thread: str, work: Coroutine[Any, Any, Done[Any]]) -> "asyncio.Task[Done[Any]]":
        task = asyncio.get_running_loop().create_task(work)
        running = self._tasks.setdefault(thread, set())
        running.add(task)

        def forget(over: "asyncio.Task[Done[Any]]") -> None:
            running.discard(over)
            if not running:
                self._tasks.pop(thread, None)

        task.add_done_callback(forget)
        return task

    async def _waited(self, task: "asyncio.Task[Done[Any]]") -> Done[Any]:
        """The result of a turn; a caller that is cancelled cancels it."""
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise

    async def _turn(self, asked: Asked, emit: Emit) -> Done[Any]:
        db = self._scoped(asked.user)
        if asked.key is not None and await queueing.holds(db, key_id(asked.thread, asked.key)):
            self._drain(db, asked.thread)
            await queueing.left(db, asked.thread, key_id(asked.thread, asked.key))
        if asked.busy != "queue":
            return await self._begun(db, asked, emit)
        if await queueing.first(db, asked.thread) is None:
            try:
                return await self._begun(db, asked, emit)
            except TurnBusy:
                pass
        key = asked.key or self._settings.new_id()
        later = msgspec.structs.replace(asked, key=key, busy="wait")
        await queueing.enqueue(db, key_id(asked.thread, key), later, self._settings.clock())
        self._drain(db, asked.thread)
        return Done(thread=asked.thread, run=key_id(asked.thread, key), version=0, termination=QUEUED)

    async def end_session(
        self, thread: str, *, feedback: str | None = None, by: str = "api", user: str | None = None
    ) -> Episode | None:
        """End the episode that a thread is in; None if it is in none.

        What it leaves behind is made at once if that works, and otherwise tried again in the background, in
        whatever process: the status says whether it is ``ended`` or still ``ending``.
        """
        db, settings = self._scoped(user), self._settings
        self._touched.pop(thread, None)
        return await end_now(db, thread, settings.finalize, by=by, now=settings.clock(), feedback=feedback)

    async def _begun(self, db: Database, asked: Asked, emit: Emit, leave: Drop | None = None) -> Done[Any]:
        self._touch(db, asked.thread)
        started = await start(db, asked, self._settings, leave)
        if isinstance(started, Done):
            return started
        if isinstance(started, Interrupted):
            return await self._taken_up(db, asked, started, emit)
        return await drive(started, self._settings, emit)

    def _touch(self, db: Database, thread: str) -> None:
        """Remember which threads had turns here lately; those idle for longer are ended by the sweep."""
        now = self._settings.clock()
        self._touched.pop(thread, None)
        self._touched[thread] = (db, now)
        idle = now - int(self._settings.idle_seconds * 1000)
        while (oldest := next(iter(self._touched.items())))[1][1] < idle:
            del self._touched[oldest[0]]

    async def _taken_up(self, db: Database, asked: Asked, broken: Interrupted, emit: Emit) -> Done[Any]:
        """Go on with a turn that was begun before; if the thread has gone on without it, that is its end."""
        try:
            return await self._resumed(db, asked.thread, {}, emit, run=broken.run)
        except InvalidArgument:
            return Done(thread=asked.thread, run=broken.run, version=0, termination=INTERRUPTED)

    async def _resumed(
        self,
        db: Database,
        thread: str,
        decisions: Mapping[str, Decision],
        emit: Emit,
        run: str | None = None,
    ) -> Done[Any]:
        resumed = await resume(db, thread, decisions, self._settings, only=run)
        if isinstance(resumed, Done):
            return resumed
        try:
            return await drive(resumed.started, self._settings, emit, resumed.begun)
        finally:
            self._drain(db, thread)

    def _drain(self, db: Database, thread: str) -> None:
        """Begin the queued turns of a thread, one after another, in the background."""
        if thread not in self._queues:
            task = asyncio.get_running_loop().create_task(self._drained(db, thread))
            self._queues[thread] = task
            task.add_done_callback(lambda over: self._queues.pop(thread, None))

    async def _drained(self, db: Database, thread: str) -> None:
        await queueing.drained(db, thread, lambda asked, leave: self._begun(db, asked, _nobody, leave))

    def _scoped(self, user: str | None) -> Database:
        return self._db if user is None else self._db.scope(tenant=self._db.tenant, user=user)

    # Threads.

    async def state(self, thread: str, *, at: int | None = None, user: str | None = None) -> Shape:
        """The state of a thread as the schema declares it, now or at an earlier version."""
        found: Thread = self._scoped(user).thread(thread)
        head = await found.head(at=at)
        schema, upgrades = self._settings.schema, self._settings.upgrades
        state = current(thread, head.state, schema, upgrades)
        view = Draft(schema, state, head.counters.logs, {}, reader(found)).view()
        return cast("Shape", view)  # the class that the schema was made from

    async def history(
        self, thread: str, *, last: int = 50, before: int | None = None, user: str | None = None
    ) -> Window:
        """A page of the history, oldest first; ``before`` is the place of the first item of the next page."""
        return await self._scoped(user).thread(thread).items(last=last, before=before)

    async def threads(self, *, user: str | None = None, limit: int = 50, after: str | None = None) -> Page:
        """The threads, newest first."""
        return await self._scoped(user).threads(limit=limit, after=after)

    async def fork(
        self, thread: str, new_id: str, *, at: int | None = None, user: str | None = None
    ) -> Thread:
        """A new thread that goes its own way from a version of another."""
        return await self._scoped(user).thread(thread).fork(new_id, at=at)

    async def rewind(
        self,
        thread: str,
        run: str | None = None,
        *,
        to: int | None = None,
        compaction: int | None = None,
        user: str | None = None,
    ) -> Rewound:
        """Take back what a run added to the history, everything after a version, or a compaction.

        ``run`` ends exactly that run's items, if they are the whole end of the thread. ``to`` makes history
        and state what they were. ``compaction`` is the version of one. Each is a new changeset, and the past
        stays readable. Effects on the world are not taken back; those are listed.

        Raises:
            RewindRefused: What should be taken back is not whole at the end any more.
            TurnBusy: A turn is at work.
            VersionConflict: Somebody wrote meanwhile; nothing was changed.
        """
        db = self._scoped(user)
        return await rewind(db, thread, self._settings, run=run, to=to, compaction=compaction)

    async def compact(
        self,
        thread: str,
        *,
        keep: int | None = None,
        summarize: Summarize | None = None,
        user: str | None = None,
    ) -> Compacted:
        """Put a summary in place of all messages but the newest few, as one changeset.

        Raises:
            InvalidArgument: There is nothing to compact, or somebody else keeps this history.
            TurnBusy: A turn is at work.
            TurnSuspended: Tool calls wait for a decision; it has to wait until they are answered.
            TranscriptBroken: Tool calls were left open; the next turn closes them.
            VersionConflict: Somebody wrote meanwhile; nothing was changed.
            ModelFailed: There is no summary; nothing was changed.
        """
        how = dataclasses.replace(
            self._compaction,
            keep=self._compaction.keep if keep is None else keep,
            summarize=summarize or self._compaction.summarize,
        )
        return await compact_at_rest(self._scoped(user), thread, how, self._settings)


LAST = 1 << 31
"""An index after every event of a version."""


def _nobody(event: Event) -> None:
    """Nobody listens."""
