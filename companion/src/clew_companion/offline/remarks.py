"""Small talk, questions about the program and short reactions: known by rules in a file."""

import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from zlib import crc32

import msgspec

from clew_companion.language.phrases import normalize_text
from clew_companion.language.topics import DISORDER, sentences

MOST_WORDS, MOST_LETTERS = 24, 300
"""A message of more words or letters says something of its own."""

PUNCTUATION = re.compile(r"[^\w\s+*/-]")
OPENING_FILLER = re.compile(
    r"^(?:(?:ok|okay|hey|hi|hello|well|so|but|and|oh|um+|hm+|please|honestly|actually|lol|haha|sorry|wait|no|yeah|"
    r"yes|then|also|btw|by the way|thanks|seriously|just) )+"
)
CLOSING_FILLER = re.compile(
    r"(?: (?:please|though|really|anyway|then|lol|haha|now|today|again|man|dude|bro|mate|honestly|tbh|to me|"
    r"exactly|by the way|btw|actually))+$"
)


class Remark(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of remark: how it is said, and what is answered.

    An ``aside`` is answered in the middle of an exercise too. One that ``needs_question`` is only a question.
    """

    id: str
    says: tuple[str, ...]
    answers: tuple[str, ...]
    aside: bool = False
    needs_question: bool = False


class RemarkFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of remarks."""

    remarks: tuple[Remark, ...]


class RemarkMatch(msgspec.Struct, frozen=True, kw_only=True):
    """A remark of a person, and the name that they gave with it, if they did."""

    remark: Remark
    name: str = ""

    @property
    def answers(self) -> list[str]:
        """The remarks that answer a message."""
        return [answer.replace("{name}", self.name) for answer in self.remark.answers]


@cache
def all_remarks() -> tuple[Remark, ...]:
    """Every remark, in the order in which they are looked for."""
    text = resources.files("clew_companion").joinpath("remarks.toml").read_text(encoding="utf-8")
    return msgspec.toml.decode(text, type=RemarkFile).remarks


@cache
def _patterns() -> tuple[tuple[Remark, tuple[re.Pattern[str], ...]], ...]:
    return tuple(
        (remark, tuple(re.compile(says.replace("{disorder}", DISORDER)) for says in remark.says))
        for remark in all_remarks()
    )


def remark_in(message: str) -> RemarkMatch | None:
    """The remark that a message is, or that its last question is."""
    last = "".join(sentences(message)[-1:])
    return _match_remark(message) or (_match_remark(last) if last.endswith("?") else None)


def _match_remark(message: str) -> RemarkMatch | None:
    if len(message) > MOST_LETTERS or len(message.split()) > MOST_WORDS:
        return None
    plain = _plain_text(message)
    shorter = CLOSING_FILLER.sub("", OPENING_FILLER.sub("", plain))
    for remark, patterns in _patterns():
        if remark.needs_question and "?" not in message:
            continue
        for pattern in patterns:
            match = pattern.fullmatch(plain) or pattern.fullmatch(shorter)
            if match is not None:
                return RemarkMatch(remark=remark, name=match.groupdict().get("name", "").title())
    return None


def _plain_text(message: str) -> str:
    return " ".join(PUNCTUATION.sub(" ", normalize_text(message).replace("'", "")).split())


def least_recent(options: Sequence[str], replies: Sequence[str], about: str = "") -> str:
    """One of some things to say that was not said yet, or else the one that was said longest ago."""
    last_uses = {option: _last_use(option, replies) for option in options}
    oldest = [option for option in options if last_uses[option] == min(last_uses.values())]
    return oldest[crc32(about.encode()) % len(oldest)]


def _last_use(option: str, replies: Sequence[str]) -> int:
    """The index of a remark's last use; -1 before all others if it never was."""
    return max((number for number, reply in enumerate(replies) if option in reply), default=-1)
