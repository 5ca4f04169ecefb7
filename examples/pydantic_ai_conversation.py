"""Pydantic AI on Clew: a conversation that goes on in another process, and can be forked."""

import asyncio
import tempfile

from pydantic_ai import Agent, Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.models.test import TestModel

import clew
from clew.adapters.pydantic_ai import Conversations

agent = Agent(TestModel())  # a model that needs no network and calls every tool once


@agent.tool_plain
def weather(city: str) -> str:
    """How the weather is in a city."""
    return f"It is blue in {city}."


async def ask(store: Conversations, id: str, words: str) -> str:
    conversation = await store.load(id) or Conversation(conversation_id=id)
    result = await agent.run(words, conversation=conversation)
    messages = await store.save(result)
    return f"{result.output} ({len(messages)} messages more)"


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/agent.db"
        for words in ("How is Lisbon?", "And now?"):
            async with clew.open(url) as db:  # each time as a new process would
                print(words, "→", await ask(Conversations(db), "trip", words))

        async with clew.open(url) as db:
            store = Conversations(db)
            await store.fork("trip", at=4, new_conversation_id="other trip")
            await ask(store, "other trip", "And in Porto?")
            for record in await store.list_conversations():
                messages = len((await store.load(record.conversation_id) or Conversation()).messages)
                print(record.conversation_id, messages, "messages", record.usage.requests, "requests")

            mine, theirs = await store.load("trip"), await store.load("trip")
            assert mine is not None
            assert theirs is not None
            await store.save(await agent.run("I was first.", conversation=mine))
            try:
                await store.save(await agent.run("So was I.", conversation=theirs))
            except ConversationConflict as error:
                print("refused:", error)


asyncio.run(main())
