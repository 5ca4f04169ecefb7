"""Statements that always count: read from ``statements.toml``, found in the clauses of a message."""

import functools
import importlib.resources
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clew.companion.crisis.reading import QUOTED, Reading


@dataclass(frozen=True, slots=True)
class Statement:
    """What must stand in one clause, and must not, for a message to say it."""

    name: str
    kind: str
    level: int
    all: frozenset[str]
    some: Sequence[frozenset[str]]
    never: frozenset[str]

    def is_in(self, clause: frozenset[str]) -> bool:
        """Whether a clause says it."""
        return (
            self.all <= clause
            and self.never.isdisjoint(clause)
            and all(not one.isdisjoint(clause) for one in self.some)
        )


@functools.cache
def statements() -> Sequence[Statement]:
    """The statements that come with the companion."""
    file = importlib.resources.files("clew.companion.crisis").joinpath("statements.toml")
    read = tomllib.loads(file.read_text("utf-8"))
    return tuple(_statement(one, read) for one in read["statement"])


def _statement(one: Mapping[str, Any], read: Mapping[str, Any]) -> Statement:
    without = [
        name for given in one["without"] for name in (read["others"] if given == "others" else [given])
    ]
    return Statement(
        name=one["name"],
        kind=one["kind"],
        level=one["level"],
        all=frozenset(one.get("all", ())),
        some=tuple(frozenset(names) for names in one.get("some", ())),
        never=frozenset([*read["never"], *without]) - frozenset(one.get("despite", ())),
    )


def stated(now: Reading) -> list[Statement]:
    """What a message states, the gravest first. What is quoted, or frightens the person, is no statement."""
    quoted = now.has(QUOTED) and now.has("says", "fiction", "work", "newsy", "past")
    if quoted or now.has("unwanted", "-unwanted"):
        return []
    found = [one for one in statements() if any(one.is_in(clause) for clause in now.clauses)]
    return sorted(found, key=lambda one: -one.level)
