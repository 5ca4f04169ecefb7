"""What a person says later ends what they said before, in one conversation and across several."""

from __future__ import annotations

import pytest

from clew.database.database import Database
from clew.runtime.memory import MemorySource, UserTurn, memory_of, remember
from clew.runtime.memory.values import Candidate, FactPattern


async def texts_after(db: Database, *conversations: list[str]) -> list[str]:
    """What is known after some conversations of one person, rules and facts, each as a sentence."""
    memory = memory_of(db, "chat", "alice")
    time = 0
    for messages in conversations:
        turns = []
        for message in messages:
            time += 1000
            turns.append(UserTurn(text=message, source=MemorySource(thread="chat", place=time, time=time)))
        await remember(memory, turns)
    facts = (await memory.page(limit=100)).facts
    rules = (await memory.profile()).rules
    return sorted(
        [f"{fact.subject} {fact.predicate_text} {fact.object}" for fact in facts]
        + [rule.text for rule in rules]
    )


@pytest.mark.promise("B-11")
@pytest.mark.parametrize("apart", [True, False], ids=["across conversations", "in one conversation"])
@pytest.mark.parametrize(
    ("before", "after", "known"),
    [
        ("I'm vegetarian.", "I eat meat again.", ["User eats meat"]),
        ("I don't eat meat.", "I eat meat again.", ["User eats meat"]),
        ("I work as a nurse.", "I quit nursing.", ["User no longer does nursing"]),
        ("Keep your answers short.", "Longer answers from now on.", ["Keep answers longer."]),
        ("Keep answers under three sentences.", "Longer answers from now on", ["Keep answers longer."]),
        (
            "I'm allergic to penicillin.",
            "I'm not allergic to penicillin any more, the doctor tested it.",
            ["User not is allergic to penicillin"],
        ),
        ("I live in Berlin.", "We've moved to Hamburg.", ["User lives in Hamburg"]),
        ("I rent a flat in Ghent.", "We've moved to Bruges.", ["User lives in Bruges"]),
        ("I take sertraline.", "They've upped my sertraline to 100 mg.", ["User takes sertraline to 100 mg"]),
        ("I play the cello.", "I gave up the cello.", ["User no longer does the cello"]),
        ("My son is six.", "My son turned seven.", ["son is aged seven"]),
        ("I have a cat called Miso.", "We had to put Miso down.", []),
        ("I'm allergic to nuts.", "I'm not allergic to nuts.", []),
    ],
)
async def test_a_change_ends_what_was_so(
    db: Database, before: str, after: str, known: list[str], *, apart: bool
) -> None:
    conversations = [[before], [after]] if apart else [[before, after]]

    assert await texts_after(db, *conversations) == known


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("I'm allergic to cats.", "We sold the cats."),
        ("I live in Leeds.", "I quit smoking."),
        ("My sister is called Ann.", "My brother no longer lives in Rome."),
        ("I play the cello.", "If I gave up the cello, my mum would cry."),
        ("I play the cello.", "My teacher said I gave up the cello too early."),
        ("I work as a nurse.", "Should I quit nursing?"),
    ],
)
async def test_what_has_nothing_to_do_with_a_change_stays(db: Database, before: str, after: str) -> None:
    (known,) = await texts_after(db, [before])

    assert known in await texts_after(db, [after])


async def test_a_denial_of_what_is_not_known_teaches_nothing(db: Database) -> None:
    assert await texts_after(db, ["I'm not allergic to nuts.", "I don't live in Oslo."]) == []


async def test_a_fact_that_ended_stays_as_past(db: Database) -> None:
    await texts_after(db, ["I work as a nurse.", "I quit nursing."])
    facts = (await memory_of(db, "chat", "alice").page(past=True)).facts

    assert [(fact.object, fact.end) for fact in facts if fact.ended] == [("nurse", "ended")]


async def test_a_pattern_of_words_spares_what_has_only_some_of_them(db: Database) -> None:
    memory = memory_of(db, "chat", "alice")
    source = MemorySource(thread="chat", time=1)
    likes = [
        Candidate(predicate="LIKES", object=name, quote=name, source=source) for name in ("red wine", "tea")
    ]
    ends = Candidate(
        predicate="NO_LONGER_DOES",
        object="red meat",
        quote="red meat",
        source=MemorySource(thread="chat", time=2),
        supersedes=(FactPattern(subject="", words="red meat"),),
    )
    await memory.learn([*likes, ends])

    assert {fact.object for fact in (await memory.page()).facts} == {"red wine", "tea", "red meat"}
