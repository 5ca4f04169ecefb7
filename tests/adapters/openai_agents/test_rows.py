"""What is stored is ours: read by our own API, in one thread, with none of the SDK's stores."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import apsw
import pytest

import clew
from clew.adapters import openai_agents
from clew.adapters.openai_agents import FORMAT, Session
from clew.core.log import reader
from clew.core.text.words import text_of
from tests.adapters.openai_agents.samples import agent, run, sample_items, says

STORES = {
    "SQLiteSession",
    "AsyncSQLiteSession",
    "AdvancedSQLiteSession",
    "SQLAlchemySession",
    "sqlite_session",
}
NO_SDK = """
import sys
sys.modules["agents"] = None
try:
    import clew.adapters.openai_agents
except Exception as error:
    print(type(error).__name__, error)
"""


def imports() -> set[str]:
    """Every name and module that the adapter imports."""
    names: set[str] = set()
    for module in pkgutil.iter_modules(openai_agents.__path__, "clew.adapters.openai_agents."):
        for node in ast.walk(ast.parse(inspect.getsource(import_module(module.name)))):
            if isinstance(node, ast.ImportFrom):
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
    return names


@pytest.mark.promise("B-10", "S-15")
def test_the_adapter_imports_none_of_the_sdk_s_stores() -> None:
    names = {part for name in imports() for part in name.split(".")}

    assert names & (STORES | {"extensions", "sqlite3", "sqlalchemy"}) == set()
    assert not issubclass(Session, tuple(_sdk_stores()))


def _sdk_stores() -> list[type]:
    return [
        getattr(import_module("agents.memory"), "SQLiteSession"),  # noqa: B009 - named here, used nowhere
        getattr(import_module("agents.extensions.memory"), "SQLAlchemySession"),  # noqa: B009 - the same
    ]


@pytest.mark.promise("B-10", "S-15")
async def test_the_rows_are_ours(session: Session, db: clew.Database) -> None:
    await run(agent(says("In Bremen.")), "Where is it?", session)
    window = await db.thread("alice").items()

    assert [(item.role, text_of(item), item.format) for item in window] == [
        ("user", "Where is it?", FORMAT),
        ("assistant", "In Bremen.", FORMAT),
    ]
    assert (await db.thread("alice").verify()).ok
    assert [hit.thread for hit in await db.search("bremen")] == ["alice"]


async def test_the_head_of_a_session_costs_the_same_however_long_it_is(
    session: Session, db: clew.Database
) -> None:
    await session.add_items(sample_items(1))
    row = await db.store.read(clew.Scope(), reader.read_thread("alice"))

    with pytest.raises(StopIteration) as stop:
        next(reader.read_state(row, row.version))
    assert stop.value.value == {}


@pytest.mark.promise("S-15")
async def test_the_file_holds_no_table_of_the_sdk(tmp_path: Path) -> None:
    async with Session("alice", clew.open(f"sqlite:///{tmp_path}/agent.db")) as session:
        await session.add_items(sample_items(1))
    connection = apsw.Connection(f"{tmp_path}/agent.db", flags=apsw.SQLITE_OPEN_READONLY)
    tables = {str(name) for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    connection.close()

    assert "threads" in tables
    assert not any(name.startswith("agent_") for name in tables)


def test_a_missing_sdk_says_what_to_install() -> None:
    process = subprocess.run([sys.executable, "-c", NO_SDK], capture_output=True, text=True, check=True)

    assert process.stdout.startswith("MissingExtra ")
    assert "pip install '.[openai-agents]'" in process.stdout
