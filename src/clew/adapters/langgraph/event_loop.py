"""On which event loop a database is used, and how callers on other loops and on plain threads get there."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from typing import TypeVar

from clew.core.errors import InvalidArgument, StoreClosed
from clew.database.database import Database
from clew.urls import open as open_database

R = TypeVar("R")


class DatabaseLoop:
    """A way to a database: an open one on the loop it was opened on, or one of our own on a loop of its own.

    A database of our own is opened by the first call and closed by ``close``.
    """

    def __init__(self, db: Database | str) -> None:
        self._url = db if isinstance(db, str) else None
        self._database = None if isinstance(db, str) else db
        self._loop = _running_loop() if self._url is None else None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._open_lock: asyncio.Lock | None = None
        self._is_closed = False

    def run(self, work: Callable[[Database], Awaitable[R]]) -> R:
        """Run a coroutine for a caller on a plain thread and return its result.

        Raises:
            InvalidArgument: The caller is on the loop that would have to do it.
        """
        loop = self._own_loop() if self._url is not None else self._borrowed_loop()
        future = asyncio.run_coroutine_threadsafe(self._run_work(work), loop)
        try:
            return future.result()
        except CancelledError:
            raise StoreClosed from None
        except BaseException:
            future.cancel()
            raise

    async def call(self, work: Callable[[Database], Awaitable[R]]) -> R:
        """Run a coroutine for a caller on any event loop and return its result."""
        here = asyncio.get_running_loop()
        if self._url is None and (self._loop is None or self._loop.is_closed()):
            self._loop = here
        loop = self._own_loop() if self._url is not None else self._loop
        if loop is here or loop is None:
            return await self._run_work(work)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._run_work(work), loop))

    def submit(self, work: Callable[[Database], Awaitable[R]]) -> Future[R]:
        """Begin a coroutine, for a caller anywhere; its result comes later."""
        loop = self._loop
        if loop is None or loop.is_closed():
            future: Future[R] = Future()
            future.set_exception(StoreClosed())
            return future
        return asyncio.run_coroutine_threadsafe(self._run_work(work), loop)

    def close(self) -> None:
        """Close the database, if it is our own."""
        with self._lock:
            self._is_closed = True
            loop, thread, self._thread = self._loop, self._thread, None
        if thread is None or loop is None:
            return
        asyncio.run_coroutine_threadsafe(self._close_database(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    async def _run_work(self, work: Callable[[Database], Awaitable[R]]) -> R:
        if self._database is None:
            await self._open()
        assert self._database is not None
        return await work(self._database)

    async def _open(self) -> None:
        self._open_lock = self._open_lock or asyncio.Lock()
        async with self._open_lock:
            if self._database is None and self._url is not None:
                self._database = await open_database(self._url)

    async def _close_database(self) -> None:
        if self._database is not None:
            await self._database.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.get_running_loop().shutdown_default_executor()

    def _own_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._is_closed:
                raise StoreClosed
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="clew-langgraph", daemon=True
                )
                self._thread.start()
            return self._loop

    def _borrowed_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or self._loop.is_closed():
            raise InvalidArgument(
                problem="This database has no event loop to work on. "
                "Use it where it was opened, or give a URL."
            )
        if self._loop is _running_loop():
            raise InvalidArgument(
                problem="A blocking call would wait for its own event loop. Await the async method instead, "
                "or give a URL."
            )
        return self._loop


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
