"""Threads over HTTP: created, listed, read at any version, compared, forked, rewound, deleted."""

from typing import Annotated, Any

import msgspec
from litestar import Request, Response
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromQuery, JSONBody, QueryParameter

from clew.api.route import IDEMPOTENCY_KEY
from clew.api.threads import (
    ADOPT_THREAD,
    APPEND,
    CREATE_THREAD,
    DELETE_THREAD,
    DIFF_THREAD,
    FORK_THREAD,
    GET_STATE,
    GET_STORED_STATE,
    GET_THREAD,
    LIST_CHANGESETS,
    LIST_ITEMS,
    LIST_MESSAGES,
    LIST_THREADS,
    REWIND_THREAD,
    VERIFY_THREAD,
    AdoptionView,
    ChangesetPage,
    CommitView,
    DiffView,
    ItemPage,
    MessagePage,
    NewAdoption,
    NewChangeset,
    NewFork,
    NewRewind,
    NewThread,
    RewindView,
    StateView,
    ThreadDetail,
    ThreadPage,
    VerdictView,
)
from clew.core import patch as ops
from clew.core.encoding import as_json
from clew.core.errors import InvalidArgument, ModeRefused
from clew.core.log.commit import Planner
from clew.core.ops import Op
from clew.core.values import (
    ABOUT_KEY,
    HISTORY,
    Committed,
    Expectation,
    Item,
    Window,
)
from clew.runtime.maintenance import adoption as adoptions
from clew.runtime.records.episodes import ACTIVE_EPISODE
from clew.runtime.state.inputs import check_thread_id
from clew.server.http import audit
from clew.server.http.callers import Caller, CurrentCaller, ThreadId
from clew.server.http.creation import commit_new_thread, fork_planner, new_thread_planner
from clew.server.http.cursors import ListPages
from clew.server.http.endpoint import endpoint
from clew.server.http.parameters import (
    Cursor,
    IfMatch,
    IfNoneMatch,
    Limit,
    SearchQuery,
    Version,
    etag,
    has_etag,
    parse_if_match,
)
from clew.server.http.views import (
    changeset_view,
    commit_view,
    item_page,
    item_view,
    message_views,
    thread_detail,
    thread_view,
)
from clew.server.tenants.thread_list import find_threads, first_text, thread_texts

DIFF_ITEMS = 1_000
"""How many of the newest items of each version a diff compares."""


@endpoint(CREATE_THREAD)
async def create_thread(
    data: JSONBody[NewThread], caller: CurrentCaller, request: Request[Any, Any, Any]
) -> Response[ThreadDetail]:
    """Create a thread. It belongs to the user of the credentials."""
    return await commit_new_thread(request, caller, plan_new_thread(caller, data))


def plan_new_thread(caller: Caller, thread: NewThread) -> Planner:
    """Return a planner of a new thread with its title and labels."""
    about = {name: value for name, value in (("title", thread.title), ("labels", thread.labels)) if value}
    patches = [ops.set([ABOUT_KEY], about)] if about else []
    return new_thread_planner(caller, check_thread_id(thread.id), patches)


@endpoint(LIST_THREADS)
async def list_threads(
    caller: CurrentCaller,
    limit: Limit = 50,
    cursor: Cursor = None,
    search: SearchQuery = None,
    last: Annotated[bool, QueryParameter(description="Also what was said first and last in each.")] = False,  # noqa: FBT002 - a query parameter
) -> ThreadPage:
    """List threads, the newest first; with a search, those that match it."""
    pages = caller.pages(cursor, str, "threads", search)
    listing = await find_threads(caller.db, pages.start, limit, search)
    return ThreadPage(
        threads=[
            thread_view(each, await thread_texts(caller.db, each) if last else None)
            for each in listing.threads
        ],
        next=pages.cursor(listing.next),
        broken=listing.problems,
    )


@endpoint(
    GET_THREAD,
    responses={
        200: ResponseSpec(ThreadDetail, generate_examples=False, description="The thread."),
        304: ResponseSpec(None, description="It is still at this version."),
    },
)
async def get_thread(
    thread_id: ThreadId,
    caller: CurrentCaller,
    at: Version = None,
    if_none_match: IfNoneMatch = None,
    first: Annotated[bool, QueryParameter(description="Also what was said first.")] = False,  # noqa: FBT002 - a query parameter
) -> Response[Any]:
    """Return a thread at its newest version, or an earlier one. Its ETag is the version."""
    head = await (await caller.readable_thread(thread_id)).head(at=at)
    if has_etag(if_none_match, head.version):
        return Response(None, status_code=304, headers=etag(head.version))
    is_untitled = (
        first and head.title is None and not await caller.incognito.has_thread(caller.scope, thread_id)
    )
    opening = await first_text(caller.db, thread_id) if is_untitled else None
    return Response(thread_detail(head, opening), headers=etag(head.version))


@endpoint(DELETE_THREAD)
async def delete_thread(thread_id: ThreadId, caller: CurrentCaller, if_match: IfMatch = None) -> None:
    """Remove a thread, and with it the episode that it is in. Forks of it stay whole."""
    await caller.db.thread(thread_id).delete(expect=parse_if_match(if_match))
    await caller.db.records.drop(ACTIVE_EPISODE, thread_id)


@endpoint(LIST_ITEMS)
async def list_items(
    thread_id: ThreadId,
    caller: CurrentCaller,
    limit: Limit = 50,
    cursor: Cursor = None,
    at: Version = None,
    log: FromQuery[str] = HISTORY,
    whole: FromQuery[bool] = False,  # noqa: FBT002 - a query parameter
) -> ItemPage:
    """List the newest items, oldest first; the cursor leads to older ones at the same version."""
    pages = caller.pages(cursor, tuple[int, int], "items", thread_id, log, whole)
    before, version = pages.start or (None, at)
    thread = await caller.readable_thread(thread_id)
    window = await thread.items(last=limit + 1, before=before, at=version, log=log, whole=whole)
    page, next = _cut_window(window, limit, pages)
    return item_page(thread_id, page, next)


def _cut_window(window: Window, limit: int, pages: ListPages[tuple[int, int]]) -> tuple[Window, str | None]:
    """Return the newest items of a window, and the cursor of the older ones at the same version."""
    page = Window(list(window)[-limit:], window.broken, window.version)
    return page, pages.cursor([page[0].place, page.version]) if len(window) > limit else None


@endpoint(LIST_MESSAGES)
async def list_messages(
    thread_id: ThreadId,
    caller: CurrentCaller,
    limit: Limit = 50,
    cursor: Cursor = None,
    at: Version = None,
    log: FromQuery[str] = HISTORY,
) -> MessagePage:
    """List the newest messages, whatever framework wrote them; the cursor leads to older ones."""
    pages = caller.pages(cursor, tuple[int, int], "messages", thread_id, log)
    before, version = pages.start or (None, at)
    thread = await caller.readable_thread(thread_id)
    window = await thread.items(last=limit + 1, before=before, at=version, log=log)
    page, next = _cut_window(window, limit, pages)
    messages = message_views(page)
    return MessagePage(thread=thread_id, version=page.version, messages=messages, next=next)


@endpoint(LIST_CHANGESETS)
async def list_changesets(
    thread_id: ThreadId,
    caller: CurrentCaller,
    limit: Limit = 50,
    cursor: Cursor = None,
    after: Version = None,
) -> ChangesetPage:
    """List the changes of a thread in order of version, from the one after a version on."""
    pages = caller.pages(cursor, int, "changesets", thread_id)
    thread = await caller.readable_thread(thread_id)
    changes = await thread.changesets(after=pages.start or after or 0, limit=limit)
    return ChangesetPage(
        thread=thread_id,
        changesets=[changeset_view(change) for change in changes],
        next=pages.cursor(changes[-1].version if len(changes) == limit else None),
    )


@endpoint(APPEND)
async def append_changeset(
    thread_id: ThreadId,
    data: JSONBody[NewChangeset],
    caller: CurrentCaller,
    request: Request[Any, Any, Any],
    if_match: IfMatch = None,
) -> Response[CommitView]:
    """Append a change. A key makes it safe to repeat; with If-Match it is made at that version only."""
    key = request.headers.get(IDEMPOTENCY_KEY)
    commit = await append_change(caller, thread_id, data, key=key, expect=parse_if_match(if_match))
    return Response(commit_view(commit), status_code=201, headers=etag(commit.version))


async def append_change(
    caller: Caller, thread: str, change: NewChangeset, *, key: str | None, expect: Expectation
) -> Committed:
    """Append a change to a thread that the caller may write, in the name of the caller's user.

    Raises:
        ModeRefused: The thread is incognito, and the change would be written down.
    """
    if await caller.incognito.has_thread(caller.scope, thread):
        raise ModeRefused(asked="local", offered="incognito", problem="nothing of this thread is stored")
    items = [Item(**{name: getattr(item, name) for name in item.__struct_fields__}) for item in change.items]
    await caller.check_writable(thread)
    commit = await caller.db.thread(check_thread_id(thread)).append(
        items=items,
        patches=_parse_ops(change.patches),
        reason=change.reason,
        key=key,
        author=caller.identity.user,
        expect=expect,
    )
    caller.resources.metrics.appends.labels("request").inc()
    return commit


def _parse_ops(patches: list[Any]) -> list[Op]:
    try:
        parsed_ops = msgspec.convert(patches, list[Op])
    except msgspec.ValidationError as error:
        raise InvalidArgument(problem=f"A patch is not an op: {error}.") from error
    if any(not op.path or str(op.path[0]).startswith("$") for op in parsed_ops):
        raise InvalidArgument(problem="A patch needs a key, and one that does not begin with $.")
    return parsed_ops


@endpoint(GET_STATE)
async def get_state(thread_id: ThreadId, caller: CurrentCaller, at: Version = None) -> Response[StateView]:
    """Return the state of a thread at its newest version, or an earlier one."""
    head = await (await caller.readable_thread(thread_id)).head(at=at)
    view = StateView(thread=thread_id, version=head.version, state=head.state)
    return Response(view, headers=etag(head.version))


@endpoint(GET_STORED_STATE)
async def get_stored_state(
    thread_id: ThreadId, caller: CurrentCaller, at: Version = None
) -> Response[StateView]:
    """Return the stored state of any thread of the tenant, at any version. Needs the role admin."""
    db = caller.tenant_database()
    head = await db.thread(thread_id).head(at=at)
    facts = {"version": head.version}
    await audit.record_action(db, caller.identity, GET_STORED_STATE.audit, thread=thread_id, facts=facts)
    view = StateView(thread=thread_id, version=head.version, state=head.state)
    return Response(view, headers=etag(head.version))


@endpoint(DIFF_THREAD)
async def diff_thread(
    thread_id: ThreadId,
    caller: CurrentCaller,
    before: Annotated[int, QueryParameter(ge=0, le=1 << 53)],
    after: Version = None,
    log: FromQuery[str] = HISTORY,
) -> DiffView:
    """Compare two versions; without a second, the newest.

    Of each, the newest thousand items are compared: items that are older than all of these of the other
    version are reported neither as added nor as removed.
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
    """Return the items that are missing from another window, as far back as that window reaches."""
    places = {item.place for item in other} | {entry.place for entry in other.broken}
    first = min(places) if len(places) > DIFF_ITEMS else 0  # a shorter window holds all items there are
    return [item for item in items if item.place >= first and item.place not in places]


@endpoint(VERIFY_THREAD)
async def verify_thread(thread_id: ThreadId, caller: CurrentCaller) -> VerdictView:
    """Verify the hash chain of a thread, and that its log folds to the stored state."""
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


@endpoint(FORK_THREAD)
async def fork_thread(
    thread_id: ThreadId, data: JSONBody[NewFork], caller: CurrentCaller, request: Request[Any, Any, Any]
) -> Response[ThreadDetail]:
    """Fork a thread: create another one from a version of it."""
    return await commit_new_thread(
        request, caller, fork_planner(thread_id, check_thread_id(data.id), data.at)
    )


@endpoint(REWIND_THREAD)
async def rewind_thread(
    thread_id: ThreadId, data: JSONBody[NewRewind], caller: CurrentCaller, if_match: IfMatch = None
) -> Response[RewindView]:
    """Take back a run, everything after a version, or a compaction, by a new change.

    With If-Match it is made at the version that the caller has seen, or refused.
    """
    await caller.db.thread(check_thread_id(thread_id)).head()
    async with caller.runtime(thread_id) as runtime:
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


@endpoint(ADOPT_THREAD)
async def adopt_thread(
    thread_id: ThreadId, data: JSONBody[NewAdoption], caller: CurrentCaller
) -> Response[AdoptionView]:
    """Hand a thread over to an agent, which alone writes it from now on. Needs the role admin."""
    db = caller.tenant_database()
    head = await db.thread(thread_id).head()
    facts = {"agent": data.agent, "before": head.agent}
    await audit.record_action(db, caller.identity, ADOPT_THREAD.audit, thread=thread_id, facts=facts)
    adoption = await adoptions.adopt_thread(db, thread_id, data.agent, now=db.store.now())
    view = AdoptionView(**msgspec.structs.asdict(adoption))
    return Response(view, headers=etag(adoption.version))


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
    get_stored_state,
    diff_thread,
    verify_thread,
    fork_thread,
    rewind_thread,
    adopt_thread,
]
