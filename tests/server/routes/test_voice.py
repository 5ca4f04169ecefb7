"""Calls over HTTP: spoken turns, signs of life, and an end by the same path as text."""

from __future__ import annotations

import pytest

import clew
from clew.api.voice import NewAssessment, NewVoiceTurn, RecordedToolCall
from clew.client import AsyncClient
from clew.core.errors import InvalidArgument, KeyReused, NotFound
from clew.core.values import RecordQuery
from clew.runtime.records.feedback import FEEDBACK
from tests.server.conftest import Users

pytestmark = pytest.mark.promise("R-21")
VOICE_TURN = NewVoiceTurn(
    said="What is the weather?",
    replied="Rain.",
    tool_calls=[RecordedToolCall(name="weather", arguments={"town": "Lisbon"}, output="rain")],
    assessment=NewAssessment(level=1, confidence=0.5, path="llm_primary"),
)


async def test_a_spoken_turn_is_kept_with_its_tool_calls(alice: AsyncClient) -> None:
    turn = await alice.record_voice_turn("call", VOICE_TURN)
    page = await alice.turns("call")

    assert turn.text == "Rain."
    assert [(each.user_message, each.assistant_message, each.calls) for each in page.turns] == [
        ("What is the weather?", "Rain.", 1)
    ]


async def test_a_spoken_turn_with_one_key_is_kept_once(alice: AsyncClient) -> None:
    first = await alice.record_voice_turn("call", VOICE_TURN, key="k")
    again = await alice.record_voice_turn("call", VOICE_TURN, key="k")
    with pytest.raises(KeyReused):
        await alice.record_voice_turn("call", NewVoiceTurn(said="other"), key="k")

    assert (again.run, again.version) == (first.run, first.version)
    assert len((await alice.turns("call")).turns) == 1


async def test_an_agent_that_makes_no_record_of_an_assessment_leaves_none(
    alice: AsyncClient, db: clew.Database
) -> None:
    await alice.record_voice_turn("call", VOICE_TURN)

    assert [record async for record in db.retention.records()] == []


async def test_a_call_gives_signs_of_life_and_is_ended_like_text(
    alice: AsyncClient, db: clew.Database
) -> None:
    await alice.record_voice_turn("call", VOICE_TURN)
    alive = await alice.keep_voice_alive("call", seconds=30)
    status = await alice.session_status("call")
    end = await alice.end_session("call", feedback="positive")
    records = await db.records.find(RecordQuery(kind=FEEDBACK))

    assert (alive.status, status.status) == ("active", "active")
    assert status.expires_at is not None
    assert status.idle_since is not None
    assert 29_000 <= status.expires_at - status.idle_since <= 31_000
    assert end.episode == alive.episode
    assert [(record.body["label"], record.body["modality"]) for record in records] == [("positive", "voice")]


@pytest.mark.promise("R-09")
async def test_a_kept_turn_may_be_a_sign_of_life_too(alice: AsyncClient) -> None:
    await alice.record_voice_turn("call", NewVoiceTurn(said="Hello", seconds=30))
    status = await alice.session_status("call")

    assert status.expires_at is not None
    assert status.idle_since is not None
    assert 29_000 <= status.expires_at - status.idle_since <= 31_000


async def test_the_episode_of_a_lost_client_is_ended(alice: AsyncClient) -> None:
    await alice.record_voice_turn("call", VOICE_TURN)
    await alice.end_lost_voice("call")
    again = await alice.end_lost_voice("call")

    assert (await alice.session_status("call")).status in ("ending", "ended")
    assert again.status == "none"


@pytest.mark.promise("R-14")
async def test_a_call_may_be_incognito(users: Users, alice: AsyncClient) -> None:
    turn = NewVoiceTurn(said="between us", mode="incognito")
    await alice.record_voice_turn("call", turn)
    alive = await alice.keep_voice_alive("call")

    assert alive.status == "active"
    assert (await alice.threads()).threads == []
    with pytest.raises(NotFound):
        await users("bob").keep_voice_alive("call")


async def test_nothing_spoken_is_no_turn(alice: AsyncClient) -> None:
    with pytest.raises(InvalidArgument):
        await alice.record_voice_turn("call", NewVoiceTurn())


async def test_feedback_is_a_label_and_never_text(users: Users, alice: AsyncClient) -> None:
    await alice.run_turn("t", "hello")
    answer = await users.http.post(
        "/api/v1/sessions/t/end", json={"feedback": "it was nice"}, headers=users.headers("alice")
    )

    assert answer.status_code == 422


async def test_a_session_says_what_can_be_done_next(alice: AsyncClient) -> None:
    await alice.run_turn("t", "hello")
    active = await alice.session_status("t")
    await alice.end_session("t")
    status = await alice.session_status("t")

    assert (active.status, active.advice) == ("active", "Send the next message, or end the session.")
    assert (status.status, active.run, status.episode) == ("ended", None, active.episode)


async def test_a_person_carries_everything_away(users: Users, alice: AsyncClient) -> None:
    await alice.run_turn("one", "lantern")
    await alice.run_turn("two", "hello")
    await users("bob").run_turn("bobs", "hello")
    archive = await alice.export_person()
    for thread in ("one", "two"):
        await alice.delete_session(thread)

    assert b"lantern" in archive
    assert b"bobs" not in archive
