"""Tokens of an issuer: checked to the last claim, and exchanged for a tenant and a user of ours."""

import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import jwt
import msgspec

from clew.core.encoding import check_id, encode
from clew.core.errors import Forbidden, InvalidId, InvalidInput, Unauthenticated
from clew.server.identity.entries import DEFAULT_WORKSPACE, SCOPES, Login, Membership, Tenant, User
from clew.server.identity.issuer import IssuerKeys
from clew.server.identity.keeping import Directory, Whereabouts, admitted, known, places
from clew.server.identity.keys import bearer
from clew.server.identity.settings import IssuerSettings
from clew.server.identity.values import Identity

ALGORITHM: Final = "RS256"
LONGEST_TOKEN = 16 * 1024
WORKSPACE_HEADER = "x-clew-workspace"


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a token that holds speaks of, in the issuer's words."""

    issuer: str
    subject: str
    tenant: str

    @property
    def login(self) -> str:
        """What stands for this person at this issuer, and for nobody else."""
        return hashlib.sha256(encode([self.issuer, self.tenant, self.subject])).hexdigest()


class TokenAuthentication:
    """Requests that carry a bearer token of the issuer."""

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
        self._whereabouts = Whereabouts()

    async def __call__(self, headers: Mapping[str, str]) -> Identity:
        """Whose token it is, in our own words.

        Raises:
            Unauthenticated: There is no token, or it does not hold.
            Forbidden: It holds, but its tenant or user is not let in.
            IssuerUnavailable: It cannot be checked now.
        """
        token = bearer(headers)
        if token is None:
            raise Unauthenticated(problem="Send a token as Authorization: Bearer.")
        claims = await self._verified(token)
        person = person_of(claims, self._settings, self._clock())
        workspace = headers.get(WORKSPACE_HEADER, DEFAULT_WORKSPACE)
        seen = f"{person.login}/{workspace}"
        names = self._whereabouts.of(seen)
        looked = await self._directory.look((Login.kind, person.login), *names)
        login = looked.get(Login, person.login) or await self._entered(person)
        wanted = places(login.tenant, login.user, workspace)
        if names != wanted:
            looked = await self._directory.look(*wanted)
            self._whereabouts.note(seen, wanted)
        return admitted(looked, tenant=login.tenant, user=login.user, workspace=workspace, scopes=SCOPES)

    async def _verified(self, token: str) -> dict[str, Any]:
        """The claims of a token that the issuer has signed."""
        key = await self._keys.key(_key_id(token))
        if key is None:
            raise Unauthenticated(problem="The token is signed with a key that its issuer does not have.")
        try:
            # Times, issuer and audience are checked with all the other claims, by a clock that is given.
            options: Any = {
                f"verify_{claim}": False for claim in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")
            }
            claims: dict[str, Any] = jwt.decode(token, key, algorithms=[ALGORITHM], options=options)
        except (jwt.PyJWTError, ValueError) as error:
            raise Unauthenticated(problem="The token's signature does not hold.") from error
        return claims

    async def _entered(self, person: Person) -> Login:
        """Which user of ours a person is who is new here, if that is allowed."""
        if not self._settings.first_sight:
            raise Forbidden(problem="This account is not known here. Ask an administrator to enter it.")
        return await enter(self._directory, person)


async def enter(directory: Directory, person: Person) -> Login:
    """A new login, with its user and, if need be, its tenant. Whoever comes second finds it made.

    Raises:
        Forbidden: What is entered already stands in the way.
    """
    try:
        tenant = await _tenant_of(directory, person.tenant)
        user = f"u-{person.login[:24]}"
        if await known(directory, User, tenant, user) is None:
            await directory.add(User(tenant=tenant, id=user))
        if await known(directory, Membership, tenant, DEFAULT_WORKSPACE, user) is None:
            await directory.add(Membership(tenant=tenant, workspace=DEFAULT_WORKSPACE, user=user))
        login = Login(id=person.login, issuer=person.issuer, subject=person.subject, tenant=tenant, user=user)
        return await directory.add(login)
    except InvalidInput as error:
        raise Forbidden(problem=f"This account cannot be entered here: {error}") from error


async def _tenant_of(directory: Directory, external: str) -> str:
    """Our tenant for one of the issuer's."""
    async for tenant in directory.every(Tenant, external=external):
        return tenant.id
    return (await directory.add(Tenant(id=external, external=external))).id


def _key_id(token: str) -> str:
    """The id of the key that a token says it is signed with."""
    if len(token) > LONGEST_TOKEN:
        raise Unauthenticated(problem="The token is too long.")
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError) as error:
        raise Unauthenticated(problem="The token cannot be read.") from error
    if header.get("alg") != ALGORITHM:
        raise Unauthenticated(problem=f"The token is not signed with {ALGORITHM}.")
    id = header.get("kid")
    if not isinstance(id, str) or not id or "crit" in header:
        raise Unauthenticated(problem="The token does not say with which key it is signed.")
    return id


def person_of(claims: Mapping[str, Any], settings: IssuerSettings, now: float) -> Person:
    """Whom the claims of a token speak of, once each of them is found right.

    Raises:
        Unauthenticated: The token is not for us, not from our issuer, or not for this moment.
        Forbidden: Its tenant is not let in.
    """
    _check_times(claims, now, settings.leeway_s)
    issuer, tenant = _text(claims, "iss"), _text(claims, settings.tenant_claim)
    if issuer != settings.issuer.replace("{tenantid}", tenant):
        raise Unauthenticated(problem="The token is from another issuer.")
    if not _audiences(claims) & set(settings.audience):
        raise Unauthenticated(problem="The token is meant for somebody else.")
    if tenant not in settings.tenants:
        raise Forbidden(problem="The token's tenant is not let in here.")
    return Person(issuer=issuer, subject=_text(claims, settings.user_claim), tenant=tenant)


def _check_times(claims: Mapping[str, Any], now: float, leeway: float) -> None:
    """Refuse a token of another time. A time that is no number is refused, since it bounds nothing."""
    if not now < _time(claims, "exp") + leeway:
        raise Unauthenticated(problem="The token has expired.")
    for name in ("nbf", "iat"):
        if name in claims and not _time(claims, name) - leeway <= now:
            raise Unauthenticated(problem="The token does not hold yet.")


def _time(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unauthenticated(problem=f"The token's {name} is not a time.")
    return value


def _text(claims: Mapping[str, Any], name: str) -> str:
    """A claim that names something.

    A subject may be anything printable; what it becomes here is made of its hash.
    """
    try:
        return check_id(claims.get(name), name)
    except InvalidId as error:
        raise Unauthenticated(problem=f"The token's {name} cannot be used.") from error


def _audiences(claims: Mapping[str, Any]) -> set[str]:
    found = claims.get("aud")
    given = found if isinstance(found, list) else [found]
    return {each for each in given if isinstance(each, str)}
