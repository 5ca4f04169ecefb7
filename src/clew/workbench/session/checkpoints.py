"""Checkpoints: the manifest of a session on its volume, with the version of the database that it stands for.

What is on the volume is looked at before every write, and the database says what it is worth. Nothing about
it is kept in memory between two checkpoints, so one that was skipped cannot make the next one overwrite.
"""

import asyncio
import enum
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Literal, TypeAlias, TypeVar

import msgspec

from clew.core.arguments import check_methods
from clew.core.encoding import JSON
from clew.core.errors import (
    ClewError,
    InvalidArgument,
    ManifestConflict,
    ManifestUnreadable,
    ManifestWriteFailed,
    ThreadNotFound,
    VolumeFileChanged,
    VolumeFileNotFound,
)
from clew.core.manifest.document import CORE_MEMORY, Manifest, logs_of, manifest_of
from clew.core.manifest.files import Place, path_of
from clew.core.manifest.stamps import PROBLEMS, Mark, Stamped, Standing, read_stamped, stamped, standing
from clew.core.values import Head
from clew.database.database import Database
from clew.workbench.session.manifests import imported
from clew.workbench.volume.volume import Volume

T = TypeVar("T")
Persistence: TypeAlias = Literal["strict", "best effort"]
Taken: TypeAlias = Literal["manifest", "database"]
ATTEMPTS = 16
"""How often a checkpoint looks again because somebody else has written meanwhile."""
UNREADABLE, SET_ASIDE = "unreadable", "set-aside"


class Saved(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a checkpoint; ``code`` and ``problem`` say what was wrong, if anything was."""

    status: Literal["written", "unchanged", "failed"]
    version: int | None = None
    code: str | None = None
    problem: str | None = None


class Restore(enum.Enum):
    """What a session was opened from."""

    FRESH = "fresh"
    """Neither the volume nor the database knows it."""
    CURRENT = "current"
    """The manifest stands for the newest version."""
    FORWARD = "folded forward"
    """The manifest was behind, and the log has what came after it."""
    REBUILT = "rebuilt"
    """The volume had no manifest, and the database wrote it."""
    TAKEN = "taken"
    """The two disagreed, and the caller said which one holds."""
    DATABASE = "database alone"
    """The manifest could not be used, and was left as it is."""


class Restored(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a session was found: from what, how many changes later, and what was wrong."""

    how: Restore
    version: int | None = None
    folded: int = 0
    code: str | None = None
    problem: str | None = None


class _Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The file as it is, what it holds, and how that stands to the thread; the thread's head."""

    checksum: str | None
    found: Stamped | None
    standing: Standing | None
    head: Head | None


@check_methods
class Checkpoints:
    """The manifest of one session, kept on its volume.

    ``strict`` raises whatever is wrong with it. ``best effort`` says it and goes on, and tries again at the
    next checkpoint. Neither ever overwrites a manifest that the database does not know.
    """

    def __init__(
        self,
        db: Database,
        volume: Volume,
        place: Place,
        *,
        clock: Callable[[], int],
        persistence: Persistence = "strict",
        defaults: Mapping[str, JSON] = CORE_MEMORY,
    ) -> None:
        self.path = str(path_of(place))
        self._db = db
        self._volume = volume
        self._place = place
        self._clock = clock
        self._strict = persistence == "strict"
        self._defaults = defaults

    async def restore(self) -> Restored:
        """Bring the manifest up to where the session is, and say what was found.

        Raises:
            ManifestConflict: The two disagree. Only if it is strict.
            ManifestUnreadable: It is none. Always, if the database does not know the session either.
            ManifestWriteFailed: It could not be written. Only if it is strict.
        """
        try:
            return await self._restored()
        except ManifestUnreadable as error:
            if self._strict or not await self._is_known():
                raise
            return await self._reported(error)
        except ClewError as error:
            if self._strict:
                raise
            return await self._reported(error)

    async def save(self) -> Saved:
        """Write the manifest of the session as it is now, unless that is what is there.

        Raises:
            ManifestConflict: Another writer's manifest is there, which the database does not know.
            ManifestUnreadable: What was there is none; it was put aside.
            ManifestWriteFailed: It could not be written.
        """
        try:
            return await self._saved()
        except ManifestUnreadable as error:
            if self._strict:
                raise
            done = await self._tried()
            return msgspec.structs.replace(done, code=error.code, problem=str(error))
        except ClewError as error:
            if self._strict:
                raise
            return _failed(error)

    async def take(self, which: Taken) -> Restored:
        """Say which of the two holds, where they disagree; the other's file is put aside, never lost.

        Raises:
            InvalidArgument: The one that should hold is not there.
            TurnBusy: A turn is at work.
        """
        seen = await self._looked()
        if which == "manifest":
            await self._imported(seen)
        elif seen.head is None:
            raise InvalidArgument(problem=f"The database has no session {self._place.session!r} to take.")
        if seen.checksum is not None:
            await self._put_aside(SET_ASIDE)
        done = await self._saved()
        return Restored(how=Restore.TAKEN, version=done.version)

    # How it is done.

    async def _restored(self) -> Restored:
        seen = await self._looked()
        if seen.head is None and seen.found is None:
            return Restored(how=Restore.FRESH)
        self._check(seen)
        assert seen.head is not None
        await self._saved()
        version = seen.head.version
        if seen.found is None or seen.found.stamp is None:
            return Restored(how=Restore.REBUILT, version=version)
        folded = version - seen.found.stamp.version
        return Restored(how=Restore.FORWARD if folded else Restore.CURRENT, version=version, folded=folded)

    async def _reported(self, error: ClewError) -> Restored:
        """The session from the database alone, if its manifest cannot be used."""
        done = await self._tried()
        how = Restore.REBUILT if done.status == "written" else Restore.DATABASE
        return Restored(how=how, version=done.version, code=error.code, problem=str(error))

    async def _tried(self) -> Saved:
        try:
            return await self._saved()
        except ClewError as error:
            return _failed(error)

    async def _saved(self) -> Saved:
        for _ in range(ATTEMPTS):
            seen = await self._looked()
            self._check(seen)
            if seen.head is None:
                raise ThreadNotFound(thread=self._place.session)
            if seen.standing is Standing.CURRENT:
                return Saved(status="unchanged", version=seen.head.version)
            content = stamped(await self._manifest(seen.head), seen.head.version, seen.head.hash)
            try:
                await self._on_volume(lambda: self._volume.write(self.path, content, expect=seen.checksum))  # noqa: B023  # awaited at once
            except VolumeFileChanged:
                continue  # somebody else was faster: what they wrote decides what is left to do
            return Saved(status="written", version=seen.head.version)
        raise ManifestWriteFailed(session=self._place.session, problem="others keep writing to it")

    def _check(self, seen: _Seen) -> None:
        """Refuse to write over what the database does not know."""
        if seen.standing in PROBLEMS:
            stamp = seen.found.stamp if seen.found is not None else None
            found = stamp.version if stamp is not None else None
            head = seen.head.version if seen.head is not None else None
            where = "lost" if head is None else f"at version {head}"
            problem = PROBLEMS[seen.standing].format(found=found, where=where)
            raise ManifestConflict(session=self._place.session, found=found, head=head, problem=problem)

    async def _looked(self) -> _Seen:
        """What the volume and the database have.

        The file is read first, so that it is never ahead only because others are writing.
        """
        content = await self._read()
        head = await self._head()
        if content is None:
            return _Seen(checksum=None, found=None, standing=None, head=head)
        try:
            found = read_stamped(content, self._place.session)
        except InvalidArgument as error:
            kept = self.path if head is None else await self._put_aside(UNREADABLE)
            raise ManifestUnreadable(session=self._place.session, kept=kept, problem=str(error)) from error
        return _Seen(
            checksum=sha256(content).hexdigest(),
            found=found,
            standing=await self._standing(found, head),
            head=head,
        )

    async def _standing(self, found: Stamped, head: Head | None) -> Standing:
        how = standing(found, await self._mark(head, found))
        if how is Standing.UNSTAMPED and head is not None and found.manifest == await self._manifest(head):
            return Standing.BEHIND  # nothing is lost if it is written anew, with its version
        return how

    async def _mark(self, head: Head | None, found: Stamped) -> Mark | None:
        if head is None:
            return None
        before = None
        if found.stamp is not None and 0 <= found.stamp.version < head.version:
            before = (await self._db.thread(head.id).head(at=found.stamp.version)).hash
        return Mark(version=head.version, hash=head.hash, before=before)

    async def _head(self) -> Head | None:
        try:
            return await self._db.thread(self._place.session).head()
        except ThreadNotFound:
            return None

    async def _is_known(self) -> bool:
        return await self._head() is not None

    async def _manifest(self, head: Head) -> Manifest:
        thread = self._db.thread(head.id)
        windows = {log: await thread.items(log=log, at=head.version) for log in logs_of(head)}
        return manifest_of(head, windows, self._defaults)

    async def _imported(self, seen: _Seen) -> None:
        if seen.found is None:
            raise InvalidArgument(problem=f"The volume has no manifest of session {self._place.session!r}.")
        manifest, now = seen.found.manifest, self._clock()
        await imported(
            self._db,
            self._place.session,
            manifest,
            now=now,
            owner=self._place.user,
            defaults=self._defaults,
        )

    async def _read(self) -> bytes | None:
        try:
            return await self._on_volume(lambda: self._volume.read(self.path))
        except VolumeFileNotFound:
            return None

    async def _put_aside(self, why: str) -> str:
        """Give the file another name, which nothing reads and nothing overwrites."""
        kept = f"{self.path}.{why}-{self._clock()}"
        await self._on_volume(lambda: self._volume.move(self.path, kept))
        return kept

    async def _on_volume(self, work: Callable[[], T]) -> T:
        """Do something with files, apart from everything else that runs.

        Raises:
            ManifestWriteFailed: The volume could not do it.
        """
        try:
            return await asyncio.to_thread(work)
        except (VolumeFileNotFound, VolumeFileChanged):
            raise
        except (ClewError, OSError) as error:
            raise ManifestWriteFailed(session=self._place.session, problem=str(error)) from error


def _failed(error: ClewError) -> Saved:
    return Saved(status="failed", code=error.code, problem=str(error))
