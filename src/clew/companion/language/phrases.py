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
    "forget_that",
    "correct",
    "wrong",
    "forget",
    "remember",
    "undo",
    "recall_off",
    "recall_on",
    "exercise",
    "nothing",
    "lookup",
    "closing",
)
"""What a message can mean. What is about everything stands before what is about something."""

LETTERS = str.maketrans({"ı": "i", "ł": "l", "ß": "ss", "ø": "o", "æ": "ae", "œ": "oe", "’": "'", "`": "'"})
AROUND = '.,;:!?…¿¡"“”„«»()[] '
APOSTROPHE = re.compile("['’`]")


class Saying(msgspec.Struct, frozen=True, kw_only=True):
    """What a message means, in which language, and what it is about, in its own words.

    A correction has the old words and the new, or what is about and all that is ``said`` of it.
    """

    kind: str
    language: str
    what: str = ""
    old: str = ""
    new: str = ""
    said: str = ""


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """What is said in a language of which little is understood: that it is so, and what can be asked."""

    simple: str
    asks: tuple[str, ...]


def listening(language: str) -> Listening | None:
    """What is said in a language; None if it is none of the file."""
    said = _read().get(language)
    return None if said is None else msgspec.convert(said, Listening)


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
                parts = {name: _own_words(message, found, name) for name in found.groupdict()}
                return Saying(kind=kind, language=language, **parts)
    return None


def says(message: str, kind: str) -> bool:
    """Whether a message means this in any of the languages."""
    return saying(message, kind) is not None


def mentions(message: str, kind: str) -> bool:
    """Whether words of a kind, ``wanting`` or ``against``, stand anywhere in a message."""
    return _words_of(kind).search(simple(message)) is not None


def simple(text: str) -> str:
    """A text in small letters, without accents, and without what stands around it. Words stay apart."""
    apart = unicodedata.normalize("NFKD", text.casefold().translate(LETTERS))
    plain = "".join(letter for letter in apart if not unicodedata.combining(letter)).translate(LETTERS)
    return " ".join(plain.split()).strip(AROUND)


def _own_words(message: str, found: re.Match[str], part: str) -> str:
    """A part of what was found, as it was written in the message."""
    if not found[part]:
        return ""
    written = [word for word in message.split() if simple(word)]
    if len(written) != len(found.string.split()):
        return found[part].strip(AROUND)
    first = found.string.count(" ", 0, found.start(part))
    last = first + found[part].strip().count(" ")
    if found.string[: found.start(part)].endswith("'"):
        written[first] = APOSTROPHE.split(written[first])[-1]
    return " ".join(written[first : last + 1]).strip(AROUND)


@cache
def _patterns() -> dict[str, tuple[tuple[str, re.Pattern[str]], ...]]:
    """The patterns of each kind, with their languages."""
    return {
        kind: tuple(
            (language, re.compile(pattern.replace("{my}", said["my"]).replace("{no}", said["denial"])))
            for language, said in _read().items()
            for pattern in said[kind]
        )
        for kind in KINDS
    }


@cache
def _words_of(kind: str) -> re.Pattern[str]:
    """Words of a kind in all languages, as one pattern."""
    return re.compile(rf"\b(?:{'|'.join(said[kind] for said in _read().values())})\b")


@cache
def _read() -> dict[str, dict[str, str]]:
    text = resources.files("clew.companion").joinpath("sayings.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
