"""Holdfast: durable threads for AI agents."""

from holdfast.core.errors import HoldfastError, VersionConflict
from holdfast.core.items import assistant, call, result, system, user
from holdfast.core.making import append, delete, increment, insert, max, merge, min, remove, set, union
from holdfast.core.values import Absent, Anywhere, Changeset, Exact, Item, Job, Limits, Record, Scope
from holdfast.opening import open
from holdfast.threads.database import Database
from holdfast.threads.thread import Thread

__all__ = [
    "Absent",
    "Anywhere",
    "Changeset",
    "Database",
    "Exact",
    "HoldfastError",
    "Item",
    "Job",
    "Limits",
    "Record",
    "Scope",
    "Thread",
    "VersionConflict",
    "append",
    "assistant",
    "call",
    "delete",
    "increment",
    "insert",
    "max",
    "merge",
    "min",
    "open",
    "remove",
    "result",
    "set",
    "system",
    "union",
    "user",
]
