"""A person's archive holds their files with checksums, and takes them in elsewhere."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

import clew
from clew.cli.app import run
from clew.core.errors import ArchiveInvalid, Forbidden, VolumeFileChanged
from clew.core.manifest.files import ManifestAddress, manifest_path
from clew.core.values import Record, Scope
from clew.database.archive import import_threads
from clew.runtime.person_export import export_person
from clew.workbench.session.manifests import export_manifest
from clew.workbench.volume.operators import Volumes
from clew.workbench.volume.volume import Volume
from tests.support.manifests import save

ALICE = Scope(user="alice")


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[clew.Database]:
    """A database with two people, each with files and a manifest."""
    root = tmp_path / "volume"
    async with clew.open(f"sqlite:///{tmp_path}/data/agent.db", files=Volumes(root)) as db:
        for who in ("alice", "bob"):
            await (await db.create(f"{who}-1", owner=who)).append(items=[clew.user(f"I am {who}.")])
            volume = Volume(root, "default", who)
            volume.write("memory/note.txt", f"{who} noted".encode())
            volume.write("artifacts/1/map.bin", bytes(range(256)))
            place = ManifestAddress(workspace="w", user=who, session=f"{who}-1")
            save(volume, place, await export_manifest(db, f"{who}-1"))
            body = {"path": "artifacts/1/map.bin"}
            tags = (f"{who}-1",)
            await db.records.put(Record(kind="artifact", id=f"{who}-map", owner=who, tags=tags, body=body))
        (Volume(root, "default", "alice").folder / "memory" / "link").symlink_to("/etc/passwd")
        yield db


@pytest.fixture(autouse=True)
def _data(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()


async def lines_of(db: clew.Database, owner: str) -> list[bytes]:
    return [line async for line in export_person(db.scope(tenant="default", user=owner), owner)]


async def each(lines: Iterable[bytes]) -> AsyncIterator[bytes]:
    for line in lines:
        yield line


@pytest.mark.promise("B-07", "F-05")
async def test_a_persons_archive_holds_their_files_and_nobody_elses(db: clew.Database) -> None:
    lines = [json.loads(line) for line in await lines_of(db, "alice")]
    files = [line for line in lines if line["clew"] == "file"]

    assert [(file["owner"], file["path"]) for file in files] == [
        ("alice", "memory/note.txt"),
        ("alice", "artifacts/1/map.bin"),
        ("alice", str(manifest_path(ManifestAddress(workspace="w", user="alice", session="alice-1")))),
    ]
    assert all(len(file["sha256"]) == 64 for file in files)
    assert lines[-1]["files"] == 3


@pytest.mark.promise("F-05")
async def test_the_files_are_the_same_where_the_archive_is_taken_in(
    db: clew.Database, tmp_path: Path
) -> None:
    lines = await lines_of(db, "alice")
    other = Volumes(tmp_path / "other")
    async with clew.open("memory://", files=other) as elsewhere:
        result = await import_threads(elsewhere.store, Scope(), each(lines), files=other)
        again = await lines_of(elsewhere, "alice")

    assert (result.files, again) == (3, lines)


@pytest.mark.promise("F-05")
async def test_a_file_larger_than_calls_may_write_goes_along_too(
    db: clew.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew.workbench.volume.volume.LARGEST", 200)
    monkeypatch.setattr(Volume.__init__, "__kwdefaults__", {"largest": 200, "capacity": None})
    written_by_code = Volume(tmp_path / "volume", "default", "alice").folder / "memory/long.txt"
    written_by_code.write_bytes(b"x" * 201)
    other = Volumes(tmp_path / "other")
    async with clew.open("memory://", files=other) as elsewhere:
        result = await import_threads(
            elsewhere.store, Scope(), each(await lines_of(db, "alice")), files=other
        )

    assert result.files == 4


async def test_a_file_that_goes_while_an_archive_is_made_is_not_in_it(
    db: clew.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_file = Volume.read

    def vanish(self: Volume, path: str) -> bytes:
        if path == "memory/note.txt":
            self.delete(path)
        return read_file(self, path)

    monkeypatch.setattr(Volume, "read", vanish)
    lines = [json.loads(line) for line in await lines_of(db, "alice")]

    assert lines[-1]["files"] == 2


async def test_an_archive_taken_in_twice_leaves_files_alone_that_are_the_same(
    db: clew.Database, tmp_path: Path
) -> None:
    lines = await lines_of(db, "alice")
    other = Volumes(tmp_path / "other")
    async with clew.open("memory://", files=other) as elsewhere:
        await import_threads(elsewhere.store, Scope(), each(lines), files=other)
        other.volume_of("default", "alice").write("memory/note.txt", b"changed since")
        result = await import_threads(elsewhere.store, Scope(), each(lines), files=other, skip_existing=True)
        with pytest.raises(VolumeFileChanged):
            await import_threads(elsewhere.store, Scope(), each([lines[0], *lines[-4:]]), files=other)

    assert result.files == 2
    assert other.volume_of("default", "alice").read("memory/note.txt") == b"changed since"


async def test_without_a_volume_files_are_counted_and_left(db: clew.Database) -> None:
    async with clew.open("memory://") as elsewhere:
        result = await import_threads(elsewhere.store, Scope(), each(await lines_of(db, "alice")))

    assert (result.files, result.total.files) == (0, 3)


async def test_a_file_that_was_altered_is_refused(db: clew.Database, tmp_path: Path) -> None:
    lines = await lines_of(db, "alice")
    forgery = [line.replace(b'"base64":"YWxpY2U', b'"base64":"YWxpY2V') for line in lines]
    other = Volumes(tmp_path / "other")
    async with clew.open("memory://") as elsewhere:
        with pytest.raises(ArchiveInvalid, match="was altered"):
            await import_threads(elsewhere.store, Scope(), each(forgery), files=other)

    assert forgery != lines


@pytest.mark.promise("F-05")
async def test_a_user_takes_in_no_files_for_another(db: clew.Database, tmp_path: Path) -> None:
    lines = await lines_of(db, "bob")
    other = Volumes(tmp_path / "other")
    async with clew.open("memory://") as elsewhere:
        with pytest.raises(Forbidden):
            await import_threads(elsewhere.store, ALICE, each([lines[0], *lines[-4:]]), files=other)

    assert other.volume_of("default", "bob").list().files == ()


@pytest.mark.promise("F-05")
@pytest.mark.parametrize(
    "path", ["../bob/memory/x", "/etc/x", "meta/workspaces/w/users/bob/react-session-x.json"]
)
async def test_an_archive_cannot_write_elsewhere(tmp_path: Path, path: str) -> None:
    header = b'{"clew":"archive","format":1}\n'
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    file = {"clew": "file", "owner": "alice", "path": path, "base64": "", "sha256": empty}
    lines = [header, json.dumps(file).encode() + b"\n"]
    async with clew.open("memory://") as db:
        with pytest.raises(ArchiveInvalid, match="refused"):
            await import_threads(db.store, Scope(), each(lines), files=Volumes(tmp_path / "other"))


@pytest.mark.promise("B-07")
async def test_erasing_takes_the_files_out_of_an_archive_beside_the_database(
    db: clew.Database, tmp_path: Path
) -> None:
    archive = tmp_path / "data" / "both.jsonl"
    both = [line for who in ("alice", "bob") for line in (await lines_of(db, who))[1:-1]]
    threads = [
        line for line in both if b'"thread"' in line[:60] or b'"changeset"' in line or b'"end"' in line[:40]
    ]
    rest = [line for line in both if line not in threads]
    total = json.dumps({"clew": "total", "threads": 2, "changesets": 2, "items": 2, "records": 2, "files": 6})
    archive.write_bytes(b"".join([b'{"clew":"archive","format":1}\n', *threads, *rest, total.encode()]))
    await db.erase(owner="alice")
    entries = [json.loads(line) for line in archive.read_bytes().splitlines()]

    assert {line["owner"] for line in entries if "owner" in line} == {"bob"}
    assert entries[-1]["files"] == 3


@pytest.mark.promise("B-07")
async def test_erasing_a_thread_takes_its_manifest_and_artifacts_out_of_an_archive(
    db: clew.Database, tmp_path: Path
) -> None:
    archive = tmp_path / "data" / "alice.jsonl"
    archive.write_bytes(b"".join(await lines_of(db, "alice")))
    await db.erase(thread="alice-1")
    entries = [json.loads(line) for line in archive.read_bytes().splitlines()]

    assert [line["path"] for line in entries if line["clew"] == "file"] == ["memory/note.txt"]


@pytest.mark.promise("F-05")
async def test_a_person_is_taken_out_and_in_by_command(
    db: clew.Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive, where = tmp_path / "alice.jsonl", ["--db", f"sqlite:///{tmp_path}/data/agent.db"]
    (tmp_path / "new").mkdir()
    out = ["export", "--owner", "alice", "-o", str(archive), "--volume", str(tmp_path / "volume"), *where]
    into = ["import", str(archive), "--volume", str(tmp_path / "new"), "--db", str(tmp_path / "new.db")]
    codes = [await asyncio.to_thread(run, out), await asyncio.to_thread(run, into)]
    output = capsys.readouterr()

    assert codes == [0, 0], output
    assert "3 files" in output.out
    assert Volume(tmp_path / "new", "default", "alice").read("memory/note.txt") == b"alice noted"
