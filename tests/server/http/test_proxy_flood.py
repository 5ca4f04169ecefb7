"""A stranger who floods the door, also from behind a proxy, keeps nobody out whose credentials hold."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple

import httpx
import jwt
import pytest

import clew
from clew.server.app import Application, create_app
from clew.server.identity.api_keys import create_key
from clew.server.identity.directory import Directory
from clew.server.identity.oidc import PAUSE_S, IssuerKeys, TokenAuthentication
from tests.server.attacked_server import ACME, HERE, World, running, world
from tests.server.identity.test_issuer_keys import Seconds
from tests.server.routes.test_attacks import talk
from tests.support.issuer import Issuer, issuing, rsa_key

pytestmark = [pytest.mark.security, pytest.mark.promise("F-09"), pytest.mark.promise("F-10")]

FAILURES = 5
"""How many failures of one client are borne in a minute."""
PROXY, SECOND_PROXY = "10.0.0.1", "10.0.0.2"
STRANGER, NEIGHBOUR = "203.0.113.7", "198.51.100.9"


@pytest.fixture
async def server() -> AsyncIterator[World]:
    """A server that knows no proxies."""
    async with world("memory://", failures=FAILURES) as new_world:
        yield new_world


@pytest.fixture
async def behind_proxies() -> AsyncIterator[World]:
    """A server that trusts the proxies of its own network."""
    async with world("memory://", failures=FAILURES, trusted_proxies=("10.0.0.0/24",)) as new_world:
        yield new_world


class Door(NamedTuple):
    """A server whose issuer can be made slow."""

    app: Application
    issuer: Issuer


def junk_token(number: int) -> str:
    """A token that some other key has signed, and a key id that the issuer has never used."""
    return jwt.encode({"sub": "x"}, rsa_key(9), algorithm="RS256", headers={"kid": f"made-up-{number}"})


def junk_key(number: int) -> str:
    """Text that looks like an API key."""
    return f"clew_{number:016x}_{'x' * 43}"


async def knock(
    app: Application, token: str | None, *, peer: str = PROXY, headers: Mapping[str, str] | None = None
) -> int:
    """Ask for threads with a token, over a connection from an address; the status of the answer."""
    transport = httpx.ASGITransport(app=app, client=(peer, 1))
    async with httpx.AsyncClient(transport=transport) as http:
        all_headers = {**({"authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        return (await http.get(f"{HERE}/threads", headers=all_headers)).status_code


def forwarded_headers(*hops: str) -> dict[str, str]:
    """What proxies say of whom they pass on."""
    return {"x-forwarded-for": ", ".join(hops)}


async def test_fresh_tokens_pass_while_strangers_flood_from_the_same_address(server: World) -> None:
    flood = [await knock(server.app, junk_token(number)) for number in range(20)]
    fresh = [server.issuer.token(tid=ACME, oid="alice", jti=str(number)) for number in range(10)]
    answers = [await knock(server.app, token) for token in fresh]

    assert flood == [401] * FAILURES + [429] * (20 - FAILURES)
    assert answers == [200] * 10


async def test_fresh_keys_pass_while_strangers_flood_from_the_same_address(server: World) -> None:
    flood = [await knock(server.app, junk_key(number)) for number in range(20)]
    directory = Directory(server.db)
    fresh = [(await create_key(directory, tenant=ACME))[1] for _ in range(10)]
    answers = [await knock(server.app, key) for key in fresh]

    assert flood == [401] * FAILURES + [429] * (20 - FAILURES)
    assert answers == [200] * 10


async def test_a_socket_opens_for_a_fresh_token_during_a_flood(server: World) -> None:
    for number in range(FAILURES + 1):
        await knock(server.app, junk_token(number), peer=STRANGER)
    fresh = server.issuer.token(tid=ACME, oid="alice", jti="fresh")
    messages = await talk(server, fresh, b"{}", address=STRANGER)

    assert messages[0]["type"] == "websocket.accept"


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    """A server that has used its issuer's keys before, so long ago that it may fetch them again."""
    async with issuing() as issuer, clew.open("memory://") as db:
        clock = Seconds()
        settings = issuer.settings()
        keys = IssuerKeys(settings.keys_url, clock)
        app = create_app(db=db, authenticate=TokenAuthentication(Directory(db), settings, keys))
        async with running(app):
            await knock(app, issuer.token())
            clock.now += PAUSE_S
            yield Door(app, issuer)


async def test_a_flood_makes_the_issuers_keys_be_fetched_once(door: Door) -> None:
    before = door.issuer.request_count
    await asyncio.gather(*(knock(door.app, junk_token(number)) for number in range(200)))

    assert door.issuer.request_count == before + 1


async def test_a_flood_holds_up_no_token_whose_key_is_known(door: Door) -> None:
    door.issuer.wait = asyncio.Event()
    door.issuer.arrival.clear()
    flood = [asyncio.create_task(knock(door.app, junk_token(number))) for number in range(20)]
    await door.issuer.arrival.wait()
    async with asyncio.timeout(10):
        status = await knock(door.app, door.issuer.token(jti="fresh"))
    waiting = sum(not task.done() for task in flood)
    door.issuer.wait.set()
    await asyncio.gather(*flood)

    assert (status, waiting) == (200, 20)


async def test_strangers_behind_a_trusted_proxy_are_counted_one_by_one(behind_proxies: World) -> None:
    flood = [
        await knock(behind_proxies.app, junk_token(number), headers=forwarded_headers(STRANGER))
        for number in range(20)
    ]
    other = await knock(behind_proxies.app, junk_token(100), headers=forwarded_headers(NEIGHBOUR))

    assert flood[-1] == 429
    assert other == 401


async def test_strangers_behind_several_trusted_proxies_are_counted_one_by_one(behind_proxies: World) -> None:
    flood = [
        await knock(behind_proxies.app, junk_token(number), headers=forwarded_headers(STRANGER, SECOND_PROXY))
        for number in range(20)
    ]
    other = await knock(
        behind_proxies.app, junk_token(100), headers=forwarded_headers(NEIGHBOUR, SECOND_PROXY)
    )

    assert flood[-1] == 429
    assert other == 401


async def test_nobody_hides_behind_addresses_that_are_made_up(behind_proxies: World) -> None:
    through = [
        await knock(
            behind_proxies.app, junk_token(number), headers=forwarded_headers(f"192.0.2.{number}", STRANGER)
        )
        for number in range(20)
    ]
    past = [
        await knock(
            behind_proxies.app,
            junk_token(number),
            peer=NEIGHBOUR,
            headers=forwarded_headers(f"192.0.2.{number}"),
        )
        for number in range(20)
    ]

    assert through[-1] == past[-1] == 429


async def test_without_trusted_proxies_no_header_is_believed(server: World) -> None:
    flood = [
        await knock(server.app, junk_token(number), headers=forwarded_headers(f"192.0.2.{number}"))
        for number in range(20)
    ]

    assert flood[-1] == 429


async def test_credentials_that_fail_from_many_addresses_are_counted_too(server: World) -> None:
    token = server.issuer.token(tid=ACME, oid="alice", exp=time.time() - 3600)
    answers = [await knock(server.app, token, peer=f"192.0.2.{number}") for number in range(20)]

    assert answers == [401] * FAILURES + [429] * (20 - FAILURES)


async def test_requests_without_credentials_are_counted_by_their_address_alone(server: World) -> None:
    answers = [await knock(server.app, None, peer=f"192.0.2.{number}") for number in range(20)]

    assert answers == [401] * 20
