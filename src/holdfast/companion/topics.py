"""What people speak about, found by words: for concerns, for reflections, and for the approach that fits."""

import re
from functools import cache
from importlib import resources

import msgspec

from holdfast.companion.values import Approach
from holdfast.core.text import stem, words


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


class Topics(msgspec.Struct, frozen=True, kw_only=True):
    """A file of topics."""

    topics: tuple[Topic, ...]


@cache
def all_topics() -> tuple[Topic, ...]:
    """Every topic, the weightiest first."""
    text = resources.files("holdfast.companion").joinpath("topics.toml").read_text(encoding="utf-8")
    return msgspec.toml.decode(text, type=Topics).topics


@cache
def _stems() -> tuple[tuple[Topic, frozenset[str], tuple[str, ...]], ...]:
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
    """What a text is about, the weightiest first."""
    said = words(text.replace("’", "'"))
    stems, told = {stem(word) for word in said}, f" {' '.join(said)} "
    return [
        topic
        for topic, single, phrases in _stems()
        if (single & stems or _has(told, phrases)) and not _has(told, topic.unless)
    ]


def _has(told: str, phrases: tuple[str, ...]) -> bool:
    return any(f" {phrase} " in told for phrase in phrases)


BREAK = re.compile(r"(?<=[.!?…])\s+|\n+")


def sentences(text: str) -> list[str]:
    """The sentences of a text."""
    return [found.strip() for found in BREAK.split(text) if found.strip()]
