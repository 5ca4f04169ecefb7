"""How much is allowed at once, and how too much is refused."""

from __future__ import annotations

import asyncio

import pytest

from clew.core.errors import RateLimited
from clew.server.http.limits import ConcurrencyLimit, RateLimit
from clew.server.settings import ServerSettings, as_variables, from_variables
from clew.testing import ScriptedModel
from tests.server.conftest import in_memory


def test_a_gate_lets_so_many_in_for_each_name() -> None:
    gate = ConcurrencyLimit("turns", 1)
    with gate.enter("alice"), gate.enter("bob"):
        with pytest.raises(RateLimited):
            gate.check("alice")
        inside = gate.in_use
    gate.check("alice")

    assert (inside, gate.in_use) == (2, 0)


def test_a_pace_is_refilled_as_time_goes_by() -> None:
    now = 0.0
    pace = RateLimit(2, clock=lambda: now)
    pace.take("alice")
    pace.take("alice")
    with pytest.raises(RateLimited) as error:
        pace.take("alice")
    pace.take("bob")
    now = 30.1
    pace.take("alice")

    assert 29_000 < error.value.retry_after_ms < 31_000


async def test_too_many_requests_are_told_when_to_come_back() -> None:
    async with in_memory(settings=ServerSettings(requests=2)) as users:
        answers = [await users.http.get("/api/v1/threads", headers=users.headers()) for _ in range(3)]
        other = await users.http.get("/api/v1/threads", headers=users.headers("bob"))

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[-1].json()["code"] == "rate_limited"
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert other.status_code == 200


async def test_one_user_runs_so_many_turns_at_once() -> None:
    start, hold = asyncio.Event(), asyncio.Event()

    def line(request: object) -> list[str | asyncio.Event]:
        start.set()
        return [hold, "late"]

    settings = ServerSettings(turns=1)
    async with in_memory(model=ScriptedModel(line, "other"), settings=settings) as users:
        first = asyncio.create_task(users().run_turn("a", "hi"))
        await start.wait()
        with pytest.raises(RateLimited):
            await users().run_turn("b", "hi")
        await users("bob").run_turn("c", "hi")
        hold.set()
        await first


async def test_a_body_that_is_too_large_is_refused() -> None:
    async with in_memory(settings=ServerSettings(body=1_000)) as users:
        answer = await users.http.post(
            "/api/v1/threads/t/turns", json={"message": "x" * 2_000}, headers=users.headers()
        )
        with_key = await users.http.post(
            "/api/v1/threads",
            json={"id": "x" * 2_000},
            headers={**users.headers(), "Idempotency-Key": "k"},
        )

    assert [each.status_code for each in (answer, with_key)] == [413, 413]
    assert answer.json()["code"] == "too_large"
    assert answer.json()["facts"]["limit"] == 1_000


async def test_an_import_may_be_larger_than_other_bodies() -> None:
    settings = ServerSettings(body=1_000, archive=100_000)
    async with in_memory(settings=settings) as users:
        await users().run_turn("t", "hi")
        archive = await users().export_archive("t")
        await users().delete_session("t")
        result = await users().import_sessions(archive, key="k")

    assert len(archive) > 1_000
    assert result.sessions == ["t"]


async def test_other_sites_may_not_ask_unless_they_are_named() -> None:
    asking = {"Origin": "http://localhost:3000", "Access-Control-Request-Method": "GET"}
    async with in_memory() as users:
        without_cors = await users.http.options("/api/v1/threads", headers=asking)
    async with in_memory(settings=ServerSettings(cors=("http://localhost:3000",))) as users:
        with_cors = await users.http.options("/api/v1/threads", headers=asking)
        other = await users.http.options("/api/v1/threads", headers={**asking, "Origin": "http://evil.test"})
        answer = await users.http.get("/api/v1/threads", headers={**users.headers(), **asking})

    assert "access-control-allow-origin" not in without_cors.headers
    assert with_cors.headers["access-control-allow-origin"] == "http://localhost:3000"
    assert "access-control-allow-origin" not in other.headers
    assert {"ETag", "Retry-After"} <= set(answer.headers["access-control-expose-headers"].split(", "))


def test_settings_travel_to_other_processes_as_variables() -> None:
    settings = ServerSettings(
        url="sqlite:///a.db", cors=("http://a", "http://b"), json_logs=True, model="x:y"
    )

    assert from_variables(as_variables(settings)) == settings
