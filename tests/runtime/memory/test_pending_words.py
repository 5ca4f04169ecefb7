"""The word that a pending action waits for: a clear yes and nothing else; a number of what was shown."""

from __future__ import annotations

import pytest

from clew.runtime.memory.memory import is_yes, numbers_in_reply

CLEAR = [
    "yes",
    "Yes, please.",
    "yep",
    "Sure",
    "ok",
    "Okay, do it",
    "go ahead",
    "Please do!",
    "delete it",
    "yes, forget it",
    "Yes, delete all of them".replace(" of", ""),
    "absolutely",
    "ja bitte",
    "Sí",
    "oui",
]
UNCLEAR = [
    "no",
    "nope",
    "forget it",
    "ok, forget it",
    "not sure",
    "yes and no",
    "yes but later",
    "sure, what's the weather?",
    "maybe",
    "don't delete it",
    "why?",
    "do you think so",
    "I said yes to the job",
    "",
    "…",
]


@pytest.mark.promise("A-06")
@pytest.mark.parametrize("reply", CLEAR)
def test_a_clear_yes_is_one(reply: str) -> None:
    assert is_yes(reply)


@pytest.mark.promise("A-06")
@pytest.mark.parametrize("reply", UNCLEAR)
def test_anything_else_is_none(reply: str) -> None:
    assert not is_yes(reply)


@pytest.mark.promise("A-06")
@pytest.mark.parametrize(
    ("reply", "numbers"), [("2", [2]), ("number 1", [1]), ("1 and 3", [1, 3]), ("4", []), ("2 of them", [])]
)
def test_numbers_choose_among_what_was_shown(reply: str, numbers: list[int]) -> None:
    assert numbers_in_reply(reply, 3) == numbers
