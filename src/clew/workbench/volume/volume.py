"""The durable volume: a user's memory/, artifacts/ and buffers/, and the manifests of sessions in meta/.

Below a tenant's folder are ``users/<user>/memory``, ``…/artifacts`` and ``…/buffers``, which are one
user's, and ``meta/workspaces/<workspace>/users/<user>/``, where manifests are. A path names one of the four
first: ``artifacts/map.png``. Calls block until the disk has done its work: from async code use a thread.
"""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import EllipsisType
from typing import Final

import msgspec

from clew.core.arguments import check_methods
from clew.core.clock import now_ms
from clew.core.encoding import check_id, check_tenant
from clew.core.errors import InvalidArgument, TooLarge, VolumeFull, VolumePathRefused
from clew.core.manifest.files import NO_USER, file_name
from clew.workbench.volume.paths import parts_of, printable_name
from clew.workbench.volume.tree import Tree, TreeEntry, remove_others

FOLDERS: Final = ("memory", "artifacts", "buffers")
META: Final = "meta"
USERS: Final = "users"
LARGEST: Final = 64 * 1024 * 1024
"""Bytes that one file may have, unless a volume has another limit."""
DAY_MS: Final = 24 * 60 * 60 * 1000
WORKSPACE: Final = re.compile(r"[a-z0-9_=~-]+\Z")
MANIFEST: Final = re.compile(r"react-session-[a-z0-9_=~-]+\.json(\.[a-z0-9-]{1,60})?\Z")
UNKNOWN_FOLDER: Final = "paths begin with memory/, artifacts/ or buffers/"
NOT_A_MANIFEST: Final = "meta/ holds manifests at workspaces/<workspace>/users/<user>/, and only this user's"


class VolumeFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a volume; ``modified`` is in milliseconds."""

    path: str
    size: int
    modified: int


class VolumePage(msgspec.Struct, frozen=True, kw_only=True):
    """Some files in order of their paths; ``next`` is where the next page begins.

    An entry among them that cannot be used, such as a link, is named in ``refused`` with its reason.
    """

    files: tuple[VolumeFile, ...]
    next: str | None = None
    refused: dict[str, str] = {}


@check_methods
class Volume:
    """One user's part of a volume; ``None`` is nobody. Nothing of others can be reached by its paths."""

    def __init__(
        self,
        root: Path,
        tenant: str,
        user: str | None,
        *,
        largest: int = LARGEST,
        capacity: int | None = None,
    ) -> None:
        self.user = NO_USER if user is None else file_name(check_id(user, "user"))
        self._largest = largest
        self._capacity = capacity
        self.tenant = Tree(root, (file_name(check_tenant(tenant)),))
        self._own = Tree(root, (*self.tenant.base, USERS, self.user))

    @property
    def folder(self) -> Path:
        """The folder of memory/, artifacts/ and buffers/, for an interpreter, whose actions are unchecked."""
        return self._own.folder

    def prepare(self) -> Path:
        """``folder`` with the three in it and nothing else, ready for an interpreter.

        What writers left behind who were killed long ago is taken away too.
        """
        self.remove_loose_files()
        for name in FOLDERS:
            self._own.make(name)
            self._own.tidy((name,), now_ms() - DAY_MS)
        return self.folder

    def remove_loose_files(self) -> None:
        """Take away all that is beside memory/, artifacts/ and buffers/: code wrote it, and it does not last.

        Raises:
            StoreBusy: Another process goes on writing there.
        """
        remove_others(self._own, FOLDERS)

    def read(self, path: str) -> bytes:
        """The contents of a file.

        Raises:
            VolumePathRefused: The path cannot be used, or does not name a plain file.
            VolumeFileNotFound: There is none.
            TooLarge: It is larger than this volume takes.
        """
        tree, parts = self._resolve_path(path)
        return tree.read(parts, self._largest)

    def write(self, path: str, content: bytes, *, expect: str | EllipsisType | None = ...) -> None:
        """Write a file: whole, or not at all, and on disk when this returns.

        With ``expect`` only if its checksum is still this one, or if it is absent (None).

        Raises:
            VolumePathRefused: The path cannot be used, does not name a plain file, or the name is another's
                on some file system.
            VolumeFileChanged: It is not what ``expect`` says.
            TooLarge: It is larger than this volume takes.
            VolumeFull: The user's part has no room for it.
        """
        tree, parts = self._resolve_path(path)
        if len(content) > self._largest:
            raise TooLarge(what="file", size=len(content), limit=self._largest)
        if tree is self._own and self._capacity is not None:
            self._check_room(parts, len(content), self._capacity)
        tree.write(parts, (content,), expect=expect)

    def delete(self, path: str) -> None:
        """Take a file away.

        Raises:
            VolumePathRefused: The path cannot be used, or is a folder's.
            VolumeFileNotFound: There is none.
        """
        tree, parts = self._resolve_path(path)
        tree.delete(parts)

    def move(self, path: str, to: str) -> None:
        """Give a file another name in its folder, which must be free.

        Raises:
            VolumePathRefused: A path cannot be used, or the name is taken.
            VolumeFileNotFound: There is none.
        """
        (tree, parts), (_, target) = self._resolve_path(path), self._resolve_path(to)
        if parts[:-1] != target[:-1]:
            raise VolumePathRefused(path=to, problem="a file stays in its folder")
        tree.move(parts, target[-1])

    def checksum(self, path: str) -> str:
        """The SHA-256 of a file, in hexadecimal digits.

        Raises:
            VolumePathRefused: The path cannot be used, or does not name a plain file.
            VolumeFileNotFound: There is none.
        """
        tree, parts = self._resolve_path(path)
        return tree.checksum(parts)

    def list(self, folder: str = "", *, after: str | None = None, limit: int = 100) -> VolumePage:
        """The files in a folder and below it, by path; of memory/, artifacts/ and buffers/ without one.

        Raises:
            VolumePathRefused: The folder's path cannot be used.
        """
        if limit < 1:
            raise InvalidArgument(problem="A page has at least one file.")
        last = tuple(after.split("/")) if after else ()
        entries = list(islice(self._entries(folder, last), limit + 1))
        page = entries[:limit]
        return VolumePage(
            files=tuple(_file(entry) for entry in page if entry.problem is None),
            next="/".join(page[-1].parts) if len(entries) > limit else None,
            refused={printable_name("/".join(e.parts)): e.problem for e in page if e.problem is not None},
        )

    def usage(self) -> int:
        """The number of bytes in the files of memory/, artifacts/ and buffers/."""
        return sum(entry.size for entry in self._entries("", ()))

    def _entries(self, folder: str, after: tuple[str, ...]) -> Iterator[TreeEntry]:
        if folder:
            parts = parts_of(folder)
            if parts[0] not in FOLDERS:
                raise VolumePathRefused(path=folder, problem=UNKNOWN_FOLDER)
            yield from self._own.entries(parts, after)
            return
        for name in sorted(FOLDERS):
            if (name,) >= after[:1]:
                yield from self._own.entries((name,), after)

    def _resolve_path(self, path: str) -> tuple[Tree, tuple[str, ...]]:
        """The path of a file, after a check that it is this user's."""
        parts = tuple(path.split("/"))
        if parts[0] == META:
            self._check_meta(path, parts)
            return self.tenant, parts
        parts = parts_of(path)
        if parts[0] not in FOLDERS or len(parts) < 2:
            raise VolumePathRefused(path=path, problem=UNKNOWN_FOLDER)
        return self._own, parts

    def _check_meta(self, path: str, parts: tuple[str, ...]) -> None:
        """Names in meta/ are those of `path_of`, which some rules for other names would refuse."""
        match parts:
            case ("meta", "workspaces", workspace, "users", self.user, name) if (
                WORKSPACE.match(workspace) and MANIFEST.match(name) and len(name) <= 250
            ):
                return
        raise VolumePathRefused(path=printable_name(path), problem=NOT_A_MANIFEST)

    def _check_room(self, parts: tuple[str, ...], size: int, capacity: int) -> None:
        others = sum(entry.size for entry in self._entries("", ()) if entry.parts != parts)
        if size > (left := max(capacity - others, 0)):
            raise VolumeFull(path="/".join(parts), size=size, left=left)


def _file(entry: TreeEntry) -> VolumeFile:
    return VolumeFile(path="/".join(entry.parts), size=entry.size, modified=entry.modified)
