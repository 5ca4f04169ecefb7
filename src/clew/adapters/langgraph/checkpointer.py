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
from concurrent.futures import Future
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
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from clew.adapters.langgraph import maintenance
from clew.adapters.langgraph.checkpoints import EncodedCheckpoint, ThreadCheckpoints, config_of
from clew.adapters.langgraph.event_loop import DatabaseLoop
from clew.adapters.langgraph.layout import TaskWrites, checkpoint_key
from clew.adapters.langgraph.leases import ThreadLeases
from clew.adapters.langgraph.put_plan import PutRequest
from clew.adapters.langgraph.registry import CHECKPOINTS_PER_PAGE, CheckpointSelection, IndexEntry
from clew.adapters.langgraph.runs import REFUSE, GraphRun, GraphRuns, NamedCheckpointId, OnConflict
from clew.adapters.langgraph.serializer import TypeName, split_serde
from clew.core.arguments import Seconds, check_methods
from clew.core.errors import InvalidArgument
from clew.database.database import Database

R = TypeVar("R")
DatabaseWork = Callable[[Database], Awaitable[R]]


@check_methods
class Checkpointer(BaseCheckpointSaver[int]):
    """Keeps the checkpoints of LangGraph's graphs in Clew's threads, one thread for each thread_id.

    ``db`` is an open database, used on the event loop it was opened on, or a URL; then it is opened by the
    first call, on a loop of its own, and closed by ``close``. ``types`` are the types that checkpoints may
    hold besides LangGraph's own; a state's schema includes every type it mentions.

    A run has its thread to itself from its first read to its end, by a lease of ``lease_seconds`` that is
    renewed while it works. ``on_conflict`` is for a run that finds another at work: "refuse" ends it with
    ``TurnBusy``; "wait" lets it wait for its turn, ``wait_seconds`` at most; "rebase" lets it work on what it
    read, and puts its checkpoints behind those of the other as far as the two commute.

    Raises:
        InvalidArgument: ``serde`` would use pickle, or is of a kind that cannot be checked.
    """

    def __init__(
        self,
        db: Database | str,
        *,
        types: Iterable[type | TypeName] = (),
        serde: SerializerProtocol | None = None,
        on_conflict: OnConflict = REFUSE,
        lease_seconds: Seconds = 15.0,
        wait_seconds: Seconds = 60.0,
    ) -> None:
        serializer, body_cipher = split_serde(serde, types)
        super().__init__(serde=serializer)
        self._database_loop = DatabaseLoop(db)
        self._runs = GraphRuns(ThreadLeases(lease_seconds), on_conflict, wait_seconds)
        self._checkpoints = ThreadCheckpoints(serializer, body_cipher, self._runs)

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> "Checkpointer":
        """The same checkpointer for a graph whose schema names some more types."""
        checkpoints = self._checkpoints.with_types(extra_allowlist)
        other = copy.copy(self)
        vars(other).update(_checkpoints=checkpoints, serde=checkpoints.serializer)
        return other

    def get_next_version(self, current: Any, channel: None) -> Any:
        """The version after this one. A plain number will do: no two checkpoints look each other up by it.

        A thread that was moved here from a saver of LangGraph's has texts for versions, which sort as numbers
        do; it goes on with texts, since LangGraph compares them.
        """
        if isinstance(current, str):
            return f"{int(current.partition('.')[0]) + 1:032}.{0:016}"
        return 1 if current is None else int(current) + 1

    # What each call asks for, blocking or awaited.

    def _get_work(self, config: RunnableConfig) -> DatabaseWork[EncodedCheckpoint | None]:
        thread, namespace, id = _thread_of(config), _namespace_of(config), _checkpoint_id_of(config)
        if (run := self._runs.begin(config["configurable"], thread, self._end_run)) is not None:
            return lambda db: self._checkpoints.begin_run(db, run, id)
        return lambda db: self._checkpoints.get(db, thread, namespace, id)

    def _end_run(self, run: GraphRun) -> Future[None]:
        return self._database_loop.submit(lambda db: self._runs.end(db, run))

    def _decode(self, config: RunnableConfig, checkpoint: EncodedCheckpoint | None) -> CheckpointTuple | None:
        """A checkpoint that was read; its id says so if the caller had named it."""
        if checkpoint is None:
            return None
        checkpoint_tuple = self._checkpoints.decode_checkpoint(checkpoint)
        if (id := _checkpoint_id_of(config)) is not None:
            checkpoint_tuple.config["configurable"]["checkpoint_id"] = NamedCheckpointId(id)
        return checkpoint_tuple

    def _put_work(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> DatabaseWork[None]:
        request = PutRequest(
            namespace=_namespace_of(config),
            parent=_checkpoint_id_of(config),
            checkpoint=checkpoint,
            metadata=get_checkpoint_metadata(config, metadata),
            new_versions=new_versions,
        )
        thread = _thread_of(config)
        ready = self._checkpoints.encode_values(thread, request)
        fence = self._runs.fence(config["configurable"], thread, metadata.get("source"))
        return lambda db: self._checkpoints.put(db, thread, ready, fence)

    def _put_writes_work(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> DatabaseWork[None]:
        thread = _thread_of(config)
        key = checkpoint_key(_namespace_of(config), str(config["configurable"]["checkpoint_id"]))
        values = [
            (WRITES_IDX_MAP.get(channel, index), channel, self._checkpoints.pack_write(channel, value))
            for index, (channel, value) in enumerate(writes)
        ]
        task_writes = TaskWrites(task=task_id, path=task_path, writes=values)
        run = self._runs.find(config["configurable"], thread)
        return lambda db: self._checkpoints.put_writes(db, thread, key, task_writes, run)

    def _page_work(
        self, listing: "_Listing", after: IndexEntry | None, limit: int
    ) -> DatabaseWork[tuple[builtins.list[EncodedCheckpoint], IndexEntry | None]]:
        return lambda db: self._checkpoints.page(db, listing.selection, after, listing.filter, limit)

    def _delta_history_work(
        self, config: RunnableConfig, channels: Sequence[str]
    ) -> DatabaseWork[Mapping[str, DeltaChannelHistory]]:
        thread, namespace = _thread_of(config), _namespace_of(config)
        return lambda db: self._checkpoints.delta_history(
            db, thread, namespace, _checkpoint_id_of(config), channels
        )

    # For graphs that are invoked.

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint, or the newest one if none is named."""
        return self._decode(config, self._database_loop.run(self._get_work(config)))

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
            yield from listing.only_checkpoint(self.get_tuple(config_of(*listing.name)))
            return
        after: IndexEntry | None = None
        while not listing.is_done:
            page, after = self._database_loop.run(self._page_work(listing, after, listing.next_page))
            yield from map(self._checkpoints.decode_checkpoint, listing.take(page, after))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint; the one named by ``config`` is its parent."""
        self._database_loop.run(self._put_work(config, checkpoint, metadata, new_versions))
        return _config_after(config, checkpoint)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote after a checkpoint."""
        self._database_loop.run(self._put_writes_work(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        """Remove a thread, with all that is in it."""
        self._database_loop.run(lambda db: maintenance.delete_thread(db, self._checkpoints, str(thread_id)))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of some runs, and free what only they needed."""
        self._database_loop.run(lambda db: maintenance.delete_for_runs(db, self._checkpoints, run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """A new thread with all checkpoints of another."""
        source, target = str(source_thread_id), str(target_thread_id)
        self._database_loop.run(lambda db: maintenance.copy_thread(db, self._checkpoints, source, target))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove all but the newest checkpoints and free what only they needed, or delete the threads."""
        self._database_loop.run(lambda db: maintenance.prune(db, self._checkpoints, thread_ids, strategy))

    def reindex(self, thread_id: str) -> int:
        """Make the index of an imported thread; how many checkpoints it has."""
        return self._database_loop.run(lambda db: maintenance.reindex(db, self._checkpoints, str(thread_id)))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """The base of delta channels: the newest stored value, and the writes since."""
        return self._database_loop.run(self._delta_history_work(config, channels)) if channels else {}

    def close(self) -> None:
        """Close the database, if it was opened here."""
        self._database_loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # For graphs that are awaited.

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint, or the newest one if none is named."""
        return self._decode(config, await self._database_loop.call(self._get_work(config)))

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
            for checkpoint_tuple in listing.only_checkpoint(await self.aget_tuple(config_of(*listing.name))):
                yield checkpoint_tuple
            return
        after: IndexEntry | None = None
        while not listing.is_done:
            page, after = await self._database_loop.call(self._page_work(listing, after, listing.next_page))
            for checkpoint in listing.take(page, after):
                yield self._checkpoints.decode_checkpoint(checkpoint)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint; the one named by ``config`` is its parent."""
        await self._database_loop.call(self._put_work(config, checkpoint, metadata, new_versions))
        return _config_after(config, checkpoint)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote after a checkpoint."""
        await self._database_loop.call(self._put_writes_work(config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """Remove a thread, with all that is in it."""
        await self._database_loop.call(
            lambda db: maintenance.delete_thread(db, self._checkpoints, str(thread_id))
        )

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of some runs, and free what only they needed."""
        await self._database_loop.call(lambda db: maintenance.delete_for_runs(db, self._checkpoints, run_ids))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """A new thread with all checkpoints of another."""
        source, target = str(source_thread_id), str(target_thread_id)
        await self._database_loop.call(
            lambda db: maintenance.copy_thread(db, self._checkpoints, source, target)
        )

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove all but the newest checkpoints and free what only they needed, or delete the threads."""
        await self._database_loop.call(
            lambda db: maintenance.prune(db, self._checkpoints, thread_ids, strategy)
        )

    async def areindex(self, thread_id: str) -> int:
        """Make the index of an imported thread; how many checkpoints it has."""
        return await self._database_loop.call(
            lambda db: maintenance.reindex(db, self._checkpoints, str(thread_id))
        )

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """The base of delta channels: the newest stored value, and the writes since."""
        return await self._database_loop.call(self._delta_history_work(config, channels)) if channels else {}

    async def aclose(self) -> None:
        """Close the database, if it was opened here."""
        await asyncio.to_thread(self._database_loop.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _Listing:
    """The progress of a list."""

    def __init__(
        self,
        config: RunnableConfig | None,
        filter: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> None:
        configurable = config["configurable"] if config else {}
        self.id = _checkpoint_id_of(config) if config else None
        self.filter = filter or {}
        self.selection = CheckpointSelection(
            thread=_thread_of(config) if config else None,
            namespace=configurable.get("checkpoint_ns"),
            before=_checkpoint_id_of(before) if before else None,
        )
        self._remaining = limit
        self._is_ended = False

    @property
    def name(self) -> tuple[str, str, str]:
        """The one checkpoint that is asked for."""
        assert self.selection.thread is not None
        assert self.id is not None
        return self.selection.thread, self.selection.namespace or "", self.id

    @property
    def is_done(self) -> bool:
        """Return whether nothing more is wanted, or nothing more is there."""
        return self._is_ended or (self._remaining is not None and self._remaining <= 0)

    @property
    def next_page(self) -> int:
        """The number of entries to read next."""
        return (
            CHECKPOINTS_PER_PAGE
            if self._remaining is None or self.filter
            else min(CHECKPOINTS_PER_PAGE, self._remaining)
        )

    def take(
        self, page: Sequence[EncodedCheckpoint], after: IndexEntry | None
    ) -> Sequence[EncodedCheckpoint]:
        """As many of a page as are still wanted."""
        self._is_ended = after is None
        result = page if self._remaining is None else page[: self._remaining]
        if self._remaining is not None:
            self._remaining -= len(result)
        return result

    def only_checkpoint(self, checkpoint: CheckpointTuple | None) -> Sequence[CheckpointTuple]:
        """The one checkpoint, if it is wanted."""
        if (
            checkpoint is None
            or self.is_done
            or (self.selection.before and self.name[2] >= self.selection.before)
        ):
            return []
        passes = all(checkpoint.metadata.get(name) == value for name, value in self.filter.items())
        return [checkpoint] if passes else []


def _thread_of(config: RunnableConfig) -> str:
    thread = config["configurable"].get("thread_id")
    if thread is None:
        raise InvalidArgument(problem='LangGraph needs a thread_id: {"configurable": {"thread_id": "…"}}.')
    return str(thread)


def _namespace_of(config: RunnableConfig) -> str:
    namespace: str = config["configurable"].get("checkpoint_ns", "")
    return namespace


def _checkpoint_id_of(config: RunnableConfig) -> str | None:
    id = config["configurable"].get("checkpoint_id")
    return str(id) if id else None


def _config_after(config: RunnableConfig, checkpoint: Checkpoint) -> RunnableConfig:
    after: RunnableConfig = config_of(_thread_of(config), _namespace_of(config), checkpoint["id"])
    return after
