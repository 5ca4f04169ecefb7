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
HIDDEN: Final = frozenset(
    ("head", "iframe", "math", "noscript", "object", "script", "style", "svg", "template", "title")
)


class Refused(Exception):
    """Why a file was not read: the name of the reason, and what is known of it."""

    def __init__(self, reason: str, **facts: Any) -> None:
        super().__init__(reason)
        self.told = {"refused": reason, **facts}


def bound(seconds: int, memory: int) -> None:
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
            raise Refused("encrypted")
        count = len(reader.pages)
        if count > pages:
            raise Refused("large", what="pages", size=count, limit=pages)
        return _paged(reader, count, characters)
    except DependencyError as error:
        raise Refused("encrypted") from error
    except (PyPdfError, RecursionError, *_SLIPS) as error:
        raise Refused("broken", problem=_said(error)) from error


_SLIPS: Final = (ValueError, KeyError, TypeError, AttributeError, IndexError, NotImplementedError, OSError)
"""What a reader of a damaged file stumbles over."""


def _said(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def _paged(reader: Any, count: int, characters: int) -> dict[str, Any]:
    parts: list[str] = []
    sections, notes, size, drawn = [], [], 0, False
    for number in range(count):
        sections.append([f"page {number + 1}", size])
        try:
            page = reader.pages[number]
            text = _clean(page.extract_text())
            drawn = drawn or bool(text.strip()) or _is_drawn(page)
        except (RecursionError, *_SLIPS) as error:
            notes.append(f"Page {number + 1} could not be read: {_said(error)}.")
            text, drawn = "", True
        parts.append(f"{text.strip()}\n\n")
        size += len(parts[-1])
        if size > characters:
            raise Refused("large", what="characters", size=size, limit=characters)
    whole = "".join(parts)
    if len(notes) == count and count:
        raise Refused("broken", problem=notes[0])
    if not whole.strip():
        raise Refused("pictures", pages=count) if drawn else Refused("empty")
    return {"text": whole, "sections": sections, "notes": notes[:20]}


def _is_drawn(page: Any) -> bool:
    contents = page.get_contents()
    return contents is not None and bool(contents.get_data().strip())


def _clean(text: str) -> str:
    """Text without halves of surrogate pairs, which a font may give, and without NUL."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.replace("\x00", "")


# HTML.


def read_html(content: bytes, characters: int) -> dict[str, Any]:
    """The text of a page, a section for each heading."""
    from bs4 import BeautifulSoup

    try:
        soup = BeautifulSoup(content.decode(), "html.parser")
    except (RecursionError, AssertionError, *_SLIPS) as error:
        raise Refused("broken", problem=_said(error)) from error
    written = _Written(characters)
    if soup.title is not None and (title := " ".join(soup.title.get_text().split())):
        written.take("text", title)
        written.end("p")
    for said in _walked(soup):
        written.take(*said)
    if not "".join(written.parts).strip():
        raise Refused("empty")
    return {"text": "".join(written.parts), "sections": written.sections, "notes": []}


def _walked(soup: Any) -> Iterator[tuple[str, str]]:
    """What a tree says, in order, without calling itself: begins and ends of blocks, and texts."""
    from bs4.element import NavigableString, PreformattedString, Tag

    rest: list[Any] = [soup]
    kept = 0
    while rest:
        node = rest.pop()
        if isinstance(node, tuple):
            kept -= node[1] == "pre"
            yield node
        elif isinstance(node, Tag) and node.name not in HIDDEN:
            kept += node.name == "pre"
            if node.name in BLOCKS:
                yield "begin", node.name
                rest.append(("end", node.name))
            rest.extend(reversed(node.contents))
            if node.name == "img" and node.get("alt"):
                yield "text", f"[{node['alt']}]"
        elif isinstance(node, NavigableString) and not isinstance(node, PreformattedString):
            yield "kept" if kept else "text", str(node)


class _Written:
    """Text as it is put together, line by line."""

    def __init__(self, characters: int) -> None:
        self.parts: list[str] = []
        self.sections: list[list[Any]] = []
        self._limit = characters
        self._size = 0
        self._line = ""

    def take(self, what: str, said: str) -> None:
        """Take in what a tree says next."""
        if what == "text":
            self._line += said
        elif what == "kept":
            self._add(said.strip("\n"), "\n")
        elif said in CELLS:
            self._line += " | " if what == "begin" and self._line.strip() else ""
        else:
            self.end(said if what == "end" else "")
            self._line = "- " if (what, said) == ("begin", "li") else ""

    def end(self, block: str) -> None:
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
            raise Refused("large", what="characters", size=self._size, limit=self._limit)


def main(arguments: list[str], given: BinaryIO) -> dict[str, Any]:
    """Read one file as the arguments say: the kind, seconds, MiB, pages and characters."""
    kind, (seconds, memory, pages, characters) = arguments[0], map(int, arguments[1:])
    logging.disable()
    bound(seconds, memory * MIB)
    content = given.read()
    try:
        return read_pdf(content, pages, characters) if kind == "pdf" else read_html(content, characters)
    except Refused as refused:
        return refused.told
    except MemoryError:
        return {"refused": "slow"}


if __name__ == "__main__":
    json.dump(main(sys.argv[1:], sys.stdin.buffer), sys.stdout)
