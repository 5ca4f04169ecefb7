"""The parts that one version of a channel shares with the version before, found by comparing encoded parts.

A list is cut into its elements, a dictionary into its entries; anything else is one part. Parts are in
items of a log, some in each, and have an address there. A version is a list of *runs*: stretches of
addresses. Appending to a list makes one run longer, whatever its length, and no version needs another one.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from operator import sub
from typing import TypeAlias

import msgspec

AddressRun: TypeAlias = tuple[int, int, int, int]
"""The item where it begins, how many of its parts are passed over, the item where it ends, and its length."""

FRESH = -1
CHUNK_BYTES = 32 * 1024
CHUNK_PARTS = 1 << 16
RUN_BYTES = 8
NEXT_ITEM = 1 << 21
WITHIN_ITEM = NEXT_ITEM - 1


class Chunk(msgspec.Struct, frozen=True):
    """Parts that are stored together in one new item, and which part of the value is the first of them."""

    first: int
    parts: list[bytes]


class PartLayout(msgspec.Struct, frozen=True):
    """A version as it will be stored: the places of its parts, what is to be written, what its runs weigh."""

    addresses: list[int]
    runs: list[AddressRun]
    chunks: list[Chunk]
    weight: int


def address(item: int, index: int, *, last: bool) -> int:
    """The address of a part: its item in the log, its index in the item, and whether it is the last there."""
    return item << 21 | index << 1 | last


def reusable_addresses(old: Sequence[bytes], addresses: Sequence[int], new: Sequence[bytes]) -> list[int]:
    """For each new part, the place of the same bytes in the log, or FRESH."""
    most = min(len(old), len(new))
    head = most if old[:most] == new[:most] else next(at for at in range(most) if old[at] != new[at])
    most -= head
    tail = next((at for at in range(most) if old[-1 - at] != new[-1 - at]), most)
    between = dict(zip(old[head : len(old) - tail], addresses[head : len(old) - tail], strict=True))
    middle = [between.get(part, FRESH) for part in new[head : len(new) - tail]]
    return [*addresses[:head], *middle, *addresses[len(old) - tail :]]


def lay_out_parts(
    parts: Sequence[bytes],
    old_addresses: Sequence[int],
    weight: int,
    end: int,
    *,
    one_per_item: bool,
    old_runs: Sequence[AddressRun] = (),
) -> PartLayout:
    """The addresses that the parts of a version will have, if the log has ``end`` items now.

    It is written whole again once its runs have come to weigh more than the value. ``one_per_item`` keeps
    each part in an item of its own. ``old_runs`` are those of the version before, if this one begins with it.
    """
    layout = _lay_out(parts, old_addresses, end, old_runs, one_per_item=one_per_item)
    new_weight = weight + RUN_BYTES * (len(layout.runs) - 1)
    if len(layout.runs) > 1 and new_weight > sum(map(len, parts)):
        return _lay_out(parts, [FRESH] * len(parts), end, (), one_per_item=one_per_item)
    return msgspec.structs.replace(layout, weight=new_weight if len(layout.runs) > 1 else 0)


def _lay_out(
    parts: Sequence[bytes],
    old_addresses: Sequence[int],
    end: int,
    old_runs: Sequence[AddressRun],
    *,
    one_per_item: bool,
) -> PartLayout:
    addresses = list(old_addresses)
    chunks: list[Chunk] = []
    for first, last in _fresh_stretches(parts, old_addresses, one_per_item=one_per_item):
        chunks.append(Chunk(first, list(parts[first:last])))
        item = end + len(chunks)
        addresses[first:last] = [address(item, at - first, last=at == last - 1) for at in range(first, last)]
    return PartLayout(addresses=addresses, runs=extend_runs(old_runs, addresses), chunks=chunks, weight=0)


def _fresh_stretches(
    parts: Sequence[bytes], old_addresses: Sequence[int], *, one_per_item: bool
) -> Iterator[tuple[int, int]]:
    """Stretches of fresh parts, none too large for one item."""
    fresh = list(_fresh_places(old_addresses))
    first, size = 0, 0
    for number, at in enumerate(fresh):
        size += len(parts[at])
        is_last = number + 1 == len(fresh) or fresh[number + 1] != at + 1
        if one_per_item or is_last or size >= CHUNK_BYTES or number - first + 1 >= CHUNK_PARTS:
            yield fresh[first], at + 1
            first, size = number + 1, 0


def _fresh_places(addresses: Sequence[int]) -> Iterator[int]:
    """The indexes of fresh parts. Most lists have grown by a few, so the search is left to ``index``."""
    at = -1
    with suppress(ValueError):
        while True:
            at = addresses.index(FRESH, at + 1)
            yield at


def extend_runs(runs: Sequence[AddressRun], addresses: Sequence[int]) -> list[AddressRun]:
    """The runs of some addresses, the first of which ``runs`` already describe: only the others are read."""
    if not runs:
        return runs_of(addresses)
    *before, (item, offset, _, count) = runs
    # The last address described is read once more: what follows may continue its run.
    (_, _, last, more), *after = runs_of(addresses[sum(run[3] for run in runs) - 1 :])
    return [*before, (item, offset, last, count + more - 1), *after]


def runs_of(addresses: Sequence[int]) -> list[AddressRun]:
    """Addresses that follow each other, joined."""
    if not addresses:
        return []
    # A chat has a message in each item, and is one run: a quick look tells it from everything else.
    steps = list(map(sub, addresses[1:], addresses))
    if addresses[0] & WITHIN_ITEM == 1 and steps.count(NEXT_ITEM) == len(steps):
        return [_address_run(addresses[0], addresses[-1], len(addresses))]
    breaks = [
        at
        for at, (one, next) in enumerate(pairwise(addresses), start=1)
        if (next - one != NEXT_ITEM or one & WITHIN_ITEM != 1) and not _is_next(one, next)
    ]
    return [
        _address_run(addresses[first], addresses[end - 1], end - first)
        for first, end in pairwise([0, *breaks, len(addresses)])
    ]


def _address_run(begin: int, end: int, count: int) -> AddressRun:
    return begin >> 21, (begin >> 1) & 0xFFFFF, end >> 21, count


def _is_next(one: int, next: int) -> bool:
    if one & 1:
        return next >> 1 == ((one >> 21) + 1) << 20
    return next >> 1 == (one >> 1) + 1


def gather_parts(
    runs: Sequence[AddressRun], chunks: Mapping[int, Sequence[bytes]]
) -> tuple[list[bytes], list[int]]:
    """The parts of a version and their addresses, out of the items that its runs touch.

    Raises:
        KeyError: One of the items is not there.
    """
    parts: list[bytes] = []
    addresses: list[int] = []
    for item, offset, last, count in runs:
        total = len(parts) + count
        for number in range(item, last + 1):
            chunk = chunks[number]
            start = offset if number == item else 0
            stop = min(len(chunk), start + total - len(parts))
            parts += chunk[start:stop]
            addresses += [
                address(number, index, last=index == len(chunk) - 1) for index in range(start, stop)
            ]
    return parts, addresses
