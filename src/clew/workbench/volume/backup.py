"""A volume copied for a backup, and put back: every file with its checksum in an index, checked before use.

A manifest is written after the commit that it is made from. So the volume is copied before the database: a
manifest in the copy is never ahead of the copied database. What a commit names, such as an artifact, is
written before it. So what users have is looked at once more after the database: nothing it names is missing.
"""

import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

import msgspec

from clew.core.errors import ClewError, InvalidArgument, StoreBusy
from clew.core.manifest.document import STAMP_KEY
from clew.workbench.volume.operators import ASIDE_FOLDER
from clew.workbench.volume.paths import PART_NAME
from clew.workbench.volume.tree import (
    FILE_FLAGS,
    Tree,
    chunks_of,
    file_problem,
    move_entry,
    names_in,
    remove_entry,
)
from clew.workbench.volume.volume import META, USERS

INDEX_FILE: Final = "index.json"
FILES_FOLDER: Final = "files"
FORMAT: Final = 1
STAGED: Final = ".restored.part"
REPLACED: Final = ".replaced.part"
"""Folders of a restore in the root of a volume, by names that no tenant has."""


class BackupEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a copy; ``path`` is percent-encoded, since names on a disk need not be text."""

    path: str
    size: int
    sha256: str

    @property
    def parts(self) -> tuple[str, ...]:
        """The names that lead to it."""
        return tuple(os.fsdecode(unquote_to_bytes(self.path)).split("/"))


class VolumeIndex(msgspec.Struct, frozen=True, kw_only=True):
    """The files in a copy, and those left out of it with the reason."""

    format: int
    files: tuple[BackupEntry, ...]
    left_out: dict[str, str] = {}


def volume_copy_path(backup: Path) -> Path:
    """The path of the volume's copy that goes with a backup. It is no volume by itself."""
    return backup.with_name(f"{backup.name}.files")


class VolumeCopy:
    """A copy that is being made: first of everything, then of what users have written since."""

    def __init__(self, root: Path, target: Path, stopped: threading.Event | None = None) -> None:
        self._root = root
        self._target = target
        self._part = target.with_name(f"{target.name}.part")
        self._stopped = stopped or threading.Event()
        self._file_marks: dict[str, tuple[int, int, int]] = {}
        self._files: dict[str, BackupEntry] = {}
        self._left_out: dict[str, str] = {}

    def begin(self) -> None:
        """Copy everything.

        Raises:
            InvalidArgument: The copy would overwrite something.
        """
        if self._target.exists():
            problem = f"{str(self._target)!r} exists already, and a backup never overwrites."
            raise InvalidArgument(problem=problem)
        self.discard()  # what one that was killed has left
        self._part.mkdir(mode=0o700, parents=True)
        self._copy(lambda parts: True)

    def discard(self) -> None:
        """Take away what was copied and has not become a whole copy."""
        shutil.rmtree(self._part, ignore_errors=True)

    def finish(self) -> VolumeIndex:
        """Copy what users have written since, write the index, and give the copy its proper name.

        Only a whole copy has that name.
        """
        self._copy(lambda parts: parts[1:2] == (USERS,))
        files = tuple(self._files[path] for path in sorted(self._files))
        index = VolumeIndex(format=FORMAT, files=files, left_out=self._left_out)
        _write(self._part / INDEX_FILE, iter([msgspec.json.format(msgspec.json.encode(index), indent=1)]))
        for folder, _, _ in os.walk(self._part):
            _sync(Path(folder))
        self._part.rename(self._target)
        _sync(self._target.parent)
        return index

    def _copy(self, is_included: Callable[[tuple[str, ...]], bool]) -> None:
        for parts, folder in _all_files(self._root):
            path = quote_from_bytes(os.fsencode("/".join(parts)))
            if self._stopped.is_set():
                raise StoreBusy(store=str(self._root))  # nobody waits for it any more
            if not is_included(parts):
                continue
            try:
                self._copy_file(parts, path, folder)
            except FileNotFoundError:
                continue  # it went between two looks

    def _copy_file(self, parts: tuple[str, ...], path: str, folder: int) -> None:
        file_stat = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
        if (problem := file_problem(file_stat)) is not None:
            self._left_out[path] = problem
            return
        mark = (file_stat.st_ino, file_stat.st_size, file_stat.st_mtime_ns)
        if self._file_marks.get(path) == mark:
            return
        file = os.open(parts[-1], FILE_FLAGS, dir_fd=folder)
        try:
            size, checksum = _write(self._part.joinpath(FILES_FOLDER, *parts), chunks_of(file))
        finally:
            os.close(file)
        self._file_marks[path] = mark
        self._files[path] = BackupEntry(path=path, size=size, sha256=checksum)


def _all_files(root: Path) -> Iterator[tuple[tuple[str, ...], int]]:
    """Every file of a volume, with a descriptor of its folder; not what is being written or erased."""
    for above, folders, names, descriptor in os.fwalk(root, follow_symlinks=False):
        inner = Path(above).relative_to(root).parts
        left = {ASIDE_FOLDER} if len(inner) == 1 else {STAGED, REPLACED} if not inner else set()
        folders[:] = sorted(name for name in folders if name not in left)
        links = [name for name in folders if _is_link(name, descriptor)]
        for name in sorted([*names, *links]):
            if not PART_NAME.match(name):
                yield (*inner, name), descriptor


def _is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False  # it went meanwhile


def _write(file: Path, chunks: Iterator[bytes]) -> tuple[int, str]:
    """Write a file of a copy; its size and checksum."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    size, digest = 0, sha256()
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
        for chunk in chunks:
            stream.write(chunk)
            digest.update(chunk)
            size += len(chunk)
        stream.flush()
        os.fsync(stream.fileno())
    return size, digest.hexdigest()


def manifest_versions(index: VolumeIndex, copy: Path) -> dict[tuple[str, str], int]:
    """The highest versions that manifests are of, by the folder of their tenant and their session."""
    versions: dict[tuple[str, str], int] = {}
    for file in index.files:
        if file.parts[1:2] == (META,) and file.parts[-1].endswith(".json"):
            session, version = _stamp((copy / FILES_FOLDER).joinpath(*file.parts).read_bytes())
            place = (file.parts[0], session)
            versions[place] = max(version, versions.get(place, 0))
    return versions


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _stamp(content: bytes) -> tuple[str, int]:
    """The session and the version that a manifest names; one that cannot be read names none."""
    try:
        document = msgspec.json.decode(content)
        return str(document["session"]), int(document[STAMP_KEY]["version"])
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError, ValueError):
        return "", 0


# Putting it back.


def read_index(copy: Path) -> VolumeIndex:
    """The index of a copy.

    Raises:
        InvalidArgument: It is not whole, no copy, or of another release.
    """
    try:
        index = msgspec.json.decode((copy / INDEX_FILE).read_bytes(), type=VolumeIndex)
    except FileNotFoundError as error:
        raise InvalidArgument(problem=f"{str(copy)!r} has no index; the backup was not finished.") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidArgument(problem=f"The index of {str(copy)!r} cannot be read: {error}.") from error
    if index.format != FORMAT:
        raise InvalidArgument(problem=f"The copy has format {index.format}; this release knows {FORMAT}.")
    for file in index.files:
        if any(part in ("", ".", "..") or "\0" in part for part in file.parts):
            raise InvalidArgument(problem=f"The index names {file.path!r}, which is no path of a volume.")
    return index


def damage_of(copy: Path, index: VolumeIndex) -> dict[str, str]:
    """The damage to the files of a copy, by path; empty if it is whole."""
    return differences(copy / FILES_FOLDER, index)


def differences(root: Path, index: VolumeIndex) -> dict[str, str]:
    """The differences between a volume and an index, by path."""
    tree = Tree(root)
    problems = ((file.path, _entry_problem(tree, file)) for file in index.files)
    return {path: problem for path, problem in problems if problem is not None}


def _entry_problem(tree: Tree, file: BackupEntry) -> str | None:
    try:
        checksum = tree.checksum(file.parts)
    except ClewError as error:
        return str(error)
    return None if checksum == file.sha256 else "it has another checksum"


class StagedVolume:
    """A copy of a volume inside the volume that it will replace, where nobody looks for files.

    So it is on the same disk, also where the volume is one of its own, and only names have to change.
    """

    def __init__(self, copy: Path, index: VolumeIndex, root: Path, stopped: threading.Event) -> None:
        self._copy = copy
        self._index = index
        self._root = root
        self._stopped = stopped

    def fill(self) -> dict[str, str]:
        """Copy every file, and say how that differs from the index, by path."""
        for name in (STAGED, REPLACED):  # what one that was killed has left
            _remove_folder(self._root, name)
        target = Tree(self._root, (STAGED,), allow_similar=True)
        target.make()
        for file in self._index.files:
            if self._stopped.is_set():
                raise StoreBusy(store=str(self._root))  # nobody waits for it any more
            with (self._copy / FILES_FOLDER).joinpath(*file.parts).open("rb") as source:
                target.write(file.parts, chunks_of(source.fileno()))
        return differences(self._root / STAGED, self._index)

    def discard(self) -> None:
        """Take away the copy, if it has not taken its place."""
        _remove_folder(self._root, STAGED)


def switch_volume(root: Path) -> None:
    """Put a staged copy in the place of what is in a volume: a few names change, nothing is copied.

    Killed in the middle, nothing is lost: what is not there any more is in the folder of what was replaced,
    and what is not there yet in that of the copy. Restoring again makes it whole.
    """
    tree = Tree(root, allow_similar=True)
    for name in names_in(tree, ()):
        if name not in (STAGED, REPLACED):
            move_entry(tree, (name,), (REPLACED, name))
    for name in names_in(tree, (STAGED,)):
        move_entry(tree, (STAGED, name), (name,))
    for name in (STAGED, REPLACED):
        _remove_folder(root, name)


def _remove_folder(root: Path, name: str) -> None:
    if (root / name).is_dir():
        remove_entry(Tree(root), (name,))


def is_empty(root: Path) -> bool:
    """Return whether a volume has no files, apart from those of a restore that was killed."""
    return not root.is_dir() or all(path.name == STAGED for path in root.iterdir())
