"""The words of the lexicon in their other senses: what they mean on ordinary days."""

import pytest

from clew_companion.crisis.lexicon import load_lexicon
from clew_companion.crisis.message import judge_alone
from clew_companion.crisis.words import tokenize
from tests.companion.labelled import HERE

SENSES = [
    line.partition(" | ")[::2]
    for line in (HERE / "crisis" / "ordinary_senses.txt").read_text("utf-8").splitlines()
]
"""Entries that were reviewed, each with a sentence in which it means something else."""


@pytest.mark.promise("A-08")
@pytest.mark.parametrize(("entry", "sentence"), SENSES)
def test_an_entry_in_its_ordinary_sense_is_left_alone(entry: str, sentence: str) -> None:
    assert judge_alone(sentence).level == 0


def test_every_reviewed_entry_is_in_its_sentence_or_was_taken_out() -> None:
    phrases = load_lexicon().languages["en"].phrases_by_word
    words = {word for entry, _ in SENSES for word in entry.split()}

    assert len(words) > 100
    assert "odd" not in phrases


@pytest.mark.parametrize(
    ("text", "words"),
    [("odd", ["odd"]), ("tabs", ["tabs"]), ("sh", ["sh"]), ("ctb", ["ctb"]), ("od", ["overdose"])],
)
def test_shorthand_stands_for_what_it_nearly_always_means(text: str, words: list[str]) -> None:
    assert tokenize(text, load_lexicon().spelling) == words
