"""The process that reads PDF and HTML: a file comes in, its text goes out, and limits end it if it must be.

It runs by its path, apart from the package, so that a hostile file meets as little as can be: it is given no
variables of the environment, can write no file, and has only so much time and memory.
"""

import io
import json
import logging
import resource
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

MIB: Final = 1024 * 1024
CELLS: Final = ("td", "th")
LINES: Final = ("br", "dd", "dt", "figcaption", "hr", "li", "summary", "tr")
"""Elements that begin and end a line."""
HEADINGS: Final = ("h1", "h2", "h3", "h4", "h5", "h6")
PARAGRAPHS: Final = (
    *("address", "article", "aside", "blockquote", "body", "caption", "details", "dialog", "div", "dl"),
    *("fieldset", "figure", "footer", "form", "header", "html", "main", "nav", "ol", "p", "pre", "section"),
    *("table", "ul", *HEADINGS),
)
"""Elements that have an empty line after them."""
BLOCKS: Final = frozenset((*CELLS, *LINES, *PARAGRAPHS))
INVISIBLE: Final = frozenset(
    ("head", "iframe", "math", "noscript", "object", "script", "style", "svg", "template", "title")
)


class UnreadableFile(Exception):
    """Raised for a file that cannot be read, with a code for the reason and its details."""

    def __init__(self, reason: str, **facts: Any) -> None:
        super().__init__(reason)
        self.report = {"refused": reason, **facts}


def limit_process(seconds: int, memory: int) -> None:
    """Take from this process what it does not need."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


# PDF.


def read_pdf(content: bytes, pages: int, characters: int) -> dict[str, Any]:
    """The text of a PDF, a section for each page."""
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, PyPdfError

    try:
        reader = PdfReader(io.BytesIO(content))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableFile("encrypted")
        count = len(reader.pages)
        if count > pages:
            raise UnreadableFile("large", what="pages", size=count, limit=pages)
        return _read_pages(reader, count, characters)
    except DependencyError as error:
        raise UnreadableFile("encrypted") from error
    except (PyPdfError, RecursionError, *_DAMAGE_ERRORS) as error:
        raise UnreadableFile("broken", problem=_error_text(error)) from error


_DAMAGE_ERRORS: Final = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    NotImplementedError,
    OSError,
)
"""What a reader of a damaged file stumbles over."""


def _error_text(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def _read_pages(reader: Any, count: int, characters: int) -> dict[str, Any]:
    parts: list[str] = []
    sections, notes, size, has_content = [], [], 0, False
    for number in range(count):
        sections.append([f"page {number + 1}", size])
        try:
            page = reader.pages[number]
            text = _clean(page.extract_text())
            has_content = has_content or bool(text.strip()) or _has_drawing(page)
        except (RecursionError, *_DAMAGE_ERRORS) as error:
            notes.append(f"Page {number + 1} could not be read: {_error_text(error)}.")
            text, has_content = "", True
        parts.append(f"{text.strip()}\n\n")
        size += len(parts[-1])
        if size > characters:
            raise UnreadableFile("large", what="characters", size=size, limit=characters)
    full_text = "".join(parts)
    if len(notes) == count and count:
        raise UnreadableFile("broken", problem=notes[0])
    if not full_text.strip():
        raise UnreadableFile("pictures", pages=count) if has_content else UnreadableFile("empty")
    return {"text": full_text, "sections": sections, "notes": notes[:20]}


def _has_drawing(page: Any) -> bool:
    contents = page.get_contents()
    return contents is not None and bool(contents.get_data().strip())


def _clean(text: str) -> str:
    """Text without halves of surrogate pairs, which a font may give, and without NUL."""
    characters = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return characters.replace("\x00", "")


# HTML.


def read_html(content: bytes, characters: int) -> dict[str, Any]:
    """The text of a page, a section for each heading."""
    from bs4 import BeautifulSoup

    try:
        soup = BeautifulSoup(content.decode(), "html.parser")
    except (RecursionError, AssertionError, *_DAMAGE_ERRORS) as error:
        raise UnreadableFile("broken", problem=_error_text(error)) from error
    writer = _TextWriter(characters)
    if soup.title is not None and (title := " ".join(soup.title.get_text().split())):
        writer.take("text", title)
        writer.end_line("p")
    for event in _tree_events(soup):
        writer.take(*event)
    if not "".join(writer.parts).strip():
        raise UnreadableFile("empty")
    return {"text": "".join(writer.parts), "sections": writer.sections, "notes": []}


def _tree_events(soup: Any) -> Iterator[tuple[str, str]]:
    """The contents of a tree in order, without recursion: starts and ends of blocks, and texts."""
    from bs4.element import NavigableString, PreformattedString, Tag

    stack: list[Any] = [soup]
    pre_depth = 0
    while stack:
        node = stack.pop()
        if isinstance(node, tuple):
            pre_depth -= node[1] == "pre"
            yield node
        elif isinstance(node, Tag) and node.name not in INVISIBLE:
            pre_depth += node.name == "pre"
            if node.name in BLOCKS:
                yield "begin", node.name
                stack.append(("end", node.name))
            stack.extend(reversed(node.contents))
            if node.name == "img" and node.get("alt"):
                yield "text", f"[{node['alt']}]"
        elif isinstance(node, NavigableString) and not isinstance(node, PreformattedString):
            yield "kept" if pre_depth else "text", str(node)


class _TextWriter:
    """Text as it is put together, line by line."""

    def __init__(self, characters: int) -> None:
        self.parts: list[str] = []
        self.sections: list[list[Any]] = []
        self._limit = characters
        self._size = 0
        self._line = ""

    def take(self, kind: str, value: str) -> None:
        """Take in what a tree says next."""
        if kind == "text":
            self._line += value
        elif kind == "kept":
            self._add(value.strip("\n"), "\n")
        elif value in CELLS:
            self._line += " | " if kind == "begin" and self._line.strip() else ""
        else:
            self.end_line(value if kind == "end" else "")
            self._line = "- " if (kind, value) == ("begin", "li") else ""

    def end_line(self, block: str) -> None:
        """End a line, which belongs to a block if it ends too."""
        text, self._line = " ".join(self._line.split()), ""
        if text and block in HEADINGS:
            self.sections.append([text, self._size])
        if text.strip("-"):
            self._add(text, "\n")
        if block in PARAGRAPHS and self.parts and self.parts[-1] != "\n":
            self._add("", "\n")

    def _add(self, text: str, end: str) -> None:
        self.parts.append(_clean(text) + end)
        self._size += len(self.parts[-1])
        if self._size > self._limit:
            raise UnreadableFile("large", what="characters", size=self._size, limit=self._limit)


def main(arguments: list[str], file: BinaryIO) -> dict[str, Any]:
    """Read one file as the arguments say: the kind, seconds, MiB, pages and characters."""
    kind, (seconds, memory, pages, characters) = arguments[0], map(int, arguments[1:])
    logging.disable()
    limit_process(seconds, memory * MIB)
    content = file.read()
    try:
        return read_pdf(content, pages, characters) if kind == "pdf" else read_html(content, characters)
    except UnreadableFile as error:
        return error.report
    except MemoryError:
        return {"refused": "slow"}


if __name__ == "__main__":
    json.dump(main(sys.argv[1:], sys.stdin.buffer), sys.stdout)
