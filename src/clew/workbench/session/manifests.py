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
from clew.core.manifest.document import (
    CORE_MEMORY,
    Manifest,
    logs_of,
    manifest_of,
    read_manifest,
    replacement_changeset,
)
from clew.core.manifest.files import ManifestAddress, manifest_path, older_manifest, older_paths
from clew.core.values import Absent, AppendTo, Committed, Exact, Expectation, Head, Write
from clew.database.database import Database
from clew.runtime.attempts import Attempts
from clew.runtime.maintenance.idle import IdleThread, abandon_run, read_idle_thread
from clew.runtime.records.episodes import ACTIVE_EPISODE, active_episode, plan_end
from clew.runtime.state.inputs import check_thread_id
from clew.runtime.state.run_state import RunState
from clew.workbench.volume.volume import Volume

LARGEST = 256 * 1024 * 1024
"""Bytes of a manifest of the older layout; ours are bounded by their volume."""
ABANDON_REASON = "Another session was imported in its place."


@check_arguments
async def export_manifest(db: Database, session: str, defaults: Mapping[str, JSON] = CORE_MEMORY) -> Manifest:
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
async def import_manifest(
    db: Database,
    session: str,
    manifest: Manifest,
    *,
    now: int,
    owner: str | None = None,
    defaults: Mapping[str, JSON] = CORE_MEMORY,
    expect: Expectation | None = None,
) -> Committed:
    """Make a session what a manifest says, and nothing else; one that is not there is made.

    The episode that it was in ends with it. A run that stopped unfinished is given up. It is one changeset,
    so it is done whole or not at all, and can be taken back like any other.

    Raises:
        TurnBusy: A turn is at work.
        VersionConflict: The session is not where ``expect`` says, or was written meanwhile.
        TranscriptBroken: The history holds a result without its call.
    """
    check_thread_id(session)
    try:
        idle_thread = await read_idle_thread(db, session, now)
    except ThreadNotFound:
        if isinstance(expect, Exact):
            raise
        change = replacement_changeset(None, manifest, defaults)
        return await _commit(db, AppendTo(thread=session, change=change, expect=Absent(owner)))
    _check_version(idle_thread.head, expect)
    attempts = Attempts()
    while True:
        try:
            return await _replace_session(db, idle_thread, manifest, defaults, now)
        except RevisionConflict as conflict:
            if conflict.kind != ACTIVE_EPISODE:
                raise
            attempts.count(conflict)  # the episode was ended at the same moment


def _check_version(head: Head, expect: Expectation | None) -> None:
    if isinstance(expect, Exact) and expect.version != head.version:
        raise VersionConflict(thread=head.id, expected=expect.version, actual=head.version)


async def _replace_session(
    db: Database, idle_thread: IdleThread, manifest: Manifest, defaults: Mapping[str, JSON], now: int
) -> Committed:
    head = idle_thread.head
    closure = abandon_run(idle_thread, ABANDON_REASON, now)
    change = replacement_changeset(head, manifest, defaults, RunState.of(head.state).replaced_state())
    change = msgspec.structs.replace(change, run_meta=closure.meta)
    append = AppendTo(thread=head.id, change=change, expect=Exact(head.version, head.hash))
    return await _commit(db, append, *closure.writes, *await _episode_end_writes(db, head, now))


async def _episode_end_writes(db: Database, head: Head, now: int) -> list[Write]:
    """Writes that end the episode of a session, if it is in one."""
    episode = await active_episode(db, head.id)
    return [] if episode is None else plan_end(episode, by="import", now=now, last=head.version)[1]


async def _commit(db: Database, *writes: Write) -> Committed:
    result = (await db.commit(writes))[0]
    assert isinstance(result, Committed)
    return result


# Files.


def load_manifest(volume: Volume, address: ManifestAddress, *, older: bool = False) -> Manifest:
    """The manifest of a session on its user's volume; with ``older`` also from the layout before this one.

    Raises:
        VolumeFileNotFound: There is none.
        VolumePathRefused: The volume is another user's, or something else has that name.
        InvalidArgument: It is no manifest of this session.
    """
    path = str(manifest_path(address))
    try:
        manifest = read_manifest(volume.read(path))
    except VolumeFileNotFound:
        if not older:
            raise
        manifest = _load_older_manifest(volume, address)
    if manifest.session != address.session:
        problem = f"The manifest at {path!r} is of session {manifest.session!r}, not {address.session!r}."
        raise InvalidArgument(problem=problem)
    return manifest


def _load_older_manifest(volume: Volume, address: ManifestAddress) -> Manifest:
    for path in older_paths(address):
        try:
            content = volume.tenant.read(path.parts, LARGEST)
        except VolumeFileNotFound:
            continue
        try:
            document = msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidArgument(problem=f"The older manifest cannot be read: {error}.") from error
        return older_manifest(address.session, document)
    raise VolumeFileNotFound(path=str(manifest_path(address)))
