"""The workbench over HTTP: core memory, documents, artifacts, and the volume of a thread's owner."""

import asyncio
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from litestar import Request, Response, delete, get, post, put
from litestar.params import FromPath, JSONBody, QueryParameter

from clew.api.threads import CommittedView
from clew.api.workbench import (
    ArtifactPage,
    ArtifactView,
    BlockView,
    CoreMemoryView,
    DocumentList,
    DocumentView,
    NewBlock,
    NewDocument,
    PassageView,
    PlaceList,
    SectionList,
    VolumeFilePage,
)
from clew.core.encoding import plain
from clew.core.errors import InvalidArgument
from clew.runtime.state.inputs import free_id
from clew.server.http.callers import Caller, Calling, ThreadId, named
from clew.server.http.openapi import TAKES, VERSIONED
from clew.server.http.views import committed_view
from clew.server.routes.manifests import defaults_of
from clew.server.routes.threads import Cursor, IfMatch, Limit, etag, expected
from clew.workbench.artifacts import Artifacts
from clew.workbench.core_memory import CoreMemory
from clew.workbench.documents.documents import Condition, Document, Documents
from clew.workbench.documents.text import LONGEST
from clew.workbench.volume.media_types import media_type, sent_as
from clew.workbench.volume.volume import Volume

Whole = Annotated[int, QueryParameter(ge=0, le=1 << 53, description="How many characters to pass over.")]
Length = Annotated[int, QueryParameter(ge=1, le=LONGEST, description="How many characters to take.")]
OnVolume = Annotated[str | None, QueryParameter(description="Its path; without one, the active document.")]
GUARDED = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-store",
}
"""What goes with every file: no browser takes it for a page of ours, or for more than it is sent as."""


# Core memory.


@get("/threads/{id:str}/core-memory", operation_id="get_core_memory", opt={VERSIONED: True})
async def get_core_memory(thread_id: ThreadId, caller: Calling) -> Response[CoreMemoryView]:
    """The blocks of core memory. The ETag is the version of the thread."""
    memory = await _core_memory(caller, thread_id)
    found = await memory.blocks()
    blocks = [
        BlockView(name=name, text=text, limit=memory.limits.of(name)) for name, text in found.blocks.items()
    ]
    view = CoreMemoryView(thread=thread_id, version=found.version, blocks=blocks)
    return Response(view, headers=etag(found.version))


@put("/threads/{id:str}/core-memory/{block:str}", operation_id="put_block", opt={VERSIONED: True})
async def put_block(
    thread_id: ThreadId,
    block: FromPath[str],
    data: JSONBody[NewBlock],
    caller: Calling,
    if_match: IfMatch = None,
) -> Response[CommittedView]:
    """Write a block anew. With If-Match, only if the block is as it was at that version."""
    memory = await _core_memory(caller, free_id(thread_id))
    done = await memory.put(named(block), data.text, expect=expected(if_match))
    return Response(committed_view(done), headers=etag(done.version))


async def _core_memory(caller: Caller, thread: str) -> CoreMemory:
    async with caller.runtime() as runtime:
        defaults = defaults_of(runtime)
    return CoreMemory(caller.db.thread(thread), defaults=defaults, author=caller.identity.user)


# Documents.


@get("/threads/{id:str}/documents", operation_id="list_documents", opt={VERSIONED: True})
async def list_documents(thread_id: ThreadId, caller: Calling) -> Response[DocumentList]:
    """The loaded documents, which one is active, and whether each file is still what it was."""
    shelf = await (await _documents(caller, thread_id)).list()
    view = DocumentList(
        thread=thread_id,
        version=shelf.version,
        documents=[_document_view(each, shelf.conditions[each.path]) for each in shelf.documents],
        active=shelf.active,
    )
    return Response(view, headers=etag(shelf.version))


@post(
    "/threads/{id:str}/documents",
    operation_id="add_document",
    status_code=201,
    opt={TAKES: "application/octet-stream"},
)
async def add_document(
    thread_id: ThreadId,
    caller: Calling,
    request: Request[Any, Any, Any],
    name: Annotated[str, QueryParameter(description="What the file is called.")],
) -> DocumentView:
    """Copy a file to the volume and load it: PDF, HTML, Markdown or plain text. The body is the file."""
    documents = await _documents(caller, free_id(thread_id))
    with caller.serving.turns.enter(caller.name):  # reading a file takes a process, as a turn takes a model
        return _document_view(await documents.add(name, await request.body()), "ok")


@post("/threads/{id:str}/documents/load", operation_id="load_document", status_code=200)
async def load_document(thread_id: ThreadId, data: JSONBody[NewDocument], caller: Calling) -> DocumentView:
    """Load a file of the volume, or what it has become since it was loaded."""
    documents = await _documents(caller, free_id(thread_id))
    with caller.serving.turns.enter(caller.name):
        return _document_view(await documents.load(data.path), "ok")


@put("/threads/{id:str}/documents/active", operation_id="switch_document", opt={VERSIONED: True})
async def switch_document(
    thread_id: ThreadId, data: JSONBody[NewDocument], caller: Calling
) -> Response[CommittedView]:
    """Make a document the active one."""
    done = await (await _documents(caller, free_id(thread_id))).switch(data.path)
    return Response(committed_view(done), headers=etag(done.version))


@delete("/threads/{id:str}/documents", operation_id="unload_document", status_code=204)
async def unload_document(
    thread_id: ThreadId,
    caller: Calling,
    path: Annotated[str, QueryParameter(description="Its path on the volume.")],
) -> None:
    """Take a document off the thread. Its file stays on the volume, where earlier versions find it."""
    await (await _documents(caller, free_id(thread_id))).unload(path)


@get("/threads/{id:str}/documents/sections", operation_id="document_sections")
async def document_sections(thread_id: ThreadId, caller: Calling, path: OnVolume = None) -> SectionList:
    """The pages or headings of a document, and where each begins."""
    document, text = await (await _documents(caller, thread_id)).text(path)
    return SectionList(path=document.path, characters=len(text.text), sections=plain(text.sections))


@get("/threads/{id:str}/documents/text", operation_id="peek_document")
async def peek_document(
    thread_id: ThreadId, caller: Calling, path: OnVolume = None, start: Whole = 0, length: Length = 4000
) -> PassageView:
    """A part of a document, and where the next part begins."""
    found = await (await _documents(caller, thread_id)).peek(path, start, length)
    return msgspec.convert(plain(found), PassageView)


@get("/threads/{id:str}/documents/find", operation_id="find_in_document")
async def find_in_document(
    thread_id: ThreadId,
    caller: Calling,
    words: Annotated[str, QueryParameter(max_length=1000, description="What to look for.")],
    path: OnVolume = None,
    limit: Limit = 10,
) -> PlaceList:
    """Where words stand in a document, in whatever form: first where most of them stand together."""
    found = await (await _documents(caller, thread_id)).find(words, path, limit)
    return PlaceList(path=found.path, places=plain(found.places))


async def _documents(caller: Caller, thread: str) -> Documents:
    volume = await _volume(caller, thread)
    return Documents(caller.db, thread, volume, author=caller.identity.user)


def _document_view(document: Document, condition: Condition) -> DocumentView:
    return msgspec.convert({**plain(document), "condition": condition}, DocumentView)


# Artifacts.


@get("/threads/{id:str}/artifacts", operation_id="list_artifacts")
async def list_artifacts(
    thread_id: ThreadId, caller: Calling, limit: Limit = 50, cursor: Cursor = None
) -> ArtifactPage:
    """What the thread made, the newest first."""
    list_of = f"artifacts\0{thread_id}"
    after = caller.position(cursor, tuple[int, str], list_of)
    page = await (await _artifacts(caller, thread_id)).list(limit=limit, after=after)
    return ArtifactPage(
        artifacts=[msgspec.convert(plain(each), ArtifactView) for each in page.artifacts],
        next=caller.cursor(list(page.next), list_of) if page.next is not None else None,
    )


@get("/threads/{id:str}/artifacts/{artifact:str}", operation_id="get_artifact", media_type="*/*")
async def get_artifact(thread_id: ThreadId, artifact: FromPath[str], caller: Calling) -> Response[bytes]:
    """The content of an artifact, to be saved. What a browser would run is sent as mere bytes."""
    found, content = await (await _artifacts(caller, thread_id)).read(named(artifact))
    headers = {**GUARDED, "Content-Disposition": disposition(found.name), "ETag": f'"{found.sha256}"'}
    return Response(content, media_type=sent_as(media_type(content, found.name)), headers=headers)


@delete("/threads/{id:str}/artifacts/{artifact:str}", operation_id="delete_artifact", status_code=204)
async def delete_artifact(thread_id: ThreadId, artifact: FromPath[str], caller: Calling) -> None:
    """Let go of an artifact and its file."""
    await (await _artifacts(caller, free_id(thread_id))).delete(named(artifact))


async def _artifacts(caller: Caller, thread: str) -> Artifacts:
    return Artifacts(caller.db, thread, await _volume(caller, thread), author=caller.identity.user)


def disposition(name: str) -> str:
    """The header that lets a file be saved under its name, whatever characters that has."""
    plain_name = "".join(
        sign if sign.isascii() and (sign.isalnum() or sign in "._- ") else "_" for sign in name
    )
    return f"attachment; filename=\"{plain_name}\"; filename*=UTF-8''{quote(name, safe='')}"


# The volume.


@get("/threads/{id:str}/volume", operation_id="list_volume")
async def list_volume(
    thread_id: ThreadId,
    caller: Calling,
    folder: Annotated[str, QueryParameter(description="Only what is in this folder.")] = "",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> VolumeFilePage:
    """The files in memory/, artifacts/ and buffers/ of the thread's owner, by path."""
    volume = await _volume(caller, thread_id)
    list_of = f"volume\0{thread_id}\0{folder}"
    after = caller.position(cursor, str, list_of)
    page = await asyncio.to_thread(volume.list, folder, after=after, limit=limit)
    return VolumeFilePage(
        files=plain(page.files),
        next=caller.cursor(page.next, list_of) if page.next is not None else None,
        refused=page.refused,
    )


async def _volume(caller: Caller, thread: str) -> Volume:
    """The volume of the owner of a thread that the caller can see.

    Raises:
        ThreadNotFound: There is no such thread, or it is another's.
        InvalidArgument: This server has no volume.
    """
    owner = (await caller.db.thread(thread).head()).owner
    root = caller.serving.settings.volume
    if root is None:
        raise InvalidArgument(problem="This server has no volume. Start it with --volume FOLDER.")
    return Volume(Path(root), caller.identity.tenant, owner)


WORKBENCH = [
    get_core_memory,
    put_block,
    load_document,
    switch_document,
    document_sections,
    peek_document,
    find_in_document,
    list_artifacts,
    get_artifact,
    delete_artifact,
    list_volume,
]
UPLOADS = [list_documents, add_document, unload_document]
"""What stands at the path that takes whole files, as large as an archive may be."""
