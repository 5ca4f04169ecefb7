"""Calls of search."""

from clew.api.search import SEARCH, SearchHitPage
from clew.client.call import ApiCall, CallMethod, api_call


class SearchMethods:
    """Calls of search."""

    @CallMethod
    def search(
        self,
        words: str,
        *,
        kind: str | None = None,
        thread: str | None = None,
        role: str | None = None,
        since: int | None = None,
        until: int | None = None,
        user: str | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> ApiCall[SearchHitPage]:
        """Search what was said and what is known."""
        return api_call(
            SEARCH,
            q=words,
            kind=kind,
            thread=thread,
            role=role,
            since=since,
            until=until,
            user=user,
            limit=limit,
            cursor=cursor,
        )
