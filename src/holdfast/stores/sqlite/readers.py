"""Threads that read, each on a connection of its own."""

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

import apsw

from holdfast.core.errors import InvalidArgument, StoreClosed
from holdfast.stores.sqlite.errors import ours

T = TypeVar("T")


class Readers:
    """A few reading threads. The one that worked last works next: its caches are warm.

    Who is free and what waits is known to the loop alone, so nothing is locked.
    """

    def __init__(self, connect: Callable[[], apsw.Connection], store: str, count: int) -> None:
        self._free = [_Reader(connect, store, number) for number in range(count)]
        self._all = tuple(self._free)
        self._waiting: deque[Job] = deque()
        self._closed = False

    def start(self) -> None:
        """Begin to wait for work."""
        for reader in self._all:
            reader.start()

    async def run(self, work: Callable[[apsw.Connection], T]) -> T:
        """The result of some work on a reading connection."""
        if self._closed:
            raise StoreClosed
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        job = Job(work, future, loop, self._done)
        if self._free:
            self._free.pop().queue.put(job)
        else:
            self._waiting.append(job)
        return await future

    def end(self) -> None:
        """Take no more work, and end after what waits. Called on the loop, like all that knows what waits."""
        if self._closed:
            return
        self._closed = True
        while self._waiting:
            self._all[0].queue.put(self._waiting.popleft())
        for reader in self._all:
            reader.queue.put(None)

    def join(self) -> None:
        """Block until all connections are closed."""
        for reader in self._all:
            reader.join()

    def _done(self, reader: "_Reader") -> None:
        if self._waiting:
            reader.queue.put(self._waiting.popleft())
        else:
            self._free.append(reader)


class Job:
    """Some work for a reader, and who waits for it."""

    __slots__ = ("done", "error", "future", "loop", "result", "work")

    def __init__(
        self,
        work: Callable[[apsw.Connection], Any],
        future: "asyncio.Future[Any]",
        loop: asyncio.AbstractEventLoop,
        done: Callable[["_Reader"], None],
    ) -> None:
        self.work = work
        self.future = future
        self.loop = loop
        self.done = done
        self.result: Any = None
        self.error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.error = error
        return True

    def deliver(self, reader: "_Reader") -> None:
        """On the loop: free the reader, and hand over the result or whatever the work raised."""
        self.done(reader)
        if self.future.done():
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


class _Reader:
    """A thread with a queue of its own and, once it was needed, a connection of its own."""

    def __init__(self, connect: Callable[[], apsw.Connection], store: str, number: int) -> None:
        self.queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._connect = connect
        self._store = store
        self._thread = threading.Thread(target=self._run, name=f"holdfast-reader-{number}", daemon=True)

    def start(self) -> None:
        """Begin to wait for work."""
        self._thread.start()

    def join(self) -> None:
        """Wait for its end."""
        self._thread.join()

    def _run(self) -> None:
        connection: apsw.Connection | None = None
        while (job := self.queue.get()) is not None:
            with job:
                connection = connection or self._connect()
                job.result = job.work(connection)
            if isinstance(job.error, apsw.Error):
                job.error = ours(job.error, self._store)
            elif isinstance(job.error, UnicodeEncodeError | OverflowError):
                job.error = InvalidArgument(problem=f"SQLite cannot look for this: {job.error}.")
            with suppress(RuntimeError):  # the loop was closed, so nobody waits there any more
                job.loop.call_soon_threadsafe(job.deliver, self)
        if connection is not None:
            connection.close()
