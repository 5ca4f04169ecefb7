"""Development: whoever is on this machine is let in, and nobody else."""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from holdfast.core.encoding import check_id
from holdfast.core.errors import Unauthenticated
from holdfast.core.values import DEFAULT_TENANT
from holdfast.server.identity.entries import DEFAULT_WORKSPACE, KEY_SCOPES, ROLES
from holdfast.server.identity.values import Identity

LOCAL_USER = "local"
EVERYBODY = "*"
"""Names no user: the request sees the threads of all of them, and those that are nobody's."""
CREDENTIALS = ("authorization", "x-api-key")
FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


class DevAuthentication:
    """Anybody on this machine, as the user that ``X-Holdfast-User`` names.

    The server listens on loopback, but a page in the browser can send requests there too, under a name that
    leads to loopback. So the request's host must be a loopback address, and its origin, if it has one, too.
    """

    async def __call__(self, headers: Mapping[str, str]) -> Identity:
        """The user that the request names.

        Raises:
            Unauthenticated: The request may come from elsewhere, or carries credentials that do not hold.
        """
        if any(name in headers for name in CREDENTIALS):
            raise Unauthenticated(problem="These credentials do not hold. In dev mode send none.")
        if any(name in headers for name in FORWARDED):
            raise Unauthenticated(
                problem="The request was passed on, and dev mode serves this machine alone."
            )
        if not is_loopback(_host_of(f"//{headers.get('host', '')}")):
            raise Unauthenticated(problem="In dev mode the server is called localhost and nothing else.")
        if "origin" in headers and not is_loopback(_host_of(headers["origin"])):
            raise Unauthenticated(problem="In dev mode no other site may send requests.")
        return Identity(
            tenant=check_id(headers.get("x-holdfast-tenant", DEFAULT_TENANT), "tenant"),
            user=_user(headers.get("x-holdfast-user", LOCAL_USER)),
            workspace=DEFAULT_WORKSPACE,
            roles=ROLES,
            scopes=KEY_SCOPES,
        )


def _user(named: str) -> str | None:
    return None if named == EVERYBODY else check_id(named, "user")


def is_loopback(host: str | None) -> bool:
    """Whether a host is this machine itself, by its address or as ``localhost``."""
    if host is None:
        return False
    if host in ("127.0.0.1", "localhost") or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
