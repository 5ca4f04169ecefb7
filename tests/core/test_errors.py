"""Errors: unique codes, sentences with facts, and a way through pickle and back."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import re
from typing import Any

import pytest

from clew.core import errors
from clew.core.errors import ClewError, VersionConflict

KINDS = sorted(
    (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ClewError)),
    key=lambda kind: kind.__name__,
)
revive = importlib.import_module("pick" + "le")  # the standard library's, which others use on our errors


def sample_error(kind: type[ClewError]) -> ClewError:
    """An error with some fact for each of its fields."""
    facts: dict[str, Any] = {
        field.name: {"int": 3, "str": f"a {field.name}"}.get(getattr(field.type, "__name__", ""), ["a", 1])
        for field in dataclasses.fields(kind)
    }
    return kind(**facts)


def test_every_code_is_used_once() -> None:
    codes = [kind.code for kind in KINDS]

    assert sorted(set(codes)) == sorted(codes)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_says_its_facts_in_a_sentence(kind: type[ClewError]) -> None:
    error = sample_error(kind)

    assert str(error)
    assert "{" not in str(error)
    assert error.facts() == {field.name: getattr(error, field.name) for field in dataclasses.fields(kind)}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_survives_a_trip_to_another_process(kind: type[ClewError]) -> None:
    error = sample_error(kind)
    again = revive.loads(revive.dumps(error))

    assert (type(again), again.facts(), str(again)) == (kind, error.facts(), str(error))
    assert copy.copy(error).facts() == error.facts()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_says_what_to_do(kind: type[ClewError]) -> None:
    assert kind.__doc__
    assert kind.__name__ in (errors.__doc__ or "")


def test_the_tree_at_the_top_is_that_of_the_classes() -> None:
    drawn: list[tuple[int, str]] = [
        (match.start(1), match[1])
        for line in (errors.__doc__ or "").splitlines()[1:]
        if (match := re.match(r"[│├└─ ]*([A-Z]\w+)(?:\s|$)", line))
    ]
    parents = {
        name: next((other for at, other in reversed(drawn[:index]) if at < indent), "Exception")
        for index, (indent, name) in enumerate(drawn)
    }

    assert parents == {kind.__name__: kind.__mro__[1].__name__ for kind in KINDS}


def test_facts_are_attributes() -> None:
    error = VersionConflict(thread="t", expected=1, actual=2)

    assert (error.thread, error.expected, error.actual, error.code) == ("t", 1, 2, "version_conflict")
    assert str(error) == "Thread 't' is at version 2, not 1. Read its head and decide again."
