"""The words of an item: what a search index holds and what a reader sees, whatever the format."""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from clew.core.encoding import JSON
from clew.core.values import Item

WORD = re.compile(r"[^\W_]+")
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,63}")
SHORT_SYLLABLE = re.compile(r"(^|[^aeiou])[aeiou][bdgklmnprt]$")
SHORT = 3
VOWELS = frozenset("aeiouy")
ROLES = frozenset(
    ["", "user", "assistant", "system", "developer", "tool", "function", "model", "human", "ai"]
)
"""The parts that are played in a conversation; any other role is a name."""

TEXT_FIELDS = ("text", "content", "output", "arguments", "summary", "thinking", "refusal", "parts")


def text_of(item: Item) -> str:
    """The readable text of an item; empty if it has none."""
    return "\n".join(_texts(item.body)) if item.codec == "json" else ""


def speaker_of(item: Item) -> str:
    """The name of the person who said something; empty if it is only known which part they play."""
    if item.kind != "message":
        return ""
    name = item.body.get("name") if isinstance(item.body, dict) else None
    if isinstance(name, str):
        return name
    return "" if item.role in ROLES else item.role


def _texts(body: JSON) -> Iterator[str]:
    if isinstance(body, str):
        yield body
    elif isinstance(body, list):
        for part in body:
            yield from _texts(part)
    elif isinstance(body, dict):
        for name in TEXT_FIELDS:
            if name in body:
                yield from _texts(body[name])


def is_label(text: str) -> bool:
    """Return whether a text is a name of one word, not something that a person said."""
    return LABEL.fullmatch(text) is not None


def words(text: str) -> list[str]:
    """The words of a text, folded: without case and accents."""
    if text.isascii():
        return WORD.findall(text.lower())
    plain = unicodedata.normalize("NFKD", text)
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return WORD.findall(plain.casefold())


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """The stem of a word, by the commonest endings of English: walk, walks, walking.

    It is rough on purpose. What is not English mostly stays apart from what it should not meet.
    """
    if not word.isascii():
        return word
    word = _without_suffix(_singular(word))
    if len(word) > SHORT and word[-1] == "e":
        return word[:-1]
    return f"{word[:-1]}i" if len(word) > SHORT and word[-1] == "y" else word


def _singular(word: str) -> str:
    if len(word) <= SHORT:
        return word
    if word.endswith(("ies", "ied")):
        return f"{word[:-3]}y"
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-2] if word.endswith("sses") else word[:-1]
    return word


def _without_suffix(word: str) -> str:
    for suffix in ("ing", "ed"):
        rest = word.removesuffix(suffix)
        if rest != word and len(rest) >= SHORT and not VOWELS.isdisjoint(rest):
            is_doubled = rest[-1] == rest[-2] and rest[-1] not in "lsz"
            return rest[:-1] if is_doubled else rest
    return word


def forms(word: str) -> list[str]:
    """A word and the other forms that it may have, itself first. Not every one of them is a word."""
    if not word.isascii() or not word.isalpha():
        return [word]
    root = stem(word)
    bases = [root, f"{root}e"]
    if root.endswith("i"):
        bases = [f"{root[:-1]}y"]
    candidates = [form for base in bases for form in _inflections(base)]
    return [word, *(form for form in dict.fromkeys(candidates) if form != word and stem(form) == root)]


def _inflections(base: str) -> list[str]:
    """A word with each of the endings."""
    if base.endswith("e"):
        return [base, f"{base}s", f"{base}d", f"{base[:-1]}ing"]
    if base.endswith("y"):
        return [base, f"{base}s", f"{base[:-1]}ies", f"{base[:-1]}ied", f"{base}ed", f"{base}ing"]
    plural = f"{base}es" if base.endswith(("s", "x", "z", "ch", "sh", "o")) else f"{base}s"
    double_base = f"{base}{base[-1]}" if SHORT_SYLLABLE.search(base) else base
    return [base, plural, f"{base}ed", f"{base}ing", f"{double_base}ed", f"{double_base}ing"]
