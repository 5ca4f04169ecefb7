"""API keys: random, shown once, stored as a hash, found by their public part."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from clew.core.errors import InvalidArgument, RecordNotFound, Unauthenticated
from clew.server.identity.directory import CredentialCache, Directory, EntrySet, Grant
from clew.server.identity.entries import DEFAULT_WORKSPACE, ApiKey, check_among
from clew.server.identity.identity import Identity
from clew.server.identity.roles import KEY_SCOPES, READ, WRITE

KEY_PREFIX: Final = "clew_"
"""The prefix of every key, by which scanners recognise one that leaked."""

PUBLIC_BYTES = 8
SECRET_BYTES = 32
HOUR_MS = 3_600_000


async def create_key(
    directory: Directory,
    *,
    tenant: str,
    user: str | None = None,
    workspace: str = DEFAULT_WORKSPACE,
    label: str = "",
    scopes: tuple[str, ...] = (READ, WRITE),
    lifetime_ms: int | None = None,
    random: Callable[[int], bytes] = secrets.token_bytes,
) -> tuple[ApiKey, str]:
    """Create a key; return it with the text that its holder sends, which is stored nowhere.

    Without a user the key speaks for the tenant as a whole.

    Raises:
        InvalidArgument: A scope is not known, or the key would have expired already.
        RecordNotFound: The tenant, the workspace or the membership is not there.
    """
    if lifetime_ms is not None and lifetime_ms <= 0:
        raise InvalidArgument(problem="A key must last for some time, or for ever.")
    public = random(PUBLIC_BYTES).hex()
    secret = base64.urlsafe_b64encode(random(SECRET_BYTES)).rstrip(b"=").decode()
    key = ApiKey(
        id=public,
        tenant=tenant,
        user=user,
        workspace=workspace,
        label=label,
        scopes=check_among(scopes, KEY_SCOPES, "scope"),
        hash=_secret_hash(secret),
        expires=None if lifetime_ms is None else directory.now() + lifetime_ms,
    )
    return await directory.add(key), f"{KEY_PREFIX}{public}_{secret}"


async def revoke_key(directory: Directory, public: str) -> ApiKey:
    """Revoke a key at once. Revoking it again changes nothing."""
    key = await directory.get(ApiKey, public)
    return key if key.revoked is not None else await directory.change(key, revoked=directory.now())


class KeyAuthentication:
    """Authenticates requests by an API key, as a bearer token or in ``X-API-Key``."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._cache = CredentialCache(directory)

    async def __call__(self, headers: Mapping[str, str]) -> Identity:
        """Return the identity of a key.

        Raises:
            Unauthenticated: There is no key, or it is not valid.
            Forbidden: It is valid, but its tenant or user is disabled.
        """
        text = api_key_in(headers)
        if text is None:
            raise Unauthenticated(problem="no API key. Send one as a bearer token or in X-API-Key.")
        public, _, secret = text.removeprefix(KEY_PREFIX).partition("_")
        if not _is_public_part(public):
            raise Unauthenticated(problem="the API key is not known.")

        async def find_key(entries: EntrySet) -> ApiKey:
            return self._check_key(entries.get(ApiKey, public), secret)

        key, identity = await self._cache.admit(public, (ApiKey.kind, public), find_key, _grant_of)
        await self._mark_used(key)
        return identity

    def _check_key(self, key: ApiKey | None, secret: str) -> ApiKey:
        # The same work is done for a key that is not there, so that its time tells nobody which keys are.
        is_match = hmac.compare_digest(_secret_hash(secret), key.hash if key else _secret_hash(""))
        if key is None or not is_match:
            raise Unauthenticated(problem="the API key is not known.")
        if key.revoked is not None:
            raise Unauthenticated(problem="the API key was revoked.")
        if key.expires is not None and key.expires <= self._directory.now():
            raise Unauthenticated(problem="the API key has expired.")
        return key

    async def _mark_used(self, key: ApiKey) -> None:
        """Record the hour of use, once an hour: a write for each request would cost more than the request."""
        hour = self._directory.now() // HOUR_MS * HOUR_MS
        if key.used is None or key.used < hour:
            with suppress(RecordNotFound):  # the key was removed at this moment
                await self._directory.change(key, used=hour)


def api_key_in(headers: Mapping[str, str]) -> str | None:
    """Return the API key that a request carries; None if it carries none."""
    text = headers.get("x-api-key") or bearer_token(headers)
    return text if text is not None and text.startswith(KEY_PREFIX) else None


def public_part(key: str) -> str:
    """Return the part of an API key that names it, and is no secret."""
    return key.removeprefix(KEY_PREFIX).partition("_")[0]


def bearer_token(headers: Mapping[str, str]) -> str | None:
    """Return the bearer token that a request carries; None if it carries none."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() or None if kind.lower() == "bearer" else None


def _grant_of(key: ApiKey) -> Grant:
    return Grant(tenant=key.tenant, user=key.user, workspace=key.workspace, scopes=frozenset(key.scopes))


def _is_public_part(text: str) -> bool:
    return len(text) == 2 * PUBLIC_BYTES and all(letter in "0123456789abcdef" for letter in text)


def _secret_hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
