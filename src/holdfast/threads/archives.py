"""Archives beside a database: what an erased subject has in them is taken out."""

import asyncio
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from holdfast.core.archive import FORMAT, Beside, Closing, Header, Opening, Step, Total, line_of
from holdfast.core.erasing import Subject
from holdfast.core.owners import memory_thread

LEFT = "the archive "
"""How the reason begins why an archive still holds the subject."""
LONGEST_HEADER = 64 * 1024
BLOCK = 1 << 20

_header = msgspec.json.Decoder(Header)
_line = msgspec.json.Decoder(Header | Opening | Step | Closing | Beside | Total)


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """How many archives were changed, and why others could not be."""

    count: int = 0
    left: tuple[str, ...] = ()


async def sweep(directory: Path | None, subject: Subject) -> Swept:
    """Take a subject out of every archive in a directory. An archive of nothing else goes whole."""
    if directory is None:
        return Swept()
    return await asyncio.to_thread(_sweep, directory, subject)


async def holding(directory: Path | None, thread: str) -> list[str]:
    """Why archives in a directory still hold parts of a thread: those that hold it are not changed."""
    if directory is None:
        return []
    return await asyncio.to_thread(_holding, directory, thread)


def names(directory: Path | None) -> set[str]:
    """The archives in a directory."""
    return {path.name for path in _archives(directory)} if directory is not None else set()


def _archives(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.is_file() and _is_archive(path))


def _holding(directory: Path, thread: str) -> list[str]:
    subject = Subject(what="thread", name=thread, threads=(thread,))
    left: list[str] = []
    for path in _archives(directory):
        with path.open("rb") as file:
            if any(_is_of(line, subject) for line in _openings(file)):
                left.append(f"{LEFT}{path.name} holds the thread as it was; export it anew")
    return left


def _sweep(directory: Path, subject: Subject) -> Swept:
    count = 0
    left: list[str] = []
    for path in _archives(directory):
        try:
            count += _taken_out(path, subject)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            left.append(f"{LEFT}{path.name} could not be rewritten: {error}")
    return Swept(count=count, left=tuple(left))


def _is_archive(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return _header.decode(file.readline(LONGEST_HEADER)).format == FORMAT
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return False


def _taken_out(path: Path, subject: Subject) -> bool:
    """Whether the subject was in an archive; it no longer is."""
    with path.open("rb") as file:
        if not any(_is_of(line, subject) for line in _openings(file)):
            return False
    part = path.with_name(f"{path.name}.part")
    try:
        with path.open("rb") as file, part.open("wb") as kept:
            threads = _copy(file, kept, subject)
            kept.flush()
            os.fsync(kept.fileno())
        with path.open("r+b") as before:
            if threads:
                part.replace(path)
            else:
                path.unlink()
            _overwrite(before)
    finally:
        part.unlink(missing_ok=True)
    return True


def _openings(lines: Iterable[bytes]) -> Iterator[Opening | Beside]:
    for data in lines:
        line = _line.decode(data)
        if isinstance(line, Opening | Beside):
            yield line


def _is_of(line: Opening | Beside, subject: Subject) -> bool:
    if subject.what == "owner":
        return line.owner == subject.owner
    wanted = {*subject.threads, *(memory_thread(id, of_thread=True) for id in subject.threads)}
    if isinstance(line, Beside):
        wanted |= {f"thread:{id}" for id in wanted}
        ids = {line.id, *line.tags}
    else:
        ids = {line.id, *(ancestor.id for ancestor in line.ancestors)}
    return bool(ids & wanted) and subject.owner in (None, line.owner)


def _copy(lines: Iterable[bytes], kept: BinaryIO, subject: Subject) -> int:
    """Write the lines of all the rest, and new totals; how many threads and records that were."""
    threads = changesets = items = records = 0
    dropping = False
    for data in lines:
        line = _line.decode(data)
        match line:
            case Opening():
                dropping = _is_of(line, subject)
                threads += not dropping
            case Step() if not dropping:
                changesets, items = changesets + 1, items + len(line.items)
            case Beside():
                dropping = _is_of(line, subject)
                records += not dropping
        if isinstance(line, Total):
            total = Total(threads=threads, changesets=changesets, items=items, records=records)
            kept.write(line_of(total))
        elif not dropping:
            kept.write(data)
    return threads + records


def _overwrite(file: BinaryIO) -> None:
    """Write zeros over a file that has no name any more, so that its free blocks hold nothing."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    file.writelines(bytes(min(BLOCK, size - start)) for start in range(0, size, BLOCK))
    file.flush()
    os.fsync(file.fileno())
