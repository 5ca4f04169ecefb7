"""By command and over HTTP: what is erased or deleted goes from the volume too, if one is known."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.cli.app import run
from clew.server.settings import ServerSettings
from clew.workbench.volume.operators import Volumes
from tests.database.people import WORDS
from tests.server.conftest import Users, clients_of
from tests.workbench.volume.test_erasure import COUNTS, files_of, live, traces

pytestmark = pytest.mark.usefixtures("long_lock_wait")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "volume"


@pytest.fixture
def url(tmp_path: Path, root: Path) -> str:
    """A database with two people who have files."""
    url = f"sqlite:///{tmp_path}/agent.db"

    async def fill() -> None:
        async with clew.open(url) as db:
            for who in WORDS:
                await live(db, root, who)

    asyncio.run(fill())
    return url


def run_command(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """What a command answers in JSON."""
    run([*words, "--json"])
    output = capsys.readouterr()
    return json.loads(output.out or output.err)


@pytest.mark.promise("B-07")
def test_a_person_is_erased_from_the_volume_by_command(
    url: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--owner", "alice", "--volume", str(root), "--db", url]
    preview = run_command(capsys, "erase", *where, "--dry-run")
    receipt = run_command(capsys, "erase", *where, "--yes")

    assert (files_of(preview["counts"]), files_of(receipt["counts"])) == (COUNTS, COUNTS)
    assert traces(root, "alice") == []
    assert traces(root, "bob") != []


@pytest.mark.promise("B-07")
def test_the_environment_names_the_volume(
    url: str, root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEW_VOLUME", str(root))
    receipt = run_command(capsys, "erase", "--thread", "alice-1", "--db", url, "--yes")

    assert files_of(receipt["counts"]) == {"files in manifests": 6}


def test_a_volume_that_is_not_mounted_stops_the_erasure(
    url: str, tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["erase", "--owner", "alice", "--volume", str(tmp_path / "no"), "--db", url, "--yes"]
    answer = run_command(capsys, *words)
    preview = run_command(capsys, "erase", "--owner", "alice", "--db", url, "--dry-run")

    assert answer["error"]["code"] == "invalid_argument"
    assert preview["counts"]["threads"] == 2


@pytest.mark.promise("B-07")
def test_what_a_rule_lets_go_goes_from_the_volume(
    url: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["retain", "--older-than", "0.0000001h", "--volume", str(root), "--db", url, "--yes"]
    (result,) = run_command(capsys, *words)["rules"]

    assert files_of(result["receipt"]["counts"]) == {"files in manifests": 12}


# Over HTTP.


async def users_of(db: clew.Database, root: Path) -> None:
    db.files = None
    for who in WORDS:
        await live(db, root, who)


@pytest.mark.promise("B-07", "F-04")
async def test_a_server_with_a_volume_erases_from_it(root: Path) -> None:
    async with clew.open("memory://") as db:
        await users_of(db, root)
        async with clients_of(db, settings=ServerSettings(volume=str(root))) as users:
            result = await users("carol").operator.erase(owner="alice")

    assert files_of(dict(result.receipt.counts)) == COUNTS
    assert traces(root, "alice") == []


@pytest.mark.promise("F-04")
@pytest.mark.parametrize("what", ["threads", "sessions"])
async def test_a_thread_deleted_over_http_takes_its_manifest_along(root: Path, what: str) -> None:
    async with clew.open("memory://") as db:
        await users_of(db, root)
        async with clients_of(db, settings=ServerSettings(volume=str(root))) as users:
            await refuse_others(users, what)
            before = [path for path in traces(root, "alice") if "react-session-alice-1" in path]
            answer = await users.http.delete(f"/api/v1/{what}/alice-1", headers=users.headers("alice"))

    assert (answer.status_code, len(before)) == (204, 5)
    assert [path for path in traces(root, "alice") if "react-session-alice-1" in path] == []


async def refuse_others(users: Users, what: str) -> None:
    answer = await users.http.delete(f"/api/v1/{what}/alice-1", headers=users.headers("bob"))
    assert answer.status_code == 404


@pytest.mark.promise("F-05")
async def test_everything_about_a_person_holds_their_files_over_http(root: Path) -> None:
    async with clew.open("memory://", files=Volumes(root)) as db:
        for who in WORDS:
            await live(db, root, who)
        async with clients_of(db) as users:
            lines = [json.loads(line) for line in (await users("alice").export_person()).splitlines()]
    files = [line for line in lines if line["clew"] == "file"]

    assert {file["owner"] for file in files} == {"alice"}
    assert len(files) == 4 + 3
