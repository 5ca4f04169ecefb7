"""The calls of the workbench: core memory, documents, artifacts, and the files of a volume."""

from clew.api import workbench
from clew.api.threads import CommitView
from clew.client.call import (
    ApiCall,
    AsyncSender,
    BlockingSender,
    CallMethod,
    api_call,
    if_match_header,
    path_part,
)


def core_memory(thread: str) -> ApiCall[workbench.CoreMemoryView]:
    """The blocks of core memory."""
    return api_call("GET", f"/threads/{path_part(thread)}/core-memory", workbench.CoreMemoryView)


def put_block(thread: str, block: str, text: str, *, expect: int | None = None) -> ApiCall[CommitView]:
    """Write a block anew, if it is as it was at a version."""
    path = f"/threads/{path_part(thread)}/core-memory/{path_part(block)}"
    body = workbench.NewBlock(text=text)
    return api_call("PUT", path, CommitView, body=body, headers=if_match_header(expect))


def documents(thread: str) -> ApiCall[workbench.DocumentList]:
    """The loaded documents."""
    return api_call("GET", f"/threads/{path_part(thread)}/documents", workbench.DocumentList)


def add_document(
    thread: str, name: str, content: bytes, *, key: str | None = None
) -> ApiCall[workbench.DocumentView]:
    """Copy a file to the volume, and load it."""
    path, kind = f"/threads/{path_part(thread)}/documents", {"Content-Type": "application/octet-stream"}
    return api_call("POST", path, workbench.DocumentView, body=content, key=key, headers=kind, name=name)


def load_document(thread: str, path: str, *, key: str | None = None) -> ApiCall[workbench.DocumentView]:
    """Load a file of the volume, or what it has become."""
    where, body = f"/threads/{path_part(thread)}/documents/load", workbench.DocumentReference(path=path)
    return api_call("POST", where, workbench.DocumentView, body=body, key=key)


def switch_document(thread: str, path: str) -> ApiCall[CommitView]:
    """Make a document the active one."""
    where, body = f"/threads/{path_part(thread)}/documents/active", workbench.DocumentReference(path=path)
    return api_call("PUT", where, CommitView, body=body)


def unload_document(thread: str, path: str) -> ApiCall[None]:
    """Take a document off the thread; its file stays on the volume."""
    return api_call("DELETE", f"/threads/{path_part(thread)}/documents", None, path=path)


def document_sections(thread: str, path: str | None = None) -> ApiCall[workbench.SectionList]:
    """The pages or headings of a document, or of the active one."""
    where = f"/threads/{path_part(thread)}/documents/sections"
    return api_call("GET", where, workbench.SectionList, path=path)


def peek_document(
    thread: str, path: str | None = None, *, start: int = 0, length: int = 4000
) -> ApiCall[workbench.PassageView]:
    """A part of a document, or of the active one."""
    where = f"/threads/{path_part(thread)}/documents/text"
    return api_call("GET", where, workbench.PassageView, path=path, start=start, length=length)


def find_in_document(
    thread: str, words: str, path: str | None = None, *, limit: int = 10
) -> ApiCall[workbench.DocumentMatchList]:
    """Where words stand in a document, or in the active one."""
    where = f"/threads/{path_part(thread)}/documents/find"
    return api_call("GET", where, workbench.DocumentMatchList, words=words, path=path, limit=limit)


def artifacts(thread: str, *, limit: int = 50, cursor: str | None = None) -> ApiCall[workbench.ArtifactPage]:
    """The artifacts of a thread, the newest first."""
    where = f"/threads/{path_part(thread)}/artifacts"
    return api_call("GET", where, workbench.ArtifactPage, limit=limit, cursor=cursor)


def artifact(thread: str, id: str) -> ApiCall[bytes]:
    """The content of an artifact, as it was saved."""
    return api_call("GET", f"/threads/{path_part(thread)}/artifacts/{path_part(id)}", bytes)


def delete_artifact(thread: str, id: str) -> ApiCall[None]:
    """Let go of an artifact."""
    return api_call("DELETE", f"/threads/{path_part(thread)}/artifacts/{path_part(id)}", None)


def volume(
    thread: str, *, folder: str = "", limit: int = 50, cursor: str | None = None
) -> ApiCall[workbench.VolumeFilePage]:
    """The files on the volume of a thread's owner."""
    where = f"/threads/{path_part(thread)}/volume"
    return api_call("GET", where, workbench.VolumeFilePage, folder=folder, limit=limit, cursor=cursor)


class WorkbenchMethods:
    """The calls of the workbench, for either client."""

    core_memory = CallMethod(core_memory)
    put_block = CallMethod(put_block)
    documents = CallMethod(documents)
    add_document = CallMethod(add_document)
    load_document = CallMethod(load_document)
    switch_document = CallMethod(switch_document)
    unload_document = CallMethod(unload_document)
    document_sections = CallMethod(document_sections)
    peek_document = CallMethod(peek_document)
    find_in_document = CallMethod(find_in_document)
    artifacts = CallMethod(artifacts)
    artifact = CallMethod(artifact)
    delete_artifact = CallMethod(delete_artifact)
    volume = CallMethod(volume)


class AsyncWorkbenchClient(AsyncSender, WorkbenchMethods):
    """The calls of the workbench, awaited."""


class WorkbenchClient(BlockingSender, WorkbenchMethods):
    """The calls of the workbench, blocking."""
