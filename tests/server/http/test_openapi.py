"""The OpenAPI document is true: requests made from it, well and ill, never break the server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import Case, SerializationContext
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from clew.client import AsyncClient
from clew.server.app import create_app
from clew.server.settings import ServerSettings
from tests.architecture.source import ROOT
from tests.server.local_server import listening

document = msgspec.json.decode(msgspec.json.encode(create_app().openapi_schema.to_schema()))
schema = schemathesis.openapi.from_dict(document)
operations = [each.ok() for each in schema.get_all_operations() if isinstance(each, Ok)]
OPERATIONS = {operation.label: operation for operation in operations}
ENDLESS = {"GET /api/v1/threads/{id}/events", "GET /api/v1/events"}
"""Streams that go on until their client leaves."""
CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
"""An answer has a status, a media type and a body that the document names."""


@schemathesis.serializer("application/x-ndjson")
def _lines(context: SerializationContext, value: object) -> bytes:
    """An archive that is none, as it is sent."""
    return str(value).encode()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server that lives in a thread of its own, with a thread to find."""
    start, over, addresses = threading.Event(), asyncio.Event(), []
    loop = asyncio.new_event_loop()

    async def life() -> None:
        async with listening(create_app(ServerSettings(requests=10**6))) as at:
            async with AsyncClient(at) as client:
                await client.run_turn("there", "hello")
            addresses.append(at)
            start.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(life()))
    thread.start()
    assert start.wait(30)
    yield addresses[0]
    loop.call_soon_threadsafe(over.set)
    thread.join()
    loop.close()


@pytest.mark.parametrize("name", sorted(OPERATIONS.keys() - ENDLESS))
def test_no_request_breaks_the_server_and_every_answer_is_as_described(name: str, address: str) -> None:
    @given(case=OPERATIONS[name].as_strategy())
    @settings(
        max_examples=12,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    def ask(case: Case[Any]) -> None:
        if "id" in (case.path_parameters or {}) and len(str(case.path_parameters["id"])) % 2:
            case.path_parameters["id"] = "there"
        for name in ("Authorization", "X-API-Key"):  # made up, so that nobody would get in
            case.headers.pop(name, None)
        answer = case.call(base_url=address)

        assert answer.status_code < 500, answer.text
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == ["application/problem+json"]
        case.validate_response(answer, checks=CHECKS)

    ask()


def test_every_route_has_a_name_and_says_what_it_does() -> None:
    silent = [
        f"{method} {path}"
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if not operation.get("operationId") or not operation.get("description")
    ]

    assert silent == []


def test_the_reference_names_every_route() -> None:
    page = (ROOT / "docs/reference/http.md").read_text(encoding="utf-8")
    routes = [
        f"{method.upper()} {path.removeprefix('/api/v1')}"
        for path, methods in document["paths"].items()
        for method in methods
    ]

    assert [route for route in routes if f"`{route}`" not in page] == []
