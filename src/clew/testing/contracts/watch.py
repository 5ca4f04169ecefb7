"""Watching: every changeset once, in order, as it commits."""

# ruff: noqa: D102 - tests are named by sentences.

import asyncio
from contextlib import aclosing

import pytest

from clew.core.errors import ThreadNotFound
from clew.core.items import user
from clew.database.database import Database
from clew.database.thread import WATCH_SECONDS, Thread
from clew.testing.contracts.common import said
from clew.testing.fixtures import Given

PATIENCE = 10.0


async def watched(thread: Thread, count: int, *, after: int | None = None) -> list[tuple[int, list[object]]]:
    """The next few changesets: version and texts."""
    found: list[tuple[int, list[object]]] = []
    async with asyncio.timeout(PATIENCE), aclosing(thread.watch(after=after)) as changes:  # type: ignore[type-var]
        async for change in changes:
            found.append((change.version, said(change.items)))
            if len(found) == count:
                break
    return found


class WatchContract(Given):
    """How changes are seen as they commit."""

    @pytest.mark.promise("T-14")
    async def test_what_was_committed_before_is_seen_in_order(self, thread: Thread) -> None:
        for n in range(5):
            await thread.append(items=[user(n)])

        assert await watched(thread, 3, after=2) == [(3, [2]), (4, [3]), (5, [4])]

    @pytest.mark.promise("T-14")
    async def test_what_commits_later_wakes_the_watcher(self, thread: Thread) -> None:
        await thread.append(items=[user("before")])
        watcher = asyncio.create_task(watched(thread, 2))
        await asyncio.sleep(0.05)
        for text in ("one", "two"):
            await thread.append(items=[user(text)])

        assert await watcher == [(2, ["one"]), (3, ["two"])]

    @pytest.mark.promise("T-14")
    async def test_several_watchers_see_every_change_of_a_crowd_once(self, thread: Thread) -> None:
        watchers = [asyncio.create_task(watched(thread, 20, after=0)) for _ in range(3)]
        await asyncio.gather(*(thread.append(items=[user(n)]) for n in range(20)))
        seen = await asyncio.gather(*watchers)

        assert [version for version, _ in seen[0]] == list(range(1, 21))
        assert seen[1:] == [seen[0], seen[0]]

    @pytest.mark.promise("T-14", "S-05")
    async def test_a_watcher_sees_its_own_tenants_thread_only(self, db: Database) -> None:
        ours, theirs = await db.create("same"), await db.scope(tenant="acme").create("same")
        watcher = asyncio.create_task(watched(ours, 1, after=0))
        await asyncio.sleep(0.02)
        await theirs.append(items=[user("theirs")])
        await ours.append(items=[user("ours")])

        assert await watcher == [(1, ["ours"])]

    @pytest.mark.promise("T-14", "S-05")
    async def test_a_watcher_in_another_tenant_is_woken_too(self, db: Database) -> None:
        theirs = await db.scope(tenant="acme", user="bob").create("theirs")
        watcher = asyncio.create_task(watched(theirs, 1, after=0))
        await asyncio.sleep(0.05)
        async with asyncio.timeout(WATCH_SECONDS / 2):
            await theirs.append(items=[user("word")])
            seen = await watcher

        assert seen == [(1, ["word"])]

    @pytest.mark.promise("T-14", "S-04")
    async def test_a_watcher_that_gives_up_strands_nothing(self, thread: Thread) -> None:
        watcher = asyncio.create_task(watched(thread, 1))
        await asyncio.sleep(0.02)
        watcher.cancel()
        await asyncio.wait([watcher])
        await thread.append(items=[user("after")])

        assert (watcher.cancelled(), said(await thread.items())) == (True, ["after"])

    @pytest.mark.promise("T-14")
    async def test_a_watcher_of_no_thread_is_told_so(self, db: Database) -> None:
        with pytest.raises(ThreadNotFound):
            await watched(db.thread("nobody"), 1)

    @pytest.mark.promise("T-14")
    async def test_whoever_changes_a_thread_stirs_those_who_wait_for_any(
        self, db: Database, thread: Thread
    ) -> None:
        listener = asyncio.create_task(stirred(db, 0))
        await asyncio.sleep(0.02)
        await thread.append(items=[user("word")])
        first = await listener
        await db.scope(tenant="acme").create("theirs")
        second = await stirred(db, first)
        await thread.delete()

        assert len({0, first, second, await stirred(db, second)}) == 4


async def stirred(db: Database, after: int) -> int:
    """The number that a store gives once it is another one."""
    async with asyncio.timeout(PATIENCE):
        while (now := await db.store.stirred(after, WATCH_SECONDS)) == after:
            pass
    return now
