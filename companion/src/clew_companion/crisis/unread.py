"""Languages that the floor cannot read: said to be unread, and their plain statements asked about.

A script or a language is recognised by its letters and its commonest words. Nobody who speaks them reviewed
``unreviewed/``, so a statement there holds against no model: it asks for a judge or, without one, for the
question.
"""

import functools
import importlib.resources
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from clew_companion.crisis.floor import FloorVerdict
from clew_companion.crisis.judgement import AFTER_FAILURE, FLOOR_ONLY, GateDecision
from clew_companion.crisis.lexicon import load_lexicon
from clew_companion.crisis.words import tokenize
from clew_companion.values import CrisisLevel

UNREAD = "unread"
"""The path of a message that nothing has read."""
STATED_REASON, UNREAD_REASON = (
    "states danger in a language that is not read",
    "is in a language that is not read",
)
SCRIPTS = {
    "HIRAGANA": "kana",
    "KATAKANA": "kana",
    "CJK": "han",
    "HANGUL": "hangul",
    "CYRILLIC": "cyrillic",
    "GREEK": "greek",
    "ARABIC": "arabic",
    "DEVANAGARI": "devanagari",
}
"""The scripts of the languages in the folder, by how the names of their letters begin."""
LATIN = "LATIN"
LEAST_SHARE = 0.5
"""The share of letters of another script from which a message is in that script."""
LEAST_WORDS, LEAST_LETTERS = 4, 3
"""A message of fewer words, each of so many letters, does not tell that its language is unknown."""
MOST_KNOWN_SHARE = 0.2
"""The share of its words that may be known of a message whose language is not."""
FOREIGN_LETTER = re.compile("[^\\W\\d_a-zàáâãäåæçèéêëìíîïñòóôõöøùúûüýÿßœąćęłńśźżğış'’ʼ]")
"""A letter of none of the languages that are read."""
LEAST_FOREIGN_WORDS, MOST_FOREIGN_SHARE = 2, 0.3
"""So many words with such letters, and more than such a share of them, are another language."""
COMMON_POINTS, LETTER_POINTS, KNOWN_POINTS = 2.0, 2.0, 0.5
"""What a common word, a letter of its own and a known word count for a language."""
WORD = re.compile(r"[^\W\d_]+(?:['’ʼ][^\W\d_]+)*")
APOSTROPHES = re.compile("['’ʼ`]")


class UnreadLanguage(msgspec.Struct, frozen=True, kw_only=True):
    """A language of the folder: what it is recognised by, its statements, and what is said in it."""

    language: str
    name: str
    script: str
    spaced: bool
    letters: str
    common: str
    negations: str
    statements: tuple[str, ...]
    says: str
    again: str


class UnreadMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that the floor cannot read: its language, empty if that is not known, and what it states."""

    language: str = ""
    is_stated: bool = False


@functools.cache
def unread_languages() -> Mapping[str, UnreadLanguage]:
    """The languages of the folder, by their codes."""
    folder = importlib.resources.files("clew_companion.crisis").joinpath("unreviewed")
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name
    )
    languages = [msgspec.toml.decode(file.read_bytes(), type=UnreadLanguage) for file in files]
    return {each.language: each for each in languages}


def find_unread(text: str) -> UnreadMessage | None:
    """The language of a message that is not read, and whether it states danger; None if it is read."""
    script = _other_script(text)
    stated_languages = [
        each.language
        for each in unread_languages().values()
        if each.script == _folder_script(script) and _is_stated(text, each.language)
    ]
    code = _latin_language(text) if script == LATIN else _language_of_script(_folder_script(script), text)
    if stated_languages:
        return UnreadMessage(
            language=code if code in stated_languages else stated_languages[0], is_stated=True
        )
    return None if code is None else UnreadMessage(language=code)


def _folder_script(script: str) -> str:
    """The name that a script has in the folder; empty if no language there is in it."""
    return LATIN.lower() if script == LATIN else SCRIPTS.get(script, "")


def heed_unread(verdict: FloorVerdict, unread: UnreadMessage | None) -> FloorVerdict:
    """A verdict for the safe reply: a statement that nobody has judged yet is asked about."""
    if unread is None or not unread.is_stated:
        return verdict
    return msgspec.structs.replace(verdict, level=max(verdict.level, int(CrisisLevel.UNCLEAR)))


def settle_unread(decision: GateDecision, unread: UnreadMessage | None) -> GateDecision:
    """The decision on a message that no model has judged and the floor could not read: ``path`` says so."""
    is_judged = decision.audit.classifier_path not in (FLOOR_ONLY, AFTER_FAILURE)
    if unread is None or is_judged or decision.level > CrisisLevel.UNCLEAR:
        return decision
    return msgspec.structs.replace(
        decision,
        level=max(decision.level, int(CrisisLevel.UNCLEAR if unread.is_stated else CrisisLevel.NONE)),
        confidence=0.0,
        reason=STATED_REASON if unread.is_stated else UNREAD_REASON,
        audit=msgspec.structs.replace(decision.audit, classifier_path=UNREAD),
    )


def _other_script(text: str) -> str:
    """The script that most letters are in; Latin if a word of it has as much as one Latin letter."""
    counts: Counter[str] = Counter()
    for word in WORD.findall(text):
        scripts = [_script_of(letter) for letter in word]
        counts.update([LATIN] * len(scripts) if LATIN in scripts else scripts)
    if not counts:
        return LATIN
    others = {script: count for script, count in counts.items() if script != LATIN}
    if sum(others.values()) <= LEAST_SHARE * counts.total():
        return LATIN
    return (
        "HIRAGANA" if {"HIRAGANA", "KATAKANA"} & others.keys() else max(others, key=lambda each: others[each])
    )


@functools.lru_cache(maxsize=4096)
def _script_of(letter: str) -> str:
    """The first word of a letter's name, which is its script."""
    return unicodedata.name(letter, LATIN).split()[0].partition("-")[0]


def _language_of_script(script: str, text: str) -> str:
    """The language of a text in some script, by its letters and commonest words; empty if none is known."""
    languages = [each for each in unread_languages().values() if each.script == script]
    if len(languages) <= 1:
        return languages[0].language if languages else ""
    points = {each.language: _points(each, text) for each in languages}
    return max(points, key=lambda code: points[code])


def _latin_language(text: str) -> str | None:
    """The unread language that a Latin text is in; empty if it is not known, and None if it is read."""
    lexicon = load_lexicon()
    tokens, signs = set(tokenize(text, lexicon.spelling)), set(text.lower())
    read_points = max(
        COMMON_POINTS * len(tokens & language.common_words)
        + KNOWN_POINTS * sum(word in language.phrases_by_word for word in tokens)
        + LETTER_POINTS * len(signs & language.letters)
        for language in lexicon.languages.values()
    )
    points = {
        code: _points(language, text)
        for code, language in unread_languages().items()
        if language.script == LATIN.lower()
    }
    best, word_count = max(points, key=lambda code: points[code]), len(WORD.findall(text))
    least_points = COMMON_POINTS if word_count < LEAST_WORDS else 2 * COMMON_POINTS
    if points[best] >= least_points and points[best] > read_points:
        return best
    return "" if _is_unknown(text, tokens) else None


def _is_unknown(text: str, tokens: set[str]) -> bool:
    """Return whether a Latin text is in no known language, by its letters or by its words."""
    lexicon, text_words = load_lexicon(), WORD.findall(text.casefold())
    foreign_count = sum(
        bool(FOREIGN_LETTER.search(unicodedata.normalize("NFC", word))) for word in text_words
    )
    if foreign_count >= LEAST_FOREIGN_WORDS and foreign_count > MOST_FOREIGN_SHARE * len(text_words):
        return True
    words = {word for word in tokens if len(word) >= LEAST_LETTERS and word.isalpha()}
    has_own_letters = any(set(text.lower()) & language.letters for language in lexicon.languages.values())
    common_count = max(len(tokens & language.common_words) for language in lexicon.languages.values())
    return (
        len(words) >= LEAST_WORDS
        and common_count <= 1
        and not has_own_letters
        and len(words & lexicon.spelling.correct_words) <= MOST_KNOWN_SHARE * len(words)
    )


def _points(language: UnreadLanguage, text: str) -> float:
    words, letters = set(WORD.findall(text.casefold())), set(text.casefold())
    common_count = len(words & set(language.common.split()))
    letter_count = len(letters & set(language.letters))
    return COMMON_POINTS * common_count + LETTER_POINTS * letter_count


def _is_stated(text: str, code: str) -> bool:
    """Return whether a text has one of a language's statements, and no negation just before it."""
    plain = _plain_text(text, is_spaced=unread_languages()[code].spaced)
    negations = tuple(
        _plain_text(word, is_spaced=True).rstrip() for word in unread_languages()[code].negations.split()
    )
    for match in _statement_pattern(code).finditer(plain):
        before = plain[: match.start()].rstrip()
        if not negations or not before.endswith(negations):
            return True
    return False


@functools.cache
def _statement_pattern(code: str) -> re.Pattern[str]:
    language = unread_languages()[code]
    if not language.spaced:
        return re.compile("|".join(each.replace(" ", "") for each in language.statements))
    phrases = [re.escape(_plain_text(each, is_spaced=True).strip()) for each in language.statements]
    return re.compile(rf"(?<= )(?:{'|'.join(phrases)})(?= )")


def _plain_text(text: str, *, is_spaced: bool) -> str:
    """Small letters without accents, one space around each word; without any space where none is written."""
    if not is_spaced:
        return "".join(unicodedata.normalize("NFC", text).split())
    apart = unicodedata.normalize("NFKD", APOSTROPHES.sub("", text.casefold()))
    letters = "".join(letter for letter in apart if not unicodedata.combining(letter))
    return f" {' '.join(WORD.findall(letters))} "


def unread_texts(language: str) -> Sequence[str]:
    """The words to who writes in a language, first and later ones; none if it is not in the folder."""
    entry = unread_languages().get(language)
    return () if entry is None else (entry.says, entry.again)
