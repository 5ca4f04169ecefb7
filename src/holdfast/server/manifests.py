"""Sessions as manifests: taken from a thread, put in its place, and kept as files on a volume."""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

import msgspec

from holdfast.core.encoding import JSON
from holdfast.core.errors import InvalidArgument, ThreadNotFound, VersionConflict
from holdfast.core.manifest import CORE_MEMORY, Manifest, logs_of, manifest_of, read, replacement, written
from holdfast.core.manifest_files import Place, file_name, older_manifest, older_paths, path_of
from holdfast.core.values import Absent, AppendTo, Committed, Exact, Expect, Head, Write
from holdfast.runtime.beginning import standing
from holdfast.runtime.ending import request_end
from holdfast.runtime.inputs import free_id
from holdfast.runtime.resting import Resting, abandoned, rest_at
from holdfast.runtime.runs import DONE
from holdfast.threads.database import Database

WHY = "Another session was imported in its place."


async def exported(db: Database, session: str, defaults: Mapping[str, JSON] = CORE_MEMORY) -> Manifest:
    """The manifest of a session, at one version of it.

    Raises:
        ThreadNotFound: There is no such session.
        InvalidArgument: A part of it cannot be read.
    """
    thread = db.thread(session)
    head = await thread.head()
    windows = {log: await thread.items(log=log, at=head.version) for log in logs_of(head)}
    return manifest_of(head, windows, defaults)


async def imported(
    db: Database,
    session: str,
    manifest: Manifest,
    *,
    now: int,
    owner: str | None = None,
    defaults: Mapping[str, JSON] = CORE_MEMORY,
    expect: Expect | None = None,
) -> Committed:
    """Make a session what a manifest says, and nothing else; one that is not there is made.

    The episode that it was in is ended first. A run that stopped unfinished is given up. It is one changeset,
    so it is done whole or not at all, and can be taken back like any other.

    Raises:
        TurnBusy: A turn is at work.
        VersionConflict: The session is not where ``expect`` says, or somebody wrote meanwhile.
        TranscriptBroken: The history holds a result without its call.
    """
    free_id(session)
    try:
        resting = await rest_at(db, session, now)
    except ThreadNotFound:
        if isinstance(expect, Exact):
            raise
        change = replacement(None, manifest, defaults)
        return await _committed(db, AppendTo(thread=session, change=change, expect=Absent(owner)))
    _check_version(resting.head, expect)
    await request_end(db, session, by="import", now=now)
    return await _replaced(db, resting, manifest, defaults, now)


def _check_version(head: Head, expect: Expect | None) -> None:
    if isinstance(expect, Exact) and expect.version != head.version:
        raise VersionConflict(thread=head.id, expected=expect.version, actual=head.version)


async def _replaced(
    db: Database, resting: Resting, manifest: Manifest, defaults: Mapping[str, JSON], now: int
) -> Committed:
    head = resting.head
    given_up = abandoned(resting, WHY, now)
    last = standing(head.state)
    run: dict[str, JSON] | None = None
    if last.id:  # a run that lost its lease must find another epoch than its own
        run = {"id": last.id, "epoch": last.epoch + 1, "status": DONE}
    change = replacement(head, manifest, defaults, run)
    change = msgspec.structs.replace(change, run_meta=given_up.meta)
    append = AppendTo(thread=head.id, change=change, expect=Exact(head.version, head.hash))
    return await _committed(db, append, *given_up.writes)


async def _committed(db: Database, *writes: Write) -> Committed:
    done = (await db.commit(writes))[0]
    assert isinstance(done, Committed)
    return done


# Files.


def save(volume: Path, place: Place, manifest: Manifest) -> Path:
    """Write a manifest to its place on a volume: whole, or not at all, and on disk when this returns.

    Raises:
        InvalidArgument: The place leads out of the volume.
    """
    file = volume / path_of(place)
    _make_folder(volume, file.parent)
    part = file.parent / f".{secrets.token_hex(8)}.part"
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(written(manifest))
            opened.flush()
            os.fsync(opened.fileno())
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
    _sync(file.parent)
    return file


def load(volume: Path, place: Place, *, older: bool = False) -> Manifest:
    """The manifest of a session on a volume; with ``older`` also from the layout before this one.

    Raises:
        InvalidArgument: There is none, or it is no manifest of this session.
    """
    file = volume / path_of(place)
    if file.is_file():
        manifest = read(_inside(volume, file).read_bytes())
    else:
        manifest = _older(volume, place) if older else _missing(place)
    if manifest.session != place.session:
        problem = f"The manifest at {file.name!r} is of session {manifest.session!r}, not {place.session!r}."
        raise InvalidArgument(problem=problem)
    return manifest


def tenant_volume(volume: Path, tenant: str) -> Path:
    """The part of a server's volume that is a tenant's own."""
    return volume / file_name(tenant)


def _older(volume: Path, place: Place) -> Manifest:
    for path in older_paths(place):
        if (volume / path).is_file():
            try:
                document = msgspec.json.decode(_inside(volume, volume / path).read_bytes())
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise InvalidArgument(problem=f"The older manifest cannot be read: {error}.") from error
            return older_manifest(place.session, document)
    return _missing(place)


def _missing(place: Place) -> Manifest:
    raise InvalidArgument(problem=f"The volume has no manifest of session {place.session!r} for this user.")


def _make_folder(volume: Path, folder: Path) -> None:
    """Make a folder on a volume, and see to it that it is there after a crash."""
    if not _inside(volume, folder).is_dir():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for each in (folder, *folder.parents):
            _sync(each)
            if each == volume:
                break


def _inside(volume: Path, file: Path) -> Path:
    """A file or folder that is on the volume, whatever links stand on the way to it."""
    if not file.resolve().is_relative_to(volume.resolve()):
        raise InvalidArgument(problem="A link on the volume leads out of it.")
    return file


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
