"""Manifests: a session goes out as one document and comes in again as it was, and nothing else is left."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import clew
from clew.client import AsyncClient
from clew.core.errors import (
    InvalidArgument,
    ManifestConflict,
    ThreadNotFound,
    TranscriptBroken,
    TurnBusy,
    VersionConflict,
)
from clew.core.manifest.document import CORE_MEMORY, Manifest, encode_manifest, manifest_from, read_manifest
from clew.server.settings import ServerSettings
from clew.testing import ScriptedModel
from clew.workbench.session.manifests import export_manifest, import_manifest
from tests.server.conftest import Users, clients_of, in_memory

INTERPRETER = {
    "sandbox_id": "box-7",
    "workspace_path": "/workspace/code",
    "repository_url": "https://example.org/code.git",
    "repository_ref": "main",
    "context_paths": ["docs", "src"],
    "volume_name": "acme",
    "volume_subpath": "alice",
}
PARTS = ("history", "core_memory", "document_paths", "interpreter_state", "fields", "logs")


async def fill_thread(db: clew.Database, id: str = "t", owner: str | None = "alice") -> clew.Thread:
    """A session with something in every part, tool calls and a guest's bytes too."""
    thread = await db.create(id, owner=owner)
    await thread.append(
        items=[
            clew.user("Where am I?", id="m-1"),
            clew.call("c-1", "look", {"at": "map"}, run="r-1"),
            clew.result("c-1", {"town": "Æbeltoft"}, run="r-1"),
            clew.assistant("In Æbeltoft."),
            clew.Item(log="notes", role="system", body=b"\x00\xff", codec="raw", format="guest"),
        ],
        patches=[
            clew.set(["core_memory"], {"human": "Likes maps.", "goals": "See the sea."}),
            clew.set(["document_paths"], ["a.md", "b.md"]),
            clew.set(["interpreter_state"], INTERPRETER),
            clew.set(["sandbox_buffers"], {"out": "half a line"}),
            clew.set(["mood"], "calm"),
            clew.set(["$thread"], {"title": "A walk", "labels": ["trip"]}),
        ],
    )
    return thread


def without(manifest: Manifest, *parts: str) -> Manifest:
    """The same manifest without some parts."""
    document = msgspec.to_builtins(manifest)
    for part in parts:
        del document["state"][part]
    return manifest_from(document)


async def import_to(db: clew.Database, manifest: Manifest, id: str = "t", **options: Any) -> None:
    await import_manifest(db, id, manifest, now=1, owner="alice", **options)


# Round trips.


@pytest.mark.promise("F-02")
async def test_export_import_export_gives_the_same_bytes(db: clew.Database) -> None:
    await fill_thread(db)
    first = encode_manifest(await export_manifest(db, "t"))
    await import_to(db, read_manifest(first))
    second = encode_manifest(await export_manifest(db, "t"))

    assert second == first


@pytest.mark.promise("F-02")
async def test_a_manifest_taken_to_an_empty_store_gives_the_same_bytes(db: clew.Database) -> None:
    await fill_thread(db)
    first = encode_manifest(await export_manifest(db, "t"))
    async with clew.open("memory://") as other:
        await import_to(other, read_manifest(first))
        second = encode_manifest(await export_manifest(other, "t"))
        head = await other.thread("t").head()

    assert second == first
    assert (head.title, head.owner) == ("A walk", "alice")


@pytest.mark.promise("F-02")
async def test_a_manifest_says_its_format_and_holds_every_part() -> None:
    async with clew.open("memory://") as db:
        await fill_thread(db)
        document = json.loads(encode_manifest(await export_manifest(db, "t")))

    assert (document["format"], document["version"], document["session"]) == ("clew.session", 1, "t")
    assert set(document["state"]) == set(PARTS)
    assert document["state"]["interpreter_state"] == INTERPRETER
    assert document["state"]["document_paths"] == ["a.md", "b.md"]
    assert [entry["role"] for entry in document["state"]["history"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


async def test_core_memory_goes_out_with_its_defaults() -> None:
    async with clew.open("memory://") as db:
        await fill_thread(db)
        await db.create("new")
        full, new = await export_manifest(db, "t"), await export_manifest(db, "new")

    assert full.state.core_memory == {**CORE_MEMORY, "human": "Likes maps.", "goals": "See the sea."}
    assert new.state.core_memory == CORE_MEMORY


# Replacing.


@pytest.mark.promise("F-03")
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("how", ["missing", "null", "empty"])
async def test_a_part_that_is_not_there_is_reset_and_the_others_stay(part: str, how: str) -> None:
    async with clew.open("memory://") as db:
        await fill_thread(db)
        before = msgspec.to_builtins(await export_manifest(db, "t"))
        document = json.loads(json.dumps(before))
        if how == "missing":
            del document["state"][part]
        else:
            document["state"][part] = None if how == "null" else type(before["state"][part])()
        await import_to(db, manifest_from(document))
        after = msgspec.to_builtins(await export_manifest(db, "t"))
        await db.create("new")
        reset = msgspec.to_builtins(await export_manifest(db, "new"))

    assert after["state"][part] == reset["state"][part] != before["state"][part]
    assert {name: after["state"][name] for name in PARTS if name != part} == {
        name: before["state"][name] for name in PARTS if name != part
    }


@pytest.mark.promise("F-03")
async def test_an_empty_manifest_leaves_nothing_of_the_earlier_session(db: clew.Database) -> None:
    thread = await fill_thread(db)
    await import_to(db, manifest_from({"format": "clew.session", "version": 1, "session": "t"}))
    head = await thread.head()

    assert head.state == {}
    assert (len(await thread.items()), len(await thread.items(log="notes"))) == (0, 0)
    assert (head.title, head.counters.open) == (None, {})


@pytest.mark.promise("F-03")
async def test_the_buffers_of_a_sandbox_never_survive_an_import() -> None:
    async with clew.open("memory://") as db:
        thread = await fill_thread(db)
        await import_to(db, await export_manifest(db, "t"))
        state = await thread.state()

    assert "sandbox_buffers" not in state


@pytest.mark.promise("F-03")
async def test_core_memory_is_the_defaults_plus_the_keys_that_come_in() -> None:
    defaults = {"persona": "Kind.", "human": ""}
    async with clew.open("memory://") as db:
        await fill_thread(db)
        manifest = without(await export_manifest(db, "t"), "core_memory")
        document = msgspec.to_builtins(manifest)
        document["state"]["core_memory"] = {"goals": "Sleep."}
        await import_to(db, manifest_from(document), defaults=defaults)
        after = await export_manifest(db, "t", defaults)

    assert after.state.core_memory == {"persona": "Kind.", "human": "", "goals": "Sleep."}


@pytest.mark.promise("F-03")
async def test_open_calls_of_the_earlier_session_are_not_waited_for() -> None:
    async with clew.open("memory://") as db:
        thread = await db.create("t", owner="alice")
        await thread.append(items=[clew.user("Go."), clew.call("c-9", "walk", {})])
        await fill_thread(db, "other")
        await import_to(db, await export_manifest(db, "other"))
        head = await thread.head()

    assert head.counters.open == {}
    assert head.length() == 4


async def test_an_import_is_one_change_that_can_be_taken_back() -> None:
    async with clew.open("memory://") as db, clew.Runtime(db) as runtime:
        thread = await fill_thread(db)
        before = (await thread.head()).version
        await import_to(db, manifest_from({"format": "clew.session", "version": 1, "session": "t"}))
        after = (await thread.head()).version
        await runtime.rewind("t", to=before)
        texts = [item.role for item in await thread.items()]
        verdict = await thread.verify()

    assert after == before + 1
    assert texts == ["user", "assistant", "tool", "assistant"]
    assert verdict.ok


async def test_a_session_at_another_version_is_left_alone() -> None:
    async with clew.open("memory://") as db:
        thread = await fill_thread(db)
        manifest = await export_manifest(db, "t")
        with pytest.raises(VersionConflict):
            await import_to(db, manifest, expect=clew.Exact(7))
        version = (await thread.head()).version

    assert version == 1


async def test_a_turn_goes_on_from_what_was_imported(db: clew.Database) -> None:
    model = ScriptedModel("One.", lambda request: [f"{len(request.messages)} messages"])
    async with clients_of(db, model=model) as users:
        alice = users("alice")
        await alice.run_turn("t", "Forget me.")
        await fill_thread(db, "other")
        manifest = await users("alice").export_manifest("other")
        await alice.import_manifest("t", manifest)
        turn = await alice.run_turn("t", "And now?")
        state = await alice.sessions_state()

    assert turn.text == "5 messages"
    assert [(each.id, each.turns) for each in state.active] == [("t", 1)]


async def test_a_session_with_a_turn_at_work_is_left_alone() -> None:
    start, hold = asyncio.Event(), asyncio.Event()

    def line(request: object) -> list[str | asyncio.Event]:
        start.set()
        return [hold, "late"]

    async with in_memory(model=ScriptedModel(line)) as users:
        turn = asyncio.create_task(users().run_turn("t", "hi"))
        await start.wait()
        with pytest.raises(TurnBusy):
            await users().import_manifest("t", _empty("t"))
        hold.set()
        result = await turn
        await users().import_manifest("t", _empty("t"), expect=result.version)
        items = (await users().items("t")).items

    assert items == []


def _empty(session: str) -> bytes:
    return json.dumps({"format": "clew.session", "version": 1, "session": session}).encode()


# Documents that cannot be used.


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "other"}, "no manifest"),
        ({"version": 2}, "version 2"),
        ({"version": "1"}, "int"),
        ({"session": ""}, "session"),
        ({"histroy": []}, "histroy"),
        ({"state": {"histroy": []}}, "histroy"),
        ({"state": {"history": [{"role": "user"}]}}, "body"),
        ({"state": {"fields": {"$run": {}}}}, r"\$run"),
        ({"state": {"fields": {"core_memory": {}}}}, "core_memory"),
        ({"state": {"logs": {"history": []}}}, "history"),
        ({"state": {"document_paths": [1]}}, "document_paths"),
        ({"state": {"interpreter_state": {"sandbox_id": 7}}}, "sandbox_id"),
        ({"about": {"schema": "new"}}, "schema"),
    ],
)
def test_a_document_that_is_no_manifest_is_refused(change: dict[str, Any], words: str) -> None:
    document = {"format": "clew.session", "version": 1, "session": "t", **change}

    with pytest.raises(clew.ClewError, match=words):
        manifest_from(document)


def test_bytes_that_are_no_document_are_refused() -> None:
    with pytest.raises(InvalidArgument):
        read_manifest(b"\xff{")


# Over HTTP.


@pytest.mark.promise("F-02", "F-11")
async def test_a_session_goes_out_and_in_over_http(
    users: Users, alice: AsyncClient, db: clew.Database
) -> None:
    await fill_thread(db)
    first = await alice.export_manifest("t")
    result = await alice.import_manifest("t", first, key="k")
    again = await alice.import_manifest("t", first, key="k")
    second = await alice.export_manifest("t")

    assert second == first
    assert result.version == again.version == 2


@pytest.mark.promise("F-11")
async def test_an_export_is_the_manifest_unless_an_archive_is_asked_for(
    users: Users, alice: AsyncClient
) -> None:
    await alice.run_turn("t", "hi")
    address, headers = "/api/v1/sessions/t/export", users.headers("alice")
    manifest = await users.http.post(address, headers=headers)
    archive = await users.http.post(address, params={"format": "archive"}, headers=headers)
    other = await users.http.post(address, params={"format": "zip"}, headers=headers)

    assert manifest.headers["content-type"].startswith("application/json")
    assert manifest.json()["format"] == "clew.session"
    assert archive.headers["content-type"].startswith("application/x-ndjson")
    assert archive.content == await alice.export_archive("t")
    assert other.status_code == 422


@pytest.mark.promise("F-02", "F-11")
async def test_a_manifest_goes_to_another_tenant_and_back_over_http_unchanged(
    users: Users, alice: AsyncClient, db: clew.Database
) -> None:
    await fill_thread(db)
    headers = [users.headers("alice"), users.headers("alice", tenant=f"{users.tenant}-2")]
    first = await users.http.post("/api/v1/sessions/t/export", headers=headers[0])
    await users.http.post(
        "/api/v1/sessions/t/import",
        content=first.content,
        headers={**headers[1], "Content-Type": "application/json"},
    )
    second = await users.http.post("/api/v1/sessions/t/export", headers=headers[1])

    assert second.content == first.content


async def test_a_session_that_is_not_there_is_made_and_is_the_callers(users: Users) -> None:
    await users("alice").import_manifest("new", _empty("old"))
    owner = (await users("alice").thread("new")).owner
    with pytest.raises(ThreadNotFound):
        await users("bob").export_manifest("new")

    assert owner == "alice"


@pytest.mark.promise("F-04")
async def test_a_server_with_a_volume_keeps_what_it_exports(tmp_path: Path) -> None:
    settings = ServerSettings(volume=str(tmp_path))
    async with in_memory(settings=settings) as users:
        await users("Alice").run_turn("t/1", "hi")
        document = await users("Alice").export_manifest("t/1")
    where = f"{users.tenant}/meta/workspaces/default/users/=41lice/react-session-t=2f1.json"

    [(path, content)] = files_of(tmp_path).items()
    assert (path, encode_manifest(read_manifest(content))) == (where, document)


@pytest.mark.promise("F-04")
async def test_what_is_exported_for_somebody_stands_where_it_is_theirs(tmp_path: Path) -> None:
    settings = ServerSettings(volume=str(tmp_path))
    async with in_memory(settings=settings) as users:
        await users("alice").run_turn("t", "hi")
        await users("*").export_manifest("t")

    assert list(files_of(tmp_path)) == [
        f"{users.tenant}/meta/workspaces/default/users/alice/react-session-t.json"
    ]


@pytest.mark.promise("F-01")
async def test_a_server_writes_over_no_manifest_that_its_database_does_not_know(tmp_path: Path) -> None:
    settings = ServerSettings(volume=str(tmp_path))
    async with in_memory(settings=settings) as users:
        await users("alice").run_turn("t", "hi")
        await users("alice").export_manifest("t")
    before = files_of(tmp_path)
    tenant = users.tenant
    async with in_memory(settings=settings) as others:
        folder = tmp_path / tenant
        folder.rename(tmp_path / others.tenant)
        await others("alice").run_turn("t", "another")
        with pytest.raises(ManifestConflict):
            await others("alice").export_manifest("t")

    assert list(files_of(tmp_path).values()) == list(before.values())


def files_of(folder: Path) -> dict[str, bytes]:
    """All files of a folder by their paths."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


@pytest.mark.promise("F-03")
async def test_an_import_that_is_refused_leaves_the_episode_open(alice: AsyncClient) -> None:
    await alice.run_turn("t", "Hello")
    manifest = json.loads(await alice.export_manifest("t"))
    manifest["state"]["history"] = [{"role": "tool", "kind": "result", "call": "c", "body": 42}]
    with pytest.raises(TranscriptBroken):
        await alice.import_manifest("t", json.dumps(manifest).encode())
    before = await alice.session_status("t")
    await alice.import_manifest("t", _empty("t"))
    after = await alice.session_status("t")

    assert (before.status, after.status in ("ending", "ended")) == ("active", True)
