"""LangGraph's checkpointer, on Clew's threads: ``graph.compile(checkpointer=Checkpointer(db))``."""

import asyncio
import builtins
import copy
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from types import TracebackType
from typing import Any, Self, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from clew.adapters.langgraph import maintenance
from clew.adapters.langgraph.checkpoints import Checkpoints, Found, config_of
from clew.adapters.langgraph.event_loop import Line
from clew.adapters.langgraph.layout import Written, key_of
from clew.adapters.langgraph.put_plan import Asked
from clew.adapters.langgraph.registry import PAGE, Indexed, Wanted
from clew.adapters.langgraph.serializer import Name, parts_of_serde
from clew.core.arguments import check_methods
from clew.core.errors import InvalidArgument
from clew.database.database import Database

R = TypeVar("R")
Work = Callable[[Database], Awaitable[R]]


@check_methods
class Checkpointer(BaseCheckpointSaver[int]):
    """Keeps the checkpoints of LangGraph's graphs in Clew's threads, one thread for each thread_id.

    ``db`` is an open database, used on the event loop it was opened on, or a URL; then it is opened by the
    first call, on a loop of its own, and closed by ``close``. ``types`` are the types that checkpoints may
    hold besides LangGraph's own; a state's schema stands for every type it mentions.

    Raises:
        InvalidArgument: ``serde`` would use pickle, or is of a kind that cannot be checked.
    """

    def __init__(
        self,
        db: Database | str,
        *,
        types: Iterable[type | Name] = (),
        serde: SerializerProtocol | None = None,
    ) -> None:
        serializer, sealing = parts_of_serde(serde, types)
        super().__init__(serde=serializer)
        self._line = Line(db)
        self._checkpoints = Checkpoints(serializer, sealing)

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> "Checkpointer":
        """The same checkpointer for a graph whose schema names some more types."""
        checkpoints = self._checkpoints.allowing(extra_allowlist)
        other = copy.copy(self)
        vars(other).update(_checkpoints=checkpoints, serde=checkpoints.serializer)
        return other

    def get_next_version(self, current: int | None, channel: None) -> int:
        """The version after this one. A plain number will do: no two checkpoints look each other up by it."""
        return 1 if current is None else int(current) + 1

    # What each call asks for, whether somebody waits for it or awaits it.

    def _get(self, config: RunnableConfig) -> Work[Found | None]:
        thread, namespace = _thread_of(config), _namespace_of(config)
        return lambda db: self._checkpoints.get(db, thread, namespace, get_checkpoint_id(config))

    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Work[None]:
        asked = Asked(
            namespace=_namespace_of(config),
            parent=get_checkpoint_id(config),
            checkpoint=checkpoint,
            metadata=get_checkpoint_metadata(config, metadata),
            changed=new_versions,
        )
        thread = _thread_of(config)
        ready = self._checkpoints.split(thread, asked)
        return lambda db: self._checkpoints.put(db, thread, ready)

    def _put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> Work[None]:
        thread = _thread_of(config)
        key = key_of(_namespace_of(config), config["configurable"]["checkpoint_id"])
        packed = [
            (WRITES_IDX_MAP.get(channel, index), channel, self._checkpoints.packed(channel, value))
            for index, (channel, value) in enumerate(writes)
        ]
        written = Written(task=task_id, path=task_path, writes=packed)
        return lambda db: self._checkpoints.put_writes(db, thread, key, written)

    def _page(
        self, listing: "_Listing", after: Indexed | None, limit: int
    ) -> Work[tuple[builtins.list[Found], Indexed | None]]:
        return lambda db: self._checkpoints.page(db, listing.wanted, after, listing.filter, limit)

    def _look_back(
        self, config: RunnableConfig, channels: Sequence[str]
    ) -> Work[Mapping[str, DeltaChannelHistory]]:
        thread, namespace = _thread_of(config), _namespace_of(config)
        return lambda db: self._checkpoints.look_back(
            db, thread, namespace, get_checkpoint_id(config), channels
        )

    # For graphs that are invoked.

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint, or the newest one if none is named."""
        found = self._line.run(self._get(config))
        return self._checkpoints.decoded(found) if found is not None else None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, the newest first."""
        listing = _Listing(config, filter, before, limit)
        if listing.id is not None:
            yield from listing.only(self.get_tuple(config_of(*listing.name)))
            return
        after: Indexed | None = None
        while not listing.is_done:
            found, after = self._line.run(self._page(listing, after, listing.next_page))
            yield from map(self._checkpoints.decoded, listing.take(found, after))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint; the one named by ``config`` is its parent."""
        self._line.run(self._put(config, checkpoint, metadata, new_versions))
        return _config_after(config, checkpoint)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote after a checkpoint."""
        self._line.run(self._put_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        """Remove a thread, with all that is in it."""
        self._line.run(lambda db: maintenance.delete_thread(db, self._checkpoints, str(thread_id)))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Hide the checkpoints of some runs."""
        self._line.run(lambda db: maintenance.delete_for_runs(db, run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """A new thread with all checkpoints of another."""
        source, target = str(source_thread_id), str(target_thread_id)
        self._line.run(lambda db: maintenance.copy_thread(db, self._checkpoints, source, target))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Hide all but the newest checkpoints, or delete the threads."""
        self._line.run(lambda db: maintenance.prune(db, self._checkpoints, thread_ids, strategy))

    def reindex(self, thread_id: str) -> int:
        """Make the index of an imported thread; how many checkpoints it has."""
        return self._line.run(lambda db: maintenance.reindex(db, self._checkpoints, str(thread_id)))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What delta channels stand on: the newest stored value, and the writes since."""
        return self._line.run(self._look_back(config, channels)) if channels else {}

    def close(self) -> None:
        """Close the database, if it was opened here."""
        self._line.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # For graphs that are awaited.

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint, or the newest one if none is named."""
        found = await self._line.call(self._get(config))
        return self._checkpoints.decoded(found) if found is not None else None

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Checkpoints, the newest first."""
        listing = _Listing(config, filter, before, limit)
        if listing.id is not None:
            for named in listing.only(await self.aget_tuple(config_of(*listing.name))):
                yield named
            return
        after: Indexed | None = None
        while not listing.is_done:
            page, after = await self._line.call(self._page(listing, after, listing.next_page))
            for found in listing.take(page, after):
                yield self._checkpoints.decoded(found)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint; the one named by ``config`` is its parent."""
        await self._line.call(self._put(config, checkpoint, metadata, new_versions))
        return _config_after(config, checkpoint)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote after a checkpoint."""
        await self._line.call(self._put_writes(config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """Remove a thread, with all that is in it."""
        await self._line.call(lambda db: maintenance.delete_thread(db, self._checkpoints, str(thread_id)))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Hide the checkpoints of some runs."""
        await self._line.call(lambda db: maintenance.delete_for_runs(db, run_ids))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """A new thread with all checkpoints of another."""
        source, target = str(source_thread_id), str(target_thread_id)
        await self._line.call(lambda db: maintenance.copy_thread(db, self._checkpoints, source, target))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Hide all but the newest checkpoints, or delete the threads."""
        await self._line.call(lambda db: maintenance.prune(db, self._checkpoints, thread_ids, strategy))

    async def areindex(self, thread_id: str) -> int:
        """Make the index of an imported thread; how many checkpoints it has."""
        return await self._line.call(lambda db: maintenance.reindex(db, self._checkpoints, str(thread_id)))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What delta channels stand on: the newest stored value, and the writes since."""
        return await self._line.call(self._look_back(config, channels)) if channels else {}

    async def aclose(self) -> None:
        """Close the database, if it was opened here."""
        await asyncio.to_thread(self._line.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _Listing:
    """How far a list has come."""

    def __init__(
        self,
        config: RunnableConfig | None,
        filter: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> None:
        named = config["configurable"] if config else {}
        self.id: str | None = named.get("checkpoint_id") or None
        self.filter = filter or {}
        self.wanted = Wanted(
            thread=_thread_of(config) if config else None,
            namespace=named.get("checkpoint_ns"),
            before=get_checkpoint_id(before) if before else None,
        )
        self._left = limit
        self._ended = False

    @property
    def name(self) -> tuple[str, str, str]:
        """The one checkpoint that is asked for."""
        assert self.wanted.thread is not None
        assert self.id is not None
        return self.wanted.thread, self.wanted.namespace or "", self.id

    @property
    def is_done(self) -> bool:
        """Whether nothing more is wanted, or nothing more is there."""
        return self._ended or (self._left is not None and self._left <= 0)

    @property
    def next_page(self) -> int:
        """How many to read next."""
        return PAGE if self._left is None or self.filter else min(PAGE, self._left)

    def take(self, found: Sequence[Found], after: Indexed | None) -> Sequence[Found]:
        """As many of a page as are still wanted."""
        self._ended = after is None
        taken = found if self._left is None else found[: self._left]
        if self._left is not None:
            self._left -= len(taken)
        return taken

    def only(self, found: CheckpointTuple | None) -> Sequence[CheckpointTuple]:
        """The one checkpoint, if it is wanted."""
        if found is None or self.is_done or (self.wanted.before and self.name[2] >= self.wanted.before):
            return []
        passes = all(found.metadata.get(name) == value for name, value in self.filter.items())
        return [found] if passes else []


def _thread_of(config: RunnableConfig) -> str:
    thread = config["configurable"].get("thread_id")
    if thread is None:
        raise InvalidArgument(problem='LangGraph needs a thread_id: {"configurable": {"thread_id": "…"}}.')
    return str(thread)


def _namespace_of(config: RunnableConfig) -> str:
    namespace: str = config["configurable"].get("checkpoint_ns", "")
    return namespace


def _config_after(config: RunnableConfig, checkpoint: Checkpoint) -> RunnableConfig:
    after: RunnableConfig = config_of(_thread_of(config), _namespace_of(config), checkpoint["id"])
    return after
