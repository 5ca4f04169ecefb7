"""What short messages mean in languages other than English, by rules that stand in a file."""

import re
import tomllib
import unicodedata
from functools import cache
from importlib import resources

import msgspec

KINDS = (
    "yes",
    "no",
    "leave",
    "skip",
    "list",
    "forget_all",
    "forget",
    "remember",
    "undo",
    "recall_off",
    "recall_on",
    "exercise",
    "lookup",
    "closing",
)
"""What a message can mean. What is about everything stands before what is about something."""

LETTERS = str.maketrans({"ı": "i", "ł": "l", "ß": "ss", "ø": "o", "æ": "ae", "œ": "oe", "’": "'", "`": "'"})
AROUND = '.,;:!?…¿¡"“”„«»()[] '


class Saying(msgspec.Struct, frozen=True, kw_only=True):
    """What a message means, in which language, and what it is about, in its own words."""

    kind: str
    language: str
    what: str = ""


@cache
def languages() -> tuple[str, ...]:
    """The languages of the file."""
    return tuple(_read())


def saying(message: str, *kinds: str) -> Saying | None:
    """What a message means, if it is one of these kinds in any of the languages."""
    plain = simple(message)
    for kind in kinds:
        for language, pattern in _patterns()[kind]:
            found = pattern.fullmatch(plain)
            if found is not None:
                what = found.groupdict().get("what") or ""
                return Saying(kind=kind, language=language, what=_own_words(message, what))
    return None


def says(message: str, kind: str) -> bool:
    """Whether a message means this in any of the languages."""
    return saying(message, kind) is not None


def simple(text: str) -> str:
    """A text in small letters, without accents, and without what stands around it. Words stay apart."""
    apart = unicodedata.normalize("NFKD", text.casefold().translate(LETTERS))
    plain = "".join(letter for letter in apart if not unicodedata.combining(letter)).translate(LETTERS)
    return " ".join(plain.split()).strip(AROUND)


def _own_words(message: str, what: str) -> str:
    """The end of a message that has as many words as this, as it was written."""
    count = len(what.split())
    return " ".join(message.split()[-count:]).strip(AROUND) if count else ""


@cache
def _patterns() -> dict[str, tuple[tuple[str, re.Pattern[str]], ...]]:
    """The patterns of each kind, with their languages."""
    return {
        kind: tuple(
            (language, re.compile(pattern.replace("{my}", said["my"])))
            for language, said in _read().items()
            for pattern in said[kind]
        )
        for kind in KINDS
    }


@cache
def _read() -> dict[str, dict[str, str]]:
    text = resources.files("holdfast.companion").joinpath("sayings.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
