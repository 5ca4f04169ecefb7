"""A day in the life of a database: every kind of commit, each told to a listener once it is acknowledged.

The order of everything is fixed, groups of commits included, so that two runs ask the same of the disk.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import clew
from clew.core.errors import StoreBusy, StoreFailed, ThreadExists, ThreadNotFound
from clew.core.log.commit import Plan
from clew.core.log.rows import StoreRead
from clew.core.values import AppendTo, Committed, Enqueue, Put, Write
from clew.stores.sqlite.store import SqliteStore
from clew.stores.sqlite.writer import CommitWay

T = TypeVar("T")
Fact = list[str | int]
"""What a listener is told: what happened, to what, and the details."""
Tell = Callable[[Fact], object]

MAIN = ("a", "b", "c", "d")
RECORD_KIND = "fact"
HOLD_SECONDS = 20
FULL_ROUNDS = 8
"""How many rounds make 200 commits."""
TRIES = 4


def text(number: int, index: int, count: int) -> str:
    """What item `index` of `count` says in the append of this number."""
    return f"append {number}, item {index} of {count}: " + "the kettle hums a quiet tune " * (number % 7)


def make_changeset(number: int, *, items: int, **more: Any) -> clew.Changeset:
    """A changeset from which it can be told later whether all of it is there."""
    return clew.Changeset(
        items=tuple(clew.user(text(number, index, items)) for index in range(items)),
        patches=(clew.increment(["count"]), clew.set(["last"], number)),
        run_meta={"number": number, "items": items, **more},
    )


class Day:
    """The workload, on one store. Commits that fail are repeated, since the disk may be well again."""

    def __init__(
        self, store: SqliteStore, tell: Tell, failures: list[StoreFailed], commits: CommitWay
    ) -> None:
        self.failures = failures
        self.commits = 0
        self._commits = commits
        self._store = store
        self._db = clew.Database(store)
        self._tell = tell
        self._number = 0

    async def spend(self, rounds: int) -> None:
        """All of it: so many rounds of every kind of commit."""
        for name in MAIN:
            await self._create(name)
        for turn in range(rounds):
            await self._turns(turn)
            await self._group(turn)
            await self._branch(turn)
            await self._take(turn)
            await self._together(turn)
            await self._farewell(turn)

    async def _turns(self, turn: int) -> None:
        for step in range(10):
            await self._append(MAIN[step % 4], items=1 + step % 3)
        await self._append("c", items=1, state=f"{turn} " * 2500)

    async def _group(self, turn: int) -> None:
        """Commits that wait at the same moment, on several threads and twice on one."""
        targets = [*MAIN, MAIN[turn % 4], MAIN[(turn + 1) % 4]]
        if self._commits == "loop":  # there, what is ready in one pass is a group
            await asyncio.gather(*(self._append(target, items=2) for target in targets))
            return
        gate = threading.Event()
        holding = asyncio.ensure_future(self._store.change(clew.Scope(), lambda _: _blocking_plan(gate)))
        await asyncio.sleep(0)
        waiting = [asyncio.ensure_future(self._append(target, items=2)) for target in targets]
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(holding, *waiting)

    async def _branch(self, turn: int) -> None:
        if turn % 3 == 0:
            at = (await self._db.thread("a").head()).version - 3
            await self._fork("a", f"fork-{turn}", at)
        for items in (1, 2):
            await self._append(f"fork-{turn - turn % 3}", items=items)

    async def _take(self, turn: int) -> None:
        """A compaction, a pop and a clear."""
        b, c = self._db.thread("b"), self._db.thread("c")
        commit = await self._insist(lambda: b.log().compact([clew.system(f"summary {turn}")], keep=3))
        self._tell_commit(commit)
        await self._insist(lambda: c.log().pop())
        self._tell_head(await c.head())
        if turn % 2:
            clear_commit = await self._insist(lambda: self._db.thread("d").log().clear())
            assert clear_commit is not None
            self._tell_commit(clear_commit)

    async def _together(self, turn: int) -> None:
        """A changeset, a record and a job, all or none."""
        name = f"with-{turn}"
        change = make_changeset(self._next(), items=1, record=name)
        writes: list[Write] = [
            AppendTo(thread="a", change=change),
            Put(record=clew.Record(kind=RECORD_KIND, id=name, body={"turn": turn}, tags=("x",)), expect=0),
            Enqueue(job=clew.Job(id=name, kind="look", body={"turn": turn})),
        ]
        commit = (await self._insist(lambda: self._db.commit(writes)))[0]
        assert isinstance(commit, Committed)
        self._tell_commit(commit)
        self._tell(["record", name, 1])
        self._tell(["job", name])

    async def _farewell(self, turn: int) -> None:
        """A thread that is deleted; sometimes one that was forked off before stays."""
        name, heir = f"gone-{turn}", f"kept-{turn}"
        await self._create(name)
        await self._append(name, items=2)
        if turn % 3 == 0:
            await self._fork(name, heir, 1)
            await self._append(heir, items=1)
        await self._append(name, items=1)
        self._tell(["deleting", name])
        try:
            await self._insist(self._db.thread(name).delete)
        except ThreadNotFound:
            assert self.failures
        self.commits += 1
        self._tell(["deleted", name])

    async def _create(self, name: str) -> None:
        await self._insist(lambda: self._db.create(name, owner="alice", exist_ok=bool(self.failures)))
        self.commits += 1
        self._tell(["thread", name, 0])

    async def _fork(self, source: str, name: str, at: int) -> None:
        try:
            await self._insist(lambda: self._db.thread(source).fork(name, at=at))
        except ThreadExists:
            assert self.failures
        self.commits += 1
        self._tell(["thread", name, at])

    async def _append(self, name: str, *, items: int, state: str | None = None) -> None:
        change = make_changeset(self._next(), items=items)
        if state is not None:
            change = make_changeset(self._number, items=items, large=True)
            patches = (*change.patches, clew.set(["large"], state))
            change = clew.Changeset(items=change.items, patches=patches, run_meta=change.run_meta)
        self._tell_commit(await self._insist(lambda: self._db.thread(name).append(change)))

    async def _insist(self, act: Callable[[], Awaitable[T]]) -> T:
        """What an act gives in the end, though the disk may fail it a few times."""
        for _ in range(TRIES):
            try:
                return await act()
            except StoreFailed as failure:
                self.failures.append(failure)
        raise self.failures[-1]

    def _tell_commit(self, commit: Committed) -> None:
        self.commits += 1
        self._tell(["changeset", commit.thread, commit.version, commit.hash.hex()])

    def _tell_head(self, head: Any) -> None:
        self.commits += 1
        self._tell(["changeset", head.id, head.version, head.hash.hex()])

    def _next(self) -> int:
        self._number += 1
        return self._number


def _blocking_plan(gate: threading.Event) -> StoreRead[Plan]:
    """A plan that changes nothing and takes as long as it is told to, so that others queue up behind it."""
    if not gate.wait(HOLD_SECONDS):
        raise StoreBusy(store="The workload")
    yield from ()
    return Plan()


class Workday:
    """The workload on a store of its own, opened with patience."""

    def __init__(
        self, path: str, *, vfs: str, synchronous: str = "FULL", commits: CommitWay = "thread"
    ) -> None:
        self.failures: list[StoreFailed] = []
        self.commits = 0
        self._path = path
        self._vfs = vfs
        self._synchronous = synchronous
        self._commits = commits

    async def spend(self, tell: Tell, rounds: int) -> None:
        """Open, work, close."""
        store = await self._open()
        day = Day(store, tell, self.failures, self._commits)
        await day.spend(rounds)
        self.commits = day.commits
        await store.close()

    async def _open(self) -> SqliteStore:
        for _ in range(TRIES):
            store = SqliteStore(
                self._path, vfs=self._vfs, synchronous=self._synchronous, commits=self._commits
            )
            try:
                await store.start()
                return store
            except StoreFailed as failure:
                self.failures.append(failure)
        raise self.failures[-1]


def facts_about(facts: Sequence[Fact], kind: str) -> list[Fact]:
    """The facts of one kind, without its name."""
    return [fact[1:] for fact in facts if fact[0] == kind]
