"""Chats of the AI SDK: the thread has the history, a message runs once, an earlier one can be replaced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

import clew
from clew.runtime.execution import queue
from clew.runtime.tools.tool import Suspend, ToolContext
from clew.server.http.limits import ConcurrencyLimit
from clew.server.protocols.ai_sdk.messages import MessageBuilder
from clew.testing import ScriptedModel
from clew.testing.scripted_model import ScriptLine, calls
from tests.server.conftest import Users, clients_of, db, postgres_url, tenant
from tests.server.protocols.ui_chat import (
    chat_request,
    decide,
    messages_of,
    post_chat,
    resume_chat,
    text_of,
    user_message,
)

__all__ = ["db", "postgres_url", "tenant"]
THREAD = "t"


@clew.tool(approval=True)
async def pay(name: str) -> str:
    """Pay somebody."""
    return f"{name} has been paid"


@clew.tool
async def book(context: ToolContext) -> str:
    """Book a seat."""
    if context.decision is None:
        raise Suspend("Window or aisle?")
    return f"a seat at the {context.decision}"


def durable_types(chunks: list[Any]) -> list[str]:
    """The types of the chunks, but for those that are live alone or may be more or fewer."""
    return [chunk["type"] for chunk in chunks if chunk["type"] not in ("data-stage", "text-delta")]


class Chat:
    """A chat of one user on a server whose model plays a script."""

    def __init__(self, users: Users, model: ScriptedModel) -> None:
        base = "http://127.0.0.1/api/v1"
        transport = httpx.ASGITransport(users.app)
        self._app = users.app
        self.model = model
        self.http = httpx.AsyncClient(transport=transport, base_url=base, headers=users.headers("alice"))

    async def send(self, id: str, text: str, **fields: Any) -> list[Any]:
        """Send a message; the chunks of the answer."""
        return await post_chat(self.http, chat_request(THREAD, user_message(id, text), **fields))

    @property
    def open_streams(self) -> int:
        """The number of streams that are open."""
        limit: ConcurrencyLimit = self._app.state.resources.streams
        return limit.in_use

    async def texts(self) -> list[str]:
        """The texts of the messages of the thread."""
        return [text_of(message) for message in await messages_of(self.http, THREAD)]

    async def decide(self, **answer: Any) -> list[Any]:
        """Decide about the calls that wait, twice; the chunks of what follows."""
        decided = decide((await messages_of(self.http, THREAD))[-1], **answer)
        request = chat_request(THREAD, decided, messageId=decided["id"])
        chunks = await post_chat(self.http, request)
        assert durable_types(await post_chat(self.http, request)) == durable_types(chunks)
        return chunks


@pytest.fixture
def script() -> list[ScriptLine]:
    """The lines of the model; a test says others by its parameters."""
    return ["One.", "Two.", "Three."]


@pytest.fixture
async def chat(db: clew.Database, script: list[ScriptLine]) -> AsyncIterator[Chat]:
    """A chat on each store."""
    model = ScriptedModel(*script)
    async with clients_of(
        db, make_runtime=lambda each: clew.Runtime(each, model=model, tools=[pay, book])
    ) as users:
        chat = Chat(users, model)
        async with chat.http:
            yield chat


async def test_only_the_last_message_is_taken(chat: Chat) -> None:
    await chat.send("m1", "first")
    await post_chat(
        chat.http, chat_request(THREAD, user_message("m0", "made up"), user_message("m2", "second"))
    )

    assert await chat.texts() == ["first", "One.", "second", "Two."]


async def test_a_message_that_is_sent_again_is_answered_once(chat: Chat) -> None:
    first = await chat.send("m1", "first")
    again = await chat.send("m1", "first")

    assert again[0] == first[0]
    assert again[-1] == first[-1]
    assert await chat.texts() == ["first", "One."]


async def test_another_text_under_the_same_id_is_refused(chat: Chat) -> None:
    await chat.send("m1", "first")
    reply = await chat.http.post("/ai-sdk/chat", json=chat_request(THREAD, user_message("m1", "other")))

    assert (reply.status_code, reply.json()["code"]) == (409, "key_reused")


async def test_a_message_that_was_edited_replaces_itself_and_what_came_after(chat: Chat) -> None:
    await chat.send("m1", "first")
    await chat.send("m2", "second")
    for _ in range(2):
        await chat.send("m2", "changed", messageId="m2")

    assert await chat.texts() == ["first", "One.", "changed", "Three."]


async def test_an_edit_of_an_earlier_message_takes_back_all_that_followed(chat: Chat) -> None:
    await chat.send("m0", "zero")
    await chat.send("m1", "first")
    await chat.send("m1", "changed", messageId="m1")

    assert await chat.texts() == ["zero", "One.", "changed", "Three."]


async def test_an_answer_is_made_anew_once_however_often_it_is_asked_for(chat: Chat) -> None:
    first = await chat.send("m1", "first")
    for _ in range(2):
        await chat.send("m1", "first", trigger="regenerate-message", messageId=first[0]["messageId"])

    assert await chat.texts() == ["first", "Two."]


async def test_the_answer_to_an_earlier_message_can_be_made_anew(chat: Chat) -> None:
    first = await chat.send("m1", "first")
    await chat.send("m2", "second")
    await chat.send("m1", "first", trigger="regenerate-message", messageId=first[0]["messageId"])

    assert await chat.texts() == ["first", "Three."]


@pytest.mark.parametrize("script", [[calls(("c1", "pay", {"name": "Ann"})), "Done."]])
async def test_a_call_that_was_approved_is_run(chat: Chat) -> None:
    await chat.send("m1", "Pay Ann.")
    chunks = await chat.decide(approved=True)

    assert {"type": "tool-output-available", "toolCallId": "c1", "output": "Ann has been paid"} in chunks
    assert (await chat.texts())[-1] == "Done."


@pytest.mark.parametrize("script", [[calls(("c1", "pay", {"name": "Ann"})), "As you like."]])
async def test_a_call_that_was_declined_is_not_run_and_the_model_reads_why(chat: Chat) -> None:
    await chat.send("m1", "Pay Ann.")
    await chat.decide(approved=False, reason="Too much.")

    assert chat.model.requests[-1].messages[-1].content == {"declined": "Too much."}


@pytest.mark.parametrize("script", [[calls(("c1", "book", {})), "Booked."]])
async def test_the_reason_is_the_answer_to_a_tool_that_asked_something(chat: Chat) -> None:
    await chat.send("m1", "A seat, please.")
    await chat.decide(approved=True, reason="window")

    assert chat.model.requests[-1].messages[-1].content == "a seat at the window"


@pytest.mark.parametrize("script", [[calls(("c1", "pay", {"name": "Ann"})), "Done."]])
async def test_a_message_is_refused_while_a_call_waits(chat: Chat) -> None:
    await chat.send("m1", "Pay Ann.")
    reply = await chat.http.post("/ai-sdk/chat", json=chat_request(THREAD, user_message("m2", "Well?")))

    assert (reply.status_code, reply.json()["code"]) == (409, "turn_suspended")


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"id": "m", "role": "assistant", "parts": []}, "nothing to answer"),
        (
            {"id": "m", "role": "user", "parts": [{"type": "file", "url": "data:,x"}]},
            "parts of the type file",
        ),
    ],
    ids=["an answer", "a file"],
)
async def test_what_cannot_be_answered_is_refused(chat: Chat, message: dict[str, Any], words: str) -> None:
    reply = await chat.http.post("/ai-sdk/chat", json=chat_request(THREAD, message))

    assert (reply.status_code, reply.json()["code"]) == (422, "invalid_argument")
    assert words in reply.json()["detail"]


async def test_a_run_that_ended_just_now_is_replayed_whole(chat: Chat) -> None:
    chunks = await chat.send("m1", "first")

    assert [chunk for chunk in await resume_chat(chat.http, THREAD) if chunk["type"] == "finish"] == [
        chunks[-1]
    ]


async def test_nothing_is_replayed_in_a_chat_that_has_not_begun(chat: Chat) -> None:
    assert await resume_chat(chat.http, "new") == []
    assert await messages_of(chat.http, "new") == []


async def test_only_the_newest_turns_are_listed_if_fewer_are_asked_for(chat: Chat) -> None:
    await chat.send("m1", "first")
    await chat.send("m2", "second")
    reply = await chat.http.get(f"/ai-sdk/chat/{THREAD}/messages", params={"limit": 1})

    assert [text_of(message) for message in reply.json()["messages"]] == ["second", "Two."]


async def test_a_chat_that_is_incognito_leaves_nothing_in_the_database(chat: Chat, db: clew.Database) -> None:
    await chat.send("m1", "first", mode="incognito")

    assert await chat.texts() == ["first", "One."]
    assert (await db.threads()).threads == ()


# While an answer is being made.


async def until(is_so: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(30):
        while not (so if isinstance(so := is_so(), bool) else await so):  # noqa: ASYNC110  # nobody tells it
            await asyncio.sleep(0.01)


async def until_asked(chat: Chat) -> None:
    """Wait until the model makes its first answer."""
    await until(lambda: len(chat.model.requests) == 1)


@pytest.fixture
def go_on() -> asyncio.Event:
    """Lets the model go on with its first answer."""
    return asyncio.Event()


class TestWhileAnAnswerIsBeingMade:
    """The model has said half of its first answer, and waits."""

    @pytest.fixture
    def script(self, go_on: asyncio.Event) -> list[ScriptLine]:
        """An answer in two halves, and another."""
        return [["Half, ", go_on, "whole."], "Two."]

    async def test_who_reconnects_gets_it_from_its_beginning(self, chat: Chat, go_on: asyncio.Event) -> None:
        answer = asyncio.create_task(chat.send("m1", "first"))
        await until_asked(chat)
        again = asyncio.create_task(resume_chat(chat.http, THREAD))
        await until(lambda: chat.open_streams == 2)
        go_on.set()
        streams = await asyncio.gather(answer, again)

        builders = [MessageBuilder("") for _ in streams]
        for builder, chunks in zip(builders, streams, strict=True):
            builder.add(chunks)
        assert builders[0].message == builders[1].message
        assert text_of({"parts": builders[1].message.parts}) == "Half, whole."

    async def test_a_message_that_is_sent_again_waits_for_the_same_answer(
        self, chat: Chat, go_on: asyncio.Event
    ) -> None:
        both = [asyncio.create_task(chat.send("m1", "first")) for _ in range(2)]
        await until_asked(chat)
        go_on.set()
        first, second = await asyncio.gather(*both)

        assert second[-1] == first[-1]
        assert await chat.texts() == ["first", "Half, whole."]

    async def test_a_message_that_is_queued_is_answered_in_its_own_stream(
        self, chat: Chat, go_on: asyncio.Event, db: clew.Database
    ) -> None:
        async def is_queued() -> bool:
            return await queue.oldest_turn(db, THREAD) is not None

        first = asyncio.create_task(chat.send("m1", "first"))
        await until_asked(chat)
        second = asyncio.create_task(chat.send("m2", "second", busy="queue"))
        await until(is_queued)
        go_on.set()
        await first

        builder = MessageBuilder("")
        builder.add(await second)
        assert text_of({"parts": builder.message.parts}) == "Two."
        assert await chat.texts() == ["first", "Half, whole.", "second", "Two."]

    async def test_a_message_that_interrupts_leaves_what_was_said(self, chat: Chat) -> None:
        first = asyncio.create_task(chat.send("m1", "first"))
        await until_asked(chat)
        await chat.send("m2", "second", busy="interrupt")
        ending = (await first)[-2:]

        assert [chunk["type"] for chunk in ending] == ["abort", "finish"]
        assert await chat.texts() == ["first", "Half, ", "second", "Two."]
