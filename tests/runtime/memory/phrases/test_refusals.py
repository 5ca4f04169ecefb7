"""What "don't remember that" refers to: the sentence, the turn before, what is named; and never more."""

from __future__ import annotations

import pytest

from clew.runtime.memory.learn.promotion import candidates_to_keep, promotion_decisions
from clew.runtime.memory.phrases.refusals import refusals_in, without_refusals
from clew.runtime.memory.phrases.statements import statements_in

TEA, TOM = "I like tea", "My ex-boyfriend is called Tom"
"""What is said before a wish."""


def facts_from(*turns: str) -> list[str]:
    """What is kept of what was stated in some turns."""
    candidates = [
        candidate for number, turn in enumerate(turns) for candidate in statements_in(turn, turn=number)
    ]
    return [candidate.object for candidate in candidates_to_keep(promotion_decisions(candidates, turns))]


def test_without_a_wish_both_are_kept() -> None:
    assert facts_from(TEA, TOM, "Hello") == ["tea", "Tom"]


@pytest.mark.promise("B-11")
@pytest.mark.parametrize(
    "wish",
    [
        "please don't remember that",
        "Do not store that please",
        "Don't save this.",
        "can you forget that?",
        "could you please not remember this",
        "I'd rather you didn't remember that",
        "I don't want you to remember that.",
        "I don't want that remembered",
        "don't write that down",
        "forget what I just said",
        "forget I said that",
        "Forget I told you about Tom",
        "please forget about Tom",
        "don't note anything about Tom, please",
        "you don't need to remember that",
        "no need to keep that",
        "let's pretend I didn't say that",
        "keep that between us",
        "That was private.",
        "this is off the record",
        "ignore what I said",
        "Actually, delete that",
        "Bitte merk dir das nicht",
        "Vergiss das bitte",
        "ne retiens pas ça",
        "Oublie ce que j'ai dit",
        "no guardes eso",
        "olvida lo que dije",
    ],
)
def test_a_wish_alone_drops_what_was_just_said_and_nothing_else(wish: str) -> None:
    assert facts_from(TEA, TOM, wish) == ["tea"]


@pytest.mark.promise("B-11")
@pytest.mark.parametrize(
    "text",
    [
        "I don't remember that",
        "Do you remember that?",
        "Don't forget that!",
        "I'll never forget that",
        "I want to forget about Tom",
        "She told me to forget that",
        "it's hard to forget that",
        "Why don't you remember that?",
        "You don't remember that, do you",
        "Please don't forget my birthday",
        "keep it short",
        "Keep going",
        "please don't leave me",
        "I always forget my keys",
        "Don't keep me waiting",
        "delete the last line of my poem",
        "never mind",
    ],
)
def test_what_only_sounds_like_it_drops_nothing(text: str) -> None:
    assert facts_from(TEA, TOM, text)[:2] == ["tea", "Tom"]


@pytest.mark.promise("B-11")
@pytest.mark.parametrize(
    ("turn", "objects"),
    [
        (
            "I live in Oslo. My ex-boyfriend is called Tom, but don't remember that. I'm vegan.",
            ["Oslo", "vegan"],
        ),
        ("My ex-boyfriend is called Tom. Please don't remember that. I live in Oslo.", ["Oslo"]),
        ("My ex-boyfriend is called Tom. Don't remember that. I live in Oslo.", ["Oslo"]),
        ("I live in Oslo. Forget that.", []),
        ("Please don't save this: my ex-boyfriend is called Tom.", []),
        ("Please don't save this. My ex-boyfriend is called Tom.", []),
        ("This stays off the record. My ex-boyfriend is called Tom.", []),
    ],
)
def test_within_a_turn_it_refers_to_its_sentence_or_to_what_stands_before(
    turn: str, objects: list[str]
) -> None:
    assert sorted(facts_from(TEA, turn)) == sorted(["tea", *objects])


@pytest.mark.promise("B-11")
def test_what_follows_a_wish_about_the_turn_before_is_kept() -> None:
    assert facts_from(TEA, TOM, "Don't remember that. By the way, I live in Oslo.") == ["tea", "Oslo"]


@pytest.mark.promise("B-11")
def test_what_is_named_is_dropped_wherever_it_was_said_before() -> None:
    assert facts_from(TOM, TEA, "I live in Oslo", "Please don't remember Tom") == ["tea", "Oslo"]


def test_forget_everything_is_about_what_was_said_and_a_session_about_all_of_it() -> None:
    so_far = facts_from(TEA, "forget everything I said", TOM)
    session = facts_from(TEA, "please don't remember anything I say today", TOM)

    assert (so_far, session) == (["Tom"], [])


def test_a_wish_names_its_turn() -> None:
    assert [
        refusal.wish_turn for refusal in refusals_in([TEA, "don't remember that", TOM, "forget that"])
    ] == [1, 3]


def test_what_is_said_of_a_name_after_the_wish_is_kept() -> None:
    assert facts_from(TOM, "Please don't remember Tom", "My brother is called Tom") == ["Tom"]


@pytest.mark.promise("B-11")
def test_what_is_left_of_a_conversation_has_nothing_of_what_was_refused() -> None:
    turns = [TEA, f"I live in Oslo. {TOM}, but don't remember that.", TOM, "forget that. I'm vegan."]

    assert without_refusals(turns) == [TEA, "I live in Oslo.", "", "I'm vegan."]
