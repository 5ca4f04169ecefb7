"""The two clients. Their methods are the calls of the API; the clients differ in how they send them."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import msgspec

from clew.api.events import StreamEvent
from clew.api.problems import error_from_response
from clew.api.route import LAST_EVENT_ID
from clew.client.approvals import ApprovalMethods
from clew.client.archives import ArchiveMethods
from clew.client.audit import AuditMethods
from clew.client.call import ApiCall, AsyncSender, BlockingSender
from clew.client.erasure import ErasureMethods
from clew.client.events import EventMethods
from clew.client.experiments import ExperimentMethods
from clew.client.feedback import FeedbackLogMethods, FeedbackMethods
from clew.client.health import HealthMethods
from clew.client.jobs import JobMethods
from clew.client.memory import MemoryMethods
from clew.client.runs import RunMethods
from clew.client.search import SearchMethods
from clew.client.sessions import SessionMethods
from clew.client.sse import ResumableStream
from clew.client.threads import StoredStateMethods, ThreadMethods
from clew.client.turns import TurnMethods
from clew.client.usage import UsageMethods
from clew.client.voice import VoiceMethods
from clew.client.workbench import WorkbenchMethods
from clew.core.arguments import check_methods
from clew.core.errors import MissingExtra, OutcomeUnknown, StoreUnavailable

try:
    import httpx
except ImportError as error:
    raise MissingExtra(extra="client", package="httpx") from error

TIMEOUT = httpx.Timeout(10.0, read=300.0)


class ClientMethods(
    HealthMethods,
    ThreadMethods,
    TurnMethods,
    EventMethods,
    RunMethods,
    ApprovalMethods,
    UsageMethods,
    SessionMethods,
    FeedbackMethods,
    ArchiveMethods,
    VoiceMethods,
    MemoryMethods,
    SearchMethods,
    JobMethods,
    ExperimentMethods,
):
    """The calls of the API, for either client."""


class OperatorMethods(ErasureMethods, FeedbackLogMethods, StoredStateMethods, AuditMethods):
    """The calls of operators, for either client."""


class AsyncOperatorClient(AsyncSender, OperatorMethods):
    """The calls of operators, awaited."""


class OperatorClient(BlockingSender, OperatorMethods):
    """The calls of operators, blocking."""


class AsyncWorkbenchClient(AsyncSender, WorkbenchMethods):
    """The calls of the workbench, awaited."""


class WorkbenchClient(BlockingSender, WorkbenchMethods):
    """The calls of the workbench, blocking."""


@check_methods
class AsyncClient(AsyncSender, ClientMethods):
    """The API of a server, awaited. Use it as an async context manager.

    ``key`` in a method makes it safe to repeat. An error of the server is raised as itself. A client that is
    given an ``http`` client uses that, and leaves it open.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        super().__init__(self._send)
        self._http = http or httpx.AsyncClient(timeout=TIMEOUT, verify=tls_verification(url))
        self._owns_http = http is None
        self._url = url.rstrip("/")
        self._headers = _default_headers(token, headers)
        self.operator = AsyncOperatorClient(self._send)
        self.workbench = AsyncWorkbenchClient(self._send)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections that it opened."""
        if self._owns_http:
            await self._http.aclose()

    async def _send(self, call: ApiCall[Any]) -> Any:
        try:
            reply = await self._http.request(**_http_request(self._url, self._headers, call))
        except httpx.HTTPError as error:
            raise _connection_error(call, error) from error
        return _decode_reply(call, reply.status_code, reply.content)

    async def stream(self, call: ApiCall[StreamEvent]) -> AsyncIterator[StreamEvent]:
        """Iterate over the events of a call; a lost connection is made again behind the last event."""
        stream = ResumableStream(call.headers.get(LAST_EVENT_ID))
        while not stream.is_over:
            request = _http_request(self._url, self._headers, call, stream.headers)
            try:
                async with self._http.stream(**request) as reply:
                    if reply.status_code != 200:
                        _decode_reply(call, reply.status_code, await reply.aread())
                    async for line in reply.aiter_lines():
                        for event in stream.feed(line):
                            yield event
                if not stream.is_over:
                    stream.count_failure(_stream_cut())
            except httpx.HTTPError as error:
                stream.count_failure(_connection_error(call, error))
            if not stream.is_over:
                await asyncio.sleep(stream.pause_seconds)


@check_methods
class Client(BlockingSender, ClientMethods):
    """The API of a server, blocking. Use it as a context manager; see ``AsyncClient``."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        http: httpx.Client | None = None,
    ) -> None:
        super().__init__(self._send)
        self._http = http or httpx.Client(timeout=TIMEOUT, verify=tls_verification(url))
        self._owns_http = http is None
        self._url = url.rstrip("/")
        self._headers = _default_headers(token, headers)
        self.operator = OperatorClient(self._send)
        self.workbench = WorkbenchClient(self._send)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that it opened."""
        if self._owns_http:
            self._http.close()

    def _send(self, call: ApiCall[Any]) -> Any:
        try:
            reply = self._http.request(**_http_request(self._url, self._headers, call))
        except httpx.HTTPError as error:
            raise _connection_error(call, error) from error
        return _decode_reply(call, reply.status_code, reply.content)

    def stream(self, call: ApiCall[StreamEvent]) -> Iterator[StreamEvent]:
        """Iterate over the events of a call; a lost connection is made again behind the last event."""
        stream = ResumableStream(call.headers.get(LAST_EVENT_ID))
        while not stream.is_over:
            request = _http_request(self._url, self._headers, call, stream.headers)
            try:
                with self._http.stream(**request) as reply:
                    if reply.status_code != 200:
                        _decode_reply(call, reply.status_code, reply.read())
                    for line in reply.iter_lines():
                        yield from stream.feed(line)
                if not stream.is_over:
                    stream.count_failure(_stream_cut())
            except httpx.HTTPError as error:
                stream.count_failure(_connection_error(call, error))
            if not stream.is_over:
                time.sleep(stream.pause_seconds)


def tls_verification(url: str) -> ssl.SSLContext | bool:
    """Return what to trust over TLS: the usual roots, which take long to load; nothing for plain HTTP."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if url.lower().startswith("http://") else True


def _default_headers(token: str | None, headers: Mapping[str, str] | None) -> dict[str, str]:
    authorization = {"Authorization": f"Bearer {token}"} if token is not None else {}
    return {**authorization, **(headers or {})}


def _http_request(
    url: str, headers: Mapping[str, str], call: ApiCall[Any], stream_headers: Mapping[str, str] | None = None
) -> dict[str, Any]:
    return {
        "method": call.route.method,
        "url": url + call.path,
        "params": call.query,
        "headers": {**headers, **call.headers, **(stream_headers or {})},
        "content": call.body,
    }


def _decode_reply(call: ApiCall[Any], status: int, content: bytes) -> Any:
    """Return the reply in the type of its route.

    Raises:
        ClewError: The server reports an error, or its reply cannot be read.
    """
    if not 200 <= status < 300:
        raise error_from_response(status, content)
    if call.route.reply is type(None):
        return None
    if call.route.reply is bytes:
        return content
    try:
        return msgspec.json.decode(content, type=call.route.reply)
    except msgspec.MsgspecError as error:
        raise StoreUnavailable(problem=f"the server's answer cannot be read: {error}") from error


def _connection_error(call: ApiCall[Any], error: httpx.HTTPError) -> StoreUnavailable | OutcomeUnknown:
    """Return the error for a request without a reply: if it was sent, it may have had its effect."""
    problem = f"{type(error).__name__}: {error}".rstrip(": ")
    if call.route.method == "GET" or isinstance(
        error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout
    ):
        return StoreUnavailable(problem=problem)
    return OutcomeUnknown(problem=problem)


def _stream_cut() -> StoreUnavailable:
    return StoreUnavailable(problem="the stream ended again and again before it was over")
