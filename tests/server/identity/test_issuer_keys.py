"""The keys of an issuer: fetched once, again when they rotate, and kept when the issuer is not well."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest
from jwt.algorithms import RSAAlgorithm

from clew.core.errors import InvalidArgument, IssuerUnavailable
from clew.server.identity import oidc as issuers
from clew.server.identity.identity import DISCOVERY, auth_settings
from clew.server.identity.oidc import FRESH_S, PAUSE_S, RETRY_S, USABLE_S, IssuerKeys, keys_of, keys_url_of
from tests.support.issuer import Issuer, issuing, rsa_key


class Seconds:
    """A clock in seconds that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Seconds:
    return Seconds()


@pytest.fixture
def keys(issuer: Issuer, time: Seconds) -> IssuerKeys:
    return IssuerKeys(f"{issuer.url}/keys", time)


async def test_keys_are_fetched_once(issuer: Issuer, keys: IssuerKeys) -> None:
    keys_got = [await keys.key("first") for _ in range(5)]

    assert all(keys_got)
    assert issuer.request_count == 1


@pytest.mark.promise("F-09")
async def test_a_new_key_is_found_when_it_is_first_used(
    issuer: Issuer, keys: IssuerKeys, time: Seconds
) -> None:
    await keys.key("first")
    issuer.rotate("second")
    time.now += PAUSE_S
    second = await keys.key("second")

    assert second is not None
    assert second.public_numbers() == rsa_key(2).public_key().public_numbers()
    assert await keys.key("first") is None


@pytest.mark.promise("F-09")
async def test_unknown_keys_make_nobody_ask_more_than_once_a_minute(
    issuer: Issuer, keys: IssuerKeys, time: Seconds
) -> None:
    for number in range(200):
        time.now += 1.0
        await keys.key(f"made up {number}")

    assert issuer.request_count == 4


async def test_without_keys_an_issuer_is_asked_every_ten_seconds(
    issuer: Issuer, keys: IssuerKeys, time: Seconds
) -> None:
    issuer.status = 503
    for _ in range(60):
        with pytest.raises(IssuerUnavailable):
            await keys.key("first")
        time.now += 1.0

    assert issuer.request_count == 6


async def test_a_hundred_first_requests_at_once_ask_once(issuer: Issuer, keys: IssuerKeys) -> None:
    keys_got = await asyncio.gather(*(keys.key("first") for _ in range(100)))

    assert all(keys_got)
    assert issuer.request_count == 1


async def test_old_keys_are_looked_up_again(issuer: Issuer, keys: IssuerKeys, time: Seconds) -> None:
    await keys.key("first")
    issuer.rotate("second")
    time.now += FRESH_S + 1

    assert await keys.key("first") is None
    assert issuer.request_count == 2


async def test_known_keys_hold_for_a_day_while_the_issuer_is_ill(
    issuer: Issuer, keys: IssuerKeys, time: Seconds
) -> None:
    await keys.key("first")
    issuer.status = 500
    time.now += USABLE_S - 1
    key = await keys.key("first")
    time.now += 2

    assert key is not None
    with pytest.raises(IssuerUnavailable, match="500"):
        await keys.key("first")


async def test_an_issuer_that_is_well_again_is_asked_again(
    issuer: Issuer, keys: IssuerKeys, time: Seconds
) -> None:
    issuer.status = 503
    with pytest.raises(IssuerUnavailable):
        await keys.key("first")
    issuer.status = 200
    with pytest.raises(IssuerUnavailable):
        await keys.key("first")
    time.now += RETRY_S

    assert await keys.key("first") is not None


async def test_after_a_quiet_day_all_who_come_at_once_wait_for_the_keys(
    issuer: Issuer, keys: IssuerKeys, time: Seconds
) -> None:
    await keys.key("first")
    time.now += USABLE_S + 1
    keys_got = await asyncio.gather(*(keys.key("first") for _ in range(10)))

    assert all(keys_got)


async def test_an_issuer_that_is_not_there_is_named() -> None:
    async with issuing() as dead_issuer:
        url = f"{dead_issuer.url}/keys"

    with pytest.raises(IssuerUnavailable) as error:
        await IssuerKeys(url).key("first")
    assert error.value.issuer == url


async def test_a_slow_issuer_holds_up_nobody_whose_key_is_known(
    issuer: Issuer, keys: IssuerKeys, time: Seconds
) -> None:
    await keys.key("first")
    issuer.wait = asyncio.Event()
    issuer.arrival.clear()
    time.now += FRESH_S + 1
    slow = asyncio.create_task(keys.key("second"))
    await issuer.arrival.wait()
    key = await asyncio.wait_for(keys.key("first"), 1)
    issuer.wait.set()
    await slow

    assert key is not None


async def test_a_slow_issuer_is_given_up_on(
    issuer: Issuer, keys: IssuerKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuers, "TIMEOUT_S", 0.05)
    issuer.wait = asyncio.Event()

    with pytest.raises(IssuerUnavailable):
        await keys.key("first")


def entry(**fields: Any) -> dict[str, Any]:
    """A key as it is published."""
    fields_of_key = {**json.loads(RSAAlgorithm.to_jwk(rsa_key(1).public_key())), "kid": "k", "use": "sig"}
    return {name: value for name, value in (fields_of_key | fields).items() if value is not None}


WEAK = json.loads(RSAAlgorithm.to_jwk(rsa_key(1, 1024).public_key()))
UNUSABLE: dict[str, dict[str, Any]] = {
    "for encryption": {"use": "enc"},
    "of another algorithm": {"alg": "RS512"},
    "of another kind": {"kty": "oct", "k": base64.b64encode(b"secret").decode()},
    "without an id": {"kid": None},
    "with a number as its id": {"kid": 7},
    "without a modulus": {"n": None},
    "with a broken modulus": {"n": "!"},
    "with an even exponent": {"e": base64.urlsafe_b64encode(b"\x02").decode()},
    "with a list in it": {"n": ["x"]},
    "too short": {"n": WEAK["n"]},
}


@pytest.mark.parametrize("fields", UNUSABLE.values(), ids=UNUSABLE.keys())
def test_a_key_is_passed_over_that_is(fields: dict[str, Any]) -> None:
    by_id = keys_of(json.dumps({"keys": [entry(**fields), entry(kid="good"), "not a key"]}).encode())

    assert list(by_id) == ["good"]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"keys": []}',
        b'{"keys": {}}',
        b"\xff",
        b"[" * 100_000,
        b"x" * 2_000_000,
    ],
    ids=["empty", "a page", "a list", "no keys", "empty keys", "keys by name", "no text", "deep", "giant"],
)
async def test_what_is_not_a_set_of_keys_is_refused(issuer: Issuer, keys: IssuerKeys, answer: bytes) -> None:
    issuer.answer = answer

    with pytest.raises(IssuerUnavailable, match="cannot be used"):
        await keys.key("first")


async def test_a_malformed_answer_does_not_replace_good_keys(
    issuer: Issuer, keys: IssuerKeys, time: Seconds
) -> None:
    await keys.key("first")
    issuer.answer = b'{"keys": []}'
    time.now += FRESH_S + 1

    assert await keys.key("first") is not None


async def test_a_redirect_is_not_followed(issuer: Issuer, keys: IssuerKeys) -> None:
    issuer.status = 302

    with pytest.raises(IssuerUnavailable):
        await keys.key("first")
    assert issuer.request_count == 1


# Where they are.


@pytest.mark.promise("F-09")
async def test_an_issuer_says_itself_where_its_keys_are(issuer: Issuer, time: Seconds) -> None:
    key = await IssuerKeys(f"{issuer.url}{DISCOVERY}", time).key("first")

    assert key is not None
    assert issuer.request_count == 2


@pytest.mark.promise("F-09")
@pytest.mark.parametrize(
    "says",
    [
        {"issuer": "https://somebody.else"},
        {"jwks_uri": "http://192.0.2.7/keys"},
        {"jwks_uri": "file:///keys"},
    ],
    ids=["another issuer", "keys without TLS", "keys in a file"],
)
async def test_a_description_that_leads_elsewhere_is_refused(
    issuer: Issuer, time: Seconds, says: dict[str, str]
) -> None:
    issuer.discovery_fields = says

    with pytest.raises(IssuerUnavailable):
        await IssuerKeys(f"{issuer.url}{DISCOVERY}", time).key("first")


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"issuer": 1, "jwks_uri": 2}', b"\xff"])
def test_what_describes_no_issuer_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="description"):
        keys_url_of(data, "https://issuer.example")


def test_without_a_place_the_description_is_asked() -> None:
    environment = {
        "AUTH_MODE": "oidc",
        "CLEW_OIDC_AUDIENCE": "api://clew",
        "CLEW_OIDC_TENANTS": "acme",
        "CLEW_OIDC_ISSUER": "https://issuer.example/",
    }
    settings = auth_settings(environment).issuer

    assert settings is not None
    assert settings.keys_url == f"https://issuer.example{DISCOVERY}"
    with pytest.raises(InvalidArgument):
        auth_settings({**environment, "CLEW_OIDC_ISSUER": "https://issuer.example/{tenantid}"})
