"""A call begins with a secret of the provider; a provider that fails is told in a sentence."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import clew
from clew.client import AsyncClient
from clew.core.errors import DeadlineExceeded, InvalidArgument, ModelFailed
from clew.runtime.memory import Candidate
from clew.runtime.memory.memory import Memory
from clew.server.app import create_app
from clew.server.settings import ServerSettings
from clew.server.tenants.realtime import OpenAIRealtime
from tests.server.conftest import Users, over_http
from tests.support.realtime_server import RealtimeServer

pytestmark = pytest.mark.promise("R-21")
KEY = "sk-secret"


@pytest.fixture
async def db() -> AsyncIterator[clew.Database]:
    """A database in memory: nothing here depends on the store."""
    async with clew.open("memory://") as database:
        yield database


@pytest.fixture
async def users(db: clew.Database, provider: RealtimeServer) -> AsyncIterator[Users]:
    """The users of a server that makes calls."""
    realtime = OpenAIRealtime("gpt-realtime", KEY, url=provider.url, seconds=0.3)
    app = create_app(ServerSettings(sweep_seconds=3600), db=db, realtime=realtime)
    async with over_http(app, db) as clients:
        yield clients


@pytest.fixture
async def alice(users: Users) -> AsyncClient:
    """One of them."""
    return users("alice")


async def know(db: clew.Database, what: str) -> None:
    """Let something be known of alice."""
    memory = Memory(db.scope(tenant=db.tenant, user="alice"), "alice")
    candidate = Candidate(predicate="LIKES", object=what, quote=f"I like {what}", plain=True, confidence=0.9)
    await memory.learn([candidate])


async def test_a_call_begins_with_a_secret_that_is_not_the_key(
    users: Users, alice: AsyncClient, provider: RealtimeServer
) -> None:
    session = await alice.begin_voice_session("call")
    [(path, headers, body)] = provider.requests
    answer = await users.http.post("/api/v1/sessions/call/voice/session", json={}, headers=users.headers())

    assert (session.secret, session.expires_at) == ("ek_1", 1_900_000_000)
    assert session.url == f"{provider.url}/realtime/calls"
    assert (path, headers["authorization"]) == ("/v1/realtime/client_secrets", f"bearer {KEY}")
    assert body["session"]["model"] == "gpt-realtime"
    assert KEY not in answer.text


async def test_nothing_is_answered_before_the_client_asks_unless_it_wants_otherwise(
    alice: AsyncClient, provider: RealtimeServer
) -> None:
    with_gate = await alice.begin_voice_session("call")
    open_ = await alice.begin_voice_session("call", gated=False)
    inputs = [body["session"]["audio"]["input"] for _, _, body in provider.requests]

    assert (with_gate.gated, open_.gated) == (True, False)
    assert [each["turn_detection"]["create_response"] for each in inputs] == [False, True]
    assert all(each["transcription"]["model"] for each in inputs)


@pytest.mark.promise("R-18")
async def test_the_model_is_told_what_is_known_and_has_the_tools(
    db: clew.Database, alice: AsyncClient, provider: RealtimeServer
) -> None:
    await know(db, "long walks")
    await alice.begin_voice_session("call")
    [(_, _, body)] = provider.requests

    assert "long walks" in body["session"]["instructions"]
    assert [each["name"] for each in body["session"]["tools"]] == ["exercise", "recall", "remember"]


@pytest.mark.promise("R-14")
async def test_incognito_nothing_is_told_of_the_person(
    db: clew.Database, alice: AsyncClient, provider: RealtimeServer
) -> None:
    await know(db, "long walks")
    await alice.begin_voice_session("call", mode="incognito")
    [(_, _, body)] = provider.requests

    assert "long walks" not in body["session"]["instructions"]
    assert [each["name"] for each in body["session"]["tools"]] == ["exercise"]


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (401, "does not take the key"),
        (429, "asks to wait"),
        (500, "answered 500"),
        ("cut", "cannot be reached"),
        ("nonsense", "no secret"),
    ],
)
async def test_a_provider_that_fails_is_told_in_a_sentence_without_its_words(
    alice: AsyncClient, provider: RealtimeServer, fault: int | str, says: str
) -> None:
    provider.faults = [fault]
    with pytest.raises(ModelFailed) as error:
        await alice.begin_voice_session("call")

    assert says in error.value.problem
    assert KEY not in str(error.value)
    assert error.value.retry_after_ms == (7000 if fault == 429 else None)


async def test_a_slow_provider_is_not_waited_for(alice: AsyncClient, provider: RealtimeServer) -> None:
    provider.faults = ["slow"]

    with pytest.raises(DeadlineExceeded):
        await alice.begin_voice_session("call")


async def test_a_server_without_a_realtime_model_says_so(db: clew.Database) -> None:
    app = create_app(db=db)
    async with over_http(app, db) as users:
        agent = await users("alice").agent()
        with pytest.raises(InvalidArgument, match="VOICE_MODEL"):
            await users("alice").begin_voice_session("call")

    assert not agent.voice
