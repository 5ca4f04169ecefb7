"""Several agents in one server: a turn names one, a thread keeps its own, and none writes another's."""

from __future__ import annotations

import asyncio

import pytest

import clew
from clew.agents import Agent, AgentSettings
from clew.api.ai_sdk import POST_CHAT
from clew.core.errors import InvalidArgument, ThreadOfAnotherAgent
from clew.runtime.execution.queue import enqueue_turn
from clew.runtime.execution.start import BusyPolicy, TurnRequest
from clew.runtime.records.runs import run_id_for_key
from clew.runtime.runtime import Runtime
from clew.server.app import create_app
from clew.server.tenants.agents import check_distinct
from clew.testing import ScriptedModel
from tests.server.conftest import over_http

pytestmark = pytest.mark.promise("B-16")


def make_travel(db: clew.Database) -> Runtime:
    """Make a runtime of an agent that is nothing but this function."""
    return Runtime(db, agent="travel", model=ScriptedModel(*["At nine."] * 9))


def _make_cook(db: clew.Database, settings: AgentSettings) -> Runtime:
    return Runtime(db, agent="cook", model=ScriptedModel(*["Soup."] * 9), config=settings.config)


cook = Agent(name="cook", description="Cooks.", make_runtime=_make_cook, brings_model=True)


async def test_a_turn_names_its_agent_and_the_thread_keeps_it(db: clew.Database) -> None:
    app = create_app(db=db, agent=make_travel, agents=[cook])
    async with over_http(app, db) as users:
        first = await users().run_turn("dinner", "What is for dinner?", agent="cook")
        second = await users().run_turn("dinner", "And tomorrow?")
        trip = await users().run_turn("trip", "When to Lisbon?")
        threads = {name: (await users().thread(name)).agent for name in ("dinner", "trip")}

    assert (first.text, second.text, trip.text) == ("Soup.", "Soup.", "At nine.")
    assert threads == {"dinner": "cook", "trip": "travel"}


async def test_an_agent_that_is_not_served_is_a_clear_error(db: clew.Database) -> None:
    async with over_http(create_app(db=db, agent=make_travel, agents=[cook]), db) as users:
        with pytest.raises(InvalidArgument) as error:
            await users().run_turn("t", "Hi", agent="poet")
        page = await users().threads()

    assert str(error.value) == "No agent 'poet' is served here. Served are: travel, cook."
    assert page.threads == []


async def test_an_agent_that_is_named_does_not_write_the_thread_of_another(db: clew.Database) -> None:
    async with over_http(create_app(db=db, agent=make_travel, agents=[cook]), db) as users:
        await users().run_turn("t", "Hi", agent="cook")
        policies: list[BusyPolicy] = ["wait", "interrupt", "rollback"]
        for busy in policies:
            with pytest.raises(ThreadOfAnotherAgent):
                await users().run_turn("t", "Hi", agent="travel", busy=busy)


async def test_a_thread_of_an_agent_that_is_not_served_is_written_by_none(db: clew.Database) -> None:
    poet = Runtime(db, agent="poet", model=ScriptedModel("A rose."))
    await poet.run_turn("t", "Hi", user="alice")
    async with over_http(create_app(db=db, agent=make_travel, agents=[cook]), db) as users:
        with pytest.raises(ThreadOfAnotherAgent) as error:
            await users().run_turn("t", "Hi")

    assert error.value.other == "poet"


async def test_a_run_is_taken_back_by_the_agent_of_its_thread(db: clew.Database) -> None:
    async with over_http(create_app(db=db, agent=make_travel, agents=[cook]), db) as users:
        await users().run_turn("t", "Hi", agent="cook")
        await users().rewind("t", to=1)
        episode = await users().end_session("t")

    assert episode.status in ("ended", "ending")
    assert len(await db.thread("t").items()) == 1


async def test_the_agents_are_listed_with_the_default_one_first(db: clew.Database) -> None:
    async with over_http(create_app(db=db, agent=make_travel, agents=[cook]), db) as users:
        agents = (await users().agents()).agents

    assert [(each.name, each.default) for each in agents if each.served] == [
        ("travel", True),
        ("cook", False),
    ]
    assert {"plain", "companion"} <= {each.name for each in agents if not each.served}


async def test_incognito_only_the_default_agent_answers(db: clew.Database) -> None:
    async with over_http(create_app(db=db, agent=make_travel, agents=[cook]), db) as users:
        with pytest.raises(InvalidArgument) as error:
            await users().run_turn("t", "Hi", agent="cook", mode="incognito")
        result = await users().run_turn("t", "Hi", agent="travel", mode="incognito")

    assert "Incognito only the agent 'travel' answers" in str(error.value)
    assert result.text == "At nine."


def test_two_agents_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidArgument) as error:
        check_distinct(["travel", "cook", "travel"])
    assert "Two agents are called 'travel'" in str(error.value)


async def test_what_waits_for_an_agent_is_done_though_nobody_asks_for_it() -> None:
    async with clew.open("memory://") as db, asyncio.timeout(20):
        await db.create("t")
        request = TurnRequest(thread="t", inputs={"message": "2"}, items=(clew.user("2"),), key="second")
        await enqueue_turn(db, run_id_for_key("t", "second"), request, now=1, agent="cook")
        async with over_http(create_app(db=db, agent=make_travel, agents=[cook]), db):
            while len(items := await db.thread("t").items()) < 2:
                await db.thread("t").wait_for_change((await db.thread("t").head()).version, timeout=1)

    assert [item.body["content"] for item in items] == ["2", "Soup."]


async def test_a_chat_of_the_ai_sdk_names_its_agent(db: clew.Database) -> None:
    message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "What is for dinner?"}]}
    async with over_http(create_app(db=db, agent=make_travel, agents=[cook]), db) as users:
        reply = await users.http.post(
            f"/api/v1{POST_CHAT.path}",
            json={"id": "t", "messages": [message], "agent": "cook"},
            headers=users.headers(),
        )
        thread = await users().thread("t")

    assert (reply.status_code, thread.agent) == (200, "cook")
