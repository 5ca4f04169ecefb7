"""The browser's side of a call, with a stand-in for its connection and the real server behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page

import clew
from clew.server.app import create_app
from clew.server.settings import ServerSettings
from clew.server.tenants.realtime import OpenAIRealtime
from clew_companion.crisis.log import crises
from tests.server.local_server import listening
from tests.server.studio.conftest import Visitor, Windows
from tests.server.studio.studio_server import Studio
from tests.support.realtime_server import realtime_server

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.promise("R-21")]
PAGE = (Path(__file__).parent / "voice_page.js").read_text(encoding="utf-8")
UNHEARD = "conversation.item.input_audio_transcription.failed"
TRANSCRIPTION = "conversation.item.input_audio_transcription.completed"
FUNCTION_CALL = "response.function_call_arguments.done"
DANGER = "I want to kill myself tonight"


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def companion_studio() -> AsyncIterator[Studio]:
    """A server that makes calls with a stand-in for the provider."""
    async with realtime_server() as provider, clew.open("memory://") as db:
        realtime = OpenAIRealtime("gpt-realtime", "sk-secret", url=provider.url)
        app = create_app(ServerSettings(sweep_seconds=3600), db=db, realtime=realtime)
        async with listening(app) as address:
            yield Studio(address, provider.url, db, asyncio.Event())


@pytest_asyncio.fixture(loop_scope="session")
async def caller(windows: Windows, companion_studio: Studio, user: str) -> AsyncIterator[Visitor]:
    """Somebody with a browser."""
    visitor = Visitor(windows, companion_studio, user)
    yield visitor
    await visitor.close()
    assert visitor.errors == []


async def begin(caller: Visitor, *, has_gate: bool = True, wrong: str = "") -> tuple[Page, str]:
    """A page with a call under way, and its thread."""
    page = await caller.open("/studio/threads")
    thread = f"call-{caller.user}"
    options = {"thread": thread, "user": caller.user, "gated": has_gate, "wrong": wrong}
    await page.evaluate(f"given => ({PAGE.partition(chr(10))[2]})(given)", options)
    return page, thread


async def tell(page: Page, **event: Any) -> None:
    """An event of the provider."""
    await page.evaluate("event => window.tell(event)", event)


async def speak(page: Page, text: str, id: str = "item-1") -> None:
    """What somebody has finished saying."""
    await tell(page, type=TRANSCRIPTION, item_id=id, transcript=text)


async def events_of(page: Page) -> list[dict[str, Any]]:
    """What the page has sent to the provider."""
    events: list[dict[str, Any]] = await page.evaluate("window.seen.sent")
    return events


async def test_the_handshake_uses_the_secret_and_never_the_key(caller: Visitor) -> None:
    page, _ = await begin(caller)
    events = await page.evaluate("window.seen")

    assert events["offered"]["url"] == f"{caller.studio.url}/realtime/calls"
    assert events["offered"]["secret"].startswith("Bearer ek_")
    assert (events["offered"]["body"], events["remote"]) == ("v=0 offer", "v=0 answer")


async def test_an_answer_is_asked_for_only_once_the_gate_has_spoken(caller: Visitor) -> None:
    page, thread = await begin(caller)
    await speak(page, "I had a long day at work")
    events = await events_of(page)
    await tell(page, type="response.output_audio_transcript.done", transcript="Tell me about it.")
    items = await caller.studio.db.thread(thread).items()

    assert events == [{"type": "response.create"}]
    assert [(item.role, item.body["content"]) for item in items] == [
        ("user", "I had a long day at work"),
        ("assistant", "Tell me about it."),
    ]


@pytest.mark.promise("R-22")
async def test_danger_is_answered_in_fixed_words_and_not_by_the_model(caller: Visitor) -> None:
    page, thread = await begin(caller)
    await speak(page, DANGER)
    [event] = await events_of(page)
    await tell(page, type="response.output_audio_transcript.done", transcript="I think that your life…")
    lines = await page.evaluate("window.seen.said")
    items = await caller.studio.db.thread(thread).items()
    rows = [row async for row in crises(caller.studio.db, thread=thread)]

    assert "988" in event["response"]["instructions"]
    assert [each["kind"] for each in lines] == ["you", "careful"]
    assert items[-1].body["content"] == lines[-1]["text"]
    assert [(row.level, row.late) for row in rows] == [(3, False)]


async def test_where_answers_cannot_be_held_back_they_are_cut_off_and_logged_as_late(caller: Visitor) -> None:
    page, thread = await begin(caller, has_gate=False)
    await speak(page, DANGER)
    kinds = [each["type"] for each in await events_of(page)]
    rows = [row async for row in crises(caller.studio.db, thread=thread)]

    assert kinds == ["response.cancel", "output_audio_buffer.clear", "response.create"]
    assert [row.late for row in rows] == [True]


async def test_what_cannot_be_judged_is_not_answered(caller: Visitor) -> None:
    page, _ = await begin(caller, wrong="/heard")
    await speak(page, "I had a long day at work")
    lines = await page.evaluate("window.seen.said")

    assert await events_of(page) == []
    assert [each["kind"] for each in lines] == ["you", "problem"]
    assert "emergency number" in lines[-1]["text"]


async def test_what_could_not_be_understood_is_told(caller: Visitor) -> None:
    page, _ = await begin(caller, has_gate=False)
    await tell(page, type=UNHEARD, item_id="item-1", error={"code": "audio_unintelligible"})
    (line,) = await page.evaluate("window.seen.said")

    assert [each["type"] for each in await events_of(page)] == [
        "response.cancel",
        "output_audio_buffer.clear",
    ]
    assert line["kind"] == "problem"


@pytest.mark.promise("R-22")
async def test_a_turn_that_cannot_be_kept_withholds_no_judgement_and_is_kept_later(caller: Visitor) -> None:
    page, thread = await begin(caller, wrong="/voice")
    await speak(page, "I had a long day at work")
    await tell(page, type="response.output_audio_transcript.done", transcript="Tell me about it.")
    await speak(page, DANGER, id="item-2")
    lines = await page.evaluate("window.seen.said")
    await page.evaluate("window.seen.wrong = ''")
    await tell(page, type="response.output_audio_transcript.done", transcript="I think that your life…")
    items = await caller.studio.db.thread(thread).items()

    assert [each["kind"] for each in lines] == ["you", "reply", "you", "careful"]
    assert [item.body["content"] for item in items if item.role == "user"] == [
        "I had a long day at work",
        DANGER,
    ]


async def test_what_is_never_kept_is_told_when_the_call_ends(caller: Visitor) -> None:
    page, _ = await begin(caller)
    await speak(page, "I had a long day at work")
    await speak(page, "It goes on", id="item-2")
    await page.evaluate("window.seen.wrong = '/voice'")
    await page.evaluate("window.hangUp('positive')")
    lines = await page.evaluate("window.seen.said")

    assert [each["kind"] for each in lines] == ["you", "you", "problem"]


async def test_a_tool_is_called_at_the_server_and_its_output_goes_to_the_model(caller: Visitor) -> None:
    page, thread = await begin(caller)
    await speak(page, "Which exercises do you know?")
    await tell(page, type=FUNCTION_CALL, call_id="c1", name="exercise", arguments="{}")
    _, output, again = await events_of(page)
    await tell(page, type="response.output_audio_transcript.done", transcript="Some.")
    items = await caller.studio.db.thread(thread).items()

    assert output["item"]["call_id"] == "c1"
    assert "Box breathing" in output["item"]["output"]
    assert again == {"type": "response.create"}
    assert [item.kind for item in items] == ["message", "call", "result", "message"]


async def test_hanging_up_ends_the_session_as_text_does(caller: Visitor) -> None:
    page, _ = await begin(caller)
    await speak(page, "My sister is called Ann.")
    await tell(page, type="response.output_audio_transcript.done", transcript="A nice name.")
    end = await page.evaluate("window.hangUp('positive')")
    async with caller.studio.client(caller.user) as client:
        episode = await client.episode(end["episode"])

    assert (episode.status, episode.modality, episode.feedback) == ("ended", "voice", "positive")
    assert [fact["object"] for fact in episode.facts] == ["Ann"]


async def test_a_lost_connection_keeps_what_was_said_and_ends_the_call(caller: Visitor) -> None:
    page, thread = await begin(caller)
    await speak(page, "I had a long day at work")
    async with page.expect_response(lambda response: response.url.endswith("/voice/lost")):
        await page.evaluate("window.drop()")
    async with caller.studio.client(caller.user) as client:
        status = await client.session_status(thread)

    assert status.status in ("ending", "ended")
