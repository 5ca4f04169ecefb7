"""A provider's model when something is wrong: what may pass, what is hung up on, and what stays secret."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import traceback

import pytest
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.openai import OpenAIProvider

from clew.core.errors import InvalidArgument, ModelFailed
from clew.runtime.model import call as model_call
from clew.runtime.model.call import RetryPolicy
from clew.runtime.model.provider import ProviderModel
from tests.runtime.model.scripted_provider import (
    HI,
    QUICK,
    SECRET,
    chat,
    failure,
    reply_to,
    scripted_provider,
)
from tests.support.openai_server import ChatReply, ErrorReply, Line, Raw, chat_server, refusing_url


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (ErrorReply(status=429), "it answered 429: no"),
        (ErrorReply(status=500), "it answered 500: no"),
        (ErrorReply(status=503), "it answered 503: no"),
        (ChatReply(text="Hello there", cut=1), "broke off"),
        (ChatReply(text="Hello there", cut=1, quietly=True), "the stream ended before the reply did"),
        (ChatReply(calls=[("c1", "weather", '{"city": "Os')]), "arguments for tool 'weather' are not JSON"),
        (Raw(body="data: {nope\n\n", content_type="text/event-stream"), "Failed to decode"),
        (Raw(body="<html>", content_type="text/html"), "ended without content"),
        (Raw(body="", content_type="text/event-stream"), "ended without content"),
        (
            Raw(
                body='data: {"error": {"message": "boom", "type": "server_error"}}\n\n',
                content_type="text/event-stream",
            ),
            "boom",
        ),
    ],
)
async def test_what_may_pass_is_tried_again(line: Line, problem: str) -> None:
    error = await failure(line)
    async with scripted_provider(line, "Hello.") as (model, _):
        reply = await model_call.ask(model, HI, QUICK)

    assert error.retry
    assert problem in error.problem
    assert reply.text == "Hello."


@pytest.mark.parametrize(
    "line",
    [
        ErrorReply(status=400, message="too many messages"),
        ErrorReply(status=401),
        ErrorReply(status=403),
        ErrorReply(status=404),
        ErrorReply(status=429, code="insufficient_quota"),
        ErrorReply(status=500, headers={"x-should-retry": "false"}),
        ChatReply(calls=[("c1", "weather", '{"city": "Os')], finish="length"),
        ChatReply(text="Hello", finish="content_filter"),
    ],
)
async def test_what_will_not_pass_is_not_tried_again(line: Line) -> None:
    async with scripted_provider(line, "Hello.") as (model, server):
        with pytest.raises(ModelFailed):
            await model_call.ask(model, HI, QUICK)

    assert len(server.requests) == 1


async def test_the_pause_that_a_provider_asks_for_is_known() -> None:
    error = await failure(ErrorReply(status=429, headers={"retry-after": "2"}))

    assert (error.retry, error.retry_after_ms) == (True, 2000)


async def test_a_provider_that_is_not_there_may_come_back() -> None:
    async with ProviderModel(chat(refusing_url())) as model:
        with pytest.raises(ModelFailed) as error:
            await reply_to(model)

    assert error.value.retry
    assert "could not be reached" in error.value.problem


async def test_a_slow_first_word_is_tried_again() -> None:
    slow = ChatReply(text="Hello?", before=asyncio.Event())
    async with scripted_provider(slow, "Hello.", settings={"first_event_timeout": 0.05}) as (model, server):
        reply = await model_call.ask(model, HI, QUICK)

    assert (reply.text, len(server.requests)) == ("Hello.", 2)


async def test_a_server_that_never_says_why_it_ends_can_be_used() -> None:
    async with scripted_provider(
        ChatReply(text="Hello.", cut=3, quietly=True), needs_finish_reason=False
    ) as (
        model,
        _,
    ):
        reply = await reply_to(model)

    assert reply.text == "Hello."


async def test_models_behind_one_another_fail_together() -> None:
    async with chat_server(
        ErrorReply(status=400), ErrorReply(status=500), ErrorReply(status=401), "Hello."
    ) as server:
        both = FallbackModel(chat(server.url), chat(server.url, "gpt-5-mini"))
        async with ProviderModel(both) as model:
            with pytest.raises(ModelFailed) as error:
                await reply_to(model)
            reply = await reply_to(model)

    assert error.value.retry
    assert error.value.problem == "it answered 400: no; it answered 500: no"
    assert reply.text == "Hello."


async def test_a_cancelled_call_closes_its_connection_at_once() -> None:
    async with scripted_provider(ChatReply(text="Hello there", midway=asyncio.Event())) as (model, server):
        call = asyncio.create_task(reply_to(model))
        await server.arrival.wait()
        call.cancel()
        async with asyncio.timeout(2):
            await server.departure.wait()
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_a_cancelled_typed_call_closes_its_connection_at_once() -> None:
    async with scripted_provider(ChatReply(text="Hello there", before=asyncio.Event())) as (model, server):
        call = asyncio.create_task(model.fill(HI, int))
        await server.arrival.wait()
        call.cancel()
        async with asyncio.timeout(2):
            await server.departure.wait()
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_a_call_over_its_deadline_closes_its_connection_at_once() -> None:
    async with scripted_provider(ChatReply(text="Hello there", midway=asyncio.Event()), "Hello.") as (
        model,
        server,
    ):
        reply = await model_call.ask(model, HI, RetryPolicy(call_seconds=0.2, pause=0.001))
        async with asyncio.timeout(2):
            await server.departure.wait()

    assert reply.text == "Hello."


# Secrets and names.


@pytest.mark.parametrize(
    "line",
    [
        ErrorReply(status=401, message=f"Incorrect API key provided: {SECRET}"),
        ErrorReply(status=400, message=f"Bad header: Bearer {SECRET}"),
        ErrorReply(status=500, message=f"upstream said: {SECRET}, and sk-other-key-123456"),
    ],
)
async def test_a_secret_is_in_no_error(line: Line) -> None:
    error = await failure(line)

    text = "".join(traceback.format_exception(error)) + repr(error.facts())
    assert SECRET not in text
    assert "sk-other" not in text


async def test_a_key_that_looks_like_a_word_is_in_no_error_either() -> None:
    async with chat_server(*[ErrorReply(status=500, message="open-sesame was refused")] * 2) as server:
        inner = OpenAIChatModel("gpt-5", provider=OpenAIProvider(base_url=server.url, api_key="open-sesame"))
        async with ProviderModel(FallbackModel(inner, inner)) as model:
            with pytest.raises(ModelFailed) as error:
                await reply_to(model)

    assert error.value.problem == "; ".join(["it answered 500: [hidden] was refused"] * 2)


async def test_what_is_said_of_credentials_is_not_repeated() -> None:
    error = await failure(ErrorReply(status=401, message="Wrong key: abcd****wxyz"))

    assert error.problem == "it answered 401; check the credentials"


async def test_a_secret_is_in_no_repr() -> None:
    async with scripted_provider(settings={"extra_headers": {"x-key": SECRET}}) as (model, _):
        assert repr(model) == "ProviderModel('openai:gpt-5')"


async def test_the_provider_gets_the_secret() -> None:
    async with scripted_provider("Hello.") as (model, server):
        await reply_to(model)

    assert server.headers[0]["authorization"] == f"Bearer {SECRET}"


def test_a_model_nobody_knows_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="nonsense"):
        ProviderModel("nonsense:model")


def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    with pytest.raises(InvalidArgument) as error:
        ProviderModel("openai-chat:gpt-5")
    assert error.value.problem == "openai-chat:gpt-5 needs a key. Set OPENAI_API_KEY."


def test_a_missing_package_of_a_provider_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)

    with pytest.raises(InvalidArgument, match="anthropic"):
        ProviderModel("anthropic:claude-sonnet-4-5")


async def test_a_model_by_its_name_is_the_providers() -> None:
    model = ProviderModel("test")

    assert (await reply_to(model)).text == "success (no tool calls)"


async def test_a_model_that_was_made_elsewhere_can_be_used() -> None:
    model = ProviderModel(TestModel(custom_output_text="Hello."), name="house")

    assert (model.name, (await reply_to(model)).text) == ("house", "Hello.")


def run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_nothing_of_a_provider_is_imported_before_it_is_asked_for() -> None:
    code = "import sys, clew, clew.runtime; print({'pydantic_ai', 'openai', 'httpx'} & set(sys.modules))"

    assert run_python(code) == "set()\n"


def test_without_the_extra_its_name_is_told() -> None:
    code = """
import sys
sys.modules["pydantic_ai"] = None
from clew.core.errors import MissingExtra
try:
    import clew.runtime.model.provider
except MissingExtra as error:
    print(error)
"""

    assert "pip install '.[models]'" in run_python(code)
