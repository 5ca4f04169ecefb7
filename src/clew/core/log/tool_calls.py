"""Tool calls and their results: which are open, and whether an item may follow."""

from collections.abc import Iterable, Iterator, Sequence

from clew.core.encoding import JSON
from clew.core.errors import TranscriptBroken
from clew.core.log.codec import Meta
from clew.core.values import HISTORY, Item

OURS = "clew"
CALL, RESULT, REPAIR = "call", "result", "repair"
PAIRED = frozenset((CALL, RESULT, REPAIR))


def is_talk(log: str, meta: Meta) -> bool:
    """Whether an item is part of the conversation; other logs have entries of their own beside it."""
    return log == HISTORY or meta.kind in PAIRED


def open_after(open: dict[str, str | None], metas: Iterable[Meta], thread: str) -> dict[str, str | None]:
    """The calls open after some more items, with the run that made each.

    Only items in our own format are held to it; a guest's are stored as given.

    Raises:
        TranscriptBroken: A result answers no open call, a call is opened twice, or something else would
            stand between a call and its result.
    """
    left = open
    for meta in metas:
        if meta.format == OURS and (left or meta.kind in PAIRED):
            left = _after(left, meta, thread)
    return left


def _after(open: dict[str, str | None], meta: Meta, thread: str) -> dict[str, str | None]:
    if meta.kind == REPAIR:
        return {}
    other = next((call for call, run in open.items() if run != meta.run), None)
    if other is not None:
        raise TranscriptBroken(
            thread=thread, call=other, problem="an item of another run would stand before the result"
        )
    if meta.kind == CALL:
        return _opened(open, meta, thread)
    if meta.kind == RESULT:
        return _answered(open, meta, thread)
    if open:
        raise TranscriptBroken(
            thread=thread, call=next(iter(open)), problem="a message would stand before the result"
        )
    return open


def _opened(open: dict[str, str | None], meta: Meta, thread: str) -> dict[str, str | None]:
    if meta.call is None:
        raise TranscriptBroken(thread=thread, call="", problem="a tool call has no call id")
    if meta.call in open:
        raise TranscriptBroken(thread=thread, call=meta.call, problem="the call is open already")
    return {**open, meta.call: meta.run}


def _answered(open: dict[str, str | None], meta: Meta, thread: str) -> dict[str, str | None]:
    if meta.call is None or meta.call not in open:
        raise TranscriptBroken(thread=thread, call=meta.call or "", problem="a result answers no open call")
    return {call: run for call, run in open.items() if call != meta.call}


def _repaired(body: JSON) -> dict[str, str | None]:
    calls = body.get("calls") if isinstance(body, dict) else None
    return calls if isinstance(calls, dict) else {}


def parted(items: Sequence[Item], at: int) -> int:
    """Where to part some items, at the latest before an index, so that each call stays with its answer."""
    pairs = list(_pairs(items))
    while apart := [first for first, last in pairs if first < at <= last]:
        at = min(apart)
    return at


def _pairs(items: Sequence[Item]) -> Iterator[tuple[int, int]]:
    """Where each call that is answered stands, and where its answer does."""
    asked: dict[str, int] = {}
    for at, item in enumerate(items):
        if item.kind == CALL and item.call is not None:
            asked[item.call] = at
        elif item.kind == RESULT and item.call in asked:
            yield asked.pop(item.call), at
        elif item.kind == REPAIR:
            yield from ((asked.pop(call), at) for call in _repaired(item.body) if call in asked)


def open_before(open: dict[str, str | None], items: Sequence[Item]) -> dict[str, str | None]:
    """The calls open once these items, the newest of the log, are taken away again."""
    left = dict(open)
    for item in reversed(items):
        if item.format != OURS:
            continue
        if item.kind == CALL and item.call is not None:
            left.pop(item.call, None)
        elif item.kind == RESULT and item.call is not None:
            left[item.call] = item.run
        elif item.kind == REPAIR:
            left |= _repaired(item.body)
    return left
