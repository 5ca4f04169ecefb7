"""Episodes of one user that end at the same moment: all of them end, and each is summed up once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import replace
from typing import TypeVar

import msgspec
import pytest

import clew
from clew.core.encoding import as_json
from clew.core.values import RecordQuery, Write
from clew.database.database import Database
from clew.runtime.memory.learn.finalizer import ConversationSummary, Finalizer
from clew.runtime.memory.memory import Memory
from clew.runtime.memory.values import Arc, Candidate, MemorySource
from clew.runtime.model.protocol import ModelRequest, ReplyPart, Usage
from clew.runtime.records.episodes import (
    ENDED,
    EPISODE,
    Episode,
    end_expired_episodes,
    episode_of,
    episode_write,
)
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig, SessionConfig
from clew.runtime.state.schema import Conversation
from clew.testing.scripted_model import ScriptedModel
from tests.runtime.episode_ends import work

T = TypeVar("T")
SESSIONS = 8
SOON = 30.0
"""Seconds after which something that should happen at once will never happen."""


class Summarizer:
    """A model that sums episodes up, and counts how often it was asked about each.

    Before the last answer about an episode it does ``meanwhile``.
    """

    name = "summarizer"

    def __init__(self, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self._meanwhile = meanwhile

    async def fill(self, request: ModelRequest, kind: type[T]) -> tuple[T, Usage]:
        self.calls[kind.__name__, request.messages[0].text] += 1
        if kind is not ConversationSummary:
            return kind(), Usage(calls=1)
        await self._meanwhile()
        return msgspec.convert({"summary": "talked"}, kind), Usage(calls=1)

    def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
        raise AssertionError("It is asked for typed answers alone.")


def rendezvous(size: int) -> Callable[[], Awaitable[object]]:
    """Something that so many reach at the same moment."""
    return asyncio.Barrier(size).wait


async def runtime_with_sessions(
    db: Database, model: Summarizer, *texts: str
) -> Runtime[Conversation, dict[str, object]]:
    """A runtime on which one user has said each of these on a thread of its own."""
    runtime: Runtime[Conversation, dict[str, object]] = Runtime(
        db,
        model=ScriptedModel(*["I see."] * len(texts)),
        finalize=Finalizer(model),
        config=RuntimeConfig(sessions=SessionConfig(close_seconds=SOON)),
    )
    for number, text in enumerate(texts):
        await runtime.run_turn(f"s{number}", text, user="alice")
    return runtime


def texts() -> list[str]:
    return [f"I like tea number {number}" for number in range(SESSIONS)]


async def rows(db: Database) -> list[Episode]:
    return [episode_of(record) for record in await db.records.find(RecordQuery(kind=EPISODE))]


async def memory_of(db: Database) -> tuple[list[str], int]:
    """What is known of the user: the objects of the facts, and the number of arcs."""
    memory = Memory(db, "alice")
    facts = (await memory.page(limit=100)).facts
    return sorted(fact.object for fact in facts), len((await memory.page("arcs", limit=100)).arcs)


def once_each(model: Summarizer) -> bool:
    """Whether each episode was looked through once and summed up once."""
    return set(model.calls.values()) == {1} and len(model.calls) == 2 * SESSIONS


@pytest.mark.promise("R-08", "R-11")
async def test_all_sessions_of_a_user_end_at_the_close_each_summed_up_once(db: Database) -> None:
    model = Summarizer(rendezvous(4))
    runtime = await runtime_with_sessions(db, model, *texts())
    async with asyncio.timeout(SOON):
        await runtime.close()

    assert [of.status for of in await rows(db)] == [ENDED] * SESSIONS
    assert await memory_of(db) == (sorted(f"tea number {number}" for number in range(SESSIONS)), SESSIONS)
    assert once_each(model)


@pytest.mark.promise("R-08", "R-12")
async def test_two_that_sweep_one_database_sum_up_each_session_of_a_user_once(shared_url: str) -> None:
    model = Summarizer(rendezvous(SESSIONS))
    async with clew.open(shared_url) as one, clew.open(shared_url) as other, asyncio.timeout(SOON):
        runtime = await runtime_with_sessions(one, model, *texts())
        await end_expired_episodes(one, idle_ms=0, now=runtime._settings.clock() + 1)
        config = RuntimeConfig(sessions=SessionConfig(concurrent_ends=SESSIONS // 2))
        settings = replace(runtime._settings, config=config)
        counts = await asyncio.gather(work(one, settings), work(other, settings))
        statuses, (_, arcs) = [of.status for of in await rows(one)], await memory_of(other)

    assert (sum(counts), statuses, arcs) == (SESSIONS, [ENDED] * SESSIONS, SESSIONS)
    assert once_each(model)


@pytest.mark.promise("R-12")
async def test_what_was_learned_just_before_the_end_commits_is_merged_with_it(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Memory.episode_writes
    plans: list[list[Write]] = []

    async def plan_and_learn(memory: Memory, arc: Arc, candidates: Iterable[Candidate]) -> list[Write]:
        plans.append(await plan(memory, arc, candidates))
        if len(plans) == 1:
            await memory.learn([Candidate(predicate="LIKES", object="old maps", plain=True)])
        return plans[-1]

    monkeypatch.setattr(Memory, "episode_writes", plan_and_learn)
    model = Summarizer(rendezvous(1))
    runtime = await runtime_with_sessions(db, model, "I like green tea")
    episode = await runtime.end_session("s0", user="alice")

    assert episode is not None
    assert (episode.status, await memory_of(db)) == (ENDED, (["green tea", "old maps"], 1))
    assert (len(plans), sum(model.calls.values())) == (2, 2)


@pytest.mark.promise("R-12")
async def test_what_a_turn_noticed_while_its_episode_was_summed_up_is_promoted(db: Database) -> None:
    async def notice() -> None:
        (of,) = await rows(db)
        (item,) = await db.thread("s0").items(first=1)
        source = MemorySource(thread="s0", place=item.place, item=item.id)
        late = Candidate(predicate="DRINKS", object="tea", quote="green tea", plain=True, source=source)
        await db.commit([episode_write(msgspec.structs.replace(of, candidates=(as_json(late),)), of.user)])

    model = Summarizer(notice)
    runtime = await runtime_with_sessions(db, model, "I like green tea")
    episode = await runtime.end_session("s0", user="alice")

    assert episode is not None
    assert (episode.status, episode.candidates, await memory_of(db)) == (ENDED, (), (["green tea", "tea"], 1))
    assert sum(model.calls.values()) == 2
