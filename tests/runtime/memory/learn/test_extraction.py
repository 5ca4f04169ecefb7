"""Candidates by a model: only with words that were really said; and by plain statements when it fails."""

from __future__ import annotations

from typing import Any

import pytest

from clew.core.errors import ModelFailed
from clew.core.items import assistant, user
from clew.core.values import Item
from clew.database.database import Database
from clew.runtime.memory import memory_of, remember
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


async def test_the_prompt_asks_for_typed_facts_with_their_sentence() -> None:
    model = ScriptedModel(lambda _: {"facts": []})

    async def ask_model(request: ModelRequest, kind: type[ModelFindings]) -> ModelFindings:
        return (await fill(model, request, kind, RetryPolicy(attempts=1)))[0]

    await extract_candidates(TURNS, ask_model)
    (request,) = model.requests

    kinds = ("partner", "child", "pet", "home", "work", "medication", "health", "diet", "schedule", "belief")
    assert all(kind in (request.instructions or "") for kind in kinds)
    assert "quote: the sentence it stands in, copied word for word" in (request.instructions or "")
    assert "[2] Walks do help" in request.messages[0].text


async def test_the_kind_of_a_fact_gives_its_category_if_the_model_gives_none() -> None:
    takes = {**HELPS, "category": "", "kind": "medication", "predicate": "TAKES", "object": "iron"}
    extraction = await by_model(lambda _: {"facts": [takes]})

    assert extraction.candidates[-1].category == "health"


async def test_a_model_may_tell_that_something_ended() -> None:
    extraction = await by_model(lambda _: {"facts": [{**HELPS, "ends": True, "negated": True}]})

    assert [(entry.ends, entry.negated) for entry in extraction.candidates[1:]] == [(True, False)]


@pytest.mark.promise("B-11")
async def test_every_stored_quote_is_found_in_its_turn_and_others_are_refused_and_counted(
    db: Database,
) -> None:
    thread = await db.create("s1", owner="alice")
    await thread.append(items=[user("The evenings are hard,  mostly. My sister is called Ann.")])
    await thread.append(items=[user("Evenings, long and hard.")])
    said = {"message": 1, "quote": "The evenings are hard, mostly.", "subject": "User", "confidence": 0.9}
    facts = [
        {**said, "predicate": "FINDS_HARD", "object": "evenings"},
        {**said, "predicate": "FINDS_HARD", "object": "evening", "quote": "I hate evenings"},
        {**said, "predicate": "NEEDS", "object": "walks", "quote": "Evenings, long and hard."},
        {**said, "predicate": "NEEDS", "object": "long walks", "message": 2, "quote": "LONG AND HARD"},
        {**said, "predicate": "NEEDS", "object": "rest", "message": 7},
        {**said, "predicate": "NEEDS", "object": "quiet", "quote": ""},
    ]
    model = ScriptedModel(lambda _: {"facts": facts})

    async def ask_model(request: ModelRequest, kind: type[ModelFindings]) -> ModelFindings:
        return (await fill(model, request, kind, RetryPolicy(attempts=1)))[0]

    memory = memory_of(db, "s1", "alice")
    turns = user_turns(await thread.items(), "s1")
    result = await remember(memory, turns, fill=ask_model)
    texts = {turn.source.place: " ".join(turn.text.split()) for turn in turns}
    stored = (await memory.page()).facts

    assert result.rejected_count == 5
    assert {fact.object for fact in stored} == {"Ann", "evenings"}
    assert all(fact.source and " ".join(fact.quote.split()) in texts[fact.source.place] for fact in stored)
