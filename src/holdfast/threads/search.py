"""Search by words: the index, brought up to date apart from appends, and the tail it does not hold yet."""

from holdfast.core import reading
from holdfast.core.checking import check_limit
from holdfast.core.errors import StoreDamaged
from holdfast.core.planning import Plan
from holdfast.core.ports import Store
from holdfast.core.rows import (
    AskCuts,
    Asking,
    AskPending,
    AskThread,
    AskWords,
    Index,
    ItemRow,
    Text,
    ThreadRow,
    ask,
)
from holdfast.core.stored import item_of
from holdfast.core.text import text_of, words
from holdfast.core.values import Found, Item, Scope

PENDING = 256
BATCH = 256


async def search_words(
    store: Store, scope: Scope, query: str, *, owner: str | None, limit: int
) -> list[Found]:
    """Visible items that hold all of the words, the best first.

    What the index does not hold yet is read as it is; if that is too much, the index comes first.
    """
    wanted, limit = tuple(dict.fromkeys(words(query))), check_limit(limit)
    if not wanted or not limit:
        return []
    if len(await store.read(scope, ask(AskPending(PENDING)))) == PENDING:
        await index_pending(store, scope)
    return await store.read(scope, _search(wanted, owner, limit))


async def index_pending(store: Store, scope: Scope) -> int:
    """Bring the search index up to date; the number of changesets it took in."""
    done = 0
    while late := await store.read(scope, ask(AskPending(PENDING))):
        for row, upto in late:
            done += await _index(store, scope, row, upto)
    return done


async def _index(store: Store, scope: Scope, row: ThreadRow, indexed: int) -> int:
    plan = await store.change(scope, lambda setting: _plan_index(row, indexed))
    return sum(effect.upto - indexed for effect in plan.effects if isinstance(effect, Index))


def _plan_index(row: ThreadRow, indexed: int) -> Asking[Plan]:
    log = yield from reading.read_log(row, max(indexed, _own_start(row)), None, BATCH)
    texts = tuple(text for _, items in log for text in _texts(items))
    upto = log[-1][0].version if log else row.version
    return Plan(effects=[Index(row=row, texts=texts, upto=upto)], results=[], known={})


def _own_start(row: ThreadRow) -> int:
    """The version a thread's own rows start after; what comes before is indexed with its ancestors.

    An imported fork, or a very deep one, holds its ancestors' rows itself.
    """
    return max((segment.upto for segment in row.segments if segment.key != row.key), default=0)


def _texts(items: list[ItemRow]) -> list[Text]:
    entries = [entry for entry in map(item_of, items) if isinstance(entry, Item)]
    texts = [(entry, text_of(entry)) for entry in entries]
    return [
        Text(log=entry.log, place=entry.place, version=entry.version, text=text)
        for entry, text in texts
        if text
    ]


def _search(wanted: tuple[str, ...], owner: str | None, limit: int) -> Asking[list[Found]]:
    tail = yield from _tail(wanted, owner)
    asked = limit * 2
    while True:  # the index holds ended items too, and they may be the best
        hits = yield from ask(AskWords(wanted, owner, asked))
        found = yield from _all_visible([*tail, *hits])
        if len(found) >= limit or len(hits) < asked:
            return sorted(found, key=lambda hit: -hit.score)[:limit]
        asked *= 4


def _all_visible(hits: list[Found]) -> Asking[list[Found]]:
    """The hits that a reader of their threads would see, each once."""
    rows: dict[str, ThreadRow | None] = {}
    found: dict[tuple[str, str, int], Found] = {}
    for hit in hits:
        if hit.thread not in rows:
            rows[hit.thread] = yield from _readable(hit.thread)
        row = rows[hit.thread]
        if row is not None and (yield from _visible(row, hit)):
            found.setdefault((hit.thread, hit.log, hit.place), hit)
    return list(found.values())


def _readable(id: str) -> Asking[ThreadRow | None]:
    """A thread that is there and not damaged."""
    try:
        return (yield from ask(AskThread(id)))
    except StoreDamaged:
        return None  # verify names it; a search passes over it


def _visible(row: ThreadRow, hit: Found) -> Asking[bool]:
    cuts = yield from ask(AskCuts(row.key, hit.log, hit.place, hit.place, row.version))
    return not any(cut.version > hit.version for cut in cuts)


def _tail(wanted: tuple[str, ...], owner: str | None) -> Asking[list[Found]]:
    """Hits in changesets that the index does not hold yet."""
    found: list[Found] = []
    late = yield from ask(AskPending(PENDING))
    for row, indexed in late:
        if owner not in (None, row.owner):
            continue
        after = max(indexed, _own_start(row))
        while log := (yield from reading.read_log(row, after, None, BATCH)):
            after = log[-1][0].version
            for _, items in log:
                found += [_hit(row, text) for text in _texts(items) if _holds(text, wanted)]
    return found


def _holds(text: Text, wanted: tuple[str, ...]) -> bool:
    return set(wanted) <= set(words(text.text))


def _hit(row: ThreadRow, text: Text) -> Found:
    return Found(
        thread=row.id, log=text.log, place=text.place, version=text.version, text=text.text, score=0.0
    )
