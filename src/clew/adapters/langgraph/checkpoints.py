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
    unused_stretches,
    writes_name,
)
from clew.adapters.langgraph.leases import LEASE_KIND, LeaseName
from clew.adapters.langgraph.put_plan import PutRequest, plan_put
from clew.adapters.langgraph.rebase import RebaseConflict, RunRebase, ShapedParts
from clew.adapters.langgraph.registry import (
    CheckpointSelection,
    IndexEntry,
    PutOrder,
    ThreadEntry,
    ThreadRegistry,
)
from clew.adapters.langgraph.runs import GraphRun, GraphRuns, PutFence
from clew.adapters.langgraph.serializer import BodyCipher, Serializer, TypeName
from clew.adapters.langgraph.value_cache import CheckpointCache, CheckpointValues, read_values
from clew.core.errors import (
    CheckpointStale,
    ClewError,
    NewerFormat,
    RevisionConflict,
    StateConflict,
    ThreadNotFound,
)
from clew.core.ops import Op
from clew.core.patch import union
from clew.core.values import AppendTo, Changeset, Item, Require
from clew.database.database import Database

READ_AHEAD = 128
"""How many checkpoints are read at once when a delta channel looks back."""


class EncodedCheckpoint(msgspec.Struct, frozen=True):
    """A checkpoint that was read and is still encoded."""

    index_entry: IndexEntry
    entry: CheckpointEntry
    values: Mapping[str, ChannelValue]
    items: Sequence[Item]


class UnusedItems(msgspec.Struct, frozen=True):
    """Items that can go: by their names, and stretches of logs by the numbers of their first and last."""

    names: list[str]
    stretches: list[tuple[str, int, int]]


class ThreadCheckpoints:
    """The checkpoints of all threads of a database.

    The caller encodes and decodes on its own loop or thread; what is awaited here only reads and writes.
    """

    def __init__(self, serializer: Serializer, body_cipher: BodyCipher, runs: GraphRuns) -> None:
        self.serializer = serializer
        self.runs = runs
        self.threads = ThreadRegistry()
        self.cache = CheckpointCache()
        self._body_cipher = body_cipher
        self._unresolved: dict[str, set[str]] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def with_types(self, types: Iterable[type | TypeName]) -> "ThreadCheckpoints":
        """The same checkpoints with some more types allowed."""
        other = copy.copy(self)
        other.serializer = self.serializer.with_types(types)
        return other

    # Writing.

    async def put(self, db: Database, thread: str, request: PutRequest, fence: PutFence) -> None:
        """Add a checkpoint, with as much of its values as its parent does not have.

        Raises:
            InvalidValue: A value cannot be stored. Nothing was written.
            LeaseLost: Another run has taken the thread over since this one read it.
            StateConflict: What another run has put since does not commute with this.
            CheckpointStale: The parent is not the newest checkpoint any more, and was not asked for by name.
        """
        if fence.run is not None:
            await self._hold_lease(db, fence.run)
        lock = self._locks.setdefault(thread, asyncio.Lock())
        async with lock:  # puts of one thread wait here, rather than conflict in the store
            while not await self._try_put(db, thread, request, fence):
                await self._look_again(db, thread)

    async def _try_put(self, db: Database, thread: str, request: PutRequest, fence: PutFence) -> bool:
        """Try to put once; return whether the thread was unchanged meanwhile."""
        thread_entry = await self.threads.find(db, thread)
        if thread_entry is None:
            plan_put(
                self.serializer, self._body_cipher, request, CheckpointValues(), {}
            )  # refused before a thread is made
            thread_entry = await self.threads.get_or_create(db, thread)
        guards = await self._put_guards(db, thread_entry, thread, request, fence)
        moved_request, own = self._move_behind(thread_entry, request, fence.run)
        parent = await self._parent_values(db, thread, moved_request)
        plan = plan_put(self.serializer, self._body_cipher, moved_request, parent, thread_entry.ends)
        unresolved = self._unresolved.pop(thread, set())
        change = Changeset(
            items=tuple(plan.items), patches=_unresolved_patches(unresolved), reason="checkpoint"
        )
        order = thread_entry.order
        if not request.namespace:
            order = order.after(request.checkpoint["id"], is_newer=bool(guards))
        claim = self.threads.claim_write(thread, thread_entry, order)
        index_write = registry.index_write(_index_entry_of(thread, request, order.epoch))
        try:
            await db.commit([AppendTo(thread=thread, change=change), claim, index_write, *guards])
        except (ThreadNotFound, RevisionConflict) as conflict:
            self._unresolved.setdefault(thread, set()).update(unresolved)
            await self._look_at_lease(db, conflict, fence.run)
            return False
        self.threads.advance_entry(thread, thread_entry, plan.ends, order)
        versions = moved_request.checkpoint["channel_versions"]
        self.cache.add(thread, request.key, CheckpointValues(versions=dict(versions), values=plan.values))
        if own is not None and fence.run is not None and fence.run.rebase is not None:
            fence.run.rebase.own = own
        return True

    async def _look_again(self, db: Database, thread: str) -> None:
        """Read a thread's entry again; what is at hand of another thread of that name is of no use."""
        known = self.threads.known_entry(thread)
        self.threads.forget(thread)
        entry = await self.threads.find(db, thread)
        if known is None or entry is None or known.record != entry.record:
            self.cache.drop_thread(thread)

    # The fence: a run writes while the lease is its own, anything else only behind the newest checkpoint.

    async def begin_run(self, db: Database, run: GraphRun, id: str | None) -> EncodedCheckpoint | None:
        """Take the thread's lease for a run, and read the checkpoint that it goes on from.

        Raises:
            TurnBusy: Another run has it, and this one does not wait, or has waited long enough.
        """
        entry = await self.threads.find(db, run.thread)
        await self.runs.start(db, run, db.user if entry is None else entry.owner)
        checkpoint = await self.get(db, run.thread, "", id)
        run.base = checkpoint.index_entry.id if checkpoint is not None else None
        return checkpoint

    async def _hold_lease(self, db: Database, run: GraphRun) -> None:
        """Take the lease for a run that began without; then its writes go behind what is there now."""
        async with run.lock:
            if not await self.runs.hold(db, run) or run.is_addressed:
                return
            newest = await self._newest_id(db, run.thread, "")
            if newest is not None and newest != run.base:
                base, head = [
                    await self._values_of(db, run.thread, id) if id is not None else CheckpointValues()
                    for id in (run.base, newest)
                ]
                run.rebase = RunRebase(base, head, newest)

    async def _look_at_lease(self, db: Database, conflict: ClewError, run: GraphRun | None) -> None:
        if run is not None and isinstance(conflict, RevisionConflict) and conflict.kind == LEASE_KIND:
            await self.runs.look_again(db, run)

    async def _put_guards(
        self, db: Database, entry: ThreadEntry, thread: str, request: PutRequest, fence: PutFence
    ) -> list[Require]:
        """The writes that let a put through only while nothing has changed that it depends on."""
        run = fence.run
        if run is not None and (run.rebase is None or not request.namespace):
            return [run.requirement()]
        if run is None and not fence.is_behind_newest:
            return []
        newest = await self._newest_id(db, thread, request.namespace)
        if request.parent != newest:
            raise CheckpointStale(thread=thread, checkpoint=request.parent or "", newest=newest or "")
        if run is not None:
            return [run.requirement()]
        name = LeaseName(thread, entry.owner)
        lease = await self.runs.leases.read(db, name)
        if self.runs.leases.is_busy(lease):
            raise self.runs.leases.busy(name)
        return [name.requirement(lease.revision)]

    def _move_behind(
        self, entry: ThreadEntry, request: PutRequest, run: GraphRun | None
    ) -> tuple[PutRequest, dict[str, ShapedParts] | None]:
        """The put of a run whose base is not the newest any more, moved behind it; and the run's own view."""
        rebase = run.rebase if run is not None and not request.namespace else None
        if rebase is None or run is None:
            return request, None
        checkpoint = request.checkpoint
        own = rebase.own_values(checkpoint["channel_versions"], request.new_versions, request.parts)
        try:
            if request.metadata.get("counters_since_delta_snapshot"):
                raise RebaseConflict(next(iter(request.metadata["counters_since_delta_snapshot"])))
            merged = rebase.merge(own)
        except RebaseConflict as conflict:
            raise StateConflict(
                thread=run.thread,
                path=[conflict.channel],
                ours="write",
                theirs="write",
                version=entry.version,
            ) from conflict
        values = {
            channel: checkpoint["channel_values"][channel]
            if value is own.get(channel) and channel in checkpoint["channel_values"]
            else join_value(self.serializer, *value)
            for channel, value in merged.items()
        }
        versions = {
            channel: checkpoint["channel_versions"].get(channel, rebase.head_versions.get(channel))
            for channel in [*checkpoint["channel_versions"], *merged]
        }
        moved_request = msgspec.structs.replace(
            request,
            parent=rebase.head_id if request.parent == run.base else request.parent,
            checkpoint={**checkpoint, "channel_values": values, "channel_versions": versions},
            new_versions={channel: versions[channel] for channel in merged},
            parts=dict(merged),
        )
        return moved_request, own

    async def _newest_id(self, db: Database, thread: str, namespace: str) -> str | None:
        """The id of the newest checkpoint of a namespace."""
        newest = await registry.find_checkpoints(
            db, CheckpointSelection(thread=thread, namespace=namespace), limit=1
        )
        return newest[0].id if newest else None

    async def _parent_values(self, db: Database, thread: str, request: PutRequest) -> CheckpointValues:
        """The parent of a checkpoint, as far as it is there."""
        if request.parent is None:
            return CheckpointValues()
        return await self._values_of(db, thread, checkpoint_key(request.namespace, request.parent))

    async def _values_of(self, db: Database, thread: str, key: str) -> CheckpointValues:
        """The values of a checkpoint, as far as it is there."""
        if (checkpoint := self.cache.get(thread, key)) is not None:
            return checkpoint
        entry = _newest_entry(key, self._body_cipher, await _items_by_name(db, thread, [key]))
        if entry is None:
            return CheckpointValues()
        return (await self._load_values(db, thread, {key: entry}))[key]

    async def put_writes(
        self, db: Database, thread: str, key: str, task_writes: TaskWrites, run: GraphRun | None
    ) -> None:
        """Add what a task wrote on the way from one checkpoint to the next.

        Raises:
            LeaseLost: Another run has taken the thread over since this one read it.
            CheckpointStale: The run goes on from a checkpoint that another run has gone on from.
        """
        if run is not None:
            await self._hold_lease(db, run)
            if run.rebase is not None and key == run.base:
                raise CheckpointStale(thread=thread, checkpoint=key, newest=run.rebase.head_id)
        codec, body = self._body_cipher.seal(encode(task_writes))
        item = Item(body=body, codec=codec, log=WRITES, kind="writes", format=FORMAT, id=writes_name(key))
        append = AppendTo(thread=thread, change=Changeset(items=(item,), reason="writes"))
        while True:
            await self.threads.get_or_create(db, thread)
            try:
                await db.commit([append] if run is None else [append, run.requirement()])
                return
            except ThreadNotFound:
                self.threads.forget(thread)
            except RevisionConflict as conflict:
                await self._look_at_lease(db, conflict, run)

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
        if after is None:
            selection = await self._with_epoch(db, selection)
        index_entries = await registry.find_checkpoints(db, selection, after=after, limit=limit)
        return await self._load_checkpoints(db, index_entries, filter), index_entries[-1] if len(
            index_entries
        ) == limit else None

    async def _with_epoch(self, db: Database, selection: CheckpointSelection) -> CheckpointSelection:
        """The selection with the epoch of the checkpoint before which all have to be."""
        thread, before = selection.thread, selection.before
        if thread is None or before is None:
            return selection
        for namespace in dict.fromkeys((selection.namespace or "", "")):
            named = IndexEntry(thread=thread, namespace=namespace, id=before)
            if (epoch := await registry.epoch_of(db, named)) is not None:
                return msgspec.structs.replace(selection, before_epoch=epoch)
        return selection

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
        unresolved: set[TypeName] = set()
        checkpoint["channel_values"] = {
            channel: join_value(self.serializer, value.location.shape, value.parts, unresolved)
            for channel, value in encoded_checkpoint.values.items()
        }
        if unresolved:
            self._unresolved.setdefault(thread, set()).update(map(".".join, unresolved))
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

    async def index_entries_in_log(self, db: Database, thread: str) -> tuple[list[IndexEntry], PutOrder]:
        """Every checkpoint that a thread's log holds and does not hide, and the order of its puts."""
        index_entries: dict[str, IndexEntry] = {}
        order = PutOrder()
        for item in await db.thread(thread).items(log=CHECKPOINTS):
            if item.kind == "checkpoint" and item.id is not None:
                entry = _decode_entry(self._body_cipher, item)
                run = self.serializer.unpack(entry.metadata).get("run_id")
                if not entry.namespace:
                    order = order.after(entry.id, is_newer=entry.id < (entry.parent or ""))
                index_entries[item.id] = IndexEntry(
                    thread=thread,
                    namespace=entry.namespace,
                    id=entry.id,
                    run=run and str(run),
                    epoch=order.epoch,
                )
            elif item.kind == "hidden":
                for key in decode_names(item.body):
                    index_entries.pop(key, None)
        return list(index_entries.values()), order

    # What nobody needs any more.

    async def unused_items(
        self, db: Database, thread: str, hidden: Sequence[IndexEntry], kept: Sequence[IndexEntry]
    ) -> UnusedItems:
        """The items of hidden checkpoints that none of those kept, and no delta channel of theirs, needs."""
        entries = await self._entries_of(db, thread, [checkpoint.key for checkpoint in [*hidden, *kept]])
        needed = {checkpoint.key for checkpoint in kept}
        for key in sorted(needed & entries.keys()):
            metadata = self.serializer.unpack(entries[key].metadata)
            if channels := metadata.get("counters_since_delta_snapshot"):
                entries |= (path := await self._ancestors(db, thread, key, frozenset(channels)))
                needed |= path.keys()
        hidden_keys = [checkpoint.key for checkpoint in hidden if checkpoint.key not in needed]
        items = await _items_by_name(
            db, thread, [name for key in hidden_keys for name in (key, writes_name(key))]
        )
        return UnusedItems(
            names=sorted({item.id for item in items if item.id is not None}),
            stretches=unused_stretches(
                [entries[key] for key in hidden_keys if key in entries],
                [entries[key] for key in sorted(needed) if key in entries],
            ),
        )

    async def _entries_of(self, db: Database, thread: str, keys: Sequence[str]) -> dict[str, CheckpointEntry]:
        entries: dict[str, CheckpointEntry] = {}
        for first in range(0, len(keys), READ_AHEAD):
            some = keys[first : first + READ_AHEAD]
            items = await _items_by_name(db, thread, some)
            for key in some:
                if (entry := _newest_entry(key, self._body_cipher, items)) is not None:
                    entries[key] = entry
        return entries

    # Delta channels.

    async def delta_history(
        self, db: Database, thread: str, namespace: str, id: str | None, channels: Sequence[str]
    ) -> dict[str, DeltaChannelHistory]:
        """For each channel, the newest value stored before a checkpoint, and what was written since.

        It follows the log, not the index: what was pruned is still there for checkpoints that share it.
        """
        if id is None:
            id = await self._newest_id(db, thread, namespace) or ""
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


def _unresolved_patches(names: Iterable[str]) -> tuple[Op, ...]:
    """The patches that let the thread's state say which types were left as their data."""
    return tuple(union([FORMAT, "unresolved"], [name]) for name in sorted(names))


def _index_entry_of(thread: str, request: PutRequest, epoch: int) -> IndexEntry:
    run = request.metadata.get("run_id")
    return IndexEntry(
        thread=thread,
        namespace=request.namespace,
        id=request.checkpoint["id"],
        run=None if run is None else str(run),
        epoch=epoch,
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
