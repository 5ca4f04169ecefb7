"""Reading a thread page by page."""

from __future__ import annotations

import clew
from clew.database import thread as threads
from clew.database.database import Database
from clew.database.thread import changesets_after
from clew.stores.memory import MemoryStore


async def thread_with(count: int) -> threads.Thread:
    thread = await Database(MemoryStore()).create("a")
    for number in range(count):
        await thread.append(items=[clew.user(str(number))])
    return thread


async def test_all_changesets_after_a_version_are_read_across_pages() -> None:
    thread = await thread_with(threads.CHANGESETS_PER_PAGE + 3)
    versions = [change.version async for change in changesets_after(thread, 1)]

    assert versions == list(range(2, threads.CHANGESETS_PER_PAGE + 4))


async def test_changesets_are_read_up_to_a_version() -> None:
    thread = await thread_with(5)

    assert [change.version async for change in changesets_after(thread, 1, upto=3)] == [2, 3]
