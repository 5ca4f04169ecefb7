"""Ranking of texts by a query: BM25 over a few candidates, and reciprocal ranks of several lists."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from clew.core.text.words import stem

Name = TypeVar("Name", bound=Hashable)

SATURATION = 1.2
LENGTH_WEIGHT = 0.75
RECIPROCAL = 60


def word_weights(counts: Mapping[str, int], total: int) -> dict[str, float]:
    """The weight of each word among so many texts, by its stem: the rarer, the more.

    ``counts`` is the number of texts with each word.
    """
    return {
        root: math.log(1 + (max(total, count) - count + 0.5) / (count + 0.5))
        for root, count in counts_by_stem(counts).items()
    }


def stem_counts(counts: Mapping[str, int], stems: Mapping[str, str]) -> dict[str, int]:
    """The number of times that a text holds each word in any of its forms, by the stem."""
    totals: dict[str, int] = {}
    for word, count in counts.items():
        if (root := stems.get(word)) is not None:
            totals[root] = totals.get(root, 0) + count
    return totals


def bm25(texts: Sequence[tuple[int, Mapping[str, int]]], weights: Mapping[str, float]) -> list[float]:
    """The score of each text, given as its length and how often it holds each of the words."""
    average_length = sum(length for length, _ in texts) / len(texts) if texts else 0.0
    return [_score(length, counts, weights, average_length) for length, counts in texts]


def term_score(weight: float, count: int, relative_length: float) -> float:
    """The score of a text for one of its words; its length is 1 if it is as long as most."""
    return weight * count * (SATURATION + 1) / (count + SATURATION * relative_length)


def counts_by_stem(counts: Mapping[str, int]) -> dict[str, int]:
    """The number of texts with a word in any of its forms; at most, since one text may have two."""
    totals: dict[str, int] = {}
    for word, count in counts.items():
        root = stem(word)
        totals[root] = totals.get(root, 0) + count
    return totals


def _score(
    length: int, counts: Mapping[str, int], weights: Mapping[str, float], average_length: float
) -> float:
    relative_length = 1 - LENGTH_WEIGHT + LENGTH_WEIGHT * length / average_length if average_length else 1.0
    # The same to the last bit in whatever order a store names the words.
    return math.fsum(term_score(weights[word], count, relative_length) for word, count in counts.items())


def rarest_words(counts: Mapping[str, int], budget: int) -> list[str]:
    """The words that find candidates: the rarest, as long as they find no more than the budget.

    The rarest is always among them. The others say how good a candidate is, and find none themselves.
    """
    rarest: list[str] = []
    total = 0
    for word, count in sorted(counts.items(), key=lambda entry: entry[1]):
        total += count
        if count and (total <= budget or not rarest):
            rarest.append(word)
    return rarest


def fuse_rankings(rankings: Iterable[Sequence[Name]], k: int = RECIPROCAL) -> dict[Name, float]:
    """Several ranked lists as one: a name scores 1 / (k + rank) in each list that has it."""
    scores: dict[Name, float] = {}
    for ranking in rankings:
        for rank, name in enumerate(ranking, start=1):
            scores[name] = scores.get(name, 0.0) + 1 / (k + rank)
    return dict(sorted(scores.items(), key=lambda entry: -entry[1]))
