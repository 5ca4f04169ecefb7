"""The runs of graphs that are under way here: each has its thread's lease from its first read to its end."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, Literal, TypeAlias

import msgspec
from langgraph._internal._constants import CONFIG_KEY_RUNTIME, CONFIG_KEY_TASK_ID

from clew.adapters.langgraph.leases import LeaseName, LeaseState, ThreadLeases
from clew.adapters.langgraph.rebase import RunRebase
from clew.adapters.langgraph.run_ends import RunEnds, run_ends
from clew.core.errors import ClewError, LeaseLost
from clew.core.values import Require
from clew.database.database import Database

OnConflict: TypeAlias = Literal["refuse", "wait", "rebase"]
"""The choice of a run that finds another one at work on its thread."""

REFUSE: Final = "refuse"
REBASE: Final = "rebase"
GRACE_SECONDS: Final = 0.25
"""The time that a run which is to be refused gives the other to end: to meet for a moment is no conflict."""

logger = logging.getLogger(__name__)


class NamedCheckpointId(str):
    """The id of a checkpoint that was read by its name.

    LangGraph passes it on to the put that goes on from it, which is then a fork on purpose.
    """

    __slots__ = ()


class GraphRun:
    """A run of a graph: what it read first, its lease, and what was written since it read.

    LangGraph hands the same ``runtime`` to every call of a run, and the same control to those of its
    subgraphs.
    """

    def __init__(self, id: str, thread: str, runtime: Any, *, is_addressed: bool) -> None:
        self.id = id
        self.thread = thread
        self.runtime = runtime
        self.is_addressed = is_addressed
        self.base: str | None = None
        self.name: LeaseName | None = None
        self.lease: LeaseState | None = None
        self.rebase: RunRebase | None = None
        self.lock = asyncio.Lock()
        self.timer: asyncio.TimerHandle | None = None
        self.renewal: asyncio.Task[None] | None = None

    def requirement(self) -> Require:
        """The write that lets a commit through only while the lease is this run's."""
        if self.lease is None or self.name is None:
            raise LeaseLost(thread=self.thread, run=self.id)
        return self.name.requirement(self.lease.revision)


class PutFence(msgspec.Struct, frozen=True):
    """The fence of a put: the run that it belongs to, or that it has to be behind the newest checkpoint."""

    run: GraphRun | None = None
    is_behind_newest: bool = False


class GraphRuns:
    """The runs of one checkpointer, found by what LangGraph passes along."""

    def __init__(
        self,
        leases: ThreadLeases,
        on_conflict: OnConflict,
        wait_seconds: float,
        ends: RunEnds | None = None,
    ) -> None:
        self.leases = leases
        self._on_conflict = on_conflict
        self._wait_seconds = GRACE_SECONDS if on_conflict == REFUSE else wait_seconds
        self._ends = ends or run_ends()
        self._runs: dict[int, GraphRun] = {}

    # On the caller's thread.

    def begin(
        self, configurable: dict[str, Any], thread: str, release: Callable[[GraphRun], Future[None]]
    ) -> GraphRun | None:
        """The run that reads here for the first time; None if this read begins no run.

        A run whose end nobody would report has no lease.
        """
        runtime, current = configurable.get(CONFIG_KEY_RUNTIME), self._ends.current_run
        if runtime is None or CONFIG_KEY_TASK_ID in configurable or id(runtime) in self._runs:
            return None
        if current is None or self._ends.has(current):
            return None
        run = GraphRun(str(current), thread, runtime, is_addressed=bool(configurable.get("checkpoint_id")))
        self._runs[id(runtime)] = run
        self._ends.add(current, lambda: release(run))
        return run

    def find(self, configurable: dict[str, Any], thread: str) -> GraphRun | None:
        """The run that a call belongs to: its own, or that of the graph around it."""
        runtime = configurable.get(CONFIG_KEY_RUNTIME)
        if runtime is None:
            return None
        run = self._runs.get(id(runtime))
        if run is not None:
            return run if run.thread == thread else None
        return next(
            (
                run
                for run in list(self._runs.values())
                if run.thread == thread and run.runtime.control is runtime.control
            ),
            None,
        )

    def fence(self, configurable: dict[str, Any], thread: str, source: str | None) -> PutFence:
        """The fence of a put. One that no graph makes, and one that makes a fork on purpose, has none."""
        run = self.find(configurable, thread)
        if run is not None:
            return PutFence(run=run)
        is_graphs = CONFIG_KEY_RUNTIME in configurable and CONFIG_KEY_TASK_ID not in configurable
        is_fork = source == "fork" or isinstance(configurable.get("checkpoint_id"), NamedCheckpointId)
        return PutFence(is_behind_newest=not is_fork and (is_graphs or source == "update"))

    # On the database's event loop.

    async def start(self, db: Database, run: GraphRun, owner: str | None) -> None:
        """Take the lease of a run's thread, before it reads.

        Raises:
            TurnBusy: Another run has it, and this one does not wait, or has waited long enough.
        """
        run.name = LeaseName(run.thread, owner)
        if self._on_conflict == REBASE:
            run.lease = await self.leases.try_take(db, run.name, run.id)
        else:
            run.lease = await self.leases.take(db, run.name, run.id, self._wait_seconds)
        self._renew_later(db, run)

    async def hold(self, db: Database, run: GraphRun) -> bool:
        """Take the lease before a run's first write, if it began without; return whether it did now.

        Raises:
            TurnBusy: Another run has it still after all the time that a run waits.
        """
        assert run.name is not None
        if run.lease is not None:
            return False
        run.lease = await self.leases.take(db, run.name, run.id, self._wait_seconds)
        self._renew_later(db, run)
        return True

    async def look_again(self, db: Database, run: GraphRun) -> None:
        """Read the lease of a run whose write was refused for it.

        Raises:
            LeaseLost: Another run has it, or had it.
        """
        assert run.name is not None
        state = await self.leases.read(db, run.name)
        if state.run != run.id:
            raise LeaseLost(thread=run.thread, run=run.id)
        run.lease = state

    async def end(self, db: Database, run: GraphRun) -> None:
        """Give a run's lease back. What goes wrong is logged; the lease expires by itself."""
        self._runs.pop(id(run.runtime), None)
        if run.timer is not None:
            run.timer.cancel()
        if run.renewal is not None:
            run.renewal.cancel()
            await asyncio.wait([run.renewal])
        if run.lease is not None and run.name is not None:
            try:
                await self.leases.release(db, run.name, run.id)
            except ClewError as error:
                logger.warning("The lease of thread %r is left to expire: %s", run.thread, error)

    def _renew_later(self, db: Database, run: GraphRun) -> None:
        if run.lease is not None:
            loop = asyncio.get_running_loop()
            run.timer = loop.call_later(self.leases.seconds / 3, self._begin_renewal, db, run)

    def _begin_renewal(self, db: Database, run: GraphRun) -> None:
        run.renewal = asyncio.get_running_loop().create_task(self._renew(db, run))

    async def _renew(self, db: Database, run: GraphRun) -> None:
        assert run.name is not None
        try:
            run.lease = await self.leases.renew(db, run.name, run.id)
        except LeaseLost:
            return  # the next write finds the lease moved, and says so
        except ClewError as error:
            logger.warning("The lease of thread %r was not renewed: %s", run.thread, error)
        self._renew_later(db, run)
