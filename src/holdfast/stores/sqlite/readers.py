"""Threads that read, each on a connection of its own."""

import asyncio
import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

import apsw

from holdfast.core.errors import StoreClosed
from holdfast.stores.sqlite.errors import ours

T = TypeVar("T")


class Readers:
    """A few reading threads with one queue. Connections are opened when first needed."""

    def __init__(self, connect: Callable[[], apsw.Connection], store: str, count: int) -> None:
        self._connect = connect
        self._store = store
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name=f"holdfast-reader-{n}", daemon=True) for n in range(count)
        ]
        self._closed = False

    def start(self) -> None:
        """Begin to wait for work."""
        for thread in self._threads:
            thread.start()

    async def run(self, work: Callable[[apsw.Connection], T]) -> T:
        """The result of some work on a reading connection."""
        if self._closed:
            raise StoreClosed
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._queue.put((work, future, loop))
        return await future

    def close(self) -> None:
        """End after what is queued; blocks until all connections are closed."""
        if not self._closed:
            self._closed = True
            for _ in self._threads:
                self._queue.put(None)
            for thread in self._threads:
                thread.join()

    def _run(self) -> None:
        connection: apsw.Connection | None = None
        while (job := self._queue.get()) is not None:
            work, future, loop = job
            with _Delivery(self._store, future, loop) as delivery:
                connection = connection or self._connect()
                delivery.result = work(connection)
        if connection is not None:
            connection.close()


class _Delivery:
    """Hands the result of some work, or whatever it raised, to the loop that waits for it."""

    def __init__(self, store: str, future: "asyncio.Future[Any]", loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._future = future
        self._loop = loop
        self.result: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, apsw.Error):
            error = ours(error, self._store)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._deliver, error)
        return True

    def _deliver(self, error: BaseException | None) -> None:
        if self._future.done():
            return
        if error is None:
            self._future.set_result(self.result)
        else:
            self._future.set_exception(error)
