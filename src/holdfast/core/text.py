"""The words of an item: what a search index holds and what a reader sees, whatever the format."""

import re
import unicodedata
from collections.abc import Iterator

from holdfast.core.encoding import JSON
from holdfast.core.values import Item

WORD = re.compile(r"[^\W_]+")
SPOKEN = ("text", "content", "output", "arguments", "summary", "thinking", "refusal", "parts")


def text_of(item: Item) -> str:
    """The readable text of an item; empty if it has none."""
    return "\n".join(_texts(item.body)) if item.codec == "json" else ""


def _texts(body: JSON) -> Iterator[str]:
    if isinstance(body, str):
        yield body
    elif isinstance(body, list):
        for part in body:
            yield from _texts(part)
    elif isinstance(body, dict):
        for name in SPOKEN:
            if name in body:
                yield from _texts(body[name])


def words(text: str) -> list[str]:
    """The words of a text, folded: without case and accents."""
    if text.isascii():
        return WORD.findall(text.lower())
    plain = unicodedata.normalize("NFKD", text)
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return WORD.findall(plain.casefold())
