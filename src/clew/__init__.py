"""Clew: durable threads for AI agents."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from clew.core.errors import ClewError, VersionConflict
from clew.core.items import assistant, call, result, system, user
from clew.core.patch import append, delete, increment, insert, max, merge, min, remove, set, union
from clew.core.values import Absent, AnyVersion, Changeset, Exact, Item, Job, Limits, Record, Scope
from clew.database.database import Database
from clew.database.thread import Thread
from clew.urls import open

if TYPE_CHECKING:
    from clew.agents import Agent
    from clew.runtime import (
        Context,
        Delta,
        Message,
        MessageAdded,
        ModelRequest,
        RunFinished,
        Runtime,
        RuntimeConfig,
        State,
        StateLog,
        Suspend,
        TextDelta,
        ToolContext,
        guardrail,
        input,
        loaded,
        persistent,
        respond,
        run_agent,
        tool,
    )
    from clew.testing import ScriptedModel

__version__ = "0.1.0"

__all__ = [
    "Absent",
    "Agent",
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
    "MessageAdded",
    "ModelRequest",
    "Record",
    "RunFinished",
    "Runtime",
    "RuntimeConfig",
    "Scope",
    "ScriptedModel",
    "State",
    "StateLog",
    "Suspend",
    "TextDelta",
    "Thread",
    "ToolContext",
    "VersionConflict",
    "append",
    "assistant",
    "call",
    "delete",
    "guardrail",
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
    "respond",
    "result",
    "run_agent",
    "set",
    "system",
    "tool",
    "union",
    "user",
]

_ROOMS = {"Agent": "clew.agents", "ScriptedModel": "clew.testing"}
"""The packages of names that are not the runtime's, and are likewise imported when they are first used."""


def __getattr__(name: str) -> Any:
    """The names of the runtime, which is imported when one of them is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'clew' has no attribute {name!r}")
    return getattr(import_module(_ROOMS.get(name, "clew.runtime")), name)


def __dir__() -> list[str]:
    """Every public name, those that are not imported yet among them."""
    return sorted({*globals(), *__all__})
