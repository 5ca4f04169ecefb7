"""Search by words: the index, brought up to date apart from appends, and the tail it does not hold yet."""

from collections.abc import Callable

import msgspec

from clew.core.errors import StoreDamaged, StoreReadOnly
from clew.core.log import reader
from clew.core.log.checks import check_limit
from clew.core.log.codec import item_of
from clew.core.log.commit import Plan
from clew.core.log.rows import (
    AskCounts,
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
from clew.core.ports import Store
from clew.core.text import rank
from clew.core.text.words import forms, stem, text_of, words
from clew.core.values import Found, Item, LogSize, Scope

PENDING = 256
BATCH = 256
WHOLE = LogSize()
CANDIDATES = 512
"""How many texts a search for any of the words compares at most; of more, the newest."""


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What to look for, and where: all of these words or any, of one owner, in one thread, in one log."""

    words: tuple[str, ...]
    owner: str | None = None
    thread: str | None = None
    log: str | None = None


class Late(msgspec.Struct, frozen=True):
    """Threads that the index has to take in before a search, and up to which version it holds them."""

    rows: list[tuple[ThreadRow, int]]


async def search_words(
    store: Store,
    scope: Scope,
    query: str,
    *,
    limit: int,
    any: bool = False,
    owner: str | None = None,
    thread: str | None = None,
    log: str | None = None,
) -> list[Found]:
    """Visible items that hold all of the words, or any of them, the best first.

    What the index does not hold yet is read as it is; if that is too much, the index comes first. A search
    for any of the words compares texts by how rare the words are, so there the index always comes first,
    unless nothing can be written.
    """
    wanted = Query(words=tuple(dict.fromkeys(words(query))), owner=owner, thread=thread, log=log)
    if not wanted.words or not (most := check_limit(limit)):
        return []
    found = await store.read(scope, _found(wanted, most, any=any))
    if not isinstance(found, Late):
        return found
    is_whole = False
    try:
        if len(found.rows) == PENDING:
            await index_pending(store, scope)
        else:
            for row, upto in found.rows:
                await _index_all(store, scope, row, upto)
        is_whole = True
    except StoreReadOnly:
        pass  # then the tail is read as it is, however long
    if any:
        return await store.read(scope, _search_any(wanted, most, with_tail=not is_whole))
    return await store.read(scope, _search(wanted, most))


def _found(wanted: Query, limit: int, *, any: bool) -> Asking["list[Found] | Late"]:
    """What is found; or what the index has to take in first."""
    if (yield from _length(wanted)) == 0:
        return []
    late = yield from ask(AskPending(PENDING))
    first = late if len(late) == PENDING else [row for row in late if any and _is_asked_for(row[0], wanted)]
    if first:
        return Late(first)
    if any:
        return (yield from _search_any(wanted, limit, with_tail=False))
    return (yield from _search(wanted, limit))


def _length(wanted: Query) -> Asking[int | None]:
    """How many items the thread asked for has, in the log asked for; None if it may be any thread."""
    if wanted.thread is None:
        return None
    row = yield from _readable(wanted.thread)
    logs = row.counters.logs if row is not None else {}
    return sum(size.length for log, size in logs.items() if wanted.log in (None, log))


def _is_asked_for(row: ThreadRow, wanted: Query) -> bool:
    return wanted.owner in (None, row.owner) and wanted.thread in (None, row.id)


async def _index_all(store: Store, scope: Scope, row: ThreadRow, indexed: int) -> None:
    while indexed < row.version:
        indexed += await _index(store, scope, row, indexed)


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
    log = yield from reader.read_log(row, max(indexed, _own_start(row)), None, BATCH)
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


def _search_any(wanted: Query, limit: int, *, with_tail: bool) -> Asking[list[Found]]:
    """Hits for any of the words in any of their forms: found by the rarest of them, ranked by all of them."""
    length = yield from _length(wanted)
    counts, hits = yield from _compared(wanted, length)
    if with_tail:
        asked = [form for word in wanted.words for form in forms(word)]
        tail = yield from _tail(wanted, lambda held: not held.isdisjoint(asked))
        counts.update({word: max(counts.get(word, 0), 1) for word in asked})
        hits += tail
    if not hits:
        return []
    total = 2 * max(counts.values()) if length is None else length  # of all threads it is a guess
    scores = rank.bm25([hit.text for hit in hits], counts, total)
    ranked = sorted(zip(scores, hits, strict=True), key=lambda pair: (-pair[0], -pair[1].version))
    found: list[Found] = []
    for start in range(0, len(ranked), limit):
        page = [msgspec.structs.replace(hit, score=score) for score, hit in ranked[start : start + limit]]
        found += yield from _all_visible(page)
        if len(found) >= limit:
            break
    return found[:limit]


def _compared(wanted: Query, length: int | None) -> Asking[tuple[dict[str, int], list[Found]]]:
    """In how many texts each word stands, and the texts to compare. Of few texts one question tells both."""
    few = (yield from _of_few(wanted)) if length is not None and length < CANDIDATES else None
    if few is not None:
        return few
    counts = yield from _counts(wanted)
    return counts, (yield from _candidates(wanted, counts)) if counts else []


def _of_few(wanted: Query) -> Asking[tuple[dict[str, int], list[Found]] | None]:
    """The same by one question; None if there are more texts than it brings."""
    asked = tuple(dict.fromkeys(form for word in wanted.words for form in forms(word)))
    hits = yield from ask(_newest(wanted, asked, any=True))
    if len(hits) >= CANDIDATES:  # the index holds ended items too
        return None
    said = [set(words(hit.text)) for hit in hits]
    numbers = {word: sum(word in held for held in said) for word in asked}
    counts = {word: number for word, number in numbers.items() if number}
    rare = _rare(counts)
    return counts, [hit for hit, held in zip(hits, said, strict=True) if not held.isdisjoint(rare)]


def _counts(wanted: Query) -> Asking[dict[str, int]]:
    """In how many texts each word stands, and its other forms; those of a common word would add nothing."""
    counts = yield from _counted(wanted, wanted.words)
    rare = [word for word in wanted.words if counts.get(word, 0) < CANDIDATES]
    others = dict.fromkeys(form for word in rare for form in forms(word) if form not in wanted.words)
    return counts | (yield from _counted(wanted, tuple(others)))


def _counted(wanted: Query, words: tuple[str, ...]) -> Asking[dict[str, int]]:
    if not words:
        return {}
    asked = AskCounts(words, wanted.owner, CANDIDATES, thread=wanted.thread, log=wanted.log)
    numbers = yield from ask(asked)
    return {word: number for word, number in zip(words, numbers, strict=True) if number}


def _candidates(wanted: Query, counts: dict[str, int]) -> Asking[list[Found]]:
    """Texts with any of the rarer words. If all are common, those first that hold each of them."""
    hits: list[Found] = []
    if min(rank.by_stem(counts).values()) >= CANDIDATES:
        hits = yield from ask(_newest(wanted, wanted.words, any=False))
    if len(hits) < CANDIDATES:
        hits += yield from ask(_newest(wanted, _rare(counts), any=True))
    return list({(hit.thread, hit.log, hit.place): hit for hit in hits[:CANDIDATES]}.values())


def _rare(counts: dict[str, int]) -> tuple[str, ...]:
    """The words that find texts to compare, in all of their forms."""
    chosen = rank.chosen(rank.by_stem(counts), CANDIDATES)
    return tuple(word for root in chosen for word in counts if stem(word) == root)


def _newest(wanted: Query, words: tuple[str, ...], *, any: bool) -> AskWords:
    thread, log = wanted.thread, wanted.log
    return AskWords(words, wanted.owner, CANDIDATES, any=any, newest=True, thread=thread, log=log)


def _search(wanted: Query, limit: int) -> Asking[list[Found]]:
    tail = yield from _tail(wanted, lambda held: held.issuperset(wanted.words))
    asked = limit * 2
    while True:  # the index holds ended items too, and they may be the best
        hits = yield from ask(
            AskWords(wanted.words, wanted.owner, asked, thread=wanted.thread, log=wanted.log)
        )
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
    if row.counters.logs.get(hit.log, WHOLE).cuts == 0:
        return True
    cuts = yield from ask(AskCuts(row.key, hit.log, hit.place, hit.place, row.version))
    return not any(cut.version > hit.version for cut in cuts)


def _tail(wanted: Query, is_hit: Callable[[set[str]], bool]) -> Asking[list[Found]]:
    """Hits in changesets that the index does not hold yet, by the words that a text holds."""
    found: list[Found] = []
    late = yield from ask(AskPending(PENDING))
    for row, indexed in late:
        if not _is_asked_for(row, wanted):
            continue
        after = max(indexed, _own_start(row))
        while log := (yield from reader.read_log(row, after, None, BATCH)):
            after = log[-1][0].version
            for _, items in log:
                texts = [text for text in _texts(items) if wanted.log in (None, text.log)]
                found += [_hit(row, text) for text in texts if is_hit(set(words(text.text)))]
    return found


def _hit(row: ThreadRow, text: Text) -> Found:
    return Found(
        thread=row.id, log=text.log, place=text.place, version=text.version, text=text.text, score=0.0
    )
