"""Memory over HTTP: what is known of a user, with its sources; correct it, forget it, undo, carry it away."""

from typing import Annotated, Literal

from litestar import get, post, put
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from clew.api.memory import CatchUp, ForgottenView, MemoryPage, UndoneView
from clew.api.requests import NewCorrection, NewForget, NewRecall, NewUndo
from clew.core.encoding import JSON, plain
from clew.core.values import MEMORY
from clew.runtime.memory.memory import Memory
from clew.runtime.memory.recall.render import rendered
from clew.runtime.memory.recall.retrieval import Retriever
from clew.server.http.callers import Caller, Calling
from clew.server.routes.threads import Cursor, Limit

User = Annotated[str | None, QueryParameter(description="Whose memory, where the credentials name no user.")]


@get("/memory", operation_id="list_memory")
async def list_memory(
    caller: Calling,
    kind: FromQuery[Literal["facts", "arcs"]] = "facts",
    limit: Limit = 50,
    cursor: Cursor = None,
    user: User = None,
) -> MemoryPage:
    """Facts or arcs, the newest first, with the rules and what waits to be confirmed."""
    memory = _memory(caller, user)
    list_of = f"{MEMORY}{kind}\0{memory.owner}"
    listed = await memory.page(kind, limit=limit, before=caller.position(cursor, int, list_of))
    profile = await memory.profile()
    return MemoryPage(
        version=profile.version,
        recall=profile.recall,
        facts=plain(listed.facts),
        arcs=plain(listed.arcs),
        rules=plain(profile.rules),
        pending=plain(profile.pending),
        next=caller.cursor(listed.next, list_of) if listed.next is not None else None,
    )


@get("/memory/export", operation_id="export_memory")
async def export_memory(caller: Calling, user: User = None) -> dict[str, JSON]:
    """Everything that is known, with the source of each, as one document."""
    return await _memory(caller, user).export()


@get("/memory/catch-up", operation_id="catch_up")
async def catch_up(caller: Calling, user: User = None) -> CatchUp:
    """The last session in a line, for whoever begins another thread; nothing if recall is off."""
    memory = _memory(caller, user)
    if not (await memory.profile()).recall:
        return CatchUp()
    return CatchUp(lines=[rendered(entry) for entry in await Retriever(memory).catch_up()])


@get("/memory/entries/{entry:str}", operation_id="get_memory")
async def get_memory(entry: FromPath[str], caller: Calling, user: User = None) -> dict[str, JSON]:
    """One fact, arc or rule."""
    found: dict[str, JSON] = plain(await _memory(caller, user).get(entry))
    return found


@post("/memory/entries/{entry:str}/correct", operation_id="correct_memory", status_code=200)
async def correct_memory(
    entry: FromPath[str], data: JSONBody[NewCorrection], caller: Calling, user: User = None
) -> dict[str, JSON]:
    """Put right what a fact or a rule says; what it said before can be brought back by an undo."""
    memory = _memory(caller, user)
    found: dict[str, JSON] = plain(await memory.correct(entry, object=data.object, negated=data.negated))
    return found


@post("/memory/forget", operation_id="forget_memory", status_code=200)
async def forget_memory(data: JSONBody[NewForget], caller: Calling, user: User = None) -> ForgottenView:
    """Forget some of it, in two steps: first it is shown and waits, then it is confirmed."""
    memory = _memory(caller, user)
    if not data.confirmed:
        pending = await memory.propose(data.ids)
        return ForgottenView(waiting=plain(pending.targets))
    done = await memory.confirm(data.ids)
    return ForgottenView(forgotten=list(done.ids), changed=list(done.changed))


@post("/memory/undo", operation_id="undo_memory", status_code=200)
async def undo_memory(data: JSONBody[NewUndo], caller: Calling, user: User = None) -> UndoneView:
    """Take back the last change, or the one that made a version."""
    return UndoneView(undone=await _memory(caller, user).undo(data.version))


@put("/memory/recall", operation_id="set_recall")
async def set_recall(data: JSONBody[NewRecall], caller: Calling, user: User = None) -> NewRecall:
    """Whether what is recalled may be brought up. Rules apply either way."""
    await _memory(caller, user).set_recall(on=data.on)
    return data


def _memory(caller: Caller, user: str | None) -> Memory:
    owner = caller.acting_for(user)
    return Memory(caller.scoped(owner), owner)


REMEMBERED = [
    list_memory,
    export_memory,
    catch_up,
    get_memory,
    correct_memory,
    forget_memory,
    undo_memory,
    set_recall,
]
