"""Vectors of what is known: how they are made, and kept beside it."""

import logging
import math
from collections.abc import Iterable, Sequence
from hashlib import sha256

from clew.core.encoding import as_json
from clew.core.errors import ModelFailed, ThreadNotFound
from clew.core.log.reader import read_thread
from clew.core.log.vectors import VECTOR_KIND, quantize_vector
from clew.core.text.words import text_of
from clew.core.values import Drop, Item, Put, Record, RecordQuery, Scope
from clew.database.database import Database
from clew.runtime.context import EmbeddingProvider
from clew.runtime.model.boundary import answer_check, model_boundary

log = logging.getLogger("clew")
ITEMS_PER_BATCH = 64


def vector_id(thread: str, id: str) -> str:
    """The id of the record that holds the vector of an entry."""
    return f"{thread}/{id}"


def vector_space(provider: str, vector: Sequence[float]) -> str:
    """The space of vectors that can be compared: those of one provider, of one size."""
    return f"{provider}:{len(vector)}"


async def current_space(embedder: EmbeddingProvider) -> str:
    """The space in which a provider makes its vectors now. It is asked for one."""
    (vector,) = await embed_texts(embedder, ["."])
    return vector_space(embedder.name, vector)


async def embed_texts(embedder: EmbeddingProvider, texts: Sequence[str]) -> list[list[float]]:
    """A vector for each text, of numbers alone. Whatever else an embedder does is its failure.

    Raises:
        ModelFailed: It raised something, or gave anything else.
    """
    with model_boundary(embedder.name):
        rows = list(await embedder.embed(texts))
    with answer_check(embedder.name):
        vectors = [_checked_vector(row) for row in rows]
    if len(vectors) != len(texts):
        problem = f"it gave {len(vectors)} vectors for {len(texts)} texts"
        raise ModelFailed(model=embedder.name, problem=problem)
    return vectors


def _checked_vector(row: Iterable[float]) -> list[float]:
    vector = list(row)
    if not vector or not all(map(math.isfinite, vector)):  # which takes no text for a number, as float does
        raise ValueError("a vector is made of finite numbers, and of one at least")
    return [float(number) for number in vector]


async def embed_batch(
    db: Database, thread: str, owner: str | None, log: str, embedder: EmbeddingProvider, space: str
) -> int:
    """Make some of the vectors that are missing for a log; how many, 0 once none is. To be done in the queue.

    A changed entry is at the end of its log, so missing vectors are behind the last that was made. A
    vector in another space gives way to the new one.

    Raises:
        ModelFailed: There are none, or they are in another space by now.
    """
    tags = (thread, log, space, await birth_tag(db, thread))
    newest = await db.records.find(
        RecordQuery(kind=VECTOR_KIND, tags=(joint_tag(tags),), newest=True, limit=1)
    )
    items = await db.thread(thread).items(
        log=log, first=ITEMS_PER_BATCH, after=newest[0].sort if newest else 0
    )
    if not items:
        return 0
    vectors = await _embed_or_skip(embedder, [text_of(item) for item in items])
    foreign = [vector for vector in vectors if vector and vector_space(embedder.name, vector) != space]
    if foreign:
        problem = f"its vectors have {len(foreign[0])} numbers and not those of {space}"
        raise ModelFailed(model=embedder.name, problem=problem)
    pairs = zip(items, vectors, strict=True)
    await db.commit([Put(record=_vector_record(owner, item, tags, vector)) for item, vector in pairs])
    await _drop_stale_vectors(db, thread, log, items)
    return len(items)


def joint_tag(tags: tuple[str, str, str, str]) -> str:
    """One tag for all four: a store looks it up, and need not go through the vectors of one owner."""
    return f"all of {sha256(chr(0).join(tags).encode()).hexdigest()}"


async def birth_tag(db: Database, thread: str) -> str:
    """A tag that distinguishes the vectors of a thread from those of one that had its id before.

    Raises:
        ThreadNotFound: There is no such thread.
    """
    # The head would bring the state along, which takes two questions more.
    row = await db.store.read(Scope(tenant=db.tenant, user=db.user), read_thread(thread))
    return f"born {row.created}"


async def _embed_or_skip(embedder: EmbeddingProvider, texts: Sequence[str]) -> Sequence[Sequence[float]]:
    """A vector for each text; an empty one for what says nothing, or will never be taken."""
    nonblank = [text for text in texts if text.strip()]
    vectors = iter(await _embed_each(embedder, nonblank) if nonblank else ())
    return [next(vectors) if text.strip() else () for text in texts]


async def _embed_each(embedder: EmbeddingProvider, texts: Sequence[str]) -> Sequence[Sequence[float]]:
    """A vector for each text. One that is refused for good bars no other."""
    try:
        return await embed_texts(embedder, texts)
    except ModelFailed as failure:
        if failure.retry:
            raise
    vectors: list[Sequence[float]] = []
    for text in texts:
        try:
            vectors += await embed_texts(embedder, [text])
        except ModelFailed as failure:
            if failure.retry:
                raise
            log.warning("A text gets no vector, and is found by its words alone: %s", failure)
            vectors.append(())
    if not any(vectors):
        raise ModelFailed(model=embedder.name, problem="it takes none of the texts")
    return vectors


async def _drop_stale_vectors(db: Database, thread: str, log: str, items: Sequence[Item]) -> None:
    """Take back the vectors of what was forgotten, or erased with its thread, while they were being made."""
    first, last = items[0].place, items[-1].place
    try:
        window = await db.thread(thread).items(log=log, after=first - 1, before=last + 1)
        places = {item.place for item in window}
    except ThreadNotFound:
        places = set()
    missing = [item for item in items if item.place not in places]
    if missing:
        await db.commit([Drop(kind=VECTOR_KIND, id=vector_id(thread, item_name(item))) for item in missing])


def item_name(item: Item) -> str:
    """The name of an item among those of its thread: its id, or its place if it has none."""
    return item.id or f"{item.log}:{item.place}"


def _vector_record(
    owner: str | None, item: Item, tags: tuple[str, str, str, str], vector: Sequence[float]
) -> Record:
    return Record(
        kind=VECTOR_KIND,
        id=vector_id(tags[0], item_name(item)),
        owner=owner,
        tags=(*tags, joint_tag(tags)),
        sort=item.place,
        body=as_json(quantize_vector(vector)),
    )
