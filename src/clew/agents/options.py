"""Options of an agent: what its runtimes get, by names, opened for as long as it is in use."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import cast

import msgspec

from clew.agents.agent import Agent, AgentSettings
from clew.agents.model import open_model
from clew.agents.references import ReferenceKind, open_reference
from clew.agents.search_provider import open_search_provider
from clew.agents.skills import read_skills
from clew.core.errors import InvalidArgument
from clew.runtime.context import EmbeddingProvider
from clew.runtime.memory.vectors.embedders import EMBEDDER_KINDS, open_embedder
from clew.runtime.model.protocol import Model
from clew.runtime.settings import RuntimeConfig

EMBEDDERS = "openai:MODEL, local:MODEL, none or module:attribute"
EMBEDDER_REFERENCE = ReferenceKind(
    noun="embedder",
    option="--embedder",
    accepted="Give an object with a name and an async method embed(texts), or a function that makes one.",
    matches=lambda value: (
        isinstance(getattr(value, "name", None), str) and callable(getattr(value, "embed", None))
    ),
)


class AgentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The things that the runtimes of an agent get, by the names that options and settings have for it.

    ``skills`` is a folder.
    """

    model: str | None = None
    embedder: str | None = None
    search_provider: str | None = None
    skills: str | None = None


@asynccontextmanager
async def open_settings(
    agent: Agent,
    options: AgentOptions,
    environment: Mapping[str, str],
    *,
    config: RuntimeConfig = RuntimeConfig(),
    model: Model | None = None,
) -> AsyncIterator[AgentSettings]:
    """Open everything that the options name. A ``model`` that is given goes before the one they name.

    Raises:
        InvalidArgument: Something has no such name, or cannot be used; the error says what.
        MissingExtra: What it needs is not installed.
    """
    async with AsyncExitStack() as stack:
        if model is None:
            model = await stack.enter_async_context(open_model(agent, options.model))
        yield AgentSettings(
            model=model,
            embedder=await stack.enter_async_context(open_named_embedder(options.embedder, environment)),
            search_provider=await stack.enter_async_context(open_search_provider(options.search_provider)),
            skills=read_skills(options.skills),
            config=config,
        )


@asynccontextmanager
async def open_named_embedder(
    name: str | None, environment: Mapping[str, str]
) -> AsyncIterator[EmbeddingProvider | None]:
    """Open the embedder that an option names: one of the library's, or ``module:attribute``.

    Raises:
        InvalidArgument: There is no such embedder.
        MissingExtra: What it needs is not installed.
    """
    name = name or "none"
    if name.partition(":")[0] in EMBEDDER_KINDS:
        async with open_embedder(name, environment) as embedder:
            yield embedder
    elif ":" in name:
        async with open_reference(name, EMBEDDER_REFERENCE) as value:
            yield cast("EmbeddingProvider", value)
    else:
        raise InvalidArgument(problem=f"There is no embedder {name!r}. Use {EMBEDDERS}.")
