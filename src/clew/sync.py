"""The blocking API: the async one, driven by an event loop in a thread of its own.

    with clew.sync.open("sqlite:///agent.db") as db:
        thread = db.create("alice-s1", owner="alice")
        thread.append(items=[clew.user("Hi")])

Every method is made from its async namesake, with its parameters, types and errors. Any thread may call it.
Each call holds up the thread that makes it, so inside an event loop use ``clew.open`` instead.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import update_wrapper
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast

from clew.core.arguments import check_arguments
from clew.core.encoding import Id
from clew.core.errors import StoreClosed
from clew.core.ports import Files
from clew.core.values import HISTORY, Limits
from clew.database.database import Database as AsyncDatabase
from clew.database.jobs import Jobs as AsyncJobs
from clew.database.log import Log as AsyncLog
from clew.database.records import Records as AsyncRecords
from clew.database.retention import Retention as AsyncRetention
from clew.database.search import SearchIndex as AsyncSearchIndex
from clew.database.thread import Thread as AsyncThread
from clew.urls import open as open_async

A = TypeVar("A")
R = TypeVar("R")
S = TypeVar("S", bound="_BlockingProxy[Any]")
P = ParamSpec("P")

_END = object()


class BackgroundLoop:
    """An event loop that runs in a thread of its own, for callers that cannot await."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._open = True
        self._thread = threading.Thread(target=self._loop.run_forever, name="clew", daemon=True)
        self._thread.start()

    def run(self, work: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a coroutine and return its result; an interrupted wait cancels it.

        Raises:
            StoreClosed: The loop has ended, or ends meanwhile.
        """

        async def call() -> R:
            return await work(*args, **kwargs)

        with self._lock:  # so that close() cancels every call that was begun before it
            if not self._open:
                raise StoreClosed
            result = asyncio.run_coroutine_threadsafe(call(), self._loop)
        try:
            return result.result()
        except CancelledError:
            raise StoreClosed from None
        except BaseException:
            result.cancel()
            raise

    def close(self) -> None:
        """End the loop and its thread; calls that still wait raise ``StoreClosed``."""
        with self._lock:
            if not self._open:
                return
            self._open = False
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._loop.shutdown_asyncgens()
        await self._loop.shutdown_default_executor()


class _BlockingProxy(Generic[A]):
    """A blocking front of an object whose methods are awaited."""

    def __init__(self, target: A, loop: BackgroundLoop) -> None:
        self._target = target
        self._loop = loop

    def __repr__(self) -> str:
        return repr(self._target)


def _block_on(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], R]:
    """An async method that blocks until it is done."""

    def call(self: _BlockingProxy[A], *args: P.args, **kwargs: P.kwargs) -> R:
        return self._loop.run(method, self._target, *args, **kwargs)

    return cast("Callable[Concatenate[Any, P], R]", update_wrapper(call, method))


def _block_and_wrap(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, R]], proxy: Callable[[R, BackgroundLoop], S]
) -> Callable[Concatenate[Any, P], S]:
    """An async method that blocks until it is done, and whose result blocks too."""

    def call(self: _BlockingProxy[A], *args: P.args, **kwargs: P.kwargs) -> S:
        return proxy(self._loop.run(method, self._target, *args, **kwargs), self._loop)

    return cast("Callable[Concatenate[Any, P], S]", update_wrapper(call, method))


def _block_on_steps(
    method: Callable[Concatenate[A, P], AsyncIterator[R]],
) -> Callable[Concatenate[Any, P], Iterator[R]]:
    """An async iterator, one blocking step at a time."""

    def call(self: _BlockingProxy[A], *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        return _steps(method(self._target, *args, **kwargs), self._loop)

    return cast("Callable[Concatenate[Any, P], Iterator[R]]", update_wrapper(call, method))


def _steps(steps: AsyncIterator[R], loop: BackgroundLoop) -> Iterator[R]:
    try:
        while (step := loop.run(anext, steps, _END)) is not _END:
            yield cast("R", step)
    finally:
        if isinstance(steps, AsyncGenerator):
            with suppress(StoreClosed):  # a closed loop has ended it already
                loop.run(steps.aclose)


class Log(_BlockingProxy[AsyncLog]):
    """One log of a thread."""

    pop = _block_on(AsyncLog.pop)
    clear = _block_on(AsyncLog.clear)
    compact = _block_on(AsyncLog.compact)


class Records(_BlockingProxy[AsyncRecords]):
    """The records of one tenant, as one user sees them."""

    put = _block_on(AsyncRecords.put)
    get = _block_on(AsyncRecords.get)
    find = _block_on(AsyncRecords.find)
    nearest = _block_on(AsyncRecords.nearest)
    drop = _block_on(AsyncRecords.drop)


class SearchIndex(_BlockingProxy[AsyncSearchIndex]):
    """The search index of one tenant, as one user sees it."""

    rank = _block_on(AsyncSearchIndex.rank)
    read = _block_on(AsyncSearchIndex.read)
    search = _block_on(AsyncSearchIndex.search)


class Jobs(_BlockingProxy[AsyncJobs]):
    """The jobs of one tenant."""

    enqueue = _block_on(AsyncJobs.enqueue)
    claim = _block_on(AsyncJobs.claim)
    extend = _block_on(AsyncJobs.extend)
    finish = _block_on(AsyncJobs.finish)
    fail = _block_on(AsyncJobs.fail)
    release = _block_on(AsyncJobs.release)
    retry = _block_on(AsyncJobs.retry)
    get = _block_on(AsyncJobs.get)
    list = _block_on(AsyncJobs.list)


class Thread(_BlockingProxy[AsyncThread]):
    """A thread by its id, as one tenant and user see it."""

    @property
    def id(self) -> str:
        """The thread's id."""
        return self._target.id

    @check_arguments
    def log(self, name: Id = HISTORY) -> Log:
        """One of the thread's logs, to take from it."""
        return Log(self._target.log(name), self._loop)

    append = _block_on(AsyncThread.append)
    head = _block_on(AsyncThread.head)
    state = _block_on(AsyncThread.state)
    items = _block_on(AsyncThread.items)
    items_by_id = _block_on(AsyncThread.items_by_id)
    changesets = _block_on(AsyncThread.changesets)
    diff = _block_on(AsyncThread.diff)
    delete = _block_on(AsyncThread.delete)
    repair = _block_on(AsyncThread.repair)
    erase = _block_on(AsyncThread.erase)
    verify = _block_on(AsyncThread.verify)
    wait_for_change = _block_on(AsyncThread.wait_for_change)
    watch = _block_on_steps(AsyncThread.watch)

    @check_arguments
    def fork(self, id: Id, *, at: int | None = None) -> "Thread":
        """A new thread that goes its own way from a version of this one."""
        return Thread(self._loop.run(self._target.fork, id, at=at), self._loop)


class Retention(_BlockingProxy[AsyncRetention]):
    """Holds, rules and receipts of one tenant, for its operators."""

    hold = _block_on(AsyncRetention.hold)
    release = _block_on(AsyncRetention.release)
    holds = _block_on(AsyncRetention.holds)
    receipts = _block_on(AsyncRetention.receipts)
    settle = _block_on(AsyncRetention.settle)
    rules = _block_on(AsyncRetention.rules)
    add = _block_on(AsyncRetention.add)
    drop = _block_on(AsyncRetention.drop)
    apply = _block_on(AsyncRetention.apply)


class Database(_BlockingProxy[AsyncDatabase]):
    """Threads, records and jobs, as one tenant and user see them."""

    create = _block_and_wrap(AsyncDatabase.create, Thread)
    threads = _block_on(AsyncDatabase.threads)
    commit = _block_on(AsyncDatabase.commit)
    commit_with_heads = _block_on(AsyncDatabase.commit_with_heads)
    search = _block_on(AsyncDatabase.search)
    index = _block_on(AsyncDatabase.index)
    erase = _block_on(AsyncDatabase.erase)
    report = _block_on(AsyncDatabase.report)

    @property
    def tenant(self) -> str:
        """The tenant that owns these threads."""
        return self._target.tenant

    @property
    def user(self) -> str | None:
        """The user that it is used for; None for all users of the tenant."""
        return self._target.user

    @property
    def records(self) -> Records:
        """Small documents beside the threads."""
        return Records(self._target.records, self._loop)

    @property
    def search_index(self) -> SearchIndex:
        """The search index: places ranked for a query, and the items at them."""
        return SearchIndex(self._target.search_index, self._loop)

    @property
    def jobs(self) -> Jobs:
        """Work to be done later."""
        return Jobs(self._target.jobs, self._loop)

    @property
    def retention(self) -> Retention:
        """Holds, retention rules and receipts. For operators."""
        return Retention(self._target.retention, self._loop)

    @check_arguments
    def scope(self, *, tenant: Id, user: Id | None = None) -> "Database":
        """The same store for another tenant, or for one user of it."""
        return Database(self._target.scope(tenant=tenant, user=user), self._loop)

    @check_arguments
    def thread(self, id: Id) -> Thread:
        """A thread by its id; whether it exists shows when it is used."""
        return Thread(self._target.thread(id), self._loop)


class OwnedDatabase(Database):
    """A database that was opened here, to be closed here."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the store and end the loop's thread."""
        with suppress(StoreClosed):  # it was closed before
            self._loop.run(self._target.close)
        self._loop.close()


@check_arguments
def open(url: str, *, limits: Limits | None = None, files: Files | None = None) -> OwnedDatabase:
    """Open the database at a URL: ``memory://``, ``sqlite:///path`` or ``postgresql://…``."""
    loop = BackgroundLoop()
    try:
        return OwnedDatabase(loop.run(open_async, url, limits=limits, files=files), loop)
    except BaseException:
        loop.close()
        raise
