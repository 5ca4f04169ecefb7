"""Turns with tools that are killed at a named moment. What the tools did is seen in a file, not in the store.

A turn asks the model three times: it looks and pays at once, then it books, then it answers. Its seven
changes of the store are: the message, an answer, results, an answer, results, an answer with the end.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, TypeVar

import clew
from clew.core.log.commit import Plan, Planner
from clew.core.log.rows import StoreRead
from clew.core.ports import ScrubResult, Store, StoreReport
from clew.core.values import Job, Limits, Scope
from clew.database.database import Database
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import ModelRequest, Reply, ReplyPart, Usage
from clew.runtime.runtime import Runtime
from clew.runtime.state.call_state import Decision
from clew.runtime.tools.tool import NOT_HAPPENED, Effect, NotHappened, Tool, ToolContext, tool
from clew.runtime.turn.result import TurnResult
from clew.testing.scripted_model import calls

T = TypeVar("T")

CHANGES: Final = 6
POINTS: Final = (
    *(f"{when} change {number}" for number in range(1, CHANGES + 1) for when in ("before", "after")),
    *(f"in model call {number}" for number in (1, 2, 3)),
    *(f"{when} {effect}" for effect in ("pay", "book") for when in ("before", "after")),
)
"""Where the turn is killed: at every checkpoint, and between them."""

LOOK, PAY, BOOK = "look", "pay", "book"
FINAL = "Sunny, paid and booked."


class World:
    """What happened outside the store, line by line."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, *words: str) -> None:
        """Let something happen."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(" ".join(words) + "\n")

    def lines(self) -> list[str]:
        """All that happened."""
        return self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []

    def counts(self) -> Counter[str]:
        """How often each thing happened, by its first word."""
        return Counter(line.split()[0] for line in self.lines())

    def keys(self, what: str) -> list[str]:
        """The key of each time something happened."""
        return [line.split()[1] for line in self.lines() if line.startswith(f"{what} ")]


class Fate:
    """Kills this process when it comes past a point."""

    def __init__(self, point: str | None = None) -> None:
        self._point = point

    def reach(self, point: str) -> None:
        """Be at a point."""
        if point == self._point:
            os.kill(os.getpid(), signal.SIGKILL)


_on_the_way: ContextVar[bool] = ContextVar("on the way", default=False)
"""Whether a change is the turn's: the runtime also sweeps up after others, at times of its own."""


class FatedStore:
    """Another store, whose nth change the process does not begin, or does not live to hear of."""

    def __init__(self, store: Store, fate: Fate) -> None:
        self.name = store.name
        self.limits: Limits = store.limits
        self._store = store
        self._fate = fate
        self._changes = 0

    async def read(self, scope: Scope, read: StoreRead[T]) -> T:
        """The result of a reading."""
        return await self._store.read(scope, read)

    async def change(self, scope: Scope, planner: Planner) -> Plan:
        """The plan that was applied."""
        if not _on_the_way.get():
            return await self._store.change(scope, planner)
        self._fate.reach(f"before change {self._changes + 1}")
        plan = await self._store.change(scope, planner)
        self._changes += 1
        self._fate.reach(f"after change {self._changes}")
        return plan

    async def claim(self, scope: Scope, kinds: Sequence[str], limit: int, lease_ms: int) -> list[Job]:
        """Jobs that are due."""
        return await self._store.claim(scope, kinds, limit, lease_ms)

    async def wait_for_change(self, scope: Scope, thread: str, after: int, timeout: float) -> None:
        """Return once the thread may be past a version."""
        await self._store.wait_for_change(scope, thread, after, timeout)

    async def wait_for_any_change(self, after: int, timeout: float) -> int:
        """A number that differs once anybody may have changed a thread."""
        return await self._store.wait_for_any_change(after, timeout)

    def now(self) -> int:
        """The time by the clock that all who write share."""
        return self._store.now()

    async def report(self) -> StoreReport:
        """What the store says about its health."""
        return await self._store.report()

    async def scrub(self) -> ScrubResult:
        """Take away what was freed."""
        return await self._store.scrub()

    async def close(self) -> None:
        """Close the store behind."""
        await self._store.close()


class Traveller:
    """A model that reads from the conversation what to say next, in whatever process."""

    name = "traveller"

    def __init__(self, world: World, fate: Fate) -> None:
        self._world = world
        self._fate = fate

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
        """The next answer."""
        since = _since_last_question(request.messages)
        if since[0].text == "Hello":
            yield Reply(text="Hello back.")
            return
        result_count = sum(message.kind == "result" for message in since)
        self._world.note("model")
        self._fate.reach(f"in model call {result_count + (1 if result_count == 0 else 0)}")
        yield _reply_after(since[0].text, result_count)

    async def fill(self, request: ModelRequest, kind: type[T]) -> tuple[T, Usage]:
        """Nothing: it is never asked."""
        raise NotImplementedError


def _since_last_question(messages: Sequence[Message]) -> Sequence[Message]:
    last = max(at for at, message in enumerate(messages) if message.role == "user")
    return messages[last:]


def _reply_after(question: str, result_count: int) -> Reply:
    if question == "Travel":
        steps = {
            0: calls(("c1", LOOK, {"key": "-"}), ("c2", PAY, {"key": "-"})),
            2: calls(("c3", BOOK, {"key": "-"})),
        }
        return steps.get(result_count, Reply(text=FINAL))
    return Reply(text=FINAL) if result_count else calls(("c1", question, {}))


def tools_of(world: World, fate: Fate) -> list[Tool]:
    """A tool of each effect: looking has none, paying twice is paying once, a booking can be looked up."""

    async def find_booking(context: ToolContext) -> str | NotHappened:
        world.note("check", context.key)
        return "booked" if context.key in world.keys(BOOK) else NOT_HAPPENED

    return [
        _tool(LOOK, Effect.NONE, world, fate),
        _tool(PAY, Effect.IDEMPOTENT, world, fate),
        _tool(BOOK, Effect.CHECKABLE, world, fate, find_booking),
        _tool("send", Effect.UNKNOWN, world, fate),
        _tool("wire", Effect.UNKNOWN, world, fate, approval=True),
    ]


def _tool(
    name: str, effect: Effect, world: World, fate: Fate, check: Any = None, *, approval: bool = False
) -> Tool:
    @tool(name=name, effect=effect, check=check, approval=approval)
    async def act(context: ToolContext, key: str = "-") -> str:
        fate.reach(f"before {name}")
        world.note(name, context.key)
        fate.reach(f"after {name}")
        return f"{name} is done"

    return act


@asynccontextmanager
async def travel_runtime(db: Database, world: World, fate: Fate | None = None) -> AsyncIterator[Runtime]:
    """A runtime whose turns look, pay and book."""
    fate = fate or Fate()
    async with Runtime(db, model=Traveller(world, fate), tools=tools_of(world, fate)) as runtime:
        yield runtime


def travel(url: str, thread: str, world: Path, question: str, point: str) -> str:
    """One turn in a process of its own, which is killed at a point."""
    return asyncio.run(_at_risk(url, world, point, lambda runtime: runtime.run_turn(thread, question)))


def decide(url: str, thread: str, world: Path, decisions: dict[str, Decision], point: str) -> str:
    """Decisions, carried out in a process of its own, which is killed at a point."""
    return asyncio.run(_at_risk(url, world, point, lambda runtime: runtime.resume(thread, decisions)))


async def _at_risk(
    url: str, world: Path, point: str, work: Callable[[Runtime], Awaitable[TurnResult]]
) -> str:
    fate = Fate(point)
    async with clew.open(url) as db:
        database = Database(FatedStore(db.store, fate))
        async with travel_runtime(database, World(world), fate) as runtime:
            _on_the_way.set(True)
            return (await work(runtime)).termination
