"""Noticing while the session goes on: held with the episode, decided at its end, asked for or not."""

from __future__ import annotations

from typing import Any

import pytest

from clew.core.errors import ModelFailed
from clew.database.database import Database
from clew.runtime.memory import Finalizer, Memory, notice
from clew.runtime.model.call import RetryPolicy
from clew.runtime.model.protocol import ModelRequest
from clew.runtime.records.episodes import active_episode
from clew.runtime.respond.respond import Stage, respond
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig, SessionConfig
from clew.testing.scripted_model import ScriptedModel


def notice_tea(request: ModelRequest) -> dict[str, Any]:
    """What a model makes of a message: that tea helps, if it says so."""
    text = request.messages[-1].text
    if "tea helps" not in text:
        return {}
    fact = {
        "message": 1,
        "quote": "tea helps",
        "category": "coping_strategy",
        "subject": "User",
        "predicate": "USES",
        "object": "tea",
        "confidence": 0.9,
    }
    return {"facts": [fact]}


def runtime(db: Database, *stages: Stage, replies: int = 4) -> Runtime[Any, Any]:
    return Runtime(
        db,
        stages=[respond(), *stages],
        model=ScriptedModel(*["I see."] * replies),
        finalize=Finalizer(),
        config=RuntimeConfig(
            sessions=SessionConfig(finalize_active_sessions_on_close=False),
            retry_policy=RetryPolicy(attempts=1),
        ),
    )


async def candidates(db: Database) -> list[str]:
    episode = await active_episode(db, "s1")
    assert episode is not None
    return [candidate["object"] for candidate in episode.candidates]


async def facts(db: Database) -> list[str]:
    return sorted(fact.object for fact in (await Memory(db, "alice").page()).facts)


@pytest.mark.promise("B-11")
async def test_a_model_notices_in_the_turn_and_the_end_decides(db: Database) -> None:
    stage = notice(ScriptedModel(*[notice_tea] * 3))
    async with runtime(db, stage) as running:
        await running.run_turn("s1", "tea helps", user="alice")
        between = (await candidates(db), await facts(db))
        await running.run_turn("s1", "tea helps, really", user="alice")
        await running.end_session("s1", user="alice")

    assert between == (["tea"], [])
    assert await facts(db) == ["tea"]


@pytest.mark.promise("B-11")
async def test_what_was_noticed_is_dropped_if_the_user_asks_for_it(db: Database) -> None:
    stage = notice(ScriptedModel(*[notice_tea] * 4))
    async with runtime(db, stage) as running:
        for text in ("tea helps", "My dog is called Rex", "Please don't remember that"):
            await running.run_turn("s1", text, user="alice")
        await running.end_session("s1", user="alice")

    assert await facts(db) == []


@pytest.mark.parametrize("model", [None, ScriptedModel(ModelFailed(model="m", problem="down"))])
async def test_without_a_model_plain_statements_are_held(db: Database, model: ScriptedModel | None) -> None:
    async with runtime(db, notice(model, by_model=model is not None)) as running:
        await running.run_turn("s1", "My dog is called Rex", user="alice")

        assert await candidates(db) == ["Rex"]


async def test_what_the_turn_says_is_held_with_the_place_it_stands_at(db: Database) -> None:
    async with runtime(db, notice(by_model=False)) as running:
        await running.run_turn("s1", "Hello", user="alice")
        result = await running.run_turn("s1", "My dog is called Rex", user="alice")
        episode = await active_episode(db, "s1")
    assert episode is not None
    (candidate,) = episode.candidates
    (item,) = await db.thread("s1").items(after=candidate["source"]["place"] - 1, last=None, first=1)

    assert candidate["source"]["run"] == result.run
    assert item.body["content"] == "My dog is called Rex"


async def test_each_turn_notices_its_own_message_only(db: Database) -> None:
    async with runtime(db, notice(by_model=False)) as running:
        await running.run_turn("s1", "My dog is called Rex", user="alice")
        await running.run_turn("s1", "Hello", user="alice")

        assert await candidates(db) == ["Rex"]
