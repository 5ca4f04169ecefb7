"""The AI SDK itself reads what Clew streams: every chunk is valid, and the messages are those of the log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.server.protocols.ui_chat import (
    chat_request,
    decide,
    iterate_chunks,
    messages_of,
    post_chat,
    resume_chat,
    text_of,
    user_message,
)
from tests.support.interop.agent import WORDS
from tests.support.interop.fixtures import server, site
from tests.support.interop.node import run_script
from tests.support.interop.server_process import ServerProcess

__all__ = ["server", "site"]
pytestmark = [pytest.mark.interop, pytest.mark.promise("B-17")]

THREAD = "t"


@pytest.fixture
async def client(server: ServerProcess) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody who chats."""
    async with server.client() as http:
        yield http


async def rebuild(chunks: list[Any], message: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the AI SDK makes of a stream."""
    stream = {"chunks": chunks} if message is None else {"chunks": chunks, "message": message}
    [result] = await run_script("ai_sdk/rebuild.mjs", [stream])
    assert result["invalid"] == []
    rebuilt: dict[str, Any] = result
    return rebuilt


async def post_and_kill(client: httpx.AsyncClient, server: ServerProcess, request: dict[str, Any]) -> None:
    """Send a request, and kill the server when some of the answer is there."""
    async with client.stream("POST", "/ai-sdk/chat", json=request) as response:
        async for chunk in iterate_chunks(response):
            if chunk["type"] == "text-delta":
                server.kill()


async def test_messages_rebuilt_from_streams_are_those_of_the_history(client: httpx.AsyncClient) -> None:
    texts = ["hello", "weather Oslo", "break", "note milk", "fail", "pay Ann"]
    streams = [
        await post_chat(client, chat_request(THREAD, user_message(f"m{number}", text)))
        for number, text in enumerate(texts)
    ]

    results = await run_script("ai_sdk/rebuild.mjs", [{"chunks": chunks} for chunks in streams])
    history = await messages_of(client, THREAD)

    assert [result["invalid"] for result in results] == [[]] * len(texts)
    assert [message for message in history if message["role"] == "assistant"] == [
        result["message"] for result in results
    ]
    assert [text_of(message) for message in history if message["role"] == "user"] == texts
    assert await run_script("ai_sdk/validate.mjs", history) is None


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ({"approved": True}, "output-available"),
        ({"approved": False, "reason": "Too much."}, "output-denied"),
    ],
    ids=["approved", "declined"],
)
async def test_a_decision_goes_on_in_the_same_message(
    client: httpx.AsyncClient, answer: dict[str, Any], state: str
) -> None:
    first = await post_chat(client, chat_request(THREAD, user_message("m", "pay Ann")))
    decided = decide((await rebuild(first))["message"], **answer)
    request = chat_request(THREAD, user_message("m", "pay Ann"), decided, messageId=decided["id"])
    second = await post_chat(client, request)
    again = await post_chat(client, request)

    result = await rebuild(second, decided)
    history = await messages_of(client, THREAD)
    assert [part["state"] for part in history[-1]["parts"] if part["type"] == "tool-pay"] == [state]
    assert result["message"] == history[-1]
    assert (await rebuild(again, decided))["message"] == history[-1]
    assert len(history) == 2


async def test_an_answer_goes_on_behind_a_crash_without_a_lost_or_doubled_word(
    client: httpx.AsyncClient, server: ServerProcess
) -> None:
    request = chat_request(THREAD, user_message("m", "hold it"))
    with pytest.raises(httpx.RemoteProtocolError):
        await post_and_kill(client, server, request)
    await server.start()
    server.release("it")
    resumed = await resume_chat(client, THREAD)
    repeated = await post_chat(client, request)

    result = await rebuild(resumed)
    history = await messages_of(client, THREAD)
    assert text_of(result["message"]) == "".join(WORDS)
    assert result["message"] == history[-1]
    assert (await rebuild(repeated))["message"] == history[-1]
    assert len(history) == 2
