"""Candidates by a model: only with words that were really said; and by plain statements when it fails."""

from __future__ import annotations

from typing import Any

from clew.core.errors import ModelFailed
from clew.core.items import assistant, user
from clew.core.values import Item
from clew.runtime.memory.learn.extraction import (
    MOST_FINDINGS,
    Extraction,
    ModelFindings,
    UserTurn,
    extract_candidates,
    user_turns,
)
from clew.runtime.memory.values import MemorySource
from clew.runtime.model.call import RetryPolicy, fill
from clew.runtime.model.protocol import ModelRequest
from clew.testing.scripted_model import ScriptedModel

TURNS = [
    UserTurn(text="My sister is called Ann.", source=MemorySource(thread="chat", item="m1")),
    UserTurn(text="Walking helps me when it  gets bad", source=MemorySource(thread="chat", item="m2")),
]
HELPS = {
    "message": 2,
    "quote": "Walking helps me",
    "category": "coping_strategy",
    "subject": "User",
    "predicate": "uses",
    "object": "walking",
    "confidence": 0.9,
}


async def by_model(answer: Any) -> Extraction:
    model = ScriptedModel(answer)

    async def asked(request: ModelRequest, kind: type[ModelFindings]) -> ModelFindings:
        return (await fill(model, request, kind, RetryPolicy(attempts=1)))[0]

    return await extract_candidates(TURNS, asked)


def objects(found: Extraction) -> list[str]:
    return [candidate.object for candidate in found.candidates]


async def test_a_models_candidates_come_with_the_turn_they_stand_in() -> None:
    found = await by_model(lambda _: {"facts": [HELPS]})
    noticed = found.candidates[-1]

    assert (found.by, objects(found)) == ("model", ["Ann", "walking"])
    assert (noticed.source, noticed.predicate, noticed.how) == (TURNS[1].source, "USES", "model")


async def test_a_quote_that_does_not_stand_there_is_dropped_and_counted() -> None:
    wrong = [{**HELPS, "quote": "walking always cures me"}, {**HELPS, "message": 1}, {**HELPS, "message": 9}]
    found = await by_model(lambda _: {"facts": wrong})

    assert (objects(found), found.rejected_count) == (["Ann"], 3)


async def test_how_a_quote_is_spaced_does_not_matter() -> None:
    found = await by_model(lambda _: {"facts": [{**HELPS, "quote": "when it gets bad"}]})

    assert objects(found) == ["Ann", "walking"]


async def test_what_was_stated_plainly_is_not_taken_twice() -> None:
    again = {
        **HELPS,
        "message": 1,
        "quote": "My sister is called Ann",
        "subject": "Sister",
        "predicate": "IS_CALLED",
        "object": "Ann",
        "only_one": True,
    }

    assert objects(await by_model(lambda _: {"facts": [again]})) == ["Ann"]


async def test_where_somebody_lives_is_one_place_whatever_the_model_says() -> None:
    lives = {**HELPS, "predicate": "lives in", "object": "Oslo", "only_one": False}
    found = await by_model(lambda _: {"facts": [lives]})

    assert found.candidates[-1].single


async def test_a_rule_of_a_model_is_a_candidate_too() -> None:
    rule = {"message": 2, "quote": "Walking helps me", "about": "walks", "rule": "Suggest a walk."}
    found = await by_model(lambda _: {"rules": [rule]})

    assert [(entry.kind, entry.object) for entry in found.candidates[1:]] == [("rule", "Suggest a walk.")]


async def test_of_a_model_that_goes_on_and_on_no_more_is_taken_than_can_be_weighed() -> None:
    found = await by_model(lambda _: {"facts": [{**HELPS, "object": f"walk {n}"} for n in range(5000)]})

    assert objects(found) == ["Ann", *(f"walk {n}" for n in range(MOST_FINDINGS))]


async def test_when_the_model_fails_plain_statements_are_what_is_left() -> None:
    found = await by_model(ModelFailed(model="m", problem="it is down"))

    assert (found.by, objects(found)) == ("statements", ["Ann"])
    assert "it is down" in (found.problem or "")


async def test_without_a_model_plain_statements_are_found() -> None:
    found = await extract_candidates(TURNS)

    assert (found.by, objects(found), found.candidates[0].source) == ("statements", ["Ann"], TURNS[0].source)


async def test_only_what_the_user_said_is_read_whatever_the_format() -> None:
    guest = Item(body={"role": "user", "content": "I live in Oslo"}, format="openai.responses", id="g")
    turns = user_turns([user("I'm vegan", id="a"), assistant("I live in a box"), guest], "chat")

    assert [(said.text, said.source.item) for said in turns] == [("I'm vegan", "a"), ("I live in Oslo", "g")]
