"""Whole folders of a tree: what is in them, how much it is, and their end. No link is followed."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from clew.core.errors import StoreBusy, VolumeFileNotFound, VolumePathRefused
from clew.workbench.tree import WHAT, Parts, Tree, listed, translated

BLOCK = 1 << 20
TRIES = 20
"""How often to remove what somebody puts into a folder while it is removed."""


def names_in(tree: Tree, parts: Parts) -> list[str]:
    """The names in a folder, in order; none if there is no such folder."""
    try:
        with translated(parts), tree.opened(parts) as folder:
            return listed(folder)
    except (VolumeFileNotFound, VolumePathRefused):
        return []


def sizes_of(tree: Tree, parts: Parts) -> Iterator[tuple[tuple[str, ...], int]]:
    """Everything below a name that is no folder, by its path from there, with its size."""
    with translated(parts), tree.opened(parts[:-1]) as above:
        found = os.stat(parts[-1], dir_fd=above, follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode):
            yield (), found.st_size
            return
        for folder, _, names, descriptor in os.fwalk(parts[-1], dir_fd=above, onerror=_raised):
            inner = tuple(folder.split("/")[1:])
            for name in names:
                with suppress(FileNotFoundError):
                    yield (*inner, name), os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_size


def put(tree: Tree, parts: Parts, target: Parts) -> None:
    """Give a file or folder another name, in another folder of the tree; nothing if it is gone."""
    with translated(parts), tree.opened(target[:-1], make=True) as to, suppress(FileNotFoundError):
        with tree.opened(parts[:-1]) as above:
            os.rename(parts[-1], target[-1], src_dir_fd=above, dst_dir_fd=to)
            os.fsync(above)
        os.fsync(to)


def remove(tree: Tree, parts: Parts) -> None:
    """Take a file or a folder with all that is in it away; what files held is written over first.

    Raises:
        StoreBusy: Somebody goes on writing there.
    """
    with translated(parts), tree.opened(parts[:-1]) as above, suppress(FileNotFoundError):
        found = os.stat(parts[-1], dir_fd=above, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            _remove_folder(above, parts[-1])
        else:
            _remove_file(above, parts[-1])
        os.fsync(above)


def _remove_folder(above: int, name: str) -> None:
    for _ in range(TRIES):
        for _, folders, names, descriptor in os.fwalk(name, dir_fd=above, topdown=False, onerror=_raised):
            for each in names:
                _remove_file(descriptor, each)
            for each in folders:
                _remove_empty(descriptor, each)
        with suppress(OSError):
            os.rmdir(name, dir_fd=above)
            return
    raise StoreBusy(store=WHAT)


def _remove_empty(above: int, name: str) -> None:
    """Take a folder away if it is empty by now; a link to one counts as one where it is walked through."""
    if stat.S_ISLNK(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=above)
        return
    with suppress(OSError):  # somebody wrote into it meanwhile: it is gone through again
        os.rmdir(name, dir_fd=above)


def _remove_file(above: int, name: str) -> None:
    with suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=above, follow_symlinks=False)
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
            _write_over(above, name, found)
        os.unlink(name, dir_fd=above)


def _write_over(above: int, name: str, seen: os.stat_result) -> None:
    """Write zeros over a file's bytes, unless it is another by now: that may be somebody else's."""
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, dir_fd=above), "wb", closefd=True) as file:
        found = os.fstat(file.fileno())
        if (found.st_dev, found.st_ino, found.st_nlink) != (seen.st_dev, seen.st_ino, 1):
            return
        for start in range(0, found.st_size, BLOCK):
            file.write(bytes(min(BLOCK, found.st_size - start)))
        file.flush()
        os.fsync(file.fileno())


def _raised(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
