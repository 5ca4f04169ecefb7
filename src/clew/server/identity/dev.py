"""Authentication for development: every request from this machine is valid, and no other."""

from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

import msgspec

from clew.core.addresses import is_loopback
from clew.core.encoding import check_id
from clew.core.errors import Unauthenticated
from clew.core.values import DEFAULT_TENANT
from clew.server.identity.entries import DEFAULT_WORKSPACE
from clew.server.identity.identity import Identity
from clew.server.identity.roles import KEY_SCOPES, ROLES

NOBODY = "*"
"""Names no user, as a request without the header does."""
CREDENTIAL_HEADERS = ("authorization", "x-api-key")
PROXY_HEADERS = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
DEFAULT_PORTS = {"http": 80, "https": 443}


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of a page: pages of one origin trust each other, and no others."""

    scheme: str
    host: str
    port: int


class DevAuthentication:
    """Authenticates every request from this machine as the user that ``X-Clew-User`` names, or as nobody.

    Nobody sees the threads of all users, and those that are nobody's. No user is made up.

    The server listens on loopback, but a page in the browser can send requests there too, under a name that
    leads to loopback. So the host of a request must be a loopback address, and its origin, if any, that host
    and port: another port is another program, and its pages are as strange as those of any site.
    ``origins`` are those of this machine whose pages may send requests besides.
    """

    def __init__(self, origins: Collection[str] = ()) -> None:
        self._origins = frozenset(origins)

    async def __call__(self, headers: Mapping[str, str]) -> Identity:
        """Return the identity of the user that the request names.

        Raises:
            Unauthenticated: The request may come from elsewhere, or carries credentials that are not valid.
        """
        if any(name in headers for name in CREDENTIAL_HEADERS):
            raise Unauthenticated(problem="these credentials are not valid. In dev mode send none.")
        if any(name in headers for name in PROXY_HEADERS):
            raise Unauthenticated(
                problem="the request came through a proxy, and dev mode serves this machine alone."
            )
        own = parse_origin(f"http://{headers.get('host', '')}")
        if own is None or not is_loopback(own.host):
            raise Unauthenticated(
                problem="in dev mode the Host header must be localhost or a loopback address."
            )
        if "origin" in headers and not self._may_ask(headers["origin"], own):
            raise Unauthenticated(
                problem="in dev mode no page of another site or port may send requests, unless it is of this "
                "machine and the setting cors names its origin."
            )
        return Identity(
            tenant=check_id(headers.get("x-clew-tenant", DEFAULT_TENANT), "tenant"),
            user=_user_or_none(headers.get("x-clew-user", NOBODY)),
            workspace=DEFAULT_WORKSPACE,
            roles=ROLES,
            scopes=KEY_SCOPES,
        )

    def _may_ask(self, text: str, own: Origin) -> bool:
        """Return whether pages of an origin may send requests: our own, or a named one of this machine."""
        origin = parse_origin(text)
        if origin is None:
            return False
        return origin == own or (text in self._origins and is_loopback(origin.host))


def _user_or_none(name: str) -> str | None:
    return None if name == NOBODY else check_id(name, "user")


def parse_origin(text: str) -> Origin | None:
    """Parse an origin, as ``http://localhost:8100``; None if it is none, as the ``null`` of some pages."""
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        return None
    if url.scheme not in DEFAULT_PORTS or not url.hostname or "@" in url.netloc:
        return None
    if text != f"{url.scheme}://{url.netloc}":  # a path, or something else that no origin has
        return None
    return Origin(scheme=url.scheme, host=url.hostname, port=port or DEFAULT_PORTS[url.scheme])
