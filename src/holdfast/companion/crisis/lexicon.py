"""The words of danger and of harmless talk, by language: read once from ``lexicon/*.toml``."""

import functools
import importlib.resources
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.companion.crisis.patterns import Index, Pattern, pattern, vocabulary
from holdfast.companion.crisis.words import Spelling, simple, spelling


@dataclass(frozen=True, slots=True)
class Sign:
    """What a pattern is a sign of. ``shows`` is one of the kinds of sign that ``signs.toml`` explains."""

    name: str
    shows: str
    weight: float
    language: str


@dataclass(frozen=True, slots=True)
class Language:
    """Words by which a language is recognised, and those that say who is spoken of and what is denied."""

    code: str
    common: frozenset[str]
    nots: frozenset[str]
    nots_after: frozenset[str]
    keeps: frozenset[str]
    ends: frozenset[str]
    self: frozenset[str]
    others: frozenset[str]


@dataclass(frozen=True, slots=True)
class Lexicon:
    """All of it, ready to be looked up."""

    signs: Sequence[Sign]
    index: Index
    languages: dict[str, Language]
    spelling: Spelling


@functools.cache
def lexicon() -> Lexicon:
    """The lexicon that comes with the companion."""
    folder = importlib.resources.files("holdfast.companion.crisis").joinpath("lexicon")
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    read = [tomllib.loads(file.read_text("utf-8")) for file in files if file.name.endswith(".toml")]
    weights: dict[str, float] = next(one["weights"] for one in read if "weights" in one)
    languages = [one for one in read if "language" in one]
    entries = [entry for one in languages for entry in _entries(one, weights)]
    patterns = [compiled for _, compiled in entries]
    means = {word: plain for one in languages for word, plain in one.get("means", {}).items()}
    keys = {simple(word) for one in languages for word in one.get("keys", "").split()}
    right = {simple(word) for one in languages for word in one.get("right", "").split()}
    common = {word for one in languages for word in _set(one["common"])}
    known = vocabulary(patterns) | keys | right | common
    return Lexicon(
        signs=[sign for sign, _ in entries],
        index=Index(patterns),
        languages={one["language"]: _language(one) for one in languages},
        spelling=spelling(means, keys, known),
    )


def _entries(read: dict[str, Any], weights: dict[str, float]) -> Iterator[tuple[Sign, Pattern]]:
    lists = {name: words.split("|") for name, words in read.get("lists", {}).items()}
    for given in read["sign"]:
        shows = given["shows"]
        sign = Sign(given["name"], shows, given.get("weight", weights[shows]), read["language"])
        for source in given["patterns"]:
            yield sign, pattern(source, lists)


def _language(read: dict[str, Any]) -> Language:
    return Language(
        code=read["language"],
        common=_set(read["common"]),
        nots=_set(read["nots"]),
        nots_after=_set(read.get("nots_after", "")),
        keeps=_set(read.get("keeps", "")),
        ends=_set(read["ends"]),
        self=_set(read["self"]),
        others=_set(read["others"]),
    )


def _set(words: str) -> frozenset[str]:
    return frozenset(simple(word) for word in words.split())
