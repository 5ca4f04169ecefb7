"""The workbench over HTTP: core memory, documents, artifacts, and the volume of a thread's owner."""

import asyncio
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from litestar import Request, Response
from litestar.params import FromPath, JSONBody, QueryParameter

from clew.api.threads import CommitView
from clew.api.workbench import (
    ADD_DOCUMENT,
    DELETE_ARTIFACT,
    DOCUMENT_SECTIONS,
    FIND_IN_DOCUMENT,
    GET_ARTIFACT,
    GET_CORE_MEMORY,
    GET_REPOSITORY,
    LIST_ARTIFACTS,
    LIST_DOCUMENTS,
    LIST_VOLUME,
    LOAD_DOCUMENT,
    PEEK_DOCUMENT,
    PUT_BLOCK,
    PUT_REPOSITORY,
    SWITCH_DOCUMENT,
    UNLOAD_DOCUMENT,
    ArtifactPage,
    ArtifactView,
    BlockView,
    CoreMemoryView,
    DocumentList,
    DocumentMatchList,
    DocumentReference,
    DocumentView,
    NewBlock,
    NewRepository,
    PassageView,
    RepositoryView,
    SectionList,
    VolumeFilePage,
)
from clew.core.encoding import as_json
from clew.core.errors import InvalidArgument
from clew.runtime.state.inputs import check_thread_id
from clew.server.http.callers import Caller, CurrentCaller, ThreadId
from clew.server.http.endpoint import endpoint
from clew.server.http.parameters import Cursor, IfMatch, Limit, etag, parse_if_match
from clew.server.http.paths import decode_path_part
from clew.server.http.views import commit_view
from clew.workbench.artifacts import Artifacts
from clew.workbench.core_memory import CoreMemory, default_blocks
from clew.workbench.documents.documents import Document, Documents, FileCondition
from clew.workbench.documents.text import LONGEST_PASSAGE
from clew.workbench.repository.source import RepositorySource, repository_of
from clew.workbench.session.repository import set_repository
from clew.workbench.volume.media_types import browser_safe_type, media_type
from clew.workbench.volume.volume import Volume

Offset = Annotated[int, QueryParameter(ge=0, le=1 << 53, description="How many characters to pass over.")]
Length = Annotated[int, QueryParameter(ge=1, le=LONGEST_PASSAGE, description="How many characters to take.")]
DocumentPathQuery = Annotated[
    str | None, QueryParameter(description="Its path; without one, the active document.")
]
FILE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-store",
}
"""Headers of every file: no browser takes it for a page of ours, or for another type than it is sent as."""


# Core memory.


@endpoint(GET_CORE_MEMORY)
async def get_core_memory(thread_id: ThreadId, caller: CurrentCaller) -> Response[CoreMemoryView]:
    """Return the blocks of core memory. The ETag is the version of the thread."""
    memory = await _core_memory(caller, thread_id)
    snapshot = await memory.blocks()
    blocks = [
        BlockView(name=name, text=text, limit=memory.limits.of(name))
        for name, text in snapshot.blocks.items()
    ]
    view = CoreMemoryView(thread=thread_id, version=snapshot.version, blocks=blocks)
    return Response(view, headers=etag(snapshot.version))


@endpoint(PUT_BLOCK)
async def put_block(
    thread_id: ThreadId,
    block: FromPath[str],
    data: JSONBody[NewBlock],
    caller: CurrentCaller,
    if_match: IfMatch = None,
) -> Response[CommitView]:
    """Write a block anew. With If-Match, only if the block is as it was at that version."""
    memory = await _core_memory(caller, await _writable(caller, thread_id))
    commit = await memory.put(decode_path_part(block), data.text, expect=parse_if_match(if_match))
    return Response(commit_view(commit), headers=etag(commit.version))


async def _writable(caller: Caller, thread: str) -> str:
    """Return the id of a thread, if a conversation may have it and the served agent may write it."""
    await caller.check_writable(check_thread_id(thread))
    return thread


async def _core_memory(caller: Caller, thread: str) -> CoreMemory:
    async with caller.runtime(thread) as runtime:
        defaults = default_blocks(runtime.schema)
    return CoreMemory(caller.db.thread(thread), defaults=defaults, author=caller.identity.user)


# The repository.


@endpoint(GET_REPOSITORY)
async def get_repository(thread_id: ThreadId, caller: CurrentCaller) -> Response[RepositoryView]:
    """Return the repository that a session works on. The ETag is the version of the thread."""
    head = await caller.db.thread(thread_id).head()
    source = repository_of(head.state)
    view = RepositoryView(
        session=thread_id,
        version=head.version,
        url=source.url,
        ref=source.ref,
        context_paths=list(source.context_paths),
    )
    return Response(view, headers=etag(head.version))


@endpoint(PUT_REPOSITORY)
async def put_repository(
    thread_id: ThreadId, data: JSONBody[NewRepository], caller: CurrentCaller, if_match: IfMatch = None
) -> Response[CommitView]:
    """Let a session work on a repository from the next time it is opened; on none, without a URL.

    What is checked out then depends on the hosts that are listed where it is opened.
    """
    source = RepositorySource(url=data.url, ref=data.ref, context_paths=tuple(data.context_paths))
    commit = await set_repository(
        caller.db,
        await _writable(caller, thread_id),
        source,
        author=caller.identity.user,
        expect=parse_if_match(if_match),
    )
    return Response(commit_view(commit), headers=etag(commit.version))


# Documents.


@endpoint(LIST_DOCUMENTS)
async def list_documents(thread_id: ThreadId, caller: CurrentCaller) -> Response[DocumentList]:
    """List the loaded documents, the active one, and whether each file is unchanged."""
    listing = await (await _documents(caller, thread_id)).list()
    view = DocumentList(
        thread=thread_id,
        version=listing.version,
        documents=[_document_view(each, listing.conditions[each.path]) for each in listing.documents],
        active=listing.active,
    )
    return Response(view, headers=etag(listing.version))


@endpoint(ADD_DOCUMENT)
async def add_document(
    thread_id: ThreadId,
    caller: CurrentCaller,
    request: Request[Any, Any, Any],
    name: Annotated[str, QueryParameter(description="What the file is called.")],
) -> DocumentView:
    """Copy a file to the volume and load it: PDF, HTML, Markdown or plain text. The body is the file."""
    documents = await _documents(caller, await _writable(caller, thread_id))
    with caller.resources.user_turns.enter(
        caller.name
    ):  # reading a file takes a process, as a turn takes a model
        return _document_view(await documents.add(name, await request.body()), "ok")


@endpoint(LOAD_DOCUMENT)
async def load_document(
    thread_id: ThreadId, data: JSONBody[DocumentReference], caller: CurrentCaller
) -> DocumentView:
    """Load a file of the volume, or what it has become since it was loaded."""
    documents = await _documents(caller, await _writable(caller, thread_id))
    with caller.resources.user_turns.enter(caller.name):
        return _document_view(await documents.load(data.path), "ok")


@endpoint(SWITCH_DOCUMENT)
async def switch_document(
    thread_id: ThreadId, data: JSONBody[DocumentReference], caller: CurrentCaller
) -> Response[CommitView]:
    """Make a document the active one."""
    commit = await (await _documents(caller, await _writable(caller, thread_id))).switch(data.path)
    return Response(commit_view(commit), headers=etag(commit.version))


@endpoint(UNLOAD_DOCUMENT)
async def unload_document(
    thread_id: ThreadId,
    caller: CurrentCaller,
    path: Annotated[str, QueryParameter(description="Its path on the volume.")],
) -> None:
    """Take a document off the thread. Its file stays on the volume, where earlier versions find it."""
    await (await _documents(caller, await _writable(caller, thread_id))).unload(path)


@endpoint(DOCUMENT_SECTIONS)
async def document_sections(
    thread_id: ThreadId, caller: CurrentCaller, path: DocumentPathQuery = None
) -> SectionList:
    """List the pages or headings of a document, and where each begins."""
    document, text = await (await _documents(caller, thread_id)).text(path)
    return SectionList(path=document.path, characters=len(text.text), sections=as_json(text.sections))


@endpoint(PEEK_DOCUMENT)
async def peek_document(
    thread_id: ThreadId,
    caller: CurrentCaller,
    path: DocumentPathQuery = None,
    start: Offset = 0,
    length: Length = 4000,
) -> PassageView:
    """Return a part of a document, and where the next part begins."""
    passage = await (await _documents(caller, thread_id)).peek(path, start, length)
    return msgspec.convert(as_json(passage), PassageView)


@endpoint(FIND_IN_DOCUMENT)
async def find_in_document(
    thread_id: ThreadId,
    caller: CurrentCaller,
    words: Annotated[str, QueryParameter(max_length=1000, description="What to look for.")],
    path: DocumentPathQuery = None,
    limit: Limit = 10,
) -> DocumentMatchList:
    """Find words in a document, in whatever form: first where most of them are together."""
    matches = await (await _documents(caller, thread_id)).find(words, path, limit)
    return DocumentMatchList(path=matches.path, places=as_json(matches.places))


async def _documents(caller: Caller, thread: str) -> Documents:
    volume = await _volume(caller, thread)
    return Documents(caller.db, thread, volume, author=caller.identity.user)


def _document_view(document: Document, condition: FileCondition) -> DocumentView:
    return msgspec.convert({**as_json(document), "condition": condition}, DocumentView)


# Artifacts.


@endpoint(LIST_ARTIFACTS)
async def list_artifacts(
    thread_id: ThreadId, caller: CurrentCaller, limit: Limit = 50, cursor: Cursor = None
) -> ArtifactPage:
    """List the artifacts of a thread, the newest first."""
    pages = caller.pages(cursor, tuple[int, str], "artifacts", thread_id)
    page = await (await _artifacts(caller, thread_id)).list(limit=limit, after=pages.start)
    return ArtifactPage(
        artifacts=[msgspec.convert(as_json(each), ArtifactView) for each in page.artifacts],
        next=pages.cursor(as_json(page.next)),
    )


@endpoint(GET_ARTIFACT)
async def get_artifact(
    thread_id: ThreadId, artifact: FromPath[str], caller: CurrentCaller
) -> Response[bytes]:
    """Return the content of an artifact, to be saved. What a browser would run is sent as mere bytes."""
    record, content = await (await _artifacts(caller, thread_id)).read(decode_path_part(artifact))
    headers = {
        **FILE_HEADERS,
        "Content-Disposition": content_disposition(record.name),
        "ETag": f'"{record.sha256}"',
    }
    return Response(content, media_type=browser_safe_type(media_type(content, record.name)), headers=headers)


@endpoint(DELETE_ARTIFACT)
async def delete_artifact(thread_id: ThreadId, artifact: FromPath[str], caller: CurrentCaller) -> None:
    """Delete an artifact and its file."""
    await (await _artifacts(caller, await _writable(caller, thread_id))).delete(decode_path_part(artifact))


async def _artifacts(caller: Caller, thread: str) -> Artifacts:
    return Artifacts(caller.db, thread, await _volume(caller, thread), author=caller.identity.user)


def content_disposition(name: str) -> str:
    """Return the header that lets a file be saved under its name, whatever characters that has."""
    plain_name = "".join(
        character if character.isascii() and (character.isalnum() or character in "._- ") else "_"
        for character in name
    )
    return f"attachment; filename=\"{plain_name}\"; filename*=UTF-8''{quote(name, safe='')}"


# The volume.


@endpoint(LIST_VOLUME)
async def list_volume(
    thread_id: ThreadId,
    caller: CurrentCaller,
    folder: Annotated[str, QueryParameter(description="Only what is in this folder.")] = "",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> VolumeFilePage:
    """List the files in memory/, artifacts/ and buffers/ of the thread's owner, by path."""
    volume = await _volume(caller, thread_id)
    pages = caller.pages(cursor, str, "volume", thread_id, folder)
    page = await asyncio.to_thread(volume.list, folder, after=pages.start, limit=limit)
    return VolumeFilePage(
        files=as_json(page.files),
        next=pages.cursor(page.next),
        refused=page.refused,
    )


async def _volume(caller: Caller, thread: str) -> Volume:
    """Return the volume of the owner of a thread that the caller can see.

    Raises:
        ThreadNotFound: There is no such thread, or it is another's.
        InvalidArgument: This server has no volume.
    """
    owner = (await caller.db.thread(thread).head()).owner
    root = caller.resources.settings.volume
    if root is None:
        raise InvalidArgument(problem="This server has no volume. Start it with --volume FOLDER.")
    return Volume(Path(root), caller.identity.tenant, owner)


WORKBENCH_ROUTES = [
    get_core_memory,
    put_block,
    get_repository,
    put_repository,
    load_document,
    switch_document,
    document_sections,
    peek_document,
    find_in_document,
    list_artifacts,
    get_artifact,
    delete_artifact,
    list_volume,
    list_documents,
    add_document,
    unload_document,
]
