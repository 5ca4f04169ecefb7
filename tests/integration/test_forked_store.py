"""A store in a child process that was forked: an error, where there were no threads to answer."""

from __future__ import annotations

import asyncio
import os
import sys
import warnings
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.core.errors import HoldfastError
from tests.crash.apart import apart
from tests.support.shared_postgres import PostgresDatabase

CALLS: dict[str, Callable[[hf.Database], Coroutine[Any, Any, object]]] = {
    "append": lambda db: db.thread("thread").append(items=[hf.user("from the child")]),
    "items": lambda db: db.thread("thread").items(),
    "report": lambda db: db.report(),
    "close": lambda db: db.close(),
}


def use_in_child(url: str) -> tuple[dict[str, str], int]:
    """The code of the error that each call gives in a child, and the version that the parent comes to."""
    warnings.simplefilter("ignore", DeprecationWarning)  # about forking beside threads, which is on purpose
    with asyncio.Runner() as runner:
        db: hf.Database = runner.run(_opened(url))
        out, into = os.pipe()
        child = os.fork()
        if child == 0:
            _tell_codes(db, into)
        os.close(into)
        with os.fdopen(out, "r") as lines:
            codes = dict(line.split() for line in lines)
        os.waitpid(child, 0)
        committed = runner.run(db.thread("thread").append(items=[hf.user("from the parent")]))
        runner.run(db.close())
    return codes, committed.version


async def _opened(url: str) -> hf.Database:
    db = await hf.open(url)
    thread = await db.create("thread")
    await thread.append(items=[hf.user("from the parent")])
    await thread.items()
    return db


def _tell_codes(db: hf.Database, into: int) -> None:
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
    except HoldfastError as error:
        return error.code
    except TimeoutError:
        return "hung"
    return "answered"


EXPECTED = {"append": "store_forked", "items": "store_forked", "report": "store_forked", "close": "answered"}


@pytest.mark.promise("T-02")
def test_a_forked_child_cannot_use_the_store_of_its_parent(tmp_path: Path) -> None:
    codes, version = apart(use_in_child, f"sqlite:///{tmp_path}/agent.db")

    assert codes == EXPECTED
    assert version == 2


@pytest.mark.postgres
@pytest.mark.promise("T-02")
def test_a_forked_child_cannot_use_the_connections_of_its_parent(postgres_database: PostgresDatabase) -> None:
    codes, version = apart(use_in_child, postgres_database.url)

    assert codes == EXPECTED
    assert version == 2
