"""The commands on PostgreSQL: threads move between stores unchanged, and a dump comes back whole."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

import pytest

import holdfast as hf
import holdfast.sync
from holdfast.cli.app import run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.core.encoding import JSON
    from tests.support.shared_postgres import PostgresDatabase

pytestmark = pytest.mark.postgres


@pytest.fixture
def url(postgres_database: PostgresDatabase) -> str:
    """A database with a thread and a fork of it."""
    with holdfast.sync.open(postgres_database.url) as db:
        thread = db.create("trip", owner="alice")
        thread.append(items=[hf.user("Which train?")], patches=[hf.set(["mood"], "calm")], key="k1")
        thread.append(items=[hf.Item(body=b"\x00\xff", codec="raw", format="guest")])
        thread.fork("trip-b", at=1).append(items=[hf.user("By boat?")])
    return postgres_database.url


@pytest.fixture
def elsewhere(postgres_database: PostgresDatabase) -> Iterator[str]:
    """The URL of an empty database on the same server."""
    name = f"restored_{uuid.uuid4().hex}"
    postgres_database.server.create_database(name)
    yield postgres_database.server.url(name)
    postgres_database.server.drop_database(name)


def value(capsys: pytest.CaptureFixture[str], *arguments: str) -> JSON:
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.promise("B-06", "T-13")
@pytest.mark.parametrize("store_name", ["postgres"])
def test_verify_finds_all_well(url: str, capsys: pytest.CaptureFixture[str], store_name: str) -> None:
    assert value(capsys, "verify", "--db", url)["ok"]


def test_a_thread_moves_to_sqlite_and_back_unchanged(
    url: str, elsewhere: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third = (str(tmp_path / name) for name in ("first", "second", "third"))
    file = str(tmp_path / "threads.db")

    told = value(capsys, "export", "-o", first, "--db", url)
    value(capsys, "import", first, "--db", file)
    value(capsys, "export", "-o", second, "--db", file)
    value(capsys, "import", second, "--db", elsewhere)
    again = value(capsys, "export", "-o", third, "--db", elsewhere)

    archives = {(tmp_path / name).read_bytes() for name in ("first", "second", "third")}
    assert len(archives) == 1
    assert again["threads"] == told["threads"]
    assert value(capsys, "verify", "--db", elsewhere)["ok"]


def test_a_dump_is_restored_elsewhere(
    url: str, elsewhere: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump, heads = tmp_path / "nightly.dump", tmp_path / "heads.json"

    made = value(capsys, "backup", str(dump), "--db", f"{url}?pool_max=3")
    heads.write_text(json.dumps(made))
    put = value(capsys, "restore", str(dump), "--db", elsewhere)

    assert put["ok"]
    assert value(capsys, "verify", "--heads", str(heads), "--db", elsewhere)["missing"] == []
    assert run(["restore", str(dump), "--db", elsewhere]) == 1
    assert run(["restore", str(dump), "--force", "--db", elsewhere]) == 0


def test_migrate_says_from_where_to_where(elsewhere: str, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = value(capsys, "migrate", "--db", elsewhere), value(capsys, "migrate", "--db", elsewhere)

    assert (first["from"], second["from"]) == (0, first["to"])


def test_the_doctor_warns_of_a_role_that_sees_everything(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", "--db", url, "--json"]) == 1
    assert "row-level security" in json.loads(capsys.readouterr().out)["problems"][0]


def test_a_server_that_is_not_there_gets_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["threads", "--db", "postgresql://127.0.0.1:1/nothing", "--json"]) == 1
    assert json.loads(capsys.readouterr().err)["error"]["code"] == "store_unavailable"
