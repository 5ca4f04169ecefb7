"""Tool calls and their results: which are open, and whether an item may follow."""

from collections.abc import Iterable, Iterator, Sequence

from clew.core.encoding import JSON
from clew.core.errors import TranscriptBroken
from clew.core.log.codec import ItemFacts
from clew.core.values import HISTORY, Item

CLEW_FORMAT = "clew"
CALL, RESULT, REPAIR = "call", "result", "repair"
CALL_KINDS = frozenset((CALL, RESULT, REPAIR))


def is_conversation(log: str, meta: ItemFacts) -> bool:
    """Return whether an item is part of the conversation; other logs have entries of their own beside it."""
    return log == HISTORY or meta.kind in CALL_KINDS


def open_calls_after(
    calls: dict[str, str | None], metas: Iterable[ItemFacts], thread: str
) -> dict[str, str | None]:
    """The calls open after some more items, with the run that made each.

    Only items in our own format are held to it; a guest's are stored as given.

    Raises:
        TranscriptBroken: A result answers no open call, a call is opened twice, or something else would come
            between a call and its result.
    """
    open_calls = calls
    for meta in metas:
        if meta.format == CLEW_FORMAT and (open_calls or meta.kind in CALL_KINDS):
            open_calls = _open_after_item(open_calls, meta, thread)
    return open_calls


def _open_after_item(
    open_calls: dict[str, str | None], meta: ItemFacts, thread: str
) -> dict[str, str | None]:
    if meta.kind == REPAIR:
        return {}
    other = next((call for call, run in open_calls.items() if run != meta.run), None)
    if other is not None:
        raise TranscriptBroken(
            thread=thread, call=other, problem="an item of another run would come before the result"
        )
    if meta.kind == CALL:
        return _open_call(open_calls, meta, thread)
    if meta.kind == RESULT:
        return _close_call(open_calls, meta, thread)
    if open_calls:
        raise TranscriptBroken(
            thread=thread, call=next(iter(open_calls)), problem="a message would come before the result"
        )
    return open_calls


def _open_call(open_calls: dict[str, str | None], meta: ItemFacts, thread: str) -> dict[str, str | None]:
    if meta.call is None:
        raise TranscriptBroken(thread=thread, call="", problem="a tool call has no call id")
    if meta.call in open_calls:
        raise TranscriptBroken(thread=thread, call=meta.call, problem="the call is open already")
    return {**open_calls, meta.call: meta.run}


def _close_call(open_calls: dict[str, str | None], meta: ItemFacts, thread: str) -> dict[str, str | None]:
    if meta.call is None or meta.call not in open_calls:
        raise TranscriptBroken(thread=thread, call=meta.call or "", problem="a result answers no open call")
    return {call: run for call, run in open_calls.items() if call != meta.call}


def _calls_in_repair(body: JSON) -> dict[str, str | None]:
    calls = body.get("calls") if isinstance(body, dict) else None
    return calls if isinstance(calls, dict) else {}


def split_index(items: Sequence[Item], at: int) -> int:
    """The index to part items at, no later than a given one, so that each call stays with its answer."""
    pairs = list(_pairs(items))
    while split_pairs := [first for first, last in pairs if first < at <= last]:
        at = min(split_pairs)
    return at


def _pairs(items: Sequence[Item]) -> Iterator[tuple[int, int]]:
    """The index of each call that is answered, and that of its answer."""
    index_by_call: dict[str, int] = {}
    for at, item in enumerate(items):
        if item.kind == CALL and item.call is not None:
            index_by_call[item.call] = at
        elif item.kind == RESULT and item.call in index_by_call:
            yield index_by_call.pop(item.call), at
        elif item.kind == REPAIR:
            yield from (
                (index_by_call.pop(call), at) for call in _calls_in_repair(item.body) if call in index_by_call
            )


def open_calls_before(calls: dict[str, str | None], items: Sequence[Item]) -> dict[str, str | None]:
    """The calls open once these items, the newest of the log, are taken away again."""
    open_calls = dict(calls)
    for item in reversed(items):
        if item.format != CLEW_FORMAT:
            continue
        if item.kind == CALL and item.call is not None:
            open_calls.pop(item.call, None)
        elif item.kind == RESULT and item.call is not None:
            open_calls[item.call] = item.run
        elif item.kind == REPAIR:
            open_calls |= _calls_in_repair(item.body)
    return open_calls
