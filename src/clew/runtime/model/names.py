"""Models given by name: ``"openai:gpt-5"`` is the provider's model of that name."""

from contextlib import AsyncExitStack
from typing import TypeAlias

from clew.runtime.model.protocol import Model

ModelOrName: TypeAlias = Model | str
"""A model, or the name of one that a provider has."""


def model_of(model: ModelOrName | None, opened: AsyncExitStack) -> Model | None:
    """The model that is meant. One that is made here is closed with ``opened``.

    Raises:
        InvalidArgument: No provider has a model of that name, or its key is missing.
        MissingExtra: What speaks to providers is not installed.
    """
    if not isinstance(model, str):
        return model
    from clew.runtime.model.provider import ProviderModel  # it takes a second to load, and may be missing

    made = ProviderModel(model)
    opened.push_async_callback(made.close)
    return made
