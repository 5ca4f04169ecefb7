"""A store in a child process that was forked: an error, where there were no threads to answer."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import warnings
from collections.abc import Callable, Coroutine
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.core.errors import ClewError
from clew.core.log.commit import Plan
from clew.core.log.rows import StoreRead
from clew.stores.sqlite import connection
from tests.support.child_process import ChildProcess, pipe, run_in_child
from tests.support.shared_postgres import PostgresDatabase

CALLS: dict[str, Callable[[clew.Database], Coroutine[Any, Any, object]]] = {
    "append": lambda db: db.thread("thread").append(items=[clew.user("from the child")]),
    "items": lambda db: db.thread("thread").items(),
    "report": lambda db: db.report(),
    "close": lambda db: db.close(),
}


def use_in_child(url: str) -> tuple[dict[str, str], int]:
    """The code of the error that each call gives in a child, and the version that the parent comes to."""
    warnings.simplefilter("ignore", DeprecationWarning)  # about forking beside threads, which is on purpose
    with asyncio.Runner() as runner:
        db: clew.Database = runner.run(_open_with_thread(url))
        out, into = os.pipe()
        child = os.fork()
        if child == 0:
            _tell_codes(db, into)
        os.close(into)
        with os.fdopen(out, "r") as lines:
            codes = dict(line.split() for line in lines)
        os.waitpid(child, 0)
        commit = runner.run(db.thread("thread").append(items=[clew.user("from the parent")]))
        runner.run(db.close())
    return codes, commit.version


async def _open_with_thread(url: str) -> clew.Database:
    db = await clew.open(url)
    thread = await db.create("thread")
    await thread.append(items=[clew.user("from the parent")])
    await thread.items()
    return db


def _tell_codes(db: clew.Database, into: int) -> None:
    try:
        asyncio.set_event_loop(None)
        asyncio.events._set_running_loop(None)
        for name, call in CALLS.items():
            os.write(into, f"{name} {asyncio.run(_code(call(db)))}\n".encode())
    finally:
        sys.stderr.flush()
        os._exit(0)


async def _code(call: Coroutine[Any, Any, object]) -> str:
    try:
        async with asyncio.timeout(5):
            await call
    except ClewError as error:
        return error.code
    except TimeoutError:
        return "hung"
    return "answered"


def die_while_writing(path: str, line: Connection) -> None:
    """Fork a child that stays, and die in the middle of a commit."""
    warnings.simplefilter("ignore", DeprecationWarning)  # as above
    asyncio.run(_die_while_writing(path, line))


async def _die_while_writing(path: str, line: Connection) -> None:
    db = await clew.open(f"sqlite:///{path}")
    await clew.open(f"sqlite:///{path}")  # a store that is alone takes no turns
    await db.create("thread")
    child = os.fork()
    if child == 0:
        signal.pause()
    line.send(child)
    await db.store.change(clew.Scope(), lambda _: _die())


def _die() -> StoreRead[Plan]:
    """A plan that is never made."""
    os.kill(os.getpid(), signal.SIGKILL)
    yield from ()
    raise AssertionError


@pytest.mark.crash
@pytest.mark.promise("T-02")
async def test_a_child_that_outlives_its_parent_keeps_nobody_from_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_SECONDS", 1)
    path, (line, theirs) = tmp_path / "agent.db", pipe()
    parent: ChildProcess[None] = ChildProcess(die_while_writing, str(path), theirs)
    child = line.recv()
    try:
        await asyncio.to_thread(parent.process.join, 30)
        async with clew.open(f"sqlite:///{path}") as db:
            commit = await db.thread("thread").append(items=[clew.user("after all")])
    finally:
        os.kill(child, signal.SIGKILL)
        parent.end()

    assert commit.version == 1


CHILD_CODES = {
    "append": "store_forked",
    "items": "store_forked",
    "report": "store_forked",
    "close": "answered",
}


@pytest.mark.promise("T-02")
def test_a_forked_child_cannot_use_the_store_of_its_parent(tmp_path: Path) -> None:
    codes, version = run_in_child(use_in_child, f"sqlite:///{tmp_path}/agent.db")

    assert codes == CHILD_CODES
    assert version == 2


@pytest.mark.postgres
@pytest.mark.promise("T-02")
def test_a_forked_child_cannot_use_the_connections_of_its_parent(postgres_database: PostgresDatabase) -> None:
    codes, version = run_in_child(use_in_child, postgres_database.url)

    assert codes == CHILD_CODES
    assert version == 2
