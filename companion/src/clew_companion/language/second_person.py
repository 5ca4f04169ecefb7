"""The words of a person as they are said to them: "my sister" is "your sister"."""

import re
import tomllib
from functools import cache
from importlib import resources
from typing import Any

MOST_WORDS_BEFORE_VERB = 4
COUNTRY = "US"
"""A name that is written like a pronoun."""


def in_second_person(text: str) -> str:
    """The words as the listener says them: my is your, I have is you have."""
    pattern, becomes = _words()
    words = " ".join(text.replace("’", "'").split())
    return pattern.sub(lambda match: match[0] if match[0] == COUNTRY else becomes[_plain(match[0])], words)


def topic_phrase(text: str) -> str:
    """A phrase for the topic of some words, to who said them: ``about your sister``, ``that says that …``."""
    words = re.sub(r"^\W*(?:that|about|of)\s+|(?:['’]s)?[\s.!?]*$", "", text, flags=re.IGNORECASE)
    topic = _table()["topics"].get(words.lower()) or in_second_person(words)
    return f"{'that says that' if _clause().match(words) else 'about'} {topic}"


@cache
def _table() -> dict[str, Any]:
    text = resources.files("clew_companion").joinpath("second_person.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _plain(text: str) -> str:
    """The words as the table's keys are compared: small, without apostrophes, one space between two."""
    return " ".join(text.lower().replace("'", "").split())


@cache
def _words() -> tuple[re.Pattern[str], dict[str, str]]:
    words: dict[str, str] = _table()["words"]
    longest_first = sorted(words, key=len, reverse=True)
    pattern = re.compile(
        rf"(?<![\w'])(?:{'|'.join(map(_pattern_of, longest_first))})(?![\w'])", re.IGNORECASE
    )
    return pattern, {_plain(said): becomes for said, becomes in words.items()}


@cache
def _clause() -> re.Pattern[str]:
    parts = {
        name: "|".join(_pattern_of(word) for word in words) for name, words in _table()["clauses"].items()
    }
    word = rf"(?!(?:{parts['subjects']}|{parts['links']})\b)[\w'-]+"
    within = rf"(?:\s+{word}){{1,{MOST_WORDS_BEFORE_VERB}}}?"
    # A will at the end is no verb, but what somebody leaves.
    verb = rf"\s+(?!will\W*$)(?:{parts['verbs']})(?![\w'])"
    return re.compile(
        rf"(?:(?:{parts['subjects']})\s+\w|(?:{parts['contractions']})\s+\w|"
        rf"(?:{parts['determiners']}){within}{verb}|{word}(?:\s+{word})?{verb})",
        re.IGNORECASE,
    )


def _pattern_of(words: str) -> str:
    """A pattern for some words; an apostrophe may be left out, unless that makes another word of it."""
    escaped = re.escape(words).replace(r"\ ", r"\s+")
    return escaped if words in AMBIGUOUS else escaped.replace("'", "'?")


AMBIGUOUS = ("we'll", "we'd", "we're", "i'll", "i'd", "he's", "she's", "it's", "you're", "can't", "won't")
"""Contractions that are other words without their apostrophe."""
