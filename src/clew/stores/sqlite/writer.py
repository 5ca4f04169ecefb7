"""The writer: commits waiting at the same moment go to disk together, in a thread or on the loop itself."""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Literal, TypeAlias

import apsw

from clew.core.errors import ClewError, StoreClosed
from clew.core.log.commit import Plan, Planner
from clew.core.values import Scope
from clew.stores.sqlite.loop_limits import CommitPace, LoopShare, ready_handles
from clew.stores.sqlite.open_file import OpenFile
from clew.stores.sqlite.transactions import CommitOutcome, CommitRequest, Transactions

COMMITS_PER_TRANSACTION = 128
"""Commits in one transaction: one sync serves them all."""
CHECKPOINT_PAGES = 1000
"""Pages in the WAL before it is moved into the file: a page that is written often is moved less often."""

CommitWay: TypeAlias = Literal["auto", "loop", "thread"]
"""The way of commits: on the loop while the disk is quick, whenever that is possible at all, or never."""


class Checkpoint:
    """A request to move the WAL into the file."""


CHECKPOINT: Final = Checkpoint()


class Writer:
    """The way of commits to the writing connection. One is answered only once it is on disk.

    A commit is made where it was asked for if nothing else is ready to run there; otherwise together with all
    that becomes ready in the same pass of the loop. Both only while the disk is quick and no other store has
    the file open. In all other cases a thread of its own makes it.
    """

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        file: OpenFile,
        store: str,
        clock: Callable[[], int],
        random: Callable[[int], bytes],
        share: LoopShare,
        way: CommitWay = "auto",
    ) -> None:
        self._transactions = Transactions(connect, file, store, clock, random)
        self._share = share
        self._way = way
        self._pace = CommitPace()
        self._queue: queue.SimpleQueue[CommitRequest | Checkpoint | None] = queue.SimpleQueue()
        self._waiting: dict[asyncio.AbstractEventLoop, list[CommitRequest]] = {}
        self._thread_is_busy = False
        self._closed = False
        self._end_lock = threading.Lock()
        self._open_error: Exception | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clew-writer", daemon=True)

    def start(self) -> None:
        """Open the connection in its own thread; raise what went wrong there."""
        self._thread.start()
        self._ready.wait()
        if self._open_error is not None:
            raise self._open_error

    async def commit(self, scope: Scope, planner: Planner) -> Plan:
        """The plan, once it is on disk.

        A caller that is cancelled withdraws a commit that has not begun; one that has begun is kept.
        """
        if self._closed:
            raise StoreClosed
        if self._share.is_used_up:
            await self._share.pass_on()
        loop = asyncio.get_running_loop()
        request = CommitRequest(scope, planner)
        ready = ready_handles(loop) if self._may_use_loop() else None
        if ready is None:
            return await self._wait_for(request, loop, self._hand_over)
        if ready or self._waiting:
            return await self._wait_for(request, loop, self._gather)
        outcomes = self._commit_on_loop([request])
        if outcomes is None:
            return await self._wait_for(request, loop, self._hand_over)
        outcome = outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def end(self) -> None:
        """Take no more commits, and end after what waits."""
        with self._end_lock:
            if self._closed:
                return
            self._closed = True
            for loop in list(self._waiting):
                for request in self._waiting.pop(loop, ()):
                    self._queue.put(request)
            self._queue.put(None)

    def join(self) -> None:
        """Block until the connection is closed."""
        self._thread.join()

    # On the loop.

    def _may_use_loop(self) -> bool:
        """Return whether commits may be made on the loop now: never past one that waits for the thread."""
        if not self._pace.is_quick and self._way != "loop":
            return False
        return not self._thread_is_busy and self._way != "thread" and self._queue.empty()

    async def _wait_for(
        self,
        request: CommitRequest,
        loop: asyncio.AbstractEventLoop,
        submit: Callable[[CommitRequest], object],
    ) -> Plan:
        """Submit a commit that others will make, and wait for it."""
        request.future = loop.create_future()
        submit(request)
        return await request.future

    def _gather(self, request: CommitRequest) -> None:
        """Have a commit made with all others that become ready in this pass of the loop."""
        assert request.future is not None
        loop = request.future.get_loop()
        group = self._waiting.get(loop)
        if group is None:
            self._waiting[loop] = [request]
            loop.call_soon(self._flush, loop)
        else:
            group.append(request)

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        """Commit what was gathered in a pass of a loop."""
        group = self._waiting.pop(loop, [])
        while group:
            part, group = group[:COMMITS_PER_TRANSACTION], group[COMMITS_PER_TRANSACTION:]
            outcomes = self._commit_on_loop(part) if self._may_use_loop() else None
            if outcomes is None:
                for request in (*part, *group):
                    self._hand_over(request)
                return
            _deliver(part, outcomes)

    def _commit_on_loop(self, group: Sequence[CommitRequest]) -> list[CommitOutcome] | None:
        """The outcomes of commits; None if the thread must make them."""
        start = time.perf_counter()
        outcomes = self._transactions.try_commit(group)
        self._share.use(time.perf_counter() - start)
        if outcomes is not None:
            self._pace.note(self._transactions.commit_seconds, len(group), on_loop=True)
            if self._transactions.pages >= CHECKPOINT_PAGES:
                self._queue.put(CHECKPOINT)
        return outcomes

    def _hand_over(self, request: CommitRequest) -> None:
        """Leave a commit to the thread; one that comes after its end is refused."""
        with self._end_lock:
            if not self._closed:
                self._queue.put(request)
                return
        _deliver([request], [StoreClosed()])

    # In the thread.

    def _run(self) -> None:
        try:
            self._transactions.open()
        except (apsw.Error, ClewError, OSError) as error:
            self._open_error = error
            return
        finally:
            self._ready.set()
        try:
            while (group := self._next_group()) is not None:
                if group:
                    self._commit_in_thread(group)
                if self._transactions.pages >= CHECKPOINT_PAGES:
                    self._transactions.checkpoint()
        finally:
            self._transactions.close()

    def _commit_in_thread(self, group: Sequence[CommitRequest]) -> None:
        outcomes = self._transactions.commit(group)
        self._pace.note(self._transactions.commit_seconds, len(group), on_loop=False)
        # Before the answers: whoever gets one may commit on the loop at once.
        self._thread_is_busy = self._transactions.pages >= CHECKPOINT_PAGES
        self._answer(group, outcomes)

    def _next_group(self) -> list[CommitRequest] | None:
        """All commits that wait now; none if only a checkpoint is due; None when it is time to end."""
        self._thread_is_busy = False
        group: list[CommitRequest] = []
        request = self._queue.get()
        self._thread_is_busy = True
        while request is not None:
            if isinstance(request, CommitRequest):
                group.append(request)
            if len(group) == COMMITS_PER_TRANSACTION or self._queue.empty():
                return group
            request = self._queue.get()
        # The end was met behind this group; it is put back, to be met again by itself.
        if group:
            self._queue.put(None)
        return group or None

    def _answer(self, group: Sequence[CommitRequest], outcomes: Sequence[CommitOutcome]) -> None:
        """Wake each waiting loop once."""
        # Waking a loop costs much of an append's time, so all answers for one loop go together.
        by_loop: dict[asyncio.AbstractEventLoop, tuple[list[CommitRequest], list[CommitOutcome]]] = {}
        for request, outcome in zip(group, outcomes, strict=True):
            assert request.future is not None
            requests, answers = by_loop.setdefault(request.future.get_loop(), ([], []))
            requests.append(request)
            answers.append(outcome)
        for loop, (requests, answers) in by_loop.items():
            with suppress(RuntimeError):  # the loop was closed, and its tasks with it
                loop.call_soon_threadsafe(_deliver, requests, answers)


def _deliver(group: Sequence[CommitRequest], outcomes: Sequence[CommitOutcome]) -> None:
    for request, outcome in zip(group, outcomes, strict=True):
        if request.future is None or request.future.done():
            continue
        if isinstance(outcome, Exception):
            request.future.set_exception(outcome)
        else:
            request.future.set_result(outcome)
