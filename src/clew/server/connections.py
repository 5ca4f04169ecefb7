"""Connections that flood or stall are cut, so that a few bad clients cannot use up a process.

The program that serves bounds none of this by itself: it reads headers without end, waits for a request for
ever, and keeps what a reader does not take.
"""

import asyncio
import sys
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from clew.api.threads import Problem
from clew.core.encoding import encode
from clew.core.errors import ServerFull
from clew.server.http.views import PROBLEM, problem_of

if sys.platform != "win32":
    import resource

FLOOD = "The headers are larger than this server takes. Send fewer or shorter ones."
STALL = "The request did not come in time. Send it again, without pauses."
RETRY_SECONDS = 5
OTHER_FILES, LAST_FILES = 256, 64
"""How many files are left for the database and the like; of these, so many for connections to be refused."""
FEWEST = 64


def room() -> int:
    """How many connections this process has files for."""
    if sys.platform == "win32":
        return sys.maxsize
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if allowed == resource.RLIM_INFINITY else max(allowed - OTHER_FILES, FEWEST)


def make_room(files: int = 65_536) -> None:
    """Let this process, and those that it starts, open so many files, or as many as the system allows."""
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = files if hard == resource.RLIM_INFINITY else min(files, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Connection(HttpToolsProtocol):
    """One connection of a client, to be handed to uvicorn. Sizes are bytes, times are seconds.

    ``head_seconds`` is for all headers of a request, ``body_seconds`` for a pause in its body, and
    ``write_seconds`` for a reader who takes nothing while there is much to take. ``most`` is how many of them
    there may be at once; without it, as many as the process may have files.
    """

    most: ClassVar[int | None] = None
    head_bytes: ClassVar[int] = 64 * 1024
    head_seconds: ClassVar[float] = 20.0
    body_seconds: ClassVar[float] = 30.0
    write_seconds: ClassVar[float] = 60.0

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._head: int | None = 0
        """How much of the next head has come; None while a body comes."""
        self._flooded = False
        self._is_beyond = False
        self._reading = _Alarm(self._stalled)
        self._writing = _Alarm(self._left)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn does
        """Wait for a request, but not for ever."""
        super().connection_made(transport)
        self._reading.set(self.head_seconds)
        beyond = len(self.connections) - self._most()
        self._is_beyond = beyond > 0
        if beyond > LAST_FILES:
            transport.abort()  # not even to be told so

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._reading.unset()
        self._writing.unset()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take some of a request; too much of a head is refused."""
        if self._head is None:
            self._reading.again(self.body_seconds)
        else:
            self._head += len(data)
        super().data_received(data)
        if self._head is not None and self._head > self.head_bytes and not self.transport.is_closing():
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, FLOOD)

    def on_message_begin(self) -> None:
        """A head begins, and has its time."""
        super().on_message_begin()
        self._reading.set(self.head_seconds)

    def on_headers_complete(self) -> None:
        """The head is whole; unless it is too large, the request begins."""
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        self._flooded = size > self.head_bytes
        if self._flooded or self._is_beyond:
            raise ValueError(FLOOD)  # the parser stops, and has ``send_400_response`` called
        self._head = None
        self._reading.set(self.body_seconds)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._head = 0
        self._reading.unset()
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        """From now on it is another protocol's."""
        self._reading.unset()
        super().handle_websocket_upgrade()

    def pause_writing(self) -> None:
        """The reader does not keep up."""
        self._writing.set(self.write_seconds)
        super().pause_writing()

    def resume_writing(self) -> None:
        """The reader has caught up."""
        self._writing.unset()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request."""
        if self._flooded:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, FLOOD)
        elif self._is_beyond:
            self._tell(problem_of(self._full()), {"retry-after": str(RETRY_SECONDS)})
        else:
            self._refuse(HTTPStatus.BAD_REQUEST, "This is no request that can be understood.")

    def _stalled(self) -> None:
        if self.flow.read_paused:  # it is we who do not read
            self._reading.set(self.body_seconds)
        elif self._head is None:
            self.transport.abort()
        else:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, STALL)

    def _left(self) -> None:
        self.transport.abort()

    def _most(self) -> int:
        return room() if self.most is None else self.most

    def _full(self) -> ServerFull:
        return ServerFull(what="connections", limit=self._most(), retry_after_ms=RETRY_SECONDS * 1_000)

    def _refuse(self, status: HTTPStatus, words: str) -> None:
        self._tell(_problem(status, words), {})

    def _tell(self, problem: Problem, headers: Mapping[str, str]) -> None:
        """Answer with a problem, and hang up."""
        self._reading.unset()
        busy: RequestResponseCycle | None = self.cycle
        if busy is not None and not busy.response_complete:
            self.transport.abort()  # it would stand in the middle of another answer
            return
        body = encode(problem)
        told = {"content-type": PROBLEM, "content-length": str(len(body)), "connection": "close"}
        lines = [f"{name}: {value}" for name, value in {**told, **headers}.items()]
        head = "\r\n".join([f"HTTP/1.1 {problem.status} {problem.title}", *lines, "", ""])
        self.transport.write(head.encode("ascii") + body)
        self.transport.close()


def _problem(status: HTTPStatus, words: str) -> Problem:
    code = "too_large" if status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE else "invalid_input"
    kind = f"urn:clew:error:{code}"
    return Problem(type=kind, title=status.phrase, status=status.value, detail=words, code=code, facts={})


class _Alarm:
    """Does something unless it is unset in time."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float) -> None:
        self.unset()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._ring)

    def again(self, seconds: float) -> None:
        """Begin anew, if it was set."""
        if self._timer is not None:
            self.set(seconds)

    def unset(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
