"""The two clients. Every method is made from a call of the API; only the sending differs."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from functools import update_wrapper
from types import TracebackType
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar, cast

import msgspec

from holdfast.client import calls
from holdfast.client.calls import Call
from holdfast.client.events import Reader
from holdfast.client.problems import error_of
from holdfast.client.values import Told
from holdfast.core.errors import MissingExtra, OutcomeUnknown, StoreUnavailable

try:
    import httpx
except ImportError as error:
    raise MissingExtra(extra="client", package="httpx") from error

T = TypeVar("T")
P = ParamSpec("P")
Busy = Literal["wait", "refuse", "queue"]
KEY = "Idempotency-Key"
TIMEOUT = httpx.Timeout(10.0, read=300.0)
ATTEMPTS = 5
"""How often a lost stream is taken up again in a row without a single new event."""
PAUSE = 0.2


def _awaited(call: Callable[P, Call[T]]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """A call as an async method."""

    async def send(self: "AsyncClient", *args: P.args, **kwargs: P.kwargs) -> T:
        return cast("T", await self._send(call(*args, **kwargs)))

    return cast("Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]", update_wrapper(send, call))


def _blocking(call: Callable[P, Call[T]]) -> Callable[Concatenate[Any, P], T]:
    """A call as a method that blocks."""

    def send(self: "Client", *args: P.args, **kwargs: P.kwargs) -> T:
        return cast("T", self._send(call(*args, **kwargs)))

    return cast("Callable[Concatenate[Any, P], T]", update_wrapper(send, call))


class AsyncClient:
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
        self._http = http or httpx.AsyncClient(timeout=TIMEOUT)
        self._owned = http is None
        self._url = url.rstrip("/")
        self._headers = _credentials(token, headers)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give back what it opened."""
        if self._owned:
            await self._http.aclose()

    async def _send(self, call: Call[Any]) -> Any:
        try:
            answer = await self._http.request(**_request(self._url, self._headers, call))
        except httpx.HTTPError as error:
            raise _lost(call, error) from error
        return _read(call, answer.status_code, answer.content)

    health = _awaited(calls.health)
    ready = _awaited(calls.ready)
    create_thread = _awaited(calls.create_thread)
    threads = _awaited(calls.threads)
    thread = _awaited(calls.thread)
    delete_thread = _awaited(calls.delete_thread)
    items = _awaited(calls.items)
    changesets = _awaited(calls.changesets)
    append = _awaited(calls.append)
    state = _awaited(calls.state)
    diff = _awaited(calls.diff)
    verify = _awaited(calls.verify)
    fork = _awaited(calls.fork)
    rewind = _awaited(calls.rewind)
    run_turn = _awaited(calls.run_turn)
    runs = _awaited(calls.runs)
    run = _awaited(calls.run)
    cancel = _awaited(calls.cancel)
    decide = _awaited(calls.decide)
    sessions_state = _awaited(calls.sessions_state)
    sessions = _awaited(calls.sessions)
    session = _awaited(calls.session)
    delete_session = _awaited(calls.delete_session)
    turns = _awaited(calls.turns)
    end_session = _awaited(calls.end_session)
    export_session = _awaited(calls.export_session)
    import_sessions = _awaited(calls.import_sessions)
    memory = _awaited(calls.memory)
    export_memory = _awaited(calls.export_memory)
    correct_memory = _awaited(calls.correct_memory)
    forget_memory = _awaited(calls.forget_memory)
    undo_memory = _awaited(calls.undo_memory)
    set_recall = _awaited(calls.set_recall)
    search = _awaited(calls.search)
    feedback = _awaited(calls.feedback)
    jobs = _awaited(calls.jobs)
    retry_job = _awaited(calls.retry_job)

    async def stream_turn(
        self,
        thread: str,
        message: str,
        *,
        user: str | None = None,
        busy: Busy = "wait",
        key: str | None = None,
        after: str | None = None,
    ) -> AsyncIterator[Told]:
        """Run one turn and hear of it as it goes. If the connection is lost, it is taken up where it was."""
        call = calls.stream_turn(thread, message, user=user, busy=busy, key=key or secrets.token_hex(16))
        async for event in self._stream(call, after):
            yield event

    async def follow(
        self, thread: str, *, after: str | None = None, run: str | None = None
    ) -> AsyncIterator[Told]:
        """The durable events of a thread as they commit; lost connections are taken up again."""
        async for event in self._stream(calls.follow(thread, run=run), after):
            yield event

    async def _stream(self, call: Call[Any], after: str | None) -> AsyncIterator[Told]:
        reader, failures = Reader(after), 0
        while not reader.ended:
            try:
                async with self._http.stream(**_listening(self._url, self._headers, call, reader)) as answer:
                    if answer.status_code != 200:
                        _read(call, answer.status_code, await answer.aread())
                    async for line in answer.aiter_lines():
                        for event in reader.take(line):
                            failures = 0
                            yield event
                failures += 1
            except httpx.HTTPError as error:
                failures += 1
                if failures >= ATTEMPTS:
                    raise _lost(call, error) from error
            if not reader.ended:
                await asyncio.sleep(_pause(call, failures))


class Client:
    """The API of a server, blocking. Use it as a context manager; see ``AsyncClient``."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        http: httpx.Client | None = None,
    ) -> None:
        self._http = http or httpx.Client(timeout=TIMEOUT)
        self._owned = http is None
        self._url = url.rstrip("/")
        self._headers = _credentials(token, headers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back what it opened."""
        if self._owned:
            self._http.close()

    def _send(self, call: Call[Any]) -> Any:
        try:
            answer = self._http.request(**_request(self._url, self._headers, call))
        except httpx.HTTPError as error:
            raise _lost(call, error) from error
        return _read(call, answer.status_code, answer.content)

    health = _blocking(calls.health)
    ready = _blocking(calls.ready)
    create_thread = _blocking(calls.create_thread)
    threads = _blocking(calls.threads)
    thread = _blocking(calls.thread)
    delete_thread = _blocking(calls.delete_thread)
    items = _blocking(calls.items)
    changesets = _blocking(calls.changesets)
    append = _blocking(calls.append)
    state = _blocking(calls.state)
    diff = _blocking(calls.diff)
    verify = _blocking(calls.verify)
    fork = _blocking(calls.fork)
    rewind = _blocking(calls.rewind)
    run_turn = _blocking(calls.run_turn)
    runs = _blocking(calls.runs)
    run = _blocking(calls.run)
    cancel = _blocking(calls.cancel)
    decide = _blocking(calls.decide)
    sessions_state = _blocking(calls.sessions_state)
    sessions = _blocking(calls.sessions)
    session = _blocking(calls.session)
    delete_session = _blocking(calls.delete_session)
    turns = _blocking(calls.turns)
    end_session = _blocking(calls.end_session)
    export_session = _blocking(calls.export_session)
    import_sessions = _blocking(calls.import_sessions)
    memory = _blocking(calls.memory)
    export_memory = _blocking(calls.export_memory)
    correct_memory = _blocking(calls.correct_memory)
    forget_memory = _blocking(calls.forget_memory)
    undo_memory = _blocking(calls.undo_memory)
    set_recall = _blocking(calls.set_recall)
    search = _blocking(calls.search)
    feedback = _blocking(calls.feedback)
    jobs = _blocking(calls.jobs)
    retry_job = _blocking(calls.retry_job)

    def stream_turn(
        self,
        thread: str,
        message: str,
        *,
        user: str | None = None,
        busy: Busy = "wait",
        key: str | None = None,
        after: str | None = None,
    ) -> Iterator[Told]:
        """Run one turn and hear of it as it goes. If the connection is lost, it is taken up where it was."""
        call = calls.stream_turn(thread, message, user=user, busy=busy, key=key or secrets.token_hex(16))
        yield from self._stream(call, after)

    def follow(self, thread: str, *, after: str | None = None, run: str | None = None) -> Iterator[Told]:
        """The durable events of a thread as they commit; lost connections are taken up again."""
        yield from self._stream(calls.follow(thread, run=run), after)

    def _stream(self, call: Call[Any], after: str | None) -> Iterator[Told]:
        reader, failures = Reader(after), 0
        while not reader.ended:
            try:
                with self._http.stream(**_listening(self._url, self._headers, call, reader)) as answer:
                    if answer.status_code != 200:
                        _read(call, answer.status_code, answer.read())
                    for line in answer.iter_lines():
                        for event in reader.take(line):
                            failures = 0
                            yield event
                failures += 1
            except httpx.HTTPError as error:
                failures += 1
                if failures >= ATTEMPTS:
                    raise _lost(call, error) from error
            if not reader.ended:
                time.sleep(_pause(call, failures))


def _credentials(token: str | None, headers: Mapping[str, str] | None) -> dict[str, str]:
    said = {"Authorization": f"Bearer {token}"} if token is not None else {}
    return {**said, **(headers or {})}


def _request(url: str, headers: Mapping[str, str], call: Call[Any]) -> dict[str, Any]:
    sent = {**headers, **call.headers}
    if call.key is not None:
        sent[KEY] = call.key
    if call.body is not None:
        sent.setdefault("Content-Type", "application/json")
    return {
        "method": call.method,
        "url": url + call.path,
        "params": call.query,
        "headers": sent,
        "content": call.body,
    }


def _listening(url: str, headers: Mapping[str, str], call: Call[Any], reader: Reader) -> dict[str, Any]:
    made = _request(url, headers, call)
    made["headers"]["Accept"] = "text/event-stream"
    if reader.last is not None:
        made["headers"]["Last-Event-ID"] = reader.last
    return made


def _read(call: Call[Any], status: int, content: bytes) -> Any:
    """What an answer says.

    Raises:
        HoldfastError: It says that something went wrong.
    """
    if not 200 <= status < 300:
        raise error_of(status, content)
    if call.answer is None:
        return None
    if call.answer is bytes:
        return content
    try:
        return msgspec.json.decode(content, type=call.answer)
    except msgspec.MsgspecError as error:
        raise StoreUnavailable(problem=f"the server's answer cannot be read: {error}") from error


def _lost(call: Call[Any], error: httpx.HTTPError) -> StoreUnavailable | OutcomeUnknown:
    """What it means that no answer came: unless it was never sent, what was to change may have changed."""
    problem = f"{type(error).__name__}: {error}".rstrip(": ")
    if call.method == "GET" or isinstance(
        error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout
    ):
        return StoreUnavailable(problem=problem)
    return OutcomeUnknown(problem=problem)


def _pause(call: Call[Any], failures: int) -> float:
    """How long to wait before a stream is taken up again.

    Raises:
        StoreUnavailable: It was tried often enough.
    """
    if failures >= ATTEMPTS:
        raise StoreUnavailable(problem="the stream ended again and again before it was over")
    return float(PAUSE * 2 ** max(0, failures - 1))
