"""What is known that bears on a message: found by words and by vectors, fused by reciprocal rank."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import msgspec

from clew.core.arguments import check_methods
from clew.core.errors import DeadlineExceeded, ModelFailed, ThreadNotFound
from clew.core.text.rank import fused
from clew.core.text.words import words
from clew.core.values import Found, Item, RecordQuery
from clew.database.database import Database
from clew.runtime.context import EmbeddingProvider
from clew.runtime.memory.memory import Memory
from clew.runtime.memory.phrases.phrase import FUNCTION_WORDS
from clew.runtime.memory.recall.render import Entry, entry_of
from clew.runtime.memory.values import ARCS, FACTS, Profile, arc_of, fact_of
from clew.runtime.memory.vectors.embedding import (
    VECTOR,
    born,
    current_space,
    embed_some,
    embed_texts,
    space_of,
    together,
)
from clew.runtime.memory.vectors.vectors import Kept, nearest
from clew.runtime.model.boundary import reason_of
from clew.runtime.settings import now_ms

log = logging.getLogger("clew")
RetrievalPath: TypeAlias = Literal["hybrid_rrf", "token_recall", "token_recall_after_embed_error"]
DAY = 24 * 60 * 60 * 1000
SEARCHED = 20
PATIENCE = 2.0
"""So many seconds are waited for the vector of a message."""

VECTORS = 2_000
"""How many vectors are compared at most, the newest; each is read and compared by itself."""

CALLED = " is called "
"""How the text of a fact reads that tells somebody's name."""

ALIKE = 0.1
"""Vectors less alike than this say nothing about each other."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much is recalled: so many facts, so many arcs, and arcs no older than so many days."""

    facts: int = 5
    arcs: int = 2
    arc_days: int | None = 30
    fact_days: int | None = None


class Recalled(msgspec.Struct, frozen=True, kw_only=True):
    """What bears on a message, and how it was found. ``problem`` says why vectors could not be used."""

    entries: tuple[Entry, ...] = ()
    path: RetrievalPath = "token_recall"
    problem: str | None = None

    @property
    def diagnostics(self) -> dict[str, str]:
        """How it was found, for the diagnostics of a turn."""
        problem = {} if self.problem is None else {"retrieval_problem": self.problem}
        return {"retrieval_path": self.path, **problem}


class WorkingMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn knows of its user: the rules always, the entries, and whether they may be brought up."""

    profile: Profile
    recalled: Recalled


@check_methods
class Retriever:
    """Finds what a memory knows about a message. For its vector it waits so many seconds, no longer."""

    def __init__(
        self,
        memory: Memory,
        embedder: EmbeddingProvider | None = None,
        *,
        limits: Limits | None = None,
        patience: float = PATIENCE,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._memory = memory
        self._embedder = embedder
        self._limits = limits or Limits()
        self._patience = patience
        self._clock = clock

    async def working_memory(self, message: str, *, first_turn: bool) -> WorkingMemory:
        """All that a turn is told. On a thread's first turn the last episode is told too, however old."""
        profile = await self._memory.profile()
        recalled = await self.recall(message)
        if first_turn and profile.version:
            last = await self.catch_up()
            others = [entry for entry in recalled.entries if not last or entry.id != last[0].id]
            newest = [] if others else await self._newest()
            recalled = msgspec.structs.replace(recalled, entries=(*last, *others, *newest))
        return WorkingMemory(profile=profile, recalled=recalled)

    async def recall(self, message: str) -> Recalled:
        """The facts and arcs that bear on a message, the best first."""
        vector, path, problem = await query_vector(self._embedder, message, self._patience)
        facts = await self._ranked(message, vector, FACTS, self._limits.facts, self._limits.fact_days)
        arcs = await self._ranked(message, vector, ARCS, self._limits.arcs, self._limits.arc_days)
        entries = [*(entry_of(fact_of(item)) for item in facts), *(entry_of(arc_of(item)) for item in arcs)]
        return Recalled(entries=tuple(entries), path=path, problem=problem)

    async def catch_up(self) -> list[Entry]:
        """The last episode, however long ago; nothing if there was none."""
        return [entry_of(arc, is_catch_up=True) for arc in (await self._memory.page("arcs", limit=1)).arcs]

    async def embed(self) -> int:
        """Make the vectors that are missing; how many. To be done in the queue, never in a turn."""
        if self._embedder is None:
            return 0
        memory, by = self._memory, self._embedder
        space = await current_space(by)
        done = 0
        for log in (FACTS, ARCS):
            try:
                while some := await embed_some(memory.db, memory.thread, memory.owner, log, by, space):
                    done += some
            except ThreadNotFound:
                return 0
        return done

    async def _newest(self) -> list[Entry]:
        """What was learned last, for a first turn that says too little to find anything by."""
        return [entry_of(fact) for fact in (await self._memory.page(limit=self._limits.facts)).facts]

    async def _ranked(
        self, message: str, vector: Sequence[float] | None, log: str, limit: int, days: int | None
    ) -> list[Item]:
        lists = [await self.by_words(message, log)]
        if vector is not None:
            lists.append(await self.by_vector(vector, log))
        oldest = self._clock() - days * DAY if days is not None else None
        found: list[Item] = []
        for place in fused(lists):
            item = await item_at(self._memory.db, self._memory.thread, log, place)
            if item is not None and (oldest is None or item.time >= oldest):
                found.append(item)
            if len(found) == limit:
                break
        return found

    async def by_words(self, message: str, log: str = FACTS) -> list[int]:
        """The places of what holds any of the words, the best first.

        Whoever is named is looked for by what they are to the user too, and the other way round.
        """
        said = words(message)
        telling = [word for word in said if word not in FUNCTION_WORDS] or said
        hits = await self._holding(telling, log)
        others = await self._others(hits, telling) if log == FACTS else []
        if others:
            hits = await self._holding([*telling, *others], log)
        return [hit.place for hit in hits]

    async def _holding(self, telling: Sequence[str], log: str) -> list[Found]:
        memory = self._memory
        return await memory.db.search(
            " ".join(telling), any=True, owner=memory.owner, thread=memory.thread, log=log, limit=SEARCHED
        )

    async def _others(self, hits: Sequence[Found], telling: Sequence[str]) -> list[str]:
        """The words by which those who are spoken of are called otherwise: Ann is the sister."""
        memory = self._memory
        found: list[str] = []
        for hit in hits:
            item = await item_at(memory.db, memory.thread, FACTS, hit.place) if CALLED in hit.text else None
            if item is not None:
                fact = fact_of(item)
                names, kinship = words(fact.object), words(fact.subject)
                if names and set(names) <= set(telling):
                    found += kinship
                elif kinship and set(kinship) <= set(telling):
                    found += names
        return [word for word in dict.fromkeys(found) if word not in telling]

    async def by_vector(self, vector: Sequence[float], log: str = FACTS) -> list[int]:
        """The places of what is most alike, the best first."""
        if self._embedder is None:
            return []
        db, thread = self._memory.db, self._memory.thread
        try:
            tags = (thread, log, space_of(self._embedder.name, vector), await born(db, thread))
        except ThreadNotFound:
            return []
        query = RecordQuery(kind=VECTOR, tags=(together(tags),), newest=True, limit=VECTORS)
        records = await db.records.find(query)
        among = ((record.sort, msgspec.convert(record.body, Kept)) for record in records)
        return [place for _, place in nearest(vector, among, SEARCHED, least=ALIKE)]


async def query_vector(
    embedder: EmbeddingProvider | None, message: str, patience: float
) -> tuple[Sequence[float] | None, RetrievalPath, str | None]:
    """The vector of a message, how it is to be searched then, and what went wrong if there is none."""
    if embedder is None:
        return None, "token_recall", None
    try:
        async with asyncio.timeout(patience):
            (vector,) = await embed_texts(embedder, [message])
    except TimeoutError:
        return None, "token_recall_after_embed_error", f"no vector within {patience} seconds"
    except (ModelFailed, DeadlineExceeded) as failure:  # words answer, and this is told
        log.warning("A query got no vector, and was answered by words: %s", reason_of(failure))
        log.debug("Why, in words that may be the query's:", exc_info=failure)
        return None, "token_recall_after_embed_error", str(failure)
    return vector, "hybrid_rrf", None


async def item_at(db: Database, thread: str, log: str, place: int) -> Item | None:
    """What stands at a place, if it is still there."""
    window = await db.thread(thread).items(log=log, after=place - 1, before=place + 1, last=1)
    return window[0] if window else None
