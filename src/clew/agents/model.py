"""The model of an agent that is served or talked with: opened for as long as that lasts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clew.agents.agent import Agent
from clew.core.errors import InvalidArgument
from clew.runtime.model.protocol import Model

OFFLINE = "offline"
"""The name of the model where there is none."""


@asynccontextmanager
async def open_model(agent: Agent, name: str | None) -> AsyncIterator[Model | None]:
    """Open the model of a name for an agent; None if no name is given.

    Raises:
        InvalidArgument: The agent has a model of its own, or the model has no such name.
        MissingExtra: Models of providers are not installed.
    """
    if name is None:
        yield None
        return
    if agent.brings_model:
        raise InvalidArgument(
            problem=f"The agent {agent.name!r} has a model of its own, so {name!r} would not be asked. Leave "
            "out --model, or declare an Agent whose runtime takes the model of the settings."
        )
    from clew.runtime.model.provider import ProviderModel  # an extra, imported where it is needed

    async with ProviderModel(name) as model:
        yield model


def model_label(agent: Agent, model: Model | None, name: str | None) -> str | None:
    """The model that people read: its name, ``offline``, or None where it is the agent's own affair."""
    if agent.brings_model:
        return None
    return OFFLINE if model is None else name or model.name
