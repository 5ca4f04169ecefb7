"""The media type of a file: by its first bytes, and by its name only where bytes leave it open. Pure."""

from pathlib import PurePosixPath
from typing import Final

UNKNOWN: Final = "application/octet-stream"
TEXT: Final = "text/plain"
HTML: Final = "text/html"
SVG: Final = "image/svg+xml"
PDF: Final = "application/pdf"
MARKDOWN: Final = "text/markdown"
SNIFF_BYTES: Final = 8192
"""So many bytes at the beginning of a file say what it is."""

SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (b"PAR1", "application/vnd.apache.parquet"),
)
TYPES_BY_SUFFIX: Final = {
    ".csv": "text/csv",
    ".htm": HTML,
    ".html": HTML,
    ".js": "text/javascript",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".markdown": MARKDOWN,
    ".md": MARKDOWN,
    ".mjs": "text/javascript",
    ".svg": SVG,
    ".xhtml": "application/xhtml+xml",
    ".xml": "application/xml",
}
"""What texts are by the ends of their names. Any other text is plain."""
BYTE_ORDER_MARKS: Final = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
HTML_BEGINNINGS: Final = (b"<!doctype html", b"<html", b"<head", b"<body")
PROLOGUES: Final = ((b"<!--", b"-->"), (b"<?xml", b"?>"), (b"<!doctype svg", b">"))
PICTURES: Final = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
"""Pictures that hold nothing but a picture, so that a page may show them."""
ACTIVE: Final = frozenset((HTML, SVG, "application/xhtml+xml", "application/xml", "text/javascript"))
"""What a browser would run, or let a page run, if it were opened as what it is."""


def media_type(content: bytes, name: str) -> str:
    """The media type of a file. What its bytes say counts more than its name."""
    first = content[:SNIFF_BYTES]
    if b"%PDF-" in first[:1024]:
        return PDF
    if first[:4] == b"RIFF" and first[8:12] == b"WEBP":
        return "image/webp"
    for beginning, kind in SIGNATURES:
        if first.startswith(beginning):
            return kind
    if not first.startswith(BYTE_ORDER_MARKS) and b"\x00" in first:
        return UNKNOWN
    return _text_type(first, name)


def _text_type(first: bytes, name: str) -> str:
    markup = _markup(first)
    if markup.startswith(b"<svg"):
        return SVG
    suffix_type = TYPES_BY_SUFFIX.get(PurePosixPath(name.lower()).suffix)
    if markup.startswith(HTML_BEGINNINGS) and suffix_type != MARKDOWN:
        return HTML
    return suffix_type or TEXT


def _markup(first: bytes) -> bytes:
    """A beginning without what may come before the first element."""
    rest = first.removeprefix(BYTE_ORDER_MARKS[0]).lstrip().lower()
    while prologue := next((each for each in PROLOGUES if rest.startswith(each[0])), None):
        rest = rest.partition(prologue[1])[2].lstrip()
    return rest


def browser_safe_type(kind: str) -> str:
    """The type that a file may be sent to a browser with: what it would run is sent as mere bytes."""
    return UNKNOWN if kind in ACTIVE else kind
