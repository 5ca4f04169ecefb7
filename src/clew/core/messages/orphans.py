"""Tool calls that nothing answers, and results that answer no call: what providers refuse in a transcript."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

CallPosition: TypeAlias = tuple[int, str]
"""The index of a message, and the id of a call that it makes or answers."""


class Orphans(msgspec.Struct, frozen=True, kw_only=True):
    """Halves of tool calls whose other half is missing, by the messages that they are in."""

    calls: frozenset[CallPosition] = frozenset()
    results: frozenset[CallPosition] = frozenset()


def find_orphans(messages: Iterable[tuple[Sequence[str], Sequence[str]]]) -> Orphans:
    """Find the calls without a result after them, and the results without a call before them.

    A message is given as the ids of the calls that it makes, and of those that it answers. A second result of
    one call is an orphan too. An id may be used again once it is answered.
    """
    open_calls: dict[str, int] = {}
    calls: set[CallPosition] = set()
    results: set[CallPosition] = set()
    for index, (made, answered) in enumerate(messages):
        for call in answered:
            if open_calls.pop(call, None) is None:
                results.add((index, call))
        for call in made:
            if call in open_calls:  # the one before it can no longer be answered
                calls.add((open_calls[call], call))
            open_calls[call] = index
    calls |= {(index, call) for call, index in open_calls.items()}
    return Orphans(calls=frozenset(calls), results=frozenset(results))
