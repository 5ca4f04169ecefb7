"""A turn is ranked by its words, by those of its neighbours and by those of its session."""

from __future__ import annotations

import pytest

from clew.core.text.turns import STRETCH, CountedTurn, TurnWeights, turn_scores

WEIGHTS = {"boat": 2.0, "storm": 1.0}


def turn(number: int, **counts: int) -> CountedTurn:
    return CountedTurn(number, 10, counts)


@pytest.mark.promise("B-15")
def test_the_turn_with_the_words_comes_before_those_beside_it() -> None:
    scores = turn_scores({"a": [turn(5, boat=1)]}, WEIGHTS)

    assert max(scores, key=lambda key: scores[key]) == ("a", 5)
    assert sorted(scores) == [("a", number) for number in (3, 4, 5, 6, 7)]
    assert scores["a", 4] > scores["a", 3] > 0


@pytest.mark.promise("B-15")
def test_a_turn_gains_by_a_neighbour_with_the_other_word() -> None:
    scores = turn_scores({"a": [turn(5, boat=1), turn(6, storm=1)], "b": [turn(5, boat=1)]}, WEIGHTS)

    assert scores["a", 5] > scores["b", 5]


@pytest.mark.promise("B-15")
def test_all_words_in_one_turn_are_better_than_in_two() -> None:
    scores = turn_scores({"a": [turn(5, boat=1), turn(6, storm=1)], "b": [turn(5, boat=1, storm=1)]}, WEIGHTS)

    assert scores["b", 5] > max(scores["a", 5], scores["a", 6])


@pytest.mark.promise("B-15")
def test_a_turn_gains_by_a_session_that_speaks_of_it_more_often() -> None:
    sessions = {"a": [turn(5, boat=1), turn(20, boat=1), turn(30, boat=1)], "b": [turn(5, boat=1)]}
    scores = turn_scores(sessions, WEIGHTS)

    assert scores["a", 5] > scores["b", 5]


def test_a_very_long_thread_is_several_sessions() -> None:
    near = turn_scores({"a": [turn(5, boat=1), turn(20, boat=1)]}, WEIGHTS)
    far = turn_scores({"a": [turn(5, boat=1), turn(STRETCH + 5, boat=1)]}, WEIGHTS)

    assert near["a", 5] > far["a", 5]


def test_before_the_first_turn_there_is_none() -> None:
    assert min(number for _, number in turn_scores({"a": [turn(1, boat=1)]}, WEIGHTS)) == 1


def test_without_weights_a_turn_is_worth_its_own_words() -> None:
    shape = TurnWeights(near=0.0, wide=0.0, session=0.0)
    scores = turn_scores({"a": [turn(5, boat=1), turn(6, storm=1)]}, WEIGHTS, shape)

    assert (scores["a", 5], scores["a", 6], scores["a", 7]) == (2.0, 1.0, 0.0)


def test_of_no_turns_there_are_no_scores() -> None:
    assert turn_scores({}, WEIGHTS) == {}
