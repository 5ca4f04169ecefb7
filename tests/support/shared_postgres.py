"""One PostgreSQL for the whole run, started when a test first asks for it.

The process that began the run owns the server. Test processes (there are several under xdist) ask for its
address over a socket and wait for the answer; the owner stops it when the run ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import threading
import time
import uuid
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import pytest

from clew.stores.postgres.schema import migrate
from tests.support.postgres import PostgresAddress, PostgresServer, find_binaries, new_directory
from tests.support.promises import store_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ASK_AT = "CLEW_TEST_POSTGRES"
TEMPLATE = "clew_template"
LINGER_SECONDS = 3
FIXTURES = {"postgres_server", "postgres_database", "postgres_url", "private_postgres"}


def prepare_template(url: str) -> None:
    """Bring the database that every test's database is copied from up to date."""
    asyncio.run(migrate(url))


class SharedPostgres:
    """The run's one server, lent to whoever connects to the socket and asks."""

    def __init__(self) -> None:
        self._directory = new_directory()
        self.place = self._directory / "ask"
        self._listener = socket.socket(socket.AF_UNIX)
        self._server: PostgresServer | None = None
        self._thread = threading.Thread(target=self._answer_all, name="shared-postgres", daemon=True)

    def open(self) -> None:
        """Take questions from now on."""
        self._listener.bind(str(self.place))
        self._listener.listen(64)
        self._thread.start()

    def close(self) -> None:
        """Stop taking questions, and stop the server if anybody ever asked for it."""
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(self.place))
            line.sendall(b"close\n")
        self._thread.join()
        self._listener.close()
        if self._server is not None:
            self._server.remove()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _answer_all(self) -> None:
        answer = b""
        while True:
            line, _ = self._listener.accept()
            with line, line.makefile("rb") as question:
                if question.readline() == b"close\n":
                    return
                answer = answer or self._answer()
                line.sendall(answer)

    def _answer(self) -> bytes:
        """Where the server is, or why there is none: every test that asks shall hear the reason."""
        try:
            self._server = PostgresServer(binaries=find_binaries(), directory=self._directory)
            self._server.start()
            self._server.create_database(TEMPLATE)
            prepare_template(self._server.url(TEMPLATE))
        except Exception as reason:  # noqa: BLE001 - it is passed on to the tests, which raise it
            return json.dumps({"failed": f"{type(reason).__name__}: {reason}"}).encode()
        return json.dumps(asdict(self._server.address)).encode()


def ask(place: str) -> PostgresAddress:
    """The address of the run's server, which is started by the first question."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(place)
        line.sendall(b"where\n")
        with line.makefile("rb") as answer:
            reply = json.loads(answer.read())
    if "failed" in reply:
        pytest.fail(reply["failed"], pytrace=False)
    return PostgresAddress(port=reply["port"], password=reply["password"])


STASH_KEY = pytest.StashKey[SharedPostgres]()


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        postgres = config.stash[STASH_KEY] = SharedPostgres()
        postgres.open()
        os.environ[ASK_AT] = str(postgres.place)


def pytest_unconfigure(config: pytest.Config) -> None:
    if postgres := config.stash.get(STASH_KEY, None):
        postgres.close()


# First, so that ``-m`` chooses by this mark as by those that are written down.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if store_of(item) == "postgres" or not FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.postgres)


@dataclass(frozen=True, kw_only=True)
class PostgresDatabase:
    """A database of one test's own, already at the newest schema."""

    server: PostgresAddress
    name: str

    @property
    def url(self) -> str:
        """Its connection URL, for the superuser."""
        return self.server.url(self.name)

    def url_for(self, user: str) -> str:
        """Its connection URL, for one user."""
        return self.server.url(self.name, user)


@pytest.fixture(scope="session")
def postgres_server() -> PostgresAddress:
    """The run's one PostgreSQL server."""
    return ask(os.environ[ASK_AT])


@pytest.fixture
def postgres_database(postgres_server: PostgresAddress) -> Iterator[PostgresDatabase]:
    """A fresh database for one test, which must leave no connection open."""
    database = PostgresDatabase(server=postgres_server, name=f"test_{uuid.uuid4().hex}")
    postgres_server.create_database(database.name, TEMPLATE)
    yield database
    count = _count_connections(database)
    postgres_server.drop_database(database.name)
    if count:
        pytest.fail(f"The test left {count} connection(s) to PostgreSQL open.", pytrace=False)


def _count_connections(database: PostgresDatabase) -> int:
    """How many connections are still there after the server had time to notice the closed ones."""
    deadline = time.monotonic() + LINGER_SECONDS
    while count := database.server.connections(database.name):
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return count


@pytest.fixture
def private_postgres() -> Iterator[PostgresServer]:
    """A server of the test's own, not yet started, that may be killed and restarted."""
    server = PostgresServer(binaries=find_binaries(), directory=new_directory())
    yield server
    server.remove()
