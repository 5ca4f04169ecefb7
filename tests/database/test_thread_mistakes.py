"""Mistakes at a thread: what is plainly meant works, the rest is refused in words; on every store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import clew
import clew.sync
from clew.core.errors import InvalidArgument, ThreadExists
from clew.core.values import AppendTo, Put
from clew.database.database import Database

Attempt = Callable[[Any], Awaitable[object]]

ITEMS = [clew.user("Hi")]
NO_VERSIONS: dict[str, Any] = {
    "a truth": True,
    "a falsehood": False,
    "a negative number": -1,
    "a fraction": 1.0,
    "text": "1",
    "a number beyond 64 bits": 2**70,
    "a class": clew.Exact,
    "a hash": b"1",
}
NO_PATHS: dict[str, Any] = {
    "empty text": "",
    "a number": 3,
    "nothing": None,
    "bytes": b"city",
    "a dict": {"city": 1},
    "a set": {"city"},
    "a path in a path": [["city"]],
    "a truth in a path": ["city", True],
    "a fraction in a path": ["city", 1.5],
    "nothing in a path": [None],
}
NO_PARTS: dict[str, Attempt] = {
    "text as an item": lambda thread: thread.append(items=["hi"]),
    "text as items": lambda thread: thread.append(items="hi"),
    "a dict as an item": lambda thread: thread.append(items=[{"role": "user"}]),
    "one item": lambda thread: thread.append(items=ITEMS[0]),
    "text as a patch": lambda thread: thread.append(patches=["city"]),
    "one patch": lambda thread: thread.append(patches=clew.set("city", "Bern")),
    "a dict as a changeset": lambda thread: thread.append({"items": []}),
    "items as a changeset": lambda thread: thread.append(ITEMS),
    "items in a changeset": lambda thread: thread.append(clew.Changeset(items=["hi"])),  # type: ignore[arg-type]  # the mistake
    "patches in a changeset": lambda thread: thread.append(clew.Changeset(patches=["hi"])),  # type: ignore[arg-type]  # the mistake
    "text as state actions": lambda thread: thread.append(state_actions="hi"),
    "text as actions in a changeset": lambda thread: thread.append(clew.Changeset(state_actions="hi")),  # type: ignore[arg-type]  # the mistake
    "a changeset and parts": lambda thread: thread.append(clew.Changeset(reason="r"), items=ITEMS),
}


@pytest.mark.promise("B-20")
async def test_a_number_is_the_version_that_is_expected(db: Database) -> None:
    thread = await db.create("t")
    await thread.append(items=ITEMS, expect=0)

    with pytest.raises(clew.VersionConflict) as error:
        await thread.append(items=ITEMS, expect=0)
    assert (error.value.expected, error.value.actual, (await thread.head()).version) == (0, 1, 1)


@pytest.mark.promise("B-20")
async def test_a_number_is_the_version_that_is_expected_in_a_commit(db: Database) -> None:
    thread = await db.create("t")
    await thread.append(items=ITEMS)

    with pytest.raises(clew.VersionConflict):
        await db.commit([AppendTo(thread="t", change=clew.Changeset(items=tuple(ITEMS)), expect=0)])
    assert (await thread.head()).version == 1


@pytest.mark.promise("B-20")
async def test_a_number_is_the_version_that_is_expected_by_a_delete(db: Database) -> None:
    thread = await db.create("t")
    await thread.append(items=ITEMS)

    with pytest.raises(clew.VersionConflict):
        await thread.delete(expect=0)
    assert (await thread.head()).version == 1


@pytest.mark.promise("B-20")
async def test_a_thread_that_must_be_absent_is_not_deleted(db: Database) -> None:
    thread = await db.create("t")

    with pytest.raises(ThreadExists):
        await thread.delete(expect=clew.Absent())
    assert (await thread.head()).version == 0


@pytest.mark.promise("B-20")
@pytest.mark.parametrize("version", NO_VERSIONS.values(), ids=NO_VERSIONS)
async def test_what_is_no_version_is_refused(db: Database, version: Any) -> None:
    thread = await db.create("t")
    attempts: list[Callable[[], Awaitable[object]]] = [
        lambda: thread.append(items=ITEMS, expect=version),
        lambda: thread.delete(expect=version),
        lambda: db.commit([AppendTo(thread="t", change=clew.Changeset(), expect=version)]),
        lambda: db.records.put(clew.Record(kind="k", id="i", body=1), expect=version),
        lambda: db.commit([Put(record=clew.Record(kind="k", id="i", body=1), expect=version)]),
        lambda: db.records.drop("k", "i", expect=version),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidArgument, match="expect"):
            await attempt()

    assert (await thread.head()).version == 0


@pytest.mark.promise("B-20")
@pytest.mark.parametrize("version", NO_VERSIONS.values(), ids=NO_VERSIONS)
def test_what_is_no_version_is_refused_where_it_is_made_exact(version: Any) -> None:
    with pytest.raises(InvalidArgument, match="version"):
        clew.Exact(version)


@pytest.mark.promise("B-20")
async def test_a_path_of_one_key_may_be_that_key(db: Database) -> None:
    thread = await db.create("t")
    await thread.append(
        patches=[
            clew.set("city", "Bern"),
            clew.increment("visits"),
            clew.append("seen", 1),
            clew.merge("mood", {"now": "calm"}),
        ]
    )

    state = {"city": "Bern", "visits": 1, "seen": [1], "mood": {"now": "calm"}}
    assert await thread.state() == state


@pytest.mark.promise("B-20")
@pytest.mark.parametrize("path", NO_PATHS.values(), ids=NO_PATHS)
def test_what_is_no_path_is_refused_by_every_op(path: Any) -> None:
    makers: list[Callable[[], object]] = [
        lambda: clew.set(path, 1),
        lambda: clew.delete(path),
        lambda: clew.append(path, 1),
        lambda: clew.merge(path, {}),
        lambda: clew.increment(path),
        lambda: clew.insert(path, 0, 1),
        lambda: clew.remove(path, 1),
        lambda: clew.max(path, 1),
        lambda: clew.min(path, 1),
        lambda: clew.union(path, [1]),
    ]

    for make in makers:
        with pytest.raises(InvalidArgument, match=r"(?i)path"):
            make()


@pytest.mark.promise("B-20")
@pytest.mark.parametrize("attempt", NO_PARTS.values(), ids=NO_PARTS)
async def test_what_no_changeset_is_made_of_is_refused(db: Database, attempt: Attempt) -> None:
    thread = await db.create("t")

    with pytest.raises(InvalidArgument):
        await attempt(thread)
    assert (await thread.head()).version == 0


@pytest.mark.promise("B-20")
async def test_text_for_an_item_is_answered_by_how_an_item_is_made(db: Database) -> None:
    thread = await db.create("t")

    with pytest.raises(InvalidArgument, match=r'items\[0\].*clew\.user\("Hi"\)'):
        await thread.append(items=["hi"])  # type: ignore[list-item]  # the mistake


@pytest.mark.promise("B-20")
async def test_a_misspelled_option_is_answered_by_the_nearest(db: Database) -> None:
    thread = await db.create("t")

    with pytest.raises(TypeError, match=r"'expct'.*Did you mean 'expect'\?"):
        await thread.append(items=ITEMS, expct=0)  # type: ignore[call-arg]  # the mistake


# Blocking.


@pytest.mark.promise("B-20")
def test_a_number_is_the_version_that_a_blocking_append_expects(store_url: str) -> None:
    with clew.sync.open(store_url) as db:
        thread = db.create("t")
        thread.append(items=ITEMS, expect=0)

        with pytest.raises(clew.VersionConflict):
            thread.append(items=ITEMS, expect=0)
        assert thread.head().version == 1


@pytest.mark.promise("B-20")
def test_what_is_no_version_is_refused_by_a_blocking_append(store_url: str) -> None:
    with clew.sync.open(store_url) as db:
        thread = db.create("t")

        for version in NO_VERSIONS.values():
            with pytest.raises(InvalidArgument, match="expect"):
                thread.append(items=ITEMS, expect=version)
        assert thread.head().version == 0


@pytest.mark.promise("B-20")
def test_a_blocking_watch_refuses_when_it_is_called() -> None:
    with clew.sync.open("memory://") as db:
        thread = db.create("t")

        with pytest.raises(InvalidArgument, match="after"):
            thread.watch(after="1")  # type: ignore[arg-type]  # the mistake
