"""The commands on PostgreSQL: threads move between stores unchanged, and a dump comes back whole."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

import clew
import clew.sync
from clew.cli.app import run
from clew.cli.backup import dumps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from clew.core.encoding import JSON
    from tests.support.shared_postgres import PostgresDatabase

pytestmark = pytest.mark.postgres


@pytest.fixture
def url(postgres_database: PostgresDatabase) -> str:
    """A database with a thread and a fork of it."""
    with clew.sync.open(postgres_database.url) as db:
        thread = db.create("trip", owner="alice")
        thread.append(items=[clew.user("Which train?")], patches=[clew.set(["mood"], "calm")], key="k1")
        thread.append(items=[clew.Item(body=b"\x00\xff", codec="raw", format="guest")])
        thread.fork("trip-b", at=1).append(items=[clew.user("By boat?")])
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

    export = value(capsys, "export", "-o", first, "--db", url)
    value(capsys, "import", first, "--db", file)
    value(capsys, "export", "-o", second, "--db", file)
    value(capsys, "import", second, "--db", elsewhere)
    again = value(capsys, "export", "-o", third, "--db", elsewhere)

    archives = {(tmp_path / name).read_bytes() for name in ("first", "second", "third")}
    assert len(archives) == 1
    assert again["threads"] == export["threads"]
    assert value(capsys, "verify", "--db", elsewhere)["ok"]


def test_a_dump_is_restored_elsewhere(
    url: str, elsewhere: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump, heads = tmp_path / "nightly.dump", tmp_path / "heads.json"

    backup_result = value(capsys, "backup", str(dump), "--db", f"{url}?pool_max=3")
    heads.write_text(json.dumps(backup_result))
    restore_result = value(capsys, "restore", str(dump), "--db", elsewhere)

    assert restore_result["ok"]
    assert value(capsys, "verify", "--heads", str(heads), "--db", elsewhere)["missing"] == []
    assert run(["restore", str(dump), "--db", elsewhere]) == 1
    assert run(["restore", str(dump), "--force", "--db", elsewhere]) == 0


# Rights.


@pytest.fixture
def login(postgres_database: PostgresDatabase, request: pytest.FixtureRequest) -> Iterator[str]:
    """A login that is a member of one role."""
    role, name = sql.Identifier(request.param), sql.Identifier(f"login_{uuid.uuid4().hex}")
    with psycopg.connect(postgres_database.url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN IN ROLE {}").format(name, role))
    yield postgres_database.url_for(name.as_string().strip('"'))
    with psycopg.connect(postgres_database.url, autocommit=True) as admin:
        admin.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(name))


@pytest.mark.promise("F-14")
@pytest.mark.parametrize("login", ["clew_maintenance"], indirect=True)
def test_maintenance_backs_up_every_tenant(
    url: str, login: str, elsewhere: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with clew.sync.open(url) as db:
        db.scope(tenant="acme").create("s-1").append(items=[clew.user("Hi.")])

    backup_result = value(capsys, "backup", str(tmp_path / "b"), "--db", login)
    restore_result = value(capsys, "restore", str(tmp_path / "b"), "--db", elsewhere)

    assert [(head["tenant"], head["hash"]) for head in restore_result["threads"]] == [
        (head["tenant"], head["hash"]) for head in backup_result["threads"]
    ]
    assert sorted({head["tenant"] for head in backup_result["threads"]}) == ["acme", "default"]


@pytest.mark.promise("F-14")
@pytest.mark.parametrize("login", ["clew_owner"], indirect=True)
def test_the_owner_restores(
    postgres_database: PostgresDatabase,
    url: str,
    login: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    value(capsys, "backup", str(tmp_path / "b"), "--db", url)
    role = sql.Identifier(str(psycopg.conninfo.conninfo_to_dict(login)["user"]))
    with psycopg.connect(url, autocommit=True) as admin:
        database = sql.Identifier(postgres_database.name)
        admin.execute(sql.SQL("GRANT clew_app TO {}").format(role))
        admin.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(database, role))
    restore_result = value(capsys, "restore", str(tmp_path / "b"), "--force", "--db", login)

    assert restore_result["ok"]
    assert value(capsys, "verify", "--db", url)["ok"]


@pytest.mark.promise("F-14", "F-10")
@pytest.mark.parametrize("login", ["clew_app"], indirect=True)
@pytest.mark.parametrize("words", [["backup", "b"], ["verify"]])
def test_a_login_that_does_not_see_every_tenant_is_told_so(
    url: str,
    login: str,
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run([*words, "--db", login, "--json"]) == 1
    assert json.loads(capsys.readouterr().err)["error"]["code"] == "forbidden"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("login", ["clew_app"], indirect=True)
def test_the_doctor_tells_an_application_what_it_did_not_look_at(
    url: str, login: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", "--db", login, "--json"]) == 1
    assert "Only tenant 'default'" in json.loads(capsys.readouterr().out)["problems"][0]
    assert value(capsys, "doctor", "--db", login, "--tenant", "default")["problems"] == []


# One moment.


@pytest.mark.promise("F-14", "B-06")
@pytest.mark.parametrize("store_name", ["postgres"])
def test_the_heads_of_a_backup_are_those_of_the_copy(
    url: str,
    elsewhere: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    store_name: str,
) -> None:
    begin = dumps._run

    async def write_first(*words: str, environment: Mapping[str, str]) -> None:
        async with clew.open(url) as db:
            await db.thread("trip").append(items=[clew.user("Too late for the copy.")])
        await begin(*words, environment=environment)

    monkeypatch.setattr(dumps, "_run", write_first)
    backup_result = value(capsys, "backup", str(tmp_path / "b"), "--db", url)
    restore_result = value(capsys, "restore", str(tmp_path / "b"), "--db", elsewhere)

    heads = {head["thread"]: (head["version"], head["hash"]) for head in backup_result["threads"]}
    assert {head["thread"]: (head["version"], head["hash"]) for head in restore_result["threads"]} == heads
    assert heads["trip"][0] == 2


@pytest.mark.promise("F-14")
def test_a_restore_keeps_what_else_is_in_the_database(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("CREATE TABLE public.mine AS SELECT 1 AS one")
    value(capsys, "backup", str(tmp_path / "b"), "--db", url)
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("UPDATE public.mine SET one = 2")
    value(capsys, "restore", str(tmp_path / "b"), "--force", "--db", url)

    with psycopg.connect(url) as admin:
        assert admin.execute("SELECT one FROM public.mine").fetchall() == [(2,)]


def test_a_store_that_is_open_goes_on_after_a_restore(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with clew.sync.open(url) as db:
        value(capsys, "backup", str(tmp_path / "b"), "--db", url)
        db.thread("trip").append(items=[clew.user("Not in the backup.")])
        value(capsys, "restore", str(tmp_path / "b"), "--force", "--db", url)
        after = db.thread("trip").append(items=[clew.user("After it.")])

    assert after.version == 3
    assert value(capsys, "verify", "--db", url)["ok"]


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
