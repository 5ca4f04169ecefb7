"""Which texts answer a query best: BM25 over a few candidates, and reciprocal ranks of several lists."""

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
    """How well each text answers a query of some words. The forms of a word count as that word.

    ``counts`` says in how many texts each word stands, ``total`` how many texts there are.
    """
    stems = {word: stem(word) for word in counts}
    weights = {root: _weight(count, max(total, count)) for root, count in by_stem(counts).items()}
    said = [words(text) for text in texts]
    usual = sum(map(len, said)) / len(said) if said else 0.0
    return [_score(found, stems, weights, usual) for found in said]


def by_stem(counts: Mapping[str, int]) -> dict[str, int]:
    """In how many texts a word stands in any of its forms; at most, since two may stand in one."""
    found: dict[str, int] = {}
    for word, count in counts.items():
        root = stem(word)
        found[root] = found.get(root, 0) + count
    return found


def _weight(count: int, total: int) -> float:
    """How much a word says: the more the rarer it is."""
    return math.log(1 + (total - count + 0.5) / (count + 0.5))


def _score(
    said: Sequence[str], stems: Mapping[str, str], weights: Mapping[str, float], usual: float
) -> float:
    length = 1 - LENGTH_WEIGHT + LENGTH_WEIGHT * len(said) / usual if usual else 1.0
    times = Counter([stems[word] for word in said if word in stems])
    return sum(
        weights[word] * count * (SATURATION + 1) / (count + SATURATION * length)
        for word, count in times.items()
    )


def chosen(counts: Mapping[str, int], budget: int) -> list[str]:
    """The words that find candidates: the rarest, as long as they find no more than the budget.

    The rarest is always among them. The others say how good a candidate is, and find none themselves.
    """
    found: list[str] = []
    spent = 0
    for word, count in sorted(counts.items(), key=lambda entry: entry[1]):
        spent += count
        if count and (spent <= budget or not found):
            found.append(word)
    return found


def fused(lists: Iterable[Sequence[Name]], k: int = RECIPROCAL) -> dict[Name, float]:
    """Several ranked lists as one: a name scores 1 / (k + rank) in each list that it stands in."""
    scores: dict[Name, float] = {}
    for ranked in lists:
        for rank, name in enumerate(ranked, start=1):
            scores[name] = scores.get(name, 0.0) + 1 / (k + rank)
    return dict(sorted(scores.items(), key=lambda entry: -entry[1]))
