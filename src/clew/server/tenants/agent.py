"""What answers here: the companion, unless the application brings a runtime of its own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias

import msgspec

from clew.api.requests import NewAssessment
from clew.database.database import Database
from clew.runtime.memory.memory import Memory
from clew.runtime.model.protocol import Model
from clew.runtime.records.steps import read_prices
from clew.runtime.records.turn_records import TurnRecord
from clew.runtime.runtime import Runtime
from clew.runtime.sessions.utterances import GateSettings
from clew.runtime.settings import LeaseConfig, RuntimeConfig, SessionConfig
from clew.runtime.state.inputs import TurnInput
from clew.runtime.tools.tool import Tool
from clew.server.settings import ServerSettings
from clew.server.tenants.runtimes import MakeRuntime
from clew_companion import voice
from clew_companion.agent import companion, inputs_of
from clew_companion.crisis.floor import judge_message
from clew_companion.values import LIMITS_NOTICE, OFFLINE_NOTICE, AgentInput, Channel

COMPANION, OTHER, OFFLINE = "companion", "other", "offline"
MakeInput: TypeAlias = Callable[[str, str, str | None], TurnInput]
"""What a turn is given for a message, on a thread, of a user."""


def plain_input(message: str, thread: str, user: str | None) -> TurnInput:
    """The message and nothing else."""
    return message


async def no_instructions(memory: Memory | None) -> str:
    """No instructions."""
    return ""


def ignore_assessment(assessment: NewAssessment) -> TurnRecord | None:
    """Record nothing of it."""
    return None


async def ignore_level(db: Database, thread: str, level: int) -> None:
    """Keep nothing of it."""


class VoiceAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent in a call: the instructions and tools of a realtime model, and the gates for speech.

    ``assessed_record`` makes a record of what a client found in a turn. ``keep_level`` lets the level of a
    call be known to the turns after it.
    """

    instructions: Callable[[Memory | None], Awaitable[str]] = no_instructions
    tools: Callable[[Memory | None], Sequence[Tool]] = lambda memory: ()
    gates: GateSettings | None = None
    assessed_record: Callable[[NewAssessment], TurnRecord | None] = ignore_assessment
    keep_level: Callable[[Database, str, int], Awaitable[None]] = ignore_level


COMPANION_VOICE = VoiceAgent(
    instructions=voice.instructions,
    tools=voice.tools,
    gates=voice.VOICE_GATES,
    assessed_record=voice.assessed_record,
    keep_level=voice.store_risk_level,
)


class ServedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """What answers: how its runtimes are made, what they are given, and what people are told of it."""

    make_runtime: MakeRuntime
    make_input: MakeInput = plain_input
    kind: str = OTHER
    model: str | None = None
    notices: tuple[str, ...] = ()
    voice: VoiceAgent = VoiceAgent()


@asynccontextmanager
async def open_companion(settings: ServerSettings, model: Model | None) -> AsyncIterator[ServedAgent]:
    """The companion with the model that is given or that the settings name, and offline without one.

    Sessions are not ended when a process stops: the conversation goes on in another, and what is idle is
    ended by whichever sweeps.
    """
    async with AsyncExitStack() as stack:
        if model is None and settings.model is not None:
            from clew.runtime.model.provider import ProviderModel

            model = await stack.enter_async_context(ProviderModel(settings.model))
        warmup = asyncio.create_task(asyncio.to_thread(judge_message, ""))  # the first turn waits for nothing

        config = RuntimeConfig(
            sessions=SessionConfig(finalize_active_sessions_on_close=False),
            leases=LeaseConfig(sweep_seconds=settings.sweep_seconds),
            prices=read_prices(settings.prices),
            pinned=is_pinned(settings),
        )

        def make_runtime(db: Database) -> Runtime[Any, Any]:
            return companion(db, model, config=config)

        yield ServedAgent(
            make_runtime=make_runtime,
            make_input=companion_input,
            kind=COMPANION,
            model=OFFLINE if model is None else settings.model or model.name,
            notices=(LIMITS_NOTICE,) if model is not None else (LIMITS_NOTICE, OFFLINE_NOTICE),
            voice=COMPANION_VOICE,
        )
        await warmup


def companion_input(message: str, thread: str, user: str | None) -> TurnInput:
    """A message as the companion takes it from a page."""
    return inputs_of(AgentInput(message=message, channel=Channel.WEB, user_id=user, session_id=thread))


def is_pinned(settings: ServerSettings) -> bool:
    """Whether every request of a thread reaches this process, so that one can be incognito here."""
    return settings.workers == 1 and not settings.url.startswith("postgres")
