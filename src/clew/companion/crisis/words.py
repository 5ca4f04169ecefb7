"""A message as plain words: without accents, disguise, stretching and typing errors.

A full stop stays as a word of its own, and so do commas and quotation marks: they bound what a "not" reaches.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping

import msgspec

STOP, COMMA, QUOTE = ".", ",", '"'
MARKS = frozenset({STOP, COMMA, QUOTE})
_APOSTROPHES = re.compile(r"(?<=\w)['’‘`´](?=\w)")
_ELIDED = re.compile(r"\b(qu|[cdjlmnst]|un|gl|(?:d|n|s)?[ae]ll|quell|tutt|anch|senz)['’‘`´](?=[aeiouhy])")
_UNSEEN = dict.fromkeys(
    [
        *range(9),
        *range(14, 28),
        *map(ord, "\u00ad\u061c\u180e\ufe0f\ufeff"),
        *range(0x200B, 0x2010),
        *range(0x202A, 0x202F),
        *range(0x2060, 0x2070),
    ]
)
_PIECES = re.compile(r"[.!?;…\n]+|[,:–—()]+|[\"“”„«»]|[^\s.!?;…\n,:–—()\"“”„«»]+|[!$](?=\w)")
_LOOKALIKE = str.maketrans("013457@$!|+", "oieastasiit")
_UNLIKE = str.maketrans("ıłøßđæœ’", "iłøßđæœ'") | _UNSEEN
_SPELT = {"ł": "l", "ø": "o", "ß": "ss", "đ": "d", "æ": "ae", "œ": "oe"}
_STRETCHED = re.compile(r"(\w)\1{2,}")
_INSIDE = re.compile(r"(?<=\w)[!*.\-_]+(?=\w)")
_EDGES = "¿¡-_~'’‘`´*#&/\\[]{}<>=+%^|"
_SPACED = re.compile(r"(?<![^\s])(?:\w[ .\-_]){3,}\w(?![^\s])")
_VOWELS = "aeiou"
SHORTEST = 5
"""Shorter words are not corrected: too many others are one letter away."""


class Spelling(msgspec.Struct, frozen=True, kw_only=True):
    """What words are written as, and which words typing errors are looked for in.

    ``means`` gives the plain words for slang, shorthand and emoji; ``near`` the word that a misspelt one is
    near to; ``known`` are words that are right as they are; no word of ``longest`` letters is corrected.
    """

    means: Mapping[str, str]
    near: Mapping[str, str]
    known: frozenset[str]
    longest: int


def spelling(means: Mapping[str, str], keys: Iterable[str], known: Iterable[str]) -> Spelling:
    """What to correct: key words one letter away, unless what stands there is a word itself."""
    near: dict[str, str] = {}
    for key in sorted(keys):
        if len(key) >= SHORTEST:
            for form in _shortened(key):
                near.setdefault(form, key)
    return Spelling(
        means={simple(word): simple(plain) for word, plain in means.items()},
        near=near,
        known=frozenset(known),
        longest=max(map(len, near.values()), default=0) + 2,
    )


def simple(text: str) -> str:
    """Small letters, no accents, no apostrophes; ``l'eau`` is two words, ``don't`` is one."""
    low = text.lower().replace("i̇", "i").translate(_UNLIKE)
    if not low.isascii():
        low = "".join(_SPELT.get(sign, sign) for sign in unicodedata.normalize("NFKD", low))
        low = "".join(sign for sign in low if not unicodedata.combining(sign))
    if "'" in low or "’" in low or "`" in low:
        low = _APOSTROPHES.sub("", _ELIDED.sub(r"\1 ", low))
    return low


def words(text: str, spelt: Spelling) -> list[str]:
    """The plain words of a message, with the marks between them."""
    found: list[str] = []
    for piece in _PIECES.findall(_joined(_apart(simple(text)))):
        if piece[0] in ".!?;…\n" and not piece[-1].isalnum():
            found.append(STOP)
        elif piece[0] in ",:–—()":
            found.append(COMMA)
        elif piece in '"“”„«»':
            found.append(QUOTE)
        else:
            found.extend(_plain(piece, spelt))
    return found


def _apart(text: str) -> str:
    """Each emoji as a word of its own."""
    if text.isascii():
        return text
    return "".join(f" {sign} " if unicodedata.category(sign) == "So" else sign for sign in text)


def _joined(text: str) -> str:
    """Letters that were written apart, joined: ``k i l l`` is ``kill``."""
    text = _SPACED.sub(lambda found: re.sub(r"[ .\-_]", "", found[0]), text)
    return _INSIDE.sub(lambda found: "-" if found[0] in ".-_" and found[0] != "." else _inner(found[0]), text)


def _inner(sign: str) -> str:
    return {"!": "1", "*": "*"}.get(sign[0], ". " if sign[0] == "." else sign)


def _plain(piece: str, spelt: Spelling) -> list[str]:
    word = piece.strip(_EDGES) or piece
    if word in spelt.means:
        return spelt.means[word].split()
    if word in spelt.known:
        return [word]
    for other in _readings(word):
        if other in spelt.means:
            return spelt.means[other].split()
        if other in spelt.known:
            return [other]
    if "-" in word or "/" in word or "&" in word:
        return [part for half in re.split(r"[-/&]+", word) if half for part in _plain(half, spelt)]
    return [_corrected(word, spelt)]


def _readings(word: str) -> Iterable[str]:
    """What a disguised or stretched word may stand for."""
    if not word.isalpha():
        plain = word.translate(_LOOKALIKE)
        yield plain
        yield plain.replace("-", "")
        if "1" in word:
            yield word.replace("1", "l").translate(_LOOKALIKE)
        if "*" in word:
            yield from (plain.replace("*", vowel) for vowel in _VOWELS)
    if _STRETCHED.search(word):
        yield _STRETCHED.sub(r"\1", word)
        yield _STRETCHED.sub(r"\1\1", word)


def _corrected(word: str, spelt: Spelling) -> str:
    if not SHORTEST - 1 <= len(word) < spelt.longest:
        return word
    for form in _shortened(word):
        key = spelt.near.get(form)
        if key is not None and key[0] == word[0] and abs(len(key) - len(word)) <= 1 and _one_apart(word, key):
            return key
    return word


def _shortened(word: str) -> list[str]:
    """A word, and the word without each of its letters."""
    return [word, *(word[:at] + word[at + 1 :] for at in range(len(word)))]


def _one_apart(left: str, right: str) -> bool:
    """Whether one letter more, less, other, or two swapped make them the same."""
    at = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), None)
    if at is None:
        return True
    swapped = left[at : at + 2] == right[at : at + 2][::-1] and left[at + 2 :] == right[at + 2 :]
    rests = (left[at + 1 :], right[at + 1 :]), (left[at:], right[at + 1 :]), (left[at + 1 :], right[at:])
    return swapped or any(a == b for a, b in rests)
