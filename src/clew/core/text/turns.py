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
    scores = _WindowScores(weights, average, shape)
    return {
        number: scores.score(number, window)
        for number, window in _windows([by_number[number] for number in sorted(by_number)]).items()
    }


def _windows(turns: Sequence[CountedTurn]) -> dict[int, list[CountedTurn]]:
    """The turns of the wide window of each place that has any, in order; ``turns`` are in order too."""
    windows: dict[int, list[CountedTurn]] = {}
    for turn in turns:
        for number in range(max(turn.number - WIDE, 1), turn.number + WIDE + 1):
            windows.setdefault(number, []).append(turn)
    return windows


class _WindowScores:
    """Scores of the windows of a thread, each made once: most hold the same turns as the next window."""

    def __init__(self, weights: Mapping[str, float], average: float, shape: TurnWeights) -> None:
        self._weights = weights
        self._average = average
        self._shape = shape
        self._scores: dict[tuple[int, int, int], float] = {}

    def score(self, number: int, wide: Sequence[CountedTurn]) -> float:
        """The score of the turn with a number: by its own words, and by those of its two windows."""
        near = [turn for turn in wide if -NEAR <= turn.number - number <= NEAR]
        own = [turn for turn in near if turn.number == number]
        return (
            self._window_score(own, 0, self._shape.length)
            + self._shape.near * self._window_score(near, NEAR, self._shape.window_length)
            + self._shape.wide * self._window_score(wide, WIDE, self._shape.window_length)
        )

    def _window_score(self, window: Sequence[CountedTurn], reach: int, length_weight: float) -> float:
        if not window:
            return 0.0
        key = (reach, window[0].number, window[-1].number)
        if (score := self._scores.get(key)) is None:
            size = 2 * reach + 1
            score = self._scores[key] = _score(window, size, self._weights, self._average, length_weight)
        return score


def _score(
    window: Sequence[CountedTurn],
    size: int,
    weights: Mapping[str, float],
    average: float,
    length_weight: float,
) -> float:
    """BM25 of some turns as one text. Those of which nothing is known are taken to be of average length."""
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
