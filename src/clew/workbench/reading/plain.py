"""Plain text and Markdown: from bytes to characters, and where the sections begin. Pure."""

import codecs
import re
from collections.abc import Iterator
from typing import Final

from clew.core.errors import DocumentBroken
from clew.workbench.media_types import MARKDOWN
from clew.workbench.reading.text import Section, Text, titled

MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig", "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32", "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32", "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16", "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16", "utf-16"),
)
"""Byte order marks, how to read on, and what to call it. The longer one of two that begin alike is first."""
GUESSED: Final = "It is not UTF-8 and says no other charset, so it was read as cp1252."
LOST: Final = "Some bytes mean nothing in its charset and are shown as \ufffd."
DECLARED: Final = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
NO_CHARSETS: Final = frozenset(
    ("idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7")
)
HEADING: Final = re.compile(r"#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*$")
FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")


def plain_text(content: bytes, name: str, type: str) -> Text:
    """The text of a file that is one.

    Raises:
        DocumentBroken: Its bytes are not in the charset that its beginning says.
    """
    text, charset, notes = decoded(content, name)
    found = headings(text) if type == MARKDOWN else pages(text)
    return Text(type=type, text=text, sections=tuple(found), charset=charset, notes=notes)


def decoded(content: bytes, name: str, *, declared: str | None = None) -> tuple[str, str, tuple[str, ...]]:
    """The characters of a file, the charset that they are in, and what was guessed.

    What is UTF-8 is read as such, whatever is declared.

    Raises:
        DocumentBroken: Its bytes are not in the charset that its beginning says.
    """
    for mark, codec, charset in MARKS:
        if content.startswith(mark):
            try:
                return _even(content.decode(codec)), charset, ()
            except UnicodeDecodeError as error:
                raise DocumentBroken(document=name, problem=f"it says {charset}, and is not") from error
    try:
        return _even(content.decode("utf-8")), "utf-8", ()
    except UnicodeDecodeError:
        text = _even(content.decode(declared or "cp1252", errors="replace"))
        lost = (LOST,) if "\ufffd" in text else ()
        return text, declared or "cp1252", lost if declared else (GUESSED, *lost)


def declared_charset(content: bytes) -> str | None:
    """The charset that a page says it is in, if there is one of that name."""
    said = DECLARED.search(content[:2048])
    if said is None:
        return None
    try:
        found = codecs.lookup(said[1].decode("ascii")).name
        b"x".decode(found, "replace")
    except (LookupError, UnicodeError):
        return None
    return None if found in NO_CHARSETS else found


def _even(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "\ufffd")


def pages(text: str) -> Iterator[Section]:
    """The pages of a plain text, which form feeds part; none if there is only one."""
    starts = [0, *(match.end() for match in re.finditer("\f", text))]
    if len(starts) > 1:
        yield from (Section(name=f"page {number}", start=start) for number, start in enumerate(starts, 1))


def headings(text: str) -> Iterator[Section]:
    """The headings of a Markdown text; those inside of code are none."""
    start, fence = 0, ""
    for line in text.splitlines(keepends=True):
        marks = FENCE.match(line)
        if marks and (not fence or marks[1].startswith(fence)):
            fence = "" if fence else marks[1]
        elif not fence and (heading := HEADING.match(line.rstrip("\n"))):
            yield Section(name=titled(heading[1]), start=start)
        start += len(line)
