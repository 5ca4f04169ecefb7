"""A server with a Studio to look at: a model that can be told what to do, and something of everything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import clew
from clew.client import AsyncClient
from clew.core.values import Job
from clew.runtime import Effect
from clew.runtime.memory.memory import Memory
from clew.runtime.memory.values import Candidate, MemorySource
from clew.runtime.model.protocol import ModelRequest, Reply, ReplyPart, TextChunk, ToolCall, Usage
from clew.runtime.settings import RuntimeConfig, SessionConfig
from clew.server.app import create_app
from clew.server.settings import ServerSettings
from clew.workbench.artifacts import Artifacts
from clew.workbench.volume.volume import Volume
from tests.server.local_server import listening

LONG = 400
PAUSE = 0.03
HELD_AT = 4
PRICE = 3
"""What one token costs, in millionths of a dollar."""


@clew.tool(effect=Effect.NONE)
async def weather(city: str) -> dict[str, Any]:
    """Say what the weather is like."""
    return {"city": city, "sky": "clear", "degrees": 24}


@clew.tool(approval=True)
async def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    return f"Paid {amount} to {to}."


class Guide:
    """A model that does what its messages ask for: look up the weather, pay, count for long, fail, or answer.

    Asked to hold on, it stops in the middle of its answer until ``go_on`` is set.
    """

    name = "guide"

    def __init__(self, go_on: asyncio.Event) -> None:
        self._go_on = go_on

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
        """One reply, word by word."""
        last = request.messages[-1]
        text = last.text.lower()
        if last.role == "user" and "weather" in text:
            yield Reply(calls=(_call("weather", {"city": "Lisbon"}, request),), usage=_usage(request, 9))
            return
        if last.role == "user" and "pay" in text:
            yield Reply(
                calls=(_call("pay", {"to": "Ann", "amount": 500}, request),), usage=_usage(request, 12)
            )
            return
        words = [f"{number} " for number in range(LONG)] if "count" in text else _answer(last.role, text)
        for index, word in enumerate(words):
            await asyncio.sleep(PAUSE if "count" in text else 0)
            if "hold on" in text and index == HELD_AT:
                await self._go_on.wait()
            yield TextChunk(word)
            if "break off" in text:
                raise RuntimeError("the model fell over")
        yield Reply(text="".join(words), usage=_usage(request, len(words)))

    async def fill(self, request: ModelRequest, kind: type[Any]) -> tuple[Any, Usage]:
        """Nothing is asked of it in this way."""
        raise NotImplementedError


def _call(name: str, arguments: dict[str, Any], request: ModelRequest) -> ToolCall:
    return ToolCall(id=f"call-{len(request.messages)}", name=name, arguments=arguments)


def _usage(request: ModelRequest, reply_size: int) -> Usage:
    request_size = sum(len(message.text.split()) for message in request.messages)
    return Usage(
        calls=1, input_tokens=request_size, output_tokens=reply_size, cost=PRICE * (request_size + reply_size)
    )


def _answer(role: str, question: str) -> list[str]:
    if role == "tool":
        text = "Done. It is clear in Lisbon, 24 degrees, and the evenings stay warm. Take a light jacket."
    elif "tram" in question:
        text = "Line 28 goes up to the castle. Board at Martim Moniz before nine, while it is still quiet."
    else:
        text = f"I heard: {question}. Tell me more, and I will keep it in this thread."
    return [f"{word} " for word in text.split(" ")]


class Studio:
    """A running server, its database, and clients of its users."""

    def __init__(
        self, address: str, url: str, db: clew.Database, go_on: asyncio.Event, volume: Path | None = None
    ) -> None:
        self.address = address
        self.go_on = go_on
        self.url = url
        self.db = db
        self._volume = volume

    def client(self, user: str) -> AsyncClient:
        """The client of a user."""
        return AsyncClient(self.address, headers={"X-Clew-User": user})

    def volume(self, user: str) -> Volume:
        """The volume of a user."""
        assert self._volume is not None
        return Volume(self._volume, self.db.tenant, user)

    def artifacts(self, user: str, thread: str) -> Artifacts:
        """What a thread of a user made."""
        return Artifacts(self.db.scope(tenant=self.db.tenant, user=user), thread, self.volume(user))


@asynccontextmanager
async def running(file: Path) -> AsyncIterator[Studio]:
    """A server on a file, until the block ends."""
    url = f"sqlite:///{file}"
    async with clew.open(url) as db:
        model = Guide(go_on := asyncio.Event())
        settings = ServerSettings(url=url, sweep_seconds=3600, volume=str(file.parent / "volume"))
        app = create_app(settings, db=db, agent=lambda tenant_db: _runtime(tenant_db, model))
        async with listening(app) as address:
            yield Studio(address, url, db, go_on, file.parent / "volume")


def _runtime(db: clew.Database, model: Guide) -> clew.Runtime[Any, Any]:
    return clew.Runtime(
        db,
        model=model,
        tools=[weather, pay],
        config=RuntimeConfig(sessions=SessionConfig(finalize_active_sessions_on_close=False), pinned=True),
    )


async def furnish(studio: Studio, user: str) -> None:
    """Something of everything, all of it one user's."""
    db = studio.db
    async with studio.client(user) as client:
        trip, invoice, garden = f"trip-{user}", f"invoice-{user}", f"garden-{user}"
        await client.create_thread(trip, title="A week in Lisbon", labels=["travel"])
        for message in (
            "Which tram goes up to the castle?",
            "What is the weather like there?",
            "I would rather stay near the river.",
        ):
            await client.run_turn(trip, message)
        await client.append(trip, patches=[["set", ["plan"], {"days": 7, "hotel": "Alfama"}]])
        await client.create_thread(invoice, title="Invoice 1042", labels=["work", "money"])
        await client.run_turn(invoice, "Please pay Ann what we owe her.")
        await client.run_turn(garden, "The beans came up today.")
        await client.end_session(garden, feedback="positive")
    await remember(studio, user)
    await db.jobs.enqueue(
        Job(id=f"digest-{user}", kind=f"send digest to {user}", body={}, limit=1, owner=user)
    )
    [job] = await db.jobs.claim([f"send digest to {user}"])
    await db.jobs.fail(job, "the mail server did not answer")


async def remember(studio: Studio, user: str) -> None:
    """Some facts about a user and a rule, learned from their trip."""
    mine = studio.db.scope(tenant=studio.db.tenant, user=user)
    head = await mine.thread(f"trip-{user}").head()
    source = MemorySource(thread=f"trip-{user}", version=3, time=head.updated)
    likes = ("tiled houses", "long walks along the river", "custard tarts")
    candidates = [
        Candidate(
            category="preference",
            predicate="LIKES",
            object=each,
            quote=f"I like {each}.",
            plain=True,
            confidence=0.9,
            source=source,
        )
        for each in likes
    ]
    rule = Candidate(
        kind="rule",
        category="style",
        object="Answer in short sentences",
        quote="Please keep it short.",
        plain=True,
        confidence=0.9,
        source=source,
    )
    await Memory(mine, user).learn([*candidates, rule])


async def move_house(studio: Studio, user: str) -> None:
    """A fact about a user that held from March to June of 2026, and the one that took its place."""
    mine = studio.db.scope(tenant=studio.db.tenant, user=user)
    for time, city in ((1_772_539_200_000, "Oslo"), (1_780_488_000_000, "Rome")):
        source = MemorySource(thread=f"trip-{user}", version=3, time=time)
        home = Candidate(
            category="context",
            predicate="LIVES_IN",
            object=city,
            single=True,
            quote=f"I live in {city}.",
            plain=True,
            source=source,
        )
        await Memory(mine, user).learn([home])
