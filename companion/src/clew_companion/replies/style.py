"""The style and the approach that fit a message, by rules."""

import re
from collections.abc import Sequence

import msgspec

from clew_companion.language.phrases import is_saying
from clew_companion.language.topics import is_asking_why, topics_in
from clew_companion.values import Approach, ResponseStyle

CLOSING = re.compile(
    r"\b(?:bye|goodbye|good\s?night|see\s+you|talk\s+(?:to\s+you\s+)?(?:later|tomorrow|soon)|"
    r"that['’]?s\s+(?:all|enough)\s+for\s+(?:today|now)|"
    r"(?:have|need)\s+to\s+go|thanks?(?:\s+you)?\s+for\s+(?:today|listening|your\s+time|everything))\b",
    re.IGNORECASE,
)
TECHNIQUE = re.compile(
    r"\b(?:what\s+(?:can|could|should)\s+i\s+do|how\s+(?:can|do|could)\s+i|any\s+(?:advice|tips|ideas)|"
    r"what\s+helps|let['’]?s\s+(?:do|try)\s+something(?!\s+else)|give\s+me\s+(?:advice|tips|something)|"
    r"help\s+me\s+(?:to\s+)?\w+|techniques?|strateg(?:y|ies)|a\s+way\s+to)\b",
    re.IGNORECASE,
)
PAINFUL = re.compile(
    r"\b(?:cry(?:ing)?|cried|hurts?|awful|terrible|horrible|unbearable|exhausted|overwhelmed|"
    r"can['’]?t\s+(?:cope|take)|lonely|scared|"
    r"panic\w*|heartbroken|devastated|miss\s+(?:him|her|them)|died)\b",
    re.IGNORECASE,
)
MOST_VAGUE_WORDS = 3
"""A message of no more words than this says too little to reflect."""


class StyleChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The wording of a reply: its style and its approach."""

    style: ResponseStyle
    approach: Approach


def choose_style(message: str, before: Sequence[str] = ()) -> StyleChoice:
    """The style and the approach for a message. A message without a topic goes on with the last one."""
    topics = topics_in(message) or next(
        (text_topics for text in reversed(before) if (text_topics := topics_in(text))), []
    )
    return StyleChoice(style=_style(message), approach=topics[0].approach if topics else "none")


def _style(message: str) -> ResponseStyle:
    if CLOSING.search(message) or is_saying(message, "closing"):
        return "closing"
    if TECHNIQUE.search(message):
        return "technique"
    if is_asking_why(message):
        return "psychoeducation"
    if PAINFUL.search(message):
        return "supportive"
    if len(message.split()) <= MOST_VAGUE_WORDS:
        return "clarifying"
    return "reflective"
