"""Authentication of every request, before anything else looks at it."""

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any

from litestar.connection import ASGIConnection
from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Receive, Scope, Send

from clew.core.addresses import is_loopback
from clew.core.errors import ClewError, Forbidden, Unauthenticated
from clew.server.http.client_address import FORWARDED_FOR, client_address, site_of
from clew.server.http.endpoint import OPEN_TO_ALL, REQUIRED_SCOPE, ROUTE
from clew.server.http.problems import DENIAL_EXTENSION, denial_messages
from clew.server.http.resources import ServerResources
from clew.server.identity.identity import Authenticate, Identity
from clew.server.identity.roles import READ, WRITE

READ_METHODS = ("GET", "HEAD")


class AuthenticationMiddleware(ASGIMiddleware):
    """Puts the identity of a request into its scope, or refuses the request."""

    scopes = (ScopeType.HTTP, ScopeType.WEBSOCKET)
    exclude_opt_key = OPEN_TO_ALL

    def __init__(self, authenticate: Authenticate) -> None:
        self._authenticate = authenticate

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Pass a request on with its identity, and with a way to check its credentials again."""
        connection: ASGIConnection[Any, Any, Any, Any] = ASGIConnection(scope)
        resources: ServerResources = connection.app.state.resources
        try:
            identity = await self._identify(connection, resources)
            _check_scope(identity, _required_scope(scope))
            resources.user_requests.take(f"{identity.tenant}\0{identity.user or ''}")
        except ClewError as error:
            if DENIAL_EXTENSION not in (scope.get("extensions") or {}):
                raise
            # A WebSocket that is not accepted yet: an exception would close it without a status or a problem.
            for message in denial_messages(error):
                await send(message)
            await asyncio.sleep(0)  # uvicorn logs an error if one returns before the connection is closed
            return
        scope["user"] = identity

        async def recheck_access() -> None:
            if await self._identify(connection, resources) != identity:
                raise Forbidden(problem="The rights of these credentials have changed. Connect again.")

        scope["auth"] = recheck_access
        await next_app(scope, receive, send)

    async def _identify(
        self, connection: ASGIConnection[Any, Any, Any, Any], resources: ServerResources
    ) -> Identity:
        """Return the identity that the credentials of a request prove.

        Raises:
            Unauthenticated: They prove none.
            RateLimited: They prove none, and this client has failed too often of late.
        """
        headers, peer = _lowercase_headers(connection), connection.client.host if connection.client else ""
        try:
            # The peer itself must be here, whatever it says of whom it passes on.
            if resources.local_only and not is_loopback(peer):
                raise Unauthenticated(problem="in dev mode the server serves this machine alone.")
            return await self._authenticate(headers)
        except Unauthenticated:
            # Failures are counted after the check, so that nobody can lock out credentials that are valid.
            hops = connection.headers.getall(FORWARDED_FOR, [])
            address = client_address(peer, hops, resources.trusted_proxies)
            resources.failures.count(site_of(address), _credentials_digest(headers))
            raise


def _credentials_digest(headers: Mapping[str, str]) -> str | None:
    """Return a hash of the credentials of a request; None if it carries none."""
    values = [headers.get(name, "") for name in ("authorization", "x-api-key")]
    if not any(values):
        return None
    return hashlib.sha256("\0".join(values).encode("utf-8", "surrogateescape")).hexdigest()


def _required_scope(scope: Scope) -> str:
    """Return the scope that credentials need: the one that the route names, or else by its method."""
    options = scope["route_handler"].opt
    if REQUIRED_SCOPE in options:
        return str(options[REQUIRED_SCOPE])
    route = options.get(ROUTE)
    if route is not None and route.scope is not None:
        return str(route.scope)
    return READ if scope.get("method") in READ_METHODS else WRITE


def _check_scope(identity: Identity, scope: str) -> None:
    if scope not in identity.scopes:
        raise Forbidden(problem=f"This needs the scope {scope!r}.")


def _lowercase_headers(connection: ASGIConnection[Any, Any, Any, Any]) -> Mapping[str, str]:
    return {name.lower(): value for name, value in connection.headers.items()}
