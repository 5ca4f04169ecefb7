"""The words of nine languages by what they are about: read once from ``lexicon/*.toml``."""

import functools
import importlib.resources
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from clew.companion.crisis.words import QUOTE, Spelling, spelling

IDIOM = "idiom"
"""The concept whose phrases cover what stands within them: ``killing time`` kills nobody."""
ANSWER = "answer "
"""Begins the names of what is only looked for in questions and in the answers to them."""


class Found(NamedTuple):
    """A concept, and the words that stand for it."""

    concept: str
    start: int
    end: int


_Choice = tuple[frozenset[str], tuple[str, ...]]
"""What may stand at one place of a phrase: one of several words, or a word with one of several beginnings."""
_Rest = tuple[str, tuple[_Choice, ...]]
"""A concept, and what must follow the first word."""


@dataclass(frozen=True, slots=True)
class Language:
    """A language: what it is recognised by, and its words and phrases by their first word.

    ``pairs`` are those by their first two words: hundreds begin with "I", and few with "I took".
    """

    code: str
    common: frozenset[str]
    letters: frozenset[str]
    ends: frozenset[str]
    joins: frozenset[str]
    whole: Mapping[str, Sequence[_Rest]]
    pairs: Mapping[tuple[str, str], Sequence[_Rest]]
    begun: Mapping[str, Sequence[_Rest]]
    lengths: tuple[int, ...]

    def find(self, said: Sequence[str]) -> list[Found]:
        """The concepts in plain words; what an idiom covers is left out."""
        found = [hit for at in range(len(said)) for hit in self._at(said, at)]
        covers = [hit for hit in found if hit.concept == IDIOM]
        if not covers:
            return found
        return [
            hit
            for hit in found
            if hit.concept == IDIOM
            or not any(idiom.start <= hit.start and hit.end <= idiom.end for idiom in covers)
        ]

    def begins(self, said: Sequence[str], at: int) -> bool:
        """Whether a word like "and" begins a clause about the person: "and I want to ..."."""
        return said[at] in self.joins and self.is_self(said, at + 1)

    def is_self(self, said: Sequence[str], at: int) -> bool:
        """Whether the word here is one that people speak of themselves by."""
        return at < len(said) and any(
            concept == "self" and not rest for concept, rest in self.whole.get(said[at], ())
        )

    def _at(self, said: Sequence[str], at: int) -> list[Found]:
        """The longest phrase of each concept that begins here."""
        longest: dict[str, int] = {}
        for last, place in self._places(said, at):
            for concept, rest in place:
                end = _end(said, last, rest) if rest else last + 1
                if end > longest.get(concept, 0):
                    longest[concept] = end
        return [Found(concept, at, end) for concept, end in longest.items()]

    def _places(self, said: Sequence[str], at: int) -> list[tuple[int, Sequence[_Rest]]]:
        """Where phrases are listed that begin with a word, its beginning, or it and the next."""
        word = said[at]
        found = [(at, self.begun[start]) for length in self.lengths if (start := word[:length]) in self.begun]
        if word in self.whole:
            found.append((at, self.whole[word]))
            second = _next(said, at)
            if second < len(said) and (pair := self.pairs.get((word, said[second]))):
                found.append((second, pair))
        return found


def _next(said: Sequence[str], at: int) -> int:
    """Where the next word is: a quotation mark is none."""
    at += 1
    while at < len(said) and said[at] == QUOTE:
        at += 1
    return at


def _end(said: Sequence[str], at: int, rest: tuple[_Choice, ...]) -> int:
    """Where a phrase ends that began with a word, or 0 if it does not go on."""
    for whole, begun in rest:
        at = _next(said, at)
        if at >= len(said) or not (said[at] in whole or said[at].startswith(begun)):
            return 0
    return at + 1


@dataclass(frozen=True, slots=True)
class Lexicon:
    """All of it, ready to be looked up. ``groups`` are concepts that count alike."""

    languages: Mapping[str, Language]
    spelling: Spelling
    concepts: frozenset[str]
    groups: Mapping[str, frozenset[str]]


@functools.cache
def lexicon() -> Lexicon:
    """The lexicon that comes with the companion."""
    folder = importlib.resources.files("clew.companion.crisis").joinpath("lexicon")
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    read = [tomllib.loads(file.read_text("utf-8")) for file in files if file.name.endswith(".toml")]
    shared = next(one for one in read if "language" not in one)
    given = [one for one in read if "language" in one]
    languages = {one["language"]: _language(one, shared["concepts"]) for one in given}
    return Lexicon(
        languages=languages,
        spelling=_spelling(given, languages.values()),
        concepts=frozenset(given[0]["concepts"]),
        groups={name: frozenset(listed.split()) for name, listed in shared.items() if name != "concepts"},
    )


def _language(read: Mapping[str, Any], shared: Mapping[str, str]) -> Language:
    whole: defaultdict[str, list[_Rest]] = defaultdict(list)
    pairs: defaultdict[tuple[str, str], list[_Rest]] = defaultdict(list)
    begun: defaultdict[str, list[_Rest]] = defaultdict(list)
    answers = {ANSWER + name: listed for name, listed in read["answers"].items()}
    for concepts in (read["concepts"], shared, answers):
        for concept, listed in concepts.items():
            for phrase in listed.replace("\n", " ").split(","):
                first, *later = phrase.split()
                rest = tuple(map(_choice, later))
                for word in first.split("/"):
                    place = begun[word[:-1]] if word.endswith("*") else whole[word]
                    if word.endswith("*") or not rest or rest[0][1]:
                        place.append((concept, rest))
                        continue
                    for second in rest[0][0]:
                        pairs[word, second].append((concept, rest[1:]))
    return Language(
        code=read["language"],
        common=frozenset(read["common"].split()),
        letters=frozenset(read["letters"]),
        ends=frozenset(read["ends"].split()),
        joins=frozenset(read["joins"].split()),
        whole=dict(whole),
        pairs=dict(pairs),
        begun=dict(begun),
        lengths=tuple(sorted({len(start) for start in begun})),
    )


def _choice(place: str) -> _Choice:
    words = place.split("/")
    begun = tuple(word[:-1] for word in words if word.endswith("*"))
    return frozenset(word for word in words if not word.endswith("*")), begun


def _spelling(read: Sequence[Mapping[str, Any]], languages: Iterable[Language]) -> Spelling:
    known = {word for language in languages for word in (*language.common, *language.whole)}
    known.update(_later(languages))
    for one in read:
        known.update(one["right"].split(), one["keys"].split())
    means = {word: plain for one in read for word, plain in one["means"].items()}
    return spelling(means, {key for one in read for key in one["keys"].split()}, known)


def _later(languages: Iterable[Language]) -> Iterable[str]:
    """The words of phrases after the first."""
    for language in languages:
        yield from (second for _, second in language.pairs)
        for place in (*language.whole.values(), *language.pairs.values(), *language.begun.values()):
            for _, rest in place:
                for whole, _ in rest:
                    yield from whole


def language_among(said: Iterable[str], text: str, known: Lexicon, default: str = "en") -> str:
    """The language that plain words are in: by the commonest, by those it knows, and by its letters."""
    distinct, signs = set(said), set(text.lower())
    points = {
        code: 2 * len(distinct & language.common)
        + sum(word in language.whole for word in distinct) / 2
        + 2 * len(signs & language.letters)
        for code, language in known.languages.items()
    }
    best = max(points, key=lambda code: (points[code], code == default))
    return best if points[best] > points[default] else default
