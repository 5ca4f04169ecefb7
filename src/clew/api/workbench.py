"""Core memory, documents, artifacts and files of a volume, as the wire has them."""

from typing import Literal

import msgspec


class NewBlock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a block of core memory is to say."""

    text: str


class DocumentReference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names a file on the volume."""

    path: str


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
    """A page, or what stands below a heading; ``start`` counts the characters before it."""

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
    """Where searched words stand; ``marks`` are where they begin and end in the excerpt."""

    start: int
    excerpt: str
    section: str = ""
    marks: list[tuple[int, int]] = []


class DocumentMatchList(msgspec.Struct, frozen=True, kw_only=True):
    """Where words stand in a document."""

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
    """Files in order of their paths; ``refused`` names what stands among them and cannot be used."""

    files: list[VolumeFileView]
    next: str | None = None
    refused: dict[str, str] = {}
