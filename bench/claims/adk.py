"""Google ADK: one event appended by its database service and by ours, on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from pathlib import Path

from google.adk.events import Event, EventActions
from google.adk.sessions import BaseSessionService, DatabaseSessionService
from google.genai import types

import clew
from bench.clock import Act, Contestant, Timing, one_by_one
from bench.ground import Ground
from bench.turns import turn
from bench.verdict import Bound, Section, of_latency
from clew.adapters.adk import SessionService

OURS, THEIRS = "Clew SessionService", "ADK DatabaseSessionService"
LARGE = 256 * 1024
SQLITE = Bound(what="ADK: append an event on SQLite, against its database service", sign="≤", target=0.5)
POSTGRES = Bound(
    what="ADK: append an event on PostgreSQL, against its database service", sign="≤", target=0.5
)
LARGE_STATE = Bound(
    what="ADK: append an event to a session with 256 KB of state on SQLite, against its database service",
    sign="≤",
    target=0.5,
)


async def measure(ground: Ground) -> Section:
    """1,000 events each: a quarter of them change the state by one key."""
    small = await _timings(ground, _sqlite(ground.folder()), state=0, suffix="")
    large = await _timings(ground, _sqlite(ground.folder()), state=LARGE, suffix=", 256 KB of state")
    server = await _timings(ground, _postgres(ground), state=0, suffix=", PostgreSQL")
    return Section(
        title="Google ADK: append an event",
        timings=[*small, *large, *server],
        verdicts=[
            *of_latency(SQLITE, small, OURS, THEIRS),
            *of_latency(LARGE_STATE, large, f"{OURS}, 256 KB of state", f"{THEIRS}, 256 KB of state"),
            *of_latency(POSTGRES, server, f"{OURS}, PostgreSQL", f"{THEIRS}, PostgreSQL"),
        ],
    )


async def _timings(ground: Ground, urls: tuple[str, str], *, state: int, suffix: str) -> list[Timing]:
    async with AsyncExitStack() as stack:
        contestants = [await stack.enter_async_context(_theirs(urls[1], state, suffix))]
        if ground.with_us:
            contestants.append(await stack.enter_async_context(_ours(urls[0], state, suffix)))
        return await one_by_one(contestants, ground.pace(rounds=20, block=50))


def _sqlite(folder: Path) -> tuple[str, str]:
    return f"sqlite:///{folder / 'ours.db'}", f"sqlite+aiosqlite:///{folder / 'theirs.db'}"


def _postgres(ground: Ground) -> tuple[str, str]:
    theirs = ground.database().partition("?")[0].replace("postgresql://", "postgresql+asyncpg://", 1)
    return ground.database(), theirs


@asynccontextmanager
async def _ours(url: str, state: int, suffix: str) -> AsyncIterator[Contestant]:
    async with clew.open(url) as db:
        detail = "public API, one commit per event, durable on return"
        yield await _contestant(SessionService(db), state, f"{OURS}{suffix}", detail)


@asynccontextmanager
async def _theirs(url: str, state: int, suffix: str) -> AsyncIterator[Contestant]:
    async with DatabaseSessionService(url) as service:
        detail = f"google-adk {version('google-adk')} at its defaults, one commit per event"
        yield await _contestant(service, state, f"{THEIRS}{suffix}", detail)


async def _contestant(service: BaseSessionService, state: int, name: str, detail: str) -> Contestant:
    session = await service.create_session(app_name="bench", user_id="alice", state=_notes(state))

    def ready(number: int) -> Act:
        event = _event(number)
        return lambda: service.append_event(session, event)

    return Contestant(name=name, detail=detail, ready=ready)


def _notes(size: int) -> dict[str, str]:
    """State of about so many bytes."""
    notes: dict[str, str] = {}
    while size > 0:
        notes[f"note-{len(notes)}"] = turn(len(notes)).answer
        size -= len(turn(len(notes) - 1).answer) + 16
    return notes


def _event(number: int) -> Event:
    """One of the four events of a turn, in their order; the last changes the state."""
    exchange = turn(number // 4)
    call = types.FunctionCall(
        id=exchange.call_id, name="search_notes", args={"query": exchange.query, "limit": 5}
    )
    response = types.FunctionResponse(
        id=exchange.call_id, name="search_notes", response={"result": exchange.result}
    )
    parts = [
        types.Part(text=exchange.question),
        types.Part(function_call=call),
        types.Part(function_response=response),
        types.Part(text=exchange.answer),
    ]
    which = number % 4
    return Event(
        author="agent" if which else "user",
        invocation_id=f"turn-{exchange.number}",
        content=types.Content(role="model" if which else "user", parts=[parts[which]]),
        actions=EventActions(state_delta={"mood": exchange.mood} if which == 3 else {}),
    )
