"""Threads over HTTP: make, list, read at any version, compare, fork, rewind, delete."""

import re
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, delete, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromQuery, HeaderParameter, JSONBody, QueryParameter

from clew.api.messages import MessagePage
from clew.api.requests import NewChangeset, NewFork, NewRewind, NewThread
from clew.api.threads import (
    ChangesetPage,
    CommittedView,
    DiffView,
    ItemPage,
    RewoundView,
    StateView,
    ThreadDetail,
    ThreadPage,
    VerdictView,
)
from clew.core import patch as ops
from clew.core.encoding import plain
from clew.core.errors import InvalidArgument
from clew.core.messages.projection import plain_messages
from clew.core.ops import Op
from clew.core.values import ABOUT, HISTORY, Anywhere, Exact, Expect, Item, Page, Summary, Window
from clew.database.database import Database
from clew.runtime.state.inputs import free_id
from clew.server.http.callers import Calling, ThreadId
from clew.server.http.creation import created, forked, make
from clew.server.http.idempotency import KEY, OWN
from clew.server.http.openapi import VERSIONED
from clew.server.http.views import (
    changeset_view,
    committed_view,
    item_page,
    item_view,
    message_views,
    thread_detail,
    thread_view,
)

LOOKED_AT_ONCE, LOOKED_THROUGH = 100, 1_000
"""How many threads a search reads at a time, and for one page."""
LOOKED_BACK = 8
"""How many of the newest items may say something."""
LONGEST = 200


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Threads of one page, and where the next begins."""

    threads: list[Summary]
    next: str | None = None
    broken: dict[str, str] = {}


async def threads(db: Database, after: str | None, limit: int, search: str | None) -> Found:
    """As many threads as are wanted of those that bear the words; fewer if too many had to be looked at."""
    kept: list[Summary] = []
    broken: dict[str, str] = {}
    looked = 0
    while len(kept) < limit and looked < LOOKED_THROUGH:
        page, some = await _searched(db, after, limit - len(kept), search)
        kept += some
        broken.update(page.broken)
        looked, after = looked + max(len(page.threads), 1), page.next
        if after is None:
            break
    return Found(threads=kept, next=after, broken=broken)


async def _searched(
    db: Database, after: str | None, wanted: int, search: str | None
) -> tuple[Page, list[Summary]]:
    """A page of threads up to as many as are wanted of those that bear the words, and these."""
    size = wanted if search is None else max(wanted, LOOKED_AT_ONCE)
    page = await db.threads(limit=size, after=after)
    kept = [each for each in page.threads if search is None or _bears(each, search)]
    if len(kept) <= wanted:
        return page, kept
    end = page.threads.index(kept[wanted - 1]) + 1
    return await db.threads(limit=end, after=after), kept[:wanted]


def _bears(summary: Summary, search: str) -> bool:
    words = (summary.id, summary.title or "", *summary.labels)
    return any(search.casefold() in word.casefold() for word in words)


async def last_said(db: Database, thread: str) -> str | None:
    """The beginning of what was said last in a thread, whatever framework wrote it."""
    window = await db.thread(thread).items(last=LOOKED_BACK)
    told = [message.text for message in plain_messages(window) if message.text]
    return " ".join(told[-1].split())[:LONGEST] if told else None


Limit = Annotated[int, QueryParameter(ge=1, le=200, description="How many at most.")]
Cursor = Annotated[str | None, QueryParameter(description="Where the page before ended.")]
Search = Annotated[str | None, QueryParameter(description="Part of an id, a title or a label.")]
Version = Annotated[
    int | None, QueryParameter(ge=0, le=1 << 53, description="A version instead of the newest.")
]
IfMatch = Annotated[
    str | None, HeaderParameter(name="If-Match", description="Only if the thread is at this version.")
]
IfNoneMatch = Annotated[
    str | None, HeaderParameter(name="If-None-Match", description="Not if the thread is at this version.")
]
TAG = re.compile(r'"[^"]*"')
DIFFERENT = 1_000
"""How many items on each side of a diff are compared, the newest."""


def etag(version: int) -> dict[str, str]:
    """The header that says at which version a thread is."""
    return {"ETag": f'"{version}"'}


def expected(if_match: str | None) -> Expect:
    """Where a thread must be, as a request says.

    Raises:
        InvalidArgument: It says it in no way that can be understood.
    """
    if if_match is None or if_match.strip() == "*":
        return Anywhere()
    said = if_match.strip().removeprefix("W/").strip('"')
    if not (said.isascii() and said.isdecimal() and len(said) < 16):
        raise InvalidArgument(problem='If-Match must be a version in quotes, like "12".')
    return Exact(int(said))


@post("/threads", operation_id="create_thread", opt={VERSIONED: True})
async def create_thread(
    data: JSONBody[NewThread], caller: Calling, request: Request[Any, Any, Any]
) -> Response[ThreadDetail]:
    """A new thread. It belongs to the user whose credentials these are."""
    about = {name: value for name, value in (("title", data.title), ("labels", data.labels)) if value}
    patches = [ops.set([ABOUT], about)] if about else []
    return await make(request, caller, created(caller, free_id(data.id), patches))


@get("/threads", operation_id="list_threads")
async def list_threads(
    caller: Calling,
    limit: Limit = 50,
    cursor: Cursor = None,
    search: Search = None,
    last: Annotated[bool, QueryParameter(description="Also what was said last in each.")] = False,  # noqa: FBT002 - a query parameter
) -> ThreadPage:
    """Threads, the newest first; with words to search for, those that bear them."""
    list_of = "threads" if search is None else f"threads\0{search}"
    found = await threads(caller.db, caller.position(cursor, str, list_of), limit, search)
    return ThreadPage(
        threads=[
            thread_view(each, await last_said(caller.db, each.id) if last else None) for each in found.threads
        ],
        next=caller.cursor(found.next, list_of) if found.next is not None else None,
        broken=found.broken,
    )


@get(
    "/threads/{id:str}",
    operation_id="get_thread",
    opt={VERSIONED: True},
    responses={
        200: ResponseSpec(ThreadDetail, generate_examples=False, description="The thread."),
        304: ResponseSpec(None, description="It is still at this version."),
    },
)
async def get_thread(
    thread_id: ThreadId, caller: Calling, at: Version = None, if_none_match: IfNoneMatch = None
) -> Response[Any]:
    """A thread at its newest version, or an earlier one. Its ETag is the version."""
    head = await (await caller.reading(thread_id)).head(at=at)
    if if_none_match is not None and etag(head.version)["ETag"] in TAG.findall(if_none_match):
        return Response(None, status_code=304, headers=etag(head.version))
    return Response(thread_detail(head), headers=etag(head.version))


@delete("/threads/{id:str}", operation_id="delete_thread", status_code=204)
async def delete_thread(thread_id: ThreadId, caller: Calling, if_match: IfMatch = None) -> None:
    """Remove a thread. Forks of it stay whole."""
    await caller.db.thread(thread_id).delete(expect=expected(if_match))


@get("/threads/{id:str}/items", operation_id="list_items")
async def list_items(
    thread_id: ThreadId,
    caller: Calling,
    limit: Limit = 50,
    cursor: Cursor = None,
    at: Version = None,
    log: FromQuery[str] = HISTORY,
    whole: FromQuery[bool] = False,  # noqa: FBT002 - a query parameter
) -> ItemPage:
    """The newest items, oldest first; the cursor leads to older ones, at the version of the first page."""
    list_of = f"items\0{thread_id}\0{log}\0{whole}"
    stands = caller.position(cursor, tuple[int, int], list_of)
    before, version = stands if stands is not None else (None, at)
    thread = await caller.reading(thread_id)
    window = await thread.items(last=limit + 1, before=before, at=version, log=log, whole=whole)
    shown = list(window)[-limit:]
    next = None
    if len(window) > limit:
        next = caller.cursor([shown[0].place, window.version], list_of)
    return item_page(thread_id, Window(shown, window.broken, window.version), next)


@get("/threads/{id:str}/messages", operation_id="list_messages")
async def list_messages(
    thread_id: ThreadId,
    caller: Calling,
    limit: Limit = 50,
    cursor: Cursor = None,
    at: Version = None,
    log: FromQuery[str] = HISTORY,
) -> MessagePage:
    """What the newest items say, whatever framework wrote them; the cursor leads to older ones."""
    list_of = f"messages\0{thread_id}\0{log}"
    stands = caller.position(cursor, tuple[int, int], list_of)
    before, version = stands if stands is not None else (None, at)
    thread = await caller.reading(thread_id)
    window = await thread.items(last=limit + 1, before=before, at=version, log=log)
    shown = list(window)[-limit:]
    more = len(window) > limit
    return MessagePage(
        thread=thread_id,
        version=window.version,
        messages=message_views(shown),
        next=caller.cursor([shown[0].place, window.version], list_of) if more else None,
    )


@get("/threads/{id:str}/changesets", operation_id="list_changesets")
async def list_changesets(
    thread_id: ThreadId, caller: Calling, limit: Limit = 50, cursor: Cursor = None, after: Version = None
) -> ChangesetPage:
    """The changes of a thread in order of version, from the one after a version on."""
    start = caller.position(cursor, int, f"changesets\0{thread_id}") or after or 0
    changes = await (await caller.reading(thread_id)).changesets(after=start, limit=limit)
    next = caller.cursor(changes[-1].version, f"changesets\0{thread_id}") if len(changes) == limit else None
    return ChangesetPage(
        thread=thread_id, changesets=[changeset_view(change) for change in changes], next=next
    )


@post("/threads/{id:str}/changesets", operation_id="append", opt={OWN: True, VERSIONED: True})
async def append(
    thread_id: ThreadId,
    data: JSONBody[NewChangeset],
    caller: Calling,
    request: Request[Any, Any, Any],
    if_match: IfMatch = None,
) -> Response[CommittedView]:
    """Append a change. A key makes it safe to repeat; If-Match makes it stand on a version."""
    items = [Item(**{name: getattr(item, name) for name in item.__struct_fields__}) for item in data.items]
    done = await caller.db.thread(free_id(thread_id)).append(
        items=items,
        patches=_ops(data.patches),
        reason=data.reason,
        key=request.headers.get(KEY),
        author=caller.identity.user,
        expect=expected(if_match),
    )
    return Response(committed_view(done), status_code=201, headers=etag(done.version))


def _ops(patches: list[Any]) -> list[Op]:
    try:
        found = msgspec.convert(patches, list[Op])
    except msgspec.ValidationError as error:
        raise InvalidArgument(problem=f"A patch is no op: {error}.") from error
    if any(not op.path or str(op.path[0]).startswith("$") for op in found):
        raise InvalidArgument(problem="A patch needs a key, and one that does not begin with $.")
    return found


@get("/threads/{id:str}/state", operation_id="get_state", opt={VERSIONED: True})
async def get_state(thread_id: ThreadId, caller: Calling, at: Version = None) -> Response[StateView]:
    """The state of a thread at its newest version, or an earlier one."""
    head = await (await caller.reading(thread_id)).head(at=at)
    view = StateView(thread=thread_id, version=head.version, state=head.state)
    return Response(view, headers=etag(head.version))


@get("/threads/{id:str}/diff", operation_id="diff_thread")
async def diff_thread(
    thread_id: ThreadId,
    caller: Calling,
    before: Annotated[int, QueryParameter(ge=0, le=1 << 53)],
    after: Version = None,
    log: FromQuery[str] = HISTORY,
) -> DiffView:
    """What differs between two versions; without a second, up to the newest.

    Of each, the newest thousand items are looked at: what is older than all that was seen of the other
    version is told neither as added nor as removed.
    """
    thread = await caller.reading(thread_id)
    end = (await thread.head()).version if after is None else after
    old = await thread.items(last=DIFFERENT + 1, at=before, log=log)
    new = await thread.items(last=DIFFERENT + 1, at=end, log=log)
    return DiffView(
        thread=thread_id,
        before=before,
        after=end,
        ops=plain(await thread.diff(before, end)),
        added=[item_view(item) for item in _beyond(old, new)],
        removed=[item_view(item) for item in _beyond(new, old)],
    )


def _beyond(seen: Window, items: Window) -> list[Item]:
    """Those items that another window would hold if they were there, and does not."""
    places = {item.place for item in seen} | {broken.place for broken in seen.broken}
    first = min(places) if len(places) > DIFFERENT else 0  # who saw less has seen all
    return [item for item in items if item.place >= first and item.place not in places]


@get("/threads/{id:str}/verify", operation_id="verify_thread")
async def verify_thread(thread_id: ThreadId, caller: Calling) -> VerdictView:
    """Whether the hash chain of a thread holds, and its log folds to what is stored."""
    thread = await caller.reading(thread_id)
    await thread.head()
    found = await thread.verify()
    return VerdictView(
        thread=found.thread,
        version=found.version,
        hash=found.hash,
        ok=found.ok,
        problems=list(found.problems),
        erased=list(found.erased),
    )


@post("/threads/{id:str}/fork", operation_id="fork_thread", opt={VERSIONED: True})
async def fork_thread(
    thread_id: ThreadId, data: JSONBody[NewFork], caller: Calling, request: Request[Any, Any, Any]
) -> Response[ThreadDetail]:
    """A new thread that goes its own way from a version of this one."""
    return await make(request, caller, forked(thread_id, free_id(data.id), data.at))


@post("/threads/{id:str}/rewind", operation_id="rewind_thread", status_code=200, opt={VERSIONED: True})
async def rewind_thread(
    thread_id: ThreadId, data: JSONBody[NewRewind], caller: Calling, if_match: IfMatch = None
) -> Response[RewoundView]:
    """Take back a run, everything after a version, or a compaction, by a new change.

    With If-Match it stands on the version that the caller has seen.
    """
    await caller.db.thread(free_id(thread_id)).head()
    async with caller.runtime() as runtime:
        done = await runtime.rewind(
            thread_id,
            data.run,
            to=data.to,
            compaction=data.compaction,
            user=caller.identity.user,
            expect=expected(if_match),
        )
    view = RewoundView(
        thread=done.thread,
        version=done.version,
        ended=done.ended,
        restored=done.restored,
        effects=plain(done.effects),
    )
    return Response(view, headers=etag(done.version))


THREADS = [
    create_thread,
    list_threads,
    get_thread,
    delete_thread,
    list_items,
    list_messages,
    list_changesets,
    append,
    get_state,
    diff_thread,
    verify_thread,
    fork_thread,
    rewind_thread,
]
