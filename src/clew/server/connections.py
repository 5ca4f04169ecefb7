"""Connections: those that flood or stall are cut, so that a few bad clients cannot use up a process.

The program that serves bounds none of this by itself: it reads headers without end, waits for a request for
ever, and keeps what a reader does not take.
"""

import asyncio
import sys
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from clew.api.problems import Problem
from clew.core.errors import ServerFull
from clew.server.http.problems import encode_problem, problem_of, problem_with_status

if sys.platform != "win32":
    import resource

HEADERS_TOO_LARGE = "The request headers are too large. Send fewer or shorter ones."
REQUEST_TOO_SLOW = "The request was not complete in time. Send it again, without pauses."
RETRY_SECONDS = 5
RESERVED_FILES, REFUSAL_FILES = 256, 64
"""How many files are left for the database and the like; of these, so many for connections to be refused."""
FEWEST_CONNECTIONS = 64


def connection_limit() -> int:
    """Return how many connections this process has files for."""
    if sys.platform == "win32":
        return sys.maxsize
    soft_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (
        sys.maxsize
        if soft_limit == resource.RLIM_INFINITY
        else max(soft_limit - RESERVED_FILES, FEWEST_CONNECTIONS)
    )


def raise_file_limit(files: int = 65_536) -> None:
    """Let this process, and those that it starts, open so many files, or as many as the system allows."""
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = files if hard == resource.RLIM_INFINITY else min(files, hard)
    if soft != resource.RLIM_INFINITY and soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))


class Connection(HttpToolsProtocol):
    """One connection of a client, to be handed to uvicorn. Sizes are bytes, times are seconds.

    ``head_seconds`` is for all headers of a request, ``body_seconds`` for a pause in its body, and
    ``write_seconds`` for a reader who takes nothing while there is much to take. ``max_connections`` is how
    many of them there may be at once; without it, as many as the process may have files.
    """

    max_connections: ClassVar[int | None] = None
    head_bytes: ClassVar[int] = 64 * 1024
    head_seconds: ClassVar[float] = 20.0
    body_seconds: ClassVar[float] = 30.0
    write_seconds: ClassVar[float] = 60.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_size: int | None = 0
        """How much of the next head has come; None while a body comes."""
        self._is_head_too_large = False
        self._is_over_limit = False
        self._read_alarm = _Alarm(self._end_slow_request)
        self._write_alarm = _Alarm(self._abort_slow_reader)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn does
        """Start to wait for a request, within its time."""
        super().connection_made(transport)
        self._read_alarm.set(self.head_seconds)
        excess = len(self.connections) - self._connection_limit()
        self._is_over_limit = excess > 0
        if excess > REFUSAL_FILES:
            transport.abort()  # there is no file left even for a refusal

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._read_alarm.unset()
        self._write_alarm.unset()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take some bytes of a request; a head that is too large is refused."""
        if self._head_size is None:
            self._read_alarm.restart(self.body_seconds)
        else:
            self._head_size += len(data)
        super().data_received(data)
        if (
            self._head_size is not None
            and self._head_size > self.head_bytes
            and not self.transport.is_closing()
        ):
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, HEADERS_TOO_LARGE)

    def on_message_begin(self) -> None:
        """A head begins, and has its time."""
        super().on_message_begin()
        self._read_alarm.set(self.head_seconds)

    def on_headers_complete(self) -> None:
        """The head is whole; unless it is too large, the request begins."""
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        self._is_head_too_large = size > self.head_bytes
        if self._is_head_too_large or self._is_over_limit:
            raise ValueError(HEADERS_TOO_LARGE)  # the parser stops, and has ``send_400_response`` called
        self._head_size = None
        self._read_alarm.set(self.body_seconds)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._head_size = 0
        self._read_alarm.unset()
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over to the WebSocket protocol."""
        self._read_alarm.unset()
        super().handle_websocket_upgrade()

    def pause_writing(self) -> None:
        """The reader does not keep up."""
        self._write_alarm.set(self.write_seconds)
        super().pause_writing()

    def resume_writing(self) -> None:
        """The reader has caught up."""
        self._write_alarm.unset()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that the parser has given up."""
        if self._is_head_too_large:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, HEADERS_TOO_LARGE)
        elif self._is_over_limit:
            self._send_problem(problem_of(self._server_full()), {"retry-after": str(RETRY_SECONDS)})
        else:
            self._refuse(HTTPStatus.BAD_REQUEST, "The request is not valid HTTP.")

    def _end_slow_request(self) -> None:
        if self.flow.read_paused:  # the server itself does not read, so the client is not slow
            self._read_alarm.set(self.body_seconds)
        elif self._head_size is None:
            self.transport.abort()
        else:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, REQUEST_TOO_SLOW)

    def _abort_slow_reader(self) -> None:
        self.transport.abort()

    def _connection_limit(self) -> int:
        return connection_limit() if self.max_connections is None else self.max_connections

    def _server_full(self) -> ServerFull:
        return ServerFull(
            what="connections", limit=self._connection_limit(), retry_after_ms=RETRY_SECONDS * 1_000
        )

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        self._send_problem(problem_with_status(status, detail), {})

    def _send_problem(self, problem: Problem, headers: Mapping[str, str]) -> None:
        """Send a problem, and close the connection."""
        self._read_alarm.unset()
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            self.transport.abort()  # it would be sent in the middle of another response
            return
        problem_headers, body = encode_problem(problem, {"connection": "close", **headers})
        lines = [f"{name}: {value}" for name, value in problem_headers.items()]
        head = "\r\n".join([f"HTTP/1.1 {problem.status} {problem.title}", *lines, "", ""])
        self.transport.write(head.encode("ascii") + body)
        self.transport.close()


class _Alarm:
    """Calls a function unless it is unset in time."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float) -> None:
        self.unset()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._ring)

    def restart(self, seconds: float) -> None:
        """Begin anew, if it was set."""
        if self._timer is not None:
            self.set(seconds)

    def unset(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
