"""Behind a transaction pooler: connections change hands between any two calls, and nothing is mixed up."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import clew
from clew.core.values import AppendTo, Changeset, Put, Record, Scope
from clew.database.search import index_threads
from tests.support.postgres import new_directory, server_account
from tests.support.shared_postgres import PostgresDatabase

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed on this machine"),
]

CONFIGURATION = """\
[databases]
* = host=127.0.0.1 port={port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own}
unix_socket_dir =
auth_type = plain
auth_file = {directory}/users
pool_mode = transaction
default_pool_size = 3
"""


@pytest.fixture
def pooler_url(postgres_database: PostgresDatabase) -> Iterator[str]:
    """The URL of the test's database through a pooler that has three connections."""
    server = urlsplit(postgres_database.url)
    directory = new_directory()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        own = listener.getsockname()[1]
    (directory / "users").write_text(f'"postgres" "{server.password}"\n')
    (directory / "settings").write_text(CONFIGURATION.format(port=server.port, own=own, directory=directory))
    process = subprocess.Popen(
        [str(PGBOUNCER), "-q", "settings"], cwd=directory, stderr=subprocess.DEVNULL, **server_account()
    )
    _wait_for(own, process, directory)
    yield f"postgresql://postgres:{server.password}@127.0.0.1:{own}{server.path}?pooler=transaction"
    process.terminate()
    process.wait(10)
    shutil.rmtree(directory, ignore_errors=True)


def _wait_for(port: int, process: subprocess.Popen[bytes], directory: Path) -> None:
    for _ in range(200):
        assert process.poll() is None, f"the pooler ended: {sorted(directory.iterdir())}"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.02)
    raise TimeoutError("the pooler does not answer")


async def live(db: clew.Database, name: str) -> None:
    """A life with everything in it: appends, commits, forks, reads, records, jobs and a search."""
    thread = await db.create(name)
    for number in range(6):
        await thread.append(items=[clew.user(f"{name} says {number}")], patches=[clew.increment(["n"])])
    await db.commit(
        [Put(record=Record(kind="k", id=name, body=name)), AppendTo(thread=name, change=Changeset())]
    )
    branch = await thread.fork(f"{name}-b", at=3)
    await branch.append(items=[clew.user("elsewhere")])
    await thread.log().pop()
    assert (await thread.state())["n"] == 6
    assert [item.body["content"] for item in await thread.items(last=1)] == [f"{name} says 4"]
    assert (await branch.verify()).ok


class TestPooler:
    store_name = "postgres"

    @pytest.mark.promise("S-04", "S-05", "T-02")
    async def test_many_tenants_share_three_connections(self, pooler_url: str) -> None:
        async with (
            clew.open(f"{pooler_url}&pool_max=8") as one,
            clew.open(f"{pooler_url}&pool_max=8") as other,
        ):
            scopes = [db.scope(tenant=f"tenant-{n}", user="alice") for n in range(6) for db in (one, other)]
            await asyncio.gather(*(live(db, f"life-{n}") for n, db in enumerate(scopes)))
            for n in range(6):
                await index_threads(one.store, Scope(tenant=f"tenant-{n}"))
            counts = [len((await db.threads()).threads) for db in scopes]
            threads = [{hit.thread for hit in await db.search("says")} for db in scopes]

        assert counts == [4] * 12
        assert threads == [{f"life-{n // 2 * 2}", f"life-{n // 2 * 2 + 1}"} for n in range(12)]
