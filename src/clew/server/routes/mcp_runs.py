"""Runs behind MCP's tasks: a turn that goes on behind its reply, and its record as a task."""

import asyncio
import logging
import secrets
from collections.abc import Coroutine, Mapping
from typing import Any, Self

from clew.api.runs import NewDecision, NewDecisions, RunView
from clew.api.turns import NewTurn, TurnView
from clew.core.errors import RecordNotFound, ThreadNotFound
from clew.core.values import Item
from clew.database.thread import Thread
from clew.runtime.context import MemoryMode
from clew.runtime.execution import queue
from clew.runtime.records.events import Mark
from clew.runtime.records.runs import DONE, KIND, RUNNING, WAITING, Run, run_id_for_key, run_of
from clew.runtime.runtime import AFTER_LAST_EVENT
from clew.runtime.state.run_state import RunState
from clew.runtime.turn.result import stored_result
from clew.server.http.callers import Caller
from clew.server.http.parameters import memory_mode
from clew.server.http.views import approval_view, message_views, run_view, turn_view
from clew.server.protocols.mcp.tasks import TaskRun
from clew.server.routes.runs import approvals_of_run, cancel_run, decide
from clew.server.routes.turns import turn_events

log = logging.getLogger("clew.server")
MCP = "mcp"
"""The origin of turns that come by MCP."""
RECENT_ITEMS = 256
"""How many of the newest items are looked through for the answer of a run that stored no result."""


class BackgroundTurns:
    """Turns of this process that go on behind the reply to their request.

    They end with the runtimes, which drain them. Here they are only followed.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, caller: Caller, thread: str, turn: NewTurn, key: str | None) -> str | None:
        """Start a turn, or put it into the queue, and return its run once that is stored.

        None if it is incognito: such a turn is answered at once, and no record names it.
        """
        scope = caller.scope_for(turn.user)
        mode = memory_mode(turn.mode)
        if mode is MemoryMode.INCOGNITO or await caller.incognito.has_thread(scope, thread):
            return None
        run_key = key or secrets.token_hex(16)  # with a key, the run stores its result
        run = run_id_for_key(thread, run_key)
        started, mark = asyncio.Event(), await _last_mark(caller, thread)

        async def follow_turn() -> None:
            # From here on: what an earlier process did of this run is no sign that it goes on.
            events = turn_events(caller, thread, turn, key=run_key, origin=MCP, after=mark)
            async for event in events:
                if event.data.get("run") == run:
                    started.set()

        await self._run_until(follow_turn(), started.wait())
        return run

    async def decide(self, caller: Caller, run: str, decisions: Mapping[str, NewDecision]) -> None:
        """Decide about calls that a run waits for, and return once that is stored; the run goes on."""
        thread = caller.db.thread(run_of(await caller.db.records.get(KIND, run)).thread)
        version = (await thread.head()).version

        async def follow_run() -> None:
            await resume_task_run(caller, run, decisions)

        await self._run_until(follow_run(), _wait_for_change(thread, version))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        """Follow them no more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run_until(self, work: Coroutine[Any, Any, None], sign: Coroutine[Any, Any, Any]) -> None:
        """Run work in the background, and return at a sign that it is stored, or with its end."""
        work_task, sign_task = asyncio.create_task(work), asyncio.create_task(sign)
        self._tasks.add(work_task)
        work_task.add_done_callback(self._forget)
        try:
            await asyncio.wait([work_task, sign_task], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sign_task.cancel()
        if work_task.done():
            work_task.result()

    def _forget(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.debug("A turn failed behind its reply, as its run says: %s", task.exception())


async def _last_mark(caller: Caller, thread: str) -> Mark:
    """Return a mark after every event that a thread has had."""
    try:
        return (await caller.db.thread(thread).head()).version, AFTER_LAST_EVENT
    except ThreadNotFound:
        return 0, AFTER_LAST_EVENT


async def _wait_for_change(thread: Thread, version: int) -> None:
    async for _ in thread.watch(after=version):
        return


async def get_task_run(caller: Caller, run: str) -> TaskRun:
    """Return a run of the caller's as a task, also one that waits in the queue.

    Raises:
        RecordNotFound: There is none.
    """
    if (task := await _incognito_run(caller, run)) is not None:
        return task
    try:
        return await _recorded_run(caller, run)
    except RecordNotFound:
        pass
    try:
        record = await caller.db.records.get(queue.KIND, run)
    except RecordNotFound:
        return await _recorded_run(caller, run)  # it may have begun just now
    thread = queue.request_of(record).thread
    view = RunView(id=run, thread=thread, status=RUNNING, origin=MCP, started=record.sort)
    return TaskRun(run=view, is_queued=True)


async def _recorded_run(caller: Caller, id: str) -> TaskRun:
    run = run_of(await caller.db.records.get(KIND, id))
    view = run_view(run, await approvals_of_run(caller, run))
    return TaskRun(run=view, turn=await _turn_of_run(caller, run) if run.status == DONE else None)


async def _incognito_run(caller: Caller, id: str) -> TaskRun | None:
    """Return a run of an incognito thread, as far as its state says; no record names it."""
    name = await caller.incognito.thread_of_run(caller.scope, id)
    thread = None if name is None else await caller.incognito.readable_thread(caller.scope, name)
    if thread is None:
        return None
    head = await thread.head()
    approvals = [approval_view(each) for each in RunState.of(head.state).approvals]
    status = WAITING if approvals else RUNNING
    return TaskRun(
        run=RunView(
            id=id, thread=thread.id, status=status, origin=MCP, started=head.updated, waiting=approvals
        )
    )


async def _turn_of_run(caller: Caller, run: Run) -> TurnView:
    if run.output is not None:
        return turn_view(stored_result(run.output))
    thread = caller.db.thread(run.thread)
    items: list[Item] = [item for item in await thread.items(last=RECENT_ITEMS) if item.run == run.id]
    texts = [message.text for message in message_views(items) if message.role == "assistant"]
    return TurnView(
        thread=run.thread,
        run=run.id,
        version=items[-1].version if items else 0,
        text=texts[-1] if texts else "",
        termination=run.termination or "",
    )


async def resume_task_run(caller: Caller, run: str, decisions: Mapping[str, NewDecision]) -> TurnView:
    """Decide about calls that a run waits for, and return its result when it stops again."""
    turn: TurnView = await decide.fn(run=run, data=NewDecisions(decisions=dict(decisions)), caller=caller)
    return turn


async def cancel_task_run(caller: Caller, run: str) -> None:
    """End a run, in whatever process; one that is over stays as it is, and one in the queue never begins."""
    if not await queue.cancel_turn(caller.db, run, now=caller.db.store.now()):
        await cancel_run.fn(run=run, caller=caller)
