"""Ranking of texts by a query: BM25 over a few candidates, and reciprocal ranks of several lists."""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from clew.core.text.words import stem, words

Name = TypeVar("Name", bound=Hashable)

SATURATION = 1.2
LENGTH_WEIGHT = 0.75
RECIPROCAL = 60


def bm25(texts: Sequence[str], counts: Mapping[str, int], total: int) -> list[float]:
    """The score of each text for a query of some words. The forms of a word count as that word.

    ``counts`` is the number of texts with each word, ``total`` that of all texts.
    """
    stems = {word: stem(word) for word in counts}
    weights = {root: _word_weight(count, max(total, count)) for root, count in counts_by_stem(counts).items()}
    word_lists = [words(text) for text in texts]
    average_length = sum(map(len, word_lists)) / len(word_lists) if word_lists else 0.0
    return [_score(word_list, stems, weights, average_length) for word_list in word_lists]


def counts_by_stem(counts: Mapping[str, int]) -> dict[str, int]:
    """The number of texts with a word in any of its forms; at most, since one text may have two."""
    totals: dict[str, int] = {}
    for word, count in counts.items():
        root = stem(word)
        totals[root] = totals.get(root, 0) + count
    return totals


def _word_weight(count: int, total: int) -> float:
    """The weight of a word: the rarer, the more."""
    return math.log(1 + (total - count + 0.5) / (count + 0.5))


def _score(
    word_list: Sequence[str], stems: Mapping[str, str], weights: Mapping[str, float], average_length: float
) -> float:
    length = 1 - LENGTH_WEIGHT + LENGTH_WEIGHT * len(word_list) / average_length if average_length else 1.0
    times = Counter([stems[word] for word in word_list if word in stems])
    return sum(
        weights[word] * count * (SATURATION + 1) / (count + SATURATION * length)
        for word, count in times.items()
    )


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
