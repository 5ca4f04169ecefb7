"""A folder that no path leads out of: every step is taken by a descriptor, and no link is followed.

A path that was checked and then opened can be another file by then. So nothing is checked by its path: each
folder on the way is opened from the one before it, a link refuses to be opened, and what was opened is looked
at, not what its name leads to later. Names are taken as they come: the caller has checked them.
"""

import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from types import EllipsisType

import msgspec

from clew.core.errors import (
    ClewError,
    StorageError,
    StorageFull,
    StoreBusy,
    StoreReadOnly,
    TooLarge,
    VolumeFileChanged,
    VolumeFileNotFound,
    VolumePathRefused,
)
from clew.workbench.volume.paths import PART_NAME, collision_key, name_problem, printable_name

STORE_NAME = "The volume"
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
CHUNK_BYTES = 1 << 20
WAIT_SECONDS, POLL_SECONDS = 5.0, 0.005
LINK = "a part of the path is a link or something else that is not a folder"
NOT_PLAIN = "it is not a plain file"
TWO_NAMES = "the file has a second name, perhaps outside the volume"

PathParts = Sequence[str]


class TreeEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A file found in a tree, or what cannot be used as one and why."""

    parts: tuple[str, ...]
    size: int = 0
    modified: int = 0
    problem: str | None = None


class Tree:
    """Files below a folder. ``root`` is the operator's, and may be a link; ``base`` leads on from there.

    With ``allow_similar`` a name may be one that another file system would take for another's.
    """

    def __init__(self, root: Path, base: PathParts = (), *, allow_similar: bool = False) -> None:
        self.root = root
        self.base = tuple(base)
        self._allow_similar = allow_similar

    @property
    def folder(self) -> Path:
        """The root folder of the tree."""
        return self.root.joinpath(*self.base)

    def make(self, *parts: str) -> None:
        """Make a folder, if it is not there."""
        with translate_errors(parts), self.open_folder(parts, make=True):
            pass

    def read(self, parts: PathParts, limit: int) -> bytes:
        """The contents of a file.

        Raises:
            VolumeFileNotFound: There is none.
            VolumePathRefused: It is not a plain file, or a part of the path is a link.
            TooLarge: It is over the limit.
        """
        with (
            translate_errors(parts),
            self.open_folder(parts[:-1]) as folder,
            _open_file(folder, parts) as file,
        ):
            size, content = os.fstat(file).st_size, bytearray()
            for chunk in chunks_of(file) if size <= limit else ():
                content += chunk
                size = max(size, len(content))  # it may grow while it is read
                if size > limit:
                    break
        if size > limit:
            raise TooLarge(what="file", size=size, limit=limit)
        return bytes(content)

    def checksum(self, parts: PathParts) -> str:
        """The SHA-256 of what a file holds.

        Raises:
            VolumeFileNotFound: There is none.
            VolumePathRefused: It is not a plain file, or a part of the path is a link.
        """
        with translate_errors(parts), self.open_folder(parts[:-1]) as folder:
            return _checksum(folder, parts)

    def write(
        self, parts: PathParts, content: Iterable[bytes], *, expect: str | EllipsisType | None = ...
    ) -> None:
        """Write a file: whole, or not at all, and on disk when this returns.

        Raises:
            VolumePathRefused: It is not a plain file, or the name is another's elsewhere.
            VolumeFileChanged: It is not what ``expect`` says.
        """
        with translate_errors(parts, writing=True), self.open_folder(parts[:-1], make=True) as folder:
            part = f".{parts[-1]}.{secrets.token_hex(8)}.part"
            try:
                _write_new(folder, part, content)
                with _lock_folder(folder):
                    _check_target(folder, parts, allow_similar=self._allow_similar)
                    check_expected(folder, parts, expect)
                    os.replace(part, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(part, dir_fd=folder)
            os.fsync(folder)

    def delete(self, parts: PathParts) -> None:
        """Take a file away; a link goes, and never what it leads to.

        Raises:
            VolumeFileNotFound: There is none.
            VolumePathRefused: It is a folder, or a part of the path is a link.
        """
        with translate_errors(parts), self.open_folder(parts[:-1]) as folder:
            if stat.S_ISDIR(os.stat(parts[-1], dir_fd=folder, follow_symlinks=False).st_mode):
                raise VolumePathRefused(path="/".join(parts), problem=NOT_PLAIN)
            os.unlink(parts[-1], dir_fd=folder)
            os.fsync(folder)

    def move(self, parts: PathParts, name: str) -> None:
        """Give a file another name in its folder, which must be free.

        Raises:
            VolumeFileNotFound: There is none.
            VolumePathRefused: The name is taken, or a part of the path is a link.
        """
        with translate_errors(parts), self.open_folder(parts[:-1]) as folder, _lock_folder(folder):
            if collision_key(name) in {collision_key(other) for other in folder_names(folder)}:
                raise VolumePathRefused(path="/".join((*parts[:-1], name)), problem="the name is taken")
            os.rename(parts[-1], name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)

    def tidy(self, parts: PathParts, before: int) -> None:
        """Take away what was begun in a folder, or below it, before a time and never got its name."""
        for entry in list(self.entries(parts)):
            if PART_NAME.match(entry.parts[-1]) and entry.modified < before:
                with suppress(VolumeFileNotFound):
                    self.delete(entry.parts)

    def entries(self, parts: PathParts = (), after: PathParts = ()) -> Iterator[TreeEntry]:
        """The entries of a folder and below it, in order of their names; none if it does not exist."""
        with suppress(VolumeFileNotFound), translate_errors(parts), self.open_folder(parts) as folder:
            yield from _folder_entries(folder, tuple(parts), tuple(after))

    @contextmanager
    def open_folder(self, parts: PathParts, *, make: bool = False) -> Iterator[int]:
        """A descriptor of a folder, reached step by step."""
        if make:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = os.open(self.root, FOLDER_FLAGS)
        try:
            for depth, name in enumerate((*self.base, *parts)):
                refuse_similar = depth >= len(self.base) and not self._allow_similar
                inner = _open_inner_folder(folder, name, make=make, refuse_similar=refuse_similar)
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)


def _open_inner_folder(folder: int, name: str, *, make: bool, refuse_similar: bool) -> int:
    """A descriptor of a folder in a folder; made if it may be, and on disk then."""
    if make:
        try:
            return os.open(name, FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=folder)
        except FileNotFoundError:
            with _lock_folder(folder), suppress(FileExistsError):
                if refuse_similar:
                    _check_name(folder, (name,))
                os.mkdir(name, 0o700, dir_fd=folder)
                os.fsync(folder)
    return os.open(name, FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=folder)


@contextmanager
def _open_file(folder: int, parts: PathParts) -> Iterator[int]:
    """A descriptor of a plain file. It is looked at before, since to open a device may be to use it."""
    _check_plain(os.stat(parts[-1], dir_fd=folder, follow_symlinks=False), parts)
    file = os.open(parts[-1], FILE_FLAGS, dir_fd=folder)
    try:
        _check_plain(os.fstat(file), parts)
        yield file
    finally:
        os.close(file)


def _check_plain(file_stat: os.stat_result, parts: PathParts) -> None:
    if (problem := file_problem(file_stat)) is not None:
        raise VolumePathRefused(path="/".join(parts), problem=problem)


def file_problem(file_stat: os.stat_result) -> str | None:
    """The reason why a path cannot be used as a file; None if it can."""
    if not stat.S_ISREG(file_stat.st_mode):
        return NOT_PLAIN
    return TWO_NAMES if file_stat.st_nlink > 1 else None


def _check_target(folder: int, parts: PathParts, *, allow_similar: bool) -> None:
    """Refuse to replace what is no plain file, and a name that some file system would take for another."""
    try:
        _check_plain(os.stat(parts[-1], dir_fd=folder, follow_symlinks=False), parts)
    except FileNotFoundError:
        if not allow_similar:
            _check_name(folder, parts)


def _check_name(folder: int, parts: PathParts) -> None:
    key = collision_key(parts[-1])
    for other in folder_names(folder):
        if other != parts[-1] and collision_key(other) == key:
            problem = f"{printable_name(other)!r} is there, which is the same name on other systems"
            raise VolumePathRefused(path="/".join(parts), problem=problem)


def folder_names(folder: int) -> list[str]:
    """The names in a folder, in order."""
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries)


def check_expected(folder: int, parts: PathParts, expect: str | EllipsisType | None) -> None:
    """Refuse to go on if a file is not the one that the caller has seen; ``...`` accepts any."""
    if isinstance(expect, EllipsisType):
        return
    try:
        actual = _checksum(folder, parts)
    except FileNotFoundError:
        actual = None
    if actual != expect:
        raise VolumeFileChanged(path="/".join(parts), expected=expect, actual=actual)


def _checksum(folder: int, parts: PathParts) -> str:
    digest = sha256()
    with _open_file(folder, parts) as file:
        for chunk in chunks_of(file):
            digest.update(chunk)
    return digest.hexdigest()


def chunks_of(file: int) -> Iterator[bytes]:
    """The contents of an open file, a part at a time."""
    while chunk := os.read(file, CHUNK_BYTES):
        yield chunk


def _write_new(folder: int, name: str, content: Iterable[bytes]) -> None:
    with os.fdopen(os.open(name, NEW_FILE_FLAGS, 0o600, dir_fd=folder), "wb") as file:
        file.writelines(content)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _lock_folder(folder: int) -> Iterator[None]:
    """Keep other writers of this folder out; code in a sandbox may hold the lock too, so not for ever."""
    end = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > end:
                raise StoreBusy(store=STORE_NAME) from None
            time.sleep(POLL_SECONDS)
    try:
        yield
    finally:
        fcntl.flock(folder, fcntl.LOCK_UN)


def _folder_entries(folder: int, above: tuple[str, ...], after: tuple[str, ...]) -> Iterator[TreeEntry]:
    for name in folder_names(folder):
        parts = (*above, name)
        if parts < after[: len(parts)] or parts == after:
            continue
        try:
            file_stat = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            continue
        if not stat.S_ISDIR(file_stat.st_mode):
            yield _entry(parts, file_stat)
        elif (problem := name_problem(name)) is not None:
            yield TreeEntry(parts=parts, problem=problem)
        else:
            yield from _subfolder_entries(folder, parts, after)


def _subfolder_entries(folder: int, parts: tuple[str, ...], after: tuple[str, ...]) -> Iterator[TreeEntry]:
    try:
        inner = os.open(parts[-1], FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
        return
    try:
        yield from _folder_entries(inner, parts, after)
    finally:
        os.close(inner)


def _entry(parts: tuple[str, ...], file_stat: os.stat_result) -> TreeEntry:
    problem = name_problem(parts[-1]) or file_problem(file_stat)
    return TreeEntry(
        parts=parts, size=file_stat.st_size, modified=file_stat.st_mtime_ns // 1_000_000, problem=problem
    )


@contextmanager
def translate_errors(parts: PathParts, *, writing: bool = False) -> Iterator[None]:
    """The system's errors in our words."""
    try:
        yield
    except OSError as error:
        raise _volume_error(error, "/".join(parts), writing=writing) from error


def _volume_error(error: OSError, path: str, *, writing: bool) -> ClewError:
    match error.errno:
        case errno.ENOENT:  # a writer gets this only if the folder is removed at the same moment
            return StoreBusy(store=STORE_NAME) if writing else VolumeFileNotFound(path=path)
        case errno.ELOOP | errno.ENOTDIR | errno.EISDIR | errno.ENXIO:
            return VolumePathRefused(path=path, problem=LINK)
        case errno.ENAMETOOLONG | errno.EINVAL:
            return VolumePathRefused(path=path, problem="the file system does not take this name")
        case errno.ENOSPC | errno.EDQUOT:
            return StorageFull(store=STORE_NAME)
        case errno.EROFS | errno.EACCES | errno.EPERM:
            return StoreReadOnly(store=STORE_NAME)
        case _:
            return StorageError(store=STORE_NAME, problem=error.strerror or str(error))


ZEROS_BYTES = 1 << 20
REMOVE_ATTEMPTS = 20
"""Attempts to empty a folder into which another process writes while it is removed."""


def names_in(tree: Tree, parts: PathParts) -> list[str]:
    """The names in a folder, in order; none if there is no such folder."""
    try:
        with translate_errors(parts), tree.open_folder(parts) as folder:
            return folder_names(folder)
    except (VolumeFileNotFound, VolumePathRefused):
        return []


def sizes_of(tree: Tree, parts: PathParts) -> Iterator[tuple[tuple[str, ...], int]]:
    """Everything below a name that is no folder, by its path from there, with its size."""
    with translate_errors(parts), tree.open_folder(parts[:-1]) as above:
        file_stat = os.stat(parts[-1], dir_fd=above, follow_symlinks=False)
        if not stat.S_ISDIR(file_stat.st_mode):
            yield (), file_stat.st_size
            return
        for folder, _, names, descriptor in os.fwalk(parts[-1], dir_fd=above, onerror=_raise_unless_missing):
            inner = tuple(folder.split("/")[1:])
            for name in names:
                with suppress(FileNotFoundError):
                    yield (*inner, name), os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_size


def move_entry(tree: Tree, parts: PathParts, target: PathParts) -> None:
    """Give a file or folder another name, in another folder of the tree; nothing if it is gone."""
    with (
        translate_errors(parts),
        tree.open_folder(target[:-1], make=True) as target_folder,
        suppress(FileNotFoundError),
    ):
        with tree.open_folder(parts[:-1]) as above:
            os.rename(parts[-1], target[-1], src_dir_fd=above, dst_dir_fd=target_folder)
            os.fsync(above)
        os.fsync(target_folder)


def remove_entry(tree: Tree, parts: PathParts) -> None:
    """Take a file or a folder with all that is in it away; what files held is written over first.

    Raises:
        StoreBusy: Another process goes on writing there.
    """
    with translate_errors(parts), tree.open_folder(parts[:-1]) as above, suppress(FileNotFoundError):
        file_stat = os.stat(parts[-1], dir_fd=above, follow_symlinks=False)
        if stat.S_ISDIR(file_stat.st_mode):
            _remove_folder(above, parts[-1])
        else:
            _remove_file(above, parts[-1])
        os.fsync(above)


def _remove_folder(above: int, name: str) -> None:
    for _ in range(REMOVE_ATTEMPTS):
        for _, folders, names, descriptor in os.fwalk(
            name, dir_fd=above, topdown=False, onerror=_raise_unless_missing
        ):
            for each in names:
                _remove_file(descriptor, each)
            for each in folders:
                _remove_empty(descriptor, each)
        with suppress(OSError):
            os.rmdir(name, dir_fd=above)
            return
    raise StoreBusy(store=STORE_NAME)


def _remove_empty(above: int, name: str) -> None:
    """Take a folder away if it is empty by now; a link to one counts as one where it is walked through."""
    if stat.S_ISLNK(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=above)
        return
    with suppress(OSError):  # another process wrote into it meanwhile: it is emptied again
        os.rmdir(name, dir_fd=above)


def _remove_file(above: int, name: str) -> None:
    with suppress(FileNotFoundError):
        file_stat = os.stat(name, dir_fd=above, follow_symlinks=False)
        if stat.S_ISREG(file_stat.st_mode) and file_stat.st_nlink == 1:
            _overwrite_file(above, name, file_stat)
        os.unlink(name, dir_fd=above)


def _overwrite_file(above: int, name: str, expected_stat: os.stat_result) -> None:
    """Write zeros over a file's bytes, unless it is another file by now: that may be another owner's."""
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, dir_fd=above), "wb", closefd=True) as file:
        actual_stat = os.fstat(file.fileno())
        if (actual_stat.st_dev, actual_stat.st_ino, actual_stat.st_nlink) != (
            expected_stat.st_dev,
            expected_stat.st_ino,
            1,
        ):
            return
        for start in range(0, actual_stat.st_size, ZEROS_BYTES):
            file.write(bytes(min(ZEROS_BYTES, actual_stat.st_size - start)))
        file.flush()
        os.fsync(file.fileno())


MOST_FOLDERS = 1_000_000
"""Folders that are taken apart in one call, so that code that makes more meanwhile cannot hold it up."""


def remove_others(tree: Tree, names: Sequence[str]) -> None:
    """Take everything away that is in the tree's own folder, but for the folders of these names.

    Nothing is written over. However deep folders are, none is open beside the one that is emptied.

    Raises:
        StoreBusy: Another process goes on writing there.
    """
    with suppress(VolumeFileNotFound), translate_errors(()), tree.open_folder(()) as top:
        for _ in range(MOST_FOLDERS):
            others = [each for each in folder_names(top) if each not in names or not _is_folder(top, each)]
            if not others:
                return
            for name in others:
                with suppress(FileNotFoundError):
                    _take_apart(top, name)
        raise StoreBusy(store=STORE_NAME)


def remove_path(path: Path) -> None:
    """Take a folder away with all that is in it, or a file, or a link; nothing if there is none.

    Raises:
        StoreBusy: Another process goes on writing there.
    """
    with suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            remove_others(Tree(path), ())
            path.rmdir()
        else:
            path.unlink()


def _take_apart(top: int, name: str) -> None:
    """Remove a file; of a folder its files and itself, after the folders in it were moved to the top."""
    if not _is_folder(top, name):
        os.unlink(name, dir_fd=top)
        return
    with _open_with_all_rights(top, name) as folder:
        for each in folder_names(folder):
            if not _is_folder(folder, each):
                os.unlink(each, dir_fd=folder)
                continue
            with _open_with_all_rights(folder, each):  # without the right to write to it, it cannot be moved
                os.rename(each, f".{secrets.token_hex(8)}.part", src_dir_fd=folder, dst_dir_fd=top)
    os.rmdir(name, dir_fd=top)


@contextmanager
def _open_with_all_rights(above: int, name: str) -> Iterator[int]:
    """A descriptor of a folder, once its user has all rights to it; code may have taken them away."""
    place = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    try:
        # By its descriptor, since its name may be that of a link by now, to a folder outside.
        Path(f"/proc/self/fd/{place}").chmod(0o700)
        folder = os.open(".", FOLDER_FLAGS, dir_fd=place)
    finally:
        os.close(place)
    try:
        yield folder
    finally:
        os.close(folder)


def _is_folder(above: int, name: str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
