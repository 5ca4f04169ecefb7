"""Retrieval of entries for a message: by words and by vectors, fused by reciprocal rank."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from clew.core.arguments import check_methods
from clew.core.clock import now_ms
from clew.core.erasure.retention import DAY_MS
from clew.core.errors import DeadlineExceeded, ModelFailed, ThreadNotFound
from clew.core.text.rank import fuse_rankings
from clew.core.text.words import words
from clew.core.values import Item, SearchHit, VectorQuery
from clew.runtime.context import EmbeddingProvider
from clew.runtime.memory.memory import Memory
from clew.runtime.memory.phrases.phrase import FUNCTION_WORDS
from clew.runtime.memory.recall.passages import CurrentWindow, recall_passages
from clew.runtime.memory.recall.render import WorkingEntry, working_entry
from clew.runtime.memory.values import ARCS, FACTS, MemoryProfile, arc_of, fact_of
from clew.runtime.memory.vectors.embedding import (
    birth_tag,
    current_space,
    embed_batch,
    embed_texts,
    vector_space,
)
from clew.runtime.model.boundary import reason_of
from clew.runtime.settings import MemoryConfig

log = logging.getLogger("clew")
RetrievalPath: TypeAlias = Literal["hybrid_rrf", "token_recall", "token_recall_after_embed_error"]
Left = TypeVar("Left")
Right = TypeVar("Right")
LOGS = (FACTS, ARCS)
MOST_HITS = 20
QUERY_SECONDS = 2.0
"""So many seconds are waited for the vector of a message."""

IS_CALLED = " is called "
"""The form of a fact about a person's name."""

LEAST_LIKENESS = 0.1
"""Vectors less alike than this say nothing about each other."""


class RecallLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a recall: the number of facts and of arcs, and the age of arcs in days."""

    facts: int = 5
    arcs: int = 2
    arc_days: int | None = 30
    fact_days: int | None = None


class RecallResult(msgspec.Struct, frozen=True, kw_only=True):
    """The entries for a message, and how they were found. ``problem`` says why vectors could not be used."""

    entries: tuple[WorkingEntry, ...] = ()
    path: RetrievalPath = "token_recall"
    problem: str | None = None

    @property
    def diagnostics(self) -> dict[str, str]:
        """The course of the recall, for the diagnostics of a turn."""
        problem = {} if self.problem is None else {"retrieval_problem": self.problem}
        return {"retrieval_path": self.path, **problem}


class VectorRanking(msgspec.Struct, frozen=True, kw_only=True):
    """The places of what is most like a message, by log, and how it was looked for."""

    places: dict[str, list[int]] = {}
    path: RetrievalPath
    problem: str | None = None


class WorkingMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The memory of a turn: the rules always, the entries, and whether they may be brought up."""

    profile: MemoryProfile
    result: RecallResult


@check_methods
class Retriever:
    """Finds what a memory knows about a message. For its vector it waits so many seconds, no longer."""

    def __init__(
        self,
        memory: Memory,
        embedder: EmbeddingProvider | None = None,
        *,
        limits: RecallLimits | None = None,
        timeout_seconds: float = QUERY_SECONDS,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._memory = memory
        self._embedder = embedder
        self._limits = limits or RecallLimits()
        self._timeout_seconds = timeout_seconds
        self._clock = clock

    async def working_memory(
        self,
        message: str,
        *,
        first_turn: bool,
        window: CurrentWindow | None = None,
        config: MemoryConfig | None = None,
    ) -> WorkingMemory:
        """The working memory of a turn. On a thread's first turn it has the last episode too, however old.

        With the ``window`` of the present thread it has what was said earlier too, unless recall is off.
        """
        profile = await self._memory.profile()
        result = await self.recall(message)
        if first_turn and profile.version:
            last = await self.catch_up()
            others = [entry for entry in result.entries if not last or entry.id != last[0].id]
            newest = [] if others else await self._newest_facts()
            result = msgspec.structs.replace(result, entries=(*last, *others, *newest))
        if window is not None and profile.recall:
            memory = self._memory
            passages = await recall_passages(
                memory.db, message, owner=memory.owner, window=window, config=config or MemoryConfig()
            )
            result = msgspec.structs.replace(result, entries=(*result.entries, *passages))
        return WorkingMemory(profile=profile, result=result)

    async def recall(self, message: str) -> RecallResult:
        """The facts and arcs that bear on a message, the best first."""
        # Words need not wait for the vector.
        by_words, by_vector = await _do_both(self._rank_by_words(message), self._rank_by_vector(message))
        items = await self._best_items(
            {log: list(fuse_rankings([by_words[log], by_vector.places.get(log, ())])) for log in LOGS}
        )
        entries = [
            *(working_entry(fact_of(item)) for item in items[FACTS]),
            *(working_entry(arc_of(item)) for item in items[ARCS]),
        ]
        return RecallResult(entries=tuple(entries), path=by_vector.path, problem=by_vector.problem)

    async def catch_up(self) -> list[WorkingEntry]:
        """The last episode, however long ago; nothing if there was none."""
        return [
            working_entry(arc, is_catch_up=True) for arc in (await self._memory.page("arcs", limit=1)).arcs
        ]

    async def embed_missing(self) -> int:
        """Make the vectors that are missing; how many. To be done in the queue, never in a turn."""
        if self._embedder is None:
            return 0
        memory, embedder = self._memory, self._embedder
        space = await current_space(embedder)
        total = 0
        for log in LOGS:
            try:
                while count := await embed_batch(
                    memory.db, memory.thread, memory.owner, log, embedder, space
                ):
                    total += count
            except ThreadNotFound:
                return 0
        return total

    async def _newest_facts(self) -> list[WorkingEntry]:
        """The newest facts, for a first turn that says too little to search by."""
        return [working_entry(fact) for fact in (await self._memory.page(limit=self._limits.facts)).facts]

    async def _rank_by_words(self, message: str) -> dict[str, list[int]]:
        # One after the other: both may have to bring the index of the same thread up to date.
        return {log: await self.places_by_words(message, log) for log in LOGS}

    async def _rank_by_vector(self, message: str) -> VectorRanking:
        vector, path, problem = await query_vector(self._embedder, message, self._timeout_seconds)
        if vector is None:
            return VectorRanking(path=path, problem=problem)
        places = {log: await self.places_by_vector(vector, log) for log in LOGS}
        return VectorRanking(places=places, path=path)

    async def _best_items(self, rankings: dict[str, list[int]]) -> dict[str, list[Item]]:
        """The best items of each log. The rest of a ranking is read only if the first do not suffice."""
        limits = {FACTS: self._limits.facts, ARCS: self._limits.arcs}
        first = await self._read_usable({log: places[: limits[log]] for log, places in rankings.items()})
        rest = await self._read_usable(
            {log: places[limits[log] :] for log, places in rankings.items() if len(first[log]) < limits[log]}
        )
        return {log: [*first[log], *rest.get(log, ())][: limits[log]] for log in rankings}

    async def _read_usable(self, rankings: dict[str, list[int]]) -> dict[str, list[Item]]:
        """The items at some places that are still there and not too old."""
        thread, now = self._memory.thread, self._clock()
        days = {FACTS: self._limits.fact_days, ARCS: self._limits.arc_days}
        places = [(thread, log, place) for log, ranking in rankings.items() for place in ranking]
        items = await self._memory.db.search_index.read(places) if places else {}
        usable: dict[str, list[Item]] = {log: [] for log in rankings}
        for key in places:
            item, most_days = items.get(key), days[key[1]]
            if item is not None and (most_days is None or item.time >= now - most_days * DAY_MS):
                usable[key[1]].append(item)
        return usable

    async def places_by_words(self, message: str, log: str = FACTS) -> list[int]:
        """The places of what holds any of the words, the best first.

        A person who is named is looked for by their relation to the user too, and the other way round.
        """
        message_words = words(message)
        significant_words = [word for word in message_words if word not in FUNCTION_WORDS] or message_words
        hits = await self._hits_of_words(significant_words, log)
        other_names = await self._other_names(hits, significant_words) if log == FACTS else []
        if other_names:
            hits = await self._hits_of_words([*significant_words, *other_names], log)
        return [hit.place for hit in hits]

    async def _hits_of_words(self, significant_words: Sequence[str], log: str) -> list[SearchHit]:
        memory = self._memory
        return await memory.db.search(
            " ".join(significant_words),
            any=True,
            owner=memory.owner,
            thread=memory.thread,
            log=log,
            limit=MOST_HITS,
        )

    async def _other_names(self, hits: Sequence[SearchHit], significant_words: Sequence[str]) -> list[str]:
        """The words by which those who are spoken of are called otherwise: Ann is the sister."""
        places = [(hit.thread, hit.log, hit.place) for hit in hits if IS_CALLED in hit.text]
        items = await self._memory.db.search_index.read(places) if places else {}
        result: list[str] = []
        for fact in [fact_of(items[place]) for place in places if place in items]:
            names, kinship = words(fact.object), words(fact.subject)
            if names and set(names) <= set(significant_words):
                result += kinship
            elif kinship and set(kinship) <= set(significant_words):
                result += names
        return [word for word in dict.fromkeys(result) if word not in significant_words]

    async def places_by_vector(self, vector: Sequence[float], log: str = FACTS) -> list[int]:
        """The places of what is most alike, the best first."""
        if self._embedder is None:
            return []
        db, thread = self._memory.db, self._memory.thread
        try:
            birth = await birth_tag(db, thread)
        except ThreadNotFound:
            return []
        query = VectorQuery(
            vector=tuple(vector),
            space=vector_space(self._embedder.name, vector),
            logs=(log,),
            owner=self._memory.owner,
            thread=thread,
            limit=MOST_HITS,
            least=LEAST_LIKENESS,
        )
        matches = await db.records.nearest(query)
        return [match.record.sort for match in matches if birth in match.record.tags]


async def query_vector(
    embedder: EmbeddingProvider | None, message: str, timeout_seconds: float
) -> tuple[Sequence[float] | None, RetrievalPath, str | None]:
    """The vector of a message, how it is to be searched then, and what went wrong if there is none."""
    if embedder is None:
        return None, "token_recall", None
    try:
        async with asyncio.timeout(timeout_seconds):
            (vector,) = await embed_texts(embedder, [message])
    except TimeoutError:
        return None, "token_recall_after_embed_error", f"no vector within {timeout_seconds} seconds"
    except (ModelFailed, DeadlineExceeded) as failure:  # words answer, and the problem is reported
        log.warning("A query got no vector, and was answered by words: %s", reason_of(failure))
        log.debug("Why, in words that may be the query's:", exc_info=failure)
        return None, "token_recall_after_embed_error", str(failure)
    return vector, "hybrid_rrf", None


async def _do_both(left: Coroutine[Any, Any, Left], right: Coroutine[Any, Any, Right]) -> tuple[Left, Right]:
    """The results of two, done at the same time. If one fails, the other is ended; the failure is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            left_task, right_task = group.create_task(left), group.create_task(right)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return left_task.result(), right_task.result()
