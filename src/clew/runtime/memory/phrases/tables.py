"""Tables of phrases, words and frames: read from the data files beside this module, once and when needed."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from clew.runtime.memory.phrases.phrase import Phrase, WordCheck

PHRASE_FILES = ("rules", "facts", "other_languages")
PART = re.compile(r"\{([a-z_]+)\}")
SPACE = re.compile(r" ([*?](?![=!<:]))?")
DEEPEST_NESTING = 6


class PhraseTable(msgspec.Struct, frozen=True, kw_only=True):
    """All phrases in the order in which they are tried, and their numbers by the words that cue them."""

    phrases: tuple[Phrase, ...]
    numbers_by_cue: Mapping[str, tuple[int, ...]]

    def cued_phrases(self, sentence: str) -> list[Phrase]:
        """The phrases of which a sentence has a cue."""
        numbers: set[int] = set()
        for word in set(WORD_OR_PART.findall(sentence.lower())):
            numbers.update(self.numbers_by_cue.get(word, ()))
        return [self.phrases[number] for number in sorted(numbers)]


WORD_OR_PART = re.compile(r"[^\W_]+")
"""Cues are compared with words as they are between apostrophes and hyphens."""


@cache
def phrase_table() -> PhraseTable:
    """The phrases of all data files."""
    entries = [(name == "rules", entry) for name in PHRASE_FILES for entry in _read(name)["phrases"]]
    entries.sort(key=lambda pair: bool(pair[1].get("last")))
    phrases: list[Phrase] = []
    numbers: dict[str, list[int]] = {}
    for is_rule, entry in entries:
        cues = set(_cue_words(entry["cues"]))
        for phrase in _phrases_of_entry(entry, is_rule=is_rule):
            for cue in cues:
                numbers.setdefault(cue, []).append(len(phrases))
            phrases.append(phrase)
    return PhraseTable(
        phrases=tuple(phrases), numbers_by_cue={cue: tuple(each) for cue, each in numbers.items()}
    )


@cache
def single_predicates() -> frozenset[str]:
    """Predicates that have one object at a time, however it was noticed."""
    return frozenset(
        phrase.predicate
        for phrase in phrase_table().phrases
        if phrase.single and phrase.kind == "fact" and "{" not in phrase.subject
    )


@cache
def lasting_predicates() -> frozenset[str]:
    """Predicates of facts that words alone do not end."""
    return frozenset(_read("facts")["lasting"])


@cache
def own_words_predicates() -> frozenset[str]:
    """Predicates of facts whose object is a clause in the words of the person."""
    return frozenset(_read("facts")["own_words"])


@cache
def predicates_of_topic(predicate: str) -> tuple[str, ...]:
    """The predicates that tell the same matter as one, itself among them; none if it is of no topic."""
    topics: dict[str, list[str]] = _read("facts")["topics"]
    return next((tuple(topic) for topic in topics.values() if predicate in topic), ())


@cache
def word_table(name: str) -> frozenset[str]:
    """The words of a table."""
    return frozenset(_tables()[name])


@cache
def word_check(name: str) -> WordCheck:
    """The check with a name: of tables, a pattern, or both."""
    entry = _read("frames")["checks"][name]
    words = frozenset(word for table in entry.get("tables", ()) for word in _tables()[table])
    pattern = entry.get("pattern")
    return WordCheck(words=words, pattern=None if pattern is None else _compile(pattern))


@cache
def frame(name: str) -> re.Pattern[str]:
    """The pattern of a frame."""
    return re.compile(_read("frames")["frames"][name], re.IGNORECASE | re.VERBOSE)


@cache
def antecedent_pattern() -> re.Pattern[str]:
    """The pattern of a person or animal that a pronoun may stand for later."""
    return _compile(r"(?:\b(?:my|our)|{have}(?:{count})?) ?(?:[\w\-]+ ){0,3}?(?P<who>{relation})\b")


@cache
def usual_words(name: str) -> Mapping[str, str]:
    """The usual words for some others: ``english`` for relations, ``usual`` for things."""
    entries: dict[str, str] = _read("vocabulary")[name]
    return entries


@cache
def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath(f"{name}.toml").read_text("utf-8"))


@cache
def _tables() -> dict[str, tuple[str, ...]]:
    tables: dict[str, str] = _read("vocabulary")["tables"]
    return {name: tuple(word.replace("_", " ") for word in text.split()) for name, text in tables.items()}


def _cue_words(cues: Iterable[str]) -> Iterator[str]:
    """The words of some cues; of one that has several parts, the last, as it is in a sentence."""
    for cue in cues:
        entries = _tables()[cue[1:]] if cue.startswith("@") else (cue,)
        for entry in entries:
            yield WORD_OR_PART.findall(entry.lower())[-1]


def _phrases_of_entry(entry: Mapping[str, Any], *, is_rule: bool) -> Iterator[Phrase]:
    fields = {name: value for name, value in entry.items() if name not in ("cues", "says")}
    if is_rule:
        fields.setdefault("kind", "rule")
    for template in entry["says"]:
        yield msgspec.convert({**fields, "template": _expand(template)}, Phrase)


def _compile(template: str) -> re.Pattern[str]:
    return re.compile(_expand(template), re.IGNORECASE)


def _expand(template: str) -> str:
    """A template with its parts in place; a space in it is any space."""
    for _ in range(DEEPEST_NESTING):
        template = PART.sub(_part, template)
    return SPACE.sub(lambda match: rf"\s{match[1] or '+'}", template)


def _part(match: re.Match[str]) -> str:
    return _parts()[match[1]]


@cache
def _parts() -> dict[str, str]:
    alternatives = {name: f"(?:{_alternation(table)})" for name, table in _tables().items()}
    return {**alternatives, **_read("vocabulary")["parts"]}


def _alternation(table: Iterable[str]) -> str:
    """The words of a table as alternatives, the longest first, or a part of a word would do."""
    longest_first = sorted(table, key=len, reverse=True)
    return "|".join(" ".join(map(re.escape, word.split(" "))) for word in longest_first)
