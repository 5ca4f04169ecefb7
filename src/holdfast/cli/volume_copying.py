"""The volume that goes with a backup: copied with it, checked with it, and put back with it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from holdfast.cli.render import Kept
from holdfast.cli.volumes import there
from holdfast.core.errors import InvalidArgument
from holdfast.workbench.volume_copies import (
    Index,
    VolumeCopy,
    beside,
    damage,
    difference,
    put_back,
    read_index,
    versions_in,
)


class Restorable(msgspec.Struct, frozen=True, kw_only=True):
    """A volume in a backup, and where it is to be put; ``damaged`` says what is wrong with it."""

    copy: Path
    index: Index
    root: Path
    damaged: dict[str, str]

    async def put(self) -> dict[str, str]:
        """Put it back; how it differs from the backup then, by path."""
        await asyncio.to_thread(put_back, self.copy, self.index, self.root)
        return await asyncio.to_thread(difference, self.root, self.index)

    def ahead(self, tenant: str, heads: list[Kept]) -> list[str]:
        """The sessions whose manifest stands for a version that the database does not have."""
        known = {head.thread: head.version for head in heads}
        found = versions_in(self.index, self.copy, tenant)
        return sorted(session for session, version in found.items() if version > known.get(session, 0))


@asynccontextmanager
async def copied(volume: Path | None, file: Path) -> AsyncIterator[list[Index]]:
    """Copies a volume around the copying of its database, and leaves nothing behind if that fails.

    The index is given once all is done.
    """
    done: list[Index] = []
    if volume is None:
        yield done
        return
    copy = VolumeCopy(there(volume), beside(file))
    await asyncio.to_thread(copy.begin)
    try:
        yield done
        done.append(await asyncio.to_thread(copy.finish))
    except BaseException:
        copy.discard()
        raise


def restorable(file: Path, volume: Path | None, *, force: bool) -> Restorable | None:
    """The volume of a backup, checked; None if none is asked for.

    Raises:
        InvalidArgument: The backup has none, or there are files where it is to be put.
    """
    if volume is None:
        return None
    copy = beside(file)
    if not copy.is_dir():
        raise InvalidArgument(problem=f"There is no volume beside {str(file)!r}. Leave --volume out.")
    if not force and volume.is_dir() and any(volume.iterdir()):
        raise InvalidArgument(
            problem=f"{str(volume)!r} is not empty. Choose another --volume, or say --force."
        )
    index = read_index(copy)
    return Restorable(copy=copy, index=index, root=volume, damaged=damage(copy, index))


def wanted(file: Path, named: Path | None, default: Path | None) -> Path | None:
    """Where the volume of a backup goes, if it has one or one is asked for."""
    return default if named is None and beside(file).is_dir() else named


def is_left(file: Path, volume: Path | None) -> bool:
    """Whether a backup has a volume that nobody asks for."""
    return volume is None and beside(file).is_dir()
