"""Search over HTTP."""

from typing import Annotated

import msgspec
from litestar.params import FromQuery, QueryParameter

from clew.api.search import SEARCH, SearchHitPage, SearchHitView
from clew.core.encoding import as_json
from clew.runtime.search import KINDS, Search, SearchKind, search_everything
from clew.server.http.callers import CurrentCaller
from clew.server.http.endpoint import endpoint
from clew.server.http.parameters import Cursor, Limit, TimeQuery
from clew.server.http.paths import check_reachable


@endpoint(SEARCH)
async def search(
    caller: CurrentCaller,
    q: Annotated[str, QueryParameter(min_length=1, max_length=1_000, description="Words to look for.")],
    limit: Limit = 20,
    cursor: Cursor = None,
    kind: Annotated[list[SearchKind] | None, QueryParameter(description="Only of these kinds.")] = None,
    thread: FromQuery[str | None] = None,
    role: Annotated[str | None, QueryParameter(description="Only what this role has said.")] = None,
    since: TimeQuery = None,
    until: TimeQuery = None,
    user: Annotated[str | None, QueryParameter(description="Only what belongs to this user.")] = None,
) -> SearchHitPage:
    """Search what was said and what is known, the best first; by meaning too, if the server can."""
    owner = caller.effective_user(user)
    query = Search(
        query=q,
        owner=owner,
        thread=None if thread is None else check_reachable(thread),
        kinds=tuple(each for each in KINDS if kind is None or each in kind),
        role=role,
        since=since,
        until=until,
    )
    pages = caller.pages(cursor, str, "search", as_json(query))
    async with caller.runtime() as runtime:
        page = await search_everything(
            caller.database_for(owner),
            query,
            limit=limit,
            cursor=pages.start,
            embedder=runtime.embedding_provider,
        )
    return SearchHitPage(
        found=[
            SearchHitView(**msgspec.structs.asdict(hit) | {"marks": list(hit.marks)}) for hit in page.hits
        ],
        next=pages.cursor(page.next),
        path=page.path,
        problem=page.problem,
    )


SEARCH_ROUTES = [search]
