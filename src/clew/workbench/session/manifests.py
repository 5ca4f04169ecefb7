"""Sessions as manifests: taken from a thread, put in its place, and kept as files on a volume."""

from collections.abc import Mapping

import msgspec

from clew.core.arguments import check_arguments
from clew.core.encoding import JSON
from clew.core.errors import (
    InvalidArgument,
    RevisionConflict,
    ThreadNotFound,
    VersionConflict,
    VolumeFileNotFound,
)
from clew.core.manifest.document import CORE_MEMORY, Manifest, logs_of, manifest_of, read, replacement
from clew.core.manifest.files import Place, older_manifest, older_paths, path_of
from clew.core.values import Absent, AppendTo, Committed, Exact, Expect, Head, Write
from clew.database.database import Database
from clew.runtime.attempts import Attempts
from clew.runtime.maintenance.idle import Resting, abandoned, rest_at
from clew.runtime.records.episodes import ACTIVE_ROW, active_episode, end_of
from clew.runtime.records.runs import DONE
from clew.runtime.state.inputs import free_id
from clew.runtime.turn.inbound import standing
from clew.workbench.volume.volume import Volume

LARGEST = 256 * 1024 * 1024
"""Bytes of a manifest of the older layout; ours are bounded by their volume."""
WHY = "Another session was imported in its place."


@check_arguments
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


@check_arguments
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

    The episode that it was in ends with it. A run that stopped unfinished is given up. It is one changeset,
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
    attempts = Attempts()
    while True:
        try:
            return await _replaced(db, resting, manifest, defaults, now)
        except RevisionConflict as conflict:
            if conflict.kind != ACTIVE_ROW:
                raise
            attempts.count(conflict)  # somebody has just ended the episode


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
    return await _committed(db, append, *given_up.writes, *await _episode_over(db, head, now))


async def _episode_over(db: Database, head: Head, now: int) -> list[Write]:
    """What ends the episode that a session is in, if it is in one."""
    episode = await active_episode(db, head.id)
    return [] if episode is None else end_of(episode, by="import", now=now, last=head.version)[1]


async def _committed(db: Database, *writes: Write) -> Committed:
    done = (await db.commit(writes))[0]
    assert isinstance(done, Committed)
    return done


# Files.


def load(volume: Volume, place: Place, *, older: bool = False) -> Manifest:
    """The manifest of a session on its user's volume; with ``older`` also from the layout before this one.

    Raises:
        VolumeFileNotFound: There is none.
        VolumePathRefused: The volume is another user's, or something else stands there.
        InvalidArgument: It is no manifest of this session.
    """
    path = str(path_of(place))
    try:
        manifest = read(volume.read(path))
    except VolumeFileNotFound:
        if not older:
            raise
        manifest = _older(volume, place)
    if manifest.session != place.session:
        problem = f"The manifest at {path!r} is of session {manifest.session!r}, not {place.session!r}."
        raise InvalidArgument(problem=problem)
    return manifest


def _older(volume: Volume, place: Place) -> Manifest:
    for path in older_paths(place):
        try:
            content = volume.tenant.read(path.parts, LARGEST)
        except VolumeFileNotFound:
            continue
        try:
            document = msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidArgument(problem=f"The older manifest cannot be read: {error}.") from error
        return older_manifest(place.session, document)
    raise VolumeFileNotFound(path=str(path_of(place)))
