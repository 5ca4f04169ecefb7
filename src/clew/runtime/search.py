"""Search over all that is one's own, what was said and what is known: by words, by meaning, page by page."""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Literal, TypeAlias

import msgspec

from clew.core.arguments import check_arguments
from clew.core.encoding import encode
from clew.core.errors import InvalidArgument, ThreadNotFound
from clew.core.log.checks import check_limit
from clew.core.log.owners import memory_thread_id
from clew.core.text.excerpts import Excerpt, excerpt
from clew.core.text.periods import named_period
from clew.core.text.rank import fuse_rankings
from clew.core.text.words import stem, text_of, words
from clew.core.values import HISTORY, MEMORY_PREFIX, Item, VectorQuery
from clew.database.database import Database
from clew.database.search import Place, prefer_period
from clew.runtime.context import EmbeddingProvider
from clew.runtime.memory.phrases.phrase import FUNCTION_WORDS
from clew.runtime.memory.recall.retrieval import (
    LEAST_LIKENESS,
    QUERY_SECONDS,
    RetrievalPath,
    query_vector,
)
from clew.runtime.memory.thread import read_memory_thread
from clew.runtime.memory.values import ARCHIVED, ARCS, FACTS, Rule
from clew.runtime.memory.vectors.embedding import birth_tag, vector_space

SearchKind: TypeAlias = Literal["items", "facts", "arcs", "rules"]
KINDS: tuple[SearchKind, ...] = ("items", "facts", "arcs", "rules")
SearchPath: TypeAlias = RetrievalPath | Literal["token_recall_then_vectors"]
"""The course of a search. Of items, those found by meaning follow those with the words, and are not fused."""

RULES = "rules"
MOST_BY_MEANING = 60
"""The most hits that are found by meaning."""

LEAST_WORDS_FOR_NEIGHBOURS = 3
"""A query of fewer words looks for these words, not for what was said about something."""

VECTOR_LOGS: dict[SearchKind, str] = {"facts": FACTS, "arcs": ARCS, "items": HISTORY}
"""The kinds of hits that have vectors, and the logs that they are in."""

TAG_BYTES, SEAL_BYTES = 5, 8
HitKey: TypeAlias = tuple[str, str, int | str]
"""A thread, a log, and a place in it; for a rule its id."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A hit: its place, its time, and the part of its text that bears on the query.

    ``marks`` are where the searched words begin in the text, and where they end. What was found by meaning
    alone has none.
    """

    kind: SearchKind
    thread: str
    text: str
    marks: tuple[tuple[int, int], ...] = ()
    log: str = HISTORY
    place: int = 0
    id: str | None = None
    role: str = ""
    time: int = 0
    version: int = 0
    score: float = 0.0


class SearchPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some hits, the best first, the cursor of the next page if there is one, and how they were found."""

    hits: tuple[Hit, ...] = ()
    next: str | None = None
    path: SearchPath = "token_recall"
    problem: str | None = None


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """A query and its filters. Times are milliseconds, both ends included.

    Without an owner it is the user on whose behalf the database is used, or everybody.
    """

    query: str
    owner: str | None = None
    thread: str | None = None
    kinds: tuple[SearchKind, ...] = KINDS
    role: str | None = None
    since: int | None = None
    until: int | None = None

    @property
    def significant_words(self) -> list[str]:
        """The words that say something, or all if none does."""
        query_words = list(dict.fromkeys(words(self.query)))
        return [word for word in query_words if word not in FUNCTION_WORDS] or query_words


@check_arguments
async def search_everything(
    db: Database,
    search: Search,
    *,
    limit: int = 20,
    cursor: str | None = None,
    embedder: EmbeddingProvider | None = None,
    timeout_seconds: float = QUERY_SECONDS,
) -> SearchPage:
    """A page of hits for a query, the best first; ``cursor`` is that of the page before.

    No page repeats what one before has shown, whatever is said or forgotten in between. If the embedder
    fails, or takes longer than ``timeout_seconds``, words answer alone.

    Raises:
        InvalidArgument: The cursor is of another search, or the limit is not positive.
    """
    if check_limit(limit) < 1 or not set(search.kinds) <= set(KINDS):
        raise InvalidArgument(problem=f"Search for at least one hit, of these kinds: {', '.join(KINDS)}.")
    if search.owner is None:
        search = msgspec.structs.replace(search, owner=db.user)
    earlier_tags = _tags_of_cursor(search, cursor)
    if not search.significant_words:
        return SearchPage()
    kinds = _kinds_by_meaning(search)
    vector, path, problem = await query_vector(embedder if kinds else None, search.query, timeout_seconds)
    by_meaning = await _by_vector(db, search, vector, embedder) if vector and embedder else []
    rules = await _rules(db, search)
    scores = _fuse(await _by_words(db, search), by_meaning, rules)
    if earlier_tags:
        shown = set(earlier_tags)
        scores = {key: score for key, score in scores.items() if _tag(key) not in shown}
    hits, tags = await _hits(db, search, scores, rules, limit)
    page = tuple(hits[:limit])
    next_cursor = _cursor(search, [*earlier_tags, *tags]) if len(hits) > limit else None
    is_unfused = vector is not None and kinds == ["items"]
    search_path: SearchPath = "token_recall_then_vectors" if is_unfused else path
    return SearchPage(hits=page, next=next_cursor, path=search_path, problem=problem)


def _kinds_by_meaning(search: Search) -> list[SearchKind]:
    """The kinds of hits that a search can find by meaning; only a memory has facts and arcs."""
    is_memory = search.thread is None or search.thread.startswith(MEMORY_PREFIX)
    return [kind for kind in VECTOR_LOGS if kind in search.kinds and (is_memory or kind == "items")]


def _fuse(
    by_words: Sequence[HitKey], by_meaning: Sequence[HitKey], rules: dict[HitKey, Rule]
) -> dict[HitKey, float]:
    """One ranking of three. Turns that are only alike in meaning come last.

    Names dominate the vectors of sentences, so a turn about the right person would outrank the right words.
    """
    entries = [key for key in by_meaning if _kind(key[0], key[1]) != "items"]
    scores = fuse_rankings([by_words, entries, list(rules)])
    last = min(scores.values(), default=1.0)
    turns = [key for key in by_meaning if key not in scores]
    return scores | {key: last / (rank + 1) for rank, key in enumerate(turns, start=1)}


async def _by_words(db: Database, search: Search) -> list[HitKey]:
    """All that bears on the words, the best first: what holds them, and the turns beside it."""
    thread, log = search.thread, None
    if search.kinds in (("facts",), ("arcs",)):
        log = search.kinds[0]
        thread = thread or (memory_thread_id(search.owner) if search.owner is not None else None)
    index = db.search_index
    ranking = await index.rank(" ".join(search.significant_words), owner=search.owner, thread=thread, log=log)
    if (period := named_period(search.query, db.store.now())) is not None:
        ranking = await prefer_period(index, ranking, period)
    is_question = len(search.significant_words) >= LEAST_WORDS_FOR_NEIGHBOURS
    return [ranked.place for ranked in ranking if ranked.is_hit or is_question]


async def _by_vector(
    db: Database, search: Search, vector: Sequence[float], embedder: EmbeddingProvider
) -> list[HitKey]:
    """The hits nearest in meaning, of the kinds that have vectors. All vectors are searched."""
    logs = tuple(log for kind, log in VECTOR_LOGS.items() if kind in search.kinds)
    query = VectorQuery(
        vector=tuple(vector),
        space=vector_space(embedder.name, vector),
        logs=logs,
        owner=search.owner,
        thread=search.thread,
        limit=MOST_BY_MEANING,
        least=LEAST_LIKENESS,
    )
    records = [match.record for match in await db.records.nearest(query)]
    times = {thread: await _birth_time(db, thread) for thread in {record.tags[0] for record in records}}
    return [
        (thread, log, record.sort)
        for record in records
        for thread, log, _, time, *_ in [record.tags]
        if times[thread] == time
    ]


async def _birth_time(db: Database, thread: str) -> str | None:
    try:
        return await birth_tag(db, thread)
    except ThreadNotFound:
        return None


async def _rules(db: Database, search: Search) -> dict[HitKey, Rule]:
    """The rules in force that hold any of the words, those first that hold the most. They are few."""
    memory = memory_thread_id(search.owner) if search.owner is not None else search.thread
    if "rules" not in search.kinds or memory is None or not memory.startswith(MEMORY_PREFIX):
        return {}
    if search.thread not in (None, memory):
        return {}
    stems = {stem(word) for word in search.significant_words}
    matches = [
        (len(stems & {stem(word) for word in words(rule.text)}), rule)
        for rule in (await read_memory_thread(db, memory)).rules.values()
    ]
    ranking = sorted((pair for pair in matches if pair[0]), key=lambda pair: -pair[0])
    return {(memory, RULES, rule.id): rule for _, rule in ranking}


async def _hits(
    db: Database, search: Search, scores: dict[HitKey, float], rules: dict[HitKey, Rule], limit: int
) -> tuple[list[Hit], list[bytes]]:
    """One hit more than asked for, if there are as many, and the tags of all that need no second look."""
    hits: list[Hit] = []
    tags: list[bytes] = []
    keys = list(scores)
    for start in range(0, len(keys), limit + 1):
        batch = keys[start : start + limit + 1]
        items = await db.search_index.read(_item_places(search, batch))
        for key in batch:
            hit = _hit_at(search, key, rules, items)
            if hit is not None and _is_within_filters(search, hit):
                hits.append(msgspec.structs.replace(hit, score=scores[key]))
            if len(hits) > limit:
                return hits, tags
            tags.append(_tag(key))
    return hits, tags


def _item_places(search: Search, keys: Iterable[HitKey]) -> list[Place]:
    """The places among some keys that may have an item of a kind that is searched."""
    return [
        (thread, log, place)
        for thread, log, place in keys
        if isinstance(place, int) and _kind(thread, log) in search.kinds
    ]


def _hit_at(
    search: Search, key: HitKey, rules: dict[HitKey, Rule], items: Mapping[Place, Item]
) -> Hit | None:
    if key in rules:
        return _hit_of_rule(search, key, rules[key])
    thread, log, place = key
    item = items.get((thread, log, place)) if isinstance(place, int) else None
    if item is None or not text_of(item):
        return None
    return _hit_of_item(search, _kind(thread, log), thread, item)


def _hit_of_item(search: Search, kind: SearchKind, thread: str, item: Item) -> Hit:
    part: Excerpt = excerpt(text_of(item), search.significant_words)
    return Hit(
        kind=kind,
        thread=thread,
        text=part.text,
        marks=part.marks,
        log=item.log,
        place=item.place,
        id=item.id,
        role=item.role,
        time=item.time,
        version=item.version,
    )


def _hit_of_rule(search: Search, key: HitKey, rule: Rule) -> Hit:
    part = excerpt(rule.text, search.significant_words)
    return Hit(
        kind="rules",
        thread=key[0],
        log=RULES,
        text=part.text,
        marks=part.marks,
        id=rule.id,
        time=rule.learned,
    )


def _is_within_filters(search: Search, hit: Hit) -> bool:
    return (
        (search.role is None or hit.role == search.role)
        and (search.since is None or hit.time >= search.since)
        and (search.until is None or hit.time <= search.until)
    )


def _kind(thread: str, log: str) -> SearchKind:
    kinds: dict[str, SearchKind] = {FACTS: "facts", ARCS: "arcs", ARCHIVED: "rules"}
    return kinds.get(log, "items") if thread.startswith(MEMORY_PREFIX) else "items"


def _tag(key: HitKey) -> bytes:
    return blake2b(encode(list(key)), digest_size=TAG_BYTES).digest()


def _seal(search: Search) -> bytes:
    return blake2b(msgspec.json.encode(search), digest_size=SEAL_BYTES).digest()


def _cursor(search: Search, tags: Iterable[bytes]) -> str:
    """The search, in short, and what of it needs no second look."""
    return base64.urlsafe_b64encode(_seal(search) + b"".join(tags)).decode()


def _tags_of_cursor(search: Search, cursor: str | None) -> list[bytes]:
    if cursor is None:
        return []
    try:
        data = base64.b64decode(cursor, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if data[:SEAL_BYTES] != _seal(search) or (len(data) - SEAL_BYTES) % TAG_BYTES:
        raise InvalidArgument(problem="The cursor is not one of this search. Begin again without it.")
    return [data[start : start + TAG_BYTES] for start in range(SEAL_BYTES, len(data), TAG_BYTES)]
