"""A server with an agent: what it answers, and the routes and scripts that come with installed ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from litestar import get
from litestar.types import ControllerRouterHandler

import clew
from clew.agents import Agent, StudioPages, UserMessage
from clew.agents.plain import NO_MODEL
from clew.api.health import StudioExtension
from clew.core.errors import InvalidArgument
from clew.server.app import create_app
from clew.server.process import check_prerequisites
from clew.server.settings import ServerSettings
from clew.testing import ScriptedModel
from tests.agents.conftest import Install
from tests.server.conftest import over_http


@get("/trips", operation_id="list_trips")
async def list_trips() -> list[str]:
    """The trips."""
    return ["Lisbon"]


def routes() -> Sequence[ControllerRouterHandler]:
    return [list_trips]


def travel(folder: Path | None = None) -> Agent:
    """An agent with everything that one can bring."""
    return Agent(
        name="travel",
        make_runtime=lambda db, settings: clew.Runtime(db, agent="travel", model=settings.model),
        make_input=lambda message: f"{message.channel} {message.user} {message.thread}: {message.text}",
        notices=("Trips may be late.",),
        routes=routes,
        studio=None if folder is None else StudioPages(folder=folder, navigation={"trips": "Trips"}),
    )


async def test_a_message_becomes_the_input_that_the_agent_makes_of_it() -> None:
    model = ScriptedModel("Gladly.")
    async with (
        clew.open("memory://") as db,
        over_http(create_app(db=db, agent=travel(), model=model), db) as users,
    ):
        turn = await users("alice").run_turn("t", "To Lisbon?")
        messages = await users("alice").messages("t")

    assert turn.text == "Gladly."
    assert messages.messages[0].text == "web alice t: To Lisbon?"


async def test_the_server_says_which_agent_answers_and_what_people_must_know() -> None:
    async with clew.open("memory://") as db, over_http(create_app(db=db, agent=travel()), db) as users:
        agent = await users("alice").agent()

    assert (agent.name, agent.model, agent.notices) == ("travel", "offline", ["Trips may be late."])


async def test_a_function_serves_with_a_model_of_its_own() -> None:
    model = ScriptedModel("Gladly.")
    async with clew.open("memory://") as db:
        app = create_app(db=db, agent=lambda scoped: clew.Runtime(scoped, model=model))
        async with over_http(app, db) as users:
            turn = await users("alice").run_turn("t", "To Lisbon?")
            agent = await users("alice").agent()

    assert turn.text == "Gladly."
    assert (agent.name, agent.model) == ("default", None)


async def test_the_routes_of_an_agent_are_part_of_the_api() -> None:
    app = create_app(agent=travel())
    async with clew.open("memory://") as db, over_http(create_app(db=db, agent=travel()), db) as users:
        answer = await users.http.get("/api/v1/trips", headers=users.headers())

    assert answer.json() == ["Lisbon"]
    assert "/api/v1/trips" in app.openapi_schema.to_schema()["paths"]


async def test_the_scripts_of_an_agent_are_served_below_the_studio(tmp_path: Path) -> None:
    (tmp_path / "main.js").write_text("export const pages = {};", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("not for pages", encoding="utf-8")
    async with (
        clew.open("memory://") as db,
        over_http(create_app(db=db, agent=travel(tmp_path)), db) as users,
    ):
        script = await users.http.get("/studio/agents/travel/main.js")
        secret = await users.http.get("/studio/agents/travel/secret.txt")
        agent = await users("alice").agent()

    assert script.text == "export const pages = {};"
    assert script.headers["content-type"].startswith("text/javascript")
    assert "not for pages" not in secret.text
    assert agent.studio[0] == StudioExtension(agent="travel", script="main.js", navigation={"trips": "Trips"})


async def test_what_installed_agents_bring_is_there_whichever_answers() -> None:
    paths = create_app(agent=travel()).openapi_schema.to_schema()["paths"]

    assert "/api/v1/crises" in paths


async def test_an_installed_agent_that_is_broken_keeps_no_other_from_serving(install: Install) -> None:
    install("broken", "agent = 1 / 0")
    async with clew.open("memory://") as db, over_http(create_app(db=db, agent=travel()), db) as users:
        assert (await users("alice").agent()).name == "travel"


def test_the_setting_names_the_agent() -> None:
    with pytest.raises(InvalidArgument, match="There is no agent 'trips'"):
        create_app(ServerSettings(agent="trips"))


async def test_a_model_for_an_agent_that_has_its_own_is_refused() -> None:
    settings = ServerSettings(agent="clew:Runtime", model="openai:gpt-5")

    with pytest.raises(InvalidArgument, match="has a model of its own"):
        await check_prerequisites(settings)


@pytest.mark.usefixtures("none_installed")
async def test_without_any_installed_agent_the_plain_one_answers() -> None:
    app = create_app()
    paths = app.openapi_schema.to_schema()["paths"]
    async with clew.open("memory://") as db, over_http(create_app(db=db), db) as users:
        turn = await users("alice").run_turn("t", "Hello")
        agent = await users("alice").agent()
        page = await users.http.get("/studio")

    assert turn.text == NO_MODEL
    assert (agent.name, agent.notices, agent.studio) == ("plain", [NO_MODEL], [])
    assert page.status_code == 200
    assert not [path for path in paths if "crises" in path]


def test_a_message_says_by_which_channel_it_came() -> None:
    assert UserMessage(text="Hi", thread="t").channel == "web"
