"""Holdfast: durable threads for AI agents."""

from typing import TYPE_CHECKING, Any

from holdfast.core.errors import HoldfastError, VersionConflict
from holdfast.core.items import assistant, call, result, system, user
from holdfast.core.making import append, delete, increment, insert, max, merge, min, remove, set, union
from holdfast.core.values import Absent, Anywhere, Changeset, Exact, Item, Job, Limits, Record, Scope
from holdfast.opening import open
from holdfast.threads.database import Database
from holdfast.threads.thread import Thread

if TYPE_CHECKING:
    from holdfast.runtime import (
        Context,
        Delta,
        Log,
        Message,
        Runtime,
        State,
        input,
        kept,
        loaded,
        run_agent,
        tool,
    )

__version__ = "0.1.0"

__all__ = [
    "Absent",
    "Anywhere",
    "Changeset",
    "Context",
    "Database",
    "Delta",
    "Exact",
    "HoldfastError",
    "Item",
    "Job",
    "Limits",
    "Log",
    "Message",
    "Record",
    "Runtime",
    "Scope",
    "State",
    "Thread",
    "VersionConflict",
    "append",
    "assistant",
    "call",
    "delete",
    "increment",
    "input",
    "insert",
    "kept",
    "loaded",
    "max",
    "merge",
    "min",
    "open",
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
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    from holdfast import runtime

    return getattr(runtime, name)
