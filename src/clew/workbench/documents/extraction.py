"""Text from a file of any kind that is read: what may be hostile, in a process of its own with limits."""

import asyncio
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from clew.core.errors import (
    DocumentBroken,
    DocumentEmpty,
    DocumentEncrypted,
    DocumentTooLarge,
    DocumentTooSlow,
    DocumentUnreadable,
    DocumentUnsupported,
    DocumentWithoutText,
    MissingExtra,
)
from clew.workbench.documents.text import (
    DocumentText,
    Section,
    declared_charset,
    decode_text,
    plain_text,
    section_title,
)
from clew.workbench.volume.media_types import HTML, PDF, media_type

WORKER_SCRIPT: Final = Path(__file__).with_name("worker.py")
XHTML: Final = "application/xhtml+xml"
READER_PACKAGES: Final = {"pdf": ("pypdf", "pypdf"), "html": ("bs4", "beautifulsoup4")}
READ_AS_PLAIN: Final = frozenset(
    ("application/json", "application/jsonl", "application/xml", "image/svg+xml")
)
MIB: Final = 1024 * 1024
MOST_SECTIONS: Final = 10_000
"""The most sections of a document."""


class ReadingLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits for reading one document; beyond them it is given up. ``memory`` is in bytes, too."""

    bytes: int = 32 * MIB
    pages: int = 5_000
    characters: int = 10_000_000
    seconds: float = 30.0
    memory: int = 1024 * MIB


LIMITS: Final = ReadingLimits()


async def extract_text(content: bytes, name: str, limits: ReadingLimits = LIMITS) -> DocumentText:
    """The text of a file.

    Raises:
        DocumentUnsupported: It is of a kind that is not read.
        DocumentEmpty: There is nothing in it.
        DocumentBroken: It is damaged.
        DocumentEncrypted: It needs a password.
        DocumentWithoutText: Its pages are pictures.
        DocumentTooLarge: It is over a limit.
        DocumentTooSlow: It took too long to read, or too much memory.
    """
    _check_size(name, "bytes", len(content), limits.bytes)
    type = media_type(content, name)
    if not content.strip():
        raise DocumentEmpty(document=name)
    if name.lower().endswith(".pdf") and type != PDF:
        raise DocumentBroken(document=name, problem="it is called a PDF and is none")
    if type == PDF:
        return _text_from_report(await _run_worker("pdf", content, name, limits), type, None, ())
    if type in (HTML, XHTML):
        text, charset, notes = decode_text(content, name, fallback_charset=declared_charset(content))
        return _text_from_report(await _run_worker("html", text.encode(), name, limits), type, charset, notes)
    if not type.startswith("text/") and type not in READ_AS_PLAIN:
        raise DocumentUnsupported(document=name, type=type)
    return _check_text(await asyncio.to_thread(plain_text, content, name, type), name, limits)


def _check_size(name: str, what: str, size: int, limit: int) -> None:
    if size > limit:
        raise DocumentTooLarge(document=name, what=what, size=size, limit=limit)


def _check_text(text: DocumentText, name: str, limits: ReadingLimits) -> DocumentText:
    if not text.text.strip():
        raise DocumentEmpty(document=name)
    _check_size(name, "characters", len(text.text), limits.characters)
    return msgspec.structs.replace(text, sections=text.sections[:MOST_SECTIONS])


def _text_from_report(
    report: dict[str, Any], type: str, charset: str | None, notes: tuple[str, ...]
) -> DocumentText:
    return DocumentText(
        type=type,
        text=report["text"],
        sections=tuple(
            Section(name=section_title(title), start=start)
            for title, start in report["sections"][:MOST_SECTIONS]
        ),
        charset=charset,
        notes=(*notes, *report["notes"]),
    )


async def _run_worker(kind: str, content: bytes, name: str, limits: ReadingLimits) -> dict[str, Any]:
    """Run the worker on a file and return what it read; the process is over when this returns."""
    module, package = READER_PACKAGES[kind]
    if importlib.util.find_spec(module) is None:
        raise MissingExtra(extra="workbench", package=package)
    numbers = (int(limits.seconds) + 1, limits.memory // MIB, limits.pages, limits.characters)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-B", str(WORKER_SCRIPT), kind, *map(str, numbers)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONHASHSEED": "0"},
        cwd="/",
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(limits.seconds):
            out, _ = await process.communicate(content)
    except TimeoutError:
        raise DocumentTooSlow(document=name, seconds=limits.seconds) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return _parse_report(out, process.returncode or 0, name, limits)


def _parse_report(out: bytes, code: int, name: str, limits: ReadingLimits) -> dict[str, Any]:
    if code < 0:  # a limit of the system's ended it
        raise DocumentTooSlow(document=name, seconds=limits.seconds)
    try:
        report: dict[str, Any] = msgspec.json.decode(out)
    except msgspec.DecodeError as error:
        raise DocumentBroken(document=name, problem="its reader failed") from error
    if "refused" in report:
        raise _unreadable_error(report, name, limits)
    return report


def _unreadable_error(report: dict[str, Any], name: str, limits: ReadingLimits) -> DocumentUnreadable:
    match report.pop("refused"):
        case "encrypted":
            return DocumentEncrypted(document=name)
        case "empty":
            return DocumentEmpty(document=name)
        case "pictures":
            return DocumentWithoutText(document=name, **report)
        case "large":
            return DocumentTooLarge(document=name, **report)
        case "slow":
            return DocumentTooSlow(document=name, seconds=limits.seconds)
    return DocumentBroken(document=name, **report)
