"""Lists for people who look: messages in nobody's format, threads by their words, episodes."""

from __future__ import annotations

import pytest

import clew
from clew.api.threads import ToolCallView, ToolResultView
from clew.client import AsyncClient
from tests.server.conftest import Users

API = "/api/v1"


async def test_messages_are_told_whatever_framework_wrote_them(alice: AsyncClient, db: clew.Database) -> None:
    mine = db.scope(tenant=db.tenant, user="alice")
    bodies = [
        {"role": "user", "content": "How is Lisbon?"},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city":"Lisbon"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "blue"},
    ]
    thread = await mine.create("t", owner="alice")
    await thread.append(items=[clew.Item(body=body, format="openai.responses") for body in bodies])
    question, call, answer = (await alice.messages("t")).messages

    assert (question.role, question.text, question.format) == ("user", "How is Lisbon?", "openai.responses")
    assert call.calls == [ToolCallView(id="c1", name="weather", arguments={"city": "Lisbon"})]
    assert answer.results == [ToolResultView(id="c1", name="weather", output="blue")]


async def test_older_messages_come_page_by_page_and_at_a_version(alice: AsyncClient) -> None:
    for message in ("one", "two"):
        await alice.run_turn("t", message)
    newest = await alice.messages("t", limit=3)
    older = await alice.messages("t", cursor=newest.next)
    before = await alice.messages("t", at=1)

    assert [each.text for each in older.messages] == ["one"]
    assert len(newest.messages) == 3
    assert [each.text for each in before.messages] == ["one"]


@pytest.mark.promise("F-11")
async def test_threads_are_found_by_their_words_with_what_was_said_last(alice: AsyncClient) -> None:
    await alice.create_thread("a", title="A talk", labels=["Garden"])
    await alice.create_thread("b")
    await alice.run_turn("a", "The beans came up")
    [summary] = (await alice.threads(search="garden", last=True)).threads

    assert summary.id == "a"
    assert str(summary.last).startswith("You said: “The beans came up”")


async def test_episodes_are_listed_while_active_and_when_over(alice: AsyncClient) -> None:
    await alice.run_turn("t", "Hello")
    active = (await alice.episodes()).episodes
    await alice.end_session("t", feedback="positive")
    [episode] = (await alice.episodes(over=True)).episodes

    assert [(each.session, each.status, each.turns) for each in active] == [("t", "active", 1)]
    assert (episode.id, episode.status, episode.feedback) == (active[0].id, "ended", "positive")


async def test_in_dev_mode_a_star_sees_every_users_threads(users: Users, db: clew.Database) -> None:
    await users("alice").create_thread("hers")
    await users("bob").create_thread("his")
    await db.create("nobodys")
    everybody = (await users.http.get(f"{API}/threads", headers=users.headers("*"))).json()["threads"]
    response = await users.http.post(
        f"{API}/threads/hers/turns", json={"message": "Hi"}, headers=users.headers("*")
    )

    assert {each["id"]: each["owner"] for each in everybody} == {
        "hers": "alice",
        "his": "bob",
        "nobodys": None,
    }
    assert response.status_code == 422
