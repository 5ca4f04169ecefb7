"""Identities of requests, and the settings of authentication from the environment."""

from collections.abc import Mapping
from typing import Final, Literal, Protocol, get_args

import msgspec

from clew.core.encoding import RESERVED_TENANT_PREFIX, check_id
from clew.core.errors import Forbidden, InvalidArgument
from clew.server.identity.entries import DEFAULT_WORKSPACE


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a request: a tenant, a user, and how far it reaches.

    Without a ``user`` it speaks for the tenant as a whole. A server's own tenant cannot be named.
    """

    tenant: str
    user: str | None
    workspace: str
    roles: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for value, what in ((self.tenant, "tenant"), (self.workspace, "workspace")):
            check_id(value, what)
        if self.user is not None:
            check_id(self.user, "user")
        if self.tenant.startswith(RESERVED_TENANT_PREFIX):
            raise Forbidden(problem=f"Tenant {self.tenant!r} is the server's own.")

    def decides_for_tenant(self, *roles: str) -> bool:
        """Return whether it has one of some roles in the first workspace.

        Threads belong to no workspace, so a role in any other workspace reaches no thread.
        """
        return self.workspace == DEFAULT_WORKSPACE and not self.roles.isdisjoint(roles)


class Authenticate(Protocol):
    """Authenticates a request by its headers."""

    async def __call__(self, headers: Mapping[str, str]) -> Identity:
        """Return the identity of a request; the names of the headers are in lower case.

        Raises:
            Unauthenticated: There are no credentials, or none that are valid.
            Forbidden: They are valid, but have no access here.
            IssuerUnavailable: They cannot be checked now.
        """
        ...


AuthMode = Literal["dev", "keys", "entra", "oidc"]
ENTRA_ISSUER: Final = "https://login.microsoftonline.com/{tenantid}/v2.0"
DISCOVERY: Final = "/.well-known/openid-configuration"
"""Where an issuer describes itself, below its own URL."""

ENTRA_KEYS: Final = "https://login.microsoftonline.com/common/discovery/v2.0/keys"


class IssuerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The issuer whose tokens are accepted, and the claims that they must have.

    ``issuer`` may hold ``{tenantid}``, which stands for the token's tenant. ``tenants`` are the tenants that
    are let in, by their names at the issuer. ``first_sight`` lets in users of theirs who are not known yet.
    """

    issuer: str
    keys_url: str
    audience: tuple[str, ...]
    tenants: frozenset[str]
    tenant_claim: str = "tid"
    user_claim: str = "sub"
    leeway_s: int = 60
    first_sight: bool = True


class AuthSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of authentication. API keys are valid in every mode."""

    mode: AuthMode = "dev"
    issuer: IssuerSettings | None = None


def auth_settings(environment: Mapping[str, str]) -> AuthSettings:
    """Return the settings of the environment.

    Raises:
        InvalidArgument: One is missing, or not valid.
    """
    mode = environment.get("AUTH_MODE", "dev").strip().lower()
    for choice in get_args(AuthMode):
        if mode == choice:
            issuer = _issuer_settings(environment, mode) if mode in ("entra", "oidc") else None
            return AuthSettings(mode=choice, issuer=issuer)
    raise InvalidArgument(problem=f"AUTH_MODE={mode!r} is not known; say {', '.join(get_args(AuthMode))}.")


def _issuer_settings(environment: Mapping[str, str], mode: str) -> IssuerSettings:
    is_entra = mode == "entra"
    issuer = _required_setting(environment, "CLEW_OIDC_ISSUER", ENTRA_ISSUER if is_entra else None)
    return IssuerSettings(
        issuer=issuer,
        keys_url=_required_setting(
            environment, "CLEW_OIDC_KEYS_URL", ENTRA_KEYS if is_entra else _discovery_url(issuer)
        ),
        audience=_split_list(_required_setting(environment, "CLEW_OIDC_AUDIENCE")),
        tenants=frozenset(_split_list(_required_setting(environment, "CLEW_OIDC_TENANTS"))),
        tenant_claim=environment.get("CLEW_OIDC_TENANT_CLAIM", "tid"),
        user_claim=environment.get("CLEW_OIDC_USER_CLAIM", "oid" if is_entra else "sub"),
        leeway_s=_seconds(environment, "CLEW_OIDC_LEEWAY", 60),
        first_sight=is_setting_on(environment, "CLEW_OIDC_FIRST_SIGHT", default=True),
    )


def _discovery_url(issuer: str) -> str | None:
    """Return the URL of an issuer's description; None for a template, which stands for many issuers."""
    return None if "{" in issuer else f"{issuer.rstrip('/')}{DISCOVERY}"


def is_setting_on(environment: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return whether a setting is on.

    Raises:
        InvalidArgument: It is neither.
    """
    text = environment.get(name, "").strip().lower()
    if text in ("", "true", "1", "yes", "on", "false", "0", "no", "off"):
        return text in ("true", "1", "yes", "on") if text else default
    raise InvalidArgument(problem=f"{name}={text!r} is neither true nor false.")


def _required_setting(environment: Mapping[str, str], name: str, default: str | None = None) -> str:
    value = environment.get(name, "").strip() or default
    if not value:
        raise InvalidArgument(problem=f"{name} is not set, and AUTH_MODE needs it.")
    return value


def _split_list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _seconds(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "").strip()
    if text and not (text.isdecimal() and int(text) <= 300):
        raise InvalidArgument(problem=f"{name}={text!r} must be a number of seconds up to 300.")
    return int(text) if text else default
