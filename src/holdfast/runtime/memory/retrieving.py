"""What is known that bears on a message: found by words and by vectors, fused by reciprocal rank."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import msgspec

from holdfast.core.errors import HoldfastError, ThreadNotFound
from holdfast.core.ranking import fused
from holdfast.core.text import words
from holdfast.core.values import Item, RecordQuery
from holdfast.runtime.memory.embedding import (
    VECTOR,
    EmbeddingProvider,
    embed_pending,
    length,
    likeness,
    unpacked,
    vector_tags,
)
from holdfast.runtime.memory.functionwords import FUNCTION_WORDS
from holdfast.runtime.memory.keeping import Memory
from holdfast.runtime.memory.rendering import Entry, entry_of
from holdfast.runtime.memory.values import ARCS, FACTS, Profile, arc_of, fact_of
from holdfast.runtime.settings import now_ms

RetrievalPath: TypeAlias = Literal["hybrid_rrf", "token_recall", "token_recall_after_embed_error"]
DAY = 24 * 60 * 60 * 1000
SEARCHED = 20
VECTORS = 2_000
"""How many vectors are compared at most, the newest; each is read and compared by itself."""

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


class WorkingMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn knows of its user: the rules always, the entries, and whether they may be brought up."""

    profile: Profile
    recalled: Recalled


class Retriever:
    """Finds what a memory knows about a message. For its vector it waits so many seconds, no longer."""

    def __init__(
        self,
        memory: Memory,
        embedder: EmbeddingProvider | None = None,
        *,
        limits: Limits | None = None,
        patience: float = 2.0,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._memory = memory
        self._embedder = embedder
        self._limits = limits or Limits()
        self._patience = patience
        self._clock = clock

    async def working_memory(self, message: str, *, first_turn: bool) -> WorkingMemory:
        """All that a turn is told. On a thread's first turn the last episode is told too, however old."""
        recalled = await self.recall(message)
        if first_turn:
            last = await self.catch_up()
            others = [entry for entry in recalled.entries if not last or entry.id != last[0].id]
            newest = [] if others else await self._newest()
            recalled = msgspec.structs.replace(recalled, entries=(*last, *others, *newest))
        return WorkingMemory(profile=await self._memory.profile(), recalled=recalled)

    async def recall(self, message: str) -> Recalled:
        """The facts and arcs that bear on a message, the best first."""
        vector, path, problem = await self._vector(message)
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
        done = 0
        for log in (FACTS, ARCS):
            try:
                done += await embed_pending(
                    self._memory.db, self._memory.thread, self._memory.owner, log, self._embedder
                )
            except ThreadNotFound:
                return 0
        return done

    async def _newest(self) -> list[Entry]:
        """What was learned last, for a first turn that says too little to find anything by."""
        return [entry_of(fact) for fact in (await self._memory.page(limit=self._limits.facts)).facts]

    async def _vector(self, message: str) -> tuple[Sequence[float] | None, RetrievalPath, str | None]:
        if self._embedder is None:
            return None, "token_recall", None
        try:
            async with asyncio.timeout(self._patience):
                (vector,) = await self._embedder.embed([message])
        except (HoldfastError, OSError, TimeoutError) as error:
            problem = str(error) or f"no vector within {self._patience} seconds"
            return None, "token_recall_after_embed_error", problem
        return vector, "hybrid_rrf", None

    async def _ranked(
        self, message: str, vector: Sequence[float] | None, log: str, limit: int, days: int | None
    ) -> list[Item]:
        lists = [await self.by_words(message, log)]
        if vector is not None:
            lists.append(await self.by_vector(vector, log))
        oldest = self._clock() - days * DAY if days is not None else None
        found: list[Item] = []
        for place in fused(lists):
            item = await self._at(log, place)
            if item is not None and (oldest is None or item.time >= oldest):
                found.append(item)
            if len(found) == limit:
                break
        return found

    async def by_words(self, message: str, log: str = FACTS) -> list[int]:
        """The places of what holds any of the words, the best first."""
        said = words(message)
        telling = [word for word in said if word not in FUNCTION_WORDS]
        hits = await self._memory.db.search(
            " ".join(telling or said),
            any=True,
            owner=self._memory.owner,
            thread=self._memory.thread,
            log=log,
            limit=SEARCHED,
        )
        return [hit.place for hit in hits]

    async def by_vector(self, vector: Sequence[float], log: str = FACTS) -> list[int]:
        """The places of what is most alike, the best first."""
        if self._embedder is None:
            return []
        tags = vector_tags(self._memory.thread, log, self._embedder.name)
        records = await self._memory.db.records.find(
            RecordQuery(kind=VECTOR, tags=tags, newest=True, limit=VECTORS)
        )
        own = length(vector)
        scored = [
            (likeness(vector, unpacked(record.body["vector"]), own * record.body["length"]), record.sort)
            for record in records
        ]
        return [place for score, place in sorted(scored, reverse=True)[:SEARCHED] if score >= ALIKE]

    async def _at(self, log: str, place: int) -> Item | None:
        """What stands at a place, if it is still there."""
        window = await self._memory.db.thread(self._memory.thread).items(
            log=log, after=place - 1, before=place + 1, last=1
        )
        return window[0] if window else None
