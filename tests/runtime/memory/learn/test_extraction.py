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
    UserTurn(text="Walks do help when it  gets bad", source=MemorySource(thread="chat", item="m2")),
]
HELPS = {
    "message": 2,
    "quote": "Walks do help",
    "category": "coping_strategy",
    "subject": "User",
    "predicate": "uses",
    "object": "walking",
    "confidence": 0.9,
}


async def by_model(answer: Any) -> Extraction:
    model = ScriptedModel(answer)

    async def ask_model(request: ModelRequest, kind: type[ModelFindings]) -> ModelFindings:
        return (await fill(model, request, kind, RetryPolicy(attempts=1)))[0]

    return await extract_candidates(TURNS, ask_model)


def objects(extraction: Extraction) -> list[str]:
    return [candidate.object for candidate in extraction.candidates]


async def test_a_models_candidates_come_with_the_turn_they_stand_in() -> None:
    extraction = await by_model(lambda _: {"facts": [HELPS]})
    candidate = extraction.candidates[-1]

    assert (extraction.by, objects(extraction)) == ("model", ["Ann", "walking"])
    assert (candidate.source, candidate.predicate, candidate.how) == (TURNS[1].source, "USES", "model")


async def test_a_quote_that_does_not_stand_there_is_dropped_and_counted() -> None:
    wrong = [{**HELPS, "quote": "walking always cures me"}, {**HELPS, "message": 1}, {**HELPS, "message": 9}]
    extraction = await by_model(lambda _: {"facts": wrong})

    assert (objects(extraction), extraction.rejected_count) == (["Ann"], 3)


async def test_how_a_quote_is_spaced_does_not_matter() -> None:
    extraction = await by_model(lambda _: {"facts": [{**HELPS, "quote": "when it gets bad"}]})

    assert objects(extraction) == ["Ann", "walking"]


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
    extraction = await by_model(lambda _: {"facts": [lives]})

    assert extraction.candidates[-1].single


async def test_a_rule_of_a_model_is_a_candidate_too() -> None:
    rule = {"message": 2, "quote": "Walks do help", "about": "walks", "rule": "Suggest a walk."}
    extraction = await by_model(lambda _: {"rules": [rule]})

    assert [(entry.kind, entry.object) for entry in extraction.candidates[1:]] == [
        ("rule", "Suggest a walk.")
    ]


async def test_of_a_model_that_goes_on_and_on_no_more_is_taken_than_can_be_weighed() -> None:
    extraction = await by_model(lambda _: {"facts": [{**HELPS, "object": f"walk {n}"} for n in range(5000)]})

    assert objects(extraction) == ["Ann", *(f"walk {n}" for n in range(MOST_FINDINGS))]


async def test_when_the_model_fails_plain_statements_are_what_is_left() -> None:
    extraction = await by_model(ModelFailed(model="m", problem="it is down"))

    assert (extraction.by, objects(extraction)) == ("statements", ["Ann"])
    assert "it is down" in (extraction.problem or "")


async def test_without_a_model_plain_statements_are_found() -> None:
    extraction = await extract_candidates(TURNS)

    assert (extraction.by, objects(extraction), extraction.candidates[0].source) == (
        "statements",
        ["Ann"],
        TURNS[0].source,
    )


async def test_only_what_the_user_said_is_read_whatever_the_format() -> None:
    guest = Item(body={"role": "user", "content": "I live in Oslo"}, format="openai.responses", id="g")
    turns = user_turns([user("I'm vegan", id="a"), assistant("I live in a box"), guest], "chat")

    assert [(turn.text, turn.source.item) for turn in turns] == [("I'm vegan", "a"), ("I live in Oslo", "g")]
