"""Watching: every changeset once, in order, as it commits."""

# ruff: noqa: D102 - tests are named by sentences.

import asyncio
from contextlib import aclosing

import pytest

from clew.core.errors import ThreadNotFound
from clew.core.items import user
from clew.database.database import Database
from clew.database.thread import WATCH_SECONDS, Thread
from clew.testing.contracts.common import contents_of
from clew.testing.fixtures import StoreFixtures

WAIT_SECONDS = 10.0


async def next_changes(
    thread: Thread, count: int, *, after: int | None = None
) -> list[tuple[int, list[object]]]:
    """The next few changesets: version and texts."""
    versions_and_texts: list[tuple[int, list[object]]] = []
    async with asyncio.timeout(WAIT_SECONDS), aclosing(thread.watch(after=after)) as changes:  # type: ignore[type-var]
        async for change in changes:
            versions_and_texts.append((change.version, contents_of(change.items)))
            if len(versions_and_texts) == count:
                break
    return versions_and_texts


class WatchContract(StoreFixtures):
    """Tests of watching changes as they commit."""

    @pytest.mark.promise("T-14")
    async def test_what_was_committed_before_is_seen_in_order(self, thread: Thread) -> None:
        for n in range(5):
            await thread.append(items=[user(n)])

        assert await next_changes(thread, 3, after=2) == [(3, [2]), (4, [3]), (5, [4])]

    @pytest.mark.promise("T-14")
    async def test_what_commits_later_wakes_the_watcher(self, thread: Thread) -> None:
        await thread.append(items=[user("before")])
        watcher = asyncio.create_task(next_changes(thread, 2))
        await asyncio.sleep(0.05)
        for text in ("one", "two"):
            await thread.append(items=[user(text)])

        assert await watcher == [(2, ["one"]), (3, ["two"])]

    @pytest.mark.promise("T-14")
    async def test_several_watchers_see_every_change_of_a_crowd_once(self, thread: Thread) -> None:
        watchers = [asyncio.create_task(next_changes(thread, 20, after=0)) for _ in range(3)]
        await asyncio.gather(*(thread.append(items=[user(n)]) for n in range(20)))
        changes = await asyncio.gather(*watchers)

        assert [version for version, _ in changes[0]] == list(range(1, 21))
        assert changes[1:] == [changes[0], changes[0]]

    @pytest.mark.promise("T-14", "S-05")
    async def test_a_watcher_sees_its_own_tenants_thread_only(self, db: Database) -> None:
        ours, theirs = await db.create("same"), await db.scope(tenant="acme").create("same")
        watcher = asyncio.create_task(next_changes(ours, 1, after=0))
        await asyncio.sleep(0.02)
        await theirs.append(items=[user("theirs")])
        await ours.append(items=[user("ours")])

        assert await watcher == [(1, ["ours"])]

    @pytest.mark.promise("T-14", "S-05")
    async def test_a_watcher_in_another_tenant_is_woken_too(self, db: Database) -> None:
        theirs = await db.scope(tenant="acme", user="bob").create("theirs")
        watcher = asyncio.create_task(next_changes(theirs, 1, after=0))
        await asyncio.sleep(0.05)
        async with asyncio.timeout(WATCH_SECONDS / 2):
            await theirs.append(items=[user("word")])
            changes = await watcher

        assert changes == [(1, ["word"])]

    @pytest.mark.promise("T-14", "S-04")
    async def test_a_watcher_that_gives_up_strands_nothing(self, thread: Thread) -> None:
        watcher = asyncio.create_task(next_changes(thread, 1))
        await asyncio.sleep(0.02)
        watcher.cancel()
        await asyncio.wait([watcher])
        await thread.append(items=[user("after")])

        assert (watcher.cancelled(), contents_of(await thread.items())) == (True, ["after"])

    @pytest.mark.promise("T-14")
    async def test_a_watcher_of_no_thread_is_told_so(self, db: Database) -> None:
        with pytest.raises(ThreadNotFound):
            await next_changes(db.thread("nobody"), 1)

    @pytest.mark.promise("T-14")
    async def test_a_change_by_any_writer_wakes_those_who_wait_for_any(
        self, db: Database, thread: Thread
    ) -> None:
        listener = asyncio.create_task(wait_for_change_number(db, 0))
        await asyncio.sleep(0.02)
        await thread.append(items=[user("word")])
        first = await listener
        await db.scope(tenant="acme").create("theirs")
        second = await wait_for_change_number(db, first)
        await thread.delete()

        assert len({0, first, second, await wait_for_change_number(db, second)}) == 4


async def wait_for_change_number(db: Database, after: int) -> int:
    """The number that a store gives once it is another one."""
    async with asyncio.timeout(WAIT_SECONDS):
        while (number := await db.store.wait_for_any_change(after, WATCH_SECONDS)) == after:
            pass
    return number
