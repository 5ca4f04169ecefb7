"""The workbench: core memory, documents, artifacts, files of a volume, and a session's repository."""

from types import NoneType
from typing import Literal

import msgspec

from clew.api.route import FILE_TYPE, Route
from clew.api.threads import CommitView


class NewBlock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The new text of a block of core memory."""

    text: str


class DocumentReference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names a file on the volume."""

    path: str


class NewRepository(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The repository that a session is to work on; none, without a URL."""

    url: str | None = None
    ref: str | None = None
    context_paths: list[str] = []


class RepositoryView(msgspec.Struct, frozen=True, kw_only=True):
    """The repository that a session works on, its ref, and the files and folders in it to read first."""

    session: str
    version: int
    url: str | None = None
    ref: str | None = None
    context_paths: list[str] = []


class BlockView(msgspec.Struct, frozen=True, kw_only=True):
    """One block of core memory, and how many characters it may have."""

    name: str
    text: str
    limit: int


class CoreMemoryView(msgspec.Struct, frozen=True, kw_only=True):
    """Core memory at one version of its thread."""

    thread: str
    version: int
    blocks: list[BlockView]


class DocumentView(msgspec.Struct, frozen=True, kw_only=True):
    """A loaded document. ``condition`` says how its file is now; unknown is one that nothing is known of."""

    path: str
    name: str
    type: str = ""
    size: int = 0
    sha256: str | None = None
    charset: str | None = None
    characters: int = 0
    sections: int = 0
    notes: list[str] = []
    condition: Literal["ok", "changed", "missing", "unknown"] = "ok"


class DocumentList(msgspec.Struct, frozen=True, kw_only=True):
    """The documents of a thread, and the active one."""

    thread: str
    version: int
    documents: list[DocumentView]
    active: str | None = None


class SectionView(msgspec.Struct, frozen=True, kw_only=True):
    """A page, or the text below a heading; ``start`` counts the characters before it."""

    name: str
    start: int


class SectionList(msgspec.Struct, frozen=True, kw_only=True):
    """The sections of a document."""

    path: str
    characters: int
    sections: list[SectionView]


class PassageView(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a document, the section it begins in, and where the next part begins if there is one."""

    text: str
    start: int
    characters: int
    section: str = ""
    next: int | None = None


class DocumentMatchView(msgspec.Struct, frozen=True, kw_only=True):
    """A place of searched words; ``marks`` are where they begin and end in the excerpt."""

    start: int
    excerpt: str
    section: str = ""
    marks: list[tuple[int, int]] = []


class DocumentMatchList(msgspec.Struct, frozen=True, kw_only=True):
    """The places of words in a document."""

    path: str
    places: list[DocumentMatchView]


class ArtifactView(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a thread made, with its checksum and the run and item that it is from."""

    id: str
    thread: str
    name: str
    path: str
    type: str
    size: int
    sha256: str
    time: int
    run: str | None = None
    item: str | None = None


class ArtifactPage(msgspec.Struct, frozen=True, kw_only=True):
    """Artifacts, the newest first."""

    artifacts: list[ArtifactView]
    next: str | None = None


class VolumeFileView(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a volume."""

    path: str
    size: int
    modified: int


class VolumeFilePage(msgspec.Struct, frozen=True, kw_only=True):
    """Files in order of their paths; ``refused`` names those that cannot be used, with the reason."""

    files: list[VolumeFileView]
    next: str | None = None
    refused: dict[str, str] = {}


GET_CORE_MEMORY = Route("get_core_memory", "GET", "/threads/{id}/core-memory", CoreMemoryView, has_etag=True)
PUT_BLOCK = Route(
    "put_block", "PUT", "/threads/{id}/core-memory/{block}", CommitView, body=NewBlock, has_etag=True
)
GET_REPOSITORY = Route("get_repository", "GET", "/sessions/{id}/repository", RepositoryView, has_etag=True)
PUT_REPOSITORY = Route(
    "put_repository", "PUT", "/sessions/{id}/repository", CommitView, body=NewRepository, has_etag=True
)
LOAD_DOCUMENT = Route(
    "load_document", "POST", "/threads/{id}/documents/load", DocumentView, body=DocumentReference
)
SWITCH_DOCUMENT = Route(
    "switch_document",
    "PUT",
    "/threads/{id}/documents/active",
    CommitView,
    body=DocumentReference,
    has_etag=True,
)
DOCUMENT_SECTIONS = Route("document_sections", "GET", "/threads/{id}/documents/sections", SectionList)
PEEK_DOCUMENT = Route("peek_document", "GET", "/threads/{id}/documents/text", PassageView)
FIND_IN_DOCUMENT = Route("find_in_document", "GET", "/threads/{id}/documents/find", DocumentMatchList)
LIST_ARTIFACTS = Route("list_artifacts", "GET", "/threads/{id}/artifacts", ArtifactPage)
GET_ARTIFACT = Route("get_artifact", "GET", "/threads/{id}/artifacts/{artifact}", bytes, media_type="*/*")
DELETE_ARTIFACT = Route(
    "delete_artifact", "DELETE", "/threads/{id}/artifacts/{artifact}", NoneType, status=204
)
LIST_VOLUME = Route("list_volume", "GET", "/threads/{id}/volume", VolumeFilePage)
LIST_DOCUMENTS = Route("list_documents", "GET", "/threads/{id}/documents", DocumentList, has_etag=True)
ADD_DOCUMENT = Route(
    "add_document",
    "POST",
    "/threads/{id}/documents",
    DocumentView,
    status=201,
    body_type=FILE_TYPE,
    takes_files=True,
)
UNLOAD_DOCUMENT = Route("unload_document", "DELETE", "/threads/{id}/documents", NoneType, status=204)
