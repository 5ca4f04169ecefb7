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
    CommitView,
    DiffView,
    ItemPage,
    RewindView,
    StateView,
    ThreadDetail,
    ThreadPage,
    VerdictView,
)
from clew.core import patch as ops
from clew.core.encoding import as_json
from clew.core.errors import InvalidArgument
from clew.core.messages.projection import plain_messages
from clew.core.ops import Op
from clew.core.values import (
    ABOUT_KEY,
    HISTORY,
    AnyVersion,
    Exact,
    Expectation,
    Item,
    SummaryPage,
    ThreadSummary,
    Window,
)
from clew.database.database import Database
from clew.runtime.state.inputs import check_thread_id
from clew.server.http.callers import CurrentCaller, ThreadId
from clew.server.http.creation import commit_new_thread, fork_planner, new_thread_planner
from clew.server.http.idempotency import COMMITS_KEY, KEY_HEADER
from clew.server.http.openapi import HAS_ETAG
from clew.server.http.views import (
    changeset_view,
    commit_view,
    item_page,
    item_view,
    message_views,
    thread_detail,
    thread_view,
)

BATCH_SIZE, MOST_THREADS = 100, 1_000
"""How many threads a search reads at a time, and for one page."""
RECENT_ITEMS = 8
"""How many of the newest items may say something."""
LONGEST_TEXT = 200


class ThreadListing(msgspec.Struct, frozen=True, kw_only=True):
    """Threads of one page, and where the next begins."""

    threads: list[ThreadSummary]
    next: str | None = None
    problems: dict[str, str] = {}


async def find_threads(db: Database, after: str | None, limit: int, search: str | None) -> ThreadListing:
    """As many threads as are wanted of those that bear the words; fewer if too many had to be looked at."""
    matches: list[ThreadSummary] = []
    problems: dict[str, str] = {}
    thread_count = 0
    while len(matches) < limit and thread_count < MOST_THREADS:
        page, page_matches = await _page_and_matches(db, after, limit - len(matches), search)
        matches += page_matches
        problems.update(page.broken)
        thread_count, after = thread_count + max(len(page.threads), 1), page.next
        if after is None:
            break
    return ThreadListing(threads=matches, next=after, problems=problems)


async def _page_and_matches(
    db: Database, after: str | None, count: int, search: str | None
) -> tuple[SummaryPage, list[ThreadSummary]]:
    """A page of threads up to as many as are wanted of those that bear the words, and these."""
    size = count if search is None else max(count, BATCH_SIZE)
    page = await db.threads(limit=size, after=after)
    matches = [each for each in page.threads if search is None or _is_match(each, search)]
    if len(matches) <= count:
        return page, matches
    end = page.threads.index(matches[count - 1]) + 1
    return await db.threads(limit=end, after=after), matches[:count]


def _is_match(summary: ThreadSummary, search: str) -> bool:
    words = (summary.id, summary.title or "", *summary.labels)
    return any(search.casefold() in word.casefold() for word in words)


async def last_text(db: Database, thread: str) -> str | None:
    """The beginning of what was said last in a thread, whatever framework wrote it."""
    window = await db.thread(thread).items(last=RECENT_ITEMS)
    texts = [message.text for message in plain_messages(window) if message.text]
    return " ".join(texts[-1].split())[:LONGEST_TEXT] if texts else None


Limit = Annotated[int, QueryParameter(ge=1, le=200, description="How many at most.")]
Cursor = Annotated[str | None, QueryParameter(description="Where the page before ended.")]
SearchQuery = Annotated[str | None, QueryParameter(description="Part of an id, a title or a label.")]
Version = Annotated[
    int | None, QueryParameter(ge=0, le=1 << 53, description="A version instead of the newest.")
]
IfMatch = Annotated[
    str | None, HeaderParameter(name="If-Match", description="Only if the thread is at this version.")
]
IfNoneMatch = Annotated[
    str | None, HeaderParameter(name="If-None-Match", description="Not if the thread is at this version.")
]
ETAG_PATTERN = re.compile(r'"[^"]*"')
DIFF_ITEMS = 1_000
"""How many items on each side of a diff are compared, the newest."""


def etag(version: int) -> dict[str, str]:
    """The header that says at which version a thread is."""
    return {"ETag": f'"{version}"'}


def parse_if_match(if_match: str | None) -> Expectation:
    """Where a thread must be, as a request says.

    Raises:
        InvalidArgument: It says it in no way that can be understood.
    """
    if if_match is None or if_match.strip() == "*":
        return AnyVersion()
    version = if_match.strip().removeprefix("W/").strip('"')
    if not (version.isascii() and version.isdecimal() and len(version) < 16):
        raise InvalidArgument(problem='If-Match must be a version in quotes, like "12".')
    return Exact(int(version))


@post("/threads", operation_id="create_thread", opt={HAS_ETAG: True})
async def create_thread(
    data: JSONBody[NewThread], caller: CurrentCaller, request: Request[Any, Any, Any]
) -> Response[ThreadDetail]:
    """A new thread. It belongs to the user whose credentials these are."""
    about = {name: value for name, value in (("title", data.title), ("labels", data.labels)) if value}
    patches = [ops.set([ABOUT_KEY], about)] if about else []
    return await commit_new_thread(
        request, caller, new_thread_planner(caller, check_thread_id(data.id), patches)
    )


@get("/threads", operation_id="list_threads")
async def list_threads(
    caller: CurrentCaller,
    limit: Limit = 50,
    cursor: Cursor = None,
    search: SearchQuery = None,
    last: Annotated[bool, QueryParameter(description="Also what was said last in each.")] = False,  # noqa: FBT002 - a query parameter
) -> ThreadPage:
    """Threads, the newest first; with words to search for, those that bear them."""
    list_name = "threads" if search is None else f"threads\0{search}"
    listing = await find_threads(caller.db, caller.position(cursor, str, list_name), limit, search)
    return ThreadPage(
        threads=[
            thread_view(each, await last_text(caller.db, each.id) if last else None)
            for each in listing.threads
        ],
        next=caller.cursor(listing.next, list_name) if listing.next is not None else None,
        broken=listing.problems,
    )


@get(
    "/threads/{id:str}",
    operation_id="get_thread",
    opt={HAS_ETAG: True},
    responses={
        200: ResponseSpec(ThreadDetail, generate_examples=False, description="The thread."),
        304: ResponseSpec(None, description="It is still at this version."),
    },
)
async def get_thread(
    thread_id: ThreadId, caller: CurrentCaller, at: Version = None, if_none_match: IfNoneMatch = None
) -> Response[Any]:
    """A thread at its newest version, or an earlier one. Its ETag is the version."""
    head = await (await caller.readable_thread(thread_id)).head(at=at)
    if if_none_match is not None and etag(head.version)["ETag"] in ETAG_PATTERN.findall(if_none_match):
        return Response(None, status_code=304, headers=etag(head.version))
    return Response(thread_detail(head), headers=etag(head.version))


@delete("/threads/{id:str}", operation_id="delete_thread", status_code=204)
async def delete_thread(thread_id: ThreadId, caller: CurrentCaller, if_match: IfMatch = None) -> None:
    """Remove a thread. Forks of it stay whole."""
    await caller.db.thread(thread_id).delete(expect=parse_if_match(if_match))


@get("/threads/{id:str}/items", operation_id="list_items")
async def list_items(
    thread_id: ThreadId,
    caller: CurrentCaller,
    limit: Limit = 50,
    cursor: Cursor = None,
    at: Version = None,
    log: FromQuery[str] = HISTORY,
    whole: FromQuery[bool] = False,  # noqa: FBT002 - a query parameter
) -> ItemPage:
    """The newest items, oldest first; the cursor leads to older ones, at the version of the first page."""
    list_name = f"items\0{thread_id}\0{log}\0{whole}"
    position = caller.position(cursor, tuple[int, int], list_name)
    before, version = position if position is not None else (None, at)
    thread = await caller.readable_thread(thread_id)
    window = await thread.items(last=limit + 1, before=before, at=version, log=log, whole=whole)
    items = list(window)[-limit:]
    next = None
    if len(window) > limit:
        next = caller.cursor([items[0].place, window.version], list_name)
    return item_page(thread_id, Window(items, window.broken, window.version), next)


@get("/threads/{id:str}/messages", operation_id="list_messages")
async def list_messages(
    thread_id: ThreadId,
    caller: CurrentCaller,
    limit: Limit = 50,
    cursor: Cursor = None,
    at: Version = None,
    log: FromQuery[str] = HISTORY,
) -> MessagePage:
    """What the newest items say, whatever framework wrote them; the cursor leads to older ones."""
    list_name = f"messages\0{thread_id}\0{log}"
    position = caller.position(cursor, tuple[int, int], list_name)
    before, version = position if position is not None else (None, at)
    thread = await caller.readable_thread(thread_id)
    window = await thread.items(last=limit + 1, before=before, at=version, log=log)
    items = list(window)[-limit:]
    has_more = len(window) > limit
    return MessagePage(
        thread=thread_id,
        version=window.version,
        messages=message_views(items),
        next=caller.cursor([items[0].place, window.version], list_name) if has_more else None,
    )


@get("/threads/{id:str}/changesets", operation_id="list_changesets")
async def list_changesets(
    thread_id: ThreadId,
    caller: CurrentCaller,
    limit: Limit = 50,
    cursor: Cursor = None,
    after: Version = None,
) -> ChangesetPage:
    """The changes of a thread in order of version, from the one after a version on."""
    start = caller.position(cursor, int, f"changesets\0{thread_id}") or after or 0
    changes = await (await caller.readable_thread(thread_id)).changesets(after=start, limit=limit)
    next = caller.cursor(changes[-1].version, f"changesets\0{thread_id}") if len(changes) == limit else None
    return ChangesetPage(
        thread=thread_id, changesets=[changeset_view(change) for change in changes], next=next
    )


@post("/threads/{id:str}/changesets", operation_id="append", opt={COMMITS_KEY: True, HAS_ETAG: True})
async def append_changeset(
    thread_id: ThreadId,
    data: JSONBody[NewChangeset],
    caller: CurrentCaller,
    request: Request[Any, Any, Any],
    if_match: IfMatch = None,
) -> Response[CommitView]:
    """Append a change. A key makes it safe to repeat; If-Match makes it stand on a version."""
    items = [Item(**{name: getattr(item, name) for name in item.__struct_fields__}) for item in data.items]
    commit = await caller.db.thread(check_thread_id(thread_id)).append(
        items=items,
        patches=_parse_ops(data.patches),
        reason=data.reason,
        key=request.headers.get(KEY_HEADER),
        author=caller.identity.user,
        expect=parse_if_match(if_match),
    )
    return Response(commit_view(commit), status_code=201, headers=etag(commit.version))


def _parse_ops(patches: list[Any]) -> list[Op]:
    try:
        parsed_ops = msgspec.convert(patches, list[Op])
    except msgspec.ValidationError as error:
        raise InvalidArgument(problem=f"A patch is no op: {error}.") from error
    if any(not op.path or str(op.path[0]).startswith("$") for op in parsed_ops):
        raise InvalidArgument(problem="A patch needs a key, and one that does not begin with $.")
    return parsed_ops


@get("/threads/{id:str}/state", operation_id="get_state", opt={HAS_ETAG: True})
async def get_state(thread_id: ThreadId, caller: CurrentCaller, at: Version = None) -> Response[StateView]:
    """The state of a thread at its newest version, or an earlier one."""
    head = await (await caller.readable_thread(thread_id)).head(at=at)
    view = StateView(thread=thread_id, version=head.version, state=head.state)
    return Response(view, headers=etag(head.version))


@get("/threads/{id:str}/diff", operation_id="diff_thread")
async def diff_thread(
    thread_id: ThreadId,
    caller: CurrentCaller,
    before: Annotated[int, QueryParameter(ge=0, le=1 << 53)],
    after: Version = None,
    log: FromQuery[str] = HISTORY,
) -> DiffView:
    """What differs between two versions; without a second, up to the newest.

    Of each, the newest thousand items are looked at: what is older than all that was seen of the other
    version is told neither as added nor as removed.
    """
    thread = await caller.readable_thread(thread_id)
    end = (await thread.head()).version if after is None else after
    old = await thread.items(last=DIFF_ITEMS + 1, at=before, log=log)
    new = await thread.items(last=DIFF_ITEMS + 1, at=end, log=log)
    return DiffView(
        thread=thread_id,
        before=before,
        after=end,
        ops=as_json(await thread.diff(before, end)),
        added=[item_view(item) for item in _items_missing_from(old, new)],
        removed=[item_view(item) for item in _items_missing_from(new, old)],
    )


def _items_missing_from(other: Window, items: Window) -> list[Item]:
    """Those items that another window would hold if they were there, and does not."""
    places = {item.place for item in other} | {entry.place for entry in other.broken}
    first = min(places) if len(places) > DIFF_ITEMS else 0  # who saw less has seen all
    return [item for item in items if item.place >= first and item.place not in places]


@get("/threads/{id:str}/verify", operation_id="verify_thread")
async def verify_thread(thread_id: ThreadId, caller: CurrentCaller) -> VerdictView:
    """Whether the hash chain of a thread holds, and its log folds to what is stored."""
    thread = await caller.readable_thread(thread_id)
    await thread.head()
    verdict = await thread.verify()
    return VerdictView(
        thread=verdict.thread,
        version=verdict.version,
        hash=verdict.hash,
        ok=verdict.ok,
        problems=list(verdict.problems),
        erased=list(verdict.erased),
    )


@post("/threads/{id:str}/fork", operation_id="fork_thread", opt={HAS_ETAG: True})
async def fork_thread(
    thread_id: ThreadId, data: JSONBody[NewFork], caller: CurrentCaller, request: Request[Any, Any, Any]
) -> Response[ThreadDetail]:
    """A new thread that goes its own way from a version of this one."""
    return await commit_new_thread(
        request, caller, fork_planner(thread_id, check_thread_id(data.id), data.at)
    )


@post("/threads/{id:str}/rewind", operation_id="rewind_thread", status_code=200, opt={HAS_ETAG: True})
async def rewind_thread(
    thread_id: ThreadId, data: JSONBody[NewRewind], caller: CurrentCaller, if_match: IfMatch = None
) -> Response[RewindView]:
    """Take back a run, everything after a version, or a compaction, by a new change.

    With If-Match it stands on the version that the caller has seen.
    """
    await caller.db.thread(check_thread_id(thread_id)).head()
    async with caller.runtime() as runtime:
        result = await runtime.rewind(
            thread_id,
            data.run,
            to=data.to,
            compaction=data.compaction,
            user=caller.identity.user,
            expect=parse_if_match(if_match),
        )
    view = RewindView(
        thread=result.thread,
        version=result.version,
        ended=result.items_removed,
        restored=result.items_restored,
        effects=as_json(result.effects),
    )
    return Response(view, headers=etag(result.version))


THREAD_ROUTES = [
    create_thread,
    list_threads,
    get_thread,
    delete_thread,
    list_items,
    list_messages,
    list_changesets,
    append_changeset,
    get_state,
    diff_thread,
    verify_thread,
    fork_thread,
    rewind_thread,
]
