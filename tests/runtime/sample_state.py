"""A schema with every lifecycle and scope, as a companion would declare it, and what the tests do with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any

import clew
from clew.database.database import Database
from clew.runtime.context import Context
from clew.runtime.execution.pipeline import context_of, run_stages
from clew.runtime.execution.start import StartedTurn, TurnRequest, start_turn
from clew.runtime.model.protocol import Model
from clew.runtime.respond.respond import Stage
from clew.runtime.settings import Settings
from clew.runtime.state.declaration import schema_of
from clew.runtime.state.inputs import user_items, validate_inputs
from clew.runtime.state.schema import State, input, loaded, per_call, per_run, per_turn, persistent, whole_of
from clew.runtime.turn.turn import Turn
from clew.testing.clock import Clock


class Progress(State):
    turn_count: int = 0
    returning: bool = False


class MemoryControl(State):
    action: Annotated[dict[str, Any], per_turn]
    pending_action: dict[str, Any] | None = None


class Profile(State):
    procedural_rules: list[str]
    proactive_recall_enabled: bool = True


class Companion(State):
    message: Annotated[str, input]
    channel: Annotated[str, input] = "test"
    history: Annotated[clew.StateLog[clew.Message], clew.append]
    transcript: Annotated[clew.StateLog[clew.Message], whole_of("history")]
    session_progress: Annotated[Progress, clew.merge]
    session_memory: Annotated[dict[str, Any], clew.merge]
    memory_control: Annotated[MemoryControl, clew.merge]
    procedural_profile: Annotated[Profile, clew.merge, loaded]
    working_memory: Annotated[list[str], loaded]
    diagnostics: Annotated[dict[str, Any], clew.merge]
    approach: Annotated[str, persistent] = "none"
    tries: Annotated[int, per_run, clew.increment] = 0
    notes: Annotated[dict[str, str], per_call, clew.merge]
    crisis: int = 0
    route: str = ""
    response_text: str = ""


def constant_stage(**delta: Any) -> Stage:
    """A stage that returns a delta, whatever the state."""

    async def say(state: Companion, ctx: Context) -> dict[str, Any]:
        return delta

    return say


def rename_stage(name: str, stage: Stage) -> Stage:
    """The same stage by another name."""

    async def call(state: Companion, ctx: Context) -> Any:
        return await stage(state, ctx)

    call.__name__ = name
    return call


def observer_stage(states: list[Companion]) -> Stage:
    """A stage that notes the state it gets."""

    async def look(state: Companion, ctx: Context) -> None:
        states.append(state)

    return look


async def count(state: Companion, ctx: Context) -> dict[str, Any]:
    """One more turn."""
    return {"session_progress": {"turn_count": state.session_progress.turn_count + 1}}


@asynccontextmanager
async def reopen(db: Database, url: str) -> AsyncIterator[Database]:
    """The database as another process would open it; what is in memory stays in this one."""
    if url == "memory://":
        yield db
        return
    async with clew.open(url) as again:
        yield again


class Crash(BaseException):
    """The process ends here."""


async def crash(state: Companion, ctx: Context) -> None:
    """A stage that never comes to its end."""
    raise Crash


def settings_of(db: Database, stages: Sequence[Stage], model: Model | None, clock: Clock) -> Settings:
    """What a turn is run with."""
    records = db.records
    return Settings(
        schema=schema_of(Companion),
        stages=stages,
        model=model,
        memory_store=records,
        record_backend=records,
        clock=clock,
    )


async def crash_turn(
    db: Database,
    message: str | Mapping[str, Any],
    stages: Sequence[Stage],
    model: Model | None = None,
    clock: Clock | None = None,
) -> StartedTurn:
    """A turn whose stages end with ``crash``: nothing is committed after it, as if the process had died."""
    settings = settings_of(db, stages, model, clock or Clock())
    inputs = validate_inputs(settings.schema, message)
    request = TurnRequest(thread="a", inputs=inputs, items=tuple(user_items(settings.schema, inputs)))
    turn_start = await start_turn(db, request, settings)
    assert isinstance(turn_start, StartedTurn)
    config = settings.config
    turn = Turn(
        turn_start.draft, turn_start.journal, config.retry_policy, _nobody, deadlines=config.deadlines
    )
    try:
        await run_stages(settings.stages, context_of(turn, settings))
    except Crash:
        return turn_start
    raise AssertionError("the turn did not crash")


_nobody: Callable[[object], None] = lambda event: None  # noqa: E731  # nobody listens
