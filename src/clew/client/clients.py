"""The two clients. Every method is made from a call of the API; only the sending differs."""

import asyncio
import secrets
import ssl
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from types import TracebackType
from typing import Any, Literal, ParamSpec, Self, TypeVar

import msgspec

from clew.api.problems import error_of
from clew.api.requests import Mode
from clew.api.threads import Told
from clew.client import calls
from clew.client.call import Awaited, Blocking, Call, Method
from clew.client.operator import AsyncOperator, Operator
from clew.client.sse import Reader
from clew.client.workbench import AsyncWorkbench, Workbench
from clew.core.arguments import check_methods
from clew.core.errors import MissingExtra, OutcomeUnknown, StoreUnavailable

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


class ClientMethods:
    """The calls of the API, for either client."""

    health = Method(calls.health)
    ready = Method(calls.ready)
    metrics = Method(calls.metrics)
    agent = Method(calls.agent)
    create_thread = Method(calls.create_thread)
    threads = Method(calls.threads)
    thread = Method(calls.thread)
    delete_thread = Method(calls.delete_thread)
    items = Method(calls.items)
    messages = Method(calls.messages)
    changesets = Method(calls.changesets)
    append = Method(calls.append)
    state = Method(calls.state)
    diff = Method(calls.diff)
    verify = Method(calls.verify)
    fork = Method(calls.fork)
    rewind = Method(calls.rewind)
    run_turn = Method(calls.run_turn)
    runs = Method(calls.runs)
    run = Method(calls.run)
    cancel = Method(calls.cancel)
    decide = Method(calls.decide)
    sessions_state = Method(calls.sessions_state)
    sessions = Method(calls.sessions)
    session = Method(calls.session)
    delete_session = Method(calls.delete_session)
    turns = Method(calls.turns)
    end_session = Method(calls.end_session)
    session_status = Method(calls.session_status)
    episodes = Method(calls.episodes)
    episode = Method(calls.episode)
    record_voice_turn = Method(calls.record_voice_turn)
    begin_call = Method(calls.begin_call)
    hear = Method(calls.hear)
    call_tool = Method(calls.call_tool)
    voice_alive = Method(calls.voice_alive)
    voice_lost = Method(calls.voice_lost)
    export_person = Method(calls.export_person)
    export_session = Method(calls.export_session)
    import_sessions = Method(calls.import_sessions)
    export_manifest = Method(calls.export_manifest)
    import_manifest = Method(calls.import_manifest)
    memory = Method(calls.memory)
    memory_entry = Method(calls.memory_entry)
    export_memory = Method(calls.export_memory)
    catch_up = Method(calls.catch_up)
    correct_memory = Method(calls.correct_memory)
    forget_memory = Method(calls.forget_memory)
    undo_memory = Method(calls.undo_memory)
    set_recall = Method(calls.set_recall)
    search = Method(calls.search)
    feedback = Method(calls.feedback)
    jobs = Method(calls.jobs)
    retry_job = Method(calls.retry_job)
    steps = Method(calls.steps)
    datasets = Method(calls.datasets)
    examples = Method(calls.examples)
    experiments = Method(calls.experiments)
    experiment = Method(calls.experiment)
    results = Method(calls.results)
    compare = Method(calls.compare)


@check_methods
class AsyncClient(Awaited, ClientMethods):
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
        super().__init__(self._sent)
        self._http = http or httpx.AsyncClient(timeout=TIMEOUT, verify=trusted(url))
        self._owned = http is None
        self._url = url.rstrip("/")
        self._headers = _credentials(token, headers)
        self.operator = AsyncOperator(self._sent)
        self.workbench = AsyncWorkbench(self._sent)

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

    async def _sent(self, call: Call[Any]) -> Any:
        try:
            answer = await self._http.request(**_request(self._url, self._headers, call))
        except httpx.HTTPError as error:
            raise _lost(call, error) from error
        return _read(call, answer.status_code, answer.content)

    async def stream_turn(
        self,
        thread: str,
        message: str,
        *,
        user: str | None = None,
        mode: Mode | None = None,
        busy: Busy = "wait",
        key: str | None = None,
        after: str | None = None,
    ) -> AsyncIterator[Told]:
        """Run one turn and hear of it as it goes. If the connection is lost, it is taken up where it was."""
        key = key or secrets.token_hex(16)
        call = calls.stream_turn(thread, message, user=user, mode=mode, busy=busy, key=key)
        async for event in self._stream(call, after):
            yield event

    async def follow(
        self, thread: str, *, after: str | None = None, run: str | None = None
    ) -> AsyncIterator[Told]:
        """The durable events of a thread as they commit; lost connections are taken up again."""
        async for event in self._stream(calls.follow(thread, run=run), after):
            yield event

    async def follow_threads(self, *, after: str | None = None, wait: bool = True) -> AsyncIterator[Told]:
        """Threads as they are made, changed and deleted; lost connections are taken up again."""
        async for event in self._stream(calls.follow_threads(wait=wait), after):
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


@check_methods
class Client(Blocking, ClientMethods):
    """The API of a server, blocking. Use it as a context manager; see ``AsyncClient``."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        http: httpx.Client | None = None,
    ) -> None:
        super().__init__(self._sent)
        self._http = http or httpx.Client(timeout=TIMEOUT, verify=trusted(url))
        self._owned = http is None
        self._url = url.rstrip("/")
        self._headers = _credentials(token, headers)
        self.operator = Operator(self._sent)
        self.workbench = Workbench(self._sent)

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

    def _sent(self, call: Call[Any]) -> Any:
        try:
            answer = self._http.request(**_request(self._url, self._headers, call))
        except httpx.HTTPError as error:
            raise _lost(call, error) from error
        return _read(call, answer.status_code, answer.content)

    def stream_turn(
        self,
        thread: str,
        message: str,
        *,
        user: str | None = None,
        mode: Mode | None = None,
        busy: Busy = "wait",
        key: str | None = None,
        after: str | None = None,
    ) -> Iterator[Told]:
        """Run one turn and hear of it as it goes. If the connection is lost, it is taken up where it was."""
        key = key or secrets.token_hex(16)
        call = calls.stream_turn(thread, message, user=user, mode=mode, busy=busy, key=key)
        yield from self._stream(call, after)

    def follow(self, thread: str, *, after: str | None = None, run: str | None = None) -> Iterator[Told]:
        """The durable events of a thread as they commit; lost connections are taken up again."""
        yield from self._stream(calls.follow(thread, run=run), after)

    def follow_threads(self, *, after: str | None = None, wait: bool = True) -> Iterator[Told]:
        """Threads as they are made, changed and deleted; lost connections are taken up again."""
        yield from self._stream(calls.follow_threads(wait=wait), after)

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


def trusted(url: str) -> ssl.SSLContext | bool:
    """Whom to trust over TLS: the usual roots, which take long to load; nobody, where it is not spoken."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if url.lower().startswith("http://") else True


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
        ClewError: It says that something went wrong.
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
