"""Calls in the Studio: both ends in one page, a stand-in for the provider's server, and the real one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, Route, expect

import clew
from clew.api.sessions import EpisodeDetail, SessionStatusView
from clew.core.errors import ThreadNotFound
from clew.core.values import RecordQuery
from clew.runtime.records.episodes import active_episode
from clew.runtime.records.feedback import FEEDBACK
from clew.runtime.state.run_state import RunState
from clew.server.app import create_app
from clew.server.settings import ServerSettings
from clew.server.tenants.realtime import OpenAIRealtime
from clew_companion.crisis.log import crises
from tests.server.local_server import listening
from tests.server.studio.conftest import PATIENCE, SMALL, Visitor, Windows, open_browser
from tests.server.studio.phone_call import SPEECH, PhoneCall, call, open_chat, response_done
from tests.server.studio.studio_server import Studio
from tests.server.studio.test_accessibility import OUTLINE, wrong
from tests.server.studio.test_companion import begin, say
from tests.support.realtime_server import RealtimeServer, realtime_server

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.promise("R-21")]
DANGER = "I want to kill myself tonight"
CREATE = {"type": "response.create"}
FAILED = "Failed to load resource"
"""What the console says of a request that did not come through."""


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def windows() -> AsyncIterator[Windows]:
    """A browser for calls alone, whose two ends name each other by address.

    Otherwise a browser may hide addresses behind names that only a network with multicast resolves, and
    the ends of a call do not find each other.
    """
    async with open_browser("--disable-features=WebRtcHideLocalIpsWithMdns") as windows_open:
        yield windows_open


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def provider() -> AsyncIterator[RealtimeServer]:
    """The provider's server: it gives secrets, and connects calls to the end that is in the page."""
    async with realtime_server() as server:
        yield server


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def companion_studio(
    provider: RealtimeServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Studio]:
    """A server that makes calls, on a file."""
    url = f"sqlite:///{tmp_path_factory.mktemp('voice') / 'voice.db'}"
    async with clew.open(url) as db:
        realtime = OpenAIRealtime("gpt-realtime", "sk-secret", url=provider.url)
        app = create_app(ServerSettings(url=url, sweep_seconds=3600), db=db, realtime=realtime)
        async with listening(app) as address:
            yield Studio(address, url, db, asyncio.Event())


@pytest_asyncio.fixture(loop_scope="session")
async def caller(
    windows: Windows, companion_studio: Studio, provider: RealtimeServer, user: str
) -> AsyncIterator[Visitor]:
    """Somebody with a browser; at the end the console must be silent."""
    visitor = Visitor(windows, companion_studio, user)
    yield visitor
    provider.call_status, provider.faults = 201, []
    await visitor.close()
    assert visitor.errors == []


async def items_of(caller: Visitor, thread: str) -> list[tuple[str, str, Any]]:
    """What a thread holds: roles, kinds and contents."""
    items = await caller.studio.db.thread(thread).items()
    return [(item.role, item.kind, item.body.get("content")) for item in items]


async def cut_off(caller: Visitor, page: Page, path: str) -> None:
    """Let requests to a path of the server fail from now on."""
    caller.expected.append(FAILED)
    await page.route(f"**{path}", lambda route: route.abort())


async def status_once(
    caller: Visitor, thread: str, is_so: Callable[[SessionStatusView], bool]
) -> SessionStatusView:
    """The status of a thread, once a page that has gone lets it be so; at first there may be no thread."""
    async with asyncio.timeout(PATIENCE / 1000), caller.studio.client(caller.user) as client:
        while True:
            with suppress(ThreadNotFound):
                if is_so(status := await client.session_status(thread)):
                    return status
            await asyncio.sleep(0.02)


async def ended_episode(caller: Visitor, thread: str) -> EpisodeDetail:
    """The episode of a thread, once it has ended."""
    status = await status_once(caller, thread, lambda status: status.status == "ended")
    assert status.episode is not None
    async with caller.studio.client(caller.user) as client:
        return await client.episode(status.episode)


def end_card(page: Page) -> Locator:
    """The card about the end of a session."""
    return page.get_by_role("group", name="End of the session")


# The connection.


async def test_a_call_is_connected_with_a_secret_that_is_good_for_one_and_never_with_the_key(
    caller: Visitor, provider: RealtimeServer
) -> None:
    requests: list[str] = []
    phone_call = await call(caller, provider, requests=requests)
    path, headers, body = provider.requests[-1]
    await phone_call.page.wait_for_function("() => provider.bytesHeard().then((bytes) => bytes > 0)")

    assert (path, headers["authorization"]) == ("/v1/realtime/client_secrets", "bearer sk-secret")
    assert body["session"]["audio"]["input"]["turn_detection"]["create_response"] is False
    assert f"{provider.url}/realtime/calls" in requests


async def test_a_page_may_reach_the_provider_and_no_other_host(
    caller: Visitor, provider: RealtimeServer
) -> None:
    caller.expected += ["Content Security Policy", "Fetch API cannot load", FAILED]
    page = await caller.open("/studio/threads")
    blocked = await page.evaluate(
        """async (addresses) => {
          const blocked = [];
          document.addEventListener("securitypolicyviolation", (event) => blocked.push(event.blockedURI));
          for (const address of addresses) await fetch(address, { method: "POST" }).catch(() => {});
          await new Promise((resolve) => setTimeout(resolve));
          return blocked;
        }""",
        [f"{provider.url}/realtime/calls", "http://127.0.0.1:9/", "https://api.openai.com/v1/realtime/calls"],
    )

    assert blocked == ["http://127.0.0.1:9/", "https://api.openai.com/v1/realtime/calls"]


async def test_who_speaks_is_shown(caller: Visitor, provider: RealtimeServer) -> None:
    phone_call = await call(caller, provider)
    changes: list[tuple[str, dict[str, Any]]] = [
        ("You are speaking", {"type": "input_audio_buffer.speech_started"}),
        ("Understanding", {"type": "input_audio_buffer.speech_stopped"}),
        ("Answering", {"type": f"{SPEECH}.completed", "item_id": "who-1", "transcript": "Hello"}),
        ("The assistant speaks", {"type": "output_audio_buffer.started"}),
        ("The assistant speaks", response_done("resp", [])),
        ("Listening", {"type": "output_audio_buffer.stopped"}),
    ]

    for speaker, event in changes:
        await phone_call.tell(event)
        await expect(phone_call.speaker).to_have_text(speaker)


async def test_words_are_shown_as_they_come(caller: Visitor, provider: RealtimeServer) -> None:
    phone_call = await call(caller, provider)
    await expect(phone_call.page.get_by_text("You are connected.")).to_be_visible()
    live = phone_call.page.locator(".message.live .said")
    await phone_call.tell({"type": f"{SPEECH}.delta", "item_id": "grow-1", "delta": "I had "})
    await phone_call.tell({"type": f"{SPEECH}.delta", "item_id": "grow-1", "delta": "a long"})
    await expect(live).to_have_text("I had a long")
    await expect(phone_call.page.get_by_text("You are connected.")).to_have_count(0)
    await phone_call.tell(
        {"type": f"{SPEECH}.completed", "item_id": "grow-1", "transcript": "I had a long day."}
    )
    await phone_call.client_events(1)
    await phone_call.tell(
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_audio_transcript.delta", "item_id": "grow-2", "delta": "Tell"},
    )
    await expect(live).to_have_text("Tell")

    await expect(phone_call.messages).to_have_text(["I had a long day."])


async def test_a_muted_microphone_sends_no_sound_and_is_closed_with_the_call(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await call(caller, provider)
    page = phone_call.page
    state = "provider.microphones.map((track) => [track.enabled, track.readyState])"
    states = [await page.evaluate(state)]
    await page.get_by_role("button", name="Mute").click()
    await expect(phone_call.speaker).to_have_text("You are muted")
    states.append(await page.evaluate(state))
    await page.get_by_role("button", name="Mute").click()
    await expect(phone_call.speaker).to_have_text("Listening")
    states.append(await page.evaluate(state))
    await phone_call.hang_up()
    await expect(page.get_by_text("The call has ended. Nothing was said.")).to_be_visible()
    states.append(await page.evaluate(state))

    assert states == [[[True, "live"]], [[False, "live"]], [[True, "live"]], [[True, "ended"]]]


# Turns.


async def test_an_answer_is_asked_for_only_once_the_gate_has_spoken(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await call(caller, provider)
    async with phone_call.page.expect_response(lambda response: response.url.endswith("/voice/heard")):
        await phone_call.speak("I had a long day at work")
    events = await phone_call.client_events(1)
    async with phone_call.page.expect_response(lambda response: response.url.endswith("/voice")):
        await phone_call.answer("Tell me about it.")
    await expect(phone_call.page.get_by_text("Version 1 of 1, which is now")).to_be_visible()
    db = caller.studio.db
    head = await db.thread(phone_call.thread).head()
    items = await db.thread(phone_call.thread).items()
    episode = await active_episode(db, phone_call.thread)

    assert events == [CREATE]
    assert [(item.role, item.body["content"], item.body["meta"]) for item in items] == [
        ("user", "I had a long day at work", {"modality": "voice"}),
        ("assistant", "Tell me about it.", {"modality": "voice"}),
    ]
    assert RunState.of(head.state).inputs["channel"] == "voice"
    assert episode is not None
    assert (episode.modality, episode.user, episode.until is None) == ("voice", caller.user, False)


async def test_a_noise_is_no_turn(caller: Visitor, provider: RealtimeServer) -> None:
    phone_call = await call(caller, provider)
    await phone_call.speak("  ")
    await phone_call.exchange("Hello", "Hi.")

    await expect(phone_call.messages).to_have_text(["Hello", "Hi."])
    assert await phone_call.client_events() == [CREATE]


async def test_an_answer_waits_for_the_end_of_the_one_before(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await call(caller, provider)
    await phone_call.speak("I had a long day")
    await phone_call.client_events(1)
    await phone_call.tell({"type": "response.created", "response": {"id": "first"}})
    async with phone_call.page.expect_response(lambda response: response.url.endswith("/voice/heard")):
        await phone_call.speak("And it goes on")
    before = await phone_call.client_events()
    await phone_call.tell(response_done("first", [], "cancelled"))
    events = await phone_call.client_events(2)
    await phone_call.answer("Go on.")
    await expect(phone_call.messages.last).to_have_text("Go on.")

    assert (before, events) == ([CREATE], [CREATE, CREATE])
    await phone_call.hang_up()
    await expect(end_card(phone_call.page)).to_be_visible()
    assert [content for *_, content in await items_of(caller, phone_call.thread)] == [
        "I had a long day",
        "And it goes on",
        "Go on.",
    ]


async def test_an_answer_that_the_provider_is_not_ready_for_is_asked_for_again(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await call(caller, provider)
    await phone_call.speak("Hello")
    await phone_call.client_events(1)
    error = {"type": "invalid_request_error", "code": "conversation_already_has_active_response"}
    await phone_call.tell({"type": "error", "error": {**error, "message": "Wait.", "event_id": None}})
    await phone_call.tell(response_done("other", []))
    await phone_call.client_events(2)
    await phone_call.answer("Hi.")

    await expect(phone_call.messages).to_have_text(["Hello", "Hi."])
    await expect(phone_call.page.get_by_role("alert")).to_have_count(0)


async def test_tools_are_called_at_the_server_and_their_outputs_go_to_the_model_at_once(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await call(caller, provider)
    await phone_call.speak("Which exercises do you know? My sister is called Ann.")
    await phone_call.client_events(1)
    await phone_call.use_tools(("exercise", "{}"), ("remember", '{"what": "My sister is called Ann."}'))
    _, exercises, remembered, again = await phone_call.client_events(4)
    await phone_call.answer("Some.")
    await expect(phone_call.messages.last).to_have_text("Some.")
    await expect(phone_call.page.locator("details.tool .chip.good")).to_have_count(2)
    await phone_call.hang_up()
    await expect(end_card(phone_call.page)).to_be_visible()
    kinds = [kind for _, kind, _ in await items_of(caller, phone_call.thread)]

    assert "Box breathing" in exercises["item"]["output"]
    assert "Ann" in remembered["item"]["output"]
    assert again == CREATE
    assert kinds == ["message", "call", "result", "call", "result", "message"]


async def test_arguments_that_are_no_json_are_an_error_for_the_model(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await call(caller, provider)
    await phone_call.speak("Which exercises do you know?")
    await phone_call.client_events(1)
    await phone_call.use_tools(("exercise", "{name:"))
    _, output, again = await phone_call.client_events(3)

    assert "error" in output["item"]["output"]
    assert again == CREATE


# Danger.


@pytest.mark.promise("R-22")
async def test_danger_is_answered_in_fixed_words_that_are_shown_as_in_the_text_chat(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await call(caller, provider)
    careful = phone_call.page.locator(".message.careful")
    await phone_call.speak(DANGER)
    (event,) = await phone_call.client_events(1)
    await expect(careful).to_have_attribute("role", "alert")
    await expect(careful.get_by_role("link", name="988").first).to_have_attribute("href", "tel:988")
    await expect(careful.get_by_role("link", name="112")).to_be_in_viewport()
    await phone_call.answer("Chin up, everybody")
    await expect(phone_call.speaker).to_have_text("Listening")
    lines = await phone_call.messages.all_inner_texts()
    await phone_call.hang_up()
    await expect(end_card(phone_call.page)).to_be_visible()
    await expect(careful.get_by_role("link", name="988").first).to_be_visible()
    *_, (_, _, reply) = await items_of(caller, phone_call.thread)
    rows = [row async for row in crises(caller.studio.db, thread=phone_call.thread)]

    assert event["response"]["instructions"].endswith(reply)
    assert (len(lines), "988" in lines[-1], "Chin up" in " ".join(lines)) == (2, True, False)
    assert [(row.level, row.late) for row in rows] == [(3, False)]


@pytest.mark.promise("R-22")
async def test_danger_stops_the_answer_that_is_being_spoken(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await call(caller, provider)
    await phone_call.speak("I had a long day")
    await phone_call.client_events(1)
    await phone_call.tell(
        {"type": "response.created", "response": {"id": "first"}}, {"type": "output_audio_buffer.started"}
    )
    await phone_call.speak(DANGER)
    events = [event["type"] for event in await phone_call.client_events(3)]
    await phone_call.tell({"type": "output_audio_buffer.cleared"}, response_done("first", [], "cancelled"))
    *_, last = await phone_call.client_events(4)

    assert events == ["response.create", "response.cancel", "output_audio_buffer.clear"]
    assert "988" in last["response"]["instructions"]


@pytest.mark.promise("R-22")
async def test_what_was_said_before_danger_is_not_answered_any_more(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await call(caller, provider)
    has_judged = asyncio.Event()

    async def judge_late(route: Route) -> None:
        if "long day" in (route.request.post_data or ""):
            await has_judged.wait()
        await route.continue_()

    await phone_call.page.route("**/voice/heard", judge_late)
    await phone_call.speak("I had a long day")
    await phone_call.speak(DANGER)
    await phone_call.client_events(1)
    async with phone_call.page.expect_response(lambda response: response.url.endswith("/voice/heard")):
        has_judged.set()
    await phone_call.answer("…")
    await phone_call.exchange("Somebody is with me", "Good.")
    instructions = [
        event.get("response", {}).get("instructions", "") for event in await phone_call.client_events()
    ]

    assert ("988" in instructions[0], len(instructions)) == (True, 2)


@pytest.mark.promise("R-22")
async def test_fixed_words_that_cannot_be_spoken_are_to_be_read(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await call(caller, provider)
    await phone_call.speak(DANGER)
    await phone_call.client_events(1)
    await phone_call.tell(
        {"type": "response.created", "response": {"id": "r"}}, response_done("r", [], "failed")
    )

    await expect(phone_call.page.get_by_text("Please read them.")).to_be_visible()
    await expect(phone_call.page.locator(".message.careful")).to_be_visible()


@pytest.mark.promise("R-22")
async def test_where_answers_cannot_be_held_back_they_are_cut_off_and_logged_as_late(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await open_chat(caller, provider)
    await phone_call.page.evaluate(
        """async ({ thread, user }) => {
          const { Call } = await import("/studio/voice.js");
          const headers = { "Content-Type": "application/json", "X-Clew-User": user };
          const post = async (where, body, key) => {
            if (key) headers["Idempotency-Key"] = key; else delete headers["Idempotency-Key"];
            const request = { method: "POST", headers, body: JSON.stringify(body) };
            return (await fetch(`/api/v1${where}`, request)).json();
          };
          window.call = await Call.begin({ server: { post }, thread, user, gated: false, show: () => {} });
        }""",
        {"thread": phone_call.thread, "user": caller.user},
    )
    await phone_call.tell({"type": "response.created", "response": {"id": "early"}})
    await phone_call.speak(DANGER)
    await phone_call.client_events(2)
    await phone_call.tell(response_done("early", [], "cancelled"))
    kinds = [event["type"] for event in await phone_call.client_events(3)]
    await phone_call.answer("…")
    episode = await phone_call.page.evaluate("call.end('positive')")
    rows = [row async for row in crises(caller.studio.db, thread=phone_call.thread)]

    assert kinds == ["response.cancel", "output_audio_buffer.clear", "response.create"]
    assert [row.late for row in rows] == [True]
    assert episode["status"] in ("ending", "ended")


@pytest.mark.promise("R-22")
async def test_what_cannot_be_judged_is_not_answered(caller: Visitor, provider: RealtimeServer) -> None:
    phone_call = await call(caller, provider)
    await cut_off(caller, phone_call.page, "/voice/heard")
    await phone_call.speak("I had a long day at work")
    alert = phone_call.page.get_by_role("alert")

    await expect(alert).to_contain_text("call your emergency number")
    await expect(alert.locator("code")).to_have_text("unreachable")
    await expect(phone_call.speaker).to_have_text("Listening")
    assert await phone_call.client_events() == []


async def test_what_could_not_be_understood_is_told(caller: Visitor, provider: RealtimeServer) -> None:
    phone_call = await call(caller, provider)
    await phone_call.tell(
        {"type": "input_audio_buffer.speech_stopped"},
        {
            "type": f"{SPEECH}.failed",
            "item_id": "failed-1",
            "content_index": 0,
            "error": {"type": "transcription_error", "code": "audio_unintelligible", "message": "…"},
        },
    )

    await expect(phone_call.page.get_by_role("alert")).to_contain_text("Please say it again.")
    await expect(phone_call.speaker).to_have_text("Listening")
    assert await phone_call.client_events() == []


# Problems on the way.


async def test_an_answer_that_fails_is_told_and_the_call_goes_on(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await call(caller, provider)
    await phone_call.speak("Hello")
    await phone_call.client_events(1)
    await phone_call.answer("", status="failed", error="the model is overloaded")
    await expect(phone_call.page.get_by_role("alert")).to_contain_text("the model is overloaded")
    await phone_call.exchange("Are you there?", "Yes.")

    await expect(phone_call.messages).to_have_text(["Hello", "Are you there?", "Yes."])


async def test_an_answer_that_is_refused_is_told_and_the_call_goes_on(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await call(caller, provider)
    await phone_call.speak("Hello")
    await phone_call.client_events(1)
    name = await phone_call.page.evaluate("provider.received[0].event_id")
    error = {"type": "invalid_request_error", "code": "rate_limit_exceeded", "message": "Too fast."}
    await phone_call.tell({"type": "error", "error": {**error, "event_id": name}})
    await expect(phone_call.page.get_by_role("alert")).to_contain_text("Too fast.")
    await phone_call.exchange("Are you there?", "Yes.")

    await expect(phone_call.messages).to_have_text(["Hello", "Are you there?", "Yes."])


@pytest.mark.promise("R-22")
async def test_a_turn_that_cannot_be_kept_withholds_no_judgement_and_is_kept_later(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await call(caller, provider)
    await cut_off(caller, phone_call.page, "/voice")
    await phone_call.speak("I had a long day at work")
    await phone_call.client_events(1)
    await phone_call.answer("Tell me about it.")
    await phone_call.speak(DANGER)
    await expect(phone_call.page.locator(".message.careful")).to_be_visible()
    await phone_call.page.unroute("**/voice")
    await phone_call.answer("…")
    await phone_call.hang_up()
    await expect(end_card(phone_call.page)).to_be_visible()

    assert [content for role, _, content in await items_of(caller, phone_call.thread) if role == "user"] == [
        "I had a long day at work",
        DANGER,
    ]


async def test_what_is_never_kept_is_told_when_the_call_ends(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await call(caller, provider)
    await phone_call.exchange("Hello", "Hi.")
    await cut_off(caller, phone_call.page, "/voice")
    await phone_call.speak("It goes on")
    await phone_call.client_events(2)
    await phone_call.hang_up()
    await expect(end_card(phone_call.page)).to_be_visible()

    await expect(phone_call.page.get_by_role("alert")).to_contain_text("could not be kept")


# The end.


@pytest.mark.promise("R-21", "R-23")
async def test_hanging_up_ends_the_session_with_feedback_as_text_does(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await call(caller, provider)
    await phone_call.exchange("My sister is called Ann.", "A nice name.")
    await phone_call.hang_up()
    card = end_card(phone_call.page)
    await expect(card.get_by_role("button", name="Yes")).to_be_focused()
    await card.get_by_role("button", name="Yes").click()
    await expect(card).to_contain_text("The session has ended after 1 turn")
    await expect(card).to_contain_text("Your sister is called Ann.")
    episode = await ended_episode(caller, phone_call.thread)
    [record] = await caller.studio.db.records.find(RecordQuery(kind=FEEDBACK, owner=caller.user))

    assert (episode.modality, episode.ended_by, episode.feedback) == ("voice", "api", "positive")
    assert (record.body["label"], record.body["modality"]) == ("positive", "voice")


async def test_ending_the_session_hangs_up_first(caller: Visitor, provider: RealtimeServer) -> None:
    phone_call = await open_chat(caller, provider)
    await say(phone_call.page, "I worry about my exam.")
    await phone_call.dial()
    await phone_call.page.get_by_role("button", name="End session").click()

    await expect(phone_call.page.get_by_text("Nothing was said.")).to_be_visible()
    await expect(phone_call.speaker).to_have_count(0)


@pytest.mark.promise("R-17")
async def test_speaking_and_typing_are_one_conversation_of_one_thread_and_user(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await open_chat(caller, provider)
    await say(phone_call.page, "I worry about my exam.")
    await phone_call.dial()
    await phone_call.exchange("It is on Monday.", "That is soon.")
    await phone_call.hang_up()
    await end_card(phone_call.page).get_by_role("button", name="Go on in writing").click()
    await expect(phone_call.page.get_by_role("textbox", name="Message")).to_be_focused()
    await expect(phone_call.page.locator(".message .about", has_text="spoken")).to_have_count(2)
    await say(phone_call.page, "I cannot sleep.")
    thread = caller.studio.db.thread(phone_call.thread)
    episode = await active_episode(caller.studio.db, phone_call.thread)

    assert (await thread.head()).owner == caller.user
    assert [item.body["content"] for item in await thread.items() if item.role == "user"] == [
        "I worry about my exam.",
        "It is on Monday.",
        "I cannot sleep.",
    ]
    assert episode is not None
    assert (episode.turns, episode.modality, episode.until) == (3, "text", None)


@pytest.mark.promise("R-09")
async def test_a_session_that_nobody_ends_after_hanging_up_has_a_time_limit(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await call(caller, provider)
    await phone_call.exchange("Hello", "Hi.")
    await phone_call.hang_up()
    await expect(end_card(phone_call.page)).to_be_visible()
    episode = await active_episode(caller.studio.db, phone_call.thread)

    assert episode is not None
    assert episode.until is not None
    assert 19 * 60_000 <= episode.until - episode.touched <= 21 * 60_000


@pytest.mark.promise("R-14", "R-17")
async def test_an_incognito_call_is_nobodys_and_leaves_nothing(
    caller: Visitor, provider: RealtimeServer
) -> None:
    bodies: list[Any] = []
    phone_call = await open_chat(caller, provider, incognito=True)
    phone_call.page.on(
        "request", lambda request: bodies.append(request.post_data_json) if "/voice" in request.url else None
    )
    await phone_call.dial()
    await phone_call.exchange("Between us and the lighthouse keeper", "Yes.")
    await phone_call.speak(DANGER)
    await expect(phone_call.page.locator(".message.careful")).to_be_visible()
    await phone_call.hang_up()
    await expect(phone_call.messages.first).to_have_text("Between us and the lighthouse keeper")
    await end_card(phone_call.page).get_by_role("button", name="Yes").click()
    await expect(phone_call.page.get_by_text("nothing of it was kept").first).to_be_visible()
    db, folder = caller.studio.db, Path(caller.studio.url.removeprefix("sqlite:///")).parent
    files = b"".join(file.read_bytes() for file in folder.iterdir())

    assert all("user" not in body for body in bodies)
    assert phone_call.thread not in [thread.id for thread in (await db.threads(limit=200)).threads]
    assert [row async for row in crises(db, thread=phone_call.thread)] == []
    assert b"lighthouse keeper" not in files


@pytest.mark.promise("R-09")
async def test_a_lost_connection_keeps_what_was_said_and_ends_the_session(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await call(caller, provider)
    await phone_call.speak("My sister is called Ann.")
    await phone_call.client_events(1)
    await phone_call.page.evaluate("provider.peer.close()")
    await expect(phone_call.page.get_by_role("alert")).to_contain_text("The connection was lost")
    await expect(end_card(phone_call.page)).to_contain_text("Your sister is called Ann.")
    await expect(phone_call.page.get_by_role("button", name="Call", exact=True)).to_be_visible()
    episode = await ended_episode(caller, phone_call.thread)

    assert (episode.modality, episode.ended_by, episode.turns) == ("voice", "lost", 1)


@pytest.mark.promise("R-09", "R-14")
async def test_an_incognito_call_that_is_lost_is_over_and_nothing_is_left(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await call(caller, provider, incognito=True)
    await phone_call.exchange("Between us", "Yes.")
    await phone_call.page.evaluate("provider.peer.close()")
    await expect(phone_call.page.get_by_role("alert")).to_contain_text("The connection was lost")
    await expect(
        phone_call.page.get_by_text("This chat is over, and nothing of it was kept.")
    ).to_be_visible()

    async with caller.studio.client(caller.user) as client:
        with pytest.raises(ThreadNotFound):
            await client.messages(phone_call.thread)


@pytest.mark.promise("R-09")
async def test_leaving_the_page_ends_the_call_and_the_session(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await call(caller, provider)
    await phone_call.exchange("Hello", "Hi.")
    await phone_call.page.get_by_role("link", name="Memory").click()
    await expect(phone_call.page.get_by_text("because you left its page")).to_be_visible()
    episode = await ended_episode(caller, phone_call.thread)

    assert episode.ended_by == "lost"


@pytest.mark.promise("R-09")
async def test_closing_the_page_ends_the_session(caller: Visitor, provider: RealtimeServer) -> None:
    phone_call = await call(caller, provider)
    await phone_call.exchange("Hello", "Hi.")
    await expect(phone_call.page.get_by_text("Version 1 of 1, which is now")).to_be_visible()
    await phone_call.page.goto(SMALL)
    episode = await ended_episode(caller, phone_call.thread)

    assert episode.ended_by == "lost"


@pytest.mark.promise("R-09")
async def test_what_was_said_last_is_kept_when_the_page_is_closed_and_the_session_has_a_time_limit(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await call(caller, provider)
    await phone_call.speak("I had a long day at work")
    await phone_call.client_events(1)
    await phone_call.page.goto(SMALL)
    status = await status_once(caller, phone_call.thread, lambda status: status.expires_at is not None)

    assert status.status == "active"
    assert await items_of(caller, phone_call.thread) == [("user", "message", "I had a long day at work")]


# Calls that cannot begin.


async def failed_call(phone_call: PhoneCall) -> Locator:
    """What the page says of a call that could not begin; one can write again."""
    await phone_call.page.get_by_role("button", name="Call", exact=True).click()
    await expect(phone_call.page.get_by_role("button", name="Call again")).to_be_visible()
    await expect(phone_call.page.get_by_role("textbox", name="Message")).to_be_focused()
    return phone_call.page.get_by_role("alert")


async def test_a_microphone_that_is_refused_is_told_with_what_to_do(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await open_chat(caller, provider)
    context = phone_call.page.context
    await context.clear_permissions()
    try:
        alert = await failed_call(phone_call)
        await expect(alert).to_contain_text("Allow it for this page")
        await expect(alert.locator("code")).to_have_text("microphone_refused")
    finally:
        await context.grant_permissions(["microphone"])
    await phone_call.page.get_by_role("button", name="Call again").click()

    await expect(phone_call.speaker).to_have_text("Listening")


@pytest.mark.parametrize(
    ("name", "words"), [("NotFoundError", "No microphone was found"), ("NotReadableError", "Another program")]
)
async def test_a_microphone_that_cannot_be_used_is_told(
    caller: Visitor, provider: RealtimeServer, name: str, words: str
) -> None:
    phone_call = await open_chat(caller, provider)
    await phone_call.page.evaluate(
        """name => {
          navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException("", name));
        }""",
        name,
    )

    await expect(await failed_call(phone_call)).to_contain_text(words)


async def test_a_page_that_came_without_protection_says_that_it_gets_no_microphone(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await open_chat(caller, provider)
    await phone_call.page.evaluate("Object.defineProperty(navigator, 'mediaDevices', { value: undefined })")

    await expect(await failed_call(phone_call)).to_contain_text("Open this page over https")


async def test_a_provider_that_does_not_connect_the_call_is_told(
    caller: Visitor, provider: RealtimeServer
) -> None:
    caller.expected.append(FAILED)
    phone_call = await open_chat(caller, provider)
    provider.call_status = 500
    alert = await failed_call(phone_call)

    await expect(alert).to_contain_text("does not connect the call (500)")
    assert await phone_call.page.evaluate("provider.microphones.map((track) => track.readyState)") == [
        "ended"
    ]


async def test_a_provider_that_cannot_be_reached_is_told_by_its_name(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await open_chat(caller, provider)
    await cut_off(caller, phone_call.page, "/realtime/calls")

    await expect(await failed_call(phone_call)).to_contain_text("The provider of calls at 127.0.0.1:")


async def test_a_provider_that_gives_no_secret_is_told_before_a_microphone_is_asked_for(
    caller: Visitor, provider: RealtimeServer
) -> None:
    caller.expected.append(FAILED)
    phone_call = await open_chat(caller, provider)
    provider.faults = [401]
    alert = await failed_call(phone_call)

    await expect(alert).to_contain_text("it does not take the key")
    assert await phone_call.page.evaluate("provider.microphones") == []


async def test_a_server_that_is_away_is_told(caller: Visitor, provider: RealtimeServer) -> None:
    phone_call = await open_chat(caller, provider)
    await cut_off(caller, phone_call.page, "/voice/session")

    await expect(await failed_call(phone_call)).to_contain_text("The server does not answer.")


async def test_a_server_without_a_realtime_model_says_which_setting_is_missing(visitor: Visitor) -> None:
    visitor.expected.append(FAILED)
    page = await visitor.open("/studio/threads")
    phone_call = PhoneCall(page, await begin(page))

    await expect(await failed_call(phone_call)).to_contain_text("CLEW_SERVER_VOICE_MODEL is not set")


async def test_a_call_can_be_given_up_before_it_is_connected(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await open_chat(caller, provider)
    has_given_up = asyncio.Event()

    async def never_answer(description: str) -> str:
        await has_given_up.wait()
        return ""

    provider.answer_call = never_answer
    await phone_call.page.get_by_role("button", name="Call", exact=True).click()
    await expect(phone_call.speaker).to_have_text("Connecting")
    await phone_call.hang_up()
    await expect(phone_call.page.get_by_role("textbox", name="Message")).to_be_focused()
    has_given_up.set()

    await expect(phone_call.page.get_by_role("alert")).to_have_count(0)
    assert await phone_call.page.evaluate("provider.microphones.map((track) => track.readyState)") == [
        "ended"
    ]


# Everybody.


@pytest.mark.promise("F-11")
@pytest.mark.parametrize("width", [1280, 320])
async def test_a_call_is_accessible_and_fits_on_a_phone(
    caller: Visitor, provider: RealtimeServer, width: int
) -> None:
    phone_call = await call(caller, provider, width=width, height=700)
    page = phone_call.page
    problems = []
    await phone_call.exchange("Hello", "Hi.")
    for name in ("Mute", None, "Hang up"):
        if name is None:
            await phone_call.speak(DANGER)
            await expect(page.locator(".message.careful")).to_be_visible()
        else:
            await page.get_by_role("button", name=name).click()
        problems += await wrong(page)
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
    await expect(end_card(page)).to_be_visible()
    problems += await wrong(page)

    assert problems == []


@pytest.mark.promise("F-11")
async def test_a_call_is_made_and_ended_by_the_keyboard_alone(
    caller: Visitor, provider: RealtimeServer
) -> None:
    phone_call = await open_chat(caller, provider)
    page = phone_call.page
    stops = []

    async def press(*keys: str) -> None:
        for key in keys:
            await page.keyboard.press(key)
        stops.append(await page.evaluate(OUTLINE))

    await press("Tab")
    await press("Enter")
    await expect(phone_call.speaker).to_have_text("Listening")
    await press("Tab")
    await press("Space")
    await expect(phone_call.speaker).to_have_text("You are muted")
    await press("Tab")
    await press("Enter")
    await expect(page.get_by_role("textbox", name="Message")).to_be_focused()

    assert [stops[index]["name"] for index in (0, 2, 4)] == ["Call", "Mute", "Hang up"]
    assert all(stops[index]["isSeen"] for index in (0, 2, 4))
