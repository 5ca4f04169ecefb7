"""A phrase: one way to state something, as its data file tells it, and what it states."""

import re
from functools import cached_property
from itertools import pairwise
from typing import Literal

import msgspec

from clew.runtime.memory.values import FactPattern


class Phrase(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A way to state something, and what it states; ``{who}`` and ``{what}`` are replaced by the words said.

    ``splits`` says that it may list several things, ``lower`` that capitals in it mean nothing, ``past`` that
    it may be told of the past, ``negative`` that it may deny, and ``last`` that it is tried where no
    other fits. What was said passes the check ``needs``, and does not pass ``bars``. ``ends`` is what else it
    ends, and ``only_ends`` says that it teaches nothing besides.
    """

    template: str
    kind: Literal["fact", "rule"] = "fact"
    category: str = "context"
    subject: str = "User"
    predicate: str = ""
    object: str = "{what}"
    single: bool = False
    plain: bool = True
    negated: bool = False
    splits: bool = False
    lower: bool = False
    past: bool = False
    last: bool = False
    only_ends: bool = False
    negative: bool = False
    confidence: float = 0.9
    needs: str = ""
    bars: str = ""
    ends: tuple[FactPattern, ...] = ()

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled pattern."""
        return re.compile(self.template, re.IGNORECASE)


class WordCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A check of words: some word of them is in a table, or a pattern is found in them."""

    words: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None

    def passes(self, text: str) -> bool:
        """Return whether a text has such a word."""
        if self.pattern is not None and self.pattern.search(text):
            return True
        if not self.words:
            return False
        text_words = WORD.findall(text.lower())
        pairs = (f"{one} {two}" for one, two in pairwise(text_words))
        return not self.words.isdisjoint(text_words) or not self.words.isdisjoint(pairs)


WORD = re.compile(r"[^\W\d_]+(?:['\-/][^\W_]+)*")


_ENGLISH_WORDS = (
    "a an the and or but if so of in on at to for from by with about as into over under is are was "
    "were be been am do does did have has had can could will would should shall may might must not no "
    "nor i me my mine we us our you your he him his she her it its they them their this that these "
    "those there here what which who whom whose when where why how any some all just too very really "
    "also than then now s t m re ve ll d don "
)
_OTHER_WORDS = (
    "der die das ein eine einer einen und oder aber ist sind war ich mich mir mein meine du dich dir "
    "dein er sie es wir ihr nicht kein keine was wer wie wo wann warum auf mit von zu im am den dem "
    "des fur bin hat habe le la les un une des et ou mais est sont je me moi mon ma mes tu te ton il "
    "elle nous vous ne pas que qui quoi ou quand comment pour dans sur avec de du au aux ce cette ai "
    "as suis el los las una unos y o pero es son soy yo mi mis tu tus se no que quien como donde "
    "cuando por para con en del al "
)
FUNCTION_WORDS = frozenset(f"{_ENGLISH_WORDS} {_OTHER_WORDS}".split())
