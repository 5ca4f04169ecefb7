"""The runtime: turns on threads that survive whatever happens to the process."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from holdfast.core.encoding import check_id
from holdfast.core.errors import InvalidId
from holdfast.core.ops import Document
from holdfast.core.values import Item, Page, Window
from holdfast.runtime.asking import Patience
from holdfast.runtime.beginning import Upgrade
from holdfast.runtime.context import MemoryMode
from holdfast.runtime.draft import Draft
from holdfast.runtime.driving import drive
from holdfast.runtime.events import Event
from holdfast.runtime.inputs import checked_inputs, user_item
from holdfast.runtime.loop import Stage, respond
from holdfast.runtime.messages import Message, item_of
from holdfast.runtime.models import Model
from holdfast.runtime.outputs import Done
from holdfast.runtime.resuming import resume
from holdfast.runtime.schema import Conversation, Schema, State
from holdfast.runtime.settings import Settings, new_run_id, now_ms
from holdfast.runtime.starting import Asked, Busy, reader, start
from holdfast.runtime.suspension import Decision
from holdfast.runtime.tools import Tool
from holdfast.threads.database import Database
from holdfast.threads.thread import Thread


class Runtime:
    """Runs turns on the threads of a database. Use it as an async context manager.

    Leaving it ends the turns that still run. The database stays open.
    """

    def __init__(
        self,
        db: Database,
        *,
        schema: type[State] = Conversation,
        stages: Sequence[Stage] | None = None,
        model: Model | None = None,
        response_model: Model | None = None,
        tools: Sequence[Tool] = (),
        instructions: str = "",
        output: type | None = None,
        schema_version: int = 1,
        upgrades: Mapping[int, Upgrade] | None = None,
        patience: Patience | None = None,
        lease_seconds: float = 15.0,
        memory_mode: MemoryMode = MemoryMode.LOCAL,
        clock: Callable[[], int] = now_ms,
        new_id: Callable[[], str] = new_run_id,
    ) -> None:
        self._db = db
        self._tasks: dict[str, set[asyncio.Task[Done]]] = {}
        self._settings = Settings(
            schema=Schema.of(schema, schema_version),
            stages=[respond(instructions=instructions, tools=tools)] if stages is None else list(stages),
            model=model,
            response_model=response_model,
            output=output,
            upgrades=upgrades or {},
            patience=patience or Patience(),
            lease_seconds=lease_seconds,
            memory_mode=memory_mode,
            memory_store=db.records,
            crisis_log_backend=db.records,
            clock=clock,
            new_id=new_id,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the turns that still run, durably."""
        tasks = [task for running in self._tasks.values() for task in running]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def run_turn(
        self,
        thread: str,
        message: str | Mapping[str, Any],
        *,
        user: str | None = None,
        key: str | None = None,
        busy: Busy = "wait",
        message_id: str | None = None,
        messages: Sequence[Message] = (),
        replace_state: Document | None = None,
        origin: str = "user",
        parent: str | None = None,
    ) -> Done:
        """Run one turn and give its result once its end is on disk.

        Raises:
            InvalidId: There is no thread id; the runtime never invents one.
            TurnBusy: Another turn is running and ``busy`` says not to wait.
            TurnSuspended: The thread waits for a decision.
            RunFailed: The turn could not be finished.
        """
        asked = self._asked(
            thread, message, user, key, busy, message_id, messages, replace_state, origin, parent
        )
        return await self._waited(self._started(thread, self._turn(asked, lambda event: None)))

    async def _waited(self, task: "asyncio.Task[Done]") -> Done:
        """The result of a turn; a caller that is cancelled cancels it."""
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise

    async def stream_turn(
        self,
        thread: str,
        message: str | Mapping[str, Any],
        *,
        user: str | None = None,
        key: str | None = None,
        busy: Busy = "wait",
        message_id: str | None = None,
        messages: Sequence[Message] = (),
        replace_state: Document | None = None,
        origin: str = "user",
        parent: str | None = None,
    ) -> AsyncIterator[Event]:
        """Run one turn and tell of it as it goes. A listener that leaves does not end the turn."""
        asked = self._asked(
            thread, message, user, key, busy, message_id, messages, replace_state, origin, parent
        )
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        task = self._started(thread, self._turn(asked, events.put_nowait))
        task.add_done_callback(lambda ended: events.put_nowait(None))
        while (event := await events.get()) is not None:
            yield event
        await task

    def _asked(
        self,
        thread: str,
        message: str | Mapping[str, Any],
        user: str | None,
        key: str | None,
        busy: Busy,
        message_id: str | None,
        messages: Sequence[Message],
        replace_state: Document | None,
        origin: str,
        parent: str | None,
    ) -> Asked:
        if not thread:
            raise InvalidId(what="thread id", problem="it is missing, and the runtime never makes one up")
        schema = self._settings.schema
        inputs = checked_inputs(schema, message)
        before: list[Item] = [item_of(entry) for entry in messages]
        return Asked(
            thread=check_id(thread, "thread id"),
            inputs=inputs,
            items=(*before, *user_item(schema, inputs, id=message_id)),
            user=user,
            key=key,
            busy=busy,
            replace=replace_state,
            origin=origin,
            parent=parent,
        )

    def _started(self, thread: str, work: Coroutine[Any, Any, Done]) -> "asyncio.Task[Done]":
        task = asyncio.get_running_loop().create_task(work)
        running = self._tasks.setdefault(thread, set())
        running.add(task)

        def forget(ended: "asyncio.Task[Done]") -> None:
            running.discard(ended)
            if not running:
                self._tasks.pop(thread, None)

        task.add_done_callback(forget)
        return task

    async def _turn(self, asked: Asked, emit: Callable[[Event], None]) -> Done:
        started = await start(self._scoped(asked.user), asked, self._settings)
        return started if isinstance(started, Done) else await drive(started, self._settings, emit)

    def _scoped(self, user: str | None) -> Database:
        return self._db if user is None else self._db.scope(tenant=self._db.tenant, user=user)

    async def resume(
        self, thread: str, decisions: Mapping[str, Decision] | None = None, *, user: str | None = None
    ) -> Done:
        """Go on with a run that waits for decisions, or that was interrupted, in whatever process.

        Raises:
            DecisionRefused: A decision is about no waiting call, or about one decided otherwise.
            InvalidArgument: There is nothing to resume.
            TurnBusy: The run is still at work somewhere.
        """
        return await self._waited(self._started(thread, self._resumed(thread, decisions or {}, user)))

    async def _resumed(self, thread: str, decisions: Mapping[str, Decision], user: str | None) -> Done:
        resumed = await resume(self._scoped(user), thread, decisions, self._settings)
        return await drive(resumed.started, self._settings, lambda event: None, resumed.begun)

    async def cancel(self, thread: str) -> bool:
        """End the turn that runs on a thread here; whether there was one."""
        tasks = list(self._tasks.get(thread, ()))
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        return bool(tasks)

    async def state(self, thread: str, *, at: int | None = None, user: str | None = None) -> State:
        """The state of a thread as the schema declares it, now or at an earlier version."""
        found: Thread = self._scoped(user).thread(thread)
        head = await found.head(at=at)
        lengths = {log: size.length for log, size in head.counters.logs.items()}
        return Draft(self._settings.schema, head.state, lengths, {}, reader(found)).view()

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
