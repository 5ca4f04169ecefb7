"""Documents of a thread: files on the volume, each known by its path and by what it held when it was loaded.

A file from elsewhere is copied to the volume first, since only that survives. The thread's state says which
paths are loaded, and a manifest carries it. A file that is not what it was is named, and not read.
"""

import asyncio
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Final, Literal, TypeAlias

import msgspec

from clew.core import patch
from clew.core.arguments import check_methods
from clew.core.encoding import JSON, as_json, encode
from clew.core.erasure.receipts import DOCUMENT_KIND as KIND
from clew.core.errors import (
    ClewError,
    RecordNotFound,
    TooLarge,
    VersionConflict,
    VolumeFileChanged,
    VolumeFileNotFound,
    VolumePathRefused,
)
from clew.core.manifest.document import DOCUMENTS_KEY
from clew.core.ops import Document as State
from clew.core.ops import Op
from clew.core.values import AppendTo, Changeset, Committed, Exact, Put, Record
from clew.database.database import Database
from clew.workbench.documents.extraction import LIMITS, ReadingLimits, extract_text
from clew.workbench.documents.text import DocumentMatch, DocumentText, Passage, find_matches, passage_at
from clew.workbench.volume.paths import name_problem
from clew.workbench.volume.volume import Volume

DETAILS_KEY: Final = "documents"
"""The key of the state under which a thread keeps what is known of each document."""
ACTIVE_KEY: Final = "active_document"
DOCUMENT_LOADED, DOCUMENT_UNLOADED, DOCUMENT_SWITCHED = (
    "DocumentLoaded",
    "DocumentUnloaded",
    "DocumentSwitched",
)
COPIES_FOLDER: Final = "buffers/documents"
TEXTS_FOLDER: Final = "buffers/texts"
"""The folder of extracted texts, by their own checksums: made anew from the document if one is missing."""
FALLBACK_NAME: Final = "document"
LONGEST_NAME: Final = 150

FileCondition: TypeAlias = Literal["ok", "changed", "missing", "unknown"]
"""How a file is now; unknown is one of which nothing says what it was."""


class Document(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A loaded document: its path on the volume, and what it was when it was loaded.

    ``text`` is the checksum of what was read in it.
    """

    path: str
    name: str
    sha256: str | None = None
    size: int = 0
    type: str = ""
    charset: str | None = None
    characters: int = 0
    sections: int = 0
    notes: tuple[str, ...] = ()
    text: str | None = None


class DocumentListing(msgspec.Struct, frozen=True, kw_only=True):
    """The documents of a thread at one version, the active one, and how each file is now."""

    version: int
    documents: tuple[Document, ...] = ()
    active: str | None = None
    conditions: dict[str, FileCondition] = {}


class DocumentMatches(msgspec.Struct, frozen=True, kw_only=True):
    """The matches of a search in a document."""

    path: str
    places: tuple[DocumentMatch, ...]


# What a state says of documents.


def documents_of(state: State) -> dict[str, Document]:
    """The loaded documents by their paths, in the order that the state has them."""
    paths, details = state.get(DOCUMENTS_KEY), state.get(DETAILS_KEY)
    details_by_path = details if isinstance(details, dict) else {}
    return {
        path: _document_from(path, details_by_path.get(path)) for path in paths or () if isinstance(path, str)
    }


def _document_from(path: str, details: JSON) -> Document:
    """A document; of one that a manifest from elsewhere names, nothing else is known."""
    try:
        return msgspec.convert({**details, "path": path}, Document)
    except (msgspec.ValidationError, TypeError):
        return Document(path=path, name=PurePosixPath(path).name)


def active_path(state: State) -> str | None:
    """The document that is looked at if none is named."""
    path, documents = state.get(ACTIVE_KEY), documents_of(state)
    return path if isinstance(path, str) and path in documents else next(iter(documents), None)


def safe_name(name: str) -> str:
    """A name for a copy, as near to the given one as a volume allows."""
    last = name.replace("\\", "/").rpartition("/")[2]
    if len(last) > 2 * LONGEST_NAME:  # its beginning and its ending are all that can be kept of it
        last = last[:LONGEST_NAME] + last[-LONGEST_NAME:]
    letters = "".join("-" if name_problem(f"x{character}x") else character for character in last).strip(" .-")
    stem, suffix = PurePosixPath(letters).stem, PurePosixPath(letters).suffix
    while stem and len(f"{stem}{suffix}".encode()) > LONGEST_NAME:
        stem = stem[:-1]
    result = f"{stem}{suffix}".strip(" .")
    return result if result and name_problem(result) is None else FALLBACK_NAME


# The documents of a thread.


@check_methods
class Documents:
    """The documents of one thread, on the volume of its owner."""

    def __init__(
        self,
        db: Database,
        thread: str,
        volume: Volume,
        *,
        limits: ReadingLimits = LIMITS,
        author: str | None = None,
    ) -> None:
        self.limits = limits
        self._db = db
        self._thread = db.thread(thread)
        self._volume = volume
        self._author = author

    async def add(self, name: str, content: bytes) -> Document:
        """Copy a file to the volume, load it, and make it the active one.

        Raises:
            DocumentUnreadable: It has no text that could be read; nothing was kept.
        """
        text = await extract_text(content, name, self.limits)
        file_name, checksum = safe_name(name), sha256(content).hexdigest()
        digest = sha256(encode([self._thread.id, checksum, file_name])).hexdigest()[:16]
        path = f"{COPIES_FOLDER}/{digest}/{file_name}"
        await asyncio.to_thread(self._write_once, path, content, checksum)
        return await self._load(path, content, text, is_copy=True)

    async def load(self, path: str) -> Document:
        """Load a file of the volume, or what it has become since; it is the active one then.

        Raises:
            VolumeFileNotFound: There is none.
            VolumePathRefused: The path cannot be used.
            DocumentUnreadable: It has no text that could be read.
        """
        content = await asyncio.to_thread(self._volume.read, path)
        text = await extract_text(content, PurePosixPath(path).name, self.limits)
        return await self._load(path, content, text)

    async def list(self) -> DocumentListing:
        """The documents of the thread: which one is active, and whether each file is unchanged."""
        head = await self._thread.head()
        documents = documents_of(head.state)
        conditions = {
            path: await asyncio.to_thread(self._condition, document) for path, document in documents.items()
        }
        return DocumentListing(
            version=head.version,
            documents=tuple(documents.values()),
            active=active_path(head.state),
            conditions=conditions,
        )

    async def switch(self, path: str) -> Committed:
        """Make another document the active one.

        Raises:
            RecordNotFound: It is not loaded.
        """
        return await self._change(
            DOCUMENT_SWITCHED, lambda state: [patch.set([ACTIVE_KEY], _find_document(state, path).path)]
        )

    async def unload(self, path: str) -> Committed:
        """Take a document off the thread. Its file stays on the volume, where earlier versions find it.

        Raises:
            RecordNotFound: It is not loaded.
        """
        return await self._change(
            DOCUMENT_UNLOADED, lambda state: _unload_ops(state, _find_document(state, path).path)
        )

    async def text(self, path: str | None = None) -> tuple[Document, DocumentText]:
        """All that is to be read in a document, or in the active one.

        Raises:
            RecordNotFound: It is not loaded, or none is.
            VolumeFileNotFound: Its file is gone.
            VolumeFileChanged: Its file is not what it was.
        """
        state = await self._thread.state()
        document = _find_document(state, path if path is not None else active_path(state) or "")
        content = await asyncio.to_thread(self._volume.read, document.path)
        actual = sha256(content).hexdigest()
        if document.sha256 not in (None, actual):
            raise VolumeFileChanged(path=document.path, expected=document.sha256, actual=actual)
        return document, await self._read_text(document, content)

    async def peek(self, path: str | None = None, start: int = 0, length: int = 4000) -> Passage:
        """A part of a document, or of the active one.

        Raises:
            RecordNotFound: It is not loaded, or none is.
            VolumeFileNotFound: Its file is gone.
            VolumeFileChanged: Its file is not what it was.
            InvalidArgument: There is no such part.
        """
        return passage_at((await self.text(path))[1], start, length)

    async def find(self, words: str, path: str | None = None, limit: int = 10) -> DocumentMatches:
        """Search for words in a document, or in the active one.

        Raises:
            RecordNotFound: It is not loaded, or none is.
            VolumeFileNotFound: Its file is gone.
            VolumeFileChanged: Its file is not what it was.
            InvalidArgument: There are no words.
        """
        document, text = await self.text(path)
        matches = await asyncio.to_thread(find_matches, text, words, limit)
        return DocumentMatches(path=document.path, places=tuple(matches))

    # Files.

    def _write_once(self, path: str, content: bytes, checksum: str) -> None:
        """Write a copy, unless it is there."""
        try:
            if self._volume.checksum(path) == checksum:
                return
        except VolumeFileNotFound:
            pass
        self._volume.write(path, content)

    def _condition(self, document: Document) -> FileCondition:
        try:
            actual = self._volume.checksum(document.path)
        except (VolumeFileNotFound, VolumePathRefused):
            return "missing"
        if document.sha256 is None:
            return "unknown"
        return "ok" if actual == document.sha256 else "changed"

    async def _read_text(self, document: Document, content: bytes) -> DocumentText:
        """The text that was kept, if it is still the same; else it is read anew."""
        earlier = await asyncio.to_thread(self._read_cache, document.text)
        if earlier is not None:
            return earlier
        text = await extract_text(content, document.name, self.limits)
        if document.text is not None:
            await asyncio.to_thread(self._write_cache, text, document.text)
        return text

    def _read_cache(self, checksum: str | None) -> DocumentText | None:
        if checksum is None:
            return None
        try:
            data = self._volume.read(_text_path(checksum))
        except (VolumeFileNotFound, VolumePathRefused, TooLarge):
            return None
        return msgspec.json.decode(data, type=DocumentText) if sha256(data).hexdigest() == checksum else None

    def _write_cache(self, text: DocumentText, expected_checksum: str | None = None) -> str | None:
        """The checksum of a text, which is kept so that it need not be read again; None if it is not.

        With ``expected_checksum`` another text than that is not kept: no record would say whose it is.
        """
        data = msgspec.json.encode(text)
        checksum = sha256(data).hexdigest()
        if expected_checksum not in (None, checksum):
            return None
        try:
            self._write_once(_text_path(checksum), data, checksum)
        except ClewError:  # it only saves time
            return None
        return checksum

    # The thread.

    async def _load(
        self, path: str, content: bytes, text: DocumentText, *, is_copy: bool = False
    ) -> Document:
        owner = (await self._thread.head()).owner
        document = Document(
            path=path,
            name=PurePosixPath(path).name,
            sha256=sha256(content).hexdigest(),
            size=len(content),
            type=text.type,
            charset=text.charset,
            characters=len(text.text),
            sections=len(text.sections),
            notes=text.notes,
            text=await asyncio.to_thread(self._write_cache, text),
        )
        details = {name: value for name, value in as_json(document).items() if name != "path"}
        patches: list[Op] = [
            patch.union([DOCUMENTS_KEY], [path]),
            patch.set([DETAILS_KEY, path], details),
            patch.set([ACTIVE_KEY], path),
        ]
        change = Changeset(patches=tuple(patches), reason=DOCUMENT_LOADED, author=self._author)
        own_paths = [*([path] if is_copy else ()), *([_text_path(document.text)] if document.text else ())]
        records = [Put(record=_file_record(self._thread.id, owner, each)) for each in own_paths]
        await self._db.commit([AppendTo(thread=self._thread.id, change=change), *records])
        return document

    async def _change(self, reason: str, decide: Callable[[State], Sequence[Op]]) -> Committed:
        """Change the thread by what its newest state says."""
        while True:
            head = await self._thread.head()
            patches = decide(head.state)
            change = Changeset(patches=tuple(patches), reason=reason, author=self._author)
            expect = Exact(head.version, head.hash)
            try:
                [result] = await self._db.commit(
                    [AppendTo(thread=self._thread.id, change=change, expect=expect)]
                )
            except VersionConflict:
                continue
            assert isinstance(result, Committed)
            return result


def _text_path(checksum: str) -> str:
    return f"{TEXTS_FOLDER}/{checksum}.json"


def _file_record(thread: str, owner: str | None, path: str) -> Record:
    """The record that makes a file of a document go with its thread when the thread is erased."""
    id = sha256(encode([thread, path])).hexdigest()[:20]
    return Record(kind=KIND, id=id, owner=owner, tags=(thread,), body={"path": path})


def _find_document(state: State, path: str) -> Document:
    document = documents_of(state).get(path)
    if document is None:
        raise RecordNotFound(kind=KIND, id=path)
    return document


def _unload_ops(state: State, path: str) -> list[Op]:
    times = list(state[DOCUMENTS_KEY]).count(path)
    ops: list[Op] = [patch.remove([DOCUMENTS_KEY], path)] * times
    if state.get(ACTIVE_KEY) == path:
        ops.append(patch.delete([ACTIVE_KEY]))
    return [*ops, patch.delete([DETAILS_KEY, path])]
