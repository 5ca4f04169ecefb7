"""Archives and manifests over HTTP: sessions that are exported and imported."""

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, Response
from litestar.params import FromQuery, JSONBody, QueryParameter
from litestar.response import Stream

from clew.api.archives import EXPORT_PERSON, EXPORT_SESSION, IMPORT_SESSION, REPLACE_SESSION, ImportView
from clew.api.route import JSON_TYPE, LINES_TYPE
from clew.api.threads import CommitView
from clew.core.clock import now_ms
from clew.core.errors import InvalidArgument
from clew.core.manifest.document import encode_manifest, manifest_from
from clew.core.manifest.files import ManifestAddress
from clew.database.archive import export_threads, import_threads
from clew.runtime.person_export import EXCLUDED_KINDS, export_person
from clew.server.http.callers import Caller, CurrentCaller, ThreadId
from clew.server.http.endpoint import endpoint
from clew.server.http.parameters import IfMatch, UserQuery, etag, parse_if_match
from clew.server.http.paths import OWN_THREADS_PREFIX
from clew.server.http.views import commit_view
from clew.workbench.core_memory import default_blocks
from clew.workbench.session import manifests
from clew.workbench.session.checkpoints import ManifestCheckpoints
from clew.workbench.volume.volume import Volume


@endpoint(EXPORT_SESSION)
async def export_session(
    thread_id: ThreadId, caller: CurrentCaller, format: FromQuery[Literal["manifest", "archive"]] = "manifest"
) -> Response[Any]:
    """Export a session as a manifest: one JSON document of what it holds now, without its past.

    With ``format=archive`` it is an archive, line by line; imported, it is the same thread, to the hash.
    """
    if format == "manifest":
        return await _export_manifest(caller, thread_id)
    db = caller.db
    await db.thread(thread_id).head()
    # Litestar prefers the media type of the route to that of a Stream, and here they differ.
    headers = {"Content-Type": LINES_TYPE}
    return Stream(export_threads(db.store, caller.scope, [thread_id]), headers=headers)


@endpoint(EXPORT_PERSON)
async def export_everything(caller: CurrentCaller, user: UserQuery = None) -> Stream:
    """Export everything that a user owns as one archive: sessions, memory, and the records beside them."""
    owner = caller.require_user(user)
    return Stream(export_person(caller.database_for(owner), owner), media_type=LINES_TYPE)


@endpoint(IMPORT_SESSION)
async def import_session(
    caller: CurrentCaller,
    request: Request[Any, Any, Any],
    skip_existing: Annotated[bool, QueryParameter(description="Pass over what is there already.")] = False,  # noqa: FBT002 - a query parameter
) -> ImportView:
    """Import the sessions of an archive, each whole or not at all.

    An import that was cut off is in as far as it came; sent again with ``skip_existing`` it goes on.
    """
    lines = _lines(await request.body())
    result = await import_threads(
        caller.db.store, caller.scope, lines, files=caller.db.files, skip_existing=skip_existing
    )
    return ImportView(
        sessions=[entry.thread for entry in result.threads],
        skipped=list(result.skipped),
        records=result.records,
        skipped_records=result.total.records - result.records,
    )


async def _lines(body: bytes) -> AsyncIterator[bytes]:
    for line in body.splitlines(keepends=True):
        _check_line(line)
        yield line


class _LineSubject(msgspec.Struct):
    """The subject of a line of an archive; the rest of the line is not read here."""

    clew: str = ""
    id: str = ""
    kind: str = ""


def _check_line(line: bytes) -> None:
    """Refuse a line that no archive may hold, not even one that comes with a key of a whole tenant.

    These are Clew's own threads, records of operators, and records that no export holds. What else a user
    may bring is checked where it is written.

    Raises:
        InvalidArgument: The line is one of them.
    """
    # What cannot be read is left to the reader of the archive, which has the better error.
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        subject = msgspec.json.decode(line, type=_LineSubject)
        if subject.clew == "thread" and subject.id.startswith(OWN_THREADS_PREFIX):
            raise InvalidArgument(problem=f"An archive cannot bring the thread {subject.id!r}.")
        if subject.clew == "record" and subject.kind in EXCLUDED_KINDS:
            raise InvalidArgument(problem=f"An archive cannot bring records of the kind {subject.kind!r}.")


async def _export_manifest(caller: Caller, session: str) -> Response[bytes]:
    """Return a session as a manifest; a server with a volume writes a checkpoint there first."""
    async with caller.runtime(session) as runtime:
        defaults = default_blocks(runtime.schema)
    manifest = await manifests.export_manifest(caller.db, session, defaults)
    if (volume := caller.resources.settings.volume) is not None:
        owner = (await caller.db.thread(session).head()).owner
        place = ManifestAddress(workspace=caller.identity.workspace, user=owner, session=session)
        owner_volume = Volume(Path(volume), caller.identity.tenant, owner)
        await ManifestCheckpoints(caller.db, owner_volume, place, clock=now_ms, defaults=defaults).save()
    return Response(encode_manifest(manifest), media_type=JSON_TYPE)


@endpoint(REPLACE_SESSION)
async def replace_session(
    thread_id: ThreadId, data: JSONBody[dict[str, Any]], caller: CurrentCaller, if_match: IfMatch = None
) -> Response[CommitView]:
    """Make a session what a manifest says, and nothing else. Parts that it lacks are reset.

    One that is not there is made. The episode that it was in ends. It is one change, and can be rewound.
    """
    manifest = manifest_from(data)
    await caller.check_writable(thread_id)
    async with caller.runtime(thread_id) as runtime:
        commit = await manifests.import_manifest(
            caller.db,
            thread_id,
            manifest,
            now=now_ms(),
            owner=caller.identity.user,
            defaults=default_blocks(runtime.schema),
            expect=parse_if_match(if_match),
        )
    return Response(commit_view(commit), headers=etag(commit.version))


ARCHIVE_ROUTES = [export_session, export_everything, import_session, replace_session]
