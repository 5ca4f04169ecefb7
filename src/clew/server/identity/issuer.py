"""The keys of an issuer of tokens: fetched, remembered, and fetched again when it signs with a new one."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import InvalidKeyError, PyJWKError
from jwt.algorithms import RSAAlgorithm

from clew.core.errors import IssuerUnavailable
from clew.server.identity.dev import is_loopback
from clew.server.identity.settings import DISCOVERY

FRESH_S = 3600.0
"""How long keys are taken to be all that the issuer has."""

USABLE_S = 24 * 3600.0
"""How long keys are used when no newer ones can be had."""

PAUSE_S = 60.0
"""How long to wait before asking again, whatever strangers put into their tokens."""

RETRY_S = 10.0
"""The same while there are no keys that can be used, and so nobody's token can be checked."""

TIMEOUT_S = 5.0
MOST_BYTES = 1024 * 1024
FEWEST_BITS = 2048


class IssuerKeys:
    """The public keys of one issuer, by their ids.

    One request fetches them; others whose key is known go on with what is there. Nobody can make the server
    ask more often than once a minute, or every ten seconds while it has no keys at all.
    """

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._clock = clock
        self._keys: dict[str, RSAPublicKey] = {}
        self._fetched: float | None = None
        self._tried: float | None = None
        self._problem = "nobody has asked yet"
        self._lock = asyncio.Lock()

    async def key(self, id: str) -> RSAPublicKey | None:
        """The key of that id, if the issuer has one.

        Raises:
            IssuerUnavailable: The issuer's keys are not known and cannot be had.
        """
        is_usable = id in self._keys and self._age() <= USABLE_S
        if self._wanted(id) and not (is_usable and self._lock.locked()):
            async with self._lock:
                if self._wanted(id):
                    await self._fetch()
        if self._age() > USABLE_S:
            raise IssuerUnavailable(issuer=self._url, problem=self._problem)
        return self._keys.get(id)

    def _wanted(self, id: str) -> bool:
        """Whether to ask the issuer: its keys are old, or one is not known; but not again and again."""
        pause = RETRY_S if self._age() > USABLE_S else PAUSE_S
        if self._tried is not None and self._clock() - self._tried < pause:
            return False
        return id not in self._keys or self._age() > FRESH_S

    def _age(self) -> float:
        return float("inf") if self._fetched is None else self._clock() - self._fetched

    async def _fetch(self) -> None:
        """Ask the issuer. Others wait meanwhile, so the time of asking is noted at the end."""
        try:
            self._keys = keys_of(await _download(await self._place()))
            self._fetched = self._clock()
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            self._problem = str(error) or type(error).__name__
        except ValueError as error:
            self._problem = f"what it sent cannot be used ({error})"
        self._tried = self._clock()

    async def _place(self) -> str:
        """Where the keys are: at the URL, or where the issuer's description at the URL says."""
        if not self._url.endswith(DISCOVERY):
            return self._url
        return place_of(await _download(self._url), self._url.removesuffix(DISCOVERY))


def place_of(data: bytes, issuer: str) -> str:
    """Where an issuer publishes its keys, as its description says.

    Raises:
        ValueError: It is another issuer's, or the keys would come over a connection that others can change.
    """
    try:
        told = msgspec.json.decode(data, type=_Description)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError("not the description of an issuer") from error
    if told.issuer.rstrip("/") != issuer:
        raise ValueError("the description of another issuer")
    url = urlsplit(told.jwks_uri)
    if url.scheme != "https" and not is_loopback(url.hostname):
        raise ValueError("keys that come without TLS")
    return told.jwks_uri


class _Description(msgspec.Struct):
    """What an issuer says about itself; much more than this."""

    issuer: str
    jwks_uri: str


async def _download(url: str) -> bytes:
    """What is at a URL, if it comes soon and is not too much."""
    async with (
        asyncio.timeout(TIMEOUT_S),
        httpx.AsyncClient(timeout=TIMEOUT_S) as client,
        client.stream("GET", url, headers={"accept": "application/json"}) as answer,
    ):
        answer.raise_for_status()
        received = b""
        async for piece in answer.aiter_bytes():
            received += piece
            if len(received) > MOST_BYTES:
                raise ValueError(f"more than {MOST_BYTES:,} bytes")
        return received


def keys_of(data: bytes) -> dict[str, RSAPublicKey]:
    """The keys in a JSON Web Key Set with which RS256 tokens can be checked. Others are passed over.

    Raises:
        ValueError: It is not such a set, or holds no such key.
    """
    try:
        found = msgspec.json.decode(data, type=dict[str, Any]).get("keys")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError("not a JSON object") from error
    entries = found if isinstance(found, list) else []
    keys = {entry["kid"]: key for entry in entries if (key := _key_of(entry)) is not None}
    if not keys:
        raise ValueError("no key that can check RS256")
    return keys


def _key_of(entry: object) -> RSAPublicKey | None:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("kid"), str):
        return None
    if entry.get("kty") != "RSA" or entry.get("use", "sig") != "sig" or entry.get("alg", "RS256") != "RS256":
        return None
    try:
        key = RSAAlgorithm.from_jwk({"kty": "RSA", "n": entry.get("n"), "e": entry.get("e")})
    except (InvalidKeyError, PyJWKError, ValueError, TypeError, AttributeError):
        return None  # one broken key says nothing about the others
    return key if isinstance(key, RSAPublicKey) and key.key_size >= FEWEST_BITS else None
