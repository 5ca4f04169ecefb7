"""Search over all that is one's own, what was said and what is known: by words, by meaning, page by page."""

import base64
import binascii
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Literal, TypeAlias

import msgspec

from clew.core.arguments import check_arguments
from clew.core.encoding import encode
from clew.core.errors import InvalidArgument, ThreadNotFound
from clew.core.log.checks import check_limit
from clew.core.log.owners import memory_thread
from clew.core.text.excerpts import Excerpt, excerpt
from clew.core.text.rank import fused
from clew.core.text.words import stem, text_of, words
from clew.core.values import HISTORY, MEMORY, Item, Record, RecordQuery
from clew.database.database import Database
from clew.runtime.context import EmbeddingProvider
from clew.runtime.memory.phrases.phrase import FUNCTION_WORDS
from clew.runtime.memory.recall.retrieval import (
    ALIKE,
    PATIENCE,
    VECTORS,
    RetrievalPath,
    item_at,
    query_vector,
)
from clew.runtime.memory.thread import opened
from clew.runtime.memory.values import ARCHIVED, ARCS, FACTS, Rule
from clew.runtime.memory.vectors.embedding import VECTOR, born, space_of
from clew.runtime.memory.vectors.vectors import Kept, nearest

SearchKind: TypeAlias = Literal["items", "facts", "arcs", "rules"]
KINDS: tuple[SearchKind, ...] = ("items", "facts", "arcs", "rules")
RULES = "rules"
MEANT = 100
"""How many are found by meaning at most."""

TAG, SEAL = 5, 8
Name: TypeAlias = tuple[str, str, int | str]
"""A thread, a log, and a place in it; for a rule its id."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was found: where it stands, since when, and the part of it that bears on the query.

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
    path: RetrievalPath = "token_recall"
    problem: str | None = None


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """What to look for, and where. Times are milliseconds, and both ends belong to what is looked for.

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
    def telling(self) -> list[str]:
        """The words that say something, or all if none does."""
        said = list(dict.fromkeys(words(self.query)))
        return [word for word in said if word not in FUNCTION_WORDS] or said


@check_arguments
async def search_everything(
    db: Database,
    search: Search,
    *,
    limit: int = 20,
    cursor: str | None = None,
    embedder: EmbeddingProvider | None = None,
    patience: float = PATIENCE,
) -> SearchPage:
    """What bears on a query, the best first; ``cursor`` is what the page before ended with.

    No page repeats what one before has shown, whatever is said or forgotten in between. If the embedder
    fails, or takes longer than ``patience`` seconds, words answer alone.

    Raises:
        InvalidArgument: The cursor is of another search, or the limit is not positive.
    """
    if check_limit(limit) < 1 or not set(search.kinds) <= set(KINDS):
        raise InvalidArgument(problem=f"Search for at least one hit, of these kinds: {', '.join(KINDS)}.")
    if search.owner is None:
        search = msgspec.structs.replace(search, owner=db.user)
    seen = _seen(search, cursor)
    if not search.telling:
        return SearchPage()
    vector, path, problem = await query_vector(embedder, search.query, patience)
    meant = await _by_vector(db, search, vector, embedder) if vector and embedder else []
    rules = await _rules(db, search)
    depth = len(seen) + limit + 1
    while True:
        said = await _by_words(db, search, depth)
        ranked = fused([said, meant, list(rules)])
        fresh = {name: score for name, score in ranked.items() if _tag(name) not in seen}
        hits, passed = await _hits(db, search, fresh, rules, limit)
        if len(hits) > limit or len(said) < depth:
            break
        depth *= 4
    shown = tuple(hits[:limit])
    more = len(hits) > limit
    next = _cursor(search, [*seen, *passed]) if more else None
    return SearchPage(hits=shown, next=next, path=path, problem=problem)


async def _by_words(db: Database, search: Search, depth: int) -> list[Name]:
    thread, log = search.thread, None
    if search.kinds in (("facts",), ("arcs",)):
        log = search.kinds[0]
        thread = thread or (memory_thread(search.owner) if search.owner is not None else None)
    hits = await db.search(
        " ".join(search.telling), any=True, owner=search.owner, thread=thread, log=log, limit=depth
    )
    return [(hit.thread, hit.log, hit.place) for hit in hits]


async def _by_vector(
    db: Database, search: Search, vector: Sequence[float], embedder: EmbeddingProvider
) -> list[Name]:
    """What is most alike, of each kind that has vectors; of very many, among the newest."""
    space = space_of(embedder.name, vector)
    within = () if search.thread is None else (search.thread,)
    among: list[tuple[Record, Kept]] = []
    for kind, log in (("facts", FACTS), ("arcs", ARCS), ("items", HISTORY)):
        if kind in search.kinds:
            query = RecordQuery(
                kind=VECTOR, owner=search.owner, tags=(*within, log, space), newest=True, limit=VECTORS
            )
            records = await db.records.find(query)
            among += [(record, msgspec.convert(record.body, Kept)) for record in records]
    found = [record for _, record in nearest(vector, among, MEANT, least=ALIKE)]
    times = {thread: await _born(db, thread) for thread in {record.tags[0] for record in found}}
    return [
        (thread, log, record.sort)
        for record in found
        for thread, log, _, time, *_ in [record.tags]
        if times[thread] == time
    ]


async def _born(db: Database, thread: str) -> str | None:
    try:
        return await born(db, thread)
    except ThreadNotFound:
        return None


async def _rules(db: Database, search: Search) -> dict[Name, Rule]:
    """The rules in force that hold any of the words, those first that hold the most. They are few."""
    memory = memory_thread(search.owner) if search.owner is not None else search.thread
    if "rules" not in search.kinds or memory is None or not memory.startswith(MEMORY):
        return {}
    if search.thread not in (None, memory):
        return {}
    asked = {stem(word) for word in search.telling}
    held = [
        (len(asked & {stem(word) for word in words(rule.text)}), rule)
        for rule in (await opened(db, memory)).rules.values()
    ]
    ranked = sorted((pair for pair in held if pair[0]), key=lambda pair: -pair[0])
    return {(memory, RULES, rule.id): rule for _, rule in ranked}


async def _hits(
    db: Database, search: Search, fresh: dict[Name, float], rules: dict[Name, Rule], limit: int
) -> tuple[list[Hit], list[bytes]]:
    """One hit more than asked for, if there are as many, and the tags of all that need no second look."""
    hits: list[Hit] = []
    passed: list[bytes] = []
    for name, score in fresh.items():
        if len(hits) > limit:
            break
        hit = _rule_hit(search, name, rules[name]) if name in rules else await _item_hit(db, search, name)
        if hit is not None and _is_wanted(search, hit):
            hits.append(msgspec.structs.replace(hit, score=score))
        if len(hits) <= limit:
            passed.append(_tag(name))
    return hits, passed


async def _item_hit(db: Database, search: Search, name: Name) -> Hit | None:
    thread, log, place = name
    kind = _kind(thread, log)
    if kind not in search.kinds or not isinstance(place, int):
        return None
    try:
        item = await item_at(db, thread, log, place)
    except ThreadNotFound:
        return None
    return None if item is None else _hit(search, kind, thread, item)


def _hit(search: Search, kind: SearchKind, thread: str, item: Item) -> Hit:
    part: Excerpt = excerpt(text_of(item), search.telling)
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


def _rule_hit(search: Search, name: Name, rule: Rule) -> Hit:
    part = excerpt(rule.text, search.telling)
    return Hit(
        kind="rules",
        thread=name[0],
        log=RULES,
        text=part.text,
        marks=part.marks,
        id=rule.id,
        time=rule.learned,
    )


def _is_wanted(search: Search, hit: Hit) -> bool:
    return (
        (search.role is None or hit.role == search.role)
        and (search.since is None or hit.time >= search.since)
        and (search.until is None or hit.time <= search.until)
    )


def _kind(thread: str, log: str) -> SearchKind:
    kinds: dict[str, SearchKind] = {FACTS: "facts", ARCS: "arcs", ARCHIVED: "rules"}
    return kinds.get(log, "items") if thread.startswith(MEMORY) else "items"


def _tag(name: Name) -> bytes:
    return blake2b(encode(list(name)), digest_size=TAG).digest()


def _sealed(search: Search) -> bytes:
    return blake2b(msgspec.json.encode(search), digest_size=SEAL).digest()


def _cursor(search: Search, tags: Iterable[bytes]) -> str:
    """The search, in short, and what of it needs no second look."""
    return base64.urlsafe_b64encode(_sealed(search) + b"".join(tags)).decode()


def _seen(search: Search, cursor: str | None) -> list[bytes]:
    if cursor is None:
        return []
    try:
        data = base64.b64decode(cursor, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if data[:SEAL] != _sealed(search) or (len(data) - SEAL) % TAG:
        raise InvalidArgument(problem="The cursor is not one of this search. Begin again without it.")
    return [data[start : start + TAG] for start in range(SEAL, len(data), TAG)]
