"""One request and its response: it has an id, is counted, and is a line of the access log."""

import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from litestar.types import Send

from clew.server.identity.api_keys import api_key_in, public_part
from clew.server.identity.identity import Identity
from clew.server.metrics import Metrics

access_log = logging.getLogger("clew.access")
"""Has one line for each request. It names routes, tenants and keys, and never what a path or a query held."""
REQUEST_ID: Final = b"x-request-id"
VALID_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,64}")
DEFAULT_HEADERS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
"""Headers of every response that has not its own: no browser caches what people said."""
UNMATCHED = "unmatched"
CLIENT_GONE = 499
"""The status, as proxies log it, of a request whose client left before there was a response."""


class Exchange:
    """A request and its response, from the first byte to the last."""

    def __init__(
        self, scope: dict[str, Any], metrics: Metrics, new_id: Callable[[], str] | None = None
    ) -> None:
        self._scope = scope
        self._metrics = metrics
        self._start = time.perf_counter()
        self._status = CLIENT_GONE
        self._size = 0
        self.id = request_id(scope["headers"]) or (new_id or _new_id)()

    def wrap_send(self, send: Send) -> Send:
        """Return a ``send`` that counts the response, also a refusal, and gives it the default headers."""

        async def send_and_count(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = self._begin_response(message)
            elif message["type"] == "http.response.body":
                self._size += len(message.get("body", b""))
            await send(message)

        return send_and_count

    def _begin_response(self, message: dict[str, Any]) -> dict[str, Any]:
        self._status = message["status"]
        seconds = time.perf_counter() - self._start
        self._metrics.count_request(self._scope["method"], self.route, self._status, seconds)
        headers = message.get("headers", ())
        names = {name.lower() for name, _ in headers}
        missing = [each for each in DEFAULT_HEADERS if each[0] not in names]
        return {**message, "headers": [*headers, *missing, (REQUEST_ID, self.id.encode())]}

    @property
    def route(self) -> str:
        """The template of the path, as ``/api/v1/threads/{id}``; known once the request was routed."""
        template: str = self._scope.get("path_template") or UNMATCHED
        return template

    def log(self) -> None:
        """Write the line of the access log, if anybody reads it."""
        if not access_log.isEnabledFor(logging.INFO):
            return
        fields: dict[str, str | int | float] = {
            "method": self._scope["method"],
            "route": self.route,
            "status": self._status,
            "ms": round((time.perf_counter() - self._start) * 1000, 1),
            "bytes": self._size,
            **_caller_of(self._scope),
            "request": self.id,
        }
        access_log.info("%s", _line_of(fields), extra={"fields": fields})


def request_id(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the id that a client or a proxy gave the request, if it is one."""
    value = next((value for name, value in headers if name.lower() == REQUEST_ID), b"")
    return value.decode() if VALID_REQUEST_ID.fullmatch(value) else None


def _new_id() -> str:
    return secrets.token_hex(8)


def _caller_of(scope: dict[str, Any]) -> dict[str, str]:
    """Return who was let in: the tenant, and the public part of the key; nothing of who was not."""
    identity = scope.get("user")
    if not isinstance(identity, Identity):
        return {}
    headers = {name.lower().decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    key = api_key_in(headers)
    return {"tenant": identity.tenant, **({} if key is None else {"key": public_part(key)})}


def _line_of(fields: dict[str, str | int | float]) -> str:
    rest = [f"{name}={fields[name]}" for name in ("tenant", "key", "request") if name in fields]
    parts = [fields["method"], fields["route"], fields["status"], f"{fields['ms']}ms", f"{fields['bytes']}B"]
    return " ".join([*map(str, parts), *rest])
