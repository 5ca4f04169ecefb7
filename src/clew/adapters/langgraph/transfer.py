"""Threads of LangGraph's own savers, as histories to import: those of its SQLite and PostgreSQL databases.

Bodies are taken apart into channels and messages, and these are stored as they are; no type that they name is
made. What is pickled or encrypted, or was written as JSON by an early release, is left out and reported.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Final, LiteralString, TypeAlias

import msgspec

from clew.adapters.langgraph.checkpoints import ThreadCheckpoints
from clew.adapters.langgraph.layout import (
    FORMAT,
    LAYOUT,
    WRITES,
    TaskWrites,
    checkpoint_key,
    encode,
    split_value,
    writes_name,
)
from clew.adapters.langgraph.leases import ThreadLeases
from clew.adapters.langgraph.maintenance import reindex
from clew.adapters.langgraph.put_plan import PutRequest, plan_put
from clew.adapters.langgraph.runs import REFUSE, GraphRuns
from clew.adapters.langgraph.serializer import BodyCipher, DataSerializer
from clew.adapters.langgraph.value_cache import CheckpointCache, CheckpointValues
from clew.adapters.source import Row, SourceDatabase, milliseconds
from clew.core.errors import ClewError, InvalidArgument
from clew.core.patch import set as set_op
from clew.core.values import Changeset, Item
from clew.database.database import Database, owner_database
from clew.database.transfer import (
    ThreadHistory,
    ThreadTransfer,
    TransferOptions,
    TransferOutcome,
    transfer_thread,
)

COUNT: Final = "SELECT count(DISTINCT thread_id) FROM checkpoints"
CHECKPOINTS_SQLITE: Final = """
SELECT thread_id, checkpoint_id, checkpoint_ns, parent_checkpoint_id, type, checkpoint, metadata, NULL
FROM checkpoints ORDER BY thread_id, checkpoint_id, checkpoint_ns
"""
# A checkpoint holds small values itself; the others are found by the versions that it names.
CHECKPOINTS_POSTGRES: Final = """
SELECT thread_id, checkpoint_id, checkpoint_ns, parent_checkpoint_id, 'jsonb', checkpoint, metadata, (
    SELECT array_agg(ARRAY[convert_to(blobs.channel, 'UTF8'), convert_to(blobs.type, 'UTF8'), blobs.blob])
    FROM checkpoint_blobs AS blobs
    JOIN jsonb_each_text(checkpoints.checkpoint -> 'channel_versions') AS named (channel, version)
        ON blobs.channel = named.channel AND blobs.version = named.version
    WHERE blobs.thread_id = checkpoints.thread_id AND blobs.checkpoint_ns = checkpoints.checkpoint_ns
)
FROM checkpoints ORDER BY thread_id COLLATE "C", checkpoint_id COLLATE "C", checkpoint_ns COLLATE "C"
"""
WRITES_SQLITE: Final = """
SELECT thread_id, checkpoint_id, checkpoint_ns, task_id, task_path, idx, channel, type, value
FROM writes ORDER BY thread_id, checkpoint_id, checkpoint_ns, task_id, idx
"""
WRITES_SQLITE_WITHOUT_PATHS: Final = """
SELECT thread_id, checkpoint_id, checkpoint_ns, task_id, '', idx, channel, type, value
FROM writes ORDER BY thread_id, checkpoint_id, checkpoint_ns, task_id, idx
"""
WRITES_POSTGRES: Final = """
SELECT thread_id, checkpoint_id, checkpoint_ns, task_id, task_path, idx, channel, type, blob
FROM checkpoint_writes
ORDER BY thread_id COLLATE "C", checkpoint_id COLLATE "C", checkpoint_ns COLLATE "C", task_id, idx
"""
WRITES_POSTGRES_WITHOUT_PATHS: Final = """
SELECT thread_id, checkpoint_id, checkpoint_ns, task_id, '', idx, channel, type, blob
FROM checkpoint_writes
ORDER BY thread_id COLLATE "C", checkpoint_id COLLATE "C", checkpoint_ns COLLATE "C", task_id, idx
"""
EMPTY: Final = "empty"

CheckpointRows: TypeAlias = tuple[Row, list[Row]]
"""The row of a checkpoint, and those of its writes."""


async def count_threads(source: SourceDatabase) -> int:
    """The number of threads."""
    return sum([number async for (number,) in source.rows(COUNT)])


async def transfer_threads(
    source: SourceDatabase, db: Database, options: TransferOptions
) -> AsyncIterator[ThreadTransfer]:
    """Take in every thread with all its checkpoints, as ``Checkpointer`` would have put them."""
    async for thread, rows in _rows_by_thread(source):
        history = _ThreadPlan().history(thread, rows, options)
        transfer = await transfer_thread(db, history, options)
        if not options.dry_run and transfer.outcome in (TransferOutcome.IMPORTED, TransferOutcome.PRESENT):
            await _index_thread(owner_database(db, options.owner), history.thread)
        yield transfer


async def _index_thread(db: Database, thread: str) -> None:
    """Make the index of a thread that has none yet."""
    runs = GraphRuns(ThreadLeases(seconds=1.0), REFUSE, wait_seconds=0.0)
    checkpoints = ThreadCheckpoints(DataSerializer(), BodyCipher(), runs)
    if await checkpoints.threads.read_entry(db, thread) is None:
        await reindex(db, checkpoints, thread)


# Rows.


async def _rows_by_thread(source: SourceDatabase) -> AsyncIterator[tuple[str, list[CheckpointRows]]]:
    """The checkpoints of one thread after another, the oldest first."""
    thread, rows = "", list[CheckpointRows]()
    async for checkpoint, writes in _checkpoints_with_writes(source):
        if rows and checkpoint[0] != thread:
            yield thread, rows
            rows = []
        thread = checkpoint[0]
        rows.append((checkpoint[1:], writes))
    if rows:
        yield thread, rows


async def _checkpoints_with_writes(source: SourceDatabase) -> AsyncIterator[CheckpointRows]:
    """Each checkpoint with its writes: two tables, read side by side in the same order."""
    writes = source.rows(await _writes_query(source))
    write = await anext(writes, None)
    async for checkpoint in source.rows(CHECKPOINTS_POSTGRES if source.is_postgres else CHECKPOINTS_SQLITE):
        own: list[Row] = []
        while write is not None and write[:3] <= checkpoint[:3]:
            if write[:3] == checkpoint[:3]:  # a write may have outlived its checkpoint
                own.append(write[3:])
            write = await anext(writes, None)
        yield checkpoint, own


async def _writes_query(source: SourceDatabase) -> LiteralString:
    table = "checkpoint_writes" if source.is_postgres else "writes"
    has_paths = "task_path" in (await source.columns()).get(table, frozenset())
    if source.is_postgres:
        return WRITES_POSTGRES if has_paths else WRITES_POSTGRES_WITHOUT_PATHS
    return WRITES_SQLITE if has_paths else WRITES_SQLITE_WITHOUT_PATHS


# Histories.


class _ThreadPlan:
    """The changesets of one thread, made one checkpoint after another."""

    def __init__(self) -> None:
        self._serializer = DataSerializer()
        self._cache = CheckpointCache()
        self._ends: dict[str, int] = {}

    def history(self, thread: str, rows: Iterable[CheckpointRows], options: TransferOptions) -> ThreadHistory:
        changes: list[Changeset] = []
        left_out: list[str] = []
        for row, write_rows in rows:
            id, namespace = row[:2]
            try:
                request, time = self._request_of(row)
                changes.append(self._put_change(request, time))
            except (ClewError, msgspec.MsgspecError, TypeError, ValueError) as error:
                left_out.append(f"checkpoint {id!r}: {error}")
                continue
            writes, refused = self._writes_change(checkpoint_key(namespace, id), write_rows, time)
            changes += [writes] if writes is not None else []
            left_out += [f"a write of checkpoint {id!r}: {problem}" for problem in refused]
        if changes:
            mark = Changeset(patches=(set_op([FORMAT], {"layout": LAYOUT}),), reason="langgraph")
            changes.insert(0, msgspec.structs.replace(mark, time=changes[0].time))
        return ThreadHistory(
            thread=f"{options.prefix}{thread}",
            owner=options.owner,
            changesets=tuple(changes),
            left_out=tuple(left_out),
        )

    def _request_of(self, row: Row) -> tuple[PutRequest, int]:
        """A checkpoint as it would be put, with its values taken apart, and its time."""
        _, namespace, parent, kind, body, metadata, blobs = row
        checkpoint = dict(body) if isinstance(body, dict) else self._value_of(kind, body)
        values = dict(checkpoint.get("channel_values") or {})
        for channel, blob_kind, blob in blobs or ():
            if (name := bytes(blob_kind).decode()) != EMPTY:
                values[bytes(channel).decode()] = self._value_of(name, blob)
        versions = checkpoint["channel_versions"]
        checkpoint["channel_values"] = {name: values[name] for name in values if name in versions}
        request = PutRequest(
            namespace=namespace,
            parent=parent or None,
            checkpoint=checkpoint,
            metadata=_json_object(metadata),
            new_versions=versions,
        )
        return request, milliseconds(checkpoint.get("ts")) or 0

    def _put_change(self, request: PutRequest, time: int) -> Changeset:
        parent = self._cache.get("", checkpoint_key(request.namespace, request.parent or ""))
        for channel, value in request.checkpoint["channel_values"].items():
            request.parts[channel] = split_value(self._serializer, value, f"channel {channel!r}")
        plan = plan_put(self._serializer, BodyCipher(), request, parent or CheckpointValues(), self._ends)
        self._ends = plan.ends
        versions = request.checkpoint["channel_versions"]
        self._cache.add("", request.key, CheckpointValues(versions=versions, values=plan.values))
        return Changeset(items=tuple(plan.items), reason="checkpoint", time=time)

    def _writes_change(self, key: str, rows: Sequence[Row], time: int) -> tuple[Changeset | None, list[str]]:
        """The changeset of a checkpoint's writes, one item for each task; and why some are left out."""
        by_task: dict[tuple[str, str], list[tuple[int, str, bytes]]] = {}
        problems: list[str] = []
        for task, path, index, channel, kind, body in rows:
            try:
                data = self._serializer.pack(self._value_of(kind, body), f"write to {channel!r}")
                by_task.setdefault((task, path or ""), []).append((index, channel, data))
            except (ClewError, msgspec.MsgspecError, ValueError) as error:
                problems.append(str(error))
        items = [
            Item(
                body=encode(TaskWrites(task=task, path=path, writes=writes)),
                codec="msgpack",
                log=WRITES,
                kind="writes",
                format=FORMAT,
                id=writes_name(key),
            )
            for (task, path), writes in by_task.items()
        ]
        change = Changeset(items=tuple(items), reason="writes", time=time) if items else None
        return change, problems

    def _value_of(self, kind: str | None, body: bytes | None) -> Any:
        """A stored value, its types left as their data.

        Raises:
            InvalidArgument: It is not stored in a way that can be read without making its types.
        """
        match kind:
            case "null":
                return None
            case "bytes":
                return bytes(body or b"")
            case "bytearray":
                return bytearray(body or b"")
            case "msgpack":
                return self._serializer.unpack(bytes(body or b""))
            case "json":
                value = msgspec.json.decode(body or b"null")
                if _has_constructors(value):
                    raise InvalidArgument(
                        problem="It was written as JSON with objects in it by an early release of LangGraph. "
                        "Let its saver write it again first."
                    )
                return value
            case "pickle":
                raise InvalidArgument(problem="It is pickled, and Clew never unpickles.")
            case _:
                raise InvalidArgument(problem=f"It is stored as {kind!r}, which cannot be read here.")


def _has_constructors(value: Any) -> bool:
    """Return whether JSON holds what stands for an object."""
    if isinstance(value, dict):
        return "lc" in value or any(map(_has_constructors, value.values()))
    return isinstance(value, list) and any(map(_has_constructors, value))


def _json_object(data: object) -> Mapping[str, Any]:
    """Metadata, from its text or as PostgreSQL's driver gives it."""
    value = msgspec.json.decode(data) if isinstance(data, str | bytes) else data
    return dict(value) if isinstance(value, dict) else {}
