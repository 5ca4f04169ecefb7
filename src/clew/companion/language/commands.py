"""What somebody asks of the memory in plain words: list, remember, correct, forget, undo, recall."""

import re
from functools import cache
from importlib import resources
from typing import Literal, TypeAlias

import msgspec

from clew.companion.language.phrases import saying

Kind: TypeAlias = Literal[
    "list", "remember", "correct", "wrong", "forget", "forget_that", "undo", "recall_on", "recall_off"
]


class Command(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command about the memory, and what it is about; a correction has the old words and the new.

    One that does not name the old words has all that is ``said`` instead. ``language`` is empty for English.
    """

    kind: Kind
    what: str = ""
    old: str = ""
    new: str = ""
    said: str = ""
    language: str = ""


class Says(msgspec.Struct, frozen=True, kw_only=True):
    """One way to say a command."""

    kind: Kind
    says: str


class Ways(msgspec.Struct, frozen=True, kw_only=True):
    """A file of ways to say commands."""

    commands: tuple[Says, ...]


PARTS = {
    "{start}": (
        r"^\W*(?:(?:ok(?:ay)?|hey|hi|please|actually|and|so|also|wait|oh)\W+)*"
        r"(?:(?:can|could|would|will)\s+you\s+(?:please\s+)?|please\s+|i\s+(?:want|need)\s+you\s+to\s+|"
        r"i(?:['’]d|\s+would)\s+like\s+you\s+to\s+)?"
    ),
    "{memory}": (
        r"(?:memory|memories|(?:what|everything|anything|all)\s+(?:that\s+)?you(?:['’]ve|\s+have)?\s+"
        r"(?:know|remember(?:ed)?|kept|saved|stored|learned))"
    ),
    "{end}": r"\s*(?:,?\s*please)?\W*$",
}


@cache
def _patterns() -> tuple[tuple[Kind, re.Pattern[str]], ...]:
    """The ways to say commands, in their order."""
    text = resources.files("clew.companion").joinpath("commands.toml").read_text(encoding="utf-8")
    ways = msgspec.toml.decode(text, type=Ways).commands
    return tuple((way.kind, _compiled(way.says)) for way in ways)


def _compiled(says: str) -> re.Pattern[str]:
    for name, part in PARTS.items():
        says = says.replace(name, part)
    return re.compile(says, re.IGNORECASE | re.DOTALL | re.VERBOSE)


PAST = re.compile(r"\b(?:when|how|the\s+time|what\s+it)\b", re.IGNORECASE)
DEICTIC = re.compile(
    r"\W*(?:that|it|this|what\s+i\s+(?:just\s+)?said|about\s+it|about\s+that)\W*", re.IGNORECASE
)
PARTS_OF_ONE = ("what", "old", "new", "said")
IDIOM = re.compile(r"\W*(?:it|him|her|them|me)\b(?!\s+is\b).{0,24}$", re.IGNORECASE)
"""What one forgets without asking a program to."""


def command_in(message: str) -> Command | None:
    """The command that a message gives, if it gives one."""
    for kind, says in _patterns():
        found = says.search(message)
        if found is not None:
            groups = {name: (text or "").strip() for name, text in found.groupdict().items()}
            given = Command(kind=kind, **{name: groups.get(name, "") for name in PARTS_OF_ONE})
            if _is_meant(given, everything="all" in groups):
                return given
    return _in_another_language(message)


OTHERS: dict[str, Kind] = {
    "list": "list",
    "forget_all": "forget",
    "forget_that": "forget_that",
    "correct": "correct",
    "wrong": "wrong",
    "forget": "forget",
    "remember": "remember",
    "undo": "undo",
    "recall_off": "recall_off",
    "recall_on": "recall_on",
}
"""What a command is in other languages, and what kind of a command that makes."""


def _in_another_language(message: str) -> Command | None:
    found = saying(message, *OTHERS)
    if found is None:
        return None
    parts = {name: getattr(found, name) for name in PARTS_OF_ONE}
    return Command(kind=OTHERS[found.kind], language=found.language, **parts)


def _is_meant(command: Command, *, everything: bool) -> bool:
    """Whether it is about the memory: "forget it" and "remember when we met" are only ways to speak."""
    if command.kind == "forget":
        return everything or not (DEICTIC.fullmatch(command.what) or IDIOM.fullmatch(command.what))
    if command.kind == "remember":
        return not PAST.match(command.what)
    return True
