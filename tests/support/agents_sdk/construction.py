"""A pytest plugin for the SDK's own tests: where they build one of its sessions, they get one of ours.

Only construction changes. Each class below takes the arguments of the SDK's class of that name, opens a
database of ours, and is otherwise the adapter as it is.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
from collections import Counter
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import agents
import agents.extensions.memory
import agents.extensions.memory.async_sqlite_session
import agents.extensions.memory.encrypt_session
import agents.extensions.memory.sqlalchemy_session
import agents.memory
import agents.memory.sqlite_session
import pytest
from agents.items import TResponseInputItem
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

import clew
from clew.adapters.openai_agents import Session

RESULT = "CLEW_SDK_RESULT"
EXCLUSIONS = "CLEW_SDK_EXCLUDED"

databases: list[clew.Database] = []
counts: Counter[str] = Counter()


class Opening:
    """A database about to be opened, with some history; closed when the test is over."""

    def __init__(self, url: str, session_id: str, history: list[TResponseInputItem] | None = None) -> None:
        self._url, self._session_id, self._history = url, session_id, history
        counts[os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]] += 1

    def __await__(self) -> Generator[Any, None, clew.Database]:
        return self._open().__await__()

    async def _open(self) -> clew.Database:
        database = await clew.open(self._url)
        databases.append(database)
        if self._history:
            await Session(self._session_id, database).add_items(self._history)
        return database


def url_of(path: str | Path) -> str:
    """The file next to the one that the SDK's session would have used."""
    return "memory://" if str(path) == ":memory:" else f"sqlite:///{path}.clew"


class SQLiteSession(Session):
    """Built like the SDK's session on SQLite."""

    def __init__(
        self,
        session_id: str,
        db_path: str | Path = ":memory:",
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
        session_settings: Any = None,
    ) -> None:
        super().__init__(session_id, Opening(url_of(db_path), session_id), session_settings=session_settings)


class AsyncSQLiteSession(SQLiteSession):
    """Built like the SDK's asynchronous session on SQLite."""


class SQLAlchemySession(Session):
    """Built like the SDK's session on SQLAlchemy: the file of its engine says where our file is."""

    def __init__(
        self, session_id: str, *, engine: AsyncEngine, session_settings: Any = None, **tables: Any
    ) -> None:
        opening = Opening(url_of(engine.url.database or ":memory:"), session_id)
        super().__init__(session_id, opening, session_settings=session_settings)
        self.engine = engine

    @classmethod
    def from_url(cls, session_id: str, *, url: str, engine_kwargs: Any = None, **rest: Any) -> Session:
        """Built with an engine of its own."""
        return cls(session_id, engine=create_async_engine(url, **(engine_kwargs or {})), **rest)


class SimpleListSession(Session):
    """Built like the list of items that the SDK's tests of its runner use; it knows only the protocol."""

    _get_compaction_snapshot = None  # type: ignore[assignment] # hidden, as the list has none
    _atomic_replace_items = None  # type: ignore[assignment] # hidden, as the list has none

    def __init__(self, session_id: str = "test", history: list[TResponseInputItem] | None = None) -> None:
        super().__init__(session_id, Opening("memory://", session_id, history))
        self._ignore_ids_for_matching = False

    @property
    def saved_items(self) -> list[TResponseInputItem]:
        """What the list lets its tests look at: here it is read through the protocol."""
        with ThreadPoolExecutor(1) as apart:
            return apart.submit(asyncio.run, self.get_items()).result()


def pytest_configure(config: pytest.Config) -> None:
    """Put ours in the place of theirs, before any test is imported."""
    from tests.utils import simple_session  # type: ignore[import-not-found] # the SDK's, not ours

    memory, extensions = agents.memory, agents.extensions.memory
    for kind, modules in (
        (SQLiteSession, (agents, memory, memory.sqlite_session)),
        (AsyncSQLiteSession, (extensions, extensions.async_sqlite_session)),
        (SQLAlchemySession, (extensions, extensions.sqlalchemy_session)),
    ):
        for module in modules:
            setattr(module, kind.__name__, kind)
    _rebuild(simple_session)


def _rebuild(module: Any) -> None:
    """Define the classes that stand on the list of items anew, on ours."""
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if getattr(node, "name", "") != "SimpleListSession"]
    module.SimpleListSession = SimpleListSession
    exec(compile(tree, module.__file__, "exec"), vars(module))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that cannot apply, by file and name, and those that speak of no session."""
    exclusions = set(json.loads(os.environ.get(EXCLUSIONS, "[]")))
    skips = [
        item
        for item in items
        if f"{item.location[0]}::{_name_of(item)}" in exclusions or not _speaks_of_sessions(item)
    ]
    config.hook.pytest_deselected(items=skips)
    items[:] = [item for item in items if item not in skips]


def _speaks_of_sessions(item: pytest.Item) -> bool:
    """Whether a test's own lines hold the word."""
    assert isinstance(item, pytest.Function)
    return "ession" in inspect.getsource(item.function)


def _name_of(item: pytest.Item) -> str:
    """The name of a test without its class and its parameters."""
    return item.name.partition("[")[0]


@pytest.fixture(autouse=True)
def close_databases() -> Iterator[None]:
    """Close what a test has opened."""
    yield
    while databases:
        asyncio.run(databases.pop().close())


outcomes: dict[str, str] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Take note of what a test came to."""
    if report.when == "call" or report.outcome != "passed":
        outcomes[report.nodeid] = report.outcome


def pytest_sessionfinish() -> None:
    """Write down what every test came to, and how many of our sessions it built."""
    if RESULT in os.environ:
        results = {name: [outcome, counts[name]] for name, outcome in outcomes.items()}
        Path(os.environ[RESULT]).write_text(json.dumps(results, indent=1), encoding="utf-8")
