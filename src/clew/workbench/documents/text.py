"""The text of a document in its sections: look at a part of it, find words in it. Pure."""

import codecs
import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from clew.core.errors import DocumentBroken, InvalidArgument
from clew.core.text.excerpts import excerpt
from clew.core.text.words import stem, words
from clew.workbench.volume.media_types import MARKDOWN

LONGEST_TITLE: Final = 120
LONGEST_PASSAGE: Final = 20_000
"""So many characters are looked at in one go."""
LONGEST_PARAGRAPH: Final = 1000
PARAGRAPH_BREAK: Final = re.compile(r"\n[ \t]*\n\s*|\n(?=#)|\f")


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A page, or the text below a heading; ``start`` counts the characters before it."""

    name: str
    start: int


class DocumentText(msgspec.Struct, frozen=True, kw_only=True):
    """All that is to be read in a document. ``notes`` say what was not read, or was guessed."""

    type: str
    text: str
    sections: tuple[Section, ...] = ()
    charset: str | None = None
    notes: tuple[str, ...] = ()


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a text, the section that it begins in, and where the next part begins if there is one."""

    text: str
    start: int
    characters: int
    section: str = ""
    next: int | None = None


class DocumentMatch(msgspec.Struct, frozen=True, kw_only=True):
    """A match of searched words: ``marks`` are where they begin and end in the excerpt."""

    start: int
    excerpt: str
    section: str = ""
    marks: tuple[tuple[int, int], ...] = ()


def passage_at(text: DocumentText, start: int = 0, length: int = 4000) -> Passage:
    """A part of a text.

    Raises:
        InvalidArgument: There is no such part.
    """
    size = len(text.text)
    if not 0 <= start <= size or not 1 <= length <= LONGEST_PASSAGE:
        problem = (
            f"The document has {size} characters: start from 0 to that, "
            f"and take 1 to {LONGEST_PASSAGE} of them."
        )
        raise InvalidArgument(problem=problem)
    end = min(start + length, size)
    return Passage(
        text=text.text[start:end],
        start=start,
        characters=size,
        section=section_at(text.sections, start),
        next=end if end < size else None,
    )


def section_at(sections: Sequence[Section], start: int) -> str:
    """The name of the section that a place is in."""
    return next((section.name for section in reversed(sections) if section.start <= start), "")


def find_matches(text: DocumentText, query: str, limit: int = 10) -> list[DocumentMatch]:
    """The matches of words in any form: first those with most of the words together, then in order.

    Raises:
        InvalidArgument: There are no words to look for.
    """
    query_words = words(query)
    stems = {stem(word) for word in query_words}
    if not stems:
        raise InvalidArgument(problem="Name words to look for.")
    paragraphs = [
        (len(stems & {stem(word) for word in words(part)}), start, part)
        for start, part in _paragraphs(text.text)
    ]
    best = sorted((each for each in paragraphs if each[0]), key=lambda each: (-each[0], each[1]))
    return [_match_at(text, start, part, query_words) for _, start, part in best[:limit]]


def _match_at(text: DocumentText, start: int, part: str, query_words: Sequence[str]) -> DocumentMatch:
    preview = excerpt(part, query_words)
    return DocumentMatch(
        start=start, excerpt=preview.text, marks=preview.marks, section=section_at(text.sections, start)
    )


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """The paragraphs of a text with their places; a long one in parts, cut between words."""
    start = 0
    for match in [*PARAGRAPH_BREAK.finditer(text), None]:
        end = match.start() if match else len(text)
        while end - start > LONGEST_PARAGRAPH:
            cut = max(
                text.rfind(" ", start + LONGEST_PARAGRAPH // 2, start + LONGEST_PARAGRAPH),
                start + LONGEST_PARAGRAPH // 2,
            )
            yield start, text[start:cut]
            start = cut
        if text[start:end].strip():
            yield start, text[start:end]
        start = match.end() if match else end


def section_title(name: str) -> str:
    """The name of a section on one line, not too long."""
    line = " ".join(name.split())
    return line if len(line) <= LONGEST_TITLE else f"{line[: LONGEST_TITLE - 1]}…"


BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig", "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32", "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32", "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16", "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16", "utf-16"),
)
"""Byte order marks, how to read on, and what to call it. The longer one of two that begin alike is first."""
GUESS_NOTE: Final = "It is not UTF-8 and says no other charset, so it was read as cp1252."
LOSS_NOTE: Final = "Some bytes mean nothing in its charset and are shown as \ufffd."
CHARSET_DECLARATION: Final = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE
)
NO_CHARSETS: Final = frozenset(
    ("idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7")
)
HEADING: Final = re.compile(r"#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*$")
FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")


def plain_text(content: bytes, name: str, type: str) -> DocumentText:
    """The text of a file that is one.

    Raises:
        DocumentBroken: Its bytes are not in the charset that its beginning says.
    """
    text, charset, notes = decode_text(content, name)
    sections = headings(text) if type == MARKDOWN else pages(text)
    return DocumentText(type=type, text=text, sections=tuple(sections), charset=charset, notes=notes)


def decode_text(
    content: bytes, name: str, *, fallback_charset: str | None = None
) -> tuple[str, str, tuple[str, ...]]:
    """The characters of a file, the charset that they are in, and what was guessed.

    What is UTF-8 is read as such, whatever is declared.

    Raises:
        DocumentBroken: Its bytes are not in the charset that its beginning says.
    """
    for mark, codec, charset in BYTE_ORDER_MARKS:
        if content.startswith(mark):
            try:
                return _normalize_newlines(content.decode(codec)), charset, ()
            except UnicodeDecodeError as error:
                raise DocumentBroken(document=name, problem=f"it says {charset}, and is not") from error
    try:
        return _normalize_newlines(content.decode("utf-8")), "utf-8", ()
    except UnicodeDecodeError:
        text = _normalize_newlines(content.decode(fallback_charset or "cp1252", errors="replace"))
        loss_notes = (LOSS_NOTE,) if "\ufffd" in text else ()
        return (
            text,
            fallback_charset or "cp1252",
            loss_notes if fallback_charset else (GUESS_NOTE, *loss_notes),
        )


def declared_charset(content: bytes) -> str | None:
    """The charset that a page says it is in, if there is one of that name."""
    declaration = CHARSET_DECLARATION.search(content[:2048])
    if declaration is None:
        return None
    try:
        charset = codecs.lookup(declaration[1].decode("ascii")).name
        b"x".decode(charset, "replace")
    except (LookupError, UnicodeError):
        return None
    return None if charset in NO_CHARSETS else charset


def _normalize_newlines(text: str) -> str:
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
            yield Section(name=section_title(heading[1]), start=start)
        start += len(line)
