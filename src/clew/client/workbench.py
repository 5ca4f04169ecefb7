"""The calls of the workbench: core memory, documents, artifacts, and the files of a volume."""

from clew.api import workbench
from clew.api.threads import CommittedView
from clew.client.call import Awaited, Blocking, Call, Method, call, matching, named


def core_memory(thread: str) -> Call[workbench.CoreMemoryView]:
    """The blocks of core memory."""
    return call("GET", f"/threads/{named(thread)}/core-memory", workbench.CoreMemoryView)


def put_block(thread: str, block: str, text: str, *, expect: int | None = None) -> Call[CommittedView]:
    """Write a block anew, if it is as it was at a version."""
    path = f"/threads/{named(thread)}/core-memory/{named(block)}"
    body = workbench.NewBlock(text=text)
    return call("PUT", path, CommittedView, body=body, headers=matching(expect))


def documents(thread: str) -> Call[workbench.DocumentList]:
    """The loaded documents."""
    return call("GET", f"/threads/{named(thread)}/documents", workbench.DocumentList)


def add_document(
    thread: str, name: str, content: bytes, *, key: str | None = None
) -> Call[workbench.DocumentView]:
    """Copy a file to the volume, and load it."""
    path, kind = f"/threads/{named(thread)}/documents", {"Content-Type": "application/octet-stream"}
    return call("POST", path, workbench.DocumentView, body=content, key=key, headers=kind, name=name)


def load_document(thread: str, path: str, *, key: str | None = None) -> Call[workbench.DocumentView]:
    """Load a file of the volume, or what it has become."""
    where, body = f"/threads/{named(thread)}/documents/load", workbench.NewDocument(path=path)
    return call("POST", where, workbench.DocumentView, body=body, key=key)


def switch_document(thread: str, path: str) -> Call[CommittedView]:
    """Make a document the active one."""
    where, body = f"/threads/{named(thread)}/documents/active", workbench.NewDocument(path=path)
    return call("PUT", where, CommittedView, body=body)


def unload_document(thread: str, path: str) -> Call[None]:
    """Take a document off the thread; its file stays on the volume."""
    return call("DELETE", f"/threads/{named(thread)}/documents", None, path=path)


def document_sections(thread: str, path: str | None = None) -> Call[workbench.SectionList]:
    """The pages or headings of a document, or of the active one."""
    where = f"/threads/{named(thread)}/documents/sections"
    return call("GET", where, workbench.SectionList, path=path)


def peek_document(
    thread: str, path: str | None = None, *, start: int = 0, length: int = 4000
) -> Call[workbench.PassageView]:
    """A part of a document, or of the active one."""
    where = f"/threads/{named(thread)}/documents/text"
    return call("GET", where, workbench.PassageView, path=path, start=start, length=length)


def find_in_document(
    thread: str, words: str, path: str | None = None, *, limit: int = 10
) -> Call[workbench.PlaceList]:
    """Where words stand in a document, or in the active one."""
    where = f"/threads/{named(thread)}/documents/find"
    return call("GET", where, workbench.PlaceList, words=words, path=path, limit=limit)


def artifacts(thread: str, *, limit: int = 50, cursor: str | None = None) -> Call[workbench.ArtifactPage]:
    """The artifacts of a thread, the newest first."""
    where = f"/threads/{named(thread)}/artifacts"
    return call("GET", where, workbench.ArtifactPage, limit=limit, cursor=cursor)


def artifact(thread: str, id: str) -> Call[bytes]:
    """The content of an artifact, as it was saved."""
    return call("GET", f"/threads/{named(thread)}/artifacts/{named(id)}", bytes)


def delete_artifact(thread: str, id: str) -> Call[None]:
    """Let go of an artifact."""
    return call("DELETE", f"/threads/{named(thread)}/artifacts/{named(id)}", None)


def volume(
    thread: str, *, folder: str = "", limit: int = 50, cursor: str | None = None
) -> Call[workbench.VolumeFilePage]:
    """The files on the volume of a thread's owner."""
    where = f"/threads/{named(thread)}/volume"
    return call("GET", where, workbench.VolumeFilePage, folder=folder, limit=limit, cursor=cursor)


class WorkbenchMethods:
    """The calls of the workbench, for either client."""

    core_memory = Method(core_memory)
    put_block = Method(put_block)
    documents = Method(documents)
    add_document = Method(add_document)
    load_document = Method(load_document)
    switch_document = Method(switch_document)
    unload_document = Method(unload_document)
    document_sections = Method(document_sections)
    peek_document = Method(peek_document)
    find_in_document = Method(find_in_document)
    artifacts = Method(artifacts)
    artifact = Method(artifact)
    delete_artifact = Method(delete_artifact)
    volume = Method(volume)


class AsyncWorkbench(Awaited, WorkbenchMethods):
    """The calls of the workbench, awaited."""


class Workbench(Blocking, WorkbenchMethods):
    """The calls of the workbench, blocking."""
