"""What each of two processes does to one session at the same moment as the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection

from google.adk.errors import StaleSessionError
from google.adk.sessions import BaseSessionService
from google.adk.sessions.base_session_service import GetSessionConfig

import clew
from clew.adapters.adk import SessionService
from tests.adapters.adk.contract import load_session, text_event

LAST = GetSessionConfig(num_recent_events=1)


@asynccontextmanager
async def ours(url: str) -> AsyncIterator[BaseSessionService]:
    """Our service on a database of its own."""
    async with clew.open(url) as db:
        yield SessionService(db)


def race(url: str, writer: str, rounds: int, line: Connection) -> list[str]:
    """Append to what both have read, round after round; the texts that were taken."""
    return asyncio.run(_race(url, writer, rounds, line))


async def _race(url: str, writer: str, rounds: int, line: Connection) -> list[str]:
    winners: list[str] = []
    async with ours(url) as service:
        for number in range(rounds):
            session = await load_session(service, config=LAST)
            line.send(session._storage_update_marker)
            line.recv()
            text = f"{writer} {number}"
            state = {writer: number, "last": text, "app__last": text, f"user__{writer}": number}
            try:
                await service.append_event(session, text_event(text, state))
                winners.append(text)
            except StaleSessionError:
                pass
            line.send("done")
            line.recv()
    return winners
