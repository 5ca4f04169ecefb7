"""Manifests over HTTP: a session as one document, and a session replaced by what such a document says."""

from pathlib import Path
from typing import Any

from litestar import Response, post
from litestar.params import JSONBody

from clew.api.threads import CommitView
from clew.core.clock import now_ms
from clew.core.encoding import JSON, as_json
from clew.core.manifest.document import CORE_MEMORY, MEMORY_KEY, encode_manifest, manifest_from
from clew.core.manifest.files import ManifestAddress
from clew.runtime.runtime import Runtime
from clew.server.http.callers import Caller, CurrentCaller, ThreadId
from clew.server.http.openapi import HAS_ETAG
from clew.server.http.views import commit_view
from clew.server.routes.threads import IfMatch, etag, parse_if_match
from clew.workbench.session import manifests
from clew.workbench.session.checkpoints import ManifestCheckpoints
from clew.workbench.volume.volume import Volume

MANIFEST_MEDIA_TYPE = "application/json"


async def export_manifest(caller: Caller, session: str) -> Response[bytes]:
    """A session as a manifest; a server with a volume writes a checkpoint there before it answers."""
    async with caller.runtime() as runtime:
        defaults = core_memory_defaults(runtime)
    manifest = await manifests.export_manifest(caller.db, session, defaults)
    if (volume := caller.resources.settings.volume) is not None:
        owner = (await caller.db.thread(session).head()).owner
        place = ManifestAddress(workspace=caller.identity.workspace, user=owner, session=session)
        owner_volume = Volume(Path(volume), caller.identity.tenant, owner)
        await ManifestCheckpoints(caller.db, owner_volume, place, clock=now_ms, defaults=defaults).save()
    return Response(encode_manifest(manifest), media_type=MANIFEST_MEDIA_TYPE)


@post("/sessions/{id:str}/import", operation_id="replace_session", status_code=200, opt={HAS_ETAG: True})
async def replace_session(
    thread_id: ThreadId, data: JSONBody[dict[str, Any]], caller: CurrentCaller, if_match: IfMatch = None
) -> Response[CommitView]:
    """Make a session what a manifest says, and nothing else. Parts that it lacks are reset.

    One that is not there is made. The episode that it was in ends. It is one change, and can be rewound.
    """
    manifest = manifest_from(data)
    async with caller.runtime() as runtime:
        commit = await manifests.import_manifest(
            caller.db,
            thread_id,
            manifest,
            now=now_ms(),
            owner=caller.identity.user,
            defaults=core_memory_defaults(runtime),
            expect=parse_if_match(if_match),
        )
    return Response(commit_view(commit), headers=etag(commit.version))


def core_memory_defaults(runtime: Runtime[Any, Any]) -> dict[str, JSON]:
    """The core memory that a session begins with: what the schema says, if it has such a field."""
    field = runtime.schema.fields.get(MEMORY_KEY)
    defaults = dict(CORE_MEMORY) if field is None else as_json(field.default())
    return defaults if isinstance(defaults, dict) else {}


MANIFEST_ROUTES = [replace_session]
