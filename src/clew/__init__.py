"""Clew: durable threads for AI agents."""

from typing import TYPE_CHECKING, Any

from clew.core.errors import ClewError, VersionConflict
from clew.core.items import assistant, call, result, system, user
from clew.core.patch import append, delete, increment, insert, max, merge, min, remove, set, union
from clew.core.values import Absent, AnyVersion, Changeset, Exact, Item, Job, Limits, Record, Scope
from clew.database.database import Database
from clew.database.thread import Thread
from clew.urls import open

if TYPE_CHECKING:
    from clew.runtime import (
        Context,
        Delta,
        Message,
        Runtime,
        RuntimeConfig,
        State,
        StateLog,
        input,
        loaded,
        persistent,
        run_agent,
        tool,
    )

__version__ = "0.1.0"

__all__ = [
    "Absent",
    "AnyVersion",
    "Changeset",
    "ClewError",
    "Context",
    "Database",
    "Delta",
    "Exact",
    "Item",
    "Job",
    "Limits",
    "Message",
    "Record",
    "Runtime",
    "RuntimeConfig",
    "Scope",
    "State",
    "StateLog",
    "Thread",
    "VersionConflict",
    "append",
    "assistant",
    "call",
    "delete",
    "increment",
    "input",
    "insert",
    "loaded",
    "max",
    "merge",
    "min",
    "open",
    "persistent",
    "remove",
    "result",
    "run_agent",
    "set",
    "system",
    "tool",
    "union",
    "user",
]


def __getattr__(name: str) -> Any:
    """The names of the runtime, which is imported when one of them is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'clew' has no attribute {name!r}")
    from clew import runtime

    return getattr(runtime, name)
