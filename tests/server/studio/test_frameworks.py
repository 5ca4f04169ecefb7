"""Threads that other frameworks wrote stand in the one list, and can all be read."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner
from agents.testing import ScriptedModel, assistant_message
from google.adk.events import Event
from google.genai import types
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from playwright.async_api import expect
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import Conversation
from pydantic_ai.models.test import TestModel

import clew
from clew.adapters.adk import SessionService
from clew.adapters.langgraph import Checkpointer
from clew.adapters.openai_agents import Session
from clew.adapters.pydantic_ai import Conversations
from tests.server.studio.conftest import Visitor

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.promise("B-10")]

QUESTION, ANSWER = "Where is the parcel?", "In Bremen."


async def openai_agents(db: clew.Database) -> None:
    session = Session("by-openai-agents", db)
    agent = Agent(name="clerk", model=ScriptedModel([[assistant_message(ANSWER)]]))
    await Runner.run(agent, QUESTION, session=session, run_config=RunConfig(tracing_disabled=True))


async def langgraph(db: clew.Database) -> None:
    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(ANSWER)]}

    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    graph = builder.compile(checkpointer=Checkpointer(db))
    await graph.ainvoke(
        {"messages": [HumanMessage(QUESTION)]}, {"configurable": {"thread_id": "by-langgraph"}}
    )


async def google_adk(db: clew.Database) -> None:
    service = SessionService(db)
    session = await service.create_session(app_name="post", user_id="ada", session_id="by-google-adk")
    for author, text in (("user", QUESTION), ("clerk", ANSWER)):
        role = "user" if author == "user" else "model"
        content = types.Content(role=role, parts=[types.Part(text=text)])
        await service.append_event(session, Event(author=author, content=content))


async def pydantic_ai(db: clew.Database) -> None:
    agent = PydanticAgent(TestModel(custom_output_text=ANSWER))
    conversation = Conversation(conversation_id="by-pydantic-ai")
    await Conversations(db).save(await agent.run(QUESTION, conversation=conversation))


WRITERS: list[tuple[str, Callable[[clew.Database], Awaitable[None]], str]] = [
    ("by-openai-agents", openai_agents, "OpenAI Agents"),
    ("by-langgraph", langgraph, "LangGraph"),
    ("by-google-adk", google_adk, "Google ADK"),
    ("by-pydantic-ai", pydantic_ai, "Pydantic AI"),
]


@pytest.mark.parametrize(("id", "write", "name"), WRITERS, ids=[name for _, _, name in WRITERS])
async def test_a_thread_of_another_framework_is_listed_and_read(
    visitor: Visitor, id: str, write: Callable[[clew.Database], Awaitable[None]], name: str
) -> None:
    await write(visitor.studio.db)
    page = await visitor.open(f"/studio/threads?q={id}", everybody=True)
    row = page.get_by_role("listitem").filter(has_text=id)
    await expect(row).to_contain_text(ANSWER)
    await row.get_by_role("link").click()

    await expect(page.locator(".message.user .said")).to_have_text(QUESTION)
    await expect(page.locator(".message.assistant .said")).to_have_text(ANSWER)
    await expect(page.locator(".message.assistant .about")).to_contain_text(name)
    await expect(page.get_by_text(f"{name} writes this thread.")).to_be_visible()
    await expect(page.get_by_role("textbox", name="Message")).to_have_count(0)
    await expect(page.locator(".ops .added").last).to_have_text(re.compile(f"assistant: {ANSWER}$"))
