"""A whole volume, for operators: what an erasure, an export and a restore need to know of it and do to it.

Of a thread there are manifests, wherever in its tenant's folder they are; of an owner also all of their own
folders. What is to go is renamed into ``erasing/<receipt>-<number>`` first: a writer who comes a moment later
writes elsewhere, and a process that was killed here can see where to go on.
"""

import asyncio
import re
import secrets
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from clew.core.arguments import check_methods
from clew.core.erasure.receipts import FileSelection
from clew.core.errors import VolumeFileChanged, VolumeFileNotFound, VolumePathRefused
from clew.core.manifest.files import NO_USER, OLD_NAME, file_name, manifest_name
from clew.core.ports import OwnedFile
from clew.workbench.volume.paths import PART_NAME, parts_of
from clew.workbench.volume.tree import PathParts, Tree, move_entry, names_in, remove_entry, sizes_of
from clew.workbench.volume.volume import FOLDERS, META, USERS, Volume

WORKSPACES: Final = "workspaces"
ASIDE_FOLDER: Final = "erasing"
OWN_FILES, MANIFESTS = "own", "manifests"
"""What a thing that was put aside is, at the beginning of its name there."""
MANIFEST_NAME: Final = re.compile(r"\.?(react-session-[a-z0-9_=~-]+\.json)(\..*)?\Z", re.DOTALL)
"""A manifest, one that was kept aside since it cannot be read, or one that never got its name."""
BEYOND: Final = (
    "backups and snapshots of the volume",
    "scratch folders of interpreters that are running",
)


@check_methods
class Volumes:
    """A volume below its root: a folder for each tenant."""

    beyond: tuple[str, ...] = BEYOND

    def __init__(self, root: Path) -> None:
        self.root = root

    def volume_of(self, tenant: str, user: str | None) -> Volume:
        """One user's part, with all that is in it: code may have written more than a call may."""
        return Volume(self.root, tenant, user, largest=sys.maxsize)

    async def count(self, tenant: str, selection: FileSelection) -> dict[str, int]:
        """The number of files and bytes in a selection, by kind."""
        return await asyncio.to_thread(self._count_selection, tenant, selection)

    async def put_aside(
        self, tenant: str, selection: FileSelection, receipt: str, number: int
    ) -> dict[str, int]:
        """Put them aside, and return how many files and bytes have this number now, by kind."""
        return await asyncio.to_thread(self._put_aside, tenant, selection, f"{receipt}-{number}")

    async def remove(self, tenant: str, receipt: str, number: int) -> None:
        """Remove what was put aside under a number, or under one before it."""
        await asyncio.to_thread(self._remove, tenant, receipt, number)

    async def remove_thread(self, tenant: str, thread: str) -> None:
        """Remove what is kept of a thread that was deleted."""
        await asyncio.to_thread(self._remove_thread, tenant, thread)

    async def files_of(self, tenant: str, owner: str) -> AsyncIterator[OwnedFile]:
        """Every file of an owner."""
        volume = self.volume_of(tenant, owner)
        for path in await asyncio.to_thread(self._paths, tenant, owner):
            try:
                content = await asyncio.to_thread(volume.read, path)
            except VolumeFileNotFound:
                continue  # it went meanwhile
            yield OwnedFile(path=path, content=content)

    async def add(self, tenant: str, owner: str, file: OwnedFile) -> None:
        """Keep a file for an owner.

        Raises:
            VolumeFileChanged: There is another one already.
            VolumePathRefused: Its path cannot be used.
        """
        volume = self.volume_of(tenant, owner)
        try:
            await asyncio.to_thread(volume.write, file.path, file.content, expect=None)
        except VolumeFileChanged as error:
            if error.actual != sha256(file.content).hexdigest():
                raise

    def _count_selection(self, tenant: str, selection: FileSelection) -> dict[str, int]:
        tree = self._tree(tenant)
        counts: dict[str, int] = {}
        for what, parts in _selection_paths(tree, selection):
            _add_counts(counts, tree, what, parts)
        return counts

    def _put_aside(self, tenant: str, selection: FileSelection, name: str) -> dict[str, int]:
        tree = self._tree(tenant)
        for what, parts in _selection_paths(tree, selection):
            move_entry(tree, parts, (ASIDE_FOLDER, name, f"{what}.{secrets.token_hex(8)}"))
        counts: dict[str, int] = {}
        for each in names_in(tree, (ASIDE_FOLDER, name)):
            _add_counts(counts, tree, each.partition(".")[0], (ASIDE_FOLDER, name, each))
        return counts

    def _remove(self, tenant: str, receipt: str, number: int) -> None:
        tree = self._tree(tenant)
        for name in names_in(tree, (ASIDE_FOLDER,)):
            prefix, _, last = name.rpartition("-")
            if prefix == receipt and last.isdecimal() and int(last) <= number:
                remove_entry(tree, (ASIDE_FOLDER, name))

    def _remove_thread(self, tenant: str, thread: str) -> None:
        tree = self._tree(tenant)
        for _, parts in _selection_paths(tree, FileSelection(threads=(thread,))):
            remove_entry(tree, parts)

    def _paths(self, tenant: str, owner: str) -> list[str]:
        """The paths of an owner's readable files; links and the like are not theirs."""
        own, tree = Tree(self.root, (file_name(tenant), USERS, file_name(owner))), self._tree(tenant)
        paths = [entry.parts for name in FOLDERS for entry in own.entries((name,)) if entry.problem is None]
        for folder in _user_folders(tree, META, file_name(owner)):
            paths += [
                entry.parts
                for entry in tree.entries(folder)
                if entry.problem is None and MANIFEST_NAME.match(entry.parts[-1])
            ]
        return ["/".join(parts) for parts in paths]

    def _tree(self, tenant: str) -> Tree:
        return Tree(self.root, (file_name(tenant),))


def _selection_paths(tree: Tree, selection: FileSelection) -> list[tuple[str, tuple[str, ...]]]:
    """The paths that a selection covers: whole folders, manifests and other files."""
    folders = list(_owner_folders(tree, selection.owner)) if selection.owner is not None else []
    files = [(MANIFESTS, parts) for parts in _thread_manifests(tree, selection.threads)]
    files += [(parts[2], parts) for parts in _user_files(tree, selection.files)]
    folder_paths = {parts for _, parts in folders}
    return [
        *folders,
        *((what, parts) for what, parts in files if folder_paths.isdisjoint(_path_prefixes(parts))),
    ]


def _owner_folders(tree: Tree, owner: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    name = file_name(owner)
    if name in names_in(tree, (USERS,)):
        yield OWN_FILES, (USERS, name)
    for folder in _user_folders(tree, META, name):
        yield MANIFESTS, folder
    if OLD_NAME.match(owner) and ".." not in owner:
        for folder in _user_folders(tree, None, owner):
            yield MANIFESTS, folder


def _user_folders(tree: Tree, above: str | None, user: str | None) -> Iterator[tuple[str, ...]]:
    """A user's folder of each workspace, or everybody's: in the layout below meta/, or in the older one."""
    base = (WORKSPACES,) if above is None else (above, WORKSPACES)
    for workspace in names_in(tree, base):
        users = (*base, workspace, USERS)
        for name in names_in(tree, users):
            if user is None or name == user:
                yield (*users, name)


def _user_files(tree: Tree, files: Iterable[tuple[str | None, str]]) -> Iterator[tuple[str, ...]]:
    """Files of users by their paths, also unfinished ones. A path that is a trick is nobody's file."""
    for owner, path in files:
        with suppress(VolumePathRefused):
            parts = (USERS, NO_USER if owner is None else file_name(owner), *parts_of(path))
            for name in names_in(tree, parts[:-1]) if parts[2] in FOLDERS else ():
                if name == parts[-1] or (PART_NAME.match(name) and name.startswith(f".{parts[-1]}.")):
                    yield (*parts[:-1], name)


def _path_prefixes(parts: PathParts) -> list[tuple[str, ...]]:
    """A path, and all that it leads through."""
    return [tuple(parts[:length]) for length in range(1, len(parts) + 1)]


def _thread_manifests(tree: Tree, threads: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """The manifests of some threads, of any user: also unreadable ones, and those never finished."""
    names = {manifest_name(id) for id in threads}
    for folder in _user_folders(tree, META, None):
        for name in names_in(tree, folder):
            if (match := MANIFEST_NAME.match(name)) is not None and match[1] in names:
                yield (*folder, name)
    older = {f"react-session-{id}.json" for id in threads if OLD_NAME.match(id) and ".." not in id}
    for folder in _user_folders(tree, None, None):
        for inner in (folder, (*folder, "memory")):
            yield from ((*inner, name) for name in names_in(tree, inner) if name in older)


def _add_counts(counts: dict[str, int], tree: Tree, what: str, parts: PathParts) -> None:
    for inner, size in sizes_of(tree, parts):
        kind = what
        if what == OWN_FILES:
            kind = inner[0] if inner and inner[0] in FOLDERS else "other folders"
        for name, more in ((f"files in {kind}", 1), (f"bytes in {kind}", size)):
            counts[name] = counts.get(name, 0) + more
