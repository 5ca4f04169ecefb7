"""Search by words: the index, brought up to date apart from appends, and the tail it does not hold yet."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import msgspec

from clew.core.arguments import Count, check_methods
from clew.core.errors import StoreDamaged, StoreReadOnly
from clew.core.log import places, reader
from clew.core.log.checks import check_limit
from clew.core.log.codec import item_of
from clew.core.log.commit import Plan
from clew.core.log.rows import (
    AskCuts,
    AskHits,
    AskTermCounts,
    AskTextCount,
    AskThread,
    AskUnindexedThreads,
    AskWordCounts,
    IndexTexts,
    ItemRow,
    SearchText,
    StoreRead,
    TermCounts,
    ThreadRow,
    ask,
)
from clew.core.ports import Store
from clew.core.text import rank
from clew.core.text.periods import NamedPeriod
from clew.core.text.turns import SHIPPED, CountedTurn, TurnWeights, turn_scores
from clew.core.text.words import forms, speaker_of, stem, text_of, words
from clew.core.values import MEMORY_PREFIX, Item, LogSize, Scope, SearchHit

T = TypeVar("T")
MOST_UNINDEXED = 256
CHANGESETS_PER_BATCH = 256
UNCUT = LogSize()
CANDIDATES = 512
"""The most texts of a thread that a search for any of the words compares; of more, the newest."""

CANDIDATES_OF_OWNER = 1024
"""The same for all threads of an owner, where turns gain by what is said around them."""

MOST_TEXTS = 4096
"""Texts of an owner are counted no further: among more, no word is rarer for it."""

MOST_DATED = 128
"""Of a ranking, so many are looked at for when they were said."""

PERIOD_WEIGHT = 0.3
"""What a turn of the period in question gains, as a part of the best score."""

Place: TypeAlias = tuple[str, str, int]
"""A thread, a log, and a place in it."""


class WordQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A search for all of these words or any, of one owner, in one thread, in one log."""

    words: tuple[str, ...]
    owner: str | None = None
    thread: str | None = None
    log: str | None = None
    most: int | None = None

    @property
    def candidates(self) -> int:
        """The most texts that are read with one question, and compared."""
        return CANDIDATES_OF_OWNER if self.thread is None else CANDIDATES

    @property
    def budget(self) -> int:
        """The most texts that are compared where there are more than one question reads."""
        return self.candidates if self.most is None else min(self.most, self.candidates)

    @property
    def forms(self) -> tuple[str, ...]:
        """The words in all of their forms."""
        return tuple(dict.fromkeys(form for word in self.words for form in forms(word)))


class RankedPlace(msgspec.Struct, frozen=True, gc=False):
    """A place with its score for a query. Nothing is said of whether anything is visible there."""

    place: Place
    score: float
    is_hit: bool = True


class IndexBacklog(msgspec.Struct, frozen=True):
    """Threads that the index has to take in before a search, and up to which version it holds them."""

    rows: list[tuple[ThreadRow, int]]


@check_methods
class SearchIndex:
    """The search index of a database: what bears on a query, ranked by its words and its surroundings."""

    def __init__(self, store: Store, scope: Scope, *, shape: TurnWeights = SHIPPED) -> None:
        self._store = store
        self._scope = scope
        self._shape = shape

    async def rank(
        self,
        query: str,
        *,
        owner: str | None = None,
        thread: str | None = None,
        log: str | None = None,
        needed: Mapping[str, int] | None = None,
        most: Count | None = None,
    ) -> list[RankedPlace]:
        """Places that hold any of the words in any form, and those beside them, the best first.

        A turn is scored with its neighbours and its session. What is at a place may have been ended since,
        and beside a hit there may be nothing: ``read`` gives what is there. ``needed`` are threads that are
        needed up to a version only: the index is not brought up to date for what came later. ``most`` is for
        those who cannot wait: of an owner with many texts, no more are compared, the newest.
        """
        word_query = msgspec.structs.replace(_word_query(query, owner, thread, log), most=most)
        if not word_query.words:
            return []
        return await self._read_after_indexing(
            word_query,
            lambda with_tail: _rank_places(word_query, with_tail=with_tail, shape=self._shape),
            needed=needed,
        )

    async def read(self, places: Sequence[Place]) -> dict[Place, Item]:
        """The visible items at some places, with one question for each log that they are in."""
        return await self._store.read(self._scope, _read_items(places))

    async def search(self, query: WordQuery, limit: int, *, any: bool) -> list[SearchHit]:
        """Visible items that hold all of the words, or any of them, the best first."""
        if not any:
            return await self._read_after_indexing(query, lambda _: _search_all(query, limit), any=False)
        return await self._read_after_indexing(
            query, lambda with_tail: _search_any(query, limit, with_tail=with_tail)
        )

    async def _read_after_indexing(
        self,
        query: WordQuery,
        read: Callable[[bool], StoreRead[list[T]]],
        *,
        any: bool = True,
        needed: Mapping[str, int] | None = None,
    ) -> list[T]:
        """Read once the index holds what a query needs; it is told whether there is a tail to be read."""
        result = await self._store.read(self._scope, _read_or_backlog(query, read, needed or {}, any=any))
        if not isinstance(result, IndexBacklog):
            return result
        is_whole = await self._take_in(result)
        return await self._store.read(self._scope, read(not is_whole))

    async def _take_in(self, backlog: IndexBacklog) -> bool:
        """Bring the index up to date; return whether it is."""
        try:
            if len(backlog.rows) == MOST_UNINDEXED:
                await index_threads(self._store, self._scope)
            else:
                for row, upto in backlog.rows:
                    await _index_thread(self._store, self._scope, row, upto)
        except StoreReadOnly:
            return False  # then the tail is read as it is, however long
        return True


async def prefer_period(
    index: SearchIndex, ranking: Sequence[RankedPlace], period: NamedPeriod
) -> list[RankedPlace]:
    """A ranking with what was said in a period before what was not, if it is as good otherwise."""
    if not ranking:
        return []
    items = await index.read([ranked.place for ranked in ranking[:MOST_DATED]])
    bonus = PERIOD_WEIGHT * ranking[0].score
    scored = [
        msgspec.structs.replace(
            ranked, score=ranked.score + bonus * period.closeness(items[ranked.place].time)
        )
        if ranked.place in items
        else ranked
        for ranked in ranking
    ]
    return sorted(scored, key=_order)


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
    word_query = _word_query(query, owner, thread, log)
    if not word_query.words or not (most := check_limit(limit)):
        return []
    return await SearchIndex(store, scope).search(word_query, most, any=any)


def _word_query(query: str, owner: str | None, thread: str | None, log: str | None) -> WordQuery:
    return WordQuery(words=tuple(dict.fromkeys(words(query))), owner=owner, thread=thread, log=log)


def _read_or_backlog(
    query: WordQuery, read: Callable[[bool], StoreRead[list[T]]], needed: Mapping[str, int], *, any: bool
) -> StoreRead[list[T] | IndexBacklog]:
    """Read from the index, or return what it has to take in first."""
    if (yield from _item_count(query)) == 0:
        return []
    late = yield from ask(AskUnindexedThreads(MOST_UNINDEXED))
    if len(late) < MOST_UNINDEXED:
        late = [
            (row, upto)
            for row, upto in late
            if any and _is_in_scope(row, query) and upto < needed.get(row.id, row.version)
        ]
    with_tail = False
    return IndexBacklog(late) if late else (yield from read(with_tail))


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
        SearchText(
            log=entry.log,
            place=entry.place,
            version=entry.version,
            text=text,
            speaker=speaker_of(entry),
        )
        for entry, text in texts
        if text
    ]


# Ranking.


def _search_any(query: WordQuery, limit: int, *, with_tail: bool) -> StoreRead[list[SearchHit]]:
    """Hits for any of the words in any of their forms: found by the rarest of them, ranked by all of them."""
    ranking = yield from _rank_places(query, with_tail=with_tail, shape=SHIPPED)
    hits = [ranked for ranked in ranking if ranked.is_hit]
    visible: list[SearchHit] = []
    for start in range(0, len(hits), limit):
        page = hits[start : start + limit]
        items = yield from _read_items([ranked.place for ranked in page])
        visible += [_hit_of_item(ranked, items[ranked.place]) for ranked in page if ranked.place in items]
        if len(visible) >= limit:
            break
    return visible[:limit]


def _hit_of_item(ranked: RankedPlace, item: Item) -> SearchHit:
    thread, log, place = ranked.place
    return SearchHit(
        thread=thread, log=log, place=place, version=item.version, text=text_of(item), score=ranked.score
    )


def _rank_places(query: WordQuery, *, with_tail: bool, shape: TurnWeights) -> StoreRead[list[RankedPlace]]:
    """Rank what the index, and the tail that it does not hold yet, have for any of the words."""
    length = yield from _item_count(query)
    if length == 0:
        return []
    total = (yield from ask(AskTextCount(query.owner, MOST_TEXTS))) if length is None else length
    counts, texts = yield from _read_candidates(query, total)
    if with_tail:
        counts.update({word: max(counts.get(word, 0), 1) for word in query.forms})
        texts += yield from _tail_counts(query)
    weights = rank.word_weights(counts, total)
    stems = {word: stem(word) for word in counts}
    return sorted(_score_texts(texts, weights, stems, shape), key=_order)


def _order(ranked: RankedPlace) -> tuple[float, int, str, str]:
    thread, log, place = ranked.place
    return -ranked.score, -place, thread, log


def _score_texts(
    texts: Iterable[TermCounts], weights: dict[str, float], stems: dict[str, str], shape: TurnWeights
) -> list[RankedPlace]:
    """Score turns with those around them; what a memory holds has no neighbours that say anything of it."""
    entries: list[tuple[Place, CountedTurn]] = []
    threads: dict[str, list[CountedTurn]] = {}
    turn_places: dict[tuple[str, int], Place] = {}
    for text in texts:
        place = (text.thread, text.log, text.place)
        turn = CountedTurn(text.place // places.SPACING, text.length, rank.stem_counts(text.counts, stems))
        if text.thread.startswith(MEMORY_PREFIX):
            entries.append((place, turn))
        else:
            source = f"{text.thread}\n{text.log}"
            threads.setdefault(source, []).append(turn)
            turn_places[source, turn.number] = place
    scores = turn_scores(threads, weights, shape)
    alone = rank.bm25([(turn.length, turn.counts) for _, turn in entries], weights)
    return [
        *(RankedPlace(place, score * shape.alone) for (place, _), score in zip(entries, alone, strict=True)),
        *(_ranked_turn(key, score, turn_places.get(key)) for key, score in scores.items()),
    ]


def _ranked_turn(key: tuple[str, int], score: float, hit: Place | None) -> RankedPlace:
    if hit is not None:
        return RankedPlace(hit, score)
    thread, log = key[0].split("\n")
    return RankedPlace((thread, log, places.place_of(key[1])), score, is_hit=False)


def _read_candidates(query: WordQuery, total: int) -> StoreRead[tuple[dict[str, int], list[TermCounts]]]:
    """Read the number of texts with each word, and the texts to compare; of few, with one question."""
    small_result = (yield from _read_small(query)) if total < query.candidates else None
    if small_result is not None:
        return small_result
    counts = yield from _read_form_counts(query)
    return counts, (yield from _find_candidates(query, counts)) if counts else []


def _read_small(query: WordQuery) -> StoreRead[tuple[dict[str, int], list[TermCounts]] | None]:
    """Read the candidates with one question; None if there are more texts than it gives."""
    texts = yield from ask(_any_counts(query, query.forms, query.forms, query.candidates))
    if len(texts) >= query.candidates:  # the index holds ended items too
        return None
    known_forms = set(query.forms)
    counts = Counter(word for text in texts for word in text.counts if word in known_forms)
    rare = set(_rare_forms(counts, query.candidates))
    return counts, [text for text in texts if not rare.isdisjoint(text.counts)]


def _read_form_counts(query: WordQuery) -> StoreRead[dict[str, int]]:
    """Read the number of texts with each word and its other forms; those of a common word add nothing."""
    counts = yield from _read_counts(query, query.words)
    rare = [word for word in query.words if counts.get(word, 0) < query.budget]
    others = dict.fromkeys(form for word in rare for form in forms(word) if form not in query.words)
    return counts | (yield from _read_counts(query, tuple(others)))


def _read_counts(query: WordQuery, words: tuple[str, ...]) -> StoreRead[dict[str, int]]:
    if not words:
        return {}
    question = AskWordCounts(words, query.owner, query.budget, thread=query.thread, log=query.log)
    numbers = yield from ask(question)
    return {word: number for word, number in zip(words, numbers, strict=True) if number}


def _find_candidates(query: WordQuery, counts: dict[str, int]) -> StoreRead[list[TermCounts]]:
    """Texts with any of the rarer words. If all are common, those first that hold each of them."""
    texts: list[TermCounts] = []
    if min(rank.counts_by_stem(counts).values()) >= query.budget:
        texts = yield from ask(_all_counts(query))
    if len(texts) < query.budget:
        rare = _rare_forms(counts, query.budget)
        texts += yield from ask(_any_counts(query, rare, tuple(counts), query.budget))
    return list({(text.thread, text.log, text.place): text for text in texts[: query.budget]}.values())


def _rare_forms(counts: dict[str, int], budget: int) -> tuple[str, ...]:
    """The words that find texts to compare, in all of their forms."""
    stems = rank.rarest_words(rank.counts_by_stem(counts), budget)
    return tuple(word for root in stems for word in counts if stem(word) == root)


def _any_counts(query: WordQuery, any: tuple[str, ...], words: tuple[str, ...], most: int) -> AskTermCounts:
    return AskTermCounts(any, words, query.owner, most, thread=query.thread, log=query.log)


def _all_counts(query: WordQuery) -> AskTermCounts:
    every, within = query.words, {"thread": query.thread, "log": query.log}
    return AskTermCounts(every, every, query.owner, query.budget, all=True, **within)


def _tail_counts(query: WordQuery) -> StoreRead[list[TermCounts]]:
    """Count the words of what the index does not hold yet."""
    known_forms = set(query.forms)
    tail = yield from _read_tail(query, lambda text_words: not text_words.isdisjoint(known_forms))
    return [
        TermCounts(row.id, text.log, text.place, text.version, len(text_words), Counter(text_words))
        for row, text, text_words in tail
    ]


def _read_items(places: Sequence[Place]) -> StoreRead[dict[Place, Item]]:
    """The items at some places that a reader of their threads would see."""
    places_by_thread: dict[str, dict[str, list[int]]] = {}
    for thread, log, place in places:
        places_by_thread.setdefault(thread, {}).setdefault(log, []).append(place)
    items: dict[Place, Item] = {}
    for thread, places_by_log in places_by_thread.items():
        if (row := (yield from _read_undamaged(thread))) is None:
            continue
        for log, places_of_items in places_by_log.items():
            log_items = yield from reader.read_items_at(row, log, places_of_items)
            items.update({(thread, log, item.place): item for item in log_items})
    return items


# All of the words.


def _search_all(query: WordQuery, limit: int) -> StoreRead[list[SearchHit]]:
    tail = yield from _search_tail(query)
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


def _search_tail(query: WordQuery) -> StoreRead[list[SearchHit]]:
    """Hits for all of the words in changesets that the index does not hold yet."""
    tail = yield from _read_tail(query, lambda text_words: text_words.issuperset(query.words))
    return [
        SearchHit(
            thread=row.id, log=text.log, place=text.place, version=text.version, text=text.text, score=0.0
        )
        for row, text, _ in tail
    ]


def _read_tail(
    query: WordQuery, is_hit: Callable[[set[str]], bool]
) -> StoreRead[list[tuple[ThreadRow, SearchText, list[str]]]]:
    """The texts that the index does not hold yet, with their words, by whether these are a hit."""
    hits: list[tuple[ThreadRow, SearchText, list[str]]] = []
    late = yield from ask(AskUnindexedThreads(MOST_UNINDEXED))
    for row, upto in late:
        if not _is_in_scope(row, query):
            continue
        after = max(upto, _own_start(row))
        while log := (yield from reader.read_changeset_rows(row, after, None, CHANGESETS_PER_BATCH)):
            after = log[-1].change.version
            texts = [text for _, items in log for text in _texts(items) if query.log in (None, text.log)]
            word_lists = [(text, [*words(text.speaker), *words(text.text)]) for text in texts]
            hits += [(row, text, text_words) for text, text_words in word_lists if is_hit(set(text_words))]
    return hits
