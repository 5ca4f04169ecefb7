"""The workbench over HTTP: core memory, documents, artifacts and the volume, on every store."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

import clew
from clew.client.clients import AsyncWorkbenchClient
from clew.core.errors import (
    ArtifactDamaged,
    BlockFull,
    BlockNotFound,
    DocumentTooLarge,
    DocumentUnsupported,
    DocumentWithoutText,
    InvalidArgument,
    InvalidId,
    RateLimited,
    RecordNotFound,
    ThreadNotFound,
    VersionConflict,
    VolumeFileChanged,
    VolumePathRefused,
)
from clew.server.routes.workbench import content_disposition
from clew.server.settings import ServerSettings
from clew.workbench.artifacts import Artifact, Artifacts
from clew.workbench.volume.volume import Volume
from tests.server.conftest import Users, clients_of, in_memory
from tests.workbench.documents.sample_files import MARKDOWN, PNG, pdf, scanned_pdf

SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the server's volume is."""
    return tmp_path / "volume"


@pytest.fixture
async def users(db: clew.Database, root: Path) -> AsyncIterator[Users]:
    """The users of a server with a volume, one of whom has a thread."""
    async with clients_of(db, settings=ServerSettings(volume=str(root))) as clients:
        await clients("alice").create_thread("t")
        yield clients


@pytest.fixture
def bench(users: Users) -> AsyncWorkbenchClient:
    """The workbench of alice's thread."""
    return users("alice").workbench


ON_ONE_STORE = pytest.mark.parametrize("db", ["memory"], indirect=True)
"""For what does not depend on the store."""


def volume_of(users: Users, root: Path, user: str = "alice") -> Volume:
    """The volume of a user, as the server has it."""
    return Volume(root, users.tenant, user)


# Core memory.


async def test_core_memory_is_read_and_a_block_written(bench: AsyncWorkbenchClient) -> None:
    before = await bench.core_memory("t")
    change = await bench.put_block("t", "human", "Ada", expect=before.version)
    after = await bench.core_memory("t")

    assert [(block.name, block.limit) for block in before.blocks] == [
        ("human", 2000),
        ("persona", 2000),
        ("scratchpad", 1000),
    ]
    assert after.version == change.version == before.version + 1
    assert after.blocks[0].text == "Ada"


async def test_a_block_that_was_changed_since_is_not_overwritten(bench: AsyncWorkbenchClient) -> None:
    version = (await bench.core_memory("t")).version
    await bench.put_block("t", "human", "Ada")
    await bench.put_block("t", "persona", "Kind.", expect=version)
    with pytest.raises(VersionConflict):
        await bench.put_block("t", "human", "Eve", expect=version)

    assert [block.text for block in (await bench.core_memory("t")).blocks] == ["Ada", "Kind.", ""]


@ON_ONE_STORE
async def test_a_block_has_its_limit_and_its_name(bench: AsyncWorkbenchClient) -> None:
    with pytest.raises(BlockFull):
        await bench.put_block("t", "human", "x" * 2001)
    with pytest.raises(BlockNotFound):
        await bench.put_block("t", "no/such", "x")

    assert (await bench.core_memory("t")).version == 0


# Documents.


async def test_a_document_is_sent_listed_read_searched_and_unloaded(bench: AsyncWorkbenchClient) -> None:
    document = await bench.add_document("t", "sea.pdf", pdf("Twice a day", "the water comes"))
    page = await bench.documents("t")
    sections = await bench.document_sections("t", document.path)
    part = await bench.peek_document("t", document.path, start=13, length=9)
    matches = await bench.find_in_document("t", "waters")
    await bench.unload_document("t", document.path)

    assert (document.name, document.type, document.sections) == ("sea.pdf", "application/pdf", 2)
    assert (page.active, page.documents) == (document.path, [document])
    assert [(section.name, section.start) for section in sections.sections] == [("page 1", 0), ("page 2", 13)]
    assert (part.text, part.section, part.next) == ("the water", "page 2", 22)
    assert [(place.excerpt, place.section) for place in matches.places] == [("the water comes", "page 2")]
    assert (await bench.documents("t")).documents == []


@ON_ONE_STORE
async def test_a_file_of_the_volume_is_loaded_and_said_to_have_changed(
    bench: AsyncWorkbenchClient, users: Users, root: Path
) -> None:
    volume_of(users, root).write("memory/notes.txt", b"Tea at four.")
    document = await bench.load_document("t", "memory/notes.txt")
    volume_of(users, root).write("memory/notes.txt", b"Tea at five.")
    with pytest.raises(VolumeFileChanged):
        await bench.peek_document("t", document.path)

    assert [each.condition for each in (await bench.documents("t")).documents] == ["changed"]


@ON_ONE_STORE
async def test_another_document_is_made_active(bench: AsyncWorkbenchClient) -> None:
    first = await bench.add_document("t", "sea.md", MARKDOWN.encode())
    await bench.add_document("t", "notes.txt", b"Tea at four.")
    await bench.switch_document("t", first.path)

    assert (await bench.peek_document("t", length=9)).text == "# The sea"


async def test_the_same_upload_with_its_key_is_done_once(bench: AsyncWorkbenchClient) -> None:
    first = await bench.add_document("t", "notes.txt", b"Tea at four.", key="k")
    version = (await bench.documents("t")).version
    again = await bench.add_document("t", "notes.txt", b"Tea at four.", key="k")

    assert (again, (await bench.documents("t")).version) == (first, version)


@ON_ONE_STORE
async def test_a_file_that_cannot_be_read_is_a_problem_with_its_code(bench: AsyncWorkbenchClient) -> None:
    with pytest.raises(DocumentWithoutText):
        await bench.add_document("t", "scan.pdf", scanned_pdf())
    with pytest.raises(DocumentUnsupported):
        await bench.add_document("t", "map.png", PNG)

    assert (await bench.documents("t")).documents == []


@ON_ONE_STORE
async def test_a_file_that_is_too_large_is_413(users: Users) -> None:
    answer = await users.http.post(
        "/api/v1/threads/t/documents",
        params={"name": "big.txt"},
        content=b"x" * (33 * 1024 * 1024),
        headers=users.headers(),
    )

    assert (answer.status_code, answer.json()["code"]) == (413, DocumentTooLarge.code)


@ON_ONE_STORE
@pytest.mark.parametrize("path", ["../../../bob/memory/x.md", "/etc/passwd", "meta/x", "a\x00b", ""])
async def test_no_path_leads_out_of_the_volume(bench: AsyncWorkbenchClient, path: str) -> None:
    with pytest.raises(VolumePathRefused):
        await bench.load_document("t", path)


# Artifacts.


async def save_artifact(users: Users, db: clew.Database, root: Path, name: str, content: bytes) -> Artifact:
    """An artifact of alice's thread."""
    mine = Artifacts(db.scope(tenant=db.tenant, user="alice"), "t", volume_of(users, root))
    return await mine.save(name, content, run="r-1")


async def fetch(users: Users, id: str, user: str = "alice") -> httpx.Response:
    """The answer to a request for an artifact."""
    return await users.http.get(f"/api/v1/threads/t/artifacts/{id}", headers=users.headers(user))


async def test_artifacts_are_listed_in_pages_fetched_and_deleted(
    bench: AsyncWorkbenchClient, users: Users, db: clew.Database, root: Path
) -> None:
    artifacts = [await save_artifact(users, db, root, f"{n}.txt", b"x" * n) for n in (1, 2, 3)]
    first = await bench.artifacts("t", limit=2)
    second = await bench.artifacts("t", limit=2, cursor=first.next)
    content = await bench.artifact("t", artifacts[2].id)
    await bench.delete_artifact("t", artifacts[2].id)
    page = [*first.artifacts, *second.artifacts]

    assert {each.id for each in page} == {each.id for each in artifacts}
    assert {(each.size, each.run) for each in page} == {(1, "r-1"), (2, "r-1"), (3, "r-1")}
    assert content == b"xxx"
    assert len((await bench.artifacts("t")).artifacts) == 2


@ON_ONE_STORE
@pytest.mark.parametrize(
    ("name", "content", "type"),
    [
        ("plot.png", PNG, "image/png"),
        ("page.html", b"<html><script>alert(1)</script>", "application/octet-stream"),
        ("plot.svg", SVG, "application/octet-stream"),
        ("plot.png", SVG, "application/octet-stream"),
        ("notes.txt", b"<html>", "application/octet-stream"),
        ("code.js", b"alert(1)", "application/octet-stream"),
        ("table.csv", b"a,b", "text/csv; charset=utf-8"),
    ],
    ids=["picture", "page", "drawing", "drawing called a picture", "page called a text", "code", "table"],
)
async def test_no_artifact_is_sent_as_what_a_browser_would_run(
    users: Users, db: clew.Database, root: Path, name: str, content: bytes, type: str
) -> None:
    answer = await fetch(users, (await save_artifact(users, db, root, name, content)).id)

    assert answer.content == content
    assert answer.headers["content-type"] == type
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"].startswith("attachment; ")
    assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("a b.png", "attachment; filename=\"a b.png\"; filename*=UTF-8''a%20b.png"),
        (
            'x";\r\nCookie: a',
            "attachment; filename=\"x____Cookie_ a\"; filename*=UTF-8''x%22%3B%0D%0ACookie%3A%20a",
        ),
        ("Æ.pdf", "attachment; filename=\"_.pdf\"; filename*=UTF-8''%C3%86.pdf"),
    ],
)
def test_a_name_stays_inside_its_header(name: str, header: str) -> None:
    assert content_disposition(name) == header


@ON_ONE_STORE
async def test_a_damaged_artifact_is_named_and_not_sent(
    bench: AsyncWorkbenchClient, users: Users, db: clew.Database, root: Path
) -> None:
    artifact = await save_artifact(users, db, root, "plot.png", PNG)
    volume_of(users, root).write(artifact.path, b"other")
    with pytest.raises(ArtifactDamaged) as error:
        await bench.artifact("t", artifact.id)

    assert error.value.artifact == artifact.id
    assert (await fetch(users, artifact.id)).status_code == 500


# The repository.


@pytest.mark.promise("F-02")
async def test_the_repository_of_a_session_is_set_read_and_in_its_manifest(
    users: Users, bench: AsyncWorkbenchClient
) -> None:
    before = await bench.repository("t")
    url = "https://git.example.org/tea"
    commit = await bench.put_repository("t", url, ref="main", context_paths=["docs"])
    after = await bench.repository("t")
    manifest = json.loads(await users("alice").export_manifest("t"))["state"]["interpreter_state"]
    await bench.put_repository("t", None)

    assert (before.url, after.version) == (None, commit.version)
    assert (after.url, after.ref, after.context_paths) == (url, "main", ["docs"])
    assert (manifest["repository_url"], manifest["repository_ref"]) == (url, "main")
    assert manifest["context_paths"] == ["docs"]
    assert (await bench.repository("t")).url is None


@ON_ONE_STORE
@pytest.mark.security
@pytest.mark.parametrize(
    ("url", "ref", "path"),
    [
        ("file:///etc", None, "docs"),
        ("https://ada:secret@git.example.org/tea", None, "docs"),
        ("https://git.example.org/tea", "--exec=x", "docs"),
        ("https://git.example.org/tea", None, "../x"),
    ],
)
async def test_a_repository_that_is_a_trick_is_refused_and_not_set(
    bench: AsyncWorkbenchClient, url: str, ref: str | None, path: str
) -> None:
    with pytest.raises(InvalidArgument) as error:
        await bench.put_repository("t", url, ref=ref, context_paths=[path])

    assert "secret" not in str(error.value)
    assert (await bench.repository("t")).url is None


@ON_ONE_STORE
async def test_a_repository_is_set_only_at_the_version_that_was_seen(bench: AsyncWorkbenchClient) -> None:
    first = await bench.put_repository("t", "https://git.example.org/tea")
    with pytest.raises(VersionConflict):
        await bench.put_repository("t", "https://git.example.org/coffee", expect=first.version - 1)

    assert (await bench.repository("t")).url == "https://git.example.org/tea"


# The volume.


@ON_ONE_STORE
async def test_the_files_of_the_volume_are_listed_by_folder_and_page(
    bench: AsyncWorkbenchClient, users: Users, root: Path
) -> None:
    for name in ("memory/a.txt", "memory/b.txt", "artifacts/c.txt"):
        volume_of(users, root).write(name, b"x")
    first = await bench.volume("t", folder="memory", limit=1)
    second = await bench.volume("t", folder="memory", limit=1, cursor=first.next)

    assert [each.path for each in (*first.files, *second.files)] == ["memory/a.txt", "memory/b.txt"]
    assert (await bench.volume("t")).files[0].path == "artifacts/c.txt"


# Whose it is.


@pytest.mark.promise("F-10")
async def test_what_is_anothers_is_not_there(
    users: Users, db: clew.Database, root: Path, bench: AsyncWorkbenchClient
) -> None:
    document = await bench.add_document("t", "notes.txt", b"Tea at four.")
    artifact = await save_artifact(users, db, root, "plot.png", PNG)
    theirs = users("bob").workbench
    for call in (
        theirs.core_memory("t"),
        theirs.put_block("t", "human", "x"),
        theirs.documents("t"),
        theirs.add_document("t", "x.txt", b"x"),
        theirs.load_document("t", document.path),
        theirs.peek_document("t", document.path),
        theirs.find_in_document("t", "tea"),
        theirs.unload_document("t", document.path),
        theirs.artifacts("t"),
        theirs.artifact("t", artifact.id),
        theirs.delete_artifact("t", artifact.id),
        theirs.volume("t"),
    ):
        with pytest.raises(ThreadNotFound):
            await call

    assert (await bench.documents("t")).documents == [document]


@pytest.mark.promise("F-10")
async def test_an_id_of_another_threads_artifact_is_not_there(
    users: Users, db: clew.Database, root: Path
) -> None:
    artifact = await save_artifact(users, db, root, "plot.png", PNG)
    await users("bob").create_thread("u")
    with pytest.raises(RecordNotFound):
        await users("bob").workbench.artifact("u", artifact.id)


@ON_ONE_STORE
async def test_the_whole_tenants_key_reaches_the_owners_volume(
    users: Users, bench: AsyncWorkbenchClient
) -> None:
    document = await bench.add_document("t", "notes.txt", b"Tea at four.")

    assert (await users("*").workbench.peek_document("t", document.path)).text == "Tea at four."


@ON_ONE_STORE
async def test_clews_own_threads_take_none_of_it(bench: AsyncWorkbenchClient) -> None:
    with pytest.raises(InvalidId):
        await bench.put_block("memory/alice", "human", "x")
    with pytest.raises(InvalidId):
        await bench.add_document("memory/alice", "x.txt", b"x")


async def test_a_server_without_a_volume_says_so() -> None:
    async with in_memory() as users:
        await users("alice").create_thread("t")
        with pytest.raises(InvalidArgument) as error:
            await users("alice").workbench.documents("t")
        await users("alice").workbench.put_block("t", "human", "Ada")

    assert "--volume" in str(error.value)


async def test_one_user_has_only_so_many_files_read_at_once(tmp_path: Path) -> None:
    async with in_memory(settings=ServerSettings(volume=str(tmp_path), turns=0)) as users:
        await users("alice").create_thread("t")
        with pytest.raises(RateLimited):
            await users("alice").workbench.add_document("t", "x.txt", b"x")
