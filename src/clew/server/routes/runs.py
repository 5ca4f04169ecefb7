"""Runs over HTTP: what was executed, cancel it, decide about calls that wait."""

from typing import Annotated

import msgspec
from litestar import get, post
from litestar.params import FromPath, JSONBody, QueryParameter

from clew.api.experiments import Steps, StepView
from clew.api.requests import NewDecision, NewDecisions
from clew.api.threads import Cancelled, RunPage, RunView, TurnView
from clew.core.encoding import plain
from clew.core.errors import DecisionRefused, ThreadNotFound
from clew.core.values import RecordQuery
from clew.runtime.records.runs import DONE, KIND, WAITING, Run, run_of
from clew.runtime.records.steps import Step, run_steps
from clew.runtime.turn.approvals import Decision, PassOn, Replay, UseResult, Waiting, suspended_calls
from clew.server.http.callers import Caller, Calling
from clew.server.http.openapi import WORKS
from clew.server.http.views import run_view, turn_view
from clew.server.routes.threads import Cursor, Limit


@get("/runs", operation_id="list_runs")
async def list_runs(
    caller: Calling,
    limit: Limit = 50,
    cursor: Cursor = None,
    thread: Annotated[str | None, QueryParameter(description="Only runs of this thread.")] = None,
    status: Annotated[str | None, QueryParameter(description="running, waiting or done.")] = None,
) -> RunPage:
    """Runs, the newest first."""
    said = (("thread", thread), ("status", status))
    tags = tuple(f"{name}:{value}" for name, value in said if value is not None)
    list_of = f"runs\0{tags}"
    after = caller.position(cursor, tuple[int, str], list_of)
    query = RecordQuery(kind=KIND, tags=tags, newest=True, limit=limit + 1, after=after)
    records = await caller.db.records.find(query)
    shown = records[:limit]
    next = caller.cursor([shown[-1].sort, shown[-1].id], list_of) if len(records) > limit else None
    return RunPage(runs=[run_view(run_of(record)) for record in shown], next=next)


@get("/runs/{run:str}", operation_id="get_run")
async def get_run(run: FromPath[str], caller: Calling) -> RunView:
    """A run, with the calls that it waits for."""
    found = run_of(await caller.db.records.get(KIND, run))
    return run_view(found, await _waiting(caller, found))


@get("/runs/{run:str}/steps", operation_id="list_steps")
async def list_steps(run: FromPath[str], caller: Calling) -> Steps:
    """The steps of a run: what took how long, its tokens, and its cost where a price is known."""
    found = run_of(await caller.db.records.get(KIND, run))
    told = await run_steps(caller.db, found.thread, run)
    return Steps(run=run, thread=found.thread, steps=[_step(step) for step in told])


@post("/runs/{run:str}/cancel", operation_id="cancel_run", status_code=200)
async def cancel_run(run: FromPath[str], caller: Calling) -> Cancelled:
    """End a run that is at work or waits, in whatever process."""
    thread = await caller.serving.runtimes.guests.thread_of(caller.guest(), run)
    if thread is None:
        found = run_of(await caller.db.records.get(KIND, run))
        if found.status == DONE:
            return Cancelled(cancelled=False)
        thread = found.thread
    async with caller.home(thread) as home:
        return Cancelled(cancelled=await home.runtime.cancel(thread, user=home.user))


@post("/runs/{run:str}/decisions", operation_id="decide", status_code=200, opt={WORKS: True})
async def decide(run: FromPath[str], data: JSONBody[NewDecisions], caller: Calling) -> TurnView:
    """Decide about the calls that a run waits for, and go on with it; or go on with an interrupted one."""
    decisions = {call: _decision(each) for call, each in data.decisions.items()}
    guest = caller.guest(data.user)
    thread = await caller.serving.runtimes.guests.thread_of(guest, run)
    if thread is None:
        db = caller.db if guest[1] is None else caller.scoped(guest[1])
        found = run_of(await db.records.get(KIND, run))
        if found.status == DONE and decisions:
            call = next(iter(decisions))
            raise DecisionRefused(thread=found.thread, call=call, problem=f"run {run!r} is over")
        thread = found.thread
    async with caller.home(thread, user=data.user) as home:
        return turn_view(await home.runtime.resume(thread, decisions, user=home.user))


def _step(step: Step) -> StepView:
    return msgspec.convert(plain(step) | {"ended": step.ended}, StepView)


def _decision(given: NewDecision) -> Decision:
    if given.decision == "replay":
        return Replay(given.asked)
    if given.decision == "result":
        return UseResult(given.value, given.asked)
    return PassOn(given.value, given.asked)


async def _waiting(caller: Caller, run: Run) -> tuple[Waiting, ...]:
    if run.status != WAITING:
        return ()
    try:
        return suspended_calls(await caller.db.thread(run.thread).state())
    except ThreadNotFound:
        return ()


RUNS = [list_runs, get_run, list_steps, cancel_run, decide]
