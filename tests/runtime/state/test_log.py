"""The stages of a turn read its logs once between two commits, and cannot change what the next one reads."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from clew.core.values import Item, LogSize
from clew.runtime.state.declaration import schema_of
from clew.runtime.state.log_entries import LogCache
from clew.runtime.state.schema import Conversation
from clew.runtime.turn.draft import Draft


class ItemReader:
    """A log of so many items that counts how often it is read."""

    def __init__(self, count: int) -> None:
        self.items = [
            Item(role="user", body={"content": str(n), "meta": {"n": n}}, place=n + 1) for n in range(count)
        ]
        self.reads: list[tuple[str, int | None, bool]] = []

    async def __call__(self, log: str, count: int | None, *, whole: bool = False) -> Sequence[Item]:
        self.reads.append((log, count, whole))
        return self.items if count is None else self.items[max(len(self.items) - count, 0) :]


def draft_on(reader: ItemReader) -> Draft:
    size = {"history": LogSize(len(reader.items), len(reader.items))}
    return Draft(schema_of(Conversation), {}, size, {"message": "Hi"}, reader)


@pytest.mark.parametrize("count", [5, 4, 1, 0])
async def test_what_was_read_is_not_read_again(count: int) -> None:
    reader = ItemReader(9)
    tails = LogCache(reader)
    await tails.newest("history", 5)
    items = await tails.newest("history", count)

    assert [item.place for item in items] == [5, 6, 7, 8, 9][5 - count :]
    assert len(reader.reads) == 1


@pytest.mark.parametrize("count", [6, None])
async def test_more_than_was_read_is_read(count: int | None) -> None:
    reader = ItemReader(9)
    tails = LogCache(reader)
    await tails.newest("history", 5)
    items = await tails.newest("history", count)

    assert len(items) == (count or 9)
    assert [size for _, size, _ in reader.reads] == [5, count]


@pytest.mark.parametrize("first_count", [5, None])
@pytest.mark.parametrize("count", [9, None])
async def test_a_log_that_was_read_to_its_beginning_is_not_read_again(
    first_count: int | None, count: int | None
) -> None:
    reader = ItemReader(3)
    tails = LogCache(reader)
    await tails.newest("history", first_count)

    assert len(await tails.newest("history", count)) == 3
    assert len(reader.reads) == 1


async def test_a_log_and_the_whole_of_it_are_two() -> None:
    reader = ItemReader(3)
    tails = LogCache(reader)
    for log, whole in (("history", False), ("history", True), ("notes", False)):
        await tails.newest(log, 2, whole=whole)

    assert reader.reads == [("history", 2, False), ("history", 2, True), ("notes", 2, False)]


async def test_a_stage_that_changes_what_it_read_changes_nothing() -> None:
    draft = draft_on(ItemReader(3))
    for message in await draft.log("history").tail(3):
        message.meta["n"] = "changed"

    assert [message.meta for message in await draft.log("history").tail(3)] == [{"n": 0}, {"n": 1}, {"n": 2}]


async def test_after_a_commit_a_log_is_read_again() -> None:
    reader = ItemReader(3)
    draft = draft_on(reader)
    await draft.log("history").tail(2)
    draft.add([Item(role="assistant", body={"content": "kept"})])
    delta = draft.take_delta()
    reader.items += delta.items
    draft.confirm_delta(delta)

    assert [message.text for message in await draft.log("history").tail(2)] == ["2", "kept"]


async def test_what_was_being_read_during_a_commit_is_read_again() -> None:
    reader = ItemReader(3)

    async def read_again(log: str, count: int | None, *, whole: bool = False) -> Sequence[Item]:
        items = await reader(log, count, whole=whole)
        tails.clear()
        return items

    tails = LogCache(read_again)
    await tails.newest("history", 2)
    await tails.newest("history", 2)

    assert len(reader.reads) == 2


async def test_on_another_state_a_log_is_read_again() -> None:
    reader = ItemReader(3)
    draft = draft_on(reader)
    await draft.log("history").tail(2)
    reader.items.append(Item(role="user", body={"content": "theirs"}))
    draft.rebase_onto({}, {"history": LogSize(4, 4)})

    assert [message.text for message in await draft.log("history").tail(2)] == ["2", "theirs"]
