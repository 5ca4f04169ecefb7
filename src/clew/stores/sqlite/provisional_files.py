"""The texts of running answers beside an SQLite file: a file for each thread, which is never synced.

What was written is in the memory of the system, so it outlives the process, and not the machine. A file is a
row of frames, each with its length: first the header, then a part each. The last may be cut short.
"""

import asyncio
import errno
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import msgspec

from clew.core.errors import StorageError
from clew.core.values import ProvisionalText, Scope

T = TypeVar("T")
_LENGTH = struct.Struct(">I")


class TextHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first frame of a file: the tenant, and the text without its parts."""

    tenant: str
    text: ProvisionalText


_decode_header = msgspec.json.Decoder(TextHeader).decode


class ProvisionalFiles:
    """The texts of running answers, in a directory beside a database that is made with the first of them."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._directory = Path(f"{database}-provisional")

    async def begin(self, scope: Scope, text: ProvisionalText, most: int) -> bool:
        """Keep a text in place of the one that its thread has, unless there are too many others."""
        return await self._run(lambda: self._begin(scope, text, most))

    async def extend(self, scope: Scope, text: ProvisionalText, part: bytes) -> bool:
        """Add a part to a text; return False if it is no longer there."""
        return await self._run(lambda: self._extend(scope, text, part))

    async def read(self, scope: Scope, thread: str) -> ProvisionalText | None:
        """The text of a thread, if it has one."""
        return await self._run(lambda: _read_text(self._path(scope.tenant, thread), scope))

    async def headers(self, scope: Scope) -> list[ProvisionalText]:
        """Every text, without its parts."""
        return await self._run(lambda: self._headers(scope))

    async def drop(self, scope: Scope, thread: str, text: ProvisionalText | None = None) -> bool:
        """Drop the text of a thread, or only a given one; return whether there was one."""
        return await self._run(lambda: self._drop(scope, thread, text))

    async def _run(self, work: Callable[[], T]) -> T:
        """Run work on files in a thread: the system may make a writer wait for the disk after all."""
        try:
            return await asyncio.to_thread(work)
        except OSError as error:
            problem = error.strerror or str(error)
            raise StorageError(store=str(self._directory), problem=problem) from error

    def _path(self, tenant: str, thread: str) -> Path:
        name = sha256(f"{tenant}\0{thread}".encode()).hexdigest()[:40]
        return self._directory / name

    def _begin(self, scope: Scope, text: ProvisionalText, most: int) -> bool:
        path = self._path(scope.tenant, text.thread)
        if path.exists() and _read_text(path, Scope(tenant=scope.tenant)) != _read_text(path, scope):
            return False  # the text of another user
        _remove(path)
        mode = Path(self._database).stat().st_mode & 0o666
        self._make_directory(mode)
        if sum(1 for _ in self._directory.iterdir()) >= most:
            return False
        try:
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:  # another process was faster
            return False
        try:
            os.fchmod(file, mode)  # those who share the database share its files, whatever the umask
            _write(file, _header_frame(scope, text) + b"".join(map(_frame, text.parts)))
        finally:
            os.close(file)
        return True

    def _make_directory(self, mode: int) -> None:
        with suppress(FileExistsError):
            self._directory.mkdir()
            self._directory.chmod(mode | (mode & 0o444) >> 2)

    def _extend(self, scope: Scope, text: ProvisionalText, part: bytes) -> bool:
        with _open_file(self._path(scope.tenant, text.thread), os.O_RDWR | os.O_APPEND) as file:
            if file is None or not _is_of(file, scope, text):
                return False
            _write(file, _frame(part))
            return True

    def _headers(self, scope: Scope) -> list[ProvisionalText]:
        try:
            paths = list(self._directory.iterdir())
        except FileNotFoundError:
            return []
        texts = (_read_text(path, scope) for path in paths)
        return [msgspec.structs.replace(text, parts=()) for text in texts if text is not None]

    def _drop(self, scope: Scope, thread: str, text: ProvisionalText | None) -> bool:
        path = self._path(scope.tenant, thread)
        current = _read_text(path, scope)
        if current is None or (text is not None and text.id != current.id):
            return False
        _remove(path)
        return True


def _frame(content: bytes) -> bytes:
    return _LENGTH.pack(len(content)) + content


def _header_frame(scope: Scope, text: ProvisionalText) -> bytes:
    header = TextHeader(tenant=scope.tenant, text=msgspec.structs.replace(text, parts=()))
    return _frame(msgspec.json.encode(header))


def _is_of(file: int, scope: Scope, text: ProvisionalText) -> bool:
    """Return whether an open file holds a text: another one may have taken its place."""
    header = _header_frame(scope, text)
    return scope.user in (None, text.owner) and os.pread(file, len(header), 0) == header


def _write(file: int, content: bytes) -> None:
    if os.write(file, content) < len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _read_text(path: Path, scope: Scope) -> ProvisionalText | None:
    """The text in a file; None if there is none that the scope may see."""
    try:
        frames = list(_frames(path.read_bytes()))
        header = _decode_header(frames[0])
    except (FileNotFoundError, IndexError, msgspec.MsgspecError):
        return None  # it was dropped, or is about to be written
    if header.tenant != scope.tenant or scope.user not in (None, header.text.owner):
        return None
    return msgspec.structs.replace(header.text, parts=tuple(frames[1:]))


def _frames(content: bytes) -> Iterator[bytes]:
    """The whole frames; a process that was killed may have left a part of another."""
    place = 0
    while place + _LENGTH.size <= len(content):
        end = place + _LENGTH.size + _LENGTH.unpack_from(content, place)[0]
        if end > len(content):
            return
        yield content[place + _LENGTH.size : end]
        place = end


def _remove(path: Path) -> None:
    """Empty a file and remove it: who has it open, or has linked it, finds nothing in it either."""
    with suppress(FileNotFoundError):
        os.truncate(path, 0)
        path.unlink()


@contextmanager
def _open_file(path: Path, flags: int) -> Iterator[int | None]:
    """An open file; None if it is not there."""
    try:
        file = os.open(path, flags)
    except FileNotFoundError:
        yield None
        return
    try:
        yield file
    finally:
        os.close(file)
