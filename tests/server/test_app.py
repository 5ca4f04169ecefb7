"""The edges of the server: guards wherever it runs, failed authentications, numbers, and OpenAPI."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx
import pytest

import clew
from clew.api.route import API_PREFIX
from clew.core.errors import KeyReused, RateLimited, Unauthenticated, UnsafeSettings
from clew.server.app import create_app
from clew.server.http.limits import FailureLimit
from clew.server.identity.api_keys import KeyAuthentication, create_key
from clew.server.identity.directory import Directory
from clew.server.identity.entries import Tenant
from clew.server.identity.identity import Identity
from clew.server.routes import health
from clew.server.settings import ServerSettings
from tests.server.conftest import clients_of, in_memory

SECRET = "4f1c7e9a02b85d36c1e8f7a94b6d20e3"


@pytest.mark.promise("F-09")
async def test_a_mounted_application_refuses_dev_auth_in_production(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_ENV", "production")
    monkeypatch.setenv("DATABASE_REQUIRED", "false")
    app = create_app(ServerSettings(secret=SECRET))

    with pytest.raises(ExceptionGroup) as group:  # the framework starts in a group of tasks
        async with app.lifespan():
            pass
    [error] = group.value.exceptions
    assert isinstance(error, UnsafeSettings)
    assert ["dev_auth_in_production" in problem for problem in error.problems] == [True]


@pytest.mark.promise("F-09")
async def test_a_mounted_application_with_safe_settings_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_ENV", "production")
    monkeypatch.setenv("DATABASE_REQUIRED", "false")
    monkeypatch.setenv("AUTH_MODE", "keys")
    async with create_app(ServerSettings(secret=SECRET)).lifespan():
        pass


@pytest.mark.promise("F-09")
@pytest.mark.parametrize("address", ["192.0.2.7", "testclient", ""])
async def test_dev_mode_serves_this_machine_alone_whoever_runs_the_application(address: str) -> None:
    async with in_memory() as users:
        elsewhere = httpx.ASGITransport(users.app, client=(address, 1234))
        async with httpx.AsyncClient(transport=elsewhere, base_url="http://127.0.0.1") as http:
            answer = await http.get(f"{API_PREFIX}/threads", headers=users.headers("alice"))

    assert answer.status_code == 401


@pytest.mark.promise("F-09")
async def test_in_dev_mode_pages_of_other_ports_are_served_if_cors_names_them() -> None:
    friend, stranger = "http://localhost:5173", "http://localhost:5174"
    async with in_memory(settings=ServerSettings(cors=(friend,))) as users:
        answers = [
            await users.http.get(f"{API_PREFIX}/threads", headers={**users.headers(), "Origin": origin})
            for origin in (friend, stranger)
        ]

    assert [answer.status_code for answer in answers] == [200, 401]
    assert answers[0].headers["access-control-allow-origin"] == friend


class Password:
    """Lets in whoever says the word."""

    async def __call__(self, headers: Mapping[str, str]) -> Identity:
        """Whose request it is."""
        if headers.get("authorization") not in ("Bearer friend", "Bearer neighbour"):
            raise Unauthenticated(problem="That is not the word.")
        return Identity(tenant="default", user="alice", workspace="default", scopes=frozenset({"read"}))


async def _status_of(http: httpx.AsyncClient, word: str) -> int:
    answer = await http.get(f"{API_PREFIX}/threads", headers={"Authorization": f"Bearer {word}"})
    return answer.status_code


@pytest.mark.promise("F-09")
async def test_failed_authentications_are_limited_and_valid_ones_never_are() -> None:
    settings = ServerSettings(failures=3)
    async with (
        clew.open("memory://") as db,
        clients_of(db, settings=settings, authenticate=Password()) as users,
    ):
        guesses = [await _status_of(users.http, f"guess-{number}") for number in range(5)]
        valid = [await _status_of(users.http, word) for word in ("friend", "neighbour")]
        other = httpx.ASGITransport(users.app, client=("192.0.2.7", 1))
        async with httpx.AsyncClient(transport=other, base_url="http://127.0.0.1") as elsewhere:
            from_elsewhere = await _status_of(elsewhere, "guess-5")

    assert guesses == [401, 401, 401, 429, 429]
    assert valid == [200, 200]
    assert from_elsewhere == 401


def test_an_address_may_fail_again_after_a_while() -> None:
    now = 0.0
    failures = FailureLimit(1, clock=lambda: now)
    failures.count("here", None)
    with pytest.raises(RateLimited):
        failures.count("here", None)
    now = 61.0

    failures.count("here", None)


@pytest.mark.promise("F-10")
async def test_the_numbers_of_the_server_are_for_its_operator_alone(db: clew.Database) -> None:
    directory = Directory(db)
    await directory.add(Tenant(id=db.tenant))
    scopes_of = {"admin": ("read", "write", "admin"), "operator": ("operator",)}
    keys = {
        name: (await create_key(directory, tenant=db.tenant, scopes=scopes))[1]
        for name, scopes in scopes_of.items()
    }
    async with clients_of(db, authenticate=KeyAuthentication(directory)) as users:
        answers = {
            name: await users.http.get(f"{API_PREFIX}/metrics", headers={"X-API-Key": text})
            for name, text in keys.items()
        }

    assert {name: answer.status_code for name, answer in answers.items()} == {"admin": 403, "operator": 200}
    assert b"clew_requests" in answers["operator"].content


async def test_whoever_was_refused_is_counted_too() -> None:
    async with in_memory(settings=ServerSettings(requests=3)) as users:
        await users.http.get(f"{API_PREFIX}/threads", headers={"X-API-Key": "clew_made-up"})
        await users.http.get(f"{API_PREFIX}/nowhere")
        for _ in range(2):
            await users().create_thread("t", key="k")
        with pytest.raises(KeyReused):
            await users().create_thread("other", key="k")
        with pytest.raises(RateLimited):
            await users().threads()
        numbers = (await users("another").metrics()).decode()

    lines = {line for line in numbers.splitlines() if line.startswith("clew_requests_total")}
    threads = 'route="/api/v1/threads"'
    assert lines == {
        f'clew_requests_total{{method="GET",{threads},status="401"}} 1.0',
        'clew_requests_total{method="GET",route="unmatched",status="404"} 1.0',
        f'clew_requests_total{{method="POST",{threads},status="201"}} 2.0',
        f'clew_requests_total{{method="POST",{threads},status="409"}} 1.0',
        f'clew_requests_total{{method="GET",{threads},status="429"}} 1.0',
    }
    assert 'clew_conflicts_total{where="request"} 1.0' in numbers


async def test_a_store_that_does_not_answer_soon_makes_the_server_not_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def for_ever(db: clew.Database) -> None:
        await asyncio.Event().wait()

    async with in_memory() as users:
        before = await users().ready()
        monkeypatch.setattr(clew.Database, "report", for_ever)
        monkeypatch.setattr(health, "READY_SECONDS", 0.01)
        answer = await users.http.get(f"{API_PREFIX}/ready")
        alive = await users().health()

    assert (before.ok, before.store, alive.ok) == (True, "memory", True)
    assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")
    assert answer.json()["code"] == "store_unavailable"


@pytest.mark.parametrize("path", ["", "/redoc", "/swagger", "/elements", "/rapidoc", "/nothing"])
async def test_no_page_that_loads_scripts_of_other_sites_stands_beside_the_studio(path: str) -> None:
    async with in_memory() as users:
        answer = await users.http.get(f"{API_PREFIX}/openapi{path}")

    assert answer.headers["content-type"] in ("application/vnd.oai.openapi+json", "application/problem+json")
    assert answer.status_code == (404 if path else 200)


def test_the_document_says_how_to_ask_and_how_to_ask_again() -> None:
    document = create_app().openapi_schema.to_schema()
    open_to_all = {
        path
        for path, methods in document["paths"].items()
        if any(operation.get("security") == [{}] for operation in methods.values())
    }
    without_key = [
        path
        for path, methods in document["paths"].items()
        if "post" in methods
        and "Idempotency-Key" not in {each["name"] for each in methods["post"].get("parameters", [])}
    ]

    assert [*document["components"]["securitySchemes"]] == ["bearer", "key"]
    assert document["security"] == [{"bearer": []}, {"key": []}]
    assert open_to_all == {f"{API_PREFIX}/health", f"{API_PREFIX}/ready"}
    assert without_key == []


def test_every_route_says_what_it_answers_when_something_is_wrong() -> None:
    document = create_app().openapi_schema.to_schema()
    wrong = {
        f"{method} {path}": status
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        for status, answer in operation["responses"].items()
        if int(status) >= 400 and list(answer["content"]) != ["application/problem+json"]
    }
    silent = [
        f"{method} {path}"
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if not any(int(status) >= 400 for status in operation["responses"])
    ]

    assert (wrong, silent) == ({}, [])
