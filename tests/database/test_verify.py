"""Verify: what is wrong with a head that its changesets do not lead to."""

from __future__ import annotations

import msgspec
import pytest

from clew.core.items import user
from clew.core.values import Counters, LogSize
from clew.database.database import Database
from clew.database.thread import Thread
from clew.stores.memory import MemoryStore
from clew.stores.memory_rows import ThreadRows

pytestmark = pytest.mark.promise("B-06", "T-13")


async def write_thread() -> tuple[Thread, ThreadRows]:
    """A thread of three changesets, and its rows."""
    store = MemoryStore()
    thread = await Database(store).create("t")
    for n in range(3):
        await thread.append(items=[user(n)])
    tenant = store._tenants["default"]
    return thread, tenant.rows[tenant.ids["t"]]


async def test_a_head_with_another_hash_is_found() -> None:
    thread, rows = await write_thread()
    rows.set_thread(msgspec.structs.replace(rows.thread, hash=bytes(32)))

    assert "does not follow from the last changeset" in (await thread.verify()).problems[0]


async def test_a_head_that_was_set_back_is_found_by_the_items_after_it() -> None:
    thread, rows = await write_thread()
    last, before = rows.changesets.pop(3), rows.changesets[2]
    back = msgspec.structs.replace(
        rows.thread, version=2, hash=before.hash, counters=before.counters, updated=before.time
    )
    rows.set_thread(back)

    assert last.version == 3
    assert "one is missing" in (await thread.verify()).problems[0]


async def test_a_head_that_counts_wrong_is_found() -> None:
    thread, rows = await write_thread()
    wrong = Counters(logs={"history": LogSize(end=3, length=2)})
    rows.set_thread(msgspec.structs.replace(rows.thread, counters=wrong))

    assert "has 3 visible items, but the head says 2" in (await thread.verify()).problems[0]


async def test_an_old_state_that_was_altered_is_found() -> None:
    thread, rows = await write_thread()
    rows.anchors[1] = b'{"altered":1}'

    assert "cached at version 1" in (await thread.verify()).problems[0]


async def test_a_cut_that_ends_another_item_is_found() -> None:
    thread, rows = await write_thread()
    await thread.log().pop()
    rows.cuts[0] = msgspec.structs.replace(rows.cuts[0], first=256, last=256)

    assert "shows other items" in (await thread.verify()).problems[0]
