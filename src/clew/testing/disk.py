"""A disk that loses power: an SQLite VFS whose writes are volatile until synced."""

# ruff: noqa: N802 - methods that begin with x are named by SQLite.

from __future__ import annotations

import os
import random
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, NoReturn, TypeAlias

import apsw

if TYPE_CHECKING:
    from typing_extensions import Buffer

PowerLossMode: TypeAlias = Literal["lose", "torn", "keep"]
FaultKind: TypeAlias = Literal["stop", "eio", "enospc"]
DiskOperation: TypeAlias = Literal["open", "create", "write", "truncate", "sync", "delete"]
DiskImage: TypeAlias = dict[str, bytes]
"""The contents of a disk by path. A file that does not exist has no entry."""

POWER_LOST: Final = 86
"""The exit code of a process that was stopped by a fault."""
NO_END: Final = sys.maxsize
"""``until`` of a fault that never ends."""
SECTOR_BYTES: Final = 512
"""The bytes that a power loss keeps or drops together."""

_JOURNALS: Final = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_WAL
_DURABLE: Final = _JOURNALS | apsw.SQLITE_OPEN_MAIN_DB
_IO_ERRORS: Final[Mapping[DiskOperation, int]] = {
    "write": apsw.SQLITE_IOERR_WRITE,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "delete": apsw.SQLITE_IOERR_DELETE,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the disk, and the step at which it happens.

    ``at`` is the point, counted from 1, at which it happens; ``until`` the last point at which it still
    does (``at`` if not given, so once). A "stop" loses power while that point is under way: of what was not
    synced, mode "lose" keeps nothing, "torn" a random part drawn from ``seed``, "keep" everything done
    before the point, as when only the process is killed. "eio" fails the step, and a failed sync forgets
    what it should have made durable, as Linux does. "enospc" leaves half of a write, and spares deletes.
    """

    kind: FaultKind
    _: KW_ONLY
    at: int
    until: int | None = None
    mode: PowerLossMode = "lose"
    seed: int = 0

    def happens_at(self, point: int) -> bool:
        """Return whether it happens at this point."""
        return self.at <= point <= (self.at if self.until is None else self.until)


class DiskStep(NamedTuple):
    """One thing SQLite asked of the disk.

    ``offset`` is the new size of a truncate; ``data`` what a write left on the disk, or what a file held
    when it was first opened. ``directory`` says that the directory was synced too. ``error`` is the SQLite
    code it failed with, or zero. Its text is made for logs: ``17 write -wal 4152+4096``.
    """

    point: int
    operation: DiskOperation
    inode: int
    path: str
    offset: int = 0
    data: bytes = b""
    directory: bool = False
    error: int = 0

    @property
    def suffix(self) -> str:
        """The suffix of the database's file: ``-wal``, ``-journal``, or nothing."""
        return next((s for s in ("-wal", "-journal") if self.path.endswith(s)), "")

    def __str__(self) -> str:
        text = f"{self.point} {self.operation} {self.suffix or 'db'} {self.offset}+{len(self.data)}"
        return f"{text} failed {self.error}" if self.error else text


@dataclass(slots=True)
class Inode:
    """A file's bytes: as read now, as they survive, and the changes in between."""

    live: bytearray
    durable: bytearray
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)

    def change(self, offset: int, data: bytes | None) -> None:
        """Write data at the offset; without data, make the offset the size."""
        _overlay(self.live, offset, data)
        self.pending.append((offset, data))

    def sync(self) -> None:
        """Make every change durable."""
        for offset, data in self.pending:
            _overlay(self.durable, offset, data)
        self.pending.clear()

    def partial_bytes(self, rng: random.Random, share: float) -> bytes:
        """The durable bytes and about this share of the changes, the last one cut.

        Where a file grew and the data was lost there is garbage: SQLite expects sizes to arrive first.
        """
        pieces = [
            piece for offset, data in self.pending for piece in _sectors(offset, data) if rng.random() < share
        ]
        if pieces and (cut := pieces[-1][1]):
            pieces[-1] = (pieces[-1][0], cut[: rng.randrange(1, len(cut) + 1)])
        image = bytearray(self.durable)
        for offset, data in pieces:
            if data is not None:
                image.extend(rng.randbytes(max(0, offset - len(image))))
            _overlay(image, offset, data)
        return bytes(image)


class DiskContents:
    """The contents of a disk's files and directories, with its cache and without it."""

    def __init__(self) -> None:
        self.inodes: list[Inode] = []
        self.live: dict[str, int] = {}
        self.durable: dict[str, int] = {}

    def apply(self, step: DiskStep) -> None:
        """Let the step happen, in the cache or down to the disk as it says."""
        match step.operation:
            case "write" if step.data:
                self.inodes[step.inode].change(step.offset, step.data)
            case "sync":
                self._sync(step)
            case "truncate" if not step.error:
                self.inodes[step.inode].change(step.offset, None)
            case "delete" if not step.error:
                self._delete(step)
            case "open" | "create":
                self._add(step)

    def survivors(self, mode: PowerLossMode, rng: random.Random) -> DiskImage:
        """The files that are there after the power was lost."""
        if mode == "keep":
            return {path: bytes(self.inodes[i].live) for path, i in self.live.items()}
        if mode == "lose":
            return {path: bytes(self.inodes[i].durable) for path, i in self.durable.items()}
        share = rng.random()
        names: dict[str, int | None] = dict(self.durable)
        for path in self._unsynced_names():
            if rng.random() < share:
                names[path] = self.live.get(path)
        return {path: self.inodes[i].partial_bytes(rng, share) for path, i in names.items() if i is not None}

    def paths(self) -> set[str]:
        """Every file that is there now or would be after losing power."""
        return self.live.keys() | self.durable.keys()

    def _add(self, step: DiskStep) -> None:
        self.inodes.append(Inode(bytearray(step.data), bytearray(step.data)))
        self.live[step.path] = step.inode
        if step.operation == "open":
            self.durable[step.path] = step.inode

    def _sync(self, step: DiskStep) -> None:
        inode = self.inodes[step.inode]
        if step.error:
            # Linux marks pages clean after a failed fsync: still read, never written by a later one.
            inode.pending.clear()
            return
        inode.sync()
        if step.directory:
            self._sync_directory(step.path)

    def _delete(self, step: DiskStep) -> None:
        del self.live[step.path]
        if step.directory:
            self._sync_directory(step.path)

    def _sync_directory(self, path: str) -> None:
        directory = Path(path).parent
        for name in self._unsynced_names():
            if Path(name).parent != directory:
                continue
            if name in self.live:
                self.durable[name] = self.live[name]
            else:
                del self.durable[name]

    def _unsynced_names(self) -> list[str]:
        return sorted(path for path in self.paths() if self.live.get(path) != self.durable.get(path))


@dataclass(frozen=True, slots=True)
class Trace:
    """Everything that happened to a disk, from which any power loss can be replayed.

    The disk's state at a point depends on nothing but the steps before it, so the images are those that
    this run, stopped there, would have left, whatever threads took part. To know what must have survived,
    note ``disk.points`` when a commit is acknowledged: it must be in the image of every later point.
    """

    steps: tuple[DiskStep, ...]

    @property
    def points(self) -> int:
        """The number of points; a loss of power after the last is one more."""
        return max((step.point for step in self.steps), default=0)

    def image_at(self, point: int, mode: PowerLossMode = "lose", seed: int = 0) -> DiskImage:
        """The contents that are left when the power is lost at this point."""
        contents = DiskContents()
        for step in self.steps:
            if step.point == point:
                return _after_power_loss(contents, step, mode, seed)
            contents.apply(step)
        return contents.survivors(mode, random.Random(f"{seed}/{point}"))


class FaultyDisk(apsw.VFS):
    """A disk with a volatile cache, over real files, for one process.

    Open connections with ``vfs=disk.name``. Every write, truncate, sync and delete of a database, journal
    or WAL is a point. What is written can be read at once, by all connections, but survives only when its
    file is synced; a file's creation or deletion only when its directory is. Nothing is really synced, so
    it is fast. All bytes written are kept in memory, as the trace.

    To stop a workload at every point, run it once to learn ``disk.points``; then, for each, in a child
    process, on a new directory::

        disk.arm(Fault("stop", at=point))
        for n in range(200):
            commit(n)                               # through apsw, vfs=disk.name
            os.write(acknowledged, n.to_bytes(4))   # a pipe, never a file on the disk

    The child exits with ``POWER_LOST`` and the files in its directory are those that survived. Open them in
    a new process without this VFS: what was read from the pipe must be there. Exiting skips Python's own
    buffers, hence ``os.write``.

    apsw raises the errors of "eio" and "enospc" even where SQLite itself would not report them: when the
    automatic checkpoint after a commit fails, the commit raises and is nevertheless done.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name, "")
        self.name = name
        self.points = 0
        self.steps: list[DiskStep] = []
        # Reentrant: collecting an unclosed connection closes it, in the middle of anything.
        self.lock = threading.RLock()
        self._contents = DiskContents()
        self._faults: tuple[Fault, ...] = ()

    def arm(self, *faults: Fault) -> None:
        """Have these faults happen, and no others."""
        with self.lock:
            self._faults = faults

    def trace(self) -> Trace:
        """The steps so far."""
        with self.lock:
            return Trace(tuple(self.steps))

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        """Open a file; one that SQLite never recovers from is left to the real disk."""
        if name is None or not flags[0] & _DURABLE:
            return apsw.VFSFile("", name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        with self.lock:
            is_old_file = Path(path).exists()
            file = DiskFile(self, name, path, flags)
            file.inode = self._contents.live.get(path, -1)
            if file.inode < 0:
                file.inode = self._add_inode(path, file.content() if is_old_file else None)
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: FBT001
        """Delete a file; durably if the directory is synced with it."""
        with self.lock:
            inode = self._contents.live.get(filename)
            if inode is None and Path(filename).exists():
                inode = self._add_inode(filename, Path(filename).read_bytes())
            if inode is None:
                super().xDelete(filename, syncdir=False)
                return
            step = self.begin_step("delete", inode, filename, directory=syncdir)
            if not step.error:
                super().xDelete(filename, syncdir=False)
            self.finish_step(step)

    def begin_step(
        self,
        operation: DiskOperation,
        inode: int,
        path: str,
        offset: int = 0,
        data: bytes = b"",
        *,
        directory: bool = False,
    ) -> DiskStep:
        """The step as far as the disk will take it. The caller holds the lock."""
        self.points += 1
        step = DiskStep(self.points, operation, inode, path, offset, data, directory)
        for fault in self._faults:
            if fault.happens_at(self.points):
                return self._apply_fault(fault, step)
        return step

    def finish_step(self, step: DiskStep) -> None:
        """Record a step that was done, and raise if it failed."""
        self._contents.apply(step)
        self.steps.append(step)
        if step.error:
            error = apsw.exception_for(step.error)
            error.args = (f"injected: {step}",)
            raise error

    def _add_inode(self, path: str, content: bytes | None) -> int:
        inode = len(self._contents.inodes)
        operation: DiskOperation = "create" if content is None else "open"
        self.finish_step(DiskStep(self.points, operation, inode, path, data=content or b""))
        return inode

    def _apply_fault(self, fault: Fault, step: DiskStep) -> DiskStep:
        if fault.kind == "stop":
            self._lose_power(fault, step)
        if fault.kind == "eio":
            return step._replace(error=_IO_ERRORS[step.operation], data=b"")
        if step.operation == "delete":
            return step
        half = step.data[: len(step.data) // 2]
        return step._replace(error=apsw.SQLITE_FULL, data=half)

    def _lose_power(self, fault: Fault, step: DiskStep) -> NoReturn:
        code = POWER_LOST
        try:
            if fault.mode != "keep":
                paths = self._contents.paths()
                _rewrite_files(paths, _after_power_loss(self._contents, step, fault.mode, fault.seed))
        except OSError:
            traceback.print_exc()
            code = 1
        os._exit(code)


class DiskFile(apsw.VFSFile):
    """An open file of a faulty disk; reads, locks and shared memory are the real ones."""

    def __init__(
        self,
        disk: FaultyDisk,
        name: str | apsw.URIFilename,
        path: str,
        flags: list[int],
    ) -> None:
        super().__init__("", name, flags)
        self.inode = -1
        self._disk = disk
        self._path = path
        # As the unix VFS does: the first sync of a journal syncs its directory too.
        self._syncs_directory = bool(flags[0] & apsw.SQLITE_OPEN_CREATE and flags[0] & _JOURNALS)

    def content(self) -> bytes:
        """All of it, read without a second descriptor: closing one drops the locks."""
        size = self.xFileSize()
        return self.xRead(size, 0) if size else b""

    def xWrite(self, data: Buffer, offset: int) -> None:
        """Write to the cache."""
        disk = self._disk
        with disk.lock:
            step = disk.begin_step("write", self.inode, self._path, offset, bytes(data))
            if step.data:
                super().xWrite(step.data, offset)
            disk.finish_step(step)

    def xTruncate(self, newsize: int) -> None:
        """Change the size in the cache."""
        disk = self._disk
        with disk.lock:
            step = disk.begin_step("truncate", self.inode, self._path, newsize)
            if not step.error:
                super().xTruncate(newsize)
            disk.finish_step(step)

    def xSync(self, flags: int) -> None:
        """Make what was written durable in the model; the real disk is left alone."""
        disk = self._disk
        with disk.lock:
            step = disk.begin_step("sync", self.inode, self._path, directory=self._syncs_directory)
            disk.finish_step(step)
            self._syncs_directory = False

    def xFileControl(self, op: int, ptr: int) -> bool:
        """Pass on everything but the size hint, which grows the file unseen."""
        return op != apsw.SQLITE_FCNTL_SIZE_HINT and super().xFileControl(op, ptr)


def write_image(image: DiskImage, directory: Path) -> None:
    """Put the files of an image into a directory, under their own names."""
    for path, data in image.items():
        (directory / Path(path).name).write_bytes(data)


def _after_power_loss(contents: DiskContents, step: DiskStep, mode: PowerLossMode, seed: int) -> DiskImage:
    """The contents that are left when the power is lost during this step."""
    if mode == "torn" and step.operation != "sync":
        contents.apply(step._replace(directory=False))
    return contents.survivors(mode, random.Random(f"{seed}/{step.point}"))


def _rewrite_files(paths: set[str], image: DiskImage) -> None:
    for path in paths | image.keys():
        Path(path + "-shm").unlink(missing_ok=True)
        if path in image:
            Path(path).write_bytes(image[path])
        else:
            Path(path).unlink(missing_ok=True)


def _overlay(target: bytearray, offset: int, data: bytes | None) -> None:
    if offset > len(target):
        target.extend(bytes(offset - len(target)))
    if data is None:
        del target[offset:]
    else:
        target[offset : offset + len(data)] = data


def _sectors(offset: int, data: bytes | None) -> Iterator[tuple[int, bytes | None]]:
    """A write cut at the disk's sector bounds; a change of size in one piece."""
    if data is None:
        yield offset, None
        return
    start = 0
    while start < len(data):
        end = min(len(data), start + SECTOR_BYTES - (offset + start) % SECTOR_BYTES)
        yield offset + start, data[start:end]
        start = end
