"""The PostgreSQL that tests run on behaves as the tests assume."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import psycopg
import pytest

from tests.support import postgres
from tests.support.postgres import PostgresNotFound, PostgresNotStarted, PostgresServer

if TYPE_CHECKING:
    from tests.support.shared_postgres import PostgresDatabase

pytestmark = pytest.mark.postgres

STARTS_A_SERVER_AND_DIES = """
import os
from tests.support.postgres import PostgresServer, find_binaries, new_directory
server = PostgresServer(binaries=find_binaries(), directory=new_directory())
server.start()
print(server.directory, (server.data / "postmaster.pid").read_text().split()[0], flush=True)
os._exit(9)
"""


def count_rows(url: str) -> int:
    """How many rows the table `kept` has."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM kept").fetchone()
    return int(row[0]) if row else 0


def write_a_row(url: str) -> None:
    """Commit one row to the table `kept`."""
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (id integer)")
        connection.execute("INSERT INTO kept VALUES (1)")


@pytest.mark.parametrize("attempt", [1, 2])
def test_every_test_has_an_empty_database_of_its_own(
    postgres_database: PostgresDatabase, attempt: int
) -> None:
    write_a_row(postgres_database.url)

    assert count_rows(postgres_database.url) == 1, f"attempt {attempt}"


def test_a_database_can_be_opened_as_another_user(postgres_database: PostgresDatabase) -> None:
    name = f"guest_of_{postgres_database.name}"
    with psycopg.connect(postgres_database.url, autocommit=True) as connection:
        connection.execute(psycopg.sql.SQL("CREATE ROLE {} LOGIN").format(psycopg.sql.Identifier(name)))
    with psycopg.connect(postgres_database.url_for(name)) as connection:
        row = connection.execute("SELECT current_user").fetchone()
    with psycopg.connect(postgres_database.url, autocommit=True) as connection:
        connection.execute(psycopg.sql.SQL("DROP ROLE {}").format(psycopg.sql.Identifier(name)))

    assert row == (name,)


def test_the_server_writes_to_disk_before_it_answers(postgres_database: PostgresDatabase) -> None:
    query = "SELECT current_setting('fsync'), current_setting('synchronous_commit')"
    with psycopg.connect(postgres_database.url) as connection:
        row = connection.execute(query).fetchone()

    assert row == ("on", "on")


@pytest.mark.crash
def test_a_killed_server_comes_back_with_what_it_had_committed(private_postgres: PostgresServer) -> None:
    private_postgres.start()
    private_postgres.create_database("mine")
    write_a_row(private_postgres.url("mine"))
    private_postgres.kill()
    with pytest.raises(psycopg.OperationalError):
        count_rows(private_postgres.url("mine"))
    private_postgres.start()

    assert count_rows(private_postgres.url("mine")) == 1


@pytest.mark.crash
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restarted_server_keeps_its_address(private_postgres: PostgresServer, mode: str) -> None:
    private_postgres.start()
    write_a_row(private_postgres.url())
    before = private_postgres.url()
    private_postgres.restart("fast" if mode == "fast" else "immediate")

    assert private_postgres.url() == before
    assert count_rows(before) == 1


@pytest.mark.crash
def test_a_server_does_not_outlive_the_process_that_started_it() -> None:
    command = [sys.executable, "-c", STARTS_A_SERVER_AND_DIES]
    process = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    directory, pid = process.stdout.split()
    deadline = time.monotonic() + 20
    while Path(directory).exists() and time.monotonic() < deadline:
        time.sleep(0.02)

    assert process.returncode == 9
    assert not Path(directory).exists()
    assert not psutil.pid_exists(int(pid)) or psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE


def test_a_server_that_cannot_start_says_why() -> None:
    server = PostgresServer(
        binaries=postgres.find_binaries(),
        directory=postgres.new_directory(),
        settings={"no_such_setting": "1"},
    )
    with pytest.raises(PostgresNotStarted, match="no_such_setting"):
        server.start()
    server.remove()


def test_no_binaries_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "_wheel_binaries", list)
    monkeypatch.setattr(postgres, "_system_binaries", list)

    with pytest.raises(PostgresNotFound, match="make test"):
        postgres.find_binaries()
