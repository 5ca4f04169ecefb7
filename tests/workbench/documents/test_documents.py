"""Documents of a thread: loaded, listed, switched, read; found again after a restart, never read changed."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.errors import (
    DocumentEmpty,
    RecordNotFound,
    VolumeFileChanged,
    VolumeFileNotFound,
    VolumePathRefused,
)
from clew.core.manifest.document import (
    DOCUMENTS_KEY,
    encode_manifest,
    logs_of,
    manifest_of,
    read_manifest,
    replacement_changeset,
)
from clew.core.values import Scope, Write, WriteResult
from clew.testing.scripted_model import ScriptedModel, calls
from clew.workbench.documents import extraction
from clew.workbench.documents.documents import COPIES_FOLDER, TEXTS_FOLDER, Documents, documents_of, safe_name
from clew.workbench.documents.tools import document_tools
from clew.workbench.volume.operators import Volumes
from clew.workbench.volume.volume import Volume
from tests.workbench.documents.sample_files import MARKDOWN, pdf

NOTES = b"Tea at four.\n\nThe harbour is closed."


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    """The volume of one user."""
    return Volume(tmp_path / "volume", "acme", "alice")


@pytest.fixture
async def documents(db: clew.Database, volume: Volume) -> Documents:
    """The documents of a new thread."""
    await db.create("t", owner="alice")
    return Documents(db, "t", volume, author="alice")


# Loading.


async def test_a_file_from_elsewhere_is_copied_to_the_volume(documents: Documents, volume: Volume) -> None:
    document = await documents.add("C:\\papers\\sea.md", MARKDOWN.encode())

    assert document.path.startswith(f"{COPIES_FOLDER}/")
    assert (document.name, document.type, document.size) == ("sea.md", "text/markdown", len(MARKDOWN))
    assert document.sha256 == sha256(MARKDOWN.encode()).hexdigest()
    assert volume.read(document.path) == MARKDOWN.encode()


async def test_a_file_of_the_volume_stays_where_it_is(documents: Documents, volume: Volume) -> None:
    volume.write("memory/notes.txt", NOTES)
    document = await documents.load("memory/notes.txt")

    assert document.path == "memory/notes.txt"
    assert [file.path for file in volume.list(COPIES_FOLDER).files] == []


async def test_the_last_one_loaded_is_active(documents: Documents) -> None:
    first = await documents.add("sea.md", MARKDOWN.encode())
    second = await documents.add("notes.txt", NOTES)
    shelf = await documents.list()

    assert {document.path for document in shelf.documents} == {first.path, second.path}
    assert shelf.active == second.path


async def test_the_same_file_is_there_once(documents: Documents, volume: Volume) -> None:
    first = await documents.add("notes.txt", NOTES)
    again = await documents.add("notes.txt", NOTES)

    assert first == again
    assert len((await documents.list()).documents) == 1
    assert len(volume.list(COPIES_FOLDER).files) == 1


async def test_one_content_under_two_names_is_two_documents(documents: Documents) -> None:
    await documents.add("Notes.txt", NOTES)
    await documents.add("notes.txt", NOTES)

    assert {document.name for document in (await documents.list()).documents} == {"Notes.txt", "notes.txt"}


async def test_what_cannot_be_read_leaves_nothing(documents: Documents, volume: Volume) -> None:
    with pytest.raises(DocumentEmpty):
        await documents.add("notes.txt", b" ")

    assert (await documents.list()).version == 0
    assert volume.list().files == ()


@pytest.mark.parametrize("path", ["../../eve/memory/x.md", "/etc/passwd", "meta/x", "", "elsewhere/x.md"])
async def test_no_path_leads_out_of_the_volume(documents: Documents, path: str) -> None:
    with pytest.raises(VolumePathRefused):
        await documents.load(path)


async def test_another_user_has_no_such_document(
    documents: Documents, db: clew.Database, tmp_path: Path
) -> None:
    document = await documents.add("notes.txt", NOTES)
    await db.create("u", owner="bob")
    theirs = Documents(db, "u", Volume(tmp_path / "volume", "acme", "bob"))
    with pytest.raises(VolumeFileNotFound):
        await theirs.load(document.path)


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("sea.md", "sea.md"),
        ("a/b\\c.md", "c.md"),
        ('what: a "sea"?.md', "what- a -sea--.md"),
        ("..", "document"),
        ("", "document"),
        ("con.txt", "document"),
        (" .sea. ", "sea"),
        ("Æ\u202e\n.pdf", "Æ--.pdf"),
        ("x" * 300 + ".pdf", "x" * 146 + ".pdf"),
        ("日" * 300 + ".pdf", "日" * 48 + ".pdf"),
        ("x." + "y" * 300, "document"),
    ],
)
def test_a_copy_has_a_name_that_every_system_takes(name: str, safe: str) -> None:
    assert safe_name(name) == safe


def test_a_name_of_any_length_is_shortened_at_once() -> None:
    began = time.process_time()
    name = safe_name("x" * 2_000_000 + ".pdf")

    assert (name, time.process_time() - began < 1.0) == ("x" * 146 + ".pdf", True)


# Switching and unloading.


async def test_another_document_is_made_the_active_one(documents: Documents) -> None:
    first = await documents.add("sea.md", MARKDOWN.encode())
    await documents.add("notes.txt", NOTES)
    await documents.switch(first.path)

    assert (await documents.peek(length=9)).text == "# The sea"


async def test_an_unloaded_document_is_gone_and_its_file_is_not(
    documents: Documents, db: clew.Database, volume: Volume
) -> None:
    first = await documents.add("sea.md", MARKDOWN.encode())
    second = await documents.add("notes.txt", NOTES)
    await documents.unload(second.path)
    shelf = await documents.list()

    assert ([document.path for document in shelf.documents], shelf.active) == ([first.path], first.path)
    assert "active_document" not in await db.thread("t").state()
    assert volume.read(second.path) == NOTES


@pytest.mark.parametrize("what", ["switch", "unload", "peek"])
async def test_what_is_not_loaded_is_not_there(documents: Documents, volume: Volume, what: str) -> None:
    volume.write("memory/notes.txt", NOTES)
    with pytest.raises(RecordNotFound) as error:
        await getattr(documents, what)("memory/notes.txt")

    assert (error.value.kind, error.value.id) == ("document", "memory/notes.txt")


async def test_without_a_document_there_is_nothing_to_look_at(documents: Documents) -> None:
    with pytest.raises(RecordNotFound):
        await documents.peek()


class Late(clew.Database):
    """A database in which somebody else does some work right before the first change."""

    def __init__(self, db: clew.Database, work: Callable[[], Awaitable[object]]) -> None:
        super().__init__(db.store, Scope(tenant=db.tenant))
        self._work = [work]

    async def commit(self, writes: Sequence[Write]) -> list[WriteResult]:
        """Commit, once the work is done."""
        if self._work:
            await self._work.pop()()
        return await super().commit(writes)


async def test_two_load_at_the_same_moment_and_both_documents_are_there(
    documents: Documents, db: clew.Database, volume: Volume
) -> None:
    mine = Documents(Late(db, lambda: documents.add("notes.txt", NOTES)), "t", volume)
    await mine.add("sea.md", MARKDOWN.encode())

    assert {document.name for document in (await mine.list()).documents} == {"notes.txt", "sea.md"}


async def test_an_unload_keeps_what_somebody_else_loaded_meanwhile(
    documents: Documents, db: clew.Database, volume: Volume
) -> None:
    first = await documents.add("sea.md", MARKDOWN.encode())
    mine = Documents(Late(db, lambda: documents.add("notes.txt", NOTES)), "t", volume)
    await mine.unload(first.path)

    assert [document.name for document in (await mine.list()).documents] == ["notes.txt"]


# Reading.


async def test_a_document_is_read_in_parts_and_searched(documents: Documents) -> None:
    await documents.add("sea.pdf", pdf("Twice a day", "the water comes"))
    part = await documents.peek(start=13, length=9)
    matches = await documents.find("waters")

    assert (part.text, part.section) == ("the water", "page 2")
    assert [(place.excerpt, place.section) for place in matches.places] == [("the water comes", "page 2")]


async def test_a_file_that_changed_is_named_and_not_read(documents: Documents, volume: Volume) -> None:
    volume.write("memory/notes.txt", NOTES)
    await documents.load("memory/notes.txt")
    volume.write("memory/notes.txt", b"Tea at five.")
    with pytest.raises(VolumeFileChanged) as error:
        await documents.peek()

    assert error.value.expected == sha256(NOTES).hexdigest()
    assert (await documents.list()).conditions == {"memory/notes.txt": "changed"}


async def test_a_changed_file_is_read_once_it_is_loaded_again(documents: Documents, volume: Volume) -> None:
    volume.write("memory/notes.txt", NOTES)
    await documents.load("memory/notes.txt")
    volume.write("memory/notes.txt", b"Tea at five.")
    await documents.load("memory/notes.txt")

    assert (await documents.peek()).text == "Tea at five."
    assert (await documents.list()).conditions == {"memory/notes.txt": "ok"}


async def test_a_file_that_is_gone_is_said(documents: Documents, volume: Volume) -> None:
    document = await documents.add("notes.txt", NOTES)
    volume.delete(document.path)
    with pytest.raises(VolumeFileNotFound):
        await documents.peek()

    assert (await documents.list()).conditions == {document.path: "missing"}


async def test_a_text_is_extracted_only_once(documents: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    await documents.add("sea.pdf", pdf("Twice a day"))

    async def never(*_: object) -> Any:
        raise AssertionError

    monkeypatch.setattr(extraction, "_run_worker", never)
    assert (await documents.peek()).text == "Twice a day\n\n"


async def test_a_kept_text_that_was_tampered_with_is_read_anew(documents: Documents, volume: Volume) -> None:
    await documents.add("notes.txt", NOTES)
    path = volume.list(TEXTS_FOLDER).files[0].path
    volume.write(path, volume.read(path).replace(b"four", b"five"))

    assert (await documents.peek(length=12)).text == "Tea at four."
    assert b"four" in volume.read(path)


# What survives.


@pytest.mark.promise("F-05")
async def test_a_new_process_finds_the_documents_on_the_volume(
    documents: Documents, db: clew.Database, tmp_path: Path
) -> None:
    await documents.add("sea.pdf", pdf("Twice a day"))
    again = Documents(db, "t", Volume(tmp_path / "volume", "acme", "alice"))

    assert (await again.peek()).text == "Twice a day\n\n"


@pytest.mark.promise("F-02")
async def test_a_session_from_a_manifest_finds_its_documents(
    documents: Documents, db: clew.Database, volume: Volume
) -> None:
    await documents.add("sea.md", MARKDOWN.encode())
    first = await documents.add("notes.txt", NOTES)
    manifest = await manifest_bytes(db, "t")
    await db.create("new", owner="alice")
    documents_again = Documents(db, "new", volume)
    await db.thread("new").append(replacement_changeset(None, read_manifest(manifest), {}))

    assert (await documents_again.list()).active == first.path
    assert (await documents_again.peek(length=12)).text == "Tea at four."
    assert json.loads(await manifest_bytes(db, "new"))["state"] == json.loads(manifest)["state"]


@pytest.mark.promise("F-03")
async def test_an_import_without_documents_leaves_none(documents: Documents, db: clew.Database) -> None:
    await documents.add("notes.txt", NOTES)
    bare = json.loads(await manifest_bytes(db, "t"))
    bare["state"]["document_paths"] = []
    head = await db.thread("t").head()
    await db.thread("t").append(replacement_changeset(head, read_manifest(json.dumps(bare).encode()), {}))
    shelf = await documents.list()

    assert (shelf.documents, shelf.active) == ((), None)


async def test_a_manifest_from_elsewhere_names_documents_by_path_alone(
    documents: Documents, db: clew.Database, volume: Volume
) -> None:
    volume.write("memory/notes.txt", NOTES)
    await db.thread("t").append(patches=[clew.set([DOCUMENTS_KEY], ["memory/notes.txt"])])

    assert (await documents.list()).conditions == {"memory/notes.txt": "unknown"}
    assert (await documents.peek(length=3)).text == "Tea"


@pytest.mark.parametrize("details", [None, [], {"memory/notes.txt": 7}, {"memory/notes.txt": {"size": "x"}}])
def test_details_that_make_no_sense_are_none(details: Any) -> None:
    documents = documents_of({DOCUMENTS_KEY: ["memory/notes.txt"], "documents": details})

    assert documents["memory/notes.txt"].sha256 is None


async def manifest_bytes(db: clew.Database, id: str) -> bytes:
    """The manifest of a thread as a file has it."""
    thread = db.thread(id)
    head = await thread.head()
    windows = {log: await thread.items(log=log) for log in logs_of(head)}
    return encode_manifest(manifest_of(head, windows, {}))


# Erasing.


def files_with(root: Path, text: bytes) -> list[str]:
    """The files below a folder that hold a text."""
    return [path.name for path in root.rglob("*") if path.is_file() and text in path.read_bytes()]


async def diary(db: clew.Database, root: Path, id: str, owner: str) -> Documents:
    """The documents of a new thread: one of its own, and one that others have too."""
    await db.create(id, owner=owner)
    documents = Documents(db, id, Volume(root, db.tenant, owner))
    await documents.add("diary.txt", f"A secret of {id}.".encode())
    await documents.add("same.txt", b"What both have.")
    return documents


@pytest.mark.promise("B-07")
@pytest.mark.parametrize("what", ["thread", "owner"])
async def test_what_was_given_to_a_thread_is_erased_with_it(
    db: clew.Database, tmp_path: Path, what: str
) -> None:
    root = tmp_path / "volume"
    database = clew.Database(db.store, Scope(tenant=db.tenant), files=Volumes(root))
    mine = await diary(database, root, "t", "alice")
    survivor = await diary(database, root, "other", "alice" if what == "thread" else "bob")
    await mine.unload((await mine.list()).documents[0].path)
    before = files_with(root, b"A secret of t.")
    await (database.erase(thread="t") if what == "thread" else database.erase(owner="alice"))

    assert len(before) == 2
    assert files_with(root, b"A secret of t.") == []
    assert set((await survivor.list()).conditions.values()) == {"ok"}
    assert (await survivor.peek()).text == "What both have."


# Tools.


async def test_a_model_lists_reads_and_searches_documents(
    documents: Documents, db: clew.Database, volume: Volume
) -> None:
    document = await documents.add("sea.md", MARKDOWN.encode())
    model = ScriptedModel(
        calls(
            ("c1", "document_list", {}),
            ("c2", "document_peek", {"start": 2, "length": 7}),
            ("c3", "document_find", {"words": "high waves"}),
            ("c4", "document_peek", {"path": "memory/none.txt"}),
        ),
        "Read.",
    )
    tools = document_tools(lambda context: Documents(db, context.thread, volume))
    async with clew.Runtime(db, model=model, tools=tools) as runtime:
        await runtime.run_turn("t", "What is in it?", user="alice")
    items = await db.thread("t").items()
    outputs = {item.call: item.body["output"] for item in items if item.kind == "result"}

    assert outputs["c1"]["documents"][0]["path"] == document.path
    assert (outputs["c2"]["text"], outputs["c2"]["next"]) == ("The sea", 9)
    assert outputs["c3"]["places"][0]["excerpt"] == "They are high, and waving."
    assert outputs["c4"]["error"].startswith("RecordNotFound: There is no document 'memory/none.txt' here.")
