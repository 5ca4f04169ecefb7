"""Checkpoints: the manifest of a session on its volume, with the version of the thread that it was made from.

What is on the volume is looked at before every write, and the database says what it is worth. Nothing about
it is kept in memory between two checkpoints, so one that was skipped cannot make the next one overwrite.
"""

import asyncio
import enum
import functools
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
from clew.core.manifest.files import ManifestAddress, manifest_path
from clew.core.manifest.stamps import (
    PROBLEMS,
    ManifestStatus,
    StampedManifest,
    ThreadVersion,
    encode_stamped_manifest,
    manifest_status,
    read_stamped_manifest,
)
from clew.core.values import Head
from clew.database.database import Database
from clew.workbench.session.manifests import import_manifest
from clew.workbench.volume.volume import Volume

T = TypeVar("T")
Persistence: TypeAlias = Literal["strict", "best effort"]
SourceOfTruth: TypeAlias = Literal["manifest", "database"]
ATTEMPTS = 16
"""Attempts of a checkpoint that finds that another writer was faster."""
UNREADABLE, SET_ASIDE = "unreadable", "set-aside"


class CheckpointResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a checkpoint; ``code`` and ``problem`` say what was wrong, if anything was."""

    status: Literal["written", "unchanged", "failed"]
    version: int | None = None
    code: str | None = None
    problem: str | None = None


class RestoreKind(enum.Enum):
    """The source from which a session was opened."""

    FRESH = "fresh"
    """Neither the volume nor the database knows it."""
    CURRENT = "current"
    """The manifest is of the newest version."""
    FORWARD = "folded forward"
    """The manifest was behind, and the log has what came after it."""
    REBUILT = "rebuilt"
    """The volume had no manifest, and the database wrote it."""
    TAKEN = "taken"
    """The two disagreed, and the caller said which one holds."""
    DATABASE = "database alone"
    """The manifest could not be used, and was left as it is."""


class RestoreResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of restoring a session: the source, the number of later changes, and the problem, if any."""

    how: RestoreKind
    version: int | None = None
    folded: int = 0
    code: str | None = None
    problem: str | None = None


class _ManifestSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The file as it is, what it holds, and how that compares with the thread; the thread's head."""

    checksum: str | None
    content: StampedManifest | None
    status: ManifestStatus | None
    head: Head | None


@check_methods
class ManifestCheckpoints:
    """The manifest of one session, kept on its volume.

    ``strict`` raises whatever is wrong with it. ``best effort`` says it and goes on, and tries again at the
    next checkpoint. Neither ever overwrites a manifest that the database does not know.
    """

    def __init__(
        self,
        db: Database,
        volume: Volume,
        address: ManifestAddress,
        *,
        clock: Callable[[], int],
        persistence: Persistence = "strict",
        defaults: Mapping[str, JSON] = CORE_MEMORY,
    ) -> None:
        self.path = str(manifest_path(address))
        self._db = db
        self._volume = volume
        self._address = address
        self._clock = clock
        self._is_strict = persistence == "strict"
        self._defaults = defaults

    async def restore(self) -> RestoreResult:
        """Bring the manifest up to where the session is, and say what was found.

        Raises:
            ManifestConflict: The two disagree. Only if it is strict.
            ManifestUnreadable: It is none. Always, if the database does not know the session either.
            ManifestWriteFailed: It could not be written. Only if it is strict.
        """
        try:
            return await self._restore()
        except ManifestUnreadable as error:
            if self._is_strict or not await self._is_known():
                raise
            return await self._restore_from_database(error)
        except ClewError as error:
            if self._is_strict:
                raise
            return await self._restore_from_database(error)

    async def save(self) -> CheckpointResult:
        """Write the manifest of the session as it is now, unless that is what is there.

        Raises:
            ManifestConflict: Another writer's manifest is there, which the database does not know.
            ManifestUnreadable: What was there is none; it was put aside.
            ManifestWriteFailed: It could not be written.
        """
        try:
            return await self._save()
        except ManifestUnreadable as error:
            if self._is_strict:
                raise
            result = await self._try_save()
            return msgspec.structs.replace(result, code=error.code, problem=str(error))
        except ClewError as error:
            if self._is_strict:
                raise
            return _failure(error)

    async def take(self, source: SourceOfTruth) -> RestoreResult:
        """Say which of the two holds, where they disagree; the other's file is put aside, never lost.

        Raises:
            InvalidArgument: The one that should hold is not there.
            TurnBusy: A turn is at work.
        """
        snapshot = await self._read_snapshot()
        if source == "manifest":
            await self._import_manifest(snapshot)
        elif snapshot.head is None:
            raise InvalidArgument(problem=f"The database has no session {self._address.session!r} to take.")
        if snapshot.checksum is not None:
            await self._put_aside(SET_ASIDE)
        result = await self._save()
        return RestoreResult(how=RestoreKind.TAKEN, version=result.version)

    # How it is done.

    async def _restore(self) -> RestoreResult:
        snapshot = await self._read_snapshot()
        if snapshot.head is None and snapshot.content is None:
            return RestoreResult(how=RestoreKind.FRESH)
        self._check_status(snapshot)
        assert snapshot.head is not None
        await self._save()
        version = snapshot.head.version
        if snapshot.content is None or snapshot.content.stamp is None:
            return RestoreResult(how=RestoreKind.REBUILT, version=version)
        behind = version - snapshot.content.stamp.version
        return RestoreResult(
            how=RestoreKind.FORWARD if behind else RestoreKind.CURRENT, version=version, folded=behind
        )

    async def _restore_from_database(self, error: ClewError) -> RestoreResult:
        """The session from the database alone, if its manifest cannot be used."""
        result = await self._try_save()
        how = RestoreKind.REBUILT if result.status == "written" else RestoreKind.DATABASE
        return RestoreResult(how=how, version=result.version, code=error.code, problem=str(error))

    async def _try_save(self) -> CheckpointResult:
        try:
            return await self._save()
        except ClewError as error:
            return _failure(error)

    async def _save(self) -> CheckpointResult:
        for _ in range(ATTEMPTS):
            snapshot = await self._read_snapshot()
            self._check_status(snapshot)
            if snapshot.head is None:
                raise ThreadNotFound(thread=self._address.session)
            if snapshot.status is ManifestStatus.CURRENT:
                return CheckpointResult(status="unchanged", version=snapshot.head.version)
            content = encode_stamped_manifest(
                await self._manifest(snapshot.head), snapshot.head.version, snapshot.head.hash
            )
            write = functools.partial(self._volume.write, self.path, content, expect=snapshot.checksum)
            try:
                await self._on_volume(write)
            except VolumeFileChanged:
                continue  # another writer was faster: what they wrote decides what is left to do
            return CheckpointResult(status="written", version=snapshot.head.version)
        raise ManifestWriteFailed(session=self._address.session, problem="others keep writing to it")

    def _check_status(self, snapshot: _ManifestSnapshot) -> None:
        """Refuse to write over what the database does not know."""
        if snapshot.status in PROBLEMS:
            stamp = snapshot.content.stamp if snapshot.content is not None else None
            stamp_version = stamp.version if stamp is not None else None
            head = snapshot.head.version if snapshot.head is not None else None
            where = "lost" if head is None else f"at version {head}"
            problem = PROBLEMS[snapshot.status].format(found=stamp_version, where=where)
            raise ManifestConflict(
                session=self._address.session, found=stamp_version, head=head, problem=problem
            )

    async def _read_snapshot(self) -> _ManifestSnapshot:
        """Read the manifest on the volume and the head in the database.

        The file is read first, so that it is never ahead only because others are writing.
        """
        data = await self._read()
        head = await self._head()
        if data is None:
            return _ManifestSnapshot(checksum=None, content=None, status=None, head=head)
        try:
            content = read_stamped_manifest(data, self._address.session)
        except InvalidArgument as error:
            path = self.path if head is None else await self._put_aside(UNREADABLE)
            raise ManifestUnreadable(session=self._address.session, kept=path, problem=str(error)) from error
        return _ManifestSnapshot(
            checksum=sha256(data).hexdigest(),
            content=content,
            status=await self._status_of(content, head),
            head=head,
        )

    async def _status_of(self, content: StampedManifest, head: Head | None) -> ManifestStatus:
        status = manifest_status(content, await self._thread_version(head, content))
        if (
            status is ManifestStatus.UNSTAMPED
            and head is not None
            and content.manifest == await self._manifest(head)
        ):
            return ManifestStatus.BEHIND  # nothing is lost if it is written anew, with its version
        return status

    async def _thread_version(self, head: Head | None, content: StampedManifest) -> ThreadVersion | None:
        if head is None:
            return None
        hash_at_stamp = None
        if content.stamp is not None and 0 <= content.stamp.version < head.version:
            hash_at_stamp = (await self._db.thread(head.id).head(at=content.stamp.version)).hash
        return ThreadVersion(version=head.version, hash=head.hash, hash_at_stamp=hash_at_stamp)

    async def _head(self) -> Head | None:
        try:
            return await self._db.thread(self._address.session).head()
        except ThreadNotFound:
            return None

    async def _is_known(self) -> bool:
        return await self._head() is not None

    async def _manifest(self, head: Head) -> Manifest:
        thread = self._db.thread(head.id)
        windows = {log: await thread.items(log=log, at=head.version) for log in logs_of(head)}
        return manifest_of(head, windows, self._defaults)

    async def _import_manifest(self, snapshot: _ManifestSnapshot) -> None:
        if snapshot.content is None:
            raise InvalidArgument(problem=f"The volume has no manifest of session {self._address.session!r}.")
        manifest, now = snapshot.content.manifest, self._clock()
        await import_manifest(
            self._db,
            self._address.session,
            manifest,
            now=now,
            owner=self._address.user,
            defaults=self._defaults,
        )

    async def _read(self) -> bytes | None:
        try:
            return await self._on_volume(lambda: self._volume.read(self.path))
        except VolumeFileNotFound:
            return None

    async def _put_aside(self, suffix: str) -> str:
        """Give the file another name, which nothing reads and nothing overwrites."""
        path = f"{self.path}.{suffix}-{self._clock()}"
        await self._on_volume(lambda: self._volume.move(self.path, path))
        return path

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
            raise ManifestWriteFailed(session=self._address.session, problem=str(error)) from error


def _failure(error: ClewError) -> CheckpointResult:
    return CheckpointResult(status="failed", code=error.code, problem=str(error))
