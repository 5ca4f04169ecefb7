"""Archives beside a database: what an erased subject has in them is taken out."""

import asyncio
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from clew.core.archive.format import FORMAT, Beside, Closing, File, Header, Opening, Step, Total, line_of
from clew.core.erasure.receipts import ARTIFACT, Subject
from clew.core.log.owners import memory_thread
from clew.core.manifest.files import manifest_name

LEFT = "the archive "
"""How the reason begins why an archive still holds the subject."""
LONGEST_HEADER = 64 * 1024
BLOCK = 1 << 20

_header = msgspec.json.Decoder(Header)
_line = msgspec.json.Decoder(Header | Opening | Step | Closing | Beside | File | Total)


class _Artifact(msgspec.Struct, frozen=True):
    path: str = ""


class _Sought(msgspec.Struct, frozen=True, kw_only=True):
    """What of a subject can be in an archive: all of an owner's, some threads, and what names those."""

    owner: str | None
    is_owner: bool
    threads: frozenset[str]
    names: frozenset[str]
    files: frozenset[tuple[str | None, str]] = frozenset()

    def holds(self, line: Opening | Beside | File) -> bool:
        """Whether a line belongs to the subject."""
        if self.is_owner and line.owner == self.owner:
            return True
        if isinstance(line, File):
            manifests = {manifest_name(id) for id in self.threads}
            return line.path.rpartition("/")[2] in manifests or (line.owner, line.path) in self.files
        if isinstance(line, Beside):
            is_meant = not self.names.isdisjoint((line.id, *line.tags))
        else:
            is_meant = not self.threads.isdisjoint((line.id, *(before.id for before in line.ancestors)))
        return is_meant and (line.owner is None or self.owner in (None, line.owner))


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
    return [
        f"{LEFT}{path.name} holds the thread as it was; export it anew"
        for path in _archives(directory)
        if _within(path, subject) is not None
    ]


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
    found = _within(path, subject)
    if found is None:
        return False
    part = path.with_name(f"{path.name}.part")
    try:
        with path.open("rb") as file, part.open("wb") as kept:
            threads = _copy(file, kept, found)
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


def _openings(lines: Iterable[bytes]) -> Iterator[Opening | Beside | File]:
    for data in lines:
        line = _line.decode(data)
        if isinstance(line, Opening | Beside | File):
            yield line


def _within(path: Path, subject: Subject) -> _Sought | None:
    """What an archive holds of a subject, with forks and what is remembered of them; None if nothing."""
    asked = _sought(subject, subject.threads)
    with path.open("rb") as file:
        ids = [line.id for line in _openings(file) if isinstance(line, Opening) and asked.holds(line)]
    found = _sought(subject, {*subject.threads, *ids})
    with path.open("rb") as file:
        held = [line for line in _openings(file) if found.holds(line)]
    return msgspec.structs.replace(found, files=frozenset(_files(held))) if held else None


def _files(lines: Iterable[Opening | Beside | File]) -> Iterator[tuple[str | None, str]]:
    """The files that records name which are about one."""
    for line in lines:
        if isinstance(line, Beside) and line.kind == ARTIFACT:
            yield line.owner, msgspec.json.decode(line.body, type=_Artifact).path


def _sought(subject: Subject, ids: Iterable[str]) -> _Sought:
    threads = frozenset(name for id in ids for name in (id, memory_thread(id, of_thread=True)))
    names = threads | {f"thread:{id}" for id in threads}
    return _Sought(
        owner=subject.owner, is_owner=subject.what == "owner", threads=threads, names=frozenset(names)
    )


def _copy(lines: Iterable[bytes], kept: BinaryIO, sought: _Sought) -> int:
    """Write the lines of all the rest, and new totals; how many threads, records and files that were."""
    threads = changesets = items = records = files = 0
    dropping = False
    for data in lines:
        line = _line.decode(data)
        match line:
            case Opening():
                dropping = sought.holds(line)
                threads += not dropping
            case Step() if not dropping:
                changesets, items = changesets + 1, items + len(line.items)
            case Beside():
                dropping = sought.holds(line)
                records += not dropping
            case File():
                dropping = sought.holds(line)
                files += not dropping
        if isinstance(line, Total):
            total = Total(threads=threads, changesets=changesets, items=items, records=records, files=files)
            kept.write(line_of(total))
        elif not dropping:
            kept.write(data)
    return threads + records + files


def _overwrite(file: BinaryIO) -> None:
    """Write zeros over a file that has no name any more, so that its free blocks hold nothing."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    file.writelines(bytes(min(BLOCK, size - start)) for start in range(0, size, BLOCK))
    file.flush()
    os.fsync(file.fileno())
