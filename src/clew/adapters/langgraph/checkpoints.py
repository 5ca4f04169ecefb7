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
    Entry,
    Placed,
    Stored,
    Written,
    decode_entry,
    decode_names,
    decode_written,
    encode,
    join,
    key_of,
    split,
    writes_of,
)
from clew.adapters.langgraph.put_plan import Asked, draft
from clew.adapters.langgraph.registry import Indexed, Lots, Wanted
from clew.adapters.langgraph.serializer import Name, Sealing, Serializer
from clew.adapters.langgraph.value_cache import AtHand, Before, read_values
from clew.core.errors import NewerFormat, RevisionConflict, ThreadNotFound
from clew.core.values import AppendTo, Changeset, Item
from clew.database.database import Database

AHEAD = 128
"""How many checkpoints are read at once when a delta channel looks back."""


class Found(msgspec.Struct, frozen=True):
    """A checkpoint that was read and is still encoded."""

    indexed: Indexed
    entry: Entry
    values: Mapping[str, Stored]
    items: Sequence[Item]


class Checkpoints:
    """The checkpoints of all threads of a database.

    Whoever calls encodes and decodes for himself, where he is; what is awaited here only reads and writes.
    """

    def __init__(self, serializer: Serializer, sealing: Sealing) -> None:
        self.serializer = serializer
        self.lots = Lots()
        self.at_hand = AtHand()
        self._sealing = sealing
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def allowing(self, types: Iterable[type | Name]) -> "Checkpoints":
        """The same checkpoints for somebody who knows some more types."""
        other = copy.copy(self)
        other.serializer = self.serializer.allowing(types)
        return other

    # Writing.

    async def put(self, db: Database, thread: str, asked: Asked) -> None:
        """Add a checkpoint, with as much of its values as its parent does not have.

        Raises:
            InvalidValue: A value cannot be stored. Nothing was written.
        """
        lock = self._locks.setdefault(thread, asyncio.Lock())
        async with lock:  # puts of one thread wait here, rather than conflict in the store
            while not await self._tried(db, thread, asked):
                self.lots.forget(thread)

    async def _tried(self, db: Database, thread: str, asked: Asked) -> bool:
        """Whether a put came through; if not, somebody else has changed the thread meanwhile."""
        lot = await self.lots.find(db, thread)
        if lot is None:
            draft(self.serializer, self._sealing, asked, Before(), {})  # refused before a thread is made
            lot = await self.lots.of(db, thread)
        before = await self._before(db, thread, asked)
        plan = draft(self.serializer, self._sealing, asked, before, lot.ends)
        change = Changeset(items=tuple(plan.items), reason="checkpoint")
        claim = self.lots.claim(thread, revision=lot.revision, name=lot.record)
        try:
            await db.commit(
                [AppendTo(thread=thread, change=change), claim, registry.added(_indexed(thread, asked))]
            )
        except (RevisionConflict, ThreadNotFound):
            self.at_hand.forget(thread)
            return False
        self.lots.moved(thread, lot, plan.ends)
        versions = asked.checkpoint["channel_versions"]
        self.at_hand.keep(thread, asked.key, Before(versions=dict(versions), values=plan.values))
        return True

    async def _before(self, db: Database, thread: str, asked: Asked) -> Before:
        """The parent of a checkpoint, as far as it is there."""
        if asked.parent is None:
            return Before()
        key = key_of(asked.namespace, asked.parent)
        if (near := self.at_hand.get(thread, key)) is not None:
            return near
        entry = _entry_of(key, self._sealing, await _named(db, thread, [key]))
        if entry is None:
            return Before()
        return (await self._loaded(db, thread, {key: entry}))[key]

    async def put_writes(
        self,
        db: Database,
        thread: str,
        key: str,
        written: Written,
    ) -> None:
        """Add what a task wrote on the way from one checkpoint to the next."""
        codec, body = self._sealing.seal(encode(written))
        item = Item(body=body, codec=codec, log=WRITES, kind="writes", format=FORMAT, id=writes_of(key))
        while True:
            await self.lots.of(db, thread)
            try:
                await db.thread(thread).append(items=[item], reason="writes")
                return
            except ThreadNotFound:
                self.lots.forget(thread)

    def packed(self, channel: str, value: Any) -> bytes:
        """The bytes of a value that a task wrote.

        Raises:
            InvalidValue: It cannot be encoded, or holds a type nobody named.
        """
        where = f"write to {channel!r}"
        data = self.serializer.pack(value, where)
        self.serializer.check(data, where)
        return data

    def split(self, thread: str, asked: Asked) -> Asked:
        """A checkpoint to put, with those of its values encoded that have changed.

        Raises:
            InvalidValue: One of them cannot be encoded.
        """
        given = asked.checkpoint["channel_values"]
        changed = {channel: given[channel] for channel in asked.changed if channel in given}
        parts = {
            channel: split(
                self.serializer, value, f"channel {channel!r}", f"{thread} {asked.namespace} {channel}"
            )
            for channel, value in changed.items()
        }
        return msgspec.structs.replace(asked, parts=parts)

    # Reading.

    async def get(self, db: Database, thread: str, namespace: str, id: str | None) -> Found | None:
        """A checkpoint, or the newest of its namespace."""
        if id is not None:
            indexed = Indexed(thread=thread, namespace=namespace, id=id)
            there, found = await asyncio.gather(
                registry.is_indexed(db, indexed), self._found(db, [indexed], {})
            )
            return found[0] if there and found else None
        wanted, last = Wanted(thread=thread, namespace=namespace), None
        while page := await registry.find(db, wanted, after=last, limit=1):
            if found := await self._found(db, page, {}):
                return found[0]
            last = page[-1]  # what a delete that was cut short has left
        return None

    async def page(
        self, db: Database, wanted: Wanted, after: Indexed | None, filter: Mapping[str, Any], limit: int
    ) -> tuple[list[Found], Indexed | None]:
        """Some checkpoints, the newest first, and where the next page begins if there is one."""
        found = await registry.find(db, wanted, after=after, limit=limit)
        return await self._found(db, found, filter), found[-1] if len(found) == limit else None

    async def _found(self, db: Database, found: Sequence[Indexed], filter: Mapping[str, Any]) -> list[Found]:
        """Checkpoints in the order they were found, without those that a filter leaves out."""
        by_thread: defaultdict[str, list[Indexed]] = defaultdict(list)
        for indexed in found:
            by_thread[indexed.thread].append(indexed)
        made: dict[Indexed, Found] = {}
        for thread, some in by_thread.items():
            made |= await self._found_in(db, thread, some, filter)
        return [made[indexed] for indexed in found if indexed in made]

    async def _found_in(
        self, db: Database, thread: str, found: Sequence[Indexed], filter: Mapping[str, Any]
    ) -> dict[Indexed, Found]:
        names = [name for indexed in found for name in (indexed.key, writes_of(indexed.key))]
        items = await _named(db, thread, names)
        entries: dict[str, Entry] = {}
        for key in [indexed.key for indexed in found]:
            entry = _entry_of(key, self._sealing, items)
            if entry is not None and self._passes(entry, filter):
                entries[key] = entry
        loaded = await self._loaded(db, thread, entries)
        return {
            indexed: Found(indexed, entries[indexed.key], loaded[indexed.key].values, items)
            for indexed in found
            if indexed.key in entries
        }

    def _passes(self, entry: Entry, filter: Mapping[str, Any]) -> bool:
        if not filter:
            return True
        metadata = self.serializer.unpack(entry.metadata)
        return all(metadata.get(name) == value for name, value in filter.items())

    async def _loaded(self, db: Database, thread: str, entries: Mapping[str, Entry]) -> dict[str, Before]:
        """Checkpoints with their values, which are at hand from now on."""
        near = [self.at_hand.get(thread, key) or Before() for key in entries]
        tables = [entry.channels for entry in entries.values()]
        values = await read_values(db, self._sealing, thread, tables, [found.values for found in near])
        loaded = {
            key: Before(versions=self.serializer.unpack(entry.checkpoint)["channel_versions"], values=some)
            for (key, entry), some in zip(entries.items(), values, strict=True)
        }
        for key, before in loaded.items():
            self.at_hand.keep(thread, key, before)
        return loaded

    def decoded(self, found: Found) -> CheckpointTuple:
        """A checkpoint as LangGraph knows it."""
        thread, namespace, entry = found.indexed.thread, found.indexed.namespace, found.entry
        checkpoint = self.serializer.unpack(entry.checkpoint)
        checkpoint["channel_values"] = {
            channel: join(self.serializer, value.placed.shape, value.parts)
            for channel, value in found.values.items()
        }
        return CheckpointTuple(
            config=config_of(thread, namespace, found.indexed.id),
            checkpoint=checkpoint,
            metadata=self.serializer.unpack(entry.metadata),
            parent_config=config_of(thread, namespace, entry.parent) if entry.parent else None,
            pending_writes=self._writes(found.indexed.key, found.items),
        )

    def _writes(self, key: str, items: Sequence[Item]) -> list[PendingWrite]:
        """The writes of a checkpoint in LangGraph's order.

        Of two writes of one task with one index, the first counts; of special ones, which have negative
        indexes, the last.
        """
        found: dict[tuple[str, int], tuple[str, str, bytes]] = {}
        for item in items:
            if item.id == writes_of(key):
                written = decode_written(self._sealing.open(item.codec, item.body))
                for index, channel, data in written.writes:
                    if index < 0 or (written.task, index) not in found:
                        found[written.task, index] = (written.path, channel, data)
        order = sorted(found, key=lambda name: writes_sort_key(found[name][0], *name))
        return [(name[0], found[name][1], self.serializer.unpack(found[name][2])) for name in order]

    async def logged(self, db: Database, thread: str) -> list[Indexed]:
        """Every checkpoint that a thread's log holds and does not hide."""
        found: dict[str, Indexed] = {}
        for item in await db.thread(thread).items(log=CHECKPOINTS):
            if item.kind == "checkpoint" and item.id is not None:
                entry = _decoded(self._sealing, item)
                run = self.serializer.unpack(entry.metadata).get("run_id")
                found[item.id] = Indexed(
                    thread=thread, namespace=entry.namespace, id=entry.id, run=run and str(run)
                )
            elif item.kind == "hidden":
                for key in decode_names(item.body):
                    found.pop(key, None)
        return list(found.values())

    # Delta channels.

    async def look_back(
        self, db: Database, thread: str, namespace: str, id: str | None, channels: Sequence[str]
    ) -> dict[str, DeltaChannelHistory]:
        """For each channel, the newest value stored before a checkpoint, and what was written since.

        It follows the log, not the index: what was pruned is still there for those who stand on it.
        """
        if id is None:
            newest = await registry.find(db, Wanted(thread=thread, namespace=namespace), limit=1)
            id = newest[0].id if newest else ""
        path = await self._ancestors(db, thread, key_of(namespace, id), frozenset(channels))
        items = await _named(db, thread, [writes_of(key) for key in path])
        tables = [_only(entry, channels) for entry in path.values()]
        values = await read_values(db, self._sealing, thread, tables, [{} for _ in tables])
        histories: dict[str, DeltaChannelHistory] = {}
        for channel in channels:
            writes: list[PendingWrite] = []
            seed: list[Any] = []
            for key, stored in zip(path, values, strict=True):
                writes = [write for write in self._writes(key, items) if write[1] == channel] + writes
                if (value := stored.get(channel)) is not None:
                    seed = [join(self.serializer, value.placed.shape, value.parts)]
                    break
            histories[channel] = {"writes": writes, "seed": seed[0]} if seed else {"writes": writes}
        return histories

    async def _ancestors(
        self, db: Database, thread: str, key: str, channels: frozenset[str]
    ) -> dict[str, Entry]:
        """The ancestors of a checkpoint, the nearest first, as far back as some channel has no value."""
        read: dict[str, Entry] = {}
        place = await self._read_on(db, thread, key, None, read)
        path: dict[str, Entry] = {}
        entry = read.get(key)
        missing = set(channels)
        while entry is not None and entry.parent is not None and missing:
            parent = key_of(entry.namespace, entry.parent)
            if parent not in read:
                place = await self._read_on(db, thread, parent, place, read)
            entry = read.get(parent)
            if entry is not None:
                path[parent] = entry
                missing -= entry.channels.keys()
        return path

    async def _read_on(
        self, db: Database, thread: str, key: str, before: int | None, read: dict[str, Entry]
    ) -> int | None:
        """Read a checkpoint and some that were put before it; where the reading ended."""
        if before is None or (found := await self._read_before(db, thread, before, read)) is None:
            found = before
        if key not in read:
            for item in await _named(db, thread, [key]):
                read[key] = _decoded(self._sealing, item)
                found = item.place
        return found

    async def _read_before(self, db: Database, thread: str, place: int, read: dict[str, Entry]) -> int | None:
        window = await db.thread(thread).items(log=CHECKPOINTS, before=place, last=AHEAD)
        for item in window:
            if item.kind == "checkpoint" and item.id is not None:
                read[item.id] = _decoded(self._sealing, item)
        return window[0].place if window else None


def config_of(thread: str, namespace: str, id: str) -> Any:
    """What LangGraph calls a checkpoint by."""
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": id}}


def _indexed(thread: str, asked: Asked) -> Indexed:
    run = asked.metadata.get("run_id")
    return Indexed(
        thread=thread,
        namespace=asked.namespace,
        id=asked.checkpoint["id"],
        run=None if run is None else str(run),
    )


def _only(entry: Entry, channels: Sequence[str]) -> dict[str, Placed]:
    return {name: placed for name, placed in entry.channels.items() if name in channels}


async def _named(db: Database, thread: str, names: Sequence[str]) -> Sequence[Item]:
    """Items by their names, in the order they were written."""
    try:
        found = await db.thread(thread).named(names)
    except ThreadNotFound:
        return []
    return sorted(found, key=lambda item: (item.version, item.place))


def _entry_of(key: str, sealing: Sealing, items: Sequence[Item]) -> Entry | None:
    """The newest entry of that name."""
    found = [item for item in items if item.id == key and item.kind == "checkpoint"]
    return _decoded(sealing, found[-1]) if found else None


def _decoded(sealing: Sealing, item: Item) -> Entry:
    entry = decode_entry(sealing.open(item.codec, item.body))
    if entry.layout > LAYOUT:
        raise NewerFormat(store="A checkpoint", found=entry.layout, known=LAYOUT)
    return entry
