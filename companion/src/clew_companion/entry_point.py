"""The companion as an agent that Clew finds: the entry point of this distribution.

It is loaded by every command, so what a turn reads is imported by the first turn, or by ``warm_up``.
"""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from clew.agents import Agent, AgentSettings, StudioPages, UserMessage, VoiceAgent
from clew.database.database import Database
from clew.runtime.runtime import Runtime
from clew.runtime.state.inputs import TurnInput
from clew_companion import voice
from clew_companion.agent import NAME, companion, inputs_of
from clew_companion.state import CompanionState
from clew_companion.values import LIMITS_NOTICE, OFFLINE_NOTICE, STAGE_LABELS, AgentInput, Channel

if TYPE_CHECKING:
    import typer
    from litestar.types import ControllerRouterHandler

WARM_UP_TEXT = "before anybody says anything"


def make_runtime(db: Database, settings: AgentSettings) -> Runtime[Any, Any]:
    """A runtime of the companion; without a model, one that needs no key and says so."""
    return companion(
        db,
        settings.model,
        search=settings.search_provider,
        skills=settings.skills,
        embedder=settings.embedder,
        config=settings.config,
    )


def make_input(message: UserMessage) -> TurnInput:
    """A message as the companion takes it."""
    return inputs_of(
        AgentInput(
            message=message.text,
            channel=Channel(message.channel),
            user_id=message.user,
            session_id=message.thread,
            installed_skills=message.installed_skills,
        )
    )


def warm_up() -> None:
    """Read once the data that every turn goes by."""
    from clew.runtime.model.messages import Message
    from clew_companion.crisis.floor import judge_message
    from clew_companion.exercises.selection import exercise_asked_for
    from clew_companion.language.commands import command_in
    from clew_companion.offline.model import offline_reply

    judge_message(WARM_UP_TEXT)
    command_in(WARM_UP_TEXT)
    exercise_asked_for(WARM_UP_TEXT)
    offline_reply([Message(role="user", content=WARM_UP_TEXT)])


def describe_context(state: CompanionState) -> Mapping[str, Sequence[str]]:
    """The context of an answer, for a panel."""
    from clew_companion import context_panel

    return context_panel.describe_context(state)


def rewinds_state(state: CompanionState) -> bool:
    """True unless the person may be in danger: that is not taken back with a turn."""
    return not state.session_progress.risk_level


def routes() -> "Sequence[ControllerRouterHandler]":
    """The routes about the crisis log."""
    from clew_companion.server.crises import CRISIS_ROUTES

    return CRISIS_ROUTES


def commands() -> "typer.Typer":
    """The commands about the crisis log, and the evaluation."""
    from clew_companion.cli.commands import make_commands

    return make_commands()


agent = Agent(
    name=NAME,
    description="A careful, supportive conversation partner, with memory.",
    make_runtime=make_runtime,
    make_input=make_input,
    uses=("embedder", "search_provider", "skills"),
    notices=(LIMITS_NOTICE,),
    offline_notices=(OFFLINE_NOTICE,),
    stage_labels=STAGE_LABELS,
    describe_context=describe_context,
    warm_up=warm_up,
    rewinds_state=rewinds_state,
    voice=VoiceAgent(
        instructions=voice.instructions,
        tools=voice.tools,
        gates=voice.VOICE_GATES,
        assessed_record=voice.assessed_record,
        keep_level=voice.store_risk_level,
    ),
    routes=routes,
    commands=commands,
    studio=StudioPages(folder=files("clew_companion").joinpath("studio")),
)
