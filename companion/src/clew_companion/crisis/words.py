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
_ELISION = re.compile(r"\b(qu|[cdjlmnst]|un|gl|(?:d|n|s)?[ae]ll|quell|tutt|anch|senz)['’‘`´](?=[aeiouhy])")
_INVISIBLE = dict.fromkeys(
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
_LOOKALIKES = str.maketrans("013457@$!|+", "oieastasiit")
_LETTER_TABLE = str.maketrans("ıłøßđæœ’", "iłøßđæœ'") | _INVISIBLE
_LETTER_SPELLING = {"ł": "l", "ø": "o", "ß": "ss", "đ": "d", "æ": "ae", "œ": "oe"}
_STRETCH = re.compile(r"(\w)\1{2,}")
_INNER_MARKS = re.compile(r"(?<=\w)[!*.\-_]+(?=\w)")
_EDGE_MARKS = "¿¡-_~'’‘`´*#&/\\[]{}<>=+%^|"
_LETTER_SPACING = re.compile(r"(?<![^\s])(?:\w[ .\-_]){3,}\w(?![^\s])")
_VOWELS = "aeiou"
SHORTEST_WORD = 5
"""Shorter words are not corrected: too many others are one letter away."""


class Spelling(msgspec.Struct, frozen=True, kw_only=True):
    """The spellings of words, and the words in which typing errors are looked for.

    ``meanings`` gives the plain words for slang, shorthand and emoji; ``nearest`` the word that a misspelt
    one is near to; ``correct_words`` are words that are right as they are; no word of ``longest`` letters is
    corrected.
    """

    meanings: Mapping[str, str]
    nearest: Mapping[str, str]
    correct_words: frozenset[str]
    longest: int


def make_spelling(meanings: Mapping[str, str], keys: Iterable[str], correct_words: Iterable[str]) -> Spelling:
    """Corrections: key words one letter away, unless the word as typed exists."""
    nearest: dict[str, str] = {}
    for key in sorted(keys):
        if len(key) >= SHORTEST_WORD:
            for form in _deletion_forms(key):
                nearest.setdefault(form, key)
    return Spelling(
        meanings={simplify_text(word): simplify_text(plain) for word, plain in meanings.items()},
        nearest=nearest,
        correct_words=frozenset(correct_words),
        longest=max(map(len, nearest.values()), default=0) + 2,
    )


def simplify_text(text: str) -> str:
    """Small letters, no accents, no apostrophes; ``l'eau`` is two words, ``don't`` is one."""
    letters = text.lower().replace("i̇", "i").translate(_LETTER_TABLE)
    if not letters.isascii():
        letters = "".join(_LETTER_SPELLING.get(sign, sign) for sign in unicodedata.normalize("NFKD", letters))
        letters = "".join(sign for sign in letters if not unicodedata.combining(sign))
    if "'" in letters or "’" in letters or "`" in letters:
        letters = _APOSTROPHES.sub("", _ELISION.sub(r"\1 ", letters))
    return letters


def tokenize(text: str, spelling: Spelling) -> list[str]:
    """The plain words of a message, with the marks between them."""
    tokens: list[str] = []
    for piece in _PIECES.findall(_join_letters(_separate_emoji(simplify_text(text)))):
        if piece[0] in ".!?;…\n" and not piece[-1].isalnum():
            tokens.append(STOP)
        elif piece[0] in ",:–—()":
            tokens.append(COMMA)
        elif piece in '"“”„«»':
            tokens.append(QUOTE)
        else:
            tokens.extend(_plain_words(piece, spelling))
    return tokens


def _separate_emoji(text: str) -> str:
    """Each emoji as a word of its own."""
    if text.isascii():
        return text
    return "".join(f" {sign} " if unicodedata.category(sign) == "So" else sign for sign in text)


def _join_letters(text: str) -> str:
    """Letters that were written apart, joined: ``k i l l`` is ``kill``."""
    text = _LETTER_SPACING.sub(lambda match: re.sub(r"[ .\-_]", "", match[0]), text)
    return _INNER_MARKS.sub(
        lambda found: "-" if found[0] in ".-_" and found[0] != "." else _separator_for(found[0]), text
    )


def _separator_for(sign: str) -> str:
    return {"!": "1", "*": "*"}.get(sign[0], ". " if sign[0] == "." else sign)


def _plain_words(piece: str, spelling: Spelling) -> list[str]:
    word = piece.strip(_EDGE_MARKS) or piece
    if word in spelling.meanings:
        return spelling.meanings[word].split()
    if word in spelling.correct_words:
        return [word]
    for other in _possible_words(word):
        if other in spelling.meanings:
            return spelling.meanings[other].split()
        if other in spelling.correct_words:
            return [other]
    if "-" in word or "/" in word or "&" in word:
        return [part for half in re.split(r"[-/&]+", word) if half for part in _plain_words(half, spelling)]
    return [_correct_word(word, spelling)]


def _possible_words(word: str) -> Iterable[str]:
    """The words that a disguised or stretched word may mean."""
    if not word.isalpha():
        plain = word.translate(_LOOKALIKES)
        yield plain
        yield plain.replace("-", "")
        if "1" in word:
            yield word.replace("1", "l").translate(_LOOKALIKES)
        if "*" in word:
            yield from (plain.replace("*", vowel) for vowel in _VOWELS)
    if _STRETCH.search(word):
        yield _STRETCH.sub(r"\1", word)
        yield _STRETCH.sub(r"\1\1", word)


def _correct_word(word: str, spelling: Spelling) -> str:
    if not SHORTEST_WORD - 1 <= len(word) < spelling.longest:
        return word
    for form in _deletion_forms(word):
        key = spelling.nearest.get(form)
        if (
            key is not None
            and key[0] == word[0]
            and abs(len(key) - len(word)) <= 1
            and _is_one_edit_apart(word, key)
        ):
            return key
    return word


def _deletion_forms(word: str) -> list[str]:
    """A word, and the word without each of its letters."""
    return [word, *(word[:at] + word[at + 1 :] for at in range(len(word)))]


def _is_one_edit_apart(left: str, right: str) -> bool:
    """Return whether one letter more, less, other, or two swapped make them the same."""
    at = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), None)
    if at is None:
        return True
    is_swap = left[at : at + 2] == right[at : at + 2][::-1] and left[at + 2 :] == right[at + 2 :]
    rests = (left[at + 1 :], right[at + 1 :]), (left[at:], right[at + 1 :]), (left[at + 1 :], right[at:])
    return is_swap or any(a == b for a, b in rests)
