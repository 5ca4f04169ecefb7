"""Threads made over HTTP: the answer is kept in the commit that makes one, so a repetition finds it."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from litestar import Request, Response

from clew.api.threads import ThreadDetail
from clew.core.log.checks import made_ready
from clew.core.log.commit import Plan, Setting, plan_commit
from clew.core.log.lineage import plan_create, plan_fork
from clew.core.log.reader import head_of, read_state, read_thread
from clew.core.log.rows import Asking
from clew.core.ops import Document, Op
from clew.core.values import Absent, AppendTo, Changeset
from clew.server.http.callers import Caller
from clew.server.http.idempotency import KEPT, Kept
from clew.server.http.views import thread_detail

Making = Callable[[Setting], Asking[Plan]]
"""A plan that makes one thread, and knows its state then."""


def created(caller: Caller, id: str, patches: Sequence[Op]) -> Making:
    """A new thread; with patches, at version 1."""
    owner = caller.identity.user
    if not patches:
        return lambda setting: plan_create(id, owner, setting)
    change = Changeset(patches=tuple(patches), reason="Describe")
    write = made_ready(AppendTo(thread=id, change=change, expect=Absent(owner)), caller.db.store.limits)
    return lambda setting: plan_commit([write], setting)


def forked(id: str, new_id: str, at: int | None) -> Making:
    """A thread that goes its own way from a version of another."""

    def planning(setting: Setting) -> Asking[Plan]:
        plan = yield from plan_fork(id, new_id, at, setting)
        known = plan.known[new_id]
        assert known is not None
        source = yield from read_thread(id)
        state = yield from read_state(source, known.row.version)
        return _knowing(plan, new_id, state)

    return planning


def _knowing(plan: Plan, id: str, state: Document) -> Plan:
    known = plan.known[id]
    assert known is not None
    return msgspec.structs.replace(plan, known={id: msgspec.structs.replace(known, state=state)})


async def make(request: Request[Any, Any, Any], caller: Caller, making: Making) -> Response[ThreadDetail]:
    """Make a thread and tell of it; if the request has a key, its answer is kept in the same commit."""
    kept: Kept | None = request.scope["state"].get(KEPT)
    store = caller.db.store
    if kept is None or not kept.is_in(store):
        return _told(await store.change(caller.scope, making))
    async with kept.keeping():
        plan = await store.change(caller.scope, lambda setting: _answered(kept, making, setting))
    return _told(plan)


def _answered(kept: Kept, making: Making, setting: Setting) -> Asking[Plan]:
    plan = yield from making(setting)
    response = _told(plan)
    headers = [("content-type", "application/json"), *response.headers.items()]
    answer = kept.answer(response.status_code or 201, headers, msgspec.json.encode(response.content))
    noted = yield from plan_commit([answer], setting)
    return msgspec.structs.replace(plan, effects=[*plan.effects, *noted.effects])


def _told(plan: Plan) -> Response[ThreadDetail]:
    (known,) = plan.known.values()
    assert known is not None
    assert known.state is not None
    head = head_of(known.row, known.state)
    return Response(thread_detail(head), status_code=201, headers={"ETag": f'"{head.version}"'})
