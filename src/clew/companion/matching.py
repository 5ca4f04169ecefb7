"""What is known about some words: by what it says, by the sentence it comes from, and loosely if need be."""

from collections.abc import Sequence
from itertools import takewhile
from operator import eq
from typing import TypeAlias

from clew.companion.sayings import simple
from clew.core.text import stem, words
from clew.runtime.memory import Arc, Fact, Memory, Rule
from clew.runtime.memory.functionwords import FUNCTION_WORDS

Known: TypeAlias = Fact | Arc | Rule
READ = 500
ROOT, ENDING = 4, 3
VAGUE = frozenset(
    map(
        stem,
        words(
            "everything anything something thing all fact know remember tell told said call called name me"
        ),
    )
)


async def matching(memory: Memory, about: str, *, loosely: bool = False) -> list[Known]:
    """What is known about some words, the newest first; everything if there are none.

    What is not English has other endings than those that a stem leaves out, so it may be looked for loosely.
    """
    profile = await memory.profile()
    listed = (await memory.page("facts", limit=READ)).facts
    arcs = (await memory.page("arcs", limit=READ)).arcs
    return about_words([*profile.rules, *listed, *arcs], about, loosely=loosely)


def about_words(known: Sequence[Known], about: str, *, loosely: bool = False) -> list[Known]:
    """What of it is about some words: by what it says, and only then by the sentence that it comes from."""
    wanted = telling(about)
    if not wanted:
        return list(known)
    for text in (_own_text, _text):
        found = [each for each in known if wanted <= _stems(text(each))]
        if found:
            return found
    return [each for each in known if loosely and _is_alike(about, _text(each))]


def _is_alike(about: str, text: str) -> bool:
    """Whether every word of some is in a text, but for its ending."""
    there = words(simple(text))
    return all(any(_differ_in_ending(word, other) for other in there) for word in words(simple(about)))


def _differ_in_ending(first: str, second: str) -> bool:
    same = sum(1 for _ in takewhile(bool, map(eq, first, second)))
    return first == second or (same >= ROOT and max(len(first), len(second)) - same <= ENDING)


def _text(known: Known) -> str:
    if isinstance(known, Rule):
        return f"{known.about} {known.text}"
    return f"{known.text} {known.summary}" if isinstance(known, Arc) else known.text


def _own_text(known: Known) -> str:
    """What something says without the words that it comes from, which may say more."""
    return _text(known) if not isinstance(known, Fact) else _text(known).removesuffix(known.quote)


def telling(about: str) -> set[str]:
    """The stems that say what a command is about."""
    return {stem(word) for word in words(about) if word not in FUNCTION_WORDS and word not in VAGUE} - VAGUE


def _stems(text: str) -> set[str]:
    return {stem(word) for word in words(text)}
