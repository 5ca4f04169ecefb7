"""Calls of the workbench: core memory, documents, artifacts, and the files of a volume."""

from collections.abc import Sequence

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
from clew.client.call import ApiCall, CallMethod, api_call


class WorkbenchMethods:
    """Calls of the workbench: core memory, documents, artifacts, and the files of a volume."""

    @CallMethod
    def core_memory(self, thread: str) -> ApiCall[CoreMemoryView]:
        """Return the blocks of core memory."""
        return api_call(GET_CORE_MEMORY, thread)

    @CallMethod
    def put_block(
        self, thread: str, block: str, text: str, *, expect: int | None = None
    ) -> ApiCall[CommitView]:
        """Write a block anew, if it is as it was at a version."""
        return api_call(PUT_BLOCK, thread, block, body=NewBlock(text=text), expect=expect)

    @CallMethod
    def repository(self, session: str) -> ApiCall[RepositoryView]:
        """Return the repository that a session works on."""
        return api_call(GET_REPOSITORY, session)

    @CallMethod
    def put_repository(
        self,
        session: str,
        url: str | None,
        *,
        ref: str | None = None,
        context_paths: Sequence[str] = (),
        expect: int | None = None,
    ) -> ApiCall[CommitView]:
        """Let a session work on a repository from the next time it is opened; on none, without a URL."""
        body = NewRepository(url=url, ref=ref, context_paths=list(context_paths))
        return api_call(PUT_REPOSITORY, session, body=body, expect=expect)

    @CallMethod
    def documents(self, thread: str) -> ApiCall[DocumentList]:
        """Return the loaded documents."""
        return api_call(LIST_DOCUMENTS, thread)

    @CallMethod
    def add_document(
        self, thread: str, name: str, content: bytes, *, key: str | None = None
    ) -> ApiCall[DocumentView]:
        """Copy a file to the volume, and load it."""
        return api_call(
            ADD_DOCUMENT,
            thread,
            body=content,
            key=key,
            name=name,
        )

    @CallMethod
    def load_document(self, thread: str, path: str, *, key: str | None = None) -> ApiCall[DocumentView]:
        """Load a file of the volume, or what it has become."""
        return api_call(LOAD_DOCUMENT, thread, body=DocumentReference(path=path), key=key)

    @CallMethod
    def switch_document(self, thread: str, path: str) -> ApiCall[CommitView]:
        """Make a document the active one."""
        return api_call(SWITCH_DOCUMENT, thread, body=DocumentReference(path=path))

    @CallMethod
    def unload_document(self, thread: str, path: str) -> ApiCall[None]:
        """Take a document off the thread; its file stays on the volume."""
        return api_call(UNLOAD_DOCUMENT, thread, path=path)

    @CallMethod
    def document_sections(self, thread: str, path: str | None = None) -> ApiCall[SectionList]:
        """Return the pages or headings of a document, or of the active one."""
        return api_call(DOCUMENT_SECTIONS, thread, path=path)

    @CallMethod
    def peek_document(
        self, thread: str, path: str | None = None, *, start: int = 0, length: int = 4000
    ) -> ApiCall[PassageView]:
        """Return a part of a document, or of the active one."""
        return api_call(PEEK_DOCUMENT, thread, path=path, start=start, length=length)

    @CallMethod
    def find_in_document(
        self, thread: str, words: str, path: str | None = None, *, limit: int = 10
    ) -> ApiCall[DocumentMatchList]:
        """Find words in a document, or in the active one."""
        return api_call(FIND_IN_DOCUMENT, thread, words=words, path=path, limit=limit)

    @CallMethod
    def artifacts(self, thread: str, *, limit: int = 50, cursor: str | None = None) -> ApiCall[ArtifactPage]:
        """Return the artifacts of a thread, the newest first."""
        return api_call(LIST_ARTIFACTS, thread, limit=limit, cursor=cursor)

    @CallMethod
    def artifact(self, thread: str, id: str) -> ApiCall[bytes]:
        """Return the content of an artifact, as it was saved."""
        return api_call(GET_ARTIFACT, thread, id)

    @CallMethod
    def delete_artifact(self, thread: str, id: str) -> ApiCall[None]:
        """Delete an artifact."""
        return api_call(DELETE_ARTIFACT, thread, id)

    @CallMethod
    def volume(
        self, thread: str, *, folder: str = "", limit: int = 50, cursor: str | None = None
    ) -> ApiCall[VolumeFilePage]:
        """Return the files on the volume of a thread's owner."""
        return api_call(LIST_VOLUME, thread, folder=folder, limit=limit, cursor=cursor)
