"""Calls of threads."""

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
    NewItem,
    NewRewind,
    NewThread,
    RewindView,
    StateView,
    ThreadDetail,
    ThreadPage,
    VerdictView,
)
from clew.client.call import ApiCall, CallMethod, api_call
from clew.core.encoding import JSON


class StoredStateMethods:
    """The call of operators about the state of a thread."""

    @CallMethod
    def stored_state(self, id: str, *, at: int | None = None) -> ApiCall[StateView]:
        """Return the stored state of any thread of the tenant, at its newest version or an earlier one."""
        return api_call(GET_STORED_STATE, id, at=at)


class ThreadMethods:
    """Calls of threads."""

    @CallMethod
    def create_thread(
        self, id: str, *, title: str | None = None, labels: list[str] | None = None, key: str | None = None
    ) -> ApiCall[ThreadDetail]:
        """Create a thread."""
        body = NewThread(id=id, title=title, labels=labels or [])
        return api_call(CREATE_THREAD, body=body, key=key)

    @CallMethod
    def threads(
        self, *, search: str | None = None, last: bool = False, limit: int = 50, cursor: str | None = None
    ) -> ApiCall[ThreadPage]:
        """Return threads that match a search, the newest first; with ``last`` each has its last text."""
        return api_call(LIST_THREADS, search=search, last=last or None, limit=limit, cursor=cursor)

    @CallMethod
    def thread(self, id: str, *, at: int | None = None, first: bool = False) -> ApiCall[ThreadDetail]:
        """Return a thread, now or at a version; with ``first``, what was said first if it has no title."""
        return api_call(GET_THREAD, id, at=at, first=first or None)

    @CallMethod
    def delete_thread(self, id: str, *, expect: int | None = None) -> ApiCall[None]:
        """Remove a thread."""
        return api_call(DELETE_THREAD, id, expect=expect)

    @CallMethod
    def items(
        self,
        id: str,
        *,
        limit: int = 50,
        cursor: str | None = None,
        at: int | None = None,
        log: str = "history",
        whole: bool = False,
    ) -> ApiCall[ItemPage]:
        """Return the newest items of a thread, oldest first."""
        return api_call(LIST_ITEMS, id, limit=limit, cursor=cursor, at=at, log=log, whole=whole)

    @CallMethod
    def messages(
        self,
        id: str,
        *,
        limit: int = 50,
        cursor: str | None = None,
        at: int | None = None,
        log: str = "history",
    ) -> ApiCall[MessagePage]:
        """Return the newest messages of a thread, whatever framework wrote them, oldest first."""
        return api_call(LIST_MESSAGES, id, limit=limit, cursor=cursor, at=at, log=log)

    @CallMethod
    def changesets(
        self, id: str, *, limit: int = 50, cursor: str | None = None, after: int | None = None
    ) -> ApiCall[ChangesetPage]:
        """Return the changes of a thread."""
        return api_call(LIST_CHANGESETS, id, limit=limit, cursor=cursor, after=after)

    @CallMethod
    def append(
        self,
        id: str,
        *,
        items: list[NewItem] | None = None,
        patches: list[JSON] | None = None,
        reason: str = "append",
        expect: int | None = None,
        key: str | None = None,
    ) -> ApiCall[CommitView]:
        """Append a change."""
        body = NewChangeset(items=items or [], patches=patches or [], reason=reason)
        return api_call(APPEND, id, body=body, key=key, expect=expect)

    @CallMethod
    def state(self, id: str, *, at: int | None = None) -> ApiCall[StateView]:
        """Return the state of a thread, now or at a version."""
        return api_call(GET_STATE, id, at=at)

    @CallMethod
    def diff(self, id: str, before: int, after: int | None = None) -> ApiCall[DiffView]:
        """Return the difference between two versions."""
        return api_call(DIFF_THREAD, id, before=before, after=after)

    @CallMethod
    def verify(self, id: str) -> ApiCall[VerdictView]:
        """Verify the hash chain of a thread."""
        return api_call(VERIFY_THREAD, id)

    @CallMethod
    def fork(
        self, id: str, new: str, *, at: int | None = None, key: str | None = None
    ) -> ApiCall[ThreadDetail]:
        """Fork a thread from a version of another."""
        return api_call(FORK_THREAD, id, body=NewFork(id=new, at=at), key=key)

    @CallMethod
    def rewind(
        self,
        id: str,
        *,
        run: str | None = None,
        to: int | None = None,
        compaction: int | None = None,
        expect: int | None = None,
        key: str | None = None,
    ) -> ApiCall[RewindView]:
        """Take back a run, everything after a version, or a compaction."""
        body = NewRewind(run=run, to=to, compaction=compaction)
        return api_call(REWIND_THREAD, id, body=body, key=key, expect=expect)

    @CallMethod
    def adopt(self, id: str, agent: str, *, key: str | None = None) -> ApiCall[AdoptionView]:
        """Hand a thread over to an agent. Needs the role admin."""
        return api_call(ADOPT_THREAD, id, body=NewAdoption(agent=agent), key=key)
