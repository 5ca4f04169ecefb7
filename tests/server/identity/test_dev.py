"""Development mode: whoever is on this machine, and no page that some site shows there."""

from __future__ import annotations

import pytest

from clew.core.errors import Forbidden, InvalidId, Unauthenticated
from clew.server.identity.dev import DevAuthentication

HERE = {"host": "127.0.0.1:8100"}
enter = DevAuthentication()


@pytest.mark.parametrize("host", ["127.0.0.1:8100", "localhost", "[::1]:8100", "127.8.8.8", "a.localhost:1"])
async def test_whoever_is_on_this_machine_is_let_in(host: str) -> None:
    identity = await enter({"host": host})

    assert (identity.tenant, identity.user, identity.workspace) == ("default", None, "default")


async def test_a_request_may_name_another_user_and_tenant() -> None:
    identity = await enter({**HERE, "x-clew-user": "alice", "x-clew-tenant": "acme"})

    assert (identity.tenant, identity.user) == ("acme", "alice")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "clew.example"},
        {"host": "127.0.0.1.example"},
        {"host": "localhost.example"},
        {"host": "192.168.0.7"},
        {"host": "0.0.0.0"},
        {"host": "["},
        {**HERE, "origin": "https://site.example"},
        {**HERE, "origin": "null"},
        {**HERE, "origin": "http://["},
        {**HERE, "origin": "http://127.0.0.1:8101"},
        {**HERE, "origin": "http://127.0.0.1"},
        {**HERE, "origin": "http://localhost:8100"},
        {**HERE, "origin": "https://127.0.0.1:8100"},
        {**HERE, "origin": "http://127.0.0.1:8100/"},
        {**HERE, "origin": "http://127.0.0.1:8100@127.0.0.1"},
        {**HERE, "origin": ""},
        {"host": "localhost", "origin": "https://localhost"},
        {"host": "a.localhost:8100", "origin": "http://b.localhost:8100"},
        {"host": "127.0.0.1:port"},
        {"host": "127.0.0.1/8100"},
        {**HERE, "x-forwarded-for": "10.0.0.1"},
        {**HERE, "forwarded": "for=10.0.0.1"},
        {**HERE, "authorization": "Bearer something"},
        {**HERE, "x-api-key": "something"},
    ],
)
@pytest.mark.promise("F-09")
async def test_whoever_may_be_elsewhere_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(Unauthenticated):
        await enter(headers)


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1:8100", "http://127.0.0.1:8100"),
        ("LOCALHOST:8100", "http://localhost:8100"),
        ("[::1]:8100", "http://[::1]:8100"),
        ("localhost", "http://localhost"),
        ("localhost:80", "http://localhost"),
    ],
)
async def test_a_page_of_the_server_itself_may_ask(host: str, origin: str) -> None:
    identity = await enter({"host": host, "origin": origin})

    assert identity.tenant == "default"


async def test_a_page_of_this_machine_may_ask_if_its_origin_is_named() -> None:
    identity = await DevAuthentication(["http://localhost:5173"])({**HERE, "origin": "http://localhost:5173"})

    assert identity.tenant == "default"


@pytest.mark.promise("F-09")
@pytest.mark.parametrize("origin", ["*", "https://site.example", "null"])
async def test_no_page_of_another_site_may_ask_whatever_is_named(origin: str) -> None:
    with pytest.raises(Unauthenticated):
        await DevAuthentication([origin])({**HERE, "origin": "https://site.example"})


async def test_a_name_that_cannot_be_one_is_refused() -> None:
    with pytest.raises(InvalidId):
        await enter({**HERE, "x-clew-user": ""})
    with pytest.raises(Forbidden, match="own"):
        await enter({**HERE, "x-clew-tenant": "$server"})
