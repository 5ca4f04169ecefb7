"""Files of databases, copied under another name and put in place when they are whole."""

import fcntl
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Protocol, runtime_checkable
from urllib.parse import quote

import msgspec

from clew.cli.backup.inventory import CopiedHeads, read_heads
from clew.cli.command import CommandCall
from clew.core.errors import InvalidArgument, StoreBusy, StoreDamaged
from clew.core.ports import Store
from clew.database.inventory import list_tenants
from clew.stores.interruption import run_in_thread
from clew.stores.sqlite.connection import schema_of_file, seal_file

SQLITE_SUFFIXES = ("-wal", "-shm", "-journal")
CHUNK_BYTES = 1 << 22


@runtime_checkable
class BackupStore(Protocol):
    """A store that copies itself to a file while others go on writing."""

    async def backup(self, path: str, progress: Callable[[int, int], None]) -> None:
        """Copy everything to a new file."""
        ...


@runtime_checkable
class CheckedFile(Protocol):
    """A store whose medium can check itself."""

    async def check_integrity(self, *, quick: bool) -> list[str]:
        """The faults that SQLite's own check finds."""
        ...


def check_new_file(file: Path) -> None:
    """Refuse to write a backup over something.

    Raises:
        InvalidArgument: There is something.
        WalOrphaned: There is the log of a database that is gone, which would be taken for the backup's.
    """
    if file.exists():
        raise InvalidArgument(problem=f"{str(file)!r} exists already, and a backup never overwrites.")
    _refuse_orphan(file)


@contextmanager
def reserve_file(path: Path) -> Iterator[BinaryIO]:
    """An empty file that nobody else reads or writes; it is gone at the end unless it has another name then.

    What a process that was killed has left under this name is taken away.

    Raises:
        StoreBusy: Another process is writing it.
    """
    with _lock_file(path) as file:
        try:
            _remove_sides(path)
            file.truncate(0)
            yield file
        finally:
            with suppress(FileNotFoundError):
                if os.path.samestat(path.stat(), os.fstat(file.fileno())):
                    path.unlink()
            _remove_sides(path)


@contextmanager
def _lock_file(path: Path) -> Iterator[BinaryIO]:
    while True:
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreBusy(store=str(path)) from None
            # The process that had the lock may have given the file its proper name before it let go.
            if path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno())):
                yield file
                return


def _remove_sides(path: Path) -> None:
    for side in SQLITE_SUFFIXES:
        Path(f"{path}{side}").unlink(missing_ok=True)


def publish(part: Path, file: BinaryIO, target: Path) -> None:
    """Give a whole file its proper name, on the disk too: after a crash it is there whole, or not at all."""
    file.flush()
    os.fsync(file.fileno())
    part.replace(target)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def call_on(call: CommandCall, file: Path) -> CommandCall:
    """The same call on a file of SQLite's."""
    return msgspec.structs.replace(call, url=f"sqlite:///{quote(str(file))}")


# Backups.


async def copy_database(call: CommandCall, part: Path) -> CopiedHeads:
    """Copy a database of SQLite's to a file while others go on using it; the heads of the copy."""
    async with call.database() as db:
        if not isinstance(db.store, BackupStore):
            raise InvalidArgument(problem="Only what is in a file or on a server can be backed up.")
        with call.progress("Copying", 100) as advance:
            await db.store.backup(str(part), _percent_progress(advance))
    async with call_on(call, part).database() as copy:
        heads = await read_heads(copy.store, await list_tenants(copy.store))
    seal_file(str(part))
    return heads


def _percent_progress(advance: Callable[[int], None]) -> Callable[[int, int], None]:
    shown = 0

    def show(pages: int, total: int) -> None:
        nonlocal shown
        percent = pages * 100 // max(total, 1)
        advance(percent - shown)
        shown = percent

    return show


# Restores.


def target_of(call: CommandCall, *, force: bool) -> Path:
    """The file that a backup is restored to.

    Raises:
        InvalidArgument: It is no file, or there is one already.
    """
    if call.file is None:
        raise InvalidArgument(problem="That is not a place to restore to. Use sqlite:/// or postgresql://.")
    target = call.file.resolve()  # of a link, not the link is replaced but what it leads to
    if target.exists() and not force:
        raise InvalidArgument(problem=f"{str(target)!r} exists already. Choose another --db, or say --force.")
    if not force:
        _refuse_orphan(target)
    return target


def _refuse_orphan(target: Path) -> None:
    """Refuse to delete the write-ahead log of a database that went away without it."""
    from clew.stores.sqlite.wal import refuse_orphan

    refuse_orphan(str(target))


async def stage_backup(call: CommandCall, backup: Path, staging_file: Path) -> None:
    """Copy a backup beside the place it will take, to be checked there.

    Raises:
        StoreDamaged: It is empty, cut short or no database of ours.
    """
    check_filled(backup)
    sources = _sources(backup, staging_file)
    stopped = threading.Event()
    with call.progress("Copying", sum(source.stat().st_size for source in sources)) as advance:
        await run_in_thread(lambda: _copy_bytes(sources, advance, stopped), stopped.set)
    if not schema_of_file(str(staging_file)):
        raise StoreDamaged(store=str(backup), problem="it holds no database of Clew")


def _sources(backup: Path, staged: Path) -> dict[Path, Path]:
    """The files to copy and their targets: the database, and its log if it was copied together with it."""
    names = [name for name in ("", "-wal") if Path(f"{backup}{name}").exists()]
    return {Path(f"{backup}{name}"): Path(f"{staged}{name}") for name in names}


def check_filled(backup: Path) -> None:
    """Refuse a file that holds nothing, which SQLite would take for a new database.

    Raises:
        StoreDamaged: It is empty.
    """
    if not backup.stat().st_size:
        raise StoreDamaged(store=str(backup), problem="it is empty")


def _copy_bytes(
    sources: Mapping[Path, Path], advance: Callable[[int], None], stopped: threading.Event
) -> None:
    for source, target in sources.items():
        with source.open("rb") as original, target.open("wb") as copy:
            while (chunk := original.read(CHUNK_BYTES)) and not stopped.is_set():
                copy.write(chunk)
                advance(len(chunk))


async def check_whole(store: Store, backup: Path) -> None:
    """Have the file of a copy checked.

    Raises:
        StoreDamaged: Something is wrong with it.
    """
    problems = await store.check_integrity(quick=False) if isinstance(store, CheckedFile) else []
    if problems:
        raise StoreDamaged(store=str(backup), problem="; ".join(problems[:3]))


def put_in_place(staged: Path, file: BinaryIO, target: Path, backup: Path) -> None:
    """Put a checked copy in the place of a database: killed at any moment, the old or the new one is there.

    Raises:
        StoreBusy: Another process has the old one open.
    """
    seal_file(str(staged))
    model = target if target.exists() else backup
    staged.chmod(model.stat().st_mode & 0o777)
    if target.exists():
        _seal_old(target)
    publish(staged, file, target)


def _seal_old(target: Path) -> None:
    """Leave nothing beside the old database that would be taken for a part of the new one.

    The log beside it holds commits of its own, so it is folded into the file, not removed: until the new one
    has its name, the old one is whole. One that is too damaged for that is kept under another name.
    """
    try:
        seal_file(str(target))
    except StoreDamaged:
        names = (f"{target}.damaged{number or ''}" for number in itertools.count())
        damaged_copy = next(name for name in names if not Path(name).exists())
        for side in ("", *SQLITE_SUFFIXES):
            with suppress(FileNotFoundError):
                os.link(f"{target}{side}", f"{damaged_copy}{side}")
        sync_folder(target.parent)
        _remove_sides(target)
