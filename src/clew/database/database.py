"""A database: the threads, records and jobs of one tenant, for one user or for all of them."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from clew.core.arguments import check_methods
from clew.core.encoding import Id, check_tenant
from clew.core.erasure.receipts import Receipt, subject_of
from clew.core.errors import InvalidArgument, ThreadExists
from clew.core.log import commit as log_commit
from clew.core.log import lineage
from clew.core.log.checks import INTEGERS, check_limit, prepare_writes
from clew.core.log.reader import head_of, parent_of
from clew.core.log.rows import AskThreads, StoreRead, ThreadRow, UnreadableThread, ask
from clew.core.ports import Files, Store, StoreReport
from clew.core.values import (
    RESERVED_THREAD_PREFIXES,
    CommitResult,
    Scope,
    SearchHit,
    SummaryPage,
    ThreadSummary,
    Write,
    WriteResult,
)
from clew.database.erasure import CountsListener, erase_subject, ignore_counts
from clew.database.jobs import Jobs
from clew.database.records import Records
from clew.database.retention import Retention
from clew.database.search import SearchIndex, index_threads, search_words
from clew.database.thread import Thread


@check_methods
class Database:
    """Threads, records and jobs, as one tenant and user see them.

    Closing it closes the store only if it was opened with it. ``files`` are those beside it, on a volume:
    they go with what is erased or deleted.
    """

    def __init__(
        self,
        store: Store,
        scope: Scope | None = None,
        *,
        owns_store: bool = False,
        files: Files | None = None,
    ) -> None:
        self.store = store
        self.files = files
        self._scope = scope or Scope()
        self._owns_store = owns_store

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def tenant(self) -> str:
        """The tenant of these threads."""
        return self._scope.tenant

    @property
    def user(self) -> str | None:
        """The user that it is used for; None for all users of the tenant."""
        return self._scope.user

    @property
    def records(self) -> Records:
        """Small documents beside the threads."""
        return Records(self.store, self._scope)

    @property
    def search_index(self) -> SearchIndex:
        """The search index: places ranked for a query, and the items at them."""
        return SearchIndex(self.store, self._scope)

    @property
    def jobs(self) -> Jobs:
        """Work to be done later."""
        return Jobs(self.store, self._scope)

    @property
    def retention(self) -> Retention:
        """Holds, rules and receipts: what must stay, what may go, and what went. For operators."""
        return Retention(self.store, self._scope, self.files)

    def scope(self, *, tenant: Id, user: Id | None = None) -> "Database":
        """The same store for another tenant, or for one user of it. Names that begin with $ are reserved."""
        check_tenant(tenant)
        return Database(self.store, Scope(tenant=tenant, user=user), files=self.files)

    def thread(self, id: Id) -> Thread:
        """A thread by its id; whether it exists shows when it is used."""
        return Thread(self.store, self._scope, id, self.files)

    async def create(self, id: Id, *, owner: Id | None = None, exist_ok: bool = False) -> Thread:
        """A new thread at version 0.

        Raises:
            ThreadExists: The id is taken, and ``exist_ok`` is not set.
        """
        thread = self.thread(id)
        try:
            await self.store.change(self._scope, lambda context: lineage.plan_create(id, owner, context))
        except ThreadExists:
            if not exist_ok:
                raise
            await thread.head()  # another user's thread of that id is not there for us
        return thread

    async def threads(
        self, *, owner: Id | None = None, limit: int = 50, after: str | None = None, system: bool = False
    ) -> SummaryPage:
        """Some threads, the newest first; ``after`` is the cursor that the page before ended with.

        One that cannot be read is named in ``page.broken`` and hides no other. Clew's own threads, which
        hold what is remembered, are among them only if ``system`` is set.
        """
        return await self.store.read(self._scope, _read_page(owner, limit, after, system=system))

    async def commit(self, writes: Sequence[Write]) -> list[WriteResult]:
        """Commit every write, or none, and return the result of each.

        Raises:
            VersionConflict: A thread is not where ``expect`` says.
            RevisionConflict: A record is not where ``expect`` says.
            ClaimLost: A job to finish belongs to another worker.
        """
        return (await self.commit_with_heads(writes)).results

    async def commit_with_heads(self, writes: Sequence[Write]) -> CommitResult:
        """Commit every write, or none, and return the heads of the threads too, as far as they are known."""
        prepared_writes = prepare_writes(writes, self.store.limits)
        plan = await self.store.change(
            self._scope, lambda context: log_commit.plan_commit(prepared_writes, context)
        )
        heads = {
            id: head_of(head.row, head.state)
            for id, head in plan.heads.items()
            if head is not None and head.state is not None
        }
        return CommitResult(results=plan.results, heads=heads)

    async def search(
        self,
        query: str,
        *,
        any: bool = False,
        owner: Id | None = None,
        thread: Id | None = None,
        log: Id | None = None,
        limit: int = 20,
    ) -> list[SearchHit]:
        """Visible items that hold all of the words, the best first; with ``any``, any of them."""
        return await search_words(
            self.store, self._scope, query, any=any, owner=owner, thread=thread, log=log, limit=limit
        )

    async def index(self) -> int:
        """Bring the search index up to date, so that a search has little to read besides."""
        return await index_threads(self.store, self._scope)

    async def erase(
        self,
        *,
        owner: Id | None = None,
        thread: Id | None = None,
        with_retained: bool = False,
        dry_run: bool = False,
        notify: CountsListener = ignore_counts,
    ) -> Receipt:
        """Erase all traces of an owner, or of a thread and its forks; return a receipt. See ``retention``.

        Records with a date stay until it comes, unless ``with_retained`` takes them too.

        Raises:
            LegalHold: A part of it is held; nothing was removed.
            Forbidden: This database is used for one user.
        """
        subject = subject_of(owner, thread, with_retained=with_retained)
        return await erase_subject(
            self.store, self._scope, subject, files=self.files, dry_run=dry_run, notify=notify
        )

    async def report(self) -> StoreReport:
        """Report the store's health."""
        return await self.store.report()

    async def close(self) -> None:
        """Close the store, if this database opened it."""
        if self._owns_store:
            await self.store.close()


def owner_database(db: Database, owner: str | None) -> Database:
    """A database with the rights of the owner of something, and no more; unchanged for what has no owner.

    Background work finds what is due with the rights of a tenant, and acts on it with these.
    """
    return db if owner is None or db.user is not None else db.scope(tenant=db.tenant, user=owner)


def _read_page(owner: str | None, limit: int, after: str | None, *, system: bool) -> StoreRead[SummaryPage]:
    if not check_limit(limit):
        return SummaryPage(threads=(), next=after)
    rows = yield from _read_thread_rows(owner, _parse_cursor(after), limit + 1, system=system)
    more = rows[limit - 1] if len(rows) > limit else None
    return SummaryPage(
        threads=tuple(_summary(row) for row in rows[:limit] if isinstance(row, ThreadRow)),
        next=f"{more.created}:{more.id}" if more else None,
        broken={row.id: row.problem for row in rows[:limit] if isinstance(row, UnreadableThread)},
    )


def _read_thread_rows(
    owner: str | None, before: tuple[int, str] | None, count: int, *, system: bool
) -> StoreRead[list[ThreadRow | UnreadableThread]]:
    """At least so many rows, if there are as many, without the threads that are not asked for."""
    matches: list[ThreadRow | UnreadableThread] = []
    while True:
        rows = yield from ask(AskThreads(owner, before, count))
        matches += [row for row in rows if system or not row.id.startswith(RESERVED_THREAD_PREFIXES)]
        if len(matches) >= count or len(rows) < count:
            return matches
        before = (rows[-1].created, rows[-1].id)


def _parse_cursor(cursor: str | None) -> tuple[int, str] | None:
    if cursor is None:
        return None
    time, _, id = cursor.partition(":")
    if not time.isdecimal() or int(time) not in INTEGERS:
        raise InvalidArgument(problem=f"{cursor!r} is not a cursor of a page of threads.")
    return int(time), id


def _summary(row: ThreadRow) -> ThreadSummary:
    return ThreadSummary(
        id=row.id,
        owner=row.owner,
        version=row.version,
        created=row.created,
        updated=row.updated,
        title=row.title,
        labels=row.labels,
        parent=parent_of(row),
        items=sum(size.length for size in row.counters.logs.values()),
    )
