"""The part of a text where the searched words stand, marked in whatever form they stand there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.text.excerpts import Excerpt, excerpt
from clew.core.text.words import forms, stem


def marks_of(passage: Excerpt) -> list[str]:
    return [passage.text[start:end] for start, end in passage.marks]


def test_a_short_text_is_shown_whole_with_its_words_marked() -> None:
    passage = excerpt("The train\nto   Lisbon leaves at nine.", ["lisbon", "train"])

    assert passage.text == "The train to Lisbon leaves at nine."
    assert marks_of(passage) == ["train", "Lisbon"]


@pytest.mark.parametrize(
    ("text", "word", "words"),
    [
        ("We walked and walk.", "walking", ["walked", "walk"]),
        ("Café or CAFE?", "cafe", ["Café", "CAFE"]),
        ("Die Straße", "strasse", ["Straße"]),
        ("nothing of it", "train", []),
        ("", "train", []),
    ],
)
def test_words_are_marked_in_every_form(text: str, word: str, words: list[str]) -> None:
    assert marks_of(excerpt(text, [word])) == words


def test_of_a_long_text_the_part_is_shown_that_holds_most_of_the_words() -> None:
    text = f"train {'word ' * 100} the train to Lisbon {'word ' * 100}"
    passage = excerpt(text, ["train", "lisbon"], width=80)

    assert marks_of(passage) == ["train", "Lisbon"]
    assert passage.text.startswith("…")
    assert passage.text.endswith("…")
    assert len(passage.text) <= 82


def test_of_a_long_text_without_the_words_the_beginning_is_shown() -> None:
    passage = excerpt("word " * 100, ["train"], width=40)

    assert passage.text == "word word word word word word word word…"
    assert passage.marks == ()


@given(st.text(max_size=400), st.lists(st.text(min_size=1, max_size=8), max_size=3))
def test_marks_stay_within_the_text_in_order_and_apart(text: str, words: list[str]) -> None:
    passage = excerpt(text, words, width=50)
    ends = [0, *(end for _, end in passage.marks)]

    assert all(before <= start < end for before, (start, end) in zip(ends, passage.marks, strict=False))
    assert ends[-1] <= len(passage.text) <= 52


@pytest.mark.parametrize(
    "family",
    [
        ["walk", "walks", "walked", "walking"],
        ["live", "lives", "lived", "living"],
        ["stop", "stops", "stopped", "stopping"],
        ["allergy", "allergies"],
        ["city", "cities"],
        ["try", "tries", "tried", "trying"],
        ["glass", "glasses"],
        ["bus", "buses"],
        ["bee", "bees"],
        ["play", "plays", "played", "playing"],
    ],
)
def test_every_form_of_a_word_finds_every_other(family: list[str]) -> None:
    assert len({stem(word) for word in family}) == 1
    assert [word for word in family if not set(family) <= set(forms(word))] == []


@pytest.mark.parametrize("word", ["this", "is", "sing", "2019", "été", "a", "bus", "ring", "need"])
def test_what_has_no_ending_keeps_it(word: str) -> None:
    assert stem(word) == word
    assert forms(word)[0] == word


@given(st.text(alphabet="aeiousdingyt", min_size=1, max_size=9))
def test_forms_share_a_stem_and_none_is_there_twice(word: str) -> None:
    variants = forms(word)

    assert {stem(form) for form in variants} == {stem(word)}
    assert len(set(variants)) == len(variants) < 12
