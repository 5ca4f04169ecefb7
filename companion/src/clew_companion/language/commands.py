"""Commands to the memory in plain words: list, remember, correct, forget, undo, recall."""

import re
from functools import cache
from importlib import resources
from typing import Literal, TypeAlias

import msgspec

from clew_companion.language.phrases import saying_in

MemoryCommandKind: TypeAlias = Literal[
    "list", "remember", "correct", "wrong", "forget", "forget_that", "undo", "recall_on", "recall_off"
]


class MemoryCommand(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command about the memory, and what it is about; a correction has the old words and the new.

    One that does not name the old words has all that is ``said`` instead. ``language`` is empty for English.
    """

    kind: MemoryCommandKind
    what: str = ""
    old: str = ""
    new: str = ""
    said: str = ""
    language: str = ""


class CommandPattern(msgspec.Struct, frozen=True, kw_only=True):
    """One way to say a command."""

    kind: MemoryCommandKind
    says: str


class CommandFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of ways to say commands."""

    commands: tuple[CommandPattern, ...]


PATTERN_PARTS = {
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
def _patterns() -> tuple[tuple[MemoryCommandKind, re.Pattern[str]], ...]:
    """The ways to say commands, in their order."""
    text = resources.files("clew_companion").joinpath("commands.toml").read_text(encoding="utf-8")
    entries = msgspec.toml.decode(text, type=CommandFile).commands
    return tuple((way.kind, _compile_pattern(way.says)) for way in entries)


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    for name, part in PATTERN_PARTS.items():
        pattern = pattern.replace(name, part)
    return re.compile(pattern, re.IGNORECASE | re.DOTALL | re.VERBOSE)


PAST_REFERENCE = re.compile(r"\b(?:when|how|the\s+time|what\s+it)\b", re.IGNORECASE)
POINTING_WORD = re.compile(
    r"\W*(?:that|it|this|what\s+i\s+(?:just\s+)?said|about\s+it|about\s+that)\W*", re.IGNORECASE
)
COMMAND_PARTS = ("what", "old", "new", "said")
FORGET_IDIOM = re.compile(r"\W*(?:it|him|her|them|me)\b(?!\s+is\b).{0,24}$", re.IGNORECASE)
"""What one forgets without asking a program to."""


def command_in(message: str) -> MemoryCommand | None:
    """The command that a message gives, if it gives one."""
    for kind, pattern in _patterns():
        match = pattern.search(message)
        if match is not None:
            groups = {name: (text or "").strip() for name, text in match.groupdict().items()}
            command = MemoryCommand(kind=kind, **{name: groups.get(name, "") for name in COMMAND_PARTS})
            if _is_about_memory(command, everything="all" in groups):
                return command
    return _foreign_command(message)


KINDS_BY_SAYING: dict[str, MemoryCommandKind] = {
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


def _foreign_command(message: str) -> MemoryCommand | None:
    saying = saying_in(message, *KINDS_BY_SAYING)
    if saying is None:
        return None
    parts = {name: getattr(saying, name) for name in COMMAND_PARTS}
    return MemoryCommand(kind=KINDS_BY_SAYING[saying.kind], language=saying.language, **parts)


def _is_about_memory(command: MemoryCommand, *, everything: bool) -> bool:
    """Return whether it is about the memory; "forget it" and "remember when we met" are not."""
    if command.kind == "forget":
        return everything or not (
            POINTING_WORD.fullmatch(command.what) or FORGET_IDIOM.fullmatch(command.what)
        )
    if command.kind == "remember":
        return not PAST_REFERENCE.match(command.what)
    return True
