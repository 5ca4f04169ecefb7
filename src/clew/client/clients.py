"""The two clients. Every method is made from a call of the API; only the sending differs."""

import asyncio
import secrets
import ssl
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from types import TracebackType
from typing import Any, Literal, ParamSpec, Self, TypeVar

import msgspec

from clew.api.problems import error_from_response
from clew.api.requests import MemoryModeName
from clew.api.threads import StreamEvent
from clew.client import calls
from clew.client.call import ApiCall, AsyncSender, BlockingSender, CallMethod
from clew.client.operator import AsyncOperatorClient, OperatorClient
from clew.client.sse import EventReader
from clew.client.workbench import AsyncWorkbenchClient, WorkbenchClient
from clew.core.arguments import check_methods
from clew.core.errors import MissingExtra, OutcomeUnknown, StoreUnavailable

try:
    import httpx
except ImportError as error:
    raise MissingExtra(extra="client", package="httpx") from error

T = TypeVar("T")
P = ParamSpec("P")
WhenBusy = Literal["wait", "refuse", "queue"]
KEY_HEADER = "Idempotency-Key"
TIMEOUT = httpx.Timeout(10.0, read=300.0)
STREAM_ATTEMPTS = 5
"""How often a lost stream is taken up again in a row without a single new event."""
PAUSE = 0.2


class ClientMethods:
    """The calls of the API, for either client."""

    health = CallMethod(calls.health)
    ready = CallMethod(calls.ready)
    metrics = CallMethod(calls.metrics)
    agent = CallMethod(calls.agent)
    create_thread = CallMethod(calls.create_thread)
    threads = CallMethod(calls.threads)
    thread = CallMethod(calls.thread)
    delete_thread = CallMethod(calls.delete_thread)
    items = CallMethod(calls.items)
    messages = CallMethod(calls.messages)
    changesets = CallMethod(calls.changesets)
    append = CallMethod(calls.append)
    state = CallMethod(calls.state)
    diff = CallMethod(calls.diff)
    verify = CallMethod(calls.verify)
    fork = CallMethod(calls.fork)
    rewind = CallMethod(calls.rewind)
    run_turn = CallMethod(calls.run_turn)
    runs = CallMethod(calls.runs)
    run = CallMethod(calls.run)
    cancel = CallMethod(calls.cancel)
    decide = CallMethod(calls.decide)
    sessions_state = CallMethod(calls.sessions_state)
    sessions = CallMethod(calls.sessions)
    session = CallMethod(calls.session)
    delete_session = CallMethod(calls.delete_session)
    turns = CallMethod(calls.turns)
    end_session = CallMethod(calls.end_session)
    session_status = CallMethod(calls.session_status)
    episodes = CallMethod(calls.episodes)
    episode = CallMethod(calls.episode)
    record_voice_turn = CallMethod(calls.record_voice_turn)
    begin_voice_session = CallMethod(calls.begin_voice_session)
    judge_utterance = CallMethod(calls.judge_utterance)
    call_voice_tool = CallMethod(calls.call_voice_tool)
    keep_voice_alive = CallMethod(calls.keep_voice_alive)
    end_lost_voice = CallMethod(calls.end_lost_voice)
    export_person = CallMethod(calls.export_person)
    export_session = CallMethod(calls.export_session)
    import_sessions = CallMethod(calls.import_sessions)
    export_manifest = CallMethod(calls.export_manifest)
    import_manifest = CallMethod(calls.import_manifest)
    memory = CallMethod(calls.memory)
    memory_entry = CallMethod(calls.memory_entry)
    export_memory = CallMethod(calls.export_memory)
    catch_up = CallMethod(calls.catch_up)
    correct_memory = CallMethod(calls.correct_memory)
    forget_memory = CallMethod(calls.forget_memory)
    undo_memory = CallMethod(calls.undo_memory)
    set_recall = CallMethod(calls.set_recall)
    search = CallMethod(calls.search)
    feedback = CallMethod(calls.feedback)
    jobs = CallMethod(calls.jobs)
    retry_job = CallMethod(calls.retry_job)
    steps = CallMethod(calls.steps)
    datasets = CallMethod(calls.datasets)
    examples = CallMethod(calls.examples)
    experiments = CallMethod(calls.experiments)
    experiment = CallMethod(calls.experiment)
    results = CallMethod(calls.results)
    compare = CallMethod(calls.compare)


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
        """Give back what it opened."""
        if self._owns_http:
            await self._http.aclose()

    async def _send(self, call: ApiCall[Any]) -> Any:
        try:
            answer = await self._http.request(**_http_request(self._url, self._headers, call))
        except httpx.HTTPError as error:
            raise _connection_error(call, error) from error
        return _decode_answer(call, answer.status_code, answer.content)

    async def stream_turn(
        self,
        thread: str,
        message: str,
        *,
        user: str | None = None,
        mode: MemoryModeName | None = None,
        busy: WhenBusy = "wait",
        key: str | None = None,
        after: str | None = None,
    ) -> AsyncIterator[StreamEvent]:
        """Run one turn and hear of it as it goes. If the connection is lost, it is taken up where it was."""
        key = key or secrets.token_hex(16)
        call = calls.stream_turn(thread, message, user=user, mode=mode, busy=busy, key=key)
        async for event in self._stream(call, after):
            yield event

    async def follow(
        self, thread: str, *, after: str | None = None, run: str | None = None
    ) -> AsyncIterator[StreamEvent]:
        """The durable events of a thread as they commit; lost connections are taken up again."""
        async for event in self._stream(calls.follow(thread, run=run), after):
            yield event

    async def follow_threads(
        self, *, after: str | None = None, wait: bool = True
    ) -> AsyncIterator[StreamEvent]:
        """Threads as they are made, changed and deleted; lost connections are taken up again."""
        async for event in self._stream(calls.follow_threads(wait=wait), after):
            yield event

    async def _stream(self, call: ApiCall[Any], after: str | None) -> AsyncIterator[StreamEvent]:
        reader, failures = EventReader(after), 0
        while not reader.is_over:
            try:
                async with self._http.stream(
                    **_stream_request(self._url, self._headers, call, reader)
                ) as answer:
                    if answer.status_code != 200:
                        _decode_answer(call, answer.status_code, await answer.aread())
                    async for line in answer.aiter_lines():
                        for event in reader.feed(line):
                            failures = 0
                            yield event
                failures += 1
            except httpx.HTTPError as error:
                failures += 1
                if failures >= STREAM_ATTEMPTS:
                    raise _connection_error(call, error) from error
            if not reader.is_over:
                await asyncio.sleep(_retry_delay(call, failures))


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
        """Give back what it opened."""
        if self._owns_http:
            self._http.close()

    def _send(self, call: ApiCall[Any]) -> Any:
        try:
            answer = self._http.request(**_http_request(self._url, self._headers, call))
        except httpx.HTTPError as error:
            raise _connection_error(call, error) from error
        return _decode_answer(call, answer.status_code, answer.content)

    def stream_turn(
        self,
        thread: str,
        message: str,
        *,
        user: str | None = None,
        mode: MemoryModeName | None = None,
        busy: WhenBusy = "wait",
        key: str | None = None,
        after: str | None = None,
    ) -> Iterator[StreamEvent]:
        """Run one turn and hear of it as it goes. If the connection is lost, it is taken up where it was."""
        key = key or secrets.token_hex(16)
        call = calls.stream_turn(thread, message, user=user, mode=mode, busy=busy, key=key)
        yield from self._stream(call, after)

    def follow(
        self, thread: str, *, after: str | None = None, run: str | None = None
    ) -> Iterator[StreamEvent]:
        """The durable events of a thread as they commit; lost connections are taken up again."""
        yield from self._stream(calls.follow(thread, run=run), after)

    def follow_threads(self, *, after: str | None = None, wait: bool = True) -> Iterator[StreamEvent]:
        """Threads as they are made, changed and deleted; lost connections are taken up again."""
        yield from self._stream(calls.follow_threads(wait=wait), after)

    def _stream(self, call: ApiCall[Any], after: str | None) -> Iterator[StreamEvent]:
        reader, failures = EventReader(after), 0
        while not reader.is_over:
            try:
                with self._http.stream(**_stream_request(self._url, self._headers, call, reader)) as answer:
                    if answer.status_code != 200:
                        _decode_answer(call, answer.status_code, answer.read())
                    for line in answer.iter_lines():
                        for event in reader.feed(line):
                            failures = 0
                            yield event
                failures += 1
            except httpx.HTTPError as error:
                failures += 1
                if failures >= STREAM_ATTEMPTS:
                    raise _connection_error(call, error) from error
            if not reader.is_over:
                time.sleep(_retry_delay(call, failures))


def tls_verification(url: str) -> ssl.SSLContext | bool:
    """Whom to trust over TLS: the usual roots, which take long to load; nobody, where it is not spoken."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if url.lower().startswith("http://") else True


def _default_headers(token: str | None, headers: Mapping[str, str] | None) -> dict[str, str]:
    authorization = {"Authorization": f"Bearer {token}"} if token is not None else {}
    return {**authorization, **(headers or {})}


def _http_request(url: str, headers: Mapping[str, str], call: ApiCall[Any]) -> dict[str, Any]:
    request_headers = {**headers, **call.headers}
    if call.key is not None:
        request_headers[KEY_HEADER] = call.key
    if call.body is not None:
        request_headers.setdefault("Content-Type", "application/json")
    return {
        "method": call.method,
        "url": url + call.path,
        "params": call.query,
        "headers": request_headers,
        "content": call.body,
    }


def _stream_request(
    url: str, headers: Mapping[str, str], call: ApiCall[Any], reader: EventReader
) -> dict[str, Any]:
    request = _http_request(url, headers, call)
    request["headers"]["Accept"] = "text/event-stream"
    if reader.last_id is not None:
        request["headers"]["Last-Event-ID"] = reader.last_id
    return request


def _decode_answer(call: ApiCall[Any], status: int, content: bytes) -> Any:
    """What an answer says.

    Raises:
        ClewError: It says that something went wrong.
    """
    if not 200 <= status < 300:
        raise error_from_response(status, content)
    if call.answer_type is None:
        return None
    if call.answer_type is bytes:
        return content
    try:
        return msgspec.json.decode(content, type=call.answer_type)
    except msgspec.MsgspecError as error:
        raise StoreUnavailable(problem=f"the server's answer cannot be read: {error}") from error


def _connection_error(call: ApiCall[Any], error: httpx.HTTPError) -> StoreUnavailable | OutcomeUnknown:
    """What it means that no answer came: unless it was never sent, what was to change may have changed."""
    problem = f"{type(error).__name__}: {error}".rstrip(": ")
    if call.method == "GET" or isinstance(
        error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout
    ):
        return StoreUnavailable(problem=problem)
    return OutcomeUnknown(problem=problem)


def _retry_delay(call: ApiCall[Any], failures: int) -> float:
    """How long to wait before a stream is taken up again.

    Raises:
        StoreUnavailable: It was tried often enough.
    """
    if failures >= STREAM_ATTEMPTS:
        raise StoreUnavailable(problem="the stream ended again and again before it was over")
    return float(PAUSE * 2 ** max(0, failures - 1))
