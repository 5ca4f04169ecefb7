"""Models given by name: ``"openai:gpt-5"`` is the provider's model of that name."""

from contextlib import AsyncExitStack
from typing import TypeAlias

from clew.runtime.model.protocol import Model

ModelOrName: TypeAlias = Model | str
"""A model, or the name of one that a provider has."""


def model_of(model: ModelOrName | None, exit_stack: AsyncExitStack) -> Model | None:
    """The model itself, or the one of a name, which ``exit_stack`` closes.

    Raises:
        InvalidArgument: No provider has a model of that name, or its key is missing.
        MissingExtra: What speaks to providers is not installed.
    """
    if not isinstance(model, str):
        return model
    from clew.runtime.model.provider import ProviderModel  # it takes a second to load, and may be missing

    provider_model = ProviderModel(model)
    exit_stack.push_async_callback(provider_model.close)
    return provider_model
