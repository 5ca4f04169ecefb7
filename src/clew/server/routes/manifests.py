"""Manifests over HTTP: a session as one document, and a session replaced by what such a document says."""

from pathlib import Path
from typing import Any

from litestar import Response, post
from litestar.params import JSONBody

from clew.api.threads import CommittedView
from clew.core.encoding import JSON, plain
from clew.core.manifest.document import CORE_MEMORY, MEMORY, manifest_from, written
from clew.core.manifest.files import Place
from clew.runtime.runtime import Runtime
from clew.runtime.settings import now_ms
from clew.server.http.callers import Caller, Calling, ThreadId
from clew.server.http.openapi import VERSIONED
from clew.server.http.views import committed_view
from clew.server.routes.threads import IfMatch, etag, expected
from clew.workbench.session import manifests
from clew.workbench.session.checkpoints import Checkpoints
from clew.workbench.volume.volume import Volume

DOCUMENT = "application/json"


async def exported(caller: Caller, session: str) -> Response[bytes]:
    """A session as a manifest; a server with a volume writes a checkpoint there before it answers."""
    async with caller.runtime() as runtime:
        defaults = defaults_of(runtime)
    manifest = await manifests.exported(caller.db, session, defaults)
    if (volume := caller.serving.settings.volume) is not None:
        owner = (await caller.db.thread(session).head()).owner
        place = Place(workspace=caller.identity.workspace, user=owner, session=session)
        own = Volume(Path(volume), caller.identity.tenant, owner)
        await Checkpoints(caller.db, own, place, clock=now_ms, defaults=defaults).save()
    return Response(written(manifest), media_type=DOCUMENT)


@post("/sessions/{id:str}/import", operation_id="replace_session", status_code=200, opt={VERSIONED: True})
async def replace_session(
    thread_id: ThreadId, data: JSONBody[dict[str, Any]], caller: Calling, if_match: IfMatch = None
) -> Response[CommittedView]:
    """Make a session what a manifest says, and nothing else. Parts that it lacks are reset.

    One that is not there is made. The episode that it was in ends. It is one change, and can be rewound.
    """
    manifest = manifest_from(data)
    async with caller.runtime() as runtime:
        done = await manifests.imported(
            caller.db,
            thread_id,
            manifest,
            now=now_ms(),
            owner=caller.identity.user,
            defaults=defaults_of(runtime),
            expect=expected(if_match),
        )
    return Response(committed_view(done), headers=etag(done.version))


def defaults_of(runtime: Runtime[Any, Any]) -> dict[str, JSON]:
    """The core memory that a session begins with: what the schema says, if it has such a field."""
    field = runtime.schema.fields.get(MEMORY)
    found = dict(CORE_MEMORY) if field is None else plain(field.default())
    return found if isinstance(found, dict) else {}


MANIFESTS = [replace_session]
