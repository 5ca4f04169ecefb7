"""The password of a database is seen by nobody: not in errors, not in tracebacks, not among arguments."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.cli.app import run
from clew.cli.backup import dumps
from clew.core.redaction import without_password
from clew.stores.postgres.pool import parse_url
from tests.support.postgres import find_binaries
from tests.support.shared_postgres import PostgresDatabase

pytestmark = pytest.mark.security

HALVES = ("Zebra", "Quagga")
"""The two parts of the password in every address below; neither may be seen."""
ADDRESSES = [
    "postgresql://me:Zebra%Quagga@127.0.0.1:1/db",
    "postgresql://me:Zebra%zzQuagga@127.0.0.1:1/db",
    "postgresql://me:Zebra%00Quagga@127.0.0.1:1/db",
    "postgresql://me:Zebra@Quagga@127.0.0.1:1/db",
    "postgresql://me:Zebra/Quagga@127.0.0.1:1/db",
    "postgresql://me:Zebra?Quagga@127.0.0.1:1/db",
    "postgresql://me:Zebra?Quagga=1@127.0.0.1:1/db",
    "postgresql://me:Zebra#Quagga@127.0.0.1:1/db",
    "postgresql://me:Zebra:Quagga@127.0.0.1:1/db",
    "postgresql://me:Zebra[Quagga@127.0.0.1:1/db",
    "postgresql://me:Zebra Quagga@127.0.0.1:1/db",
    "postgresql://me:Zebra\u2100Quagga@127.0.0.1:1/db",
    "postgresql://me:1/Zebra-Quagga@127.0.0.1:1/db",
    "postgresql://me:ZebraQuagga",
    "postgresql://me:ZebraQuagga/db",
    "postgresql://me:Zebra%40Quagga@127.0.0.1:1/db",
    "postgresql://me@127.0.0.1:1/db?password=ZebraQuagga",
    "postgresql://me@127.0.0.1:1/db?password=Zebra%Quagga&pool_max=none",
    "postgresql://me@127.0.0.1:1/db?passwort=ZebraQuagga",
    "postgresql://me:Zebra%25Quagga@127.0.0.1:1/db?unknown=1",
    "postgresql://me:ZebraQuagga@127.0.0.1:1/db?pool_max=0",
    "postgres:me:ZebraQuagga@127.0.0.1/db",
    "postgresql:/me:ZebraQuagga@127.0.0.1/db",
    "postgresql+psycopg://me:ZebraQuagga@127.0.0.1/db",
    "mysql://me:Zebra/Quagga@127.0.0.1/db",
    "me:ZebraQuagga@127.0.0.1/db",
    "host=127.0.0.1 port=1 user=me password=ZebraQuagga",
    "host=127.0.0.1 port=1 user=me password='Zebra Quagga'",
    "password = ZebraQuagga host=127.0.0.1",
    "dbname=db user=me password=Zebra\\ Quagga",
]


def passwords_in(text: str) -> list[str]:
    return [half for half in HALVES if half in text]


@pytest.mark.promise("F-14")
@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("words", [["doctor"], ["backup", "b"], ["restore", "f", "--force"], ["migrate"]])
def test_no_command_shows_a_password(
    address: str,
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").write_bytes(b"PGDMP")

    codes = [run([*words, "--db", address, *extra]) for extra in ([], ["--json"])]
    output = capsys.readouterr()

    assert codes == [1, 1]
    assert passwords_in(output.out + output.err + caplog.text) == []
    assert passwords_in(" ".join(path.name for path in tmp_path.iterdir())) == []


@pytest.mark.parametrize("address", ADDRESSES)
async def test_no_traceback_shows_a_password(address: str) -> None:
    with pytest.raises(clew.ClewError) as failure:
        await clew.open(address)
    text = "".join(traceback.format_exception(failure.value))
    causes: list[BaseException] = []
    error: BaseException | None = failure.value
    while error is not None:
        causes.append(error)
        error = error.__cause__ or error.__context__

    source = "await clew.open(address)"
    assert source in text
    assert passwords_in(text) == []
    assert passwords_in(" ".join(map(repr, causes))) == []


@pytest.mark.parametrize("address", [address for address in ADDRESSES if "@" in address or "pass" in address])
def test_an_address_is_shown_without_its_password(address: str) -> None:
    assert passwords_in(without_password(address)) == []


def test_what_is_no_password_is_shown() -> None:
    urls = [
        without_password(url)
        for url in ("sqlite:///agent.db", "postgresql://me@host:5432/db?sslmode=require")
    ]

    assert urls == ["sqlite:///agent.db", "postgresql://me@host:5432/db?sslmode=require"]


def test_an_address_keeps_its_password_to_itself() -> None:
    address = parse_url("postgresql://me:Zebra%40Quagga@127.0.0.1:1/db?sslpassword=Zebra&pool_max=3")

    assert address.secrets == {"password": "Zebra@Quagga", "sslpassword": "Zebra"}
    assert passwords_in(repr(address) + address.public_conninfo) == []


# Programs.


@pytest.fixture
def command_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """PostgreSQL's programs, which write down their arguments as the system shows them to others."""
    record = tmp_path / "arguments"
    binaries = find_binaries()
    for program in ("pg_dump", "pg_restore"):
        script = tmp_path / program
        script.write_text(f'#!/bin/sh\ncat /proc/$$/cmdline >> {record}\nexec {binaries / program} "$@"\n')
        script.chmod(0o755)
    monkeypatch.setattr(dumps, "_places", lambda program: [str(tmp_path / program)])
    return lambda: record.read_text().replace("\0", " ")


@pytest.mark.postgres
@pytest.mark.promise("F-14")
def test_no_argument_of_a_program_holds_the_password(
    postgres_database: PostgresDatabase, command_lines: Callable[[], str], tmp_path: Path
) -> None:
    url = postgres_database.url
    password = postgres_database.server.password

    codes = [run(["backup", str(tmp_path / "b"), "--db", url])]
    codes.append(run(["restore", str(tmp_path / "b"), "--force", "--db", url]))

    assert (codes, password in url) == ([0, 0], True)
    assert "--dbname=" in command_lines()
    assert password not in command_lines()


@pytest.mark.postgres
def test_a_password_that_is_wrong_is_not_shown_by_a_program(
    postgres_database: PostgresDatabase,
    command_lines: Callable[[], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = postgres_database.url.replace(postgres_database.server.password, "Zebra%20Quagga")

    code = run(["backup", str(tmp_path / "b"), "--db", url, "--json"])
    answer: Any = json.loads(capsys.readouterr().err)

    assert (code, answer["error"]["code"]) == (1, "store_unavailable")
    assert passwords_in(json.dumps(answer)) == []


def test_a_secret_that_a_program_would_show_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = "postgresql://me@127.0.0.1:1/db?sslpassword=ZebraQuagga"

    code = run(["backup", str(tmp_path / "b"), "--db", url, "--json"])
    answer: Any = json.loads(capsys.readouterr().err)

    assert (code, answer["error"]["code"]) == (1, "invalid_argument")
    assert passwords_in(json.dumps(answer)) == []
