"""A chat of the AI SDK over HTTP: requests as its transport sends them, and the chunks of the answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx

DONE = "[DONE]"


def user_message(id: str, text: str) -> dict[str, Any]:
    """A message of a user, as ``sendMessage`` makes it."""
    return {"id": id, "role": "user", "parts": [{"type": "text", "text": text}]}


def chat_request(thread: str, *messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The body of a request, as ``DefaultChatTransport`` makes it."""
    return {"id": thread, "messages": list(messages), "trigger": "submit-message", **fields}


async def iterate_chunks(response: httpx.Response) -> AsyncIterator[Any]:
    """Iterate over the chunks of a stream, with the mark of its end."""
    async for line in response.aiter_lines():
        if line.startswith("data: "):
            data = line.removeprefix("data: ")
            yield data if data == DONE else json.loads(data)


async def read_stream(response: httpx.Response) -> list[Any]:
    """The chunks of a stream that is complete.

    It says which protocol it is in, and ends with the mark of its end.
    """
    assert response.status_code == 200, (await response.aread()).decode()
    assert response.headers["x-vercel-ai-ui-message-stream"] == "v1"
    chunks = [chunk async for chunk in iterate_chunks(response)]
    assert chunks[-1] == DONE
    return chunks[:-1]


async def post_chat(client: httpx.AsyncClient, body: dict[str, Any]) -> list[Any]:
    """Send a request; the chunks of the answer."""
    async with client.stream("POST", "/ai-sdk/chat", json=body) as response:
        return await read_stream(response)


async def resume_chat(client: httpx.AsyncClient, thread: str) -> list[Any]:
    """Ask for the stream of a thread; its chunks, none if nothing is being answered."""
    async with client.stream("GET", f"/ai-sdk/chat/{thread}/stream") as response:
        return [] if response.status_code == 204 else await read_stream(response)


async def messages_of(client: httpx.AsyncClient, thread: str) -> list[Any]:
    """The messages of a thread, as a page reads them first."""
    response = await client.get(f"/ai-sdk/chat/{thread}/messages")
    response.raise_for_status()
    messages: list[Any] = response.json()["messages"]
    return messages


def text_of(message: dict[str, Any]) -> str:
    """The text of a message."""
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


def decide(message: dict[str, Any], *, approved: bool, reason: str | None = None) -> dict[str, Any]:
    """A message as it is once a person has decided about every call that waits in it."""
    answer = {"approved": approved} if reason is None else {"approved": approved, "reason": reason}
    parts = [
        {**part, "state": "approval-responded", "approval": {**part["approval"], **answer}}
        if part.get("state") == "approval-requested"
        else part
        for part in message["parts"]
    ]
    return {**message, "parts": parts}
