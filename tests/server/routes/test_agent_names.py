"""Threads of another agent over HTTP: read by every route, written by none, and adopted by operators."""

from __future__ import annotations

from typing import Any

import pytest

import clew
from clew.agents import Agent
from clew.api.route import Route
from clew.client import AsyncClient
from clew.core.errors import ClewError, Forbidden, InvalidArgument, ThreadOfAnotherAgent
from clew.core.values import Item
from clew.server.app import Application, create_app
from clew.server.http.endpoint import route_of
from clew.testing import ScriptedModel
from tests.server.conftest import Users, clients_of
from tests.server.routes.test_operators import Roles

pytestmark = pytest.mark.promise("B-16")
WRITES: dict[str, Any] = {
    "add_document": None,
    "append": {"items": [{"body": {"content": "Soup?"}, "role": "user"}]},
    "begin_call": {},
    "call_tool": {"id": "c", "name": "fare"},
    "delete_artifact": None,
    "end_session": {},
    "hear": {"id": "u", "said": "Soup?"},
    "load_document": {"path": "a.txt"},
    "post_turn": {"message": "Soup?"},
    "put_block": {"text": "Likes soup."},
    "put_repository": {"url": "https://git.example.org/soup.git"},
    "record_session_feedback": {"label": "positive"},
    "record_voice_turn": {"said": "Soup?", "replied": "Soup."},
    "replace_session": {"format": "clew.session", "version": 1, "session": "t", "state": {}},
    "rewind_thread": {"to": 1},
    "switch_document": {"path": "a.txt"},
    "unload_document": None,
    "voice_alive": {},
    "voice_lost": None,
}
"""The routes that write a thread, by name, and what is sent to them."""
OF_ITS_OWNER = {"adopt_thread", "delete_session", "delete_thread", "export_session", "fork_thread"}
"""The routes that an owner or an operator has whatever the agent."""


def routes_of(app: Application) -> dict[str, Route[Any]]:
    """The routes about one thread that may write, by name."""
    handlers = [handler for each in app.routes for handler in getattr(each, "route_handlers", ())]
    routes = [route for handler in handlers if (route := route_of(handler)) is not None]
    return {
        route.name: route
        for route in routes
        if route.method != "GET" and route.path.startswith(("/threads/{id}", "/sessions/{id}"))
    }


async def travelled(db: clew.Database) -> None:
    """Run a turn of the agent travel on a thread of alice."""
    model = ScriptedModel("At nine.")
    await clew.Runtime(db, agent="travel", model=model).run_turn("t", "To Lisbon?", user="alice")


def test_every_route_that_writes_a_thread_is_tried_here() -> None:
    assert set(routes_of(create_app())) == {*WRITES, *OF_ITS_OWNER}


@pytest.mark.parametrize("name", WRITES)
async def test_no_route_writes_the_thread_of_another_agent(
    users: Users, db: clew.Database, name: str
) -> None:
    await travelled(db)
    before, route = await db.thread("t").head(), routes_of(users.app)[name]
    answer = await users.http.request(
        route.method,
        route.path_for("t", "part"),
        headers=users.headers(),
        json=WRITES[name],
        params={"name": "a.txt", "path": "a.txt"} if "document" in name else None,
    )

    assert (answer.status_code, answer.json()["code"]) == (409, "agent_mismatch")
    assert await db.thread("t").head() == before


async def test_feedback_about_the_session_of_another_agent_is_refused(
    users: Users, db: clew.Database
) -> None:
    await travelled(db)
    answer = await users.http.post(
        "/api/v1/sessions/t/feedback", headers=users.headers(), json={"label": "positive"}
    )

    assert answer.json()["code"] == "agent_mismatch"


async def test_the_thread_of_another_agent_is_read_searched_and_exported(
    users: Users, db: clew.Database
) -> None:
    await travelled(db)
    alice = users("alice")
    detail, messages = await alice.thread("t"), await alice.messages("t")
    page = await alice.search("Lisbon")
    archive = await users.http.post("/api/v1/sessions/t/export", headers=users.headers())

    assert (detail.agent, [each.text for each in messages.messages]) == ("travel", ["To Lisbon?", "At nine."])
    assert [hit.thread for hit in page.found] == ["t"]
    assert b"Lisbon" in archive.content


async def test_who_owns_the_thread_of_another_agent_deletes_it(users: Users, db: clew.Database) -> None:
    await travelled(db)
    await users("alice").delete_thread("t")
    turn = await users("alice").run_turn("t", "Soup?")

    assert (turn.termination, (await users("alice").thread("t")).agent) == ("natural", "default")


async def test_a_turn_on_the_thread_of_a_guest_is_refused(users: Users, db: clew.Database) -> None:
    alice = db.scope(tenant=db.tenant, user="alice")
    item = Item(body={"role": "user", "content": "Hi"}, format="openai.responses")
    await (await alice.create("t")).append(items=[item])

    with pytest.raises(ThreadOfAnotherAgent) as caught:
        await users("alice").run_turn("t", "Soup?")
    assert (caught.value.code, caught.value.other) == ("guest_thread", "OpenAI Agents")


# Adoption.


async def test_an_operator_adopts_a_thread_and_the_audit_says_so(db: clew.Database) -> None:
    await travelled(db)
    async with clients_of(db, authenticate=Roles(db.tenant)) as users:  # type: ignore[arg-type]  # headers are a dict here
        headers = {"X-Clew-User": "olga", "X-Roles": "admin"}
        operator = AsyncClient("http://127.0.0.1", headers=headers, http=users.http)
        adoption = await operator.adopt("t", "default")
        turn = await users("alice").run_turn("t", "Soup?")
        (entry,) = (await operator.operator.audit(action="adopt thread")).entries

    assert (adoption.before, adoption.agent, turn.termination) == ("travel", "default", "natural")
    assert (entry.user, entry.facts["before"], entry.facts["agent"]) == ("olga", "travel", "default")


async def test_the_owner_of_a_thread_does_not_adopt_it(db: clew.Database) -> None:
    await travelled(db)
    async with clients_of(db, authenticate=Roles(db.tenant)) as users:  # type: ignore[arg-type]  # headers are a dict here
        with pytest.raises(Forbidden):
            await users("alice").adopt("t", "default")

    assert (await db.thread("t").head()).agent == "travel"


# The name of the served agent.


async def test_an_agent_whose_runtime_has_another_name_is_not_served() -> None:
    agent = Agent(name="travel", make_runtime=lambda db, settings: clew.Runtime(db))
    async with clew.open("memory://") as db:
        app = create_app(db=db, agent=agent)

        with pytest.raises((InvalidArgument, ExceptionGroup)) as caught:
            async with app.lifespan():
                raise AssertionError("It was clients_of.")
    error = caught.value.exceptions[0] if isinstance(caught.value, ExceptionGroup) else caught.value
    assert isinstance(error, ClewError)
    assert "makes a runtime of the agent 'default'" in str(error)
