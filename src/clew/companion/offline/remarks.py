"""Small talk, questions about the program and short reactions: known by rules that stand in a file."""

import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from zlib import crc32

import msgspec

from clew.companion.language.phrases import simple
from clew.companion.language.topics import DISORDER, sentences

LONGEST, LETTERS = 24, 300
"""A message of more words or letters says something of its own."""

SIGNS = re.compile(r"[^\w\s+*/-]")
BEFORE = re.compile(
    r"^(?:(?:ok|okay|hey|hi|hello|well|so|but|and|oh|um+|hm+|please|honestly|actually|lol|haha|sorry|wait|no|yeah|"
    r"yes|then|also|btw|by the way|thanks|seriously|just) )+"
)
BEHIND = re.compile(
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


class Remarks(msgspec.Struct, frozen=True, kw_only=True):
    """A file of remarks."""

    remarks: tuple[Remark, ...]


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """A remark that somebody made, and the name that they gave with it, if they did."""

    remark: Remark
    name: str = ""

    @property
    def answers(self) -> list[str]:
        """What can be answered."""
        return [answer.replace("{name}", self.name) for answer in self.remark.answers]


@cache
def all_remarks() -> tuple[Remark, ...]:
    """Every remark, in the order in which they are looked for."""
    text = resources.files("clew.companion").joinpath("remarks.toml").read_text(encoding="utf-8")
    return msgspec.toml.decode(text, type=Remarks).remarks


@cache
def _patterns() -> tuple[tuple[Remark, tuple[re.Pattern[str], ...]], ...]:
    return tuple(
        (remark, tuple(re.compile(says.replace("{disorder}", DISORDER)) for says in remark.says))
        for remark in all_remarks()
    )


def remark_in(message: str) -> Made | None:
    """The remark that a message is, or that its last question is."""
    last = "".join(sentences(message)[-1:])
    return _made(message) or (_made(last) if last.endswith("?") else None)


def _made(message: str) -> Made | None:
    if len(message) > LETTERS or len(message.split()) > LONGEST:
        return None
    plain = _plain(message)
    shorter = BEHIND.sub("", BEFORE.sub("", plain))
    for remark, patterns in _patterns():
        if remark.needs_question and "?" not in message:
            continue
        for pattern in patterns:
            found = pattern.fullmatch(plain) or pattern.fullmatch(shorter)
            if found is not None:
                return Made(remark=remark, name=found.groupdict().get("name", "").title())
    return None


def _plain(message: str) -> str:
    return " ".join(SIGNS.sub(" ", simple(message).replace("'", "")).split())


def unsaid(options: Sequence[str], replied: Sequence[str], about: str = "") -> str:
    """One of some things to say that was not said yet, or else the one that was said longest ago."""
    ages = {option: _last(option, replied) for option in options}
    oldest = [option for option in options if ages[option] == min(ages.values())]
    return oldest[crc32(about.encode()) % len(oldest)]


def _last(option: str, replied: Sequence[str]) -> int:
    """Where something was said last; before all else if it never was."""
    return max((number for number, reply in enumerate(replied) if option in reply), default=-1)
