"""Checkpoints in threads: put, read and listed. Every call belongs to the event loop of its database."""

import asyncio
import copy
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory, PendingWrite, writes_sort_key

from clew.adapters.langgraph import registry
from clew.adapters.langgraph.layout import (
    CHECKPOINTS,
    FORMAT,
    LAYOUT,
    WRITES,
    ChannelValue,
    CheckpointEntry,
    TaskWrites,
    ValueLocation,
    checkpoint_key,
    decode_entry,
    decode_names,
    decode_task_writes,
    encode,
    join_value,
    split_value,
    writes_name,
)
from clew.adapters.langgraph.put_plan import PutRequest, plan_put
from clew.adapters.langgraph.registry import CheckpointSelection, IndexEntry, ThreadRegistry
from clew.adapters.langgraph.serializer import BodyCipher, Serializer, TypeName
from clew.adapters.langgraph.value_cache import CheckpointCache, CheckpointValues, read_values
from clew.core.errors import NewerFormat, RevisionConflict, ThreadNotFound
from clew.core.values import AppendTo, Changeset, Item
from clew.database.database import Database

READ_AHEAD = 128
"""How many checkpoints are read at once when a delta channel looks back."""


class EncodedCheckpoint(msgspec.Struct, frozen=True):
    """A checkpoint that was read and is still encoded."""

    index_entry: IndexEntry
    entry: CheckpointEntry
    values: Mapping[str, ChannelValue]
    items: Sequence[Item]


class ThreadCheckpoints:
    """The checkpoints of all threads of a database.

    The caller encodes and decodes on its own loop or thread; what is awaited here only reads and writes.
    """

    def __init__(self, serializer: Serializer, body_cipher: BodyCipher) -> None:
        self.serializer = serializer
        self.threads = ThreadRegistry()
        self.cache = CheckpointCache()
        self._body_cipher = body_cipher
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def with_types(self, types: Iterable[type | TypeName]) -> "ThreadCheckpoints":
        """The same checkpoints with some more types allowed."""
        other = copy.copy(self)
        other.serializer = self.serializer.with_types(types)
        return other

    # Writing.

    async def put(self, db: Database, thread: str, request: PutRequest) -> None:
        """Add a checkpoint, with as much of its values as its parent does not have.

        Raises:
            InvalidValue: A value cannot be stored. Nothing was written.
        """
        lock = self._locks.setdefault(thread, asyncio.Lock())
        async with lock:  # puts of one thread wait here, rather than conflict in the store
            while not await self._try_put(db, thread, request):
                self.threads.forget(thread)

    async def _try_put(self, db: Database, thread: str, request: PutRequest) -> bool:
        """Try to put once; return whether the thread was unchanged meanwhile."""
        thread_entry = await self.threads.find(db, thread)
        if thread_entry is None:
            plan_put(
                self.serializer, self._body_cipher, request, CheckpointValues(), {}
            )  # refused before a thread is made
            thread_entry = await self.threads.get_or_create(db, thread)
        parent = await self._parent_values(db, thread, request)
        plan = plan_put(self.serializer, self._body_cipher, request, parent, thread_entry.ends)
        change = Changeset(items=tuple(plan.items), reason="checkpoint")
        claim = self.threads.claim_write(
            thread, revision=thread_entry.revision, record_id=thread_entry.record
        )
        try:
            await db.commit(
                [
                    AppendTo(thread=thread, change=change),
                    claim,
                    registry.index_write(_index_entry_of(thread, request)),
                ]
            )
        except (RevisionConflict, ThreadNotFound):
            self.cache.drop_thread(thread)
            return False
        self.threads.advance_entry(thread, thread_entry, plan.ends)
        versions = request.checkpoint["channel_versions"]
        self.cache.add(thread, request.key, CheckpointValues(versions=dict(versions), values=plan.values))
        return True

    async def _parent_values(self, db: Database, thread: str, request: PutRequest) -> CheckpointValues:
        """The parent of a checkpoint, as far as it is there."""
        if request.parent is None:
            return CheckpointValues()
        key = checkpoint_key(request.namespace, request.parent)
        if (parent := self.cache.get(thread, key)) is not None:
            return parent
        entry = _newest_entry(key, self._body_cipher, await _items_by_name(db, thread, [key]))
        if entry is None:
            return CheckpointValues()
        return (await self._load_values(db, thread, {key: entry}))[key]

    async def put_writes(
        self,
        db: Database,
        thread: str,
        key: str,
        task_writes: TaskWrites,
    ) -> None:
        """Add what a task wrote on the way from one checkpoint to the next."""
        codec, body = self._body_cipher.seal(encode(task_writes))
        item = Item(body=body, codec=codec, log=WRITES, kind="writes", format=FORMAT, id=writes_name(key))
        while True:
            await self.threads.get_or_create(db, thread)
            try:
                await db.thread(thread).append(items=[item], reason="writes")
                return
            except ThreadNotFound:
                self.threads.forget(thread)

    def pack_write(self, channel: str, value: Any) -> bytes:
        """The bytes of a value that a task wrote.

        Raises:
            InvalidValue: It cannot be encoded, or holds a type nobody named.
        """
        where = f"write to {channel!r}"
        data = self.serializer.pack(value, where)
        self.serializer.check_types(data, where)
        return data

    def encode_values(self, thread: str, request: PutRequest) -> PutRequest:
        """A checkpoint to put, with those of its values encoded that have changed.

        Raises:
            InvalidValue: One of them cannot be encoded.
        """
        values = request.checkpoint["channel_values"]
        new_values = {channel: values[channel] for channel in request.new_versions if channel in values}
        parts = {
            channel: split_value(
                self.serializer, value, f"channel {channel!r}", f"{thread} {request.namespace} {channel}"
            )
            for channel, value in new_values.items()
        }
        return msgspec.structs.replace(request, parts=parts)

    # Reading.

    async def get(
        self, db: Database, thread: str, namespace: str, id: str | None
    ) -> EncodedCheckpoint | None:
        """A checkpoint, or the newest of its namespace."""
        if id is not None:
            index_entry = IndexEntry(thread=thread, namespace=namespace, id=id)
            is_there, checkpoints = await asyncio.gather(
                registry.is_indexed(db, index_entry), self._load_checkpoints(db, [index_entry], {})
            )
            return checkpoints[0] if is_there and checkpoints else None
        selection, last = CheckpointSelection(thread=thread, namespace=namespace), None
        while page := await registry.find_checkpoints(db, selection, after=last, limit=1):
            if checkpoints := await self._load_checkpoints(db, page, {}):
                return checkpoints[0]
            last = page[-1]  # what a delete that was cut short has left
        return None

    async def page(
        self,
        db: Database,
        selection: CheckpointSelection,
        after: IndexEntry | None,
        filter: Mapping[str, Any],
        limit: int,
    ) -> tuple[list[EncodedCheckpoint], IndexEntry | None]:
        """Some checkpoints, the newest first, and where the next page begins if there is one."""
        index_entries = await registry.find_checkpoints(db, selection, after=after, limit=limit)
        return await self._load_checkpoints(db, index_entries, filter), index_entries[-1] if len(
            index_entries
        ) == limit else None

    async def _load_checkpoints(
        self, db: Database, index_entries: Sequence[IndexEntry], filter: Mapping[str, Any]
    ) -> list[EncodedCheckpoint]:
        """Checkpoints in the order they were found, without those that a filter leaves out."""
        by_thread: defaultdict[str, list[IndexEntry]] = defaultdict(list)
        for index_entry in index_entries:
            by_thread[index_entry.thread].append(index_entry)
        checkpoints: dict[IndexEntry, EncodedCheckpoint] = {}
        for thread, some in by_thread.items():
            checkpoints |= await self._load_from_thread(db, thread, some, filter)
        return [checkpoints[indexed] for indexed in index_entries if indexed in checkpoints]

    async def _load_from_thread(
        self, db: Database, thread: str, index_entries: Sequence[IndexEntry], filter: Mapping[str, Any]
    ) -> dict[IndexEntry, EncodedCheckpoint]:
        names = [
            name for index_entry in index_entries for name in (index_entry.key, writes_name(index_entry.key))
        ]
        items = await _items_by_name(db, thread, names)
        entries: dict[str, CheckpointEntry] = {}
        for key in [indexed.key for indexed in index_entries]:
            entry = _newest_entry(key, self._body_cipher, items)
            if entry is not None and self._passes_filter(entry, filter):
                entries[key] = entry
        values_by_key = await self._load_values(db, thread, entries)
        return {
            indexed: EncodedCheckpoint(
                indexed, entries[indexed.key], values_by_key[indexed.key].values, items
            )
            for indexed in index_entries
            if indexed.key in entries
        }

    def _passes_filter(self, entry: CheckpointEntry, filter: Mapping[str, Any]) -> bool:
        if not filter:
            return True
        metadata = self.serializer.unpack(entry.metadata)
        return all(metadata.get(name) == value for name, value in filter.items())

    async def _load_values(
        self, db: Database, thread: str, entries: Mapping[str, CheckpointEntry]
    ) -> dict[str, CheckpointValues]:
        """Checkpoints with their values, which are at hand from now on."""
        caches = [self.cache.get(thread, key) or CheckpointValues() for key in entries]
        tables = [entry.channels for entry in entries.values()]
        values = await read_values(db, self._body_cipher, thread, tables, [cache.values for cache in caches])
        values_by_key = {
            key: CheckpointValues(
                versions=self.serializer.unpack(entry.checkpoint)["channel_versions"], values=some
            )
            for (key, entry), some in zip(entries.items(), values, strict=True)
        }
        for key, checkpoint_values in values_by_key.items():
            self.cache.add(thread, key, checkpoint_values)
        return values_by_key

    def decode_checkpoint(self, encoded_checkpoint: EncodedCheckpoint) -> CheckpointTuple:
        """A checkpoint as LangGraph knows it."""
        thread, namespace, entry = (
            encoded_checkpoint.index_entry.thread,
            encoded_checkpoint.index_entry.namespace,
            encoded_checkpoint.entry,
        )
        checkpoint = self.serializer.unpack(entry.checkpoint)
        checkpoint["channel_values"] = {
            channel: join_value(self.serializer, value.location.shape, value.parts)
            for channel, value in encoded_checkpoint.values.items()
        }
        return CheckpointTuple(
            config=config_of(thread, namespace, encoded_checkpoint.index_entry.id),
            checkpoint=checkpoint,
            metadata=self.serializer.unpack(entry.metadata),
            parent_config=config_of(thread, namespace, entry.parent) if entry.parent else None,
            pending_writes=self._pending_writes(encoded_checkpoint.index_entry.key, encoded_checkpoint.items),
        )

    def _pending_writes(self, key: str, items: Sequence[Item]) -> list[PendingWrite]:
        """The writes of a checkpoint in LangGraph's order.

        Of two writes of one task with one index, the first counts; of special ones, which have negative
        indexes, the last.
        """
        values_by_task: dict[tuple[str, int], tuple[str, str, bytes]] = {}
        for item in items:
            if item.id == writes_name(key):
                task_writes = decode_task_writes(self._body_cipher.unseal(item.codec, item.body))
                for index, channel, data in task_writes.writes:
                    if index < 0 or (task_writes.task, index) not in values_by_task:
                        values_by_task[task_writes.task, index] = (task_writes.path, channel, data)
        order = sorted(values_by_task, key=lambda name: writes_sort_key(values_by_task[name][0], *name))
        return [
            (name[0], values_by_task[name][1], self.serializer.unpack(values_by_task[name][2]))
            for name in order
        ]

    async def index_entries_in_log(self, db: Database, thread: str) -> list[IndexEntry]:
        """Every checkpoint that a thread's log holds and does not hide."""
        index_entries: dict[str, IndexEntry] = {}
        for item in await db.thread(thread).items(log=CHECKPOINTS):
            if item.kind == "checkpoint" and item.id is not None:
                entry = _decode_entry(self._body_cipher, item)
                run = self.serializer.unpack(entry.metadata).get("run_id")
                index_entries[item.id] = IndexEntry(
                    thread=thread, namespace=entry.namespace, id=entry.id, run=run and str(run)
                )
            elif item.kind == "hidden":
                for key in decode_names(item.body):
                    index_entries.pop(key, None)
        return list(index_entries.values())

    # Delta channels.

    async def delta_history(
        self, db: Database, thread: str, namespace: str, id: str | None, channels: Sequence[str]
    ) -> dict[str, DeltaChannelHistory]:
        """For each channel, the newest value stored before a checkpoint, and what was written since.

        It follows the log, not the index: what was pruned is still there for checkpoints that share it.
        """
        if id is None:
            newest = await registry.find_checkpoints(
                db, CheckpointSelection(thread=thread, namespace=namespace), limit=1
            )
            id = newest[0].id if newest else ""
        path = await self._ancestors(db, thread, checkpoint_key(namespace, id), frozenset(channels))
        items = await _items_by_name(db, thread, [writes_name(key) for key in path])
        tables = [_locations_of(entry, channels) for entry in path.values()]
        values = await read_values(db, self._body_cipher, thread, tables, [{} for _ in tables])
        histories: dict[str, DeltaChannelHistory] = {}
        for channel in channels:
            writes: list[PendingWrite] = []
            seed: list[Any] = []
            for key, channel_values in zip(path, values, strict=True):
                writes = [write for write in self._pending_writes(key, items) if write[1] == channel] + writes
                if (value := channel_values.get(channel)) is not None:
                    seed = [join_value(self.serializer, value.location.shape, value.parts)]
                    break
            histories[channel] = {"writes": writes, "seed": seed[0]} if seed else {"writes": writes}
        return histories

    async def _ancestors(
        self, db: Database, thread: str, key: str, channels: frozenset[str]
    ) -> dict[str, CheckpointEntry]:
        """The ancestors of a checkpoint, the nearest first, as far back as some channel has no value."""
        entries: dict[str, CheckpointEntry] = {}
        place = await self._read_back_to(db, thread, key, None, entries)
        path: dict[str, CheckpointEntry] = {}
        entry = entries.get(key)
        missing = set(channels)
        while entry is not None and entry.parent is not None and missing:
            parent = checkpoint_key(entry.namespace, entry.parent)
            if parent not in entries:
                place = await self._read_back_to(db, thread, parent, place, entries)
            entry = entries.get(parent)
            if entry is not None:
                path[parent] = entry
                missing -= entry.channels.keys()
        return path

    async def _read_back_to(
        self, db: Database, thread: str, key: str, before: int | None, entries: dict[str, CheckpointEntry]
    ) -> int | None:
        """Read a checkpoint and some that were put before it; where the reading ended."""
        if before is None or (place := await self._read_before(db, thread, before, entries)) is None:
            place = before
        if key not in entries:
            for item in await _items_by_name(db, thread, [key]):
                entries[key] = _decode_entry(self._body_cipher, item)
                place = item.place
        return place

    async def _read_before(
        self, db: Database, thread: str, place: int, entries: dict[str, CheckpointEntry]
    ) -> int | None:
        window = await db.thread(thread).items(log=CHECKPOINTS, before=place, last=READ_AHEAD)
        for item in window:
            if item.kind == "checkpoint" and item.id is not None:
                entries[item.id] = _decode_entry(self._body_cipher, item)
        return window[0].place if window else None


def config_of(thread: str, namespace: str, id: str) -> Any:
    """The configuration by which LangGraph names a checkpoint."""
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": id}}


def _index_entry_of(thread: str, request: PutRequest) -> IndexEntry:
    run = request.metadata.get("run_id")
    return IndexEntry(
        thread=thread,
        namespace=request.namespace,
        id=request.checkpoint["id"],
        run=None if run is None else str(run),
    )


def _locations_of(entry: CheckpointEntry, channels: Sequence[str]) -> dict[str, ValueLocation]:
    return {name: location for name, location in entry.channels.items() if name in channels}


async def _items_by_name(db: Database, thread: str, names: Sequence[str]) -> Sequence[Item]:
    """Items by their names, in the order they were written."""
    try:
        items = await db.thread(thread).items_by_id(names)
    except ThreadNotFound:
        return []
    return sorted(items, key=lambda item: (item.version, item.place))


def _newest_entry(key: str, body_cipher: BodyCipher, items: Sequence[Item]) -> CheckpointEntry | None:
    """The newest entry of that name."""
    matches = [item for item in items if item.id == key and item.kind == "checkpoint"]
    return _decode_entry(body_cipher, matches[-1]) if matches else None


def _decode_entry(body_cipher: BodyCipher, item: Item) -> CheckpointEntry:
    entry = decode_entry(body_cipher.unseal(item.codec, item.body))
    if entry.layout > LAYOUT:
        raise NewerFormat(store="A checkpoint", found=entry.layout, known=LAYOUT)
    return entry
