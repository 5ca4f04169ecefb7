"""Runs over HTTP: their records and steps, cancellation, decisions about calls that wait."""

from typing import Annotated

import msgspec
from litestar.params import FromPath, JSONBody, QueryParameter

from clew.api.runs import (
    CANCEL_RUN,
    DECIDE,
    GET_RUN,
    LIST_RUNS,
    LIST_STEPS,
    CancellationView,
    NewDecision,
    NewDecisions,
    RunPage,
    RunView,
    StepList,
    StepView,
)
from clew.api.turns import TurnView
from clew.core.encoding import as_json
from clew.core.errors import DecisionRefused, ThreadNotFound
from clew.core.values import RecordQuery
from clew.runtime.records.runs import DONE, KIND, WAITING, Run, run_of
from clew.runtime.records.steps import Step, run_steps
from clew.runtime.state.call_state import Approval, Decision, PassOn, Replay, UseResult
from clew.runtime.state.run_state import RunState
from clew.server.http.callers import Caller, CurrentCaller
from clew.server.http.cursors import record_position
from clew.server.http.endpoint import endpoint
from clew.server.http.parameters import Cursor, Limit
from clew.server.http.views import run_view, turn_view


@endpoint(LIST_RUNS)
async def list_runs(
    caller: CurrentCaller,
    limit: Limit = 50,
    cursor: Cursor = None,
    thread: Annotated[str | None, QueryParameter(description="Only runs of this thread.")] = None,
    status: Annotated[str | None, QueryParameter(description="running, waiting or done.")] = None,
) -> RunPage:
    """List runs, the newest first."""
    filters = (("thread", thread), ("status", status))
    tags = tuple(f"{name}:{value}" for name, value in filters if value is not None)
    pages = caller.pages(cursor, tuple[int, str], "runs", thread, status)
    query = RecordQuery(kind=KIND, tags=tags, newest=True, limit=limit + 1, after=pages.start)
    records, next = pages.cut(await caller.db.records.find(query), limit, record_position)
    return RunPage(runs=[run_view(run_of(record)) for record in records], next=next)


@endpoint(GET_RUN)
async def get_run(run: FromPath[str], caller: CurrentCaller) -> RunView:
    """Return a run, with the calls that it waits for."""
    record = run_of(await caller.db.records.get(KIND, run))
    return run_view(record, await approvals_of_run(caller, record))


@endpoint(LIST_STEPS)
async def list_steps(run: FromPath[str], caller: CurrentCaller) -> StepList:
    """List the steps of a run, with their times, tokens, and costs where a price is known."""
    record = run_of(await caller.db.records.get(KIND, run))
    steps = await run_steps(caller.db, record.thread, run)
    return StepList(run=run, thread=record.thread, steps=[_step_view(step) for step in steps])


@endpoint(CANCEL_RUN)
async def cancel_run(run: FromPath[str], caller: CurrentCaller) -> CancellationView:
    """End a run that is at work or waits, in whatever process."""
    thread = await caller.incognito.thread_of_run(caller.scope, run)
    if thread is None:
        record = run_of(await caller.db.records.get(KIND, run))
        if record.status == DONE:
            return CancellationView(cancelled=False)
        thread = record.thread
    async with caller.thread_access(thread) as access:
        return CancellationView(cancelled=await access.runtime.cancel(thread, user=access.user))


@endpoint(DECIDE)
async def decide(run: FromPath[str], data: JSONBody[NewDecisions], caller: CurrentCaller) -> TurnView:
    """Decide about the calls that a run waits for, and go on with it; or go on with an interrupted one."""
    decisions = {call: _decision_of(each) for call, each in data.decisions.items()}
    scope = caller.scope_for(data.user)
    thread = await caller.incognito.thread_of_run(scope, run)
    if thread is None:
        record = run_of(await caller.database_for(scope.user).records.get(KIND, run))
        if record.status == DONE and decisions:
            call = next(iter(decisions))
            raise DecisionRefused(thread=record.thread, call=call, problem=f"run {run!r} is over")
        thread = record.thread
    async with caller.thread_access(thread, user=data.user) as access:
        return turn_view(await access.runtime.resume(thread, decisions, user=access.user))


def _step_view(step: Step) -> StepView:
    return msgspec.convert(as_json(step) | {"ended": step.ended}, StepView)


def _decision_of(request: NewDecision) -> Decision:
    if request.decision == "replay":
        return Replay(request.asked)
    if request.decision == "result":
        return UseResult(request.value, request.asked)
    return PassOn(request.value, request.asked)


async def approvals_of_run(caller: Caller, run: Run) -> tuple[Approval, ...]:
    """Return the calls that a run waits for, which its thread knows."""
    if run.status != WAITING:
        return ()
    try:
        return RunState.of(await caller.db.thread(run.thread).state()).approvals
    except ThreadNotFound:
        return ()


RUN_ROUTES = [list_runs, get_run, list_steps, cancel_run, decide]
