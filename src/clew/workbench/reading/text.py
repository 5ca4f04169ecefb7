"""The text of a document in its sections: look at a part of it, find words in it. Pure."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from clew.core.errors import InvalidArgument
from clew.core.excerpts import excerpt
from clew.core.text import stem, words

NAME: Final = 120
LONGEST: Final = 20_000
"""So many characters are looked at in one go."""
PASSAGE: Final = 1000
BETWEEN: Final = re.compile(r"\n[ \t]*\n\s*|\n(?=#)|\f")


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A page, or what stands below a heading; ``start`` counts the characters before it."""

    name: str
    start: int


class Text(msgspec.Struct, frozen=True, kw_only=True):
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


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where searched words stand: ``marks`` are where they begin and end in the excerpt."""

    start: int
    excerpt: str
    section: str = ""
    marks: tuple[tuple[int, int], ...] = ()


def peek(text: Text, start: int = 0, length: int = 4000) -> Passage:
    """A part of a text.

    Raises:
        InvalidArgument: There is no such part.
    """
    size = len(text.text)
    if not 0 <= start <= size or not 1 <= length <= LONGEST:
        problem = (
            f"The document has {size} characters: start from 0 to that, and take 1 to {LONGEST} of them."
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


def find(text: Text, searched: str, limit: int = 10) -> list[Place]:
    """Where words stand, in whatever form: first where most of them stand together, then in order.

    Raises:
        InvalidArgument: There are no words to look for.
    """
    looked_for = words(searched)
    stems = {stem(word) for word in looked_for}
    if not stems:
        raise InvalidArgument(problem="Name words to look for.")
    held = [
        (len(stems & {stem(word) for word in words(part)}), start, part)
        for start, part in _passages(text.text)
    ]
    best = sorted((each for each in held if each[0]), key=lambda each: (-each[0], each[1]))
    return [_place(text, start, part, looked_for) for _, start, part in best[:limit]]


def _place(text: Text, start: int, part: str, looked_for: Sequence[str]) -> Place:
    shown = excerpt(part, looked_for)
    return Place(start=start, excerpt=shown.text, marks=shown.marks, section=section_at(text.sections, start))


def _passages(text: str) -> Iterator[tuple[int, str]]:
    """The paragraphs of a text with their places; a long one in parts, cut between words."""
    start = 0
    for match in [*BETWEEN.finditer(text), None]:
        end = match.start() if match else len(text)
        while end - start > PASSAGE:
            cut = max(text.rfind(" ", start + PASSAGE // 2, start + PASSAGE), start + PASSAGE // 2)
            yield start, text[start:cut]
            start = cut
        if text[start:end].strip():
            yield start, text[start:end]
        start = match.end() if match else end


def titled(name: str) -> str:
    """The name of a section on one line, not too long."""
    line = " ".join(name.split())
    return line if len(line) <= NAME else f"{line[: NAME - 1]}…"
