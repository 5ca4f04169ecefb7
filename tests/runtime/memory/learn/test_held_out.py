"""The learner without a model on statements that its rules were not written for: only counts are seen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.runtime.memory.held_out_score import (
    Learn,
    precision,
    score_nothing,
    score_statements,
    score_superseding,
)
from tests.runtime.memory.learner import offline_learner


@pytest.fixture(scope="module")
def learn() -> Iterator[Learn]:
    """The learner that a person meets."""
    with offline_learner() as learner:
        yield learner


@pytest.fixture(scope="module")
def learn_without_quotes() -> Iterator[Learn]:
    """The same, but a quote does not count: what is decisive must be in the fact itself."""
    with offline_learner(with_quotes=False) as learner:
        yield learner


@pytest.mark.promise("B-11")
def test_three_of_four_plain_statements_are_learnt_and_nearly_nothing_else(learn: Learn) -> None:
    right, wrong = score_statements(learn), score_nothing(learn)

    assert right.learnt / right.total >= 0.75
    assert precision(right, wrong) >= 0.97


@pytest.mark.promise("B-11")
def test_most_facts_have_the_decisive_words_themselves(learn_without_quotes: Learn) -> None:
    counts = score_statements(learn_without_quotes)

    assert counts.learnt / counts.total >= 0.60


@pytest.mark.promise("B-11")
def test_what_a_person_says_later_supersedes_what_they_said_before(learn: Learn) -> None:
    counts = score_superseding(learn)

    assert counts.superseded / counts.total >= 0.60
