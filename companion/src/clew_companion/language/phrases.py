"""The meaning of short messages in languages other than English, by rules in a file."""

import re
import tomllib
import unicodedata
from functools import cache
from importlib import resources

import msgspec

SAYING_KINDS = (
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
"""The meanings of a message. Those about everything come before those about something."""

LETTER_TABLE = str.maketrans(
    {"ı": "i", "ł": "l", "ß": "ss", "ø": "o", "æ": "ae", "œ": "oe", "’": "'", "`": "'"}
)
OUTER_MARKS = '.,;:!?…¿¡"“”„«»()[] '
APOSTROPHE = re.compile("['’`]")


class Saying(msgspec.Struct, frozen=True, kw_only=True):
    """The meaning of a message, its language, and its subject in its own words.

    A correction has the old words and the new, or what is about and all that is ``said`` of it.
    """

    kind: str
    language: str
    what: str = ""
    old: str = ""
    new: str = ""
    said: str = ""


class LanguagePhrases(msgspec.Struct, frozen=True, kw_only=True):
    """Replies in a language of which little is understood: that this is so, and what can be asked."""

    simple: str
    asks: tuple[str, ...]


def phrases_of(language: str) -> LanguagePhrases | None:
    """The replies in a language; None if it is not in the file."""
    table = _read_sayings().get(language)
    return None if table is None else msgspec.convert(table, LanguagePhrases)


@cache
def languages() -> tuple[str, ...]:
    """The languages of the file."""
    return tuple(_read_sayings())


def saying_in(message: str, *kinds: str) -> Saying | None:
    """The meaning of a message, if it is one of these kinds in any of the languages."""
    plain = normalize_text(message)
    for kind in kinds:
        for language, pattern in _patterns()[kind]:
            match = pattern.fullmatch(plain)
            if match is not None:
                parts = {name: _own_words(message, match, name) for name in match.groupdict()}
                return Saying(kind=kind, language=language, **parts)
    return None


def is_saying(message: str, kind: str) -> bool:
    """Return whether a message means this in any of the languages."""
    return saying_in(message, kind) is not None


def mentions(message: str, kind: str) -> bool:
    """Return whether words of a kind, ``wanting`` or ``against``, occur in a message."""
    return _word_pattern(kind).search(normalize_text(message)) is not None


def normalize_text(text: str) -> str:
    """A text in small letters, without accents, and without what is around it. Words stay apart."""
    apart = unicodedata.normalize("NFKD", text.casefold().translate(LETTER_TABLE))
    plain = "".join(letter for letter in apart if not unicodedata.combining(letter)).translate(LETTER_TABLE)
    return " ".join(plain.split()).strip(OUTER_MARKS)


def _own_words(message: str, match: re.Match[str], part: str) -> str:
    """A part of what was found, as it was written in the message."""
    if not match[part]:
        return ""
    message_words = [word for word in message.split() if normalize_text(word)]
    if len(message_words) != len(match.string.split()):
        return match[part].strip(OUTER_MARKS)
    first = match.string.count(" ", 0, match.start(part))
    last = first + match[part].strip().count(" ")
    if match.string[: match.start(part)].endswith("'"):
        message_words[first] = APOSTROPHE.split(message_words[first])[-1]
    return " ".join(message_words[first : last + 1]).strip(OUTER_MARKS)


@cache
def _patterns() -> dict[str, tuple[tuple[str, re.Pattern[str]], ...]]:
    """The patterns of each kind, with their languages."""
    return {
        kind: tuple(
            (language, re.compile(pattern.replace("{my}", table["my"]).replace("{no}", table["denial"])))
            for language, table in _read_sayings().items()
            for pattern in table[kind]
        )
        for kind in SAYING_KINDS
    }


@cache
def _word_pattern(kind: str) -> re.Pattern[str]:
    """Words of a kind in all languages, as one pattern."""
    return re.compile(rf"\b(?:{'|'.join(table[kind] for table in _read_sayings().values())})\b")


@cache
def _read_sayings() -> dict[str, dict[str, str]]:
    text = resources.files("clew_companion").joinpath("sayings.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
