"""Which texts answer best: rare words weigh more, long texts less; and several lists as one."""

from __future__ import annotations

import pytest

from clew.core.text.rank import bm25, fuse_rankings, rarest_words, stem_counts, word_weights
from clew.core.text.words import words


def scores(texts: list[str], counts: dict[str, int], total: int) -> list[float]:
    """The score of each text for the words that are counted."""
    stems = {word: word for word in counts}
    held = [stem_counts({word: words(text).count(word) for word in words(text)}, stems) for text in texts]
    lengths = [len(words(text)) for text in texts]
    return bm25(list(zip(lengths, held, strict=True)), word_weights(counts, total))


def test_a_rare_word_weighs_more_than_two_common_ones() -> None:
    common, rare = scores(["the dog", "a fox"], {"the": 90, "dog": 80, "fox": 1}, total=100)

    assert rare > common > 0


def test_a_word_that_stands_everywhere_says_almost_nothing() -> None:
    (everywhere,) = scores(["the dog"], {"the": 100}, total=100)

    assert 0 < everywhere < 0.01


def test_saying_it_in_fewer_words_is_better_and_more_often_too() -> None:
    long, short, twice = scores(["fox " + "word " * 20, "fox", "fox fox"], {"fox": 3}, total=100)

    assert twice > short > long


def test_a_text_without_the_words_is_worth_nothing() -> None:
    assert scores(["cat", ""], {"fox": 1}, total=2) == [0.0, 0.0]
    assert scores([], {"fox": 1}, total=2) == []


@pytest.mark.parametrize(
    ("counts", "rarest"),
    [
        ({"a": 5, "b": 2, "c": 3}, ["b", "c", "a"]),
        ({"a": 9, "b": 2}, ["b"]),
        ({"a": 50, "b": 60}, ["a"]),
        ({"a": 0, "b": 3}, ["b"]),
        ({"a": 0}, []),
        ({}, []),
    ],
)
def test_the_rarest_words_find_candidates_within_the_budget(
    counts: dict[str, int], rarest: list[str]
) -> None:
    assert rarest_words(counts, 10) == rarest


def test_what_stands_in_both_lists_comes_first() -> None:
    ranks = fuse_rankings([["a", "b", "c"], ["d", "b"]])

    assert list(ranks) == ["b", "a", "d", "c"]
    assert ranks["b"] == pytest.approx(2 / 62)
