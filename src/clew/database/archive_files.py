"""Archives beside a database: what an erased subject has in them is taken out."""

import asyncio
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from clew.core.archive.format import (
    FORMAT,
    ChangesetLine,
    FileLine,
    HeaderLine,
    RecordLine,
    ThreadLine,
    TotalLine,
    decode_line,
    encode_line,
)
from clew.core.erasure.receipts import ErasureSubject, file_path
from clew.core.log.owners import memory_thread_id
from clew.core.manifest.files import manifest_name
from clew.core.values import THREAD_TAG

REASON_PREFIX = "the archive "
"""The prefix of the reason that an archive still holds the subject."""
LONGEST_HEADER = 64 * 1024
BLOCK = 1 << 20

_header = msgspec.json.Decoder(HeaderLine)
DAMAGE = (OSError, msgspec.MsgspecError, UnicodeDecodeError)
"""Errors of an archive that cannot be read or written."""


class _LineFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of an archive that belong to a subject: all of an owner's, some threads, and what names those."""

    owner: str | None
    is_owner: bool
    threads: frozenset[str]
    names: frozenset[str]
    files: frozenset[tuple[str | None, str]] = frozenset()

    def matches(self, line: ThreadLine | RecordLine | FileLine) -> bool:
        """Return whether a line belongs to the subject."""
        if self.is_owner and line.owner == self.owner:
            return True
        if isinstance(line, FileLine):
            manifests = {manifest_name(id) for id in self.threads}
            return line.path.rpartition("/")[2] in manifests or (line.owner, line.path) in self.files
        if isinstance(line, RecordLine):
            is_meant = not self.names.isdisjoint((line.id, *line.tags))
        else:
            is_meant = not self.threads.isdisjoint((line.id, *(before.id for before in line.ancestors)))
        return is_meant and (line.owner is None or self.owner in (None, line.owner))


class SweepResult(msgspec.Struct, frozen=True, kw_only=True):
    """The number of archives that were changed, and why others could not be."""

    count: int = 0
    reasons: tuple[str, ...] = ()


async def sweep_archives(directory: Path | None, subject: ErasureSubject) -> SweepResult:
    """Take a subject out of every archive in a directory. An archive of nothing else goes whole."""
    if directory is None:
        return SweepResult()
    return await asyncio.to_thread(_sweep_archives, directory, subject)


async def archives_with_thread(directory: Path | None, thread: str) -> list[str]:
    """The reasons why archives in a directory still hold parts of a thread: they are not changed."""
    if directory is None:
        return []
    return await asyncio.to_thread(_archives_with_thread, directory, thread)


def archive_names(directory: Path | None) -> set[str]:
    """The archives in a directory."""
    return {path.name for path in _archives(directory)} if directory is not None else set()


def _archives(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.is_file() and _is_archive(path))


def _archives_with_thread(directory: Path, thread: str) -> list[str]:
    subject = ErasureSubject(what="thread", name=thread, threads=(thread,))
    reasons: list[str] = []
    for path in _archives(directory):
        try:
            if _find_subject(path, subject) is not None:
                reasons.append(f"{REASON_PREFIX}{path.name} holds the thread as it was; export it anew")
        except DAMAGE as error:
            reasons.append(f"{REASON_PREFIX}{path.name} could not be read: {error}")
    return reasons


def _sweep_archives(directory: Path, subject: ErasureSubject) -> SweepResult:
    count = 0
    reasons: list[str] = []
    for path in _archives(directory):
        try:
            count += _remove_subject(path, subject)
        except DAMAGE as error:
            reasons.append(f"{REASON_PREFIX}{path.name} could not be rewritten: {error}")
    return SweepResult(count=count, reasons=tuple(reasons))


def _is_archive(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return _header.decode(file.readline(LONGEST_HEADER)).format == FORMAT
    except DAMAGE:
        return False


def _remove_subject(path: Path, subject: ErasureSubject) -> bool:
    """Remove a subject from an archive; return whether it was there."""
    line_filter = _find_subject(path, subject)
    if line_filter is None:
        return False
    part = path.with_name(f"{path.name}.part")
    try:
        with path.open("rb") as file, part.open("wb") as output:
            threads = _copy_rest(file, output, line_filter)
            output.flush()
            os.fsync(output.fileno())
        with path.open("r+b") as before:
            if threads:
                part.replace(path)
            else:
                path.unlink()
            _overwrite(before)
    finally:
        part.unlink(missing_ok=True)
    return True


def _subject_lines(lines: Iterable[bytes]) -> Iterator[ThreadLine | RecordLine | FileLine]:
    for data in lines:
        line = decode_line(data)
        if isinstance(line, ThreadLine | RecordLine | FileLine):
            yield line


def _find_subject(path: Path, subject: ErasureSubject) -> _LineFilter | None:
    """Find the lines of a subject in an archive, with forks and what is remembered of them; None if none."""
    first_filter = _line_filter(subject, subject.threads)
    with path.open("rb") as file:
        ids = [
            line.id
            for line in _subject_lines(file)
            if isinstance(line, ThreadLine) and first_filter.matches(line)
        ]
    line_filter = _line_filter(subject, {*subject.threads, *ids})
    with path.open("rb") as file:
        lines = [line for line in _subject_lines(file) if line_filter.matches(line)]
    return msgspec.structs.replace(line_filter, files=frozenset(_files_named_in(lines))) if lines else None


def _files_named_in(lines: Iterable[ThreadLine | RecordLine | FileLine]) -> Iterator[tuple[str | None, str]]:
    """The files that records among some lines are about, each by its owner and its path."""
    for line in lines:
        if isinstance(line, RecordLine):
            path = file_path(line.kind, msgspec.json.decode(line.body))
            if path is not None:
                yield line.owner, path


def _line_filter(subject: ErasureSubject, ids: Iterable[str]) -> _LineFilter:
    threads = frozenset(name for id in ids for name in (id, memory_thread_id(id, of_thread=True)))
    names = threads | {f"{THREAD_TAG}{id}" for id in threads}
    return _LineFilter(
        owner=subject.owner, is_owner=subject.is_owner, threads=threads, names=frozenset(names)
    )


def _copy_rest(lines: Iterable[bytes], output: BinaryIO, line_filter: _LineFilter) -> int:
    """Write the lines of all the rest, and new totals; how many threads, records and files that were."""
    threads = changesets = items = records = files = 0
    is_dropping = False
    for data in lines:
        line = decode_line(data)
        match line:
            case ThreadLine():
                is_dropping = line_filter.matches(line)
                threads += not is_dropping
            case ChangesetLine() if not is_dropping:
                changesets, items = changesets + 1, items + len(line.items)
            case RecordLine():
                is_dropping = line_filter.matches(line)
                records += not is_dropping
            case FileLine():
                is_dropping = line_filter.matches(line)
                files += not is_dropping
        if isinstance(line, TotalLine):
            total = TotalLine(
                threads=threads, changesets=changesets, items=items, records=records, files=files
            )
            output.write(encode_line(total))
        elif not is_dropping:
            output.write(data)
    return threads + records + files


def _overwrite(file: BinaryIO) -> None:
    """Write zeros over a file that has no name any more, so that its free blocks hold nothing."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    file.writelines(bytes(min(BLOCK, size - start)) for start in range(0, size, BLOCK))
    file.flush()
    os.fsync(file.fileno())
