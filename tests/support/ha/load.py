"""Writers that repeat under their keys whatever was not answered, and a reader, over several connections."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import clew
from clew.core.errors import OutcomeUnknown, StoreFailed, StoreUnavailable
from tests.support.ha.history import Operation, StoredAppend

WRITERS = 8
THREADS = 4
PAUSE_SECONDS = 0.05
PAGE = 1000


@dataclass
class Load:
    """Eight writers on four threads and a reader on each; everything that was answered, and how often not."""

    databases: Sequence[clew.Database]
    operations: list[Operation] = field(default_factory=list)
    acknowledged: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    _stop: bool = False
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def start(self) -> None:
        """Make the threads and begin."""
        for name in self.names():
            await self.databases[0].create(name, exist_ok=True)
        self._tasks = [asyncio.create_task(self._write(number)) for number in range(WRITERS)]
        self._tasks += [asyncio.create_task(self._read(number)) for number in range(THREADS)]

    async def stop(self) -> None:
        """Begin nothing more, and wait until what was begun is answered."""
        self._stop = True
        await asyncio.gather(*self._tasks)

    async def progress(self, appends: int) -> None:
        """Return when each writer, on the average, has so many more appends acknowledged."""
        goal = self.acknowledged + appends * WRITERS
        while self.acknowledged < goal:
            for task in self._tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(0.05)

    @staticmethod
    def names() -> list[str]:
        """The names of the threads."""
        return [f"thread-{number}" for number in range(THREADS)]

    async def _write(self, writer: int) -> None:
        db = self.databases[writer % len(self.databases)]
        name = self.names()[writer % THREADS]
        for number in itertools.count():
            if self._stop:
                return
            key = f"{writer}/{number}"
            began = time.monotonic()
            version = await self._append(db.thread(name), key)
            self.acknowledged += 1
            self.operations.append(
                Operation(
                    thread=name, version=version, began=began, ended=time.monotonic(), key=key, writer=writer
                )
            )

    async def _append(self, thread: clew.Thread, key: str) -> int:
        while True:
            try:
                return (await thread.append(items=[clew.user(key)], key=key)).version
            except (OutcomeUnknown, StoreUnavailable) as failure:
                self.failures[failure.code] += 1
                await asyncio.sleep(PAUSE_SECONDS)

    async def _read(self, number: int) -> None:
        db, name = self.databases[number % len(self.databases)], self.names()[number]
        while not self._stop:
            began = time.monotonic()
            try:
                head = await db.thread(name).head()
            except StoreFailed as failure:
                self.failures[f"reading: {failure.code}"] += 1
            else:
                ended = time.monotonic()
                self.operations.append(Operation(thread=name, version=head.version, began=began, ended=ended))
            await asyncio.sleep(PAUSE_SECONDS)


async def read_appends(db: clew.Database, names: Sequence[str]) -> list[StoredAppend]:
    """Every append in some threads, by the text that it carries, after each thread was found to be whole."""
    rows: list[StoredAppend] = []
    for name in names:
        thread = db.thread(name)
        verdict = await thread.verify()
        assert verdict.problems == ()
        for after in range(0, verdict.version, PAGE):
            changes = await thread.changesets(after=after, limit=PAGE)
            rows += [StoredAppend(thread=name, key=_text(one), version=one.version) for one in changes]
    return rows


def _text(change: clew.Changeset) -> str:
    [item] = change.items
    assert isinstance(item.body, dict)
    return str(item.body["content"])
