"""A thread: append to it, read any of its versions, fork it, watch it, check it."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeVar

from clew.core.arguments import Count, check_methods
from clew.core.encoding import JSON, Id
from clew.core.erasure.parts import Parts
from clew.core.erasure.receipts import Receipt
from clew.core.errors import InvalidArgument
from clew.core.items import repair
from clew.core.log import commit, lineage, reader
from clew.core.log.checks import ExpectedVersion, check_limit, expectation
from clew.core.log.codec import Items, Patches, prepare_append
from clew.core.log.rows import StoreRead, ThreadRow
from clew.core.ops import Document, Op, diff
from clew.core.ports import Files, Store
from clew.core.values import (
    HISTORY,
    AnyVersion,
    Changeset,
    Committed,
    Exact,
    Head,
    Item,
    ItemQuery,
    Scope,
    Window,
)
from clew.database.erasure import erase_parts
from clew.database.log import Log
from clew.database.provisional import drop_thread_texts
from clew.database.verify import Verdict, verify_thread

T = TypeVar("T")

ANY_VERSION = AnyVersion()
WATCH_SECONDS = 60.0
CHANGESETS_PER_PAGE = 256
"""Changesets read at a time where a thread is followed: as many as one question to a store gives."""


@check_methods
class Thread:
    """A thread by its id, as one tenant and user see it."""

    def __init__(self, store: Store, scope: Scope, id: Id, files: Files | None = None) -> None:
        self.id = id
        self._store = store
        self._scope = scope
        self._files = files

    def __repr__(self) -> str:
        return f"Thread({self.id!r})"

    async def append(
        self,
        change: Changeset | None = None,
        *,
        items: Items = (),
        patches: Patches = (),
        snapshot: Document | None = None,
        state_actions: Sequence[JSON] = (),
        reason: Id = "append",
        run_id: Id | None = None,
        key: Id | None = None,
        author: Id | None = None,
        expect: ExpectedVersion = ANY_VERSION,
    ) -> Committed:
        """Commit one more changeset: a whole one, or one made of the parts given.

        ``expect=3`` is short for ``expect=Exact(3)``: the thread must be at version 3.

        Raises:
            VersionConflict: The thread is not where ``expect`` says; nothing was changed.
            KeyReused: The idempotency key was used with another body.
            OpFailed: An op does not fit the state.
        """
        parts = Changeset(
            items=tuple(items),
            patches=tuple(patches),
            snapshot=snapshot,
            state_actions=tuple(state_actions),
            reason=reason,
            run_id=run_id,
            key=key,
            author=author,
        )
        if change is not None and parts != Changeset():
            problem = "Give a whole changeset or its parts, not both: one of them would be left out."
            raise InvalidArgument(problem=problem)
        change = change or parts
        write = prepare_append(self.id, change, expectation(expect), self._store.limits)
        plan = await self._store.change(self._scope, lambda context: commit.plan_commit([write], context))
        result = plan.results[0]
        assert isinstance(result, Committed)
        return result

    async def head(self, *, at: int | None = None) -> Head:
        """The thread at its newest version, or at an earlier one."""
        return await self._read(lambda row: reader.read_head(row, at))

    async def state(self, *, at: int | None = None) -> Document:
        """The state at the newest version, or at an earlier one."""
        return (await self.head(at=at)).state

    async def items(
        self,
        *,
        last: Count | None = None,
        first: Count | None = None,
        after: int | None = None,
        before: int | None = None,
        at: int | None = None,
        log: Id = HISTORY,
        whole: bool = False,
    ) -> Window:
        """Visible items, oldest first: all, or the last or first few, between two places, at a version.

        ``whole`` gives all that was ever appended, also what was popped, cleared or compacted since.
        """
        query = ItemQuery(log=log, at=at, last=last, first=first, after=after, before=before, whole=whole)
        return await self._read(lambda row: reader.read_window(row, query))

    async def items_by_id(self, ids: Sequence[str]) -> list[Item]:
        """Every item that ever had one of these ids, visible or not."""
        item_ids = tuple(ids)
        return await self._read(lambda row: reader.read_items_by_id(row, item_ids))

    async def changesets(
        self, *, after: int = 0, upto: int | None = None, limit: int = 100
    ) -> list[Changeset]:
        """Changesets with their items, in order of version."""
        most = check_limit(limit)
        return await self._read(lambda row: reader.read_changesets(row, after, upto, most))

    async def diff(self, before: int, after: int) -> list[Op]:
        """The ops that lead from the state at one version to the state at another."""
        return diff(await self.state(at=before), await self.state(at=after))

    async def fork(self, id: Id, *, at: int | None = None) -> "Thread":
        """A new thread that goes its own way from a version of this one. Nothing is copied.

        Raises:
            ThreadExists: The new id is taken.
            VersionNotFound: This thread has no such version.
        """
        await self._store.change(self._scope, lambda context: lineage.plan_fork(self.id, id, at, context))
        return Thread(self._store, self._scope, id, self._files)

    async def delete(self, *, expect: ExpectedVersion = ANY_VERSION) -> None:
        """Remove the thread, its own memory, and its files beside the database. Forks of it stay whole.

        Raises:
            VersionConflict: The thread is not where ``expect`` says; nothing was removed.
        """
        expected = expectation(expect)
        await self._store.change(self._scope, lambda context: lineage.plan_delete(self.id, expected))
        await drop_thread_texts(self._store, self._scope, [self.id])
        if self._files is not None:
            await self._files.remove_thread(self._scope.tenant, self.id)

    async def erase(
        self,
        items: Sequence[str] = (),
        *,
        after: int | None = None,
        before: int | None = None,
        log: Id = HISTORY,
        state: bool = True,
    ) -> Receipt:
        """Erase items by their ids, or between two places, here and in all forks, and give a receipt.

        With ``state``, which may hold the same words, all that led to the newest state goes too; the newest
        state itself stays. To erase the whole thread, use ``db.erase(thread=…)``.

        Raises:
            RecordNotFound: There is no item of an id.
            LegalHold: The thread is held; nothing was removed.
            Forbidden: The database is used for one user.
        """
        parts = Parts(ids=tuple(items), log=log, after=after, before=before, state=state)
        return await erase_parts(self._store, self._scope, self.id, parts, self._files)

    async def watch(self, *, after: int | None = None) -> AsyncIterator[Changeset]:
        """Changesets as they commit, from the one after a version on (or from now)."""
        version = (await self.head()).version if after is None else after
        while True:
            changes = await self.changesets(after=version, limit=CHANGESETS_PER_PAGE)
            for change in changes:
                version = change.version
                yield change
            if not changes:
                await self._store.wait_for_change(self._scope, self.id, version, WATCH_SECONDS)

    async def wait_for_change(self, after: int, *, timeout: float) -> None:
        """Return once the thread may be past a version, or when the time is over."""
        await self._store.wait_for_change(self._scope, self.id, after, timeout)

    def log(self, name: Id = HISTORY) -> Log:
        """One of the thread's logs, to take from it."""
        return Log(self, name)

    async def repair(self, reason: str = "The run ended before the tool answered.") -> Committed | None:
        """Close tool calls that a crash left open, by one explicit item; None if there are none."""
        head = await self.head()
        if not head.counters.open:
            return None
        return await self.append(
            items=[repair(head.counters.open, reason)], reason="Repair", expect=Exact(head.version)
        )

    async def verify(self) -> Verdict:
        """Check that the log is whole, unaltered, and folds to what is stored."""
        return await verify_thread(self._store, self._scope, self.id)

    async def _read(self, read: Callable[[ThreadRow], StoreRead[T]]) -> T:
        return await self._store.read(self._scope, _read_thread(self.id, read))


async def changesets_after(
    thread: Thread, version: int, *, upto: int | None = None
) -> AsyncIterator[Changeset]:
    """Read the changesets of a thread after a version, page by page, up to another or to the newest."""
    while changes := await thread.changesets(after=version, upto=upto, limit=CHANGESETS_PER_PAGE):
        for change in changes:
            yield change
        version = changes[-1].version


def _read_thread(id: str, read: Callable[[ThreadRow], StoreRead[T]]) -> StoreRead[T]:
    """Read something of a thread that must be there."""
    row = yield from reader.read_thread(id)
    return (yield from read(row))
