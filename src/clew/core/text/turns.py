"""Ranking of turns: each by its own words, those of the turns around it, and those of its session."""

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from clew.core.text.rank import term_score

BEST_TURNS = 5
"""A session is worth what its best turns are worth, on the average of so many."""

STRETCH = 48
"""A thread that goes on for ever counts as several sessions of so many turns."""

NEAR, WIDE = 1, 2
"""How many turns before and after it the two windows of a turn hold."""


class TurnWeights(msgspec.Struct, frozen=True, kw_only=True):
    """The weights of what is added to a turn's own score, and how much its length counts against it."""

    near: float = 0.5
    wide: float = 1.0
    session: float = 0.5
    length: float = 0.3
    window_length: float = 0.75

    @property
    def alone(self) -> float:
        """The factor of a text that has no neighbours, so that it can be compared with those that have."""
        return 1 + self.near + self.wide + self.session


SHIPPED = TurnWeights()
"""The three weights put the right turn first most often in the conversations of ``bench/retrieval``."""


class CountedTurn(msgspec.Struct, frozen=True, gc=False):
    """A turn with some of the words: its number in its thread, its length, and how often it has each."""

    number: int
    length: int
    counts: Mapping[str, int]


def turn_scores(
    threads: Mapping[str, Sequence[CountedTurn]], weights: Mapping[str, float], shape: TurnWeights = SHIPPED
) -> dict[tuple[str, int], float]:
    """The score of each turn, by thread and number: also of those beside one with the words, without any.

    Scores are added, not ranks: a turn with all of the words stays before one whose neighbours have them.
    """
    lengths = [turn.length for turns in threads.values() for turn in turns]
    average = sum(lengths) / len(lengths) if lengths else 0.0
    scores: dict[tuple[str, int], float] = {}
    for thread, turns in threads.items():
        bases = _base_scores(turns, weights, average, shape)
        for session in _sessions(bases):
            best = sorted((bases[number] for number in session), reverse=True)[:BEST_TURNS]
            bonus = shape.session * sum(best) / BEST_TURNS
            scores.update({(thread, number): bases[number] + bonus for number in session})
    return scores


def _sessions(numbers: Iterable[int]) -> list[list[int]]:
    """The turns of a thread by the session that they belong to."""
    sessions: dict[int, list[int]] = {}
    for number in numbers:
        sessions.setdefault(number // STRETCH, []).append(number)
    return list(sessions.values())


def _base_scores(
    turns: Sequence[CountedTurn], weights: Mapping[str, float], average: float, shape: TurnWeights
) -> dict[int, float]:
    """The scores of the turns of a thread, and of those beside them, by what they and their windows hold."""
    by_number = {turn.number: turn for turn in turns}
    bases: dict[int, float] = {}
    for number in {turn.number + step for turn in turns for step in range(-WIDE, WIDE + 1)}:
        if number < 1:
            continue
        own = by_number.get(number)
        score = 0.0 if own is None else _score([own], 1, weights, average, shape.length)
        for reach, weight in ((NEAR, shape.near), (WIDE, shape.wide)):
            window = [by_number[n] for n in range(number - reach, number + reach + 1) if n in by_number]
            score += weight * _score(window, 2 * reach + 1, weights, average, shape.window_length)
        bases[number] = score
    return bases


def _score(
    window: Sequence[CountedTurn],
    size: int,
    weights: Mapping[str, float],
    average: float,
    length_weight: float,
) -> float:
    """BM25 of some turns as one text. Those of which nothing is known are taken to be of average length."""
    if not window:
        return 0.0
    length = sum(turn.length for turn in window) + (size - len(window)) * average
    relative_length = 1 - length_weight + length_weight * length / (size * average) if average else 1.0
    counts: Mapping[str, int] = window[0].counts if len(window) == 1 else _sum_counts(window)
    # The same to the last bit in whatever order a store names the words.
    return math.fsum(term_score(weights[word], count, relative_length) for word, count in counts.items())


def _sum_counts(window: Sequence[CountedTurn]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for turn in window:
        for word, count in turn.counts.items():
            totals[word] = totals.get(word, 0) + count
    return totals
