"""Memory over HTTP: entries with their sources, corrections, forgetting, undo, and export."""

from typing import Literal

from litestar.params import FromPath, FromQuery, JSONBody

from clew.api.memory import (
    AUDIT_MEMORY,
    CATCH_UP,
    CORRECT_MEMORY,
    EXPORT_MEMORY,
    FORGET_MEMORY,
    GET_MEMORY,
    LIST_MEMORY,
    SET_RECALL,
    UNDO_MEMORY,
    CatchUp,
    ForgetView,
    MemoryAuditView,
    MemoryPage,
    NewCorrection,
    NewForgetRequest,
    NewUndo,
    RecallSetting,
    UndoView,
)
from clew.core.encoding import JSON, as_json
from clew.core.errors import InvalidArgument
from clew.core.log.owners import check_user_named
from clew.runtime.memory import audit
from clew.runtime.memory.memory import Memory, memory_of
from clew.runtime.memory.recall.render import render_entry
from clew.runtime.memory.recall.retrieval import Retriever
from clew.server.http.callers import Caller, CurrentCaller
from clew.server.http.endpoint import endpoint
from clew.server.http.parameters import Cursor, Limit, MemoryThreadQuery, MemoryTime, UserQuery
from clew.server.http.paths import check_reachable


@endpoint(LIST_MEMORY)
async def list_memory(
    caller: CurrentCaller,
    kind: FromQuery[Literal["facts", "arcs"]] = "facts",
    at: MemoryTime = None,
    *,
    past: FromQuery[bool] = False,
    limit: Limit = 50,
    cursor: Cursor = None,
    user: UserQuery = None,
    thread: MemoryThreadQuery = None,
) -> MemoryPage:
    """List facts or arcs, the newest first, with the rules and what waits to be confirmed.

    With `past` the facts that held once follow those that hold. With `at` the list has what was so then.
    """
    memory = await memory_for(caller, user, thread)
    pages = caller.pages(cursor, int, "memory", kind, memory.thread, at or "", str(past))
    page = await memory.page(kind, limit=limit, before=pages.start, at=at, past=past)
    profile = await memory.profile()
    return MemoryPage(
        version=profile.version,
        recall=profile.recall,
        facts=as_json(page.facts),
        lineage=as_json(await memory.lineage(page.facts)),
        arcs=as_json(page.arcs),
        rules=as_json(profile.rules),
        pending=as_json(profile.pending),
        next=pages.cursor(page.next),
    )


@endpoint(EXPORT_MEMORY)
async def export_memory(
    caller: CurrentCaller, user: UserQuery = None, thread: MemoryThreadQuery = None
) -> dict[str, JSON]:
    """Export the whole memory, with the source of each entry, as one document."""
    return await (await memory_for(caller, user, thread)).export()


@endpoint(AUDIT_MEMORY)
async def audit_memory(
    caller: CurrentCaller, user: UserQuery = None, thread: MemoryThreadQuery = None
) -> MemoryAuditView:
    """Check every fact: its quote, the turn that it comes from, and whether another excludes it."""
    result = await audit.audit_memory(await memory_for(caller, user, thread))
    return MemoryAuditView(
        ok=result.ok,
        version=result.version,
        counts=as_json(result.counts),
        findings=as_json(result.findings),
    )


@endpoint(CATCH_UP)
async def catch_up(
    caller: CurrentCaller, user: UserQuery = None, thread: MemoryThreadQuery = None
) -> CatchUp:
    """Return the last session in a line, for the beginning of another thread; nothing if recall is off."""
    memory = await memory_for(caller, user, thread)
    if not (await memory.profile()).recall:
        return CatchUp()
    return CatchUp(lines=[render_entry(entry) for entry in await Retriever(memory).catch_up()])


@endpoint(GET_MEMORY)
async def get_memory(
    entry: FromPath[str], caller: CurrentCaller, user: UserQuery = None, thread: MemoryThreadQuery = None
) -> dict[str, JSON]:
    """Return one fact, arc or rule."""
    fields: dict[str, JSON] = as_json(await (await memory_for(caller, user, thread)).get(entry))
    return fields


@endpoint(CORRECT_MEMORY)
async def correct_memory(
    entry: FromPath[str],
    data: JSONBody[NewCorrection],
    caller: CurrentCaller,
    user: UserQuery = None,
    thread: MemoryThreadQuery = None,
) -> dict[str, JSON]:
    """Correct a fact or a rule; an undo brings back what it said before."""
    memory = await memory_for(caller, user, thread)
    correction = await memory.correct(
        entry, object=data.object, negated=data.negated, since=data.since or None
    )
    fields: dict[str, JSON] = as_json(correction)
    return fields


@endpoint(FORGET_MEMORY)
async def forget_memory(
    data: JSONBody[NewForgetRequest],
    caller: CurrentCaller,
    user: UserQuery = None,
    thread: MemoryThreadQuery = None,
) -> ForgetView:
    """Forget some entries, in two steps: first they are shown and wait, then they are confirmed."""
    memory = await memory_for(caller, user, thread)
    if not data.confirmed:
        pending = await memory.propose_forgetting(data.ids)
        return ForgetView(waiting=as_json(pending.targets))
    result = await memory.confirm_forgetting(data.ids)
    return ForgetView(forgotten=list(result.ids), changed=list(result.changed))


@endpoint(UNDO_MEMORY)
async def undo_memory(
    data: JSONBody[NewUndo], caller: CurrentCaller, user: UserQuery = None, thread: MemoryThreadQuery = None
) -> UndoView:
    """Undo the last change, or the one that made a version."""
    memory = await memory_for(caller, user, thread)
    preview = await memory.preview_undo(data.version)
    return UndoView(
        undone=await memory.undo(preview.version),
        removed=as_json(preview.removes),
        restored=as_json(preview.restores),
    )


@endpoint(SET_RECALL)
async def set_recall(
    data: JSONBody[RecallSetting],
    caller: CurrentCaller,
    user: UserQuery = None,
    thread: MemoryThreadQuery = None,
) -> RecallSetting:
    """Let memory be recalled in turns, or not. Rules apply either way."""
    await (await memory_for(caller, user, thread)).set_recall(on=data.on)
    return data


async def memory_for(caller: Caller, user: str | None, thread: str | None) -> Memory:
    """Return the memory of a user, or that of a thread which is nobody's.

    Raises:
        InvalidArgument: Neither is named, or both are.
        ThreadNotFound: There is no such thread.
        UserMissing: The thread belongs to a user, and so does what is known from it.
    """
    if thread is None:
        owner = caller.require_user(user)
        return Memory(caller.database_for(owner), owner)
    if caller.effective_user(user) is not None:
        raise InvalidArgument(
            problem="A user has one memory for all threads. Name a user or a thread, not both."
        )
    head = await caller.db.thread(check_reachable(thread)).head()
    check_user_named(thread, head.owner, None)
    return memory_of(caller.db, thread)


MEMORY_ROUTES = [
    list_memory,
    export_memory,
    audit_memory,
    catch_up,
    get_memory,
    correct_memory,
    forget_memory,
    undo_memory,
    set_recall,
]
