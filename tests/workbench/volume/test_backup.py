"""A backup takes the volume along: copied under load, restored elsewhere, equal; and damage is named."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.cli.app import run
from clew.cli.backup.volume import is_left, volume_for_backup
from clew.core.manifest.files import ManifestAddress, manifest_path
from clew.core.manifest.stamps import encode_stamped_manifest, read_stamped_manifest
from clew.core.values import Put, Record, RecordQuery
from clew.workbench.session.manifests import export_manifest
from clew.workbench.volume.backup import VolumeCopy, read_index, volume_copy_path
from clew.workbench.volume.volume import Volume

Command = Callable[..., tuple[int, Any]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command, and reads what it answers in JSON."""

    def run_command(*words: object) -> tuple[int, Any]:
        code = run([*map(str, words), "--json"])
        output = capsys.readouterr()
        return code, json.loads(output.out or output.err)

    return run_command


def volume_at(root: Path, user: str = "alice") -> Volume:
    return Volume(root, "default", user)


def content_of(root: Path) -> dict[str, bytes]:
    """All files of a folder by their paths."""
    return {str(f.relative_to(root)): f.read_bytes() for f in root.rglob("*") if f.is_file()}


async def fill_database(url: str) -> None:
    async with clew.open(url) as db:
        await (await db.create("s-1", owner="alice")).append(items=[clew.user("Hi.")])


# Under load.


class Load:
    """Writers of a database and of its volume, until they are stopped."""

    def __init__(self, db: clew.Database, root: Path) -> None:
        self._db = db
        self._root = root
        self.start, self.stop = asyncio.Event(), asyncio.Event()
        self.turns = 0

    async def talk(self, session: str) -> None:
        """Turns, and after each a manifest that stands for it."""
        thread = await self._db.create(session, owner="alice")
        place = ManifestAddress(workspace="w", user="alice", session=session)
        while not self.stop.is_set():
            await thread.append(items=[clew.user("More." * 50)])
            head = await thread.head()
            document = encode_stamped_manifest(
                await export_manifest(self._db, session), head.version, head.hash
            )
            await asyncio.to_thread(volume_at(self._root).write, str(manifest_path(place)), document)
            self.turns += 1
            if self.turns == 10:
                self.start.set()

    async def make(self, name: str) -> None:
        """Files, and after each a record that names it."""
        number = 0
        while not self.stop.is_set():
            number += 1
            content = os.urandom(3000) * 10
            path = f"artifacts/{name}-{number}/made.bin"
            await asyncio.to_thread(volume_at(self._root).write, path, content)
            body = {"path": path, "sha256": sha256(content).hexdigest()}
            record = Record(kind="artifact", id=f"{name}-{number}", owner="alice", body=body)
            await self._db.commit([Put(record=record)])


@pytest.mark.promise("F-14")
@pytest.mark.race
async def test_a_backup_under_load_is_restored_elsewhere_and_nothing_it_names_is_missing(
    tmp_path: Path, command: Command
) -> None:
    url, root = f"sqlite:///{tmp_path}/agent.db", tmp_path / "volume"
    root.mkdir()
    other, elsewhere = f"sqlite:///{tmp_path}/other.db", tmp_path / "elsewhere"
    async with clew.open(url) as db:
        load = Load(db, root)
        tasks = [asyncio.create_task(load.talk(f"s-{n}")) for n in range(3)]
        tasks += [asyncio.create_task(load.make(f"m-{n}")) for n in range(2)]
        await asyncio.wait_for(load.start.wait(), 60)
        backup = tmp_path / "b.db"
        backup_result = await asyncio.to_thread(command, "backup", backup, "--volume", root, "--db", url)
        load.stop.set()
        await asyncio.gather(*tasks)
    restore_result = await asyncio.to_thread(command, "restore", backup, "--volume", elsewhere, "--db", other)
    async with clew.open(other) as db:
        records = await db.records.find(RecordQuery(kind="artifact", limit=10_000))
        heads = {f"s-{n}": await db.thread(f"s-{n}").head() for n in range(3)}

    assert (backup_result[0], restore_result[0]) == (0, 0), (backup_result, restore_result)
    assert (restore_result[1]["ok"], restore_result[1]["ahead"], restore_result[1]["files"]) == (
        True,
        [],
        backup_result[1]["files"],
    )
    assert records
    for record in records:
        assert isinstance(record.body, dict)
        assert volume_at(elsewhere).checksum(str(record.body["path"])) == record.body["sha256"]
    for session, head in heads.items():
        path = str(manifest_path(ManifestAddress(workspace="w", user="alice", session=session)))
        manifest = read_stamped_manifest(volume_at(elsewhere).read(path), session)
        assert manifest.is_intact
        assert manifest.stamp is not None
        assert manifest.stamp.version <= head.version


# What a copy holds.


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A volume with files of two users and a manifest."""
    root = tmp_path / "volume"
    volume_at(root).write("artifacts/map.txt", b"north")
    volume_at(root).write(
        str(manifest_path(ManifestAddress(workspace="w", user="alice", session="s-1"))), b"{}"
    )
    volume_at(root, "bob").write("memory/é.txt", b"")
    return root


@pytest.mark.promise("F-14")
def test_a_volume_comes_back_as_it_was(tmp_path: Path, root: Path, command: Command) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    asyncio.run(fill_database(url))
    odd = volume_at(root).folder / "artifacts" / "MAP.txt"
    odd.write_bytes(b"south")
    Path(os.fsdecode(bytes(odd.parent) + b"/\xff ")).write_bytes(b"odd")
    backup_result = command("backup", tmp_path / "b.db", "--volume", root, "--db", url)
    restore_result = command(
        "restore", tmp_path / "b.db", "--volume", tmp_path / "new", "--db", tmp_path / "new.db"
    )

    assert (backup_result[0], restore_result[0]) == (0, 0), (backup_result, restore_result)
    assert content_of(tmp_path / "new") == content_of(root)
    assert backup_result[1]["files"] == 5


@pytest.mark.promise("F-14")
def test_what_is_no_file_is_left_out_and_named(tmp_path: Path, root: Path) -> None:
    own = volume_at(root).folder / "artifacts"
    (own / "link").symlink_to("/etc/passwd")
    (own / "folder").symlink_to("/etc")
    os.mkfifo(own / "pipe")
    (own / ".x.0123456789abcdef.part").write_bytes(b"half")
    (aside := root / "default" / "erasing" / "receipt-1").mkdir(parents=True)
    (aside / "own").write_bytes(b"on its way out")
    copy = VolumeCopy(root, tmp_path / "copy")
    copy.begin()
    index = copy.finish()

    assert sorted(index.left_out) == [
        f"default/users/alice/artifacts/{name}" for name in ("folder", "link", "pipe")
    ]
    assert len(index.files) == 3
    assert b"half" not in content_of(tmp_path / "copy").values()


@pytest.mark.promise("F-14")
def test_a_folder_that_goes_while_it_is_copied_ends_no_backup(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (going := volume_at(root).folder / "artifacts/going").mkdir()
    stat = os.stat

    def vanish(path: str | int, **options: Any) -> os.stat_result:
        if path == "going" and going.exists():
            going.rmdir()
        return stat(path, **options)

    copy = VolumeCopy(root, tmp_path / "copy")
    monkeypatch.setattr("clew.workbench.volume.backup.os.stat", vanish)
    copy.begin()
    index = copy.finish()

    assert (going.exists(), len(index.files)) == (False, 3)


@pytest.mark.promise("F-14")
@pytest.mark.parametrize("harm", ["altered", "missing", "linked"])
def test_a_damaged_file_is_named_and_nothing_is_put_in_place(
    tmp_path: Path, root: Path, command: Command, harm: str
) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    asyncio.run(fill_database(url))
    command("backup", tmp_path / "b.db", "--volume", root, "--db", url)
    file = volume_copy_path(tmp_path / "b.db") / "files/default/users/alice/artifacts/map.txt"
    file.unlink()
    if harm == "altered":
        file.write_bytes(b"nurth")
    if harm == "linked":
        file.symlink_to("/etc/passwd")
    code, answer = command(
        "restore", tmp_path / "b.db", "--volume", tmp_path / "new", "--db", tmp_path / "new.db"
    )

    assert (code, list(answer["damaged"])) == (1, ["default/users/alice/artifacts/map.txt"])
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize("path", ["../out", "/out", "a/../../out", "a//b", "%2e%2e/out", "a%00b"])
def test_an_index_that_leads_out_is_refused(tmp_path: Path, root: Path, path: str) -> None:
    copy = VolumeCopy(root, tmp_path / "copy")
    copy.begin()
    copy.finish()
    index = json.loads((tmp_path / "copy" / "index.json").read_text())
    index["files"][0]["path"] = path
    (tmp_path / "copy" / "index.json").write_text(json.dumps(index))

    with pytest.raises(clew.ClewError, match="no path of a volume"):
        read_index(tmp_path / "copy")


def test_a_copy_without_its_index_is_none(tmp_path: Path, root: Path) -> None:
    VolumeCopy(root, tmp_path / "copy").begin()

    with pytest.raises(clew.ClewError, match="not finished"):
        read_index(tmp_path / "copy")


@pytest.mark.promise("F-14")
def test_a_manifest_that_is_ahead_of_the_database_is_said(
    tmp_path: Path, root: Path, command: Command
) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    asyncio.run(fill_database(url))
    path = str(manifest_path(ManifestAddress(workspace="w", user="alice", session="s-1")))
    volume_at(root).write(path, b'{"session": "s-1", "checkpoint": {"version": 7}}')
    command("backup", tmp_path / "b.db", "--volume", root, "--db", url)
    code, answer = command(
        "restore", tmp_path / "b.db", "--volume", tmp_path / "new", "--db", tmp_path / "new.db"
    )

    assert (code, answer["ok"], answer["ahead"]) == (0, True, ["s-1"])


def test_neither_overwrites_a_volume(tmp_path: Path, root: Path, command: Command) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    asyncio.run(fill_database(url))
    command("backup", tmp_path / "b.db", "--volume", root, "--db", url)
    volume_at(root).write("artifacts/later.txt", b"later")
    new = ["--db", tmp_path / "new.db"]
    codes = [
        command("backup", tmp_path / "b.db", "--volume", root, "--db", url)[0],
        command("restore", tmp_path / "b.db", "--volume", root, *new)[0],
    ]
    content = volume_at(root).read("artifacts/later.txt")
    code_with_force, _ = command("restore", tmp_path / "b.db", "--volume", root, "--force", *new)

    assert (codes, content, code_with_force) == ([1, 1], b"later", 0)
    assert [file.path for file in volume_at(root).list().files] == ["artifacts/map.txt"]


def test_a_backup_that_fails_leaves_no_copy_of_the_volume(
    tmp_path: Path, root: Path, command: Command
) -> None:
    code, _ = command("backup", tmp_path / "b.db", "--volume", root, "--db", tmp_path / "missing.db")

    assert code == 1
    assert not volume_copy_path(tmp_path / "b.db").exists()


@pytest.mark.promise("F-14")
def test_the_volume_beside_the_file_goes_along_unasked(tmp_path: Path, command: Command) -> None:
    there, again = f"sqlite:///{tmp_path}/agent.db", f"sqlite:///{tmp_path}/again.db"
    command("migrate", "--db", there)
    volume_at(tmp_path / "agent.db.volume").write("artifacts/map.txt", b"north")
    backup_result = command("backup", tmp_path / "b.db", "--db", there)
    restore_result = command("restore", tmp_path / "b.db", "--db", again)

    assert (backup_result[0], backup_result[1]["files"], restore_result[0]) == (0, 1, 0)
    assert volume_at(tmp_path / "again.db.volume").read("artifacts/map.txt") == b"north"


def test_a_volume_that_has_no_place_is_said_to_be_left(tmp_path: Path, root: Path) -> None:
    copy = VolumeCopy(root, volume_copy_path(tmp_path / "b.dump"))
    copy.begin()
    copy.finish()
    place = volume_for_backup(tmp_path / "b.dump", None, None)

    assert (place, is_left(tmp_path / "b.dump", place)) == (None, True)


def test_a_backup_without_a_volume_has_none_to_restore(tmp_path: Path, command: Command) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    asyncio.run(fill_database(url))
    command("backup", tmp_path / "b.db", "--db", url)
    code, answer = command(
        "restore", tmp_path / "b.db", "--volume", tmp_path / "new", "--db", tmp_path / "new.db"
    )

    assert (code, answer["error"]["code"]) == (1, "invalid_argument")
    assert not (tmp_path / "new.db").exists()
