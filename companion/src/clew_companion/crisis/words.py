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
_SMALL_CAPITALS = str.maketrans("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnoprstuvwyz")
_SQUARE_LETTERS = {
    first + at: ord("a") + at for first in (0x1F130, 0x1F150, 0x1F170, 0x1F1E6) for at in range(26)
}
"""Letters in squares and circles, and those that flags are made of."""
_FOREIGN_LOOKALIKES = str.maketrans(
    "авеѕіјкмноԛрсԁтуԝхһӏԍԑзгп" + "αβγδεικνορστυχω", "abesijkmhoqpcdtywxhlgezrn" + "abydeikvopotuxw"
)
"""Cyrillic and Greek letters by the Latin ones that they look like."""
_FOREIGN_LETTER = re.compile(r"[Ͱ-Ͽа-ԯ]")
_FOREIGN_WORD = re.compile(r"\w*[Ͱ-Ͽа-ԯ]\w*")
_LATIN_LETTER = re.compile(r"[a-z]")
_LETTER_SPELLING = {"ł": "l", "ø": "o", "ß": "ss", "đ": "d", "æ": "ae", "œ": "oe"}
_STRETCH = re.compile(r"(\w)\1{2,}")
_INNER_MARKS = re.compile(r"(?<=\w)[!*.\-_]+(?=\w)")
_EDGE_MARKS = "¿¡-_~'’‘`´*#&/\\[]{}<>=+%^|"
_LETTER_SPACING = re.compile(r"(?<!\S)(?:\w[ .\-_*·•|/]){2,}\w(?=[.!?,]*(?!\S))")
_LETTER_PAIR = re.compile(r"(?<!\S)(\w)[ .\-_](\w)(?!\S)")
_INNER_DOT = re.compile(r"\b(\w+)[.·•](\w+)\b")
_VOWELS = "aeiou"
SHORTEST_WORD = 5
"""Shorter words are not corrected: too many others are one letter away."""
SHORTEST_RUN = 5
"""A word of fewer letters is no words run together."""


class Spelling(msgspec.Struct, frozen=True, kw_only=True):
    """The spellings of words, and the words in which typing errors are looked for.

    ``meanings`` gives the plain words for slang, shorthand and emoji; ``nearest`` the word that a misspelt
    one is near to; ``correct_words`` are words that are right as they are; no word of ``longest`` letters is
    corrected. ``run_words`` are those that are found in words run together.
    """

    meanings: Mapping[str, str]
    nearest: Mapping[str, str]
    correct_words: frozenset[str]
    longest: int
    run_words: frozenset[str] = frozenset()


def make_spelling(
    meanings: Mapping[str, str],
    keys: Iterable[str],
    correct_words: Iterable[str],
    run_words: Iterable[str] = (),
) -> Spelling:
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
        run_words=frozenset(run_words),
    )


def simplify_text(text: str) -> str:
    """Small letters, no accents, no apostrophes; ``l'eau`` is two words, ``don't`` is one."""
    letters = text.lower().replace("i̇", "i").translate(_LETTER_TABLE)
    if not letters.isascii():
        letters = letters.translate(_SQUARE_LETTERS).translate(_SMALL_CAPITALS)
        letters = "".join(_LETTER_SPELLING.get(sign, sign) for sign in unicodedata.normalize("NFKD", letters))
        letters = "".join(sign for sign in letters if not unicodedata.combining(sign))
        letters = _replace_lookalikes(letters)
    if "'" in letters or "’" in letters or "`" in letters:
        letters = _APOSTROPHES.sub("", _ELISION.sub(r"\1 ", letters))
    return letters


def _replace_lookalikes(text: str) -> str:
    """Latin letters for foreign ones among them; a text without a Latin letter is in another script."""
    if not _FOREIGN_LETTER.search(text) or not _LATIN_LETTER.search(text):
        return text
    return _FOREIGN_WORD.sub(lambda match: _latin_word(match[0]), text)


def _latin_word(word: str) -> str:
    """A word in Latin letters, if it has some already, or if all of it can be read so."""
    latin = word.translate(_FOREIGN_LOOKALIKES)
    return latin if _LATIN_LETTER.search(word) or not _FOREIGN_LETTER.search(latin) else word


def tokenize(text: str, spelling: Spelling) -> list[str]:
    """The plain words of a message, with the marks between them."""
    tokens: list[str] = []
    plain_text = _join_dotted_words(_join_letters(_separate_emoji(simplify_text(text))), spelling)
    for piece in _PIECES.findall(_separate_marks(plain_text)):
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
    joined, count = _LETTER_SPACING.subn(lambda match: re.sub(r"[ .\-_*·•|/]", "", match[0]), text)
    return _LETTER_PAIR.sub(r"\1\2", joined) if count > 1 else joined


def _join_dotted_words(text: str, spelling: Spelling) -> str:
    """A word with a dot in it, joined, if it is a key word then: ``sui.cide``."""
    if "." not in text and "·" not in text and "•" not in text:
        return text
    keys = spelling.nearest
    return _INNER_DOT.sub(
        lambda match: (
            match[1] + match[2] if keys.get(match[1] + match[2]) == match[1] + match[2] else match[0]
        ),
        text,
    )


def _separate_marks(text: str) -> str:
    """Marks within words as what they stand for: a disguise, a hyphen or a full stop."""
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
    return _words_run_together(word, spelling) or [_correct_word(word, spelling)]


def _words_run_together(word: str, spelling: Spelling) -> list[str]:
    """The words that a word without blanks is made of; none if that leaves a letter over."""
    if len(word) < SHORTEST_RUN:
        return []
    words_by_end: dict[int, list[str]] = {0: []}
    for end in range(1, len(word) + 1):
        # The longest last word wins: "my self" is "myself".
        start = next(
            (at for at in range(end) if at in words_by_end and word[at:end] in spelling.run_words), None
        )
        if start is not None:
            words_by_end[end] = [*words_by_end[start], word[start:end]]
    return words_by_end.get(len(word), [])


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
