"""The agent that is served: opened with the settings of the server, for as long as it runs."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from clew.agents.agent import Agent, AgentSettings, UserMessage, VoiceAgent
from clew.agents.discovery import find_agent
from clew.agents.model import model_label
from clew.agents.options import AgentOptions, open_settings
from clew.api.turns import NewTurn
from clew.database.database import Database
from clew.runtime.model.protocol import Model
from clew.runtime.records.steps import read_prices
from clew.runtime.runtime import Runtime
from clew.runtime.settings import LeaseConfig, RuntimeConfig, SessionConfig
from clew.runtime.state.inputs import TurnInput, inputs_of
from clew.runtime.telemetry.telemetry import TelemetryConfig
from clew.server.settings import ServerSettings


class ServedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent with the settings of a server. ``model`` is the name of its model, for people to read."""

    agent: Agent
    settings: AgentSettings
    model: str | None = None

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices that people must see before they begin."""
        return self.agent.notices_for(self.settings.model)

    @property
    def skills(self) -> list[str]:
        """Names of the skills that a turn may install; none for an agent that uses none."""
        return sorted(self.settings.skills) if "skills" in self.agent.uses else []

    @property
    def voice(self) -> VoiceAgent:
        """The agent in a call."""
        return self.agent.voice

    def make_runtime(self, db: Database) -> Runtime[Any, Any]:
        """Make the runtime of one tenant."""
        return self.agent.open_runtime(db, self.settings)

    def turn_input(self, turn: NewTurn, thread: str, user: str | None) -> TurnInput:
        """The input of a turn, as the agent makes it of what a client sent."""
        message = UserMessage(
            text=turn.message,
            thread=thread,
            user=user,
            channel=turn.channel,
            installed_skills=tuple(dict.fromkeys(turn.installed_skills)),
        )
        return self.agent.make_input(message)

    def voice_inputs(self, text: str, thread: str, user: str | None) -> Mapping[str, Any]:
        """The inputs of a turn for what was said in a call."""
        message = UserMessage(text=text, thread=thread, user=user, channel="voice")
        return inputs_of(self.agent.make_input(message))


@asynccontextmanager
async def open_agent(
    agent: Agent, settings: ServerSettings, model: Model | None
) -> AsyncIterator[ServedAgent]:
    """Open an agent with the model that is given or that the settings name, or with none.

    Sessions are not ended when a process stops: the conversation goes on in another, and what is idle is
    ended by whichever sweeps.
    """
    config = RuntimeConfig(
        sessions=SessionConfig(finalize_active_sessions_on_close=False),
        leases=LeaseConfig(sweep_seconds=settings.sweep_seconds),
        prices=read_prices(settings.prices),
        pinned=is_pinned(settings),
        telemetry=TelemetryConfig(content=settings.telemetry_content, users=settings.telemetry_users),
    )
    options = agent_options(settings)
    async with open_settings(agent, options, os.environ, config=config, model=model) as agent_settings:
        warm_up = None if agent.warm_up is None else asyncio.create_task(asyncio.to_thread(agent.warm_up))
        yield ServedAgent(
            agent=agent,
            settings=agent_settings,
            model=model_label(agent, agent_settings.model, settings.model),
        )
        if warm_up is not None:
            await warm_up


def find_agents(settings: ServerSettings) -> list[Agent]:
    """Return the agents that the settings name, the default one first; without a name the preferred one.

    Raises:
        InvalidArgument: There is none of that name, or it cannot be loaded; the error says why.
    """
    references = [part.strip() for part in (settings.agent or "").split(",") if part.strip()]
    return [find_agent(each) for each in references] or [find_agent()]


def settings_for_agent(settings: ServerSettings, agent: Agent, agents: Sequence[Agent]) -> ServerSettings:
    """Return the settings for one of several agents: one that has a model gets none if another takes it."""
    if agent.brings_model and not all(each.brings_model for each in agents):
        return msgspec.structs.replace(settings, model=None)
    return settings


def agent_options(settings: ServerSettings) -> AgentOptions:
    """Return what a server's settings name for its agent."""
    return AgentOptions(
        model=settings.model,
        embedder=settings.embedder,
        search_provider=settings.search_provider,
        skills=settings.skills,
    )


def is_pinned(settings: ServerSettings) -> bool:
    """True if every request of a thread reaches this process, so that one can be incognito here.

    A process knows the workers beside it, and not whether a balancer spreads requests over several servers.
    """
    return settings.workers == 1 and settings.pinned
