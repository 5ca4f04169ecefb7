"""The volume that goes with a backup: copied with it, checked with it, and put back with it."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from clew.cli.command import CommandCall
from clew.cli.render.values import name_of
from clew.cli.volume_option import mounted_volume
from clew.core.errors import InvalidArgument
from clew.core.manifest.files import file_name
from clew.database.verify import Verdict
from clew.stores.interruption import run_in_thread
from clew.workbench.volume.backup import (
    StagedVolume,
    VolumeCopy,
    VolumeIndex,
    damage_of,
    is_empty,
    manifest_versions,
    read_index,
    switch_volume,
    volume_copy_path,
)


class Restorable(msgspec.Struct, frozen=True, kw_only=True):
    """A volume in a backup, and where it is to be put; ``damaged`` says what is wrong with it."""

    copy: Path
    index: VolumeIndex
    root: Path
    damaged: dict[str, str]

    @asynccontextmanager
    async def stage(self, call: CommandCall) -> AsyncIterator[dict[str, str]]:
        """Copy it to where it is to be put, beside what is there; how that differs from the backup, by path.

        At the end the copy is gone, unless it has taken its place.
        """
        stopped = threading.Event()
        staging = StagedVolume(self.copy, self.index, self.root, stopped)
        try:
            with call.progress("Copying the volume", None):
                problems = await run_in_thread(staging.fill, stopped.set)
            yield problems
        finally:
            await asyncio.shield(asyncio.to_thread(staging.discard))

    async def switch(self) -> None:
        """Put the copy in the place of what is there."""
        await asyncio.shield(asyncio.to_thread(switch_volume, self.root))

    def ahead(self, threads: Sequence[Verdict]) -> list[str]:
        """The sessions whose manifest is of a version that the database does not have."""
        head_versions = {(file_name(head.tenant), head.thread): head.version for head in threads}
        names = {file_name(head.tenant): head.tenant for head in threads}
        versions = manifest_versions(self.index, self.copy)
        late = [place for place, version in versions.items() if version > head_versions.get(place, 0)]
        return sorted(name_of(names.get(folder, folder), session) for folder, session in late)


@asynccontextmanager
async def copy_volume(call: CommandCall, volume: Path | None, file: Path) -> AsyncIterator[list[VolumeIndex]]:
    """Copies a volume around the copying of its database, and leaves nothing behind if that fails.

    The index is given once all is done.
    """
    indexes: list[VolumeIndex] = []
    if volume is None:
        yield indexes
        return
    stopped = threading.Event()
    copy = VolumeCopy(mounted_volume(volume), volume_copy_path(file), stopped)
    try:
        with call.progress("Copying the volume", None):
            await run_in_thread(copy.begin, stopped.set)
        yield indexes
        with call.progress("Copying the volume", None):
            indexes.append(await run_in_thread(copy.finish, stopped.set))
    finally:
        await asyncio.shield(asyncio.to_thread(copy.discard))


def restorable(file: Path, volume: Path | None, *, force: bool) -> Restorable | None:
    """The volume of a backup, checked; None if none is asked for.

    Raises:
        InvalidArgument: The backup has none, or there are files where it is to be put.
    """
    if volume is None:
        return None
    copy = volume_copy_path(file)
    if not copy.is_dir():
        raise InvalidArgument(problem=f"There is no volume beside {str(file)!r}. Leave --volume out.")
    if not force and not is_empty(volume):
        raise InvalidArgument(
            problem=f"{str(volume)!r} is not empty. Choose another --volume, or say --force."
        )
    index = read_index(copy)
    return Restorable(copy=copy, index=index, root=volume, damaged=damage_of(copy, index))


def volume_for_backup(file: Path, folder: Path | None, default: Path | None) -> Path | None:
    """The target of a backup's volume, if it has one or one is asked for."""
    return default if folder is None and volume_copy_path(file).is_dir() else folder


def is_left(file: Path, volume: Path | None) -> bool:
    """Return whether a backup has a volume that nobody asks for."""
    return volume is None and volume_copy_path(file).is_dir()
