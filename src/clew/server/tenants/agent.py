"""What answers here: the companion, unless the application brings a runtime of its own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias

import msgspec

from clew.companion import voice
from clew.companion.agent import companion, inputs_of
from clew.companion.crisis.floor import floor
from clew.companion.values import LIMITS, SIMPLE, AgentInput, Channel
from clew.database.database import Database
from clew.runtime.memory.memory import Memory
from clew.runtime.model.protocol import Model
from clew.runtime.records.steps import prices_at
from clew.runtime.runtime import Runtime
from clew.runtime.sessions.utterances import Hearing
from clew.runtime.state.inputs import Given
from clew.runtime.tools.tool import Tool
from clew.server.settings import ServerSettings
from clew.server.tenants.runtimes import MakeRuntime

COMPANION, OTHER, OFFLINE = "companion", "other", "offline"
Taken: TypeAlias = Callable[[str, str, str | None], Given]
"""What a turn is given for a message, on a thread, of a user."""


def as_said(message: str, thread: str, user: str | None) -> Given:
    """The message and nothing else."""
    return message


async def nothing(memory: Memory | None) -> str:
    """No instructions."""
    return ""


async def no_matter(db: Database, thread: str, level: int) -> None:
    """Nothing is kept of it."""


class Speech(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent is in a call: what a realtime model is told, its tools, and how speech is judged.

    ``keep_level`` lets what was found in a call be known to the turns after it.
    """

    instructions: Callable[[Memory | None], Awaitable[str]] = nothing
    tools: Callable[[Memory | None], Sequence[Tool]] = lambda memory: ()
    hearing: Hearing | None = None
    keep_level: Callable[[Database, str, int], Awaitable[None]] = no_matter


COMPANION_SPEECH = Speech(
    instructions=voice.instructions, tools=voice.tools, hearing=voice.HEARING, keep_level=voice.keep_level
)


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """What answers: how its runtimes are made, what they are given, and what people are told of it."""

    make: MakeRuntime
    given: Taken = as_said
    kind: str = OTHER
    model: str | None = None
    notices: tuple[str, ...] = ()
    speech: Speech = Speech()


@asynccontextmanager
async def the_companion(settings: ServerSettings, model: Model | None) -> AsyncIterator[Agent]:
    """The companion with the model that is given or that the settings name, and offline without one.

    Sessions are not ended when a process stops: the conversation goes on in another, and what is idle is
    ended by whichever sweeps.
    """
    async with AsyncExitStack() as stack:
        if model is None and settings.model is not None:
            from clew.runtime.model.provider import ProviderModel

            model = await stack.enter_async_context(ProviderModel(settings.model))
        warming = asyncio.create_task(asyncio.to_thread(floor, ""))  # the first turn waits for nothing

        prices = prices_at(settings.prices)

        def make(db: Database) -> Runtime[Any, Any]:
            return companion(
                db,
                model,
                prices=prices,
                sweep_seconds=settings.sweep_seconds,
                finalize_active_sessions_on_close=False,
                pinned=is_pinned(settings),
            )

        yield Agent(
            make=make,
            given=spoken_on_the_web,
            kind=COMPANION,
            model=OFFLINE if model is None else settings.model or model.name,
            notices=(LIMITS,) if model is not None else (LIMITS, SIMPLE),
            speech=COMPANION_SPEECH,
        )
        await warming


def spoken_on_the_web(message: str, thread: str, user: str | None) -> Given:
    """A message as the companion takes it from a page."""
    return inputs_of(AgentInput(message=message, channel=Channel.WEB, user_id=user, session_id=thread))


def is_pinned(settings: ServerSettings) -> bool:
    """Whether every request of a thread reaches this process, so that one can be incognito here."""
    return settings.workers == 1 and not settings.url.startswith("postgres")
