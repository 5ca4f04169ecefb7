"""A whole volume, for operators: what an erasure, an export and a restore need to know of it and do to it.

Of a thread there are manifests, wherever in its tenant's folder they stand; of an owner also all of their own
folders. What is to go is renamed into ``erasing/<receipt>-<number>`` first: a writer who comes a moment later
writes elsewhere, and whoever is killed here can see where to go on.
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
from clew.core.erasure.receipts import Sought
from clew.core.errors import VolumeFileChanged, VolumeFileNotFound, VolumePathRefused
from clew.core.manifest.files import NOBODY, OLD_NAME, file_name, manifest_name
from clew.core.ports import OwnedFile
from clew.workbench.volume.paths import UNFINISHED, parts_of
from clew.workbench.volume.tree import Parts, Tree, names_in, put, remove, sizes_of
from clew.workbench.volume.volume import FOLDERS, META, USERS, Volume

WORKSPACES: Final = "workspaces"
ASIDE: Final = "erasing"
OWN, SESSIONS = "own", "manifests"
"""What a thing that was put aside is, at the beginning of its name there."""
SESSION: Final = re.compile(r"\.?(react-session-[a-z0-9_=~-]+\.json)(\..*)?\Z", re.DOTALL)
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

    def of(self, tenant: str, user: str | None) -> Volume:
        """One user's part, with all that is in it: code may have written more than a call may."""
        return Volume(self.root, tenant, user, largest=sys.maxsize)

    async def found(self, tenant: str, sought: Sought) -> dict[str, int]:
        """How many files and bytes there are of what is sought, by kind."""
        return await asyncio.to_thread(self._found, tenant, sought)

    async def put_aside(self, tenant: str, sought: Sought, receipt: str, number: int) -> dict[str, int]:
        """Put them aside; how many files and bytes stand under this number now, by kind."""
        return await asyncio.to_thread(self._put_aside, tenant, sought, f"{receipt}-{number}")

    async def remove(self, tenant: str, receipt: str, number: int) -> None:
        """Remove what was put aside under a number, or under one before it."""
        await asyncio.to_thread(self._remove, tenant, receipt, number)

    async def forget(self, tenant: str, thread: str) -> None:
        """Remove what is kept of a thread that was deleted."""
        await asyncio.to_thread(self._forget, tenant, thread)

    async def of_owner(self, tenant: str, owner: str) -> AsyncIterator[OwnedFile]:
        """Every file of an owner."""
        volume = self.of(tenant, owner)
        for path in await asyncio.to_thread(self._paths, tenant, owner):
            try:
                content = await asyncio.to_thread(volume.read, path)
            except VolumeFileNotFound:
                continue  # it went meanwhile
            yield OwnedFile(path=path, content=content)

    async def keep(self, tenant: str, owner: str, file: OwnedFile) -> None:
        """Keep a file for an owner.

        Raises:
            VolumeFileChanged: There is another one already.
            VolumePathRefused: Its path cannot be used.
        """
        volume = self.of(tenant, owner)
        try:
            await asyncio.to_thread(volume.write, file.path, file.content, expect=None)
        except VolumeFileChanged as error:
            if error.actual != sha256(file.content).hexdigest():
                raise

    def _found(self, tenant: str, sought: Sought) -> dict[str, int]:
        tree = self._tree(tenant)
        counts: dict[str, int] = {}
        for what, parts in _chosen(tree, sought):
            _count(counts, tree, what, parts)
        return counts

    def _put_aside(self, tenant: str, sought: Sought, name: str) -> dict[str, int]:
        tree = self._tree(tenant)
        for what, parts in _chosen(tree, sought):
            put(tree, parts, (ASIDE, name, f"{what}.{secrets.token_hex(8)}"))
        counts: dict[str, int] = {}
        for each in names_in(tree, (ASIDE, name)):
            _count(counts, tree, each.partition(".")[0], (ASIDE, name, each))
        return counts

    def _remove(self, tenant: str, receipt: str, number: int) -> None:
        tree = self._tree(tenant)
        for name in names_in(tree, (ASIDE,)):
            begun, _, last = name.rpartition("-")
            if begun == receipt and last.isdecimal() and int(last) <= number:
                remove(tree, (ASIDE, name))

    def _forget(self, tenant: str, thread: str) -> None:
        tree = self._tree(tenant)
        for _, parts in _chosen(tree, Sought(threads=(thread,))):
            remove(tree, parts)

    def _paths(self, tenant: str, owner: str) -> list[str]:
        """Where an owner's files stand that can be read; links and the like are no files of theirs."""
        own, tree = Tree(self.root, (file_name(tenant), USERS, file_name(owner))), self._tree(tenant)
        paths = [entry.parts for name in FOLDERS for entry in own.entries((name,)) if entry.problem is None]
        for folder in _user_folders(tree, META, file_name(owner)):
            paths += [
                entry.parts
                for entry in tree.entries(folder)
                if entry.problem is None and SESSION.match(entry.parts[-1])
            ]
        return ["/".join(parts) for parts in paths]

    def _tree(self, tenant: str) -> Tree:
        return Tree(self.root, (file_name(tenant),))


def _chosen(tree: Tree, sought: Sought) -> list[tuple[str, tuple[str, ...]]]:
    """What of a tenant's folder is sought: whole folders, manifests and other files."""
    found = list(_folders_of(tree, sought.owner)) if sought.owner is not None else []
    single = [(SESSIONS, parts) for parts in _manifests(tree, sought.threads)]
    single += [(parts[2], parts) for parts in _files(tree, sought.files)]
    taken = {parts for _, parts in found}
    return [*found, *((what, parts) for what, parts in single if taken.isdisjoint(_above(parts)))]


def _folders_of(tree: Tree, owner: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    name = file_name(owner)
    if name in names_in(tree, (USERS,)):
        yield OWN, (USERS, name)
    for folder in _user_folders(tree, META, name):
        yield SESSIONS, folder
    if OLD_NAME.match(owner) and ".." not in owner:
        for folder in _user_folders(tree, None, owner):
            yield SESSIONS, folder


def _user_folders(tree: Tree, above: str | None, user: str | None) -> Iterator[tuple[str, ...]]:
    """A user's folder of each workspace, or everybody's: in the layout below meta/, or in the older one."""
    base = (WORKSPACES,) if above is None else (above, WORKSPACES)
    for workspace in names_in(tree, base):
        users = (*base, workspace, USERS)
        for name in names_in(tree, users):
            if user is None or name == user:
                yield (*users, name)


def _files(tree: Tree, files: Iterable[tuple[str | None, str]]) -> Iterator[tuple[str, ...]]:
    """Files of users by their paths, also unfinished ones. A path that is a trick is nobody's file."""
    for owner, path in files:
        with suppress(VolumePathRefused):
            parts = (USERS, NOBODY if owner is None else file_name(owner), *parts_of(path))
            for name in names_in(tree, parts[:-1]) if parts[2] in FOLDERS else ():
                if name == parts[-1] or (UNFINISHED.match(name) and name.startswith(f".{parts[-1]}.")):
                    yield (*parts[:-1], name)


def _above(parts: Parts) -> list[tuple[str, ...]]:
    """A path, and all that it leads through."""
    return [tuple(parts[:length]) for length in range(1, len(parts) + 1)]


def _manifests(tree: Tree, threads: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """The manifests of some threads, whoever's they are: also unreadable ones, and those never finished."""
    names = {manifest_name(id) for id in threads}
    for folder in _user_folders(tree, META, None):
        for name in names_in(tree, folder):
            if (found := SESSION.match(name)) is not None and found[1] in names:
                yield (*folder, name)
    older = {f"react-session-{id}.json" for id in threads if OLD_NAME.match(id) and ".." not in id}
    for folder in _user_folders(tree, None, None):
        for inner in (folder, (*folder, "memory")):
            yield from ((*inner, name) for name in names_in(tree, inner) if name in older)


def _count(counts: dict[str, int], tree: Tree, what: str, parts: Parts) -> None:
    for inner, size in sizes_of(tree, parts):
        kind = what
        if what == OWN:
            kind = inner[0] if inner and inner[0] in FOLDERS else "other folders"
        for name, more in ((f"files in {kind}", 1), (f"bytes in {kind}", size)):
            counts[name] = counts.get(name, 0) + more
