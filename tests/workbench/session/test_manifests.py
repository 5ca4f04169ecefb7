"""Manifests on a volume: one file for each session, whole or not there, and the older layout only read."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import clew
from clew.cli.app import run
from clew.core.encoding import check_id
from clew.core.errors import (
    InvalidArgument,
    InvalidId,
    StorageFull,
    VolumeFileNotFound,
    VolumePathRefused,
)
from clew.core.manifest.document import Manifest, manifest_from
from clew.core.manifest.files import ManifestAddress, file_name, manifest_path
from clew.workbench.session.manifests import load_manifest
from clew.workbench.volume.volume import Volume
from tests.support.manifests import save


def on(root: Path, user: str | None = "alice") -> Volume:
    return Volume(root, "t", user)


def place(session: str = "s-1", user: str | None = "alice", workspace: str = "w") -> ManifestAddress:
    return ManifestAddress(workspace=workspace, user=user, session=session)


def manifest(session: str = "s-1", **state: Any) -> Manifest:
    document = {"format": "clew.session", "version": 1, "session": session, "state": state}
    return manifest_from(document)


def names_in(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


# Names.


@pytest.mark.promise("F-04")
def test_a_manifest_stands_where_the_layout_says() -> None:
    assert str(manifest_path(place())) == "meta/workspaces/w/users/alice/react-session-s-1.json"


@pytest.mark.promise("F-04")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a/b", "a-b"),
        ("a", "A"),
        ("é", unicodedata.normalize("NFD", "é")),
        ("a.", "a"),
        ("..", "."),
        ("a", "a "),
        ("=61", "a"),
        ("~", "=7e"),
        ("x" * 512, "x" * 511 + "y"),
        ("X" * 200, file_name("X" * 200)),
        ("straße", "strasse"),
    ],
)
def test_ids_that_differ_never_share_a_file(one: str, other: str) -> None:
    assert file_name(one).casefold() != file_name(other).casefold()


def usable(text: str) -> bool:
    try:
        check_id(text, "id")
    except InvalidId:
        return False
    return True


NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=80).filter(usable)


@pytest.mark.promise("F-04")
@given(one=NAMES, other=NAMES)
@settings(max_examples=200, deadline=None)
def test_names_are_kept_apart_on_every_file_system(one: str, other: str) -> None:
    assume(one != other)
    names = [unicodedata.normalize("NFC", file_name(name)).casefold() for name in (one, other)]

    assert names[0] != names[1]
    assert all(len(name) < 200 and "/" not in name and name not in (".", "..", "~") for name in names)


@pytest.mark.promise("F-04")
def test_a_session_of_nobody_is_not_that_of_a_user() -> None:
    assert manifest_path(place(user=None)) != manifest_path(place(user="~"))


# Files.


@pytest.mark.promise("F-04")
def test_what_is_saved_is_loaded_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    save(on(tmp_path), place(), manifest(document_paths=["a.md"]))
    file = tmp_path / "t" / save(on(tmp_path), place(), manifest(document_paths=["b.md"]))

    assert load_manifest(on(tmp_path), place()).state.document_paths == ["b.md"]
    assert names_in(file.parent) == [file.name]
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.promise("F-04")
def test_a_write_that_fails_leaves_the_old_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "t" / save(on(tmp_path), place(), manifest(document_paths=["a.md"]))

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageFull):
        save(on(tmp_path), place(), manifest(document_paths=["b.md"]))

    assert load_manifest(on(tmp_path), place()).state.document_paths == ["a.md"]
    assert names_in(file.parent) == [file.name]


def test_the_file_is_on_disk_before_it_has_its_name_and_the_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    sync, replace = os.fsync, os.replace

    def note_sync(descriptor: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def note_replace(part: str, name: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        steps.append("name")
        replace(part, name, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    save(on(tmp_path), place(), manifest())
    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", note_replace)
    save(on(tmp_path), place(), manifest())

    assert steps == ["file", "name", "folder"]


def test_a_link_that_leads_out_of_the_volume_is_not_followed(tmp_path: Path) -> None:
    volume, outside = tmp_path / "volume", tmp_path / "outside"
    outside.mkdir()
    users = volume / "t" / "meta" / "workspaces" / "w" / "users"
    users.mkdir(parents=True)
    (users / "alice").symlink_to(outside)
    with pytest.raises(VolumePathRefused):
        save(on(volume), place(), manifest())

    assert names_in(outside) == []


def test_a_manifest_of_another_session_is_not_taken_for_this_one(tmp_path: Path) -> None:
    save(on(tmp_path), place(), manifest())
    (tmp_path / "t" / manifest_path(place())).rename(tmp_path / "t" / manifest_path(place("s-2")))

    with pytest.raises(InvalidArgument, match="s-1"):
        load_manifest(on(tmp_path), place("s-2"))


# The older layout.

OLD: dict[str, Any] = {
    "rev": 3,
    "logs": [],
    "metadata": {"history_turns": 1},
    "state": {
        "history": [{"user_request": "Hi.", "assistant_response": "Hello."}],
        "core_memory": {"persona": "Kind."},
        "documents": {"a": "text"},
        "daytona": {
            "repo_url": "https://example.org/code.git",
            "repo_ref": "main",
            "sandbox_id": "box-7",
            "loaded_document_paths": ["a.md"],
        },
    },
}


def older(volume: Path, path: str, document: object = OLD) -> Path:
    file = volume / "t" / path
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(document))
    return file


@pytest.mark.promise("F-04")
@pytest.mark.parametrize(
    "path",
    [
        "workspaces/w/users/alice/react-session-s-1.json",
        "workspaces/w/users/alice/memory/react-session-s-1.json",
    ],
)
def test_the_older_layout_is_read_only_when_asked_and_never_written(tmp_path: Path, path: str) -> None:
    old = older(tmp_path, path)
    with pytest.raises(VolumeFileNotFound):
        load_manifest(on(tmp_path), place())
    manifest = load_manifest(on(tmp_path), place(), older=True)
    save(on(tmp_path), place(), manifest)

    assert [entry.body["content"] for entry in manifest.state.history] == ["Hi.", "Hello."]
    assert manifest.state.core_memory == {"persona": "Kind."}
    assert manifest.state.document_paths == ["a.md"]
    assert manifest.state.interpreter_state["repository_url"] == "https://example.org/code.git"
    assert json.loads(old.read_text()) == OLD


@pytest.mark.promise("F-04")
def test_the_new_layout_comes_before_the_older_one(tmp_path: Path) -> None:
    older(tmp_path, "workspaces/w/users/alice/react-session-s-1.json")
    save(on(tmp_path), place(), manifest())

    assert load_manifest(on(tmp_path), place(), older=True).state.history == []


@pytest.mark.promise("F-04")
@pytest.mark.parametrize("session", ["s/1", "s:1", "../s-1", ".s-1", "s-1."])
def test_an_id_that_the_older_layout_could_not_write_finds_nobody_elses_file(
    tmp_path: Path, session: str
) -> None:
    older(tmp_path, "workspaces/w/users/alice/react-session-s-1.json")

    with pytest.raises(VolumeFileNotFound):
        load_manifest(on(tmp_path), place(session), older=True)


@pytest.mark.promise("F-04")
@pytest.mark.parametrize("user", ["bob", None, "Alice"])
def test_a_manifest_is_not_to_be_had_through_another_users_volume(tmp_path: Path, user: str | None) -> None:
    save(on(tmp_path), place(), manifest())

    with pytest.raises(VolumePathRefused):
        load_manifest(on(tmp_path, user), place(), older=True)


# The commands.


@pytest.fixture
def database(tmp_path: Path) -> str:
    """A database with a session of alice's."""
    url = f"sqlite:///{tmp_path}/agent.db"

    async def fill() -> None:
        async with clew.open(url) as db:
            thread = await db.create("s-1", owner="alice")
            await thread.append(items=[clew.user("Hi.")], patches=[clew.set(["mood"], "calm")])

    asyncio.run(fill())
    return url


@pytest.mark.promise("F-02")
def test_a_session_goes_out_and_in_by_command(
    tmp_path: Path, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(tmp_path / f"{name}.json") for name in ("first", "second")]
    other = f"sqlite:///{tmp_path}/other.db"
    codes = [
        run(["session", "export", "s-1", "-o", files[0], "--db", database]),
        run(["session", "import", "s-1", files[0], "--db", other, "--user", "alice"]),
        run(["session", "export", "s-1", "-o", files[1], "--db", other, "--user", "alice"]),
    ]

    assert codes == [0, 0, 0], capsys.readouterr()
    assert Path(files[0]).read_bytes() == Path(files[1]).read_bytes()


@pytest.mark.promise("F-03", "F-04")
def test_a_session_is_put_back_from_a_volume(
    tmp_path: Path, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    where = ["--volume", str(volume), "--workspace", "w"]
    run(["session", "export", "s-1", *where, "--db", database])
    asyncio.run(_say_more(database))
    code = run(["session", "import", "s-1", *where, "--db", database, "--user", "alice"])
    capsys.readouterr()
    run(["session", "export", "s-1", "--db", database])
    manifest = json.loads(capsys.readouterr().out)

    assert code == 0
    assert [entry["body"]["content"] for entry in manifest["state"]["history"]] == ["Hi."]
    assert manifest["state"]["fields"] == {"mood": "calm"}


async def _say_more(url: str) -> None:
    async with clew.open(url) as db:
        await db.thread("s-1").append(items=[clew.user("More.")], patches=[clew.set(["place"], "here")])


def test_a_volume_that_is_not_mounted_is_not_made_up(
    tmp_path: Path, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["session", "export", "s-1", "--volume", str(tmp_path / "no"), "--db", database, "--json"])

    assert code == 1
    assert json.loads(capsys.readouterr().err)["error"]["code"] == "invalid_argument"
    assert not (tmp_path / "no").exists()
