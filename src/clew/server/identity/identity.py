"""How requests are authenticated: read from the environment, once."""

from collections.abc import Mapping
from typing import Final, Literal, Protocol, get_args

import msgspec

from clew.core.encoding import RESERVED, check_id
from clew.core.errors import Forbidden, InvalidArgument


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """On whose behalf a request is made, and how far it reaches.

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
        if self.tenant.startswith(RESERVED):
            raise Forbidden(problem=f"Tenant {self.tenant!r} is the server's own.")


class Authenticate(Protocol):
    """How a request proves whose it is."""

    async def __call__(self, headers: Mapping[str, str]) -> Identity:
        """Whose request this is, by its headers; their names are in lower case.

        Raises:
            Unauthenticated: There are no credentials, or none that hold.
            Forbidden: They hold, but not here.
            IssuerUnavailable: They cannot be checked now.
        """
        ...


Mode = Literal["dev", "keys", "entra", "oidc"]
ENTRA_ISSUER: Final = "https://login.microsoftonline.com/{tenantid}/v2.0"
DISCOVERY: Final = "/.well-known/openid-configuration"
"""Where an issuer describes itself, below its own URL."""

ENTRA_KEYS: Final = "https://login.microsoftonline.com/common/discovery/v2.0/keys"


class IssuerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Whose tokens are taken, and what must stand in them.

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
    """The way in. API keys hold in every mode."""

    mode: Mode = "dev"
    issuer: IssuerSettings | None = None


def auth_settings(environment: Mapping[str, str]) -> AuthSettings:
    """The settings that the environment gives.

    Raises:
        InvalidArgument: One is missing, or makes no sense.
    """
    mode = environment.get("AUTH_MODE", "dev").strip().lower()
    for known in get_args(Mode):
        if mode == known:
            issuer = _issuer(environment, mode) if mode in ("entra", "oidc") else None
            return AuthSettings(mode=known, issuer=issuer)
    raise InvalidArgument(problem=f"AUTH_MODE={mode!r} is not known; say {', '.join(get_args(Mode))}.")


def _issuer(environment: Mapping[str, str], mode: str) -> IssuerSettings:
    entra = mode == "entra"
    issuer = _needed(environment, "CLEW_OIDC_ISSUER", ENTRA_ISSUER if entra else None)
    return IssuerSettings(
        issuer=issuer,
        keys_url=_needed(environment, "CLEW_OIDC_KEYS_URL", ENTRA_KEYS if entra else _described(issuer)),
        audience=_listed(_needed(environment, "CLEW_OIDC_AUDIENCE")),
        tenants=frozenset(_listed(_needed(environment, "CLEW_OIDC_TENANTS"))),
        tenant_claim=environment.get("CLEW_OIDC_TENANT_CLAIM", "tid"),
        user_claim=environment.get("CLEW_OIDC_USER_CLAIM", "oid" if entra else "sub"),
        leeway_s=_number(environment, "CLEW_OIDC_LEEWAY", 60),
        first_sight=truth(environment, "CLEW_OIDC_FIRST_SIGHT", default=True),
    )


def _described(issuer: str) -> str | None:
    """Where an issuer says where its keys are; nowhere for a template, which stands for many issuers."""
    return None if "{" in issuer else f"{issuer.rstrip('/')}{DISCOVERY}"


def truth(environment: Mapping[str, str], name: str, *, default: bool) -> bool:
    """A setting that is on or off.

    Raises:
        InvalidArgument: It is neither.
    """
    said = environment.get(name, "").strip().lower()
    if said in ("", "true", "1", "yes", "on", "false", "0", "no", "off"):
        return said in ("true", "1", "yes", "on") if said else default
    raise InvalidArgument(problem=f"{name}={said!r} is neither true nor false.")


def _needed(environment: Mapping[str, str], name: str, default: str | None = None) -> str:
    found = environment.get(name, "").strip() or default
    if not found:
        raise InvalidArgument(problem=f"{name} is not set, and AUTH_MODE needs it.")
    return found


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    said = environment.get(name, "").strip()
    if said and not (said.isdecimal() and int(said) <= 300):
        raise InvalidArgument(problem=f"{name}={said!r} must be a number of seconds up to 300.")
    return int(said) if said else default
