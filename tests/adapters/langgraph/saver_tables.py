"""Databases as LangGraph's own SQLite and PostgreSQL savers leave them, which are not installed here."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

SQLITE_TABLES = """
CREATE TABLE checkpoints (
    thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
    parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
);
CREATE TABLE writes (
    thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
    task_id TEXT NOT NULL, task_path TEXT NOT NULL DEFAULT '', idx INTEGER NOT NULL,
    channel TEXT NOT NULL, type TEXT, value BLOB,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
);
"""
POSTGRES_TABLES = """
CREATE TABLE checkpoints (
    thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
    parent_checkpoint_id TEXT, type TEXT, checkpoint JSONB NOT NULL, metadata JSONB NOT NULL DEFAULT '{}',
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
);
CREATE TABLE checkpoint_blobs (
    thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', channel TEXT NOT NULL,
    version TEXT NOT NULL, type TEXT NOT NULL, blob BYTEA,
    PRIMARY KEY (thread_id, checkpoint_ns, channel, version)
);
CREATE TABLE checkpoint_writes (
    thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL,
    task_id TEXT NOT NULL, idx INTEGER NOT NULL, channel TEXT NOT NULL, type TEXT, blob BYTEA NOT NULL,
    task_path TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
);
"""
PRIMITIVES = (str, int, float, bool, type(None))


def write_tables(location: str, saver: InMemorySaver, serde: Any = None) -> None:
    """Write all threads of a saver in memory into a database, as the saver of that kind would have."""
    serde = serde or JsonPlusSerializer()
    if location.startswith("postgres"):
        with psycopg.connect(location) as connection:
            connection.execute(POSTGRES_TABLES.encode())
            for query, row in _postgres_rows(saver, serde):
                connection.execute(query.encode(), row)
        return
    with sqlite3.connect(location) as file:
        file.executescript(SQLITE_TABLES)
        for query, row in _sqlite_rows(saver, serde):
            file.execute(query, row)
    file.close()


def _names(config: Mapping[str, Any]) -> tuple[str, str, str]:
    fields = config["configurable"]
    return fields["thread_id"], fields["checkpoint_ns"], fields["checkpoint_id"]


def _write_rows(entry: Any, serde: Any) -> Iterator[tuple[Any, ...]]:
    counts: dict[str, int] = {}
    for task, channel, value in entry.pending_writes or []:
        index = WRITES_IDX_MAP.get(channel, counts.setdefault(task, 0))
        counts[task] += 1
        yield (*_names(entry.config), task, "", index, channel, *serde.dumps_typed(value))


def _parent_of(entry: Any) -> str | None:
    return _names(entry.parent_config)[2] if entry.parent_config else None


def _sqlite_rows(saver: BaseCheckpointSaver[Any], serde: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for entry in saver.list(None):
        kind, body = serde.dumps_typed(entry.checkpoint)
        metadata = json.dumps(entry.metadata).encode()
        row = (*_names(entry.config), _parent_of(entry), kind, body, metadata)
        yield "INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", row
        for write in _write_rows(entry, serde):
            yield "INSERT INTO writes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", write


def _postgres_rows(saver: BaseCheckpointSaver[Any], serde: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for entry in saver.list(None):
        thread, namespace, id = _names(entry.config)
        values = entry.checkpoint["channel_values"]
        inline = {name: value for name, value in values.items() if isinstance(value, PRIMITIVES)}
        body = json.dumps({**entry.checkpoint, "channel_values": inline})
        row = (thread, namespace, id, _parent_of(entry), None, body, json.dumps(entry.metadata))
        yield "INSERT INTO checkpoints VALUES (%s, %s, %s, %s, %s, %s, %s)", row
        for channel, version in entry.checkpoint["channel_versions"].items():
            if channel not in inline:
                blob = serde.dumps_typed(values[channel]) if channel in values else ("empty", None)
                yield (
                    "INSERT INTO checkpoint_blobs VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                    (thread, namespace, channel, version, *blob),
                )
        for write in _write_rows(entry, serde):
            *names, task, path, index, channel, kind, data = write
            yield (
                "INSERT INTO checkpoint_writes VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
                (*names, task, index, channel, kind, data, path),
            )
