"""The chain: whatever is altered, the hash is another."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.log import chain
from clew.core.log.rows import ChangesetRow, ItemRow, Segment
from clew.core.values import Counters

pytestmark = pytest.mark.promise("B-06")
PREVIOUS = bytes(32)
CHANGE = ChangesetRow(
    version=3,
    time=1000,
    envelope=b'{"reason":"x"}',
    content=b'{"patches":[]}',
    salt=b"s" * 16,
    hash=b"",
    counters=Counters(),
)
ITEMS = [
    ItemRow(
        log="history",
        place=256 * n,
        version=3,
        time=1,
        meta=b'{"role":"user"}',
        body=b'"%d"' % n,
        salt=b"%d" % n * 16,
    )
    for n in range(1, 4)
]
HASH = chain.changeset_hash(PREVIOUS, CHANGE, ITEMS)


def flip_byte(data: bytes, at: int) -> bytes:
    """The bytes with one of them changed."""
    at %= len(data)
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@given(st.sampled_from(["envelope", "content", "salt"]), st.integers(0, 100))
def test_a_byte_of_a_changeset_changes_the_hash(field: str, at: int) -> None:
    change = msgspec.structs.replace(CHANGE, **{field: flip_byte(getattr(CHANGE, field), at)})

    assert chain.changeset_hash(PREVIOUS, change, ITEMS) != HASH


@given(st.integers(0, 2), st.sampled_from(["meta", "body", "salt"]), st.integers(0, 100))
def test_a_byte_of_an_item_changes_the_hash(which: int, field: str, at: int) -> None:
    items = list(ITEMS)
    items[which] = msgspec.structs.replace(
        ITEMS[which], **{field: flip_byte(getattr(ITEMS[which], field), at)}
    )

    assert chain.changeset_hash(PREVIOUS, CHANGE, items) != HASH


@pytest.mark.parametrize("field", ["version", "time"])
def test_the_number_and_the_time_of_a_changeset_are_in_its_hash(field: str) -> None:
    change = msgspec.structs.replace(CHANGE, **{field: getattr(CHANGE, field) + 1})

    assert chain.changeset_hash(PREVIOUS, change, ITEMS) != HASH


@pytest.mark.parametrize(("field", "value"), [("log", "notes"), ("place", 257), ("body", None)])
def test_where_an_item_stands_is_in_the_hash(field: str, value: object) -> None:
    items = [msgspec.structs.replace(ITEMS[0], **{field: value}), *ITEMS[1:]]

    assert chain.changeset_hash(PREVIOUS, CHANGE, items) != HASH


@given(st.integers(0, 31))
def test_the_hash_before_is_in_the_hash(at: int) -> None:
    assert chain.changeset_hash(flip_byte(PREVIOUS, at), CHANGE, ITEMS) != HASH


@pytest.mark.parametrize("items", [ITEMS[:2], ITEMS[1:], [], [*ITEMS, ITEMS[0]], ITEMS[::-1]])
def test_items_that_are_missing_added_or_reordered_change_the_hash(items: list[ItemRow]) -> None:
    assert chain.changeset_hash(PREVIOUS, CHANGE, items) != HASH


@given(st.binary(max_size=6), st.binary(max_size=6), st.integers(0, 6))
def test_bytes_cannot_move_from_one_field_to_the_next(meta: bytes, body: bytes, cut: int) -> None:
    whole = meta + body
    one = msgspec.structs.replace(ITEMS[0], meta=whole[:cut], body=whole[cut:])
    other = msgspec.structs.replace(ITEMS[0], meta=meta, body=body)

    same = (one.meta, one.body) == (other.meta, other.body)
    assert (
        chain.changeset_hash(PREVIOUS, CHANGE, [one]) == chain.changeset_hash(PREVIOUS, CHANGE, [other])
    ) is same


def test_an_erased_body_leaves_the_hash_as_it_was() -> None:
    first = ITEMS[0]
    commitment = chain.commitment(first.salt or b"", first.body or b"")
    items = [msgspec.structs.replace(first, body=None, salt=None, erased=commitment), *ITEMS[1:]]

    assert chain.changeset_hash(PREVIOUS, CHANGE, items) == HASH


def test_an_erased_content_leaves_the_hash_as_it_was() -> None:
    commitment = chain.commitment(CHANGE.salt or b"", CHANGE.content or b"")
    change = msgspec.structs.replace(CHANGE, content=None, salt=None, erased=commitment)

    assert chain.changeset_hash(PREVIOUS, change, ITEMS) == HASH


@pytest.mark.parametrize("other", [("u", "alice", 1), ("t", "bob", 1), ("t", None, 1), ("t", "alice", 2)])
def test_what_a_thread_starts_from_is_its_own(other: tuple[str, str | None, int]) -> None:
    assert chain.genesis(*other, None) != chain.genesis("t", "alice", 1, None)


def test_a_fork_starts_from_the_version_it_stands_on() -> None:
    own, parent = Segment(2, 3, "fork", None, 9), Segment(1, 3, "thread", None, 1)
    starts = {
        chain.start_hash(own, parent, b"a" * 32),
        chain.start_hash(own, parent, b"b" * 32),
        chain.start_hash(own, Segment(1, 4, "thread", None, 1), b"a" * 32),
        chain.start_hash(own, Segment(1, 3, "other", None, 1), b"a" * 32),
        chain.start_hash(own, None, b""),
    }

    assert len(starts) == 5
