"""Connections that read: for a moment on the loop itself, and for longer on threads of their own.

To hand a short reading to a thread and to wake up again costs more than the reading. So it begins where it
was called, as long as its questions are quick ones, and goes on in a thread, in the same transaction, when
its moment is over. After one that waited for the disk, the next ones are left to the threads for a while;
one that was only kept from running by others, on a machine with too much to do, changes nothing.
"""

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Self, TypeAlias, TypeVar

import apsw
import msgspec

from clew.core.errors import InvalidArgument, StoreClosed
from clew.core.log.rows import Ask, OpenQuestion, StoreRead, resume_read, run_read, run_read_while
from clew.stores.sqlite.connection import clew_error
from clew.stores.sqlite.loop_limits import LOOP_SECONDS, QUICK_QUESTIONS, DiskReads, LoopShare
from clew.stores.sqlite.open_file import OpenFile

T = TypeVar("T")
Work: TypeAlias = Callable[[apsw.Connection], T]
AnswerFactory: TypeAlias = Callable[[apsw.Connection], Callable[[Ask[Any]], Any]]
"""A function that makes the answers to questions on a connection."""
SLOW_SECONDS, AVOID_LOOP_SECONDS = 0.005, 1.0
"""After a reading that held the loop so long to wait for the disk, none is begun there for so long."""


class Readers:
    """A few readers. The one that worked last works next: its caches are warm.

    Only the loop knows which readers are free and which tasks wait, so nothing is locked. The connection of
    a free reader is used by the loop, that of one at work by its thread.
    """

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        file: OpenFile,
        store: str,
        count: int,
        share: LoopShare,
    ) -> None:
        self._file = file
        self._share = share
        self._disk_reads = DiskReads()
        self._free = [_Reader(connect, store, number) for number in range(count)]
        self._all = tuple(self._free)
        self._waiting: deque[ReadTask] = deque()
        self._closed = False
        self._avoid_loop_until = 0.0

    def start(self) -> None:
        """Begin to wait for work. Called on the loop that will read."""
        self._disk_reads.have_risen()  # counted from here on
        for reader in self._all:
            reader.start()

    async def read(self, read: StoreRead[T], answers: AnswerFactory) -> T:
        """The result of a reading, all of it from one moment."""
        if self._closed:
            raise StoreClosed
        start = time.monotonic()
        self._file.look(start)
        reader = self._free[-1] if self._free and start >= self._avoid_loop_until else None
        if reader is None or reader.connection is None:
            return await self.run(lambda connection: _run_whole_read(connection, read, answers))
        result = reader.run_quick(read, answers, start + LOOP_SECONDS)
        seconds = (now := time.monotonic()) - start
        if seconds > SLOW_SECONDS and self._disk_reads.have_risen():
            self._avoid_loop_until = now + AVOID_LOOP_SECONDS
        if isinstance(result, _ReadRest):
            return await self.run(result.work)  # by the same reader: it is still the last of the free ones
        await self._share.spend(seconds)
        return result

    async def run(self, work: Work[T]) -> T:
        """The result of some work on a reading connection, in its thread."""
        if self._closed:
            raise StoreClosed
        self._file.look(time.monotonic())
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        task = ReadTask(work, future, loop, self._release)
        if self._free:
            self._free.pop().queue.put(task)
        else:
            self._waiting.append(task)
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

    def _release(self, reader: "_Reader") -> None:
        if self._waiting:
            reader.queue.put(self._waiting.popleft())
        else:
            self._free.append(reader)


class ReadTask:
    """Some work for a reader, and the future that waits for it."""

    __slots__ = ("error", "future", "loop", "release", "result", "work")

    def __init__(
        self,
        work: Work[Any],
        future: "asyncio.Future[Any]",
        loop: asyncio.AbstractEventLoop,
        release: Callable[["_Reader"], None],
    ) -> None:
        self.work = work
        self.future = future
        self.loop = loop
        self.release = release
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
        self.release(reader)
        if self.future.done():
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


class _Reader:
    """A thread with a queue of its own and, once it was needed, a connection of its own."""

    def __init__(self, connect: Callable[[], apsw.Connection], store: str, number: int) -> None:
        self.queue: queue.SimpleQueue[ReadTask | None] = queue.SimpleQueue()
        self.connection: apsw.Connection | None = None
        self._connect = connect
        self._store = store
        self._thread = threading.Thread(target=self._run, name=f"clew-reader-{number}", daemon=True)

    def start(self) -> None:
        """Begin to wait for work."""
        self._thread.start()

    def join(self) -> None:
        """Wait for its end."""
        self._thread.join()

    def run_quick(self, read: StoreRead[T], answers: AnswerFactory, until: float) -> "T | _ReadRest[T]":
        """On the loop: the result of a reading, or the rest of it for the thread."""
        assert self.connection is not None
        try:
            return _run_until(self.connection, read, answers, until)
        except (apsw.Error, UnicodeEncodeError, OverflowError) as error:
            raise self._clew_error_for(error) from error

    def _run(self) -> None:
        while (task := self.queue.get()) is not None:
            with task:
                self.connection = self.connection or self._connect()
                task.result = task.work(self.connection)
            if task.error is not None:
                task.error = self._clew_error_for(task.error)
            with suppress(RuntimeError):  # the loop was closed, and its tasks with it
                task.loop.call_soon_threadsafe(task.deliver, self)
        if self.connection is not None:
            self.connection.close()

    def _clew_error_for(self, error: BaseException) -> BaseException:
        if isinstance(error, apsw.Error):
            return clew_error(error, self._store)
        if isinstance(error, UnicodeEncodeError | OverflowError):
            return InvalidArgument(problem=f"SQLite cannot look for this: {error}.")
        return error


# Readings.


class _ReadRest(msgspec.Struct, Generic[T], frozen=True):
    """The rest of a reading that was begun on the loop."""

    work: Work[T]


def _run_whole_read(connection: apsw.Connection, read: StoreRead[T], answers: AnswerFactory) -> T:
    connection.execute("BEGIN")
    return _run_to_end(connection, read, answers)


def _run_to_end(connection: apsw.Connection, read: StoreRead[T], answers: AnswerFactory) -> T:
    try:
        return run_read(read, answers(connection))
    finally:
        connection.execute("END")


def _run_until(
    connection: apsw.Connection, read: StoreRead[T], answers: AnswerFactory, until: float
) -> T | _ReadRest[T]:
    connection.execute("BEGIN")
    result: T | OpenQuestion | None = None
    try:
        result = run_read_while(
            read,
            answers(connection),
            lambda question: type(question) in QUICK_QUESTIONS and time.monotonic() < until,
        )
    finally:
        if not isinstance(result, OpenQuestion):
            connection.execute("END")
    if isinstance(result, OpenQuestion):
        rest = resume_read(read, result.question)
        return _ReadRest(lambda connection: _run_to_end(connection, rest, answers))
    return result
