"""The commit that makes a thread over HTTP, and stores the reply with it, so that a repetition finds it."""

from collections.abc import Sequence
from typing import Any

import msgspec
from litestar import Request, Response

from clew.api.route import JSON_TYPE
from clew.api.threads import ThreadDetail
from clew.core.log.checks import prepare_write
from clew.core.log.commit import Plan, PlanContext, Planner, plan_commit
from clew.core.log.lineage import plan_create, plan_fork
from clew.core.log.reader import head_of, read_state, read_thread
from clew.core.log.rows import StoreRead
from clew.core.ops import Document, Op
from clew.core.values import Absent, AppendTo, Changeset
from clew.server.http.callers import Caller
from clew.server.http.idempotency import RECORD, IdempotencyRecord
from clew.server.http.parameters import etag
from clew.server.http.views import thread_detail


def new_thread_planner(caller: Caller, id: str, patches: Sequence[Op]) -> Planner:
    """Return a planner of a new thread; with patches it is at version 1."""
    owner = caller.identity.user
    if not patches:
        return lambda setting: plan_create(id, owner, setting)
    change = Changeset(patches=tuple(patches), reason="Describe")
    write = prepare_write(AppendTo(thread=id, change=change, expect=Absent(owner)), caller.db.store.limits)
    return lambda setting: plan_commit([write], setting)


def fork_planner(id: str, new_id: str, at: int | None) -> Planner:
    """Return a planner of a fork from a version of a thread."""

    def plan_with_state(context: PlanContext) -> StoreRead[Plan]:
        plan = yield from plan_fork(id, new_id, at, context)
        thread_head = plan.heads[new_id]
        assert thread_head is not None
        source = yield from read_thread(id)
        state = yield from read_state(source, thread_head.row.version)
        return _with_state(plan, new_id, state)

    return plan_with_state


def _with_state(plan: Plan, id: str, state: Document) -> Plan:
    thread_head = plan.heads[id]
    assert thread_head is not None
    return msgspec.structs.replace(plan, heads={id: msgspec.structs.replace(thread_head, state=state)})


async def commit_new_thread(
    request: Request[Any, Any, Any], caller: Caller, planner: Planner
) -> Response[ThreadDetail]:
    """Commit a new thread; if the request has a key, its reply is stored in the same commit."""
    record: IdempotencyRecord | None = request.scope["state"].get(RECORD)
    store = caller.db.store
    if record is None or not record.is_stored_in(store):
        return _thread_response(await store.change(caller.scope, planner))
    async with record.answer_commit():
        plan = await store.change(caller.scope, lambda setting: _plan_with_answer(record, planner, setting))
    return _thread_response(plan)


def _plan_with_answer(record: IdempotencyRecord, planner: Planner, context: PlanContext) -> StoreRead[Plan]:
    plan = yield from planner(context)
    response = _thread_response(plan)
    headers = [("content-type", JSON_TYPE), *response.headers.items()]
    answer = record.answer_write(response.status_code or 201, headers, msgspec.json.encode(response.content))
    answer_plan = yield from plan_commit([answer], context)
    return msgspec.structs.replace(plan, writes=[*plan.writes, *answer_plan.writes])


def _thread_response(plan: Plan) -> Response[ThreadDetail]:
    thread = new_thread_detail(plan)
    return Response(thread, status_code=201, headers=etag(thread.version))


def new_thread_detail(plan: Plan) -> ThreadDetail:
    """Return the thread that a plan has made."""
    (thread_head,) = plan.heads.values()
    assert thread_head is not None
    assert thread_head.state is not None
    return thread_detail(head_of(thread_head.row, thread_head.state))
