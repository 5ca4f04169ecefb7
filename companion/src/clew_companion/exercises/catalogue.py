"""The catalogue of exercises, read from its files once."""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from itertools import chain
from types import MappingProxyType
from typing import Literal

import msgspec

from clew_companion.values import Approach


class WaitsFor(msgspec.Struct, frozen=True, kw_only=True):
    """The answer a step waits for: any, so many things named, a yes, or none at all."""

    kind: Literal["answer", "count", "yes", "nothing"]
    count: int = 1


class ExerciseStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step: what is said, what is waited for, and what is said once if the answer does not fit."""

    id: str
    say: str
    waits_for: WaitsFor
    repeat: str = ""


class Exercise(msgspec.Struct, frozen=True, kw_only=True):
    """One exercise, as its file has it; ``called_in`` is what people call it in other languages."""

    id: str
    version: int
    name: str
    purpose: str
    approach: Approach
    minutes: int
    called: tuple[str, ...]
    called_in: Mapping[str, tuple[str, ...]] = {}
    offer_when: tuple[str, ...]
    do_not_offer_when: tuple[str, ...]
    steps: tuple[ExerciseStep, ...]
    closing: str


@cache
def catalogue() -> Mapping[str, Exercise]:
    """Every exercise by its id, in the order of their names."""
    files = sorted(resources.files(__package__).iterdir(), key=lambda file: file.name)
    exercises = [
        msgspec.json.decode(file.read_bytes(), type=Exercise) for file in files if file.name.endswith(".json")
    ]
    return MappingProxyType({exercise.id: exercise for exercise in exercises})


def names_of(exercise: Exercise) -> tuple[str, ...]:
    """Whatever people call an exercise, in any language."""
    return (exercise.name, *exercise.called, *chain.from_iterable(exercise.called_in.values()))
