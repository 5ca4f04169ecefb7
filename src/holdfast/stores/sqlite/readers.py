"""Threads that read, each on a connection of its own."""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

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
            result: Any = None
            failure: BaseException | None = None
            try:
                connection = connection or self._connect()
                result = work(connection)
            except apsw.Error as error:
                failure = ours(error, self._store)
                failure.__cause__ = error
            except Exception as error:  # whatever the work raised belongs to its caller
                failure = error
            if not loop.is_closed():
                loop.call_soon_threadsafe(_deliver, future, result, failure)
        if connection is not None:
            connection.close()


def _deliver(future: "asyncio.Future[Any]", result: Any, failure: BaseException | None) -> None:
    if future.done():
        return
    if failure is None:
        future.set_result(result)
    else:
        future.set_exception(failure)
