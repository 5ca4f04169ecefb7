"""Search by words: the index, brought up to date apart from appends, and the tail it does not hold yet."""

from collections.abc import Callable, Sequence

import msgspec

from clew.core.errors import StoreDamaged, StoreReadOnly
from clew.core.log import reader
from clew.core.log.checks import check_limit
from clew.core.log.codec import item_of
from clew.core.log.commit import Plan
from clew.core.log.rows import (
    AskCuts,
    AskHits,
    AskThread,
    AskUnindexedThreads,
    AskWordCounts,
    IndexTexts,
    ItemRow,
    SearchText,
    StoreRead,
    ThreadRow,
    ask,
)
from clew.core.ports import Store
from clew.core.text import rank
from clew.core.text.words import forms, stem, text_of, words
from clew.core.values import Item, LogSize, Scope, SearchHit

MOST_UNINDEXED = 256
CHANGESETS_PER_BATCH = 256
UNCUT = LogSize()
CANDIDATES = 512
"""The most texts that a search for any of the words compares; of more, the newest."""


class WordQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A search for all of these words or any, of one owner, in one thread, in one log."""

    words: tuple[str, ...]
    owner: str | None = None
    thread: str | None = None
    log: str | None = None


class IndexBacklog(msgspec.Struct, frozen=True):
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
) -> list[SearchHit]:
    """Visible items that hold all of the words, or any of them, the best first.

    What the index does not hold yet is read as it is; if that is too much, the index comes first. A search
    for any of the words compares texts by how rare the words are, so there the index always comes first,
    unless nothing can be written.
    """
    word_query = WordQuery(words=tuple(dict.fromkeys(words(query))), owner=owner, thread=thread, log=log)
    if not word_query.words or not (most := check_limit(limit)):
        return []
    result = await store.read(scope, _search_or_backlog(word_query, most, any=any))
    if not isinstance(result, IndexBacklog):
        return result
    is_whole = False
    try:
        if len(result.rows) == MOST_UNINDEXED:
            await index_threads(store, scope)
        else:
            for row, upto in result.rows:
                await _index_thread(store, scope, row, upto)
        is_whole = True
    except StoreReadOnly:
        pass  # then the tail is read as it is, however long
    if any:
        return await store.read(scope, _search_any(word_query, most, with_tail=not is_whole))
    return await store.read(scope, _search_all(word_query, most))


def _search_or_backlog(
    query: WordQuery, limit: int, *, any: bool
) -> StoreRead["list[SearchHit] | IndexBacklog"]:
    """Search the index, or return what it has to take in first."""
    if (yield from _item_count(query)) == 0:
        return []
    late = yield from ask(AskUnindexedThreads(MOST_UNINDEXED))
    backlog = (
        late if len(late) == MOST_UNINDEXED else [row for row in late if any and _is_in_scope(row[0], query)]
    )
    if backlog:
        return IndexBacklog(backlog)
    if any:
        return (yield from _search_any(query, limit, with_tail=False))
    return (yield from _search_all(query, limit))


def _item_count(query: WordQuery) -> StoreRead[int | None]:
    """Count the items of the thread and log asked for; None if it may be any thread."""
    if query.thread is None:
        return None
    row = yield from _read_undamaged(query.thread)
    logs = row.counters.logs if row is not None else {}
    return sum(size.length for log, size in logs.items() if query.log in (None, log))


def _is_in_scope(row: ThreadRow, query: WordQuery) -> bool:
    return query.owner in (None, row.owner) and query.thread in (None, row.id)


async def _index_thread(store: Store, scope: Scope, row: ThreadRow, after: int) -> None:
    while after < row.version:
        after += await _index_batch(store, scope, row, after)


async def index_threads(store: Store, scope: Scope) -> int:
    """Bring the search index up to date; the number of changesets it took in."""
    count = 0
    while late := await store.read(scope, ask(AskUnindexedThreads(MOST_UNINDEXED))):
        for row, upto in late:
            count += await _index_batch(store, scope, row, upto)
    return count


async def _index_batch(store: Store, scope: Scope, row: ThreadRow, after: int) -> int:
    plan = await store.change(scope, lambda context: _plan_index(row, after))
    return sum(write.upto - after for write in plan.writes if isinstance(write, IndexTexts))


def _plan_index(row: ThreadRow, after: int) -> StoreRead[Plan]:
    log = yield from reader.read_changeset_rows(row, max(after, _own_start(row)), None, CHANGESETS_PER_BATCH)
    texts = tuple(text for _, items in log for text in _texts(items))
    upto = log[-1].change.version if log else row.version
    return Plan(writes=[IndexTexts(row=row, texts=texts, upto=upto)])


def _own_start(row: ThreadRow) -> int:
    """The version a thread's own rows start after; what comes before is indexed with its ancestors.

    An imported fork, or a very deep one, holds its ancestors' rows itself.
    """
    return max((segment.upto for segment in row.segments if segment.key != row.key), default=0)


def _texts(items: Sequence[ItemRow]) -> list[SearchText]:
    entries = [entry for entry in map(item_of, items) if isinstance(entry, Item)]
    texts = [(entry, text_of(entry)) for entry in entries]
    return [
        SearchText(log=entry.log, place=entry.place, version=entry.version, text=text)
        for entry, text in texts
        if text
    ]


def _search_any(query: WordQuery, limit: int, *, with_tail: bool) -> StoreRead[list[SearchHit]]:
    """Hits for any of the words in any of their forms: found by the rarest of them, ranked by all of them."""
    length = yield from _item_count(query)
    counts, hits = yield from _read_candidates(query, length)
    if with_tail:
        query_forms = [form for word in query.words for form in forms(word)]
        tail = yield from _search_tail(query, lambda text_words: not text_words.isdisjoint(query_forms))
        counts.update({word: max(counts.get(word, 0), 1) for word in query_forms})
        hits += tail
    if not hits:
        return []
    total = 2 * max(counts.values()) if length is None else length  # of all threads it is a guess
    scores = rank.bm25([hit.text for hit in hits], counts, total)
    ranking = sorted(zip(scores, hits, strict=True), key=lambda pair: (-pair[0], -pair[1].version))
    visible: list[SearchHit] = []
    for start in range(0, len(ranking), limit):
        page = [msgspec.structs.replace(hit, score=score) for score, hit in ranking[start : start + limit]]
        visible += yield from _visible_hits(page)
        if len(visible) >= limit:
            break
    return visible[:limit]


def _read_candidates(
    query: WordQuery, length: int | None
) -> StoreRead[tuple[dict[str, int], list[SearchHit]]]:
    """Read the number of texts with each word, and the texts to compare; of few, with one question."""
    small_result = (yield from _read_small(query)) if length is not None and length < CANDIDATES else None
    if small_result is not None:
        return small_result
    counts = yield from _read_form_counts(query)
    return counts, (yield from _find_candidates(query, counts)) if counts else []


def _read_small(query: WordQuery) -> StoreRead[tuple[dict[str, int], list[SearchHit]] | None]:
    """Read the candidates with one question; None if there are more texts than it gives."""
    query_forms = tuple(dict.fromkeys(form for word in query.words for form in forms(word)))
    hits = yield from ask(_newest_hits(query, query_forms, any=True))
    if len(hits) >= CANDIDATES:  # the index holds ended items too
        return None
    word_sets = [set(words(hit.text)) for hit in hits]
    numbers = {word: sum(word in word_set for word_set in word_sets) for word in query_forms}
    counts = {word: number for word, number in numbers.items() if number}
    rare = _rare_forms(counts)
    return counts, [hit for hit, held in zip(hits, word_sets, strict=True) if not held.isdisjoint(rare)]


def _read_form_counts(query: WordQuery) -> StoreRead[dict[str, int]]:
    """Read the number of texts with each word and its other forms; those of a common word add nothing."""
    counts = yield from _read_counts(query, query.words)
    rare = [word for word in query.words if counts.get(word, 0) < CANDIDATES]
    others = dict.fromkeys(form for word in rare for form in forms(word) if form not in query.words)
    return counts | (yield from _read_counts(query, tuple(others)))


def _read_counts(query: WordQuery, words: tuple[str, ...]) -> StoreRead[dict[str, int]]:
    if not words:
        return {}
    question = AskWordCounts(words, query.owner, CANDIDATES, thread=query.thread, log=query.log)
    numbers = yield from ask(question)
    return {word: number for word, number in zip(words, numbers, strict=True) if number}


def _find_candidates(query: WordQuery, counts: dict[str, int]) -> StoreRead[list[SearchHit]]:
    """Texts with any of the rarer words. If all are common, those first that hold each of them."""
    hits: list[SearchHit] = []
    if min(rank.counts_by_stem(counts).values()) >= CANDIDATES:
        hits = yield from ask(_newest_hits(query, query.words, any=False))
    if len(hits) < CANDIDATES:
        hits += yield from ask(_newest_hits(query, _rare_forms(counts), any=True))
    return list({(hit.thread, hit.log, hit.place): hit for hit in hits[:CANDIDATES]}.values())


def _rare_forms(counts: dict[str, int]) -> tuple[str, ...]:
    """The words that find texts to compare, in all of their forms."""
    stems = rank.rarest_words(rank.counts_by_stem(counts), CANDIDATES)
    return tuple(word for root in stems for word in counts if stem(word) == root)


def _newest_hits(query: WordQuery, words: tuple[str, ...], *, any: bool) -> AskHits:
    thread, log = query.thread, query.log
    return AskHits(words, query.owner, CANDIDATES, any=any, newest=True, thread=thread, log=log)


def _search_all(query: WordQuery, limit: int) -> StoreRead[list[SearchHit]]:
    tail = yield from _search_tail(query, lambda text_words: text_words.issuperset(query.words))
    count = limit * 2
    while True:  # the index holds ended items too, and they may be the best
        hits = yield from ask(AskHits(query.words, query.owner, count, thread=query.thread, log=query.log))
        visible = yield from _visible_hits([*tail, *hits])
        if len(visible) >= limit or len(hits) < count:
            return sorted(visible, key=lambda hit: -hit.score)[:limit]
        count *= 4


def _visible_hits(hits: list[SearchHit]) -> StoreRead[list[SearchHit]]:
    """The hits that a reader of their threads would see, each once."""
    rows: dict[str, ThreadRow | None] = {}
    visible: dict[tuple[str, str, int], SearchHit] = {}
    for hit in hits:
        if hit.thread not in rows:
            rows[hit.thread] = yield from _read_undamaged(hit.thread)
        row = rows[hit.thread]
        if row is not None and (yield from _is_visible(row, hit)):
            visible.setdefault((hit.thread, hit.log, hit.place), hit)
    return list(visible.values())


def _read_undamaged(id: str) -> StoreRead[ThreadRow | None]:
    """A thread that is there and not damaged."""
    try:
        return (yield from ask(AskThread(id)))
    except StoreDamaged:
        return None  # verify names it; a search passes over it


def _is_visible(row: ThreadRow, hit: SearchHit) -> StoreRead[bool]:
    if row.counters.logs.get(hit.log, UNCUT).cuts == 0:
        return True
    cuts = yield from ask(AskCuts(row.key, hit.log, hit.place, hit.place, row.version))
    return not any(cut.version > hit.version for cut in cuts)


def _search_tail(query: WordQuery, is_hit: Callable[[set[str]], bool]) -> StoreRead[list[SearchHit]]:
    """Hits in changesets that the index does not hold yet, by the words that a text holds."""
    hits: list[SearchHit] = []
    late = yield from ask(AskUnindexedThreads(MOST_UNINDEXED))
    for row, upto in late:
        if not _is_in_scope(row, query):
            continue
        after = max(upto, _own_start(row))
        while log := (yield from reader.read_changeset_rows(row, after, None, CHANGESETS_PER_BATCH)):
            after = log[-1].change.version
            for _, items in log:
                texts = [text for text in _texts(items) if query.log in (None, text.log)]
                hits += [_hit(row, text) for text in texts if is_hit(set(words(text.text)))]
    return hits


def _hit(row: ThreadRow, text: SearchText) -> SearchHit:
    return SearchHit(
        thread=row.id, log=text.log, place=text.place, version=text.version, text=text.text, score=0.0
    )
