"""A process that dies while it erases, or that writes until there is nothing left to write to."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import clew
from clew.core.errors import ThreadNotFound
from clew.core.log.commit import Plan, Planner
from clew.core.values import Scope
from tests.database.people import WORDS


async def die(url: str, commits: int) -> None:
    """Erase, and be killed before a commit."""
    async with clew.open(url) as db:
        change, budget = db.store.change, iter(range(commits))

        async def dying(scope: Scope, planning: Planner) -> Plan:
            if next(budget, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return await change(scope, planning)

        setattr(db.store, "change", dying)  # noqa: B010 - a method is replaced on purpose
        await db.erase(owner="alice")


async def write(url: str) -> None:
    """Append until the thread is gone; say when it began and why it ended."""
    async with clew.open(url) as db:
        thread = db.thread("alice-1")
        for number in range(100_000):
            try:
                await thread.append(items=[clew.user(f"{WORDS['alice']} again {number}")])
            except ThreadNotFound as error:
                print(error.code)  # noqa: T201 - the parent reads it
                return
            if number == 3:
                print("begun", flush=True)  # noqa: T201 - the parent reads it


if __name__ == "__main__":
    asyncio.run(write(sys.argv[1]) if sys.argv[2] == "write" else die(sys.argv[1], int(sys.argv[2])))
