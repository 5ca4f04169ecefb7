"""Topics, recognised by words: for concerns, for reflections, and for the approach that fits."""

import re
from functools import cache
from importlib import resources

import msgspec

from clew.core.text.words import stem, words
from clew_companion.values import Approach


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that people speak about: its words, what is said and asked of it, and which approach fits."""

    id: str
    name: str
    words: tuple[str, ...]
    unless: tuple[str, ...] = ()
    approach: Approach
    reflections: tuple[str, ...]
    questions: tuple[str, ...]
    explains: str


class TopicFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of topics."""

    topics: tuple[Topic, ...]


@cache
def all_topics() -> tuple[Topic, ...]:
    """Every topic, the weightiest first."""
    text = resources.files("clew_companion").joinpath("topics.toml").read_text(encoding="utf-8")
    return msgspec.toml.decode(text, type=TopicFile).topics


@cache
def _topic_stems() -> tuple[tuple[Topic, frozenset[str], tuple[str, ...]], ...]:
    """The topics with their single words as stems, and their phrases as they are."""
    return tuple(
        (
            topic,
            frozenset(stem(word) for word in topic.words if " " not in word),
            tuple(phrase for phrase in topic.words if " " in phrase),
        )
        for topic in all_topics()
    )


def topics_in(text: str) -> list[Topic]:
    """The topics of a text, the weightiest first."""
    tokens = words(text.replace("’", "'"))
    stems, plain = {stem(word) for word in tokens}, f" {' '.join(tokens)} "
    return [
        topic
        for topic, single, phrases in _topic_stems()
        if (single & stems or _has_phrase(plain, phrases)) and not _has_phrase(plain, topic.unless)
    ]


def _has_phrase(plain: str, phrases: tuple[str, ...]) -> bool:
    return any(f" {phrase} " in plain for phrase in phrases)


EXPLANATION_QUESTION = re.compile(
    r"\b(?:why\s+do(?:es)?\s+(?:i|people|we|my|the|it|this|anxiety|panic|stress|grief)|"
    r"what\s+is\s+(?!the\s+(?:matter|point|time))|what\s+are\s|how\s+does\s|"
    r"explain|is\s+it\s+normal|what\s+causes)\b",
    re.IGNORECASE,
)
DISORDER = (
    r"(?:(?:major|generali[sz]ed|severe|mild|moderate|clinical|chronic|acute|classic|undiagnosed|"
    r"some\s+form\s+of|signs\s+of|"
    r"symptoms\s+of|social|post-?natal|postpartum)\s+)*"
    r"(?:clinically\s+depressed|depression|depressive\s+\w+|bipolar\w*|manic|ptsd|c-?ptsd|adhd|add|ocd|bpd|"
    r"autis\w+|psychosis|psychotic|"
    r"schizo\w+|anorexi\w+|bulimi\w+|(?:anxiety|panic|mood|eating|personality|attachment|stress|mental|"
    r"borderline\s+personality)"
    r"\s+disorder|mental\s+illness|borderline|narciss\w+|dissociative\s+\w+|agoraphobi\w+)"
)
"""The names of disorders, as part of a pattern: what is asked about and never said of anybody."""


def is_asking_why(message: str) -> bool:
    """Return whether a message asks how something works, with or without a question mark."""
    return bool(
        (EXPLANATION_QUESTION.search(message) and "?" in message)
        or EXPLANATION_QUESTION.match(message.lstrip())
    )


SENTENCE_BREAK = re.compile(r"(?<=[.!?…])\s+|\n+")


def sentences(text: str) -> list[str]:
    """The sentences of a text."""
    return [sentence.strip() for sentence in SENTENCE_BREAK.split(text) if sentence.strip()]
