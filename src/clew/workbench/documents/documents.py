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
from clew.core.encoding import JSON, encode, plain
from clew.core.erasure.receipts import DOCUMENT as KIND
from clew.core.errors import (
    ClewError,
    RecordNotFound,
    TooLarge,
    VersionConflict,
    VolumeFileChanged,
    VolumeFileNotFound,
    VolumePathRefused,
)
from clew.core.manifest.document import DOCUMENTS
from clew.core.ops import Document as State
from clew.core.ops import Op
from clew.core.values import AppendTo, Changeset, Committed, Exact, Put, Record
from clew.database.database import Database
from clew.workbench.documents.extraction import LIMITS, ReadingLimits, text_of
from clew.workbench.documents.text import Passage, Place, Text, find, peek
from clew.workbench.volume.paths import problem_of
from clew.workbench.volume.volume import Volume

DETAILS: Final = "documents"
"""The key of the state under which a thread keeps what is known of each document."""
ACTIVE: Final = "active_document"
LOADED, UNLOADED, SWITCHED = "DocumentLoaded", "DocumentUnloaded", "DocumentSwitched"
COPIES: Final = "buffers/documents"
TEXTS: Final = "buffers/texts"
"""Where extracted texts stand, by their own checksums: made anew from the document if one is missing."""
UNNAMED: Final = "document"
LONGEST_NAME: Final = 150

Condition: TypeAlias = Literal["ok", "changed", "missing", "unknown"]
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


class Shelf(msgspec.Struct, frozen=True, kw_only=True):
    """The documents of a thread at one version, the active one, and how each file is now."""

    version: int
    documents: tuple[Document, ...] = ()
    active: str | None = None
    conditions: dict[str, Condition] = {}


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Where words stand in a document."""

    path: str
    places: tuple[Place, ...]


# What a state says of documents.


def documents_of(state: State) -> dict[str, Document]:
    """The loaded documents by their paths, in the order that the state has them."""
    paths, details = state.get(DOCUMENTS), state.get(DETAILS)
    known = details if isinstance(details, dict) else {}
    return {path: _document(path, known.get(path)) for path in paths or () if isinstance(path, str)}


def _document(path: str, details: JSON) -> Document:
    """A document; of one that a manifest from elsewhere names, nothing else is known."""
    try:
        return msgspec.convert({**details, "path": path}, Document)
    except (msgspec.ValidationError, TypeError):
        return Document(path=path, name=PurePosixPath(path).name)


def active_of(state: State) -> str | None:
    """The document that is looked at if none is named."""
    found, loaded = state.get(ACTIVE), documents_of(state)
    return found if isinstance(found, str) and found in loaded else next(iter(loaded), None)


def safe_name(name: str) -> str:
    """A name for a copy, as near to the given one as a volume allows."""
    last = name.replace("\\", "/").rpartition("/")[2]
    if len(last) > 2 * LONGEST_NAME:  # its beginning and its ending are all that can be kept of it
        last = last[:LONGEST_NAME] + last[-LONGEST_NAME:]
    cleaned = "".join("-" if problem_of(f"x{sign}x") else sign for sign in last).strip(" .-")
    stem, suffix = PurePosixPath(cleaned).stem, PurePosixPath(cleaned).suffix
    while stem and len(f"{stem}{suffix}".encode()) > LONGEST_NAME:
        stem = stem[:-1]
    found = f"{stem}{suffix}".strip(" .")
    return found if found and problem_of(found) is None else UNNAMED


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
        text = await text_of(content, name, self.limits)
        kept, checksum = safe_name(name), sha256(content).hexdigest()
        mark = sha256(encode([self._thread.id, checksum, kept])).hexdigest()[:16]
        path = f"{COPIES}/{mark}/{kept}"
        await asyncio.to_thread(self._keep, path, content, checksum)
        return await self._load(path, content, text, copied=True)

    async def load(self, path: str) -> Document:
        """Load a file of the volume, or what it has become since; it is the active one then.

        Raises:
            VolumeFileNotFound: There is none.
            VolumePathRefused: The path cannot be used.
            DocumentUnreadable: It has no text that could be read.
        """
        content = await asyncio.to_thread(self._volume.read, path)
        text = await text_of(content, PurePosixPath(path).name, self.limits)
        return await self._load(path, content, text)

    async def list(self) -> Shelf:
        """What is loaded, which of it is active, and whether each file is still what it was."""
        head = await self._thread.head()
        found = documents_of(head.state)
        conditions = {path: await asyncio.to_thread(self._condition, each) for path, each in found.items()}
        return Shelf(
            version=head.version,
            documents=tuple(found.values()),
            active=active_of(head.state),
            conditions=conditions,
        )

    async def switch(self, path: str) -> Committed:
        """Make another document the active one.

        Raises:
            RecordNotFound: It is not loaded.
        """
        return await self._change(SWITCHED, lambda state: [patch.set([ACTIVE], _loaded(state, path).path)])

    async def unload(self, path: str) -> Committed:
        """Take a document off the thread. Its file stays on the volume, where earlier versions find it.

        Raises:
            RecordNotFound: It is not loaded.
        """
        return await self._change(UNLOADED, lambda state: _unloading(state, _loaded(state, path).path))

    async def text(self, path: str | None = None) -> tuple[Document, Text]:
        """All that is to be read in a document, or in the active one.

        Raises:
            RecordNotFound: It is not loaded, or none is.
            VolumeFileNotFound: Its file is gone.
            VolumeFileChanged: Its file is not what it was.
        """
        state = await self._thread.state()
        document = _loaded(state, path if path is not None else active_of(state) or "")
        content = await asyncio.to_thread(self._volume.read, document.path)
        actual = sha256(content).hexdigest()
        if document.sha256 not in (None, actual):
            raise VolumeFileChanged(path=document.path, expected=document.sha256, actual=actual)
        return document, await self._text(document, content)

    async def peek(self, path: str | None = None, start: int = 0, length: int = 4000) -> Passage:
        """A part of a document, or of the active one.

        Raises:
            RecordNotFound: It is not loaded, or none is.
            VolumeFileNotFound: Its file is gone.
            VolumeFileChanged: Its file is not what it was.
            InvalidArgument: There is no such part.
        """
        return peek((await self.text(path))[1], start, length)

    async def find(self, words: str, path: str | None = None, limit: int = 10) -> Found:
        """Where words stand in a document, or in the active one.

        Raises:
            RecordNotFound: It is not loaded, or none is.
            VolumeFileNotFound: Its file is gone.
            VolumeFileChanged: Its file is not what it was.
            InvalidArgument: There are no words.
        """
        document, text = await self.text(path)
        places = await asyncio.to_thread(find, text, words, limit)
        return Found(path=document.path, places=tuple(places))

    # Files.

    def _keep(self, path: str, content: bytes, checksum: str) -> None:
        """Write a copy, unless it is there."""
        try:
            if self._volume.checksum(path) == checksum:
                return
        except VolumeFileNotFound:
            pass
        self._volume.write(path, content)

    def _condition(self, document: Document) -> Condition:
        try:
            actual = self._volume.checksum(document.path)
        except (VolumeFileNotFound, VolumePathRefused):
            return "missing"
        if document.sha256 is None:
            return "unknown"
        return "ok" if actual == document.sha256 else "changed"

    async def _text(self, document: Document, content: bytes) -> Text:
        """The text that was kept, if it is still the same; else it is read anew."""
        kept = await asyncio.to_thread(self._kept_text, document.text)
        if kept is not None:
            return kept
        text = await text_of(content, document.name, self.limits)
        if document.text is not None:
            await asyncio.to_thread(self._keep_text, text, document.text)
        return text

    def _kept_text(self, checksum: str | None) -> Text | None:
        if checksum is None:
            return None
        try:
            data = self._volume.read(_text_path(checksum))
        except (VolumeFileNotFound, VolumePathRefused, TooLarge):
            return None
        return msgspec.json.decode(data, type=Text) if sha256(data).hexdigest() == checksum else None

    def _keep_text(self, text: Text, only: str | None = None) -> str | None:
        """The checksum of a text, which is kept so that it need not be read again; None if it is not.

        With ``only`` another text than that is not kept: no record would say whose it is.
        """
        data = msgspec.json.encode(text)
        checksum = sha256(data).hexdigest()
        if only not in (None, checksum):
            return None
        try:
            self._keep(_text_path(checksum), data, checksum)
        except ClewError:  # it only saves time
            return None
        return checksum

    # The thread.

    async def _load(self, path: str, content: bytes, text: Text, *, copied: bool = False) -> Document:
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
            text=await asyncio.to_thread(self._keep_text, text),
        )
        details = {name: value for name, value in plain(document).items() if name != "path"}
        patches: list[Op] = [
            patch.union([DOCUMENTS], [path]),
            patch.set([DETAILS, path], details),
            patch.set([ACTIVE], path),
        ]
        change = Changeset(patches=tuple(patches), reason=LOADED, author=self._author)
        own = [*([path] if copied else ()), *([_text_path(document.text)] if document.text else ())]
        records = [Put(record=_record(self._thread.id, owner, each)) for each in own]
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
                [done] = await self._db.commit(
                    [AppendTo(thread=self._thread.id, change=change, expect=expect)]
                )
            except VersionConflict:
                continue
            assert isinstance(done, Committed)
            return done


def _text_path(checksum: str) -> str:
    return f"{TEXTS}/{checksum}.json"


def _record(thread: str, owner: str | None, path: str) -> Record:
    """What lets a file of a document go with its thread when that is erased."""
    id = sha256(encode([thread, path])).hexdigest()[:20]
    return Record(kind=KIND, id=id, owner=owner, tags=(thread,), body={"path": path})


def _loaded(state: State, path: str) -> Document:
    found = documents_of(state).get(path)
    if found is None:
        raise RecordNotFound(kind=KIND, id=path)
    return found


def _unloading(state: State, path: str) -> list[Op]:
    times = list(state[DOCUMENTS]).count(path)
    ops: list[Op] = [patch.remove([DOCUMENTS], path)] * times
    if state.get(ACTIVE) == path:
        ops.append(patch.delete([ACTIVE]))
    return [*ops, patch.delete([DETAILS, path])]
