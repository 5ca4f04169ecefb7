"""Differences between versions of a channel: what is new is found by its bytes, and everything reads back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from clew.adapters.langgraph.chunks import (
    CHUNK_BYTES,
    FRESH,
    PartLayout,
    extend_runs,
    gather_parts,
    lay_out_parts,
    reusable_addresses,
    runs_of,
)

PARTS = st.lists(st.sampled_from([b"a", b"b", b"c", b"dd" * 40, b"ee" * 40]), max_size=12)


class Log:
    """A log of chunks, as a thread would keep it."""

    def __init__(self) -> None:
        self.chunks: dict[int, list[bytes]] = {}

    def take(self, layout: PartLayout) -> PartLayout:
        for chunk in layout.chunks:
            self.chunks[len(self.chunks) + 1] = chunk.parts
        return layout

    def first(self, parts: Sequence[bytes], *, apart: bool = True) -> PartLayout:
        return self.take(lay_out_parts(parts, [FRESH] * len(parts), 0, len(self.chunks), one_per_item=apart))

    def next(
        self, old: Sequence[bytes], layout: PartLayout, new: Sequence[bytes], *, apart: bool = True
    ) -> PartLayout:
        addresses = reusable_addresses(old, layout.addresses, new)
        return self.take(lay_out_parts(new, addresses, layout.weight, len(self.chunks), one_per_item=apart))


def make_parts(count: int) -> list[bytes]:
    return [b"%d" % number * 20 for number in range(count)]


def test_appending_writes_what_was_added_and_stays_one_run() -> None:
    log, parts = Log(), make_parts(100)
    layout = log.first(parts)

    more = log.next(parts, layout, [*parts, b"new"])

    assert [chunk.parts for chunk in more.chunks] == [[b"new"]]
    assert more.runs == [(1, 0, 101, 101)]


def test_an_edit_in_the_middle_writes_one_part() -> None:
    log, parts = Log(), make_parts(100)
    layout = log.first(parts)

    after = log.next(parts, layout, [*parts[:50], b"edited", *parts[51:]])

    assert [chunk.parts for chunk in after.chunks] == [[b"edited"]]
    assert after.runs == [(1, 0, 50, 50), (101, 0, 101, 1), (52, 0, 100, 49)]


def test_taking_away_writes_nothing() -> None:
    log, parts = Log(), make_parts(100)
    layout = log.first(parts)

    fewer = log.next(parts, layout, [*parts[3:40], *parts[60:]])

    assert fewer.chunks == []


def test_parts_that_change_places_are_not_written_again() -> None:
    log, parts = Log(), make_parts(10)
    layout = log.first(parts)

    mirror = log.next(parts, layout, parts[::-1])

    assert mirror.chunks == []


def test_many_small_parts_share_an_item() -> None:
    layout = Log().first(make_parts(1000), apart=False)

    assert len(layout.chunks) == sum(map(len, make_parts(1000))) // CHUNK_BYTES + 1
    assert len(layout.runs) == 1


def test_a_version_is_written_whole_again_when_its_runs_outweigh_it() -> None:
    log, parts = Log(), make_parts(40)
    layout = log.first(parts)
    most = len(layout.runs)
    for number in range(200):
        new_parts = list(parts)
        new_parts[number * 7 % 40] = b"edit %d" % number
        layout, parts = log.next(parts, layout, new_parts), new_parts
        most = max(most, len(layout.runs))

    assert most < 40
    assert gather_parts(layout.runs, log.chunks)[0] == parts


@given(old=PARTS, added=PARTS, apart=st.booleans())
def test_runs_that_are_extended_are_the_runs_of_the_whole(
    old: list[bytes], added: list[bytes], *, apart: bool
) -> None:
    log = Log()
    before = log.next(old[:3], log.first(old[:3], apart=apart), old, apart=apart)
    after = log.next(old, before, [*old, *added], apart=apart)

    assert extend_runs(before.runs, [*before.addresses, *after.addresses]) == runs_of(
        [*before.addresses, *after.addresses]
    )


@given(versions=st.lists(PARTS, min_size=1, max_size=8), apart=st.booleans())
def test_every_version_reads_back_exactly(versions: list[list[bytes]], *, apart: bool) -> None:
    log = Log()
    layouts = [log.first(versions[0], apart=apart)]
    for old, new in pairwise(versions):
        layouts.append(log.next(old, layouts[-1], new, apart=apart))

    for version, layout in zip(versions, layouts, strict=True):
        assert gather_parts(layout.runs, log.chunks) == (version, layout.addresses)


def test_nothing_has_no_runs() -> None:
    assert runs_of([]) == []
