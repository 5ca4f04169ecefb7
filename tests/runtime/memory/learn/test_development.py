"""The learner without a model on the sentences that its rules were developed on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.memory.held_out_score import ExpectedFact, Learn, is_told
from tests.runtime.memory.learner import offline_learner

FOLDER = Path(__file__).parents[1] / "development"


@pytest.fixture(scope="module")
def learn() -> Iterator[Learn]:
    """The learner that a person meets."""
    with offline_learner() as learner:
        yield learner


def rows(name: str) -> list[list[str]]:
    """The rows of a file, each by its columns."""
    return [line.split("\t") for line in (FOLDER / name).read_text("utf-8").splitlines()]


def test_of_what_is_stated_nine_of_ten_are_learnt(learn: Learn) -> None:
    entries = rows("statements.tsv")
    misses = [
        text
        for _, text, words in entries
        if not any(is_told(ExpectedFact(contains=tuple(words.split(", "))), known) for known in learn([text]))
    ]

    assert len(entries) >= 200
    assert len(misses) / len(entries) <= 0.1, misses


def test_of_what_states_nothing_nearly_nothing_is_learnt(learn: Learn) -> None:
    entries = rows("nothing.tsv")
    false = [text for _, text in entries if learn([text])]

    assert len(false) / len(entries) <= 0.01, false
