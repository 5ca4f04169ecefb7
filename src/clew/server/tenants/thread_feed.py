"""Lists that tell of themselves: the newest threads of those who listen, looked at once for all of them.

A process looks only once somebody has committed, at one list after another, and then rests for longer than
it has looked. So a crowd of listeners makes news late, and never the server slow.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from clew.core.errors import ThreadNotFound
from clew.core.values import Page, Scope, Summary
from clew.database.database import Database

WINDOW = 200
"""How many of the newest threads are looked at."""
REST_SECONDS = 0.25
SHARE = 4
"""A rest lasts at least so many times as long as the looks before it."""
PATIENCE = 60.0

LastSaid: TypeAlias = Callable[[Database, str], Awaitable[str | None]]


def difference(before: Page, now: Page) -> tuple[list[Summary], list[str]]:
    """Which threads are new or have changed, the longest ago first, and which are gone.

    What only came into view or went out of it, because others came or went, is neither.
    """
    had = {each.id: _stamp(each) for each in before.threads}
    has = {each.id for each in now.threads} | now.broken.keys()
    changed = [
        each for each in now.threads if had.get(each.id) != _stamp(each) and _place(each) >= _edge(before)
    ]
    gone = [each.id for each in before.threads if each.id not in has and _place(each) >= _edge(now)]
    return sorted(changed, key=lambda each: each.updated), gone


def _stamp(summary: Summary) -> tuple[int, int]:
    return summary.created, summary.version


def _place(summary: Summary) -> tuple[int, str]:
    return summary.created, summary.id


def _edge(page: Page) -> tuple[int, str]:
    """The place of the oldest thread in view; everything is in view if there are no more."""
    return _place(page.threads[-1]) if page.next is not None and page.threads else (-1, "")


class Newest:
    """The newest threads as one tenant or user sees them, for all who listen to that."""

    def __init__(self, db: Database, page: Page, last_said: LastSaid) -> None:
        self.page = page
        self.listeners = 0
        self._db = db
        self._last_said = last_said
        self._said: dict[str, tuple[tuple[int, int], str | None]] = {}
        self._problem: Exception | None = None
        self._reading = asyncio.Lock()
        self._moved = asyncio.Event()

    async def look(self) -> None:
        """See what has changed, and wake those who listen if anything has."""
        page = await self._db.threads(limit=WINDOW)
        if page != self.page:
            self.page = page
            self._wake()

    def fail(self, problem: Exception) -> None:
        """Let all who listen raise a problem."""
        self._problem = problem
        self._wake()

    async def after(self, page: Page) -> Page:
        """The page, once it is another one.

        Raises:
            ClewError: It cannot be looked at any more.
        """
        while self.page is page and self._problem is None:
            await self._moved.wait()
        if self._problem is not None:
            raise self._problem
        return self.page

    async def last_said(self, thread: Summary) -> str | None:
        """What was said last in a thread; however many ask, it is read once."""
        async with self._reading:
            stamp, said = self._said.get(thread.id, (None, None))
            if stamp != _stamp(thread):
                said = await self._read(thread.id)
                there = {each.id for each in self.page.threads}
                self._said = {id: known for id, known in self._said.items() if id in there}
                self._said[thread.id] = (_stamp(thread), said)
            return said

    async def _read(self, thread: str) -> str | None:
        try:
            return await self._last_said(self._db, thread)
        except ThreadNotFound:
            return None  # it went a moment ago, and is told of with the next look

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()


class Lists:
    """Every list that somebody listens to in this process."""

    def __init__(self, db: Database, last_said: LastSaid) -> None:
        self._db = db
        self._last_said = last_said
        self._listened: dict[Scope, Newest] = {}
        self._looking: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def listening(self, scope: Scope) -> AsyncIterator[Newest]:
        """A list that is looked at from now on, and as it is now."""
        newest = await self._joined(scope)
        newest.listeners += 1
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_around())
        try:
            yield newest
        finally:
            newest.listeners -= 1
            if not newest.listeners and self._listened.get(scope) is newest:
                del self._listened[scope]
            if not self._listened:
                await self._stop()

    async def _joined(self, scope: Scope) -> Newest:
        known = self._listened.get(scope)
        if known is not None:
            await known.look()
        if known is None or known.listeners == 0:
            db = self._db.scope(tenant=scope.tenant, user=scope.user)
            made = Newest(db, await db.threads(limit=WINDOW), self._last_said)
            known = self._listened.setdefault(scope, made)
        return known

    async def _stop(self) -> None:
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def _look_around(self) -> None:
        seen = 0
        try:
            while True:
                before, seen = seen, await self._db.store.stirred(seen, PATIENCE)
                if seen != before:
                    began = time.perf_counter()
                    for scope, newest in list(self._listened.items()):
                        await self._look_at(scope, newest)
                    await asyncio.sleep(max(REST_SECONDS, SHARE * (time.perf_counter() - began)))
        except Exception as problem:  # noqa: BLE001  # everybody who listens raises it
            while self._listened:
                self._listened.popitem()[1].fail(problem)

    async def _look_at(self, scope: Scope, newest: Newest) -> None:
        try:
            await newest.look()
        except Exception as problem:  # noqa: BLE001  # those who listen to this list raise it
            self._listened.pop(scope, None)
            newest.fail(problem)
