"""The words of nine languages by what they are about: read once from ``lexicon/*.toml``."""

import functools
import importlib.resources
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from clew_companion.crisis.words import QUOTE, Spelling, make_spelling

IDIOM = "idiom"
"""The concept whose phrases cover the words within them: ``killing time`` kills nobody."""
ANSWER_PREFIX = "answer "
"""Begins the names of what is only looked for in questions and in the answers to them."""


class ConceptMatch(NamedTuple):
    """A concept, and the words that express it."""

    concept: str
    start: int
    end: int


_WordChoice = tuple[frozenset[str], tuple[str, ...]]
"""The choice at one place of a phrase: one of several words, or a word with one of several beginnings."""
_PhraseRest = tuple[str, tuple[_WordChoice, ...]]
"""A concept, and what must follow the first word."""


@dataclass(frozen=True, slots=True)
class Language:
    """A language: what it is recognised by, and its words and phrases by their first word.

    ``phrases_by_pair`` are those by their first two words: hundreds begin with "I", and few with "I took".
    ``keepers`` are words whose denial leaves standing what follows them: "cannot stop thinking of it".
    ``turners`` make two denials none, if they are between them: "no reason not to". ``exceptions`` are
    denials that any other turns round: "not a day without".
    """

    code: str
    common_words: frozenset[str]
    letters: frozenset[str]
    clause_ends: frozenset[str]
    conjunctions: frozenset[str]
    keepers: frozenset[str]
    turners: frozenset[str]
    exceptions: frozenset[str]
    phrases_by_word: Mapping[str, Sequence[_PhraseRest]]
    phrases_by_pair: Mapping[tuple[str, str], Sequence[_PhraseRest]]
    phrases_by_prefix: Mapping[str, Sequence[_PhraseRest]]
    prefix_lengths: tuple[int, ...]

    def find_concepts(self, tokens: Sequence[str]) -> list[ConceptMatch]:
        """The concepts in plain words; what an idiom covers is left out."""
        matches = [hit for at in range(len(tokens)) for hit in self._matches_at(tokens, at)]
        idioms = [hit for hit in matches if hit.concept == IDIOM]
        if not idioms:
            return matches
        return [
            hit
            for hit in matches
            if hit.concept == IDIOM
            or not any(idiom.start <= hit.start and hit.end <= idiom.end for idiom in idioms)
        ]

    def begins_clause(self, tokens: Sequence[str], at: int) -> bool:
        """Return whether a word like "and" begins a clause about the person: "and I want to ..."."""
        return tokens[at] in self.conjunctions and self.is_self(tokens, at + 1)

    def is_self(self, tokens: Sequence[str], at: int) -> bool:
        """Return whether the word here is one that people speak of themselves by."""
        return at < len(tokens) and any(
            concept == "self" and not rest for concept, rest in self.phrases_by_word.get(tokens[at], ())
        )

    def _matches_at(self, tokens: Sequence[str], at: int) -> list[ConceptMatch]:
        """The longest phrase of each concept that begins here."""
        longest: dict[str, int] = {}
        for last, phrases in self._phrases_at(tokens, at):
            for concept, rest in phrases:
                end = _phrase_end(tokens, last, rest) if rest else last + 1
                if end > longest.get(concept, 0):
                    longest[concept] = end
        return [ConceptMatch(concept, at, end) for concept, end in longest.items()]

    def _phrases_at(self, tokens: Sequence[str], at: int) -> list[tuple[int, Sequence[_PhraseRest]]]:
        """The phrases that begin with a word, its beginning, or it and the next."""
        word = tokens[at]
        phrases = [
            (at, self.phrases_by_prefix[start])
            for length in self.prefix_lengths
            if (start := word[:length]) in self.phrases_by_prefix
        ]
        if word in self.phrases_by_word:
            phrases.append((at, self.phrases_by_word[word]))
            second = _next_word(tokens, at)
            if second < len(tokens) and (pair := self.phrases_by_pair.get((word, tokens[second]))):
                phrases.append((second, pair))
        return phrases


def _next_word(tokens: Sequence[str], at: int) -> int:
    """The index of the next word; quotation marks are skipped."""
    at += 1
    while at < len(tokens) and tokens[at] == QUOTE:
        at += 1
    return at


def _phrase_end(tokens: Sequence[str], at: int, rest: tuple[_WordChoice, ...]) -> int:
    """The end of a phrase that began with a word, or 0 if it does not go on."""
    for words, prefixes in rest:
        at = _next_word(tokens, at)
        if at >= len(tokens) or not (tokens[at] in words or tokens[at].startswith(prefixes)):
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
def load_lexicon() -> Lexicon:
    """The lexicon that comes with the companion."""
    folder = importlib.resources.files("clew_companion.crisis").joinpath("lexicon")
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    tables = [tomllib.loads(file.read_text("utf-8")) for file in files if file.name.endswith(".toml")]
    shared_table = next(one for one in tables if "language" not in one)
    language_tables = [one for one in tables if "language" in one]
    languages = {one["language"]: _make_language(one, shared_table["concepts"]) for one in language_tables}
    return Lexicon(
        languages=languages,
        spelling=_make_lexicon_spelling(language_tables, languages.values()),
        concepts=frozenset(language_tables[0]["concepts"]),
        groups={name: frozenset(names.split()) for name, names in shared_table.items() if name != "concepts"},
    )


def _make_language(table: Mapping[str, Any], shared_concepts: Mapping[str, str]) -> Language:
    by_word: defaultdict[str, list[_PhraseRest]] = defaultdict(list)
    by_pair: defaultdict[tuple[str, str], list[_PhraseRest]] = defaultdict(list)
    by_prefix: defaultdict[str, list[_PhraseRest]] = defaultdict(list)
    answers = {ANSWER_PREFIX + name: phrases for name, phrases in table["answers"].items()}
    for concepts in (table["concepts"], shared_concepts, answers):
        for concept, listed in concepts.items():
            for phrase in listed.replace("\n", " ").split(","):
                first, *later = phrase.split()
                rest = tuple(map(_word_choice, later))
                for word in first.split("/"):
                    entries = by_prefix[word[:-1]] if word.endswith("*") else by_word[word]
                    if word.endswith("*") or not rest or rest[0][1]:
                        entries.append((concept, rest))
                        continue
                    for second in rest[0][0]:
                        by_pair[word, second].append((concept, rest[1:]))
    return Language(
        code=table["language"],
        common_words=frozenset(table["common"].split()),
        letters=frozenset(table["letters"]),
        clause_ends=frozenset(table["ends"].split()),
        conjunctions=frozenset(table["joins"].split()),
        keepers=frozenset(table.get("keeps", "").split()),
        turners=frozenset(f"{table.get('keeps', '')} {table.get('turns', '')}".split()),
        exceptions=frozenset(table.get("except", "").split()),
        phrases_by_word=dict(by_word),
        phrases_by_pair=dict(by_pair),
        phrases_by_prefix=dict(by_prefix),
        prefix_lengths=tuple(sorted({len(start) for start in by_prefix})),
    )


def _word_choice(alternatives: str) -> _WordChoice:
    words = alternatives.split("/")
    prefixes = tuple(word[:-1] for word in words if word.endswith("*"))
    return frozenset(word for word in words if not word.endswith("*")), prefixes


def _make_lexicon_spelling(tables: Sequence[Mapping[str, Any]], languages: Iterable[Language]) -> Spelling:
    correct_words = {
        word for language in languages for word in (*language.common_words, *language.phrases_by_word)
    }
    correct_words.update(_later_words(languages))
    for one in tables:
        correct_words.update(one["right"].split(), one["keys"].split())
    meanings = {word: plain for one in tables for word, plain in one["means"].items()}
    keys = {key for one in tables for key in one["keys"].split()}
    run_words = {word for one in tables for word in one.get("runs", "").split()}
    return make_spelling(meanings, keys, correct_words, run_words)


def _later_words(languages: Iterable[Language]) -> Iterable[str]:
    """The words of phrases after the first."""
    for language in languages:
        yield from (second for _, second in language.phrases_by_pair)
        for phrases in (
            *language.phrases_by_word.values(),
            *language.phrases_by_pair.values(),
            *language.phrases_by_prefix.values(),
        ):
            for _, rest in phrases:
                for words, _ in rest:
                    yield from words


def language_of_tokens(tokens: Iterable[str], text: str, lexicon: Lexicon, default: str = "en") -> str:
    """The language that plain words are in: by the commonest, by those it knows, and by its letters."""
    distinct, signs = set(tokens), set(text.lower())
    points = {
        code: 2 * len(distinct & language.common_words)
        + sum(word in language.phrases_by_word for word in distinct) / 2
        + 2 * len(signs & language.letters)
        for code, language in lexicon.languages.items()
    }
    best = max(points, key=lambda code: (points[code], code == default))
    return best if points[best] > points[default] else default
