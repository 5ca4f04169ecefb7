"""Feeds of the newest threads: each list is read once for all its listeners.

A process reads only after a commit, one list after another, and then rests for longer than it has read.
So a crowd of listeners makes news late, and never the server slow.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from clew.core.errors import ThreadNotFound
from clew.core.values import Scope, SummaryPage, ThreadSummary
from clew.database.database import Database
from clew.server.tenants.thread_list import ThreadTexts

FEED_SIZE = 200
"""How many of the newest threads are looked at."""
REST_SECONDS = 0.25
REST_FACTOR = 4
"""A rest lasts at least so many times as long as the looks before it."""
WATCH_SECONDS = 60.0

ReadTexts: TypeAlias = Callable[[Database, ThreadSummary], Awaitable[ThreadTexts]]


def page_difference(before: SummaryPage, now: SummaryPage) -> tuple[list[ThreadSummary], list[str]]:
    """Return the threads that are new or have changed, the longest ago first, and those that are gone.

    What only came into view or went out of it, because others came or went, is neither.
    """
    old_stamps = {each.id: _stamp(each) for each in before.threads}
    current_ids = {each.id for each in now.threads} | now.broken.keys()
    updates = [
        each
        for each in now.threads
        if old_stamps.get(each.id) != _stamp(each) and _sort_key(each) >= _oldest_key(before)
    ]
    deleted_ids = [
        each.id
        for each in before.threads
        if each.id not in current_ids and _sort_key(each) >= _oldest_key(now)
    ]
    return sorted(updates, key=lambda each: each.updated), deleted_ids


def _stamp(summary: ThreadSummary) -> tuple[int, int]:
    return summary.created, summary.version


def _sort_key(summary: ThreadSummary) -> tuple[int, str]:
    return summary.created, summary.id


def _oldest_key(page: SummaryPage) -> tuple[int, str]:
    """The place of the oldest thread in view; everything is in view if there are no more."""
    return _sort_key(page.threads[-1]) if page.next is not None and page.threads else (-1, "")


class NewestThreads:
    """The newest threads as one tenant or user sees them, for all listeners of that list."""

    def __init__(self, db: Database, page: SummaryPage, read_texts: ReadTexts) -> None:
        self.page = page
        self.listeners = 0
        self._db = db
        self._read_texts = read_texts
        self._texts: dict[str, tuple[tuple[int, int], ThreadTexts]] = {}
        self._problem: Exception | None = None
        self._read_lock = asyncio.Lock()
        self._change_event = asyncio.Event()

    async def refresh(self) -> None:
        """Read the list, and wake the listeners if it has changed."""
        page = await self._db.threads(limit=FEED_SIZE)
        if page != self.page:
            self.page = page
            self._wake()

    def fail(self, problem: Exception) -> None:
        """Let all listeners raise a problem."""
        self._problem = problem
        self._wake()

    async def next_page(self, page: SummaryPage) -> SummaryPage:
        """Wait until the page is another one, and return it.

        Raises:
            ClewError: It cannot be looked at any more.
        """
        while self.page is page and self._problem is None:
            await self._change_event.wait()
        if self._problem is not None:
            raise self._problem
        return self.page

    async def texts(self, thread: ThreadSummary) -> ThreadTexts:
        """Return the first and the last text of a thread; they are read once for all listeners."""
        async with self._read_lock:
            stamp, texts = self._texts.get(thread.id, (None, ThreadTexts()))
            if stamp != _stamp(thread):
                texts = await self._texts_or_none(thread)
                current_ids = {each.id for each in self.page.threads}
                self._texts = {id: entry for id, entry in self._texts.items() if id in current_ids}
                self._texts[thread.id] = (_stamp(thread), texts)
            return texts

    async def _texts_or_none(self, thread: ThreadSummary) -> ThreadTexts:
        try:
            return await self._read_texts(self._db, thread)
        except ThreadNotFound:
            return ThreadTexts()  # it went a moment ago, and is told of with the next look

    def _wake(self) -> None:
        self._change_event.set()
        self._change_event = asyncio.Event()


class ThreadFeeds:
    """Every list that has listeners in this process."""

    def __init__(self, db: Database, read_texts: ReadTexts) -> None:
        self._db = db
        self._read_texts = read_texts
        self._feeds: dict[Scope, NewestThreads] = {}
        self._refresh_task: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def subscription(self, scope: Scope) -> AsyncIterator[NewestThreads]:
        """Listen to a list, as it is now and from now on."""
        feed = await self._join_feed(scope)
        feed.listeners += 1
        if self._refresh_task is None or self._refresh_task.done():
            self._refresh_task = asyncio.create_task(self._refresh_feeds())
        try:
            yield feed
        finally:
            feed.listeners -= 1
            if not feed.listeners and self._feeds.get(scope) is feed:
                del self._feeds[scope]
            if not self._feeds:
                await self._stop()

    async def _join_feed(self, scope: Scope) -> NewestThreads:
        feed = self._feeds.get(scope)
        if feed is not None:
            await feed.refresh()
        if feed is None or feed.listeners == 0:
            db = self._db.scope(tenant=scope.tenant, user=scope.user)
            new_feed = NewestThreads(db, await db.threads(limit=FEED_SIZE), self._read_texts)
            feed = self._feeds.setdefault(scope, new_feed)
        return feed

    async def _stop(self) -> None:
        task, self._refresh_task = self._refresh_task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _refresh_feeds(self) -> None:
        commit_count = 0
        try:
            while True:
                last_count, commit_count = (
                    commit_count,
                    await self._db.store.wait_for_any_change(commit_count, WATCH_SECONDS),
                )
                if commit_count != last_count:
                    start = time.perf_counter()
                    for scope, feed in list(self._feeds.items()):
                        await self._refresh_feed(scope, feed)
                    await asyncio.sleep(max(REST_SECONDS, REST_FACTOR * (time.perf_counter() - start)))
        except Exception as problem:  # noqa: BLE001  # everybody who listens raises it
            while self._feeds:
                self._feeds.popitem()[1].fail(problem)

    async def _refresh_feed(self, scope: Scope, feed: NewestThreads) -> None:
        try:
            await feed.refresh()
        except Exception as problem:  # noqa: BLE001  # those who listen to this list raise it
            self._feeds.pop(scope, None)
            feed.fail(problem)
