"""The server talks to the companion unless it is told otherwise: the same pipeline as in the terminal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

import clew
from clew.client import AsyncClient
from clew.core.errors import StateInvalid, ThreadNotFound
from clew.server.app import create_app
from clew.server.settings import ServerSettings
from clew.testing import ScriptedModel
from clew_companion.agent import companion
from clew_companion.client import AsyncCrisisClient
from clew_companion.offline.model import WHAT_I_AM
from clew_companion.values import LIMITS_NOTICE, OFFLINE_NOTICE, STAGE_LABELS, AgentOutput
from tests.server.conftest import Users, over_http

pytestmark = pytest.mark.promise("R-01")
DANGER = "I want to kill myself tonight"


@pytest.fixture
async def users(db: clew.Database) -> AsyncIterator[Users]:
    """The users of a server as it is started without any settings."""
    app = create_app(ServerSettings(sweep_seconds=3600), db=db)
    async with over_http(app, db) as clients:
        yield clients


@pytest.fixture
async def alice(users: Users) -> AsyncClient:
    """One of them."""
    return users("alice")


async def stamps(users: Users, thread: str) -> list[dict[str, Any]]:
    """What the replies of a thread are stamped with."""
    answer = await users.http.get(f"/api/v1/threads/{thread}/messages", headers=users.headers())
    return [each["meta"] for each in answer.json()["messages"] if each["role"] == "assistant"]


async def test_without_any_settings_the_companion_answers_and_says_that_it_is_simple(
    alice: AsyncClient,
) -> None:
    turn = await alice.run_turn("t", "Hi")
    agent = await alice.agent()

    assert WHAT_I_AM in turn.text
    assert (agent.name, agent.model) == ("companion", "offline")
    assert agent.notices == [LIMITS_NOTICE, OFFLINE_NOTICE]


async def test_a_model_takes_its_place(db: clew.Database) -> None:
    app = create_app(db=db, model=ScriptedModel())
    async with over_http(app, db) as users:
        agent = await users("alice").agent()

    assert (agent.model, agent.notices) == ("scripted", [LIMITS_NOTICE])


async def test_a_page_and_a_terminal_get_the_same_answer(db: clew.Database, alice: AsyncClient) -> None:
    message = "My manager shouts at me and I cannot sleep"
    there = await alice.run_turn("t", message)
    async with companion(db.scope(tenant=f"{db.tenant}-2")) as runtime:
        here = await runtime.run_turn("t", message, user="alice")

    assert there.text == here.text


@pytest.mark.promise("A-11")
async def test_the_outside_sees_the_public_fields_and_no_others(alice: AsyncClient) -> None:
    turn = await alice.run_turn("t", "I had a long day")

    assert set(turn.output) == set(AgentOutput.__struct_fields__)


@pytest.mark.promise("A-03")
async def test_stages_are_told_in_words_for_people(alice: AsyncClient) -> None:
    events = [event async for event in alice.stream_turn("t", "I had a long day")]
    labels = [event.data.get("label") for event in events if event.type == "stage"]

    assert [label for label in labels if label] == [
        STAGE_LABELS[name]
        for name in ("load_memory", "crisis_gate", "triage", "therapeutic_reply", "finalize_turn")
    ]


async def test_messages_say_where_they_came_from(db: clew.Database, alice: AsyncClient) -> None:
    await alice.run_turn("t", "I had a long day")
    inputs = (await db.thread("t").state(at=1))["$run"]["inputs"]

    assert (inputs["channel"], inputs["user_id"], inputs["session_id"]) == ("web", "alice", "t")


@pytest.mark.promise("A-03")
async def test_a_skill_that_is_not_there_is_refused_and_nothing_begins(alice: AsyncClient) -> None:
    with pytest.raises(StateInvalid) as error:
        await alice.run_turn("t", "Hi", installed_skills=["chess"])

    assert "there is no skill 'chess' here" in str(error.value)
    with pytest.raises(ThreadNotFound):
        await alice.thread("t")


@pytest.mark.promise("A-10")
async def test_turns_and_ends_say_what_they_wrote(alice: AsyncClient) -> None:
    turn = await alice.run_turn("t", "My sister is called Ann.")
    await alice.end_session("t")
    [episode] = (await alice.episodes(over=True)).episodes

    assert turn.output["diagnostics"]["write_counts"]["candidates"] == 1
    assert (episode.write_counts["facts"], episode.write_counts["arcs"]) == (1, 1)


@pytest.mark.promise("T-08")
async def test_the_log_of_a_thread_shows_the_reply_as_an_assistant_turn(
    users: Users, alice: AsyncClient
) -> None:
    await alice.run_turn("t", "I had a long day")
    [_ async for _ in alice.stream_turn("t", "What do you remember about me?")]
    page = (await users.http.get("/api/v1/threads/t/changesets", headers=users.headers())).json()

    assert [
        (change["reason"], [item["role"] for item in change["items"]]) for change in page["changesets"]
    ] == [
        ("UserMessage", ["user"]),
        ("AssistantTurnCommitted", ["assistant"]),
        ("RunFinished", []),
    ] * 2


@pytest.mark.promise("R-22", "A-09")
async def test_somebody_in_danger_gets_the_fixed_words_and_the_log_a_row(
    users: Users, alice: AsyncClient
) -> None:
    turn = await alice.run_turn("t", DANGER)
    rows = (await AsyncCrisisClient(users("ada")).crises(thread="t")).rows
    [reply] = await stamps(users, "t")

    assert "988" in turn.text
    assert turn.output["crisis"]["needs_crisis_response"]
    assert [row.level for row in rows] == [turn.output["crisis"]["level"]]
    assert reply["response_style"] == "crisis_response"


@pytest.mark.promise("A-07")
async def test_a_reply_says_where_its_exercise_stands(users: Users, alice: AsyncClient) -> None:
    await alice.run_turn("t", "Can we do box breathing?")
    await alice.run_turn("t", "yes")
    stands = [each["exercise"] for each in await stamps(users, "t")]
    steps = [each["step"] for each in stands]

    assert {each["name"] for each in stands} == {"Box breathing"}
    assert steps == sorted(set(steps))


@pytest.mark.promise("R-08", "R-18")
async def test_an_ended_session_tells_what_it_kept_and_the_next_thread_begins_with_it(
    alice: AsyncClient,
) -> None:
    await alice.run_turn("one", "My sister is called Ann. I worry about my exam.")
    await alice.run_turn("one", "Please keep your answers short.")
    end = await alice.end_session("one", feedback="positive")
    assert end.episode is not None
    episode = await alice.episode(end.episode)

    assert (episode.status, episode.feedback) == ("ended", "positive")
    assert [(fact["subject"], fact["object"]) for fact in episode.facts] == [("sister", "Ann")]
    assert len(episode.rules) == 1
    assert (await alice.catch_up()).lines == [
        f"Last session ({', '.join(episode.themes)}): {episode.summary}."
    ]


async def test_what_is_forgotten_after_the_end_is_not_told_as_kept(alice: AsyncClient) -> None:
    await alice.run_turn("one", "My sister is called Ann.")
    end = await alice.end_session("one")
    assert end.episode is not None
    [fact] = (await alice.episode(end.episode)).facts
    await alice.forget_memory([str(fact["id"])])
    await alice.forget_memory([str(fact["id"])], confirmed=True)

    assert (await alice.episode(end.episode)).facts == []


async def test_an_earlier_session_keeps_its_own(alice: AsyncClient) -> None:
    await alice.run_turn("one", "My sister is called Ann.")
    first = await alice.end_session("one")
    await alice.run_turn("one", "My brother is called Tom.")
    second = await alice.end_session("one")
    episodes = [await alice.episode(each.episode or "") for each in (first, second)]

    assert [[fact["object"] for fact in each.facts] for each in episodes] == [["Ann"], ["Tom"]]


@pytest.mark.promise("A-05")
async def test_nothing_is_brought_up_for_who_does_not_want_it(alice: AsyncClient) -> None:
    await alice.run_turn("one", "My sister is called Ann. I worry about my exam.")
    await alice.end_session("one")
    await alice.set_recall(on=False)

    assert (await alice.catch_up()).lines == []


@pytest.mark.promise("R-14")
async def test_incognito_the_companion_answers_and_leaves_nothing(
    db: clew.Database, alice: AsyncClient
) -> None:
    turn = await alice.run_turn("t", "My sister is called Ann.", mode="incognito")
    await alice.end_session("t")

    assert turn.text
    assert (await alice.threads()).threads == []
    assert (await alice.memory()).facts == []
    assert (await alice.catch_up()).lines == []
