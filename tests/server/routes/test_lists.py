"""Lists for people who look: messages in nobody's format, threads by their words, episodes."""

from __future__ import annotations

import pytest

import clew
from clew.api.threads import ToolCallView, ToolResultView
from clew.client import AsyncClient
from clew.server.tenants.thread_list import title_of_text
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


@pytest.mark.promise("F-11")
async def test_a_thread_without_a_title_says_what_was_said_first(alice: AsyncClient) -> None:
    await alice.create_thread("titled", title="A talk")
    for thread in ("titled", "plain"):
        await alice.run_turn(thread, "The *beans* came up")
        await alice.run_turn(thread, "And the peas")
    first = {each.id: each.first for each in (await alice.threads(last=True)).threads}
    detail = await alice.thread("plain", first=True)

    assert first == {"titled": None, "plain": "The beans came up"}
    assert (detail.first, (await alice.thread("plain")).first) == ("The beans came up", None)


async def test_an_incognito_thread_is_called_by_nothing_that_was_said(alice: AsyncClient) -> None:
    await alice.run_turn("t", "Between us", mode="incognito")

    assert (await alice.thread("t", first=True)).first is None


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Hello", "Hello"),
        ("# Plan\n\n- **buy** `milk`\n- _call_ Ann", "Plan buy milk call Ann"),
        ("See [the map](https://example.org/a_b) <b>now</b>", "See the map now"),
        ("```python\nprint(1)\n```\nWhy does this fail?", "Why does this fail?"),
        ("snake_case stays, and 2 * 3 < 7", "snake_case stays, and 2 3 < 7"),
        ("word " * 40, "word word word word word word word word word word word word…"),
        ("x" * 200, "x" * 60 + "…"),
        ("  \n ", ""),
    ],
)
def test_a_title_is_one_short_line_without_marks(text: str, title: str) -> None:
    assert title_of_text(text) == title
