"""The blocking client, and what either client makes of a server that fails."""

from __future__ import annotations

import inspect
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from clew.api.events import StreamEvent
from clew.client import AsyncClient, Client
from clew.client.clients import (
    AsyncOperatorClient,
    AsyncWorkbenchClient,
    OperatorClient,
    WorkbenchClient,
    tls_verification,
)
from clew.client.sse import EventReader
from clew.core.errors import OutcomeUnknown, StoreUnavailable, ThreadNotFound
from clew_companion.client import CrisisClient

EVENT = 'id: 1.0\nevent: message\ndata: {"n":1}\n\n'
END = "event: end\ndata: {}\n\n"


def scripted_client(*answers: httpx.Response | Exception) -> tuple[Client, list[httpx.Request]]:
    """A client whose server gives just these answers, and what it was asked."""
    rest, requests = list(answers), []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        line = rest.pop(0)
        if isinstance(line, Exception):
            raise line
        return line

    return Client("http://server.test", http=httpx.Client(transport=httpx.MockTransport(answer))), requests


def public(kind: type) -> set[str]:
    """What one can do with a client."""
    return {name for name, value in inspect.getmembers_static(kind) if not name.startswith("_")}


def test_both_clients_can_do_the_same() -> None:
    assert public(AsyncClient) == public(Client)


def test_both_clients_of_operators_can_do_the_same() -> None:
    assert public(AsyncOperatorClient) == public(OperatorClient)


def test_both_clients_of_the_workbench_can_do_the_same() -> None:
    assert public(AsyncWorkbenchClient) == public(WorkbenchClient)


def test_a_method_shows_its_parameters_without_self() -> None:
    client, _ = scripted_client()

    assert list(inspect.signature(client.thread).parameters) == ["id", "at", "first"]


def test_the_calls_of_an_agent_may_block_too() -> None:
    client, requests = scripted_client(httpx.Response(200, json={"rows": 3}))
    result = CrisisClient(client).purge_crises(dry_run=True, key="k")

    assert result.rows == 3
    assert (requests[0].url.path, requests[0].headers["idempotency-key"]) == ("/api/v1/crises/purge", "k")


def test_nothing_listens_there() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        with (
            Client(f"http://127.0.0.1:{listener.getsockname()[1]}") as client,
            pytest.raises(StoreUnavailable),
        ):
            client.threads()


def test_a_change_whose_answer_was_lost_may_have_been_made() -> None:
    client, _ = scripted_client(httpx.ReadError("cut"), httpx.ReadError("cut"))

    with pytest.raises(OutcomeUnknown):
        client.create_thread("t")
    with pytest.raises(StoreUnavailable):
        client.thread("t")


def test_a_key_goes_into_its_header() -> None:
    client, requests = scripted_client(httpx.Response(404, content=b"{}"))
    with pytest.raises(StoreUnavailable):
        client.run_turn("a/b", "hi", key="k")

    assert requests[0].headers["idempotency-key"] == "k"
    assert requests[0].url.raw_path == b"/api/v1/threads/a%2Fb/turns"


@pytest.mark.promise("B-09")
def test_a_lost_stream_is_taken_up_behind_its_last_event_with_the_same_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("clew.client.sse.PAUSE_SECONDS", 0.0)
    client, requests = scripted_client(
        httpx.Response(200, text=EVENT),
        httpx.ConnectError("gone"),
        httpx.Response(200, text=EVENT.replace("1.0", "2.0") + END),
    )
    events = list(client.stream_turn("t", "hi"))

    assert [event.id for event in events] == ["1.0", "2.0"]
    assert [request.headers.get("last-event-id") for request in requests] == [None, "1.0", "1.0"]
    assert len({request.headers["idempotency-key"] for request in requests}) == 1


def test_a_stream_that_is_lost_again_and_again_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.client.sse.PAUSE_SECONDS", 0.0)
    client, requests = scripted_client(*(httpx.ConnectError("gone") for _ in range(20)))

    with pytest.raises(StoreUnavailable):
        list(client.follow("t"))
    assert len(requests) == 5


def test_a_stream_that_ends_with_a_problem_raises_it() -> None:
    problem = (
        '{"type":"urn:x","title":"Not Found","status":404,"detail":"no","code":"thread_not_found",'
        '"facts":{"thread":"t"}}'
    )
    client, _ = scripted_client(httpx.Response(200, text=f"{EVENT}event: problem\ndata: {problem}\n\n"))
    stream = client.stream_turn("t", "hi")
    first = next(stream)

    assert first == StreamEvent(type="message", data={"n": 1}, id="1.0")
    with pytest.raises(ThreadNotFound):
        next(stream)


def test_a_reader_takes_signs_of_life_for_what_they_are() -> None:
    reader = EventReader()
    lines: Callable[[str], Iterator[str]] = lambda text: iter(text.split("\n"))  # noqa: E731
    events = [
        event
        for line in lines(f": still here\n\n{EVENT}: still here\n\n{END}")
        for event in reader.feed(line)
    ]

    assert [event.type for event in events] == ["message"]
    assert reader.is_over


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_client_loads_the_roots_of_trust_only_where_it_speaks_tls(
    kind: type[Client] | type[AsyncClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts: list[object] = []
    usual = ssl.create_default_context

    def load(*args: Any, **options: Any) -> ssl.SSLContext:
        contexts.append(options)
        return usual(*args, **options)

    monkeypatch.setattr(ssl, "create_default_context", load)
    kind("http://127.0.0.1:8100")
    without = len(contexts)
    kind("https://agents.example")

    assert (without, len(contexts)) == (0, 1)


def test_a_client_that_speaks_no_tls_trusts_nobody_who_does() -> None:
    context = tls_verification("HTTP://127.0.0.1")

    assert isinstance(context, ssl.SSLContext)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.get_ca_certs() == []
