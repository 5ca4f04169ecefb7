"""From the settings of a server to the request that a realtime provider gets, and what bad ones say."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import clew
from clew.core.errors import InvalidArgument, ModelFailed
from clew.runtime.memory import Candidate
from clew.runtime.memory.memory import Memory
from clew.server.app import create_app
from clew.server.settings import from_variables
from clew.server.tenants.realtime import OpenAIRealtime, VoiceSessionPlan
from clew_companion.replies.prompt import prompt_source
from clew_companion.voice import VOICE_RULES
from tests.server.conftest import Users, over_http
from tests.support.realtime_server import RealtimeServer

pytestmark = pytest.mark.promise("R-21")
KEY = "sk-very-secret"
MODEL, URL, VOICE = (f"CLEW_SERVER_{name}" for name in ("VOICE_MODEL", "VOICE_URL", "VOICE"))


@pytest.fixture
async def db() -> AsyncIterator[clew.Database]:
    """A database in memory: nothing here depends on the store."""
    async with clew.open("memory://") as database:
        yield database


@asynccontextmanager
async def users_of(db: clew.Database, variables: dict[str, str]) -> AsyncIterator[Users]:
    """The users of a server that is set up by variables alone."""
    async with over_http(create_app(from_variables(variables), db=db), db) as users:
        yield users


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    """The key of the provider, in the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return KEY


async def test_model_voice_and_address_reach_the_provider_with_the_key(
    db: clew.Database, provider: RealtimeServer, key: str
) -> None:
    variables = {MODEL: "gpt-realtime-mini", URL: f"{provider.url}/", VOICE: "cedar"}
    async with users_of(db, variables) as users:
        agent = await users("alice").agent()
        session = await users("alice").begin_voice_session("call")
    [(path, headers, body)] = provider.requests

    assert agent.voice
    assert (path, headers["authorization"]) == ("/v1/realtime/client_secrets", f"bearer {key}")
    assert body["session"]["model"] == session.model == "gpt-realtime-mini"
    assert body["session"]["audio"]["output"] == {"voice": "cedar"}
    assert session.url == f"{provider.url}/realtime/calls"


async def test_the_voice_is_the_usual_one_if_none_is_named(
    db: clew.Database, provider: RealtimeServer, key: str
) -> None:
    async with users_of(db, {MODEL: "gpt-realtime", URL: provider.url}) as users:
        await users("alice").begin_voice_session("call")
    [(_, _, body)] = provider.requests

    assert body["session"]["audio"]["output"] == {"voice": "marin"}


@pytest.mark.parametrize(
    ("address", "origins"),
    [
        ("https://api.openai.com/v1", "'self' https://api.openai.com"),
        ("http://127.0.0.1:8090/v1/", "'self' http://127.0.0.1:8090"),
        ("https://voice.example/a;script-src%20*,b", "'self' https://voice.example"),
        ("https://user:password@voice.example/v1", "'self' https://voice.example"),
    ],
)
async def test_pages_may_reach_the_provider_and_use_a_microphone(
    db: clew.Database, key: str, address: str, origins: str
) -> None:
    async with users_of(db, {MODEL: "gpt-realtime", URL: address}) as users:
        answer = await users.http.get("/studio/threads")
    policy = answer.headers["content-security-policy"]

    assert [part for part in policy.split("; ") if part.startswith("connect-src")] == [
        f"connect-src {origins}"
    ]
    assert policy.count("script-src") == 1
    assert "microphone=(self)" in answer.headers["permissions-policy"]


async def test_pages_of_a_server_without_calls_reach_nothing_else_and_use_no_microphone(
    db: clew.Database, provider: RealtimeServer
) -> None:
    async with users_of(db, {URL: provider.url}) as users:
        answer = await users.http.get("/studio/threads")

    assert "connect-src 'self';" in answer.headers["content-security-policy"]
    assert "microphone=()" in answer.headers["permissions-policy"]


@pytest.mark.parametrize("key", [None, "", "  "])
async def test_a_model_without_a_key_makes_no_calls_and_says_what_is_missing(
    db: clew.Database, provider: RealtimeServer, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("OPENAI_API_KEY", key)
    async with users_of(db, {MODEL: "gpt-realtime", URL: provider.url}) as users:
        agent = await users("alice").agent()
        with pytest.raises(InvalidArgument, match="OPENAI_API_KEY is not set"):
            await users("alice").begin_voice_session("call")

    assert not agent.voice
    assert provider.requests == []


@pytest.mark.parametrize("variables", [{}, {MODEL: ""}, {MODEL: " "}])
async def test_a_key_without_a_model_makes_no_calls_and_says_what_is_missing(
    db: clew.Database, provider: RealtimeServer, key: str, variables: dict[str, str]
) -> None:
    async with users_of(db, {URL: provider.url, **variables}) as users:
        agent = await users("alice").agent()
        with pytest.raises(InvalidArgument, match="CLEW_SERVER_VOICE_MODEL is not set"):
            await users("alice").begin_voice_session("call")

    assert not agent.voice
    assert provider.requests == []


@pytest.mark.parametrize(
    "address", ["", "api.openai.com/v1", "ftp://example.org", "http://", "file:///etc/passwd"]
)
async def test_an_address_that_is_none_is_refused_at_the_start_by_its_name(
    db: clew.Database, key: str, address: str
) -> None:
    with pytest.raises(InvalidArgument) as error:
        async with users_of(db, {MODEL: "gpt-realtime", URL: address}):
            pass

    assert URL in error.value.problem
    assert KEY not in str(error.value)


async def test_the_key_is_in_no_answer_no_log_and_no_picture_of_the_provider(
    db: clew.Database, provider: RealtimeServer, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    provider.faults = [200, 401, 500]
    answers = []
    with caplog.at_level(logging.DEBUG):
        async with users_of(db, {MODEL: "gpt-realtime", URL: provider.url}) as users:
            for _ in range(3):
                answer = await users.http.post(
                    "/api/v1/sessions/call/voice/session", json={}, headers=users.headers()
                )
                answers.append(answer.text + str(answer.headers))

    assert [key in answer for answer in answers] == [False, False, False]
    assert key not in caplog.text
    assert key not in repr(OpenAIRealtime("gpt-realtime", key))
    assert all(key not in path for path, _, _ in provider.requests)


@pytest.mark.parametrize(("fault", "again"), [(401, False), (429, True), (500, True), ("cut", True)])
async def test_a_provider_says_whether_it_is_worth_asking_again(
    provider: RealtimeServer, fault: int | str, again: object
) -> None:
    provider.faults = [fault]
    with pytest.raises(ModelFailed) as error:
        await OpenAIRealtime("gpt-realtime", KEY, url=provider.url).create_secret(
            VoiceSessionPlan(instructions="Hi")
        )

    assert error.value.retry is bool(again)


async def test_the_model_is_told_who_it_is_how_to_speak_and_what_it_must_not(
    db: clew.Database, provider: RealtimeServer, key: str
) -> None:
    async with users_of(db, {MODEL: "gpt-realtime", URL: provider.url}) as users:
        await users("alice").begin_voice_session("call")
    [(_, _, body)] = provider.requests
    instructions = body["session"]["instructions"]

    assert [
        part in instructions for part in (prompt_source("identity"), prompt_source("rules"), VOICE_RULES)
    ] == [True] * 3
    assert body["session"]["audio"]["input"]["turn_detection"]["interrupt_response"] is True


async def test_tools_are_sent_with_what_they_are_for_and_what_they_take(
    db: clew.Database, provider: RealtimeServer, key: str
) -> None:
    async with users_of(db, {MODEL: "gpt-realtime", URL: provider.url}) as users:
        await users("alice").begin_voice_session("call")
    [(_, _, body)] = provider.requests
    tools = {each["name"]: each for each in body["session"]["tools"]}

    assert tools["recall"]["description"].startswith("What is remembered")
    assert tools["recall"]["parameters"]["required"] == ["about"]
    assert body["session"]["tool_choice"] == "auto"


async def test_a_call_keeps_to_how_somebody_wants_to_be_answered_and_brings_up_nothing_unasked(
    db: clew.Database, provider: RealtimeServer, key: str
) -> None:
    memory = Memory(db.scope(tenant=db.tenant, user="alice"), "alice")
    short = Candidate(kind="rule", subject="manner", object="Keep answers short.", plain=True)
    walks = Candidate(predicate="LIKES", object="long walks", quote="I like long walks", plain=True)
    await memory.learn([short, walks])
    async with users_of(db, {MODEL: "gpt-realtime", URL: provider.url}) as users:
        await users("alice").begin_voice_session("call")
        await memory.set_recall(on=False)
        await users("alice").begin_voice_session("call")
        await users("bob").begin_voice_session("bobs")
    before, after, another = [body["session"]["instructions"] for _, _, body in provider.requests]

    assert "Keep answers short." in before
    assert "Keep answers short." in after
    assert "long walks" in before
    assert before != after
    assert "long walks" not in another
    assert "Keep answers short." not in another


@pytest.mark.promise("R-18")
async def test_a_call_begins_with_what_the_last_session_was_about(
    db: clew.Database, provider: RealtimeServer, key: str
) -> None:
    async with users_of(db, {MODEL: "gpt-realtime", URL: provider.url}) as users:
        alice = users("alice")
        await alice.run_turn("before", "I argued with my sister")
        await alice.end_session("before")
        await alice.begin_voice_session("call")
    [(_, _, body)] = provider.requests

    assert "Last session (somebody close)" in body["session"]["instructions"]
