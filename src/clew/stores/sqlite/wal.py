"""The write-ahead log as a file: a check that it holds commits, and a copy of it."""

import os
import stat
from pathlib import Path

from clew.core.errors import WalOrphaned

HEADER = 32
FRAME_HEADER = 24
SALTS = 8
MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
CHUNK = 1 << 20


def has_frames(wal: str) -> bool:
    """Return whether a write-ahead log holds at least one page that belongs to it.

    The log carries no locks, so it may be opened and closed beside SQLite.
    """
    try:
        with Path(wal).open("rb") as file:
            head = file.read(HEADER + FRAME_HEADER)
    except FileNotFoundError:
        return False
    # A frame is valid only if it carries the salts of the header; older ones are left from before a restart.
    salts, frame_salts = head[16 : 16 + SALTS], head[HEADER + 8 : HEADER + 8 + SALTS]
    return len(head) == HEADER + FRAME_HEADER and head[:4] in MAGIC and salts == frame_salts


def refuse_orphan(path: str) -> None:
    """Refuse to open a database that is missing or empty while its write-ahead log holds commits.

    SQLite takes such a log for a leftover and deletes it.

    Raises:
        WalOrphaned: It does.
    """
    wal = f"{os.path.realpath(path)}-wal"
    # Checked once more after the log: another process may be making the database just now.
    if _is_empty(path) and has_frames(wal) and _is_empty(path):
        raise WalOrphaned(store=path, wal=wal)


def copy_wal(descriptor: int, wal: str) -> str:
    """Copy an open write-ahead log to a new file beside its path; the copy's path, empty if there is none."""
    status = os.fstat(descriptor)
    if status.st_size <= HEADER:
        return ""
    target, path = _new_file(wal, stat.S_IMODE(status.st_mode))
    with os.fdopen(target, "wb") as copy:
        position = 0
        while chunk := os.pread(descriptor, CHUNK, position):
            position += copy.write(chunk)
        copy.flush()
        os.fsync(target)
    _sync_directory(path)
    return path


def _new_file(wal: str, mode: int) -> tuple[int, str]:
    number = 1
    while True:
        path = f"{wal}.saved-{number}"
        try:
            return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), path
        except FileExistsError:
            number += 1


def _sync_directory(path: str) -> None:
    directory = os.open(Path(path).parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _is_empty(path: str) -> bool:
    try:
        return Path(path).stat().st_size == 0
    except FileNotFoundError:
        return True
