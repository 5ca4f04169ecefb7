"""Authentication by tokens of an issuer: every claim is checked, and mapped to a tenant and a user."""

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import InvalidKeyError, PyJWKError
from jwt.algorithms import RSAAlgorithm

from clew.core.addresses import is_loopback
from clew.core.encoding import check_id, encode
from clew.core.errors import Forbidden, InvalidId, InvalidInput, IssuerUnavailable, Unauthenticated
from clew.server.identity.api_keys import bearer_token
from clew.server.identity.directory import (
    CredentialCache,
    Directory,
    EntrySet,
    Grant,
    find_entry,
)
from clew.server.identity.entries import DEFAULT_WORKSPACE, Login, Membership, Tenant, User
from clew.server.identity.identity import DISCOVERY, Identity, IssuerSettings
from clew.server.identity.roles import SCOPES

FRESH_S = 3600.0
"""How long keys are taken to be all that the issuer has."""

USABLE_S = 24 * 3600.0
"""How long keys are used when no newer ones can be fetched."""

PAUSE_S = 60.0
"""How long to wait before asking again, whatever strangers put into their tokens."""

RETRY_S = 10.0
"""The same while there are no keys that can be used, and so nobody's token can be checked."""

TIMEOUT_S = 5.0
MOST_BYTES = 1024 * 1024
FEWEST_BITS = 2048


class IssuerKeys:
    """The public keys of one issuer, by their ids.

    One request fetches them; others whose key is known go on with what is there. No client makes the server
    ask more often than once a minute, or every ten seconds while it has no keys at all.
    """

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._clock = clock
        self._keys: dict[str, RSAPublicKey] = {}
        self._fetch_time: float | None = None
        self._attempt_time: float | None = None
        self._problem = "nobody has asked yet"
        self._lock = asyncio.Lock()

    async def key(self, id: str) -> RSAPublicKey | None:
        """Return the key of an id; None if the issuer has none.

        Raises:
            IssuerUnavailable: The issuer's keys are not known and cannot be fetched.
        """
        is_usable = id in self._keys and self._age() <= USABLE_S
        if self._should_fetch(id) and not (is_usable and self._lock.locked()):
            async with self._lock:
                if self._should_fetch(id):
                    await self._fetch()
        if self._age() > USABLE_S:
            raise IssuerUnavailable(issuer=self._url, problem=self._problem)
        return self._keys.get(id)

    def _should_fetch(self, id: str) -> bool:
        """Return whether to fetch: the keys are old, or one is not known; but not again and again."""
        pause = RETRY_S if self._age() > USABLE_S else PAUSE_S
        if self._attempt_time is not None and self._clock() - self._attempt_time < pause:
            return False
        return id not in self._keys or self._age() > FRESH_S

    def _age(self) -> float:
        return float("inf") if self._fetch_time is None else self._clock() - self._fetch_time

    async def _fetch(self) -> None:
        """Fetch the keys. Others wait meanwhile, so the time of the attempt is noted at the end."""
        try:
            self._keys = keys_of(await _download(await self._keys_url()))
            self._fetch_time = self._clock()
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            self._problem = str(error) or type(error).__name__
        except ValueError as error:
            self._problem = f"what it sent cannot be used ({error})"
        self._attempt_time = self._clock()

    async def _keys_url(self) -> str:
        """Return the URL of the keys, also where the URL is that of the issuer's description."""
        if not self._url.endswith(DISCOVERY):
            return self._url
        return keys_url_of(await _download(self._url), self._url.removesuffix(DISCOVERY))


def keys_url_of(data: bytes, issuer: str) -> str:
    """Return the URL of the keys that the description of an issuer names.

    Raises:
        ValueError: It is another issuer's, or the keys would come over a connection that others can change.
    """
    try:
        description = msgspec.json.decode(data, type=_IssuerDescription)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError("not the description of an issuer") from error
    if description.issuer.rstrip("/") != issuer:
        raise ValueError("the description of another issuer")
    url = urlsplit(description.jwks_uri)
    if url.scheme != "https" and not is_loopback(url.hostname):
        raise ValueError("keys that come without TLS")
    return description.jwks_uri


class _IssuerDescription(msgspec.Struct):
    """The description of an issuer, as far as it is used."""

    issuer: str
    jwks_uri: str


async def _download(url: str) -> bytes:
    """Return the content of a URL, if it comes soon and is not too long."""
    async with (
        asyncio.timeout(TIMEOUT_S),
        httpx.AsyncClient(timeout=TIMEOUT_S) as client,
        client.stream("GET", url, headers={"accept": "application/json"}) as answer,
    ):
        answer.raise_for_status()
        content = b""
        async for piece in answer.aiter_bytes():
            content += piece
            if len(content) > MOST_BYTES:
                raise ValueError(f"more than {MOST_BYTES:,} bytes")
        return content


def keys_of(data: bytes) -> dict[str, RSAPublicKey]:
    """Return the keys of a JSON Web Key Set that check RS256 tokens; others are skipped.

    Raises:
        ValueError: It is not such a set, or holds no such key.
    """
    try:
        value = msgspec.json.decode(data, type=dict[str, Any]).get("keys")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError("not a JSON object") from error
    entries = value if isinstance(value, list) else []
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


ALGORITHM: Final = "RS256"
LONGEST_TOKEN = 16 * 1024
WORKSPACE_HEADER = "x-clew-workspace"


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """The subject of a valid token, as the issuer names it."""

    issuer: str
    subject: str
    tenant: str

    @property
    def login(self) -> str:
        """The id of the login of this person: a hash of the issuer, its tenant and its subject."""
        return hashlib.sha256(encode([self.issuer, self.tenant, self.subject])).hexdigest()


class TokenAuthentication:
    """Authenticates requests by a bearer token of the issuer."""

    def __init__(
        self,
        directory: Directory,
        settings: IssuerSettings,
        keys: IssuerKeys | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._directory = directory
        self._settings = settings
        self._keys = keys or IssuerKeys(settings.keys_url)
        self._clock = clock
        self._cache = CredentialCache(directory)

    async def __call__(self, headers: Mapping[str, str]) -> Identity:
        """Return the identity of a token.

        Raises:
            Unauthenticated: There is no token, or it is not valid.
            Forbidden: It is valid, but its tenant or user has no access.
            IssuerUnavailable: It cannot be checked now.
        """
        token = bearer_token(headers)
        if token is None:
            raise Unauthenticated(problem="no token. Send one as Authorization: Bearer.")
        claims = await self._verify_token(token)
        person = person_of(claims, self._settings, self._clock())
        workspace = headers.get(WORKSPACE_HEADER, DEFAULT_WORKSPACE)

        async def find_login(entries: EntrySet) -> Login:
            return entries.get(Login, person.login) or await self._register_if_allowed(person)

        def grant_of(login: Login) -> Grant:
            return Grant(tenant=login.tenant, user=login.user, workspace=workspace, scopes=SCOPES)

        name = f"{person.login}/{workspace}"
        _, identity = await self._cache.admit(name, (Login.kind, person.login), find_login, grant_of)
        return identity

    async def _verify_token(self, token: str) -> dict[str, Any]:
        """Return the claims of a token that the issuer has signed."""
        key = await self._keys.key(_key_id(token))
        if key is None:
            raise Unauthenticated(problem="the token is signed with a key that its issuer does not have.")
        try:
            # Times, issuer and audience are checked in ``person_of``, by our own clock and rules.
            options: Any = {
                f"verify_{claim}": False for claim in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")
            }
            claims: dict[str, Any] = jwt.decode(token, key, algorithms=[ALGORITHM], options=options)
        except (jwt.PyJWTError, ValueError) as error:
            raise Unauthenticated(problem="the signature of the token is not valid.") from error
        return claims

    async def _register_if_allowed(self, person: Person) -> Login:
        """Register a person who is new here, if that is allowed."""
        if not self._settings.first_sight:
            raise Forbidden(problem="This account is not known here. Ask an administrator to add it.")
        return await register_person(self._directory, person)


async def register_person(directory: Directory, person: Person) -> Login:
    """Add a login, with its user and, if need be, its tenant; return the one that is there if there is one.

    Raises:
        Forbidden: It conflicts with an entry that is there already.
    """
    try:
        tenant = await _tenant_of(directory, person.tenant)
        user = f"u-{person.login[:24]}"
        if await find_entry(directory, User, tenant, user) is None:
            await directory.add(User(tenant=tenant, id=user))
        if await find_entry(directory, Membership, tenant, DEFAULT_WORKSPACE, user) is None:
            await directory.add(Membership(tenant=tenant, workspace=DEFAULT_WORKSPACE, user=user))
        login = Login(id=person.login, issuer=person.issuer, subject=person.subject, tenant=tenant, user=user)
        return await directory.add(login)
    except InvalidInput as error:
        raise Forbidden(problem=f"This account cannot be added here: {error}") from error


async def _tenant_of(directory: Directory, external: str) -> str:
    """Return our tenant for one of the issuer's; it is added if there is none."""
    async for tenant in directory.entries(Tenant, external=external):
        return tenant.id
    return (await directory.add(Tenant(id=external, external=external))).id


def _key_id(token: str) -> str:
    """Return the id of the key that a token says it is signed with."""
    if len(token) > LONGEST_TOKEN:
        raise Unauthenticated(problem="the token is too long.")
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError) as error:
        raise Unauthenticated(problem="the token cannot be read.") from error
    if header.get("alg") != ALGORITHM:
        raise Unauthenticated(problem=f"the token is not signed with {ALGORITHM}.")
    id = header.get("kid")
    if not isinstance(id, str) or not id or "crit" in header:
        raise Unauthenticated(problem="the token does not say with which key it is signed.")
    return id


def person_of(claims: Mapping[str, Any], settings: IssuerSettings, now: float) -> Person:
    """Return the person of a token, once each of its claims is checked.

    Raises:
        Unauthenticated: The token is not for us, not from our issuer, or not for this moment.
        Forbidden: Its tenant has no access.
    """
    _check_times(claims, now, settings.leeway_s)
    issuer, tenant = _text(claims, "iss"), _text(claims, settings.tenant_claim)
    if issuer != settings.issuer.replace("{tenantid}", tenant):
        raise Unauthenticated(problem="the token is from another issuer.")
    if not _audiences(claims) & set(settings.audience):
        raise Unauthenticated(problem="the token is for another audience.")
    if tenant not in settings.tenants:
        raise Forbidden(problem="The tenant of the token has no access here.")
    return Person(issuer=issuer, subject=_text(claims, settings.user_claim), tenant=tenant)


def _check_times(claims: Mapping[str, Any], now: float, leeway: float) -> None:
    """Refuse a token of another time. A time that is no number is refused, since it bounds nothing."""
    if not now < _time(claims, "exp") + leeway:
        raise Unauthenticated(problem="the token has expired.")
    for name in ("nbf", "iat"):
        if name in claims and not _time(claims, name) - leeway <= now:
            raise Unauthenticated(problem="the token is not valid yet.")


def _time(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unauthenticated(problem=f"the claim {name} of the token is not a time.")
    return value


def _text(claims: Mapping[str, Any], name: str) -> str:
    """Return a claim that is a name.

    A subject may be anything printable; what it becomes here is made of its hash.
    """
    try:
        return check_id(claims.get(name), name)
    except InvalidId as error:
        raise Unauthenticated(problem=f"the claim {name} of the token is not valid.") from error


def _audiences(claims: Mapping[str, Any]) -> set[str]:
    claim = claims.get("aud")
    values = claim if isinstance(claim, list) else [claim]
    return {each for each in values if isinstance(each, str)}
