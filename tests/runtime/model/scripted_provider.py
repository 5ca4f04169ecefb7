"""A provider's model on a server that plays a script, as the tests of it ask it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic_ai.models import Model as Provided
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from clew.core.errors import ModelFailed
from clew.runtime.model import call
from clew.runtime.model.call import RetryPolicy
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import ModelRequest, Reply
from clew.runtime.model.provider import ProviderModel
from tests.support.openai_server import ChatServer, Line, chat_server

SECRET = "sk-very-secret-0123456789"
QUICK = RetryPolicy(pause=0.001, longest_pause=0.002)
HI = ModelRequest(messages=[Message(role="user", content="Hi")])


def chat(url: str, name: str = "gpt-5") -> Provided[Any]:
    return OpenAIChatModel(name, provider=OpenAIProvider(base_url=url, api_key=SECRET))


@asynccontextmanager
async def scripted_provider(
    *script: Line | str, **options: Any
) -> AsyncIterator[tuple[ProviderModel, ChatServer]]:
    """A model on a server that plays a script."""
    async with chat_server(*script) as server, ProviderModel(chat(server.url), **options) as model:
        yield model, server


async def reply_to(model: ProviderModel, request: ModelRequest = HI) -> Reply:
    return await call.ask(model, request, RetryPolicy(attempts=1))


async def failure(*script: Line | str) -> ModelFailed:
    """What becomes of a request that is not tried again."""
    async with scripted_provider(*script) as (model, _):
        with pytest.raises(ModelFailed) as error:
            await reply_to(model)
    return error.value
