"""Streams over real connections: cut off, taken up again, in the same process and in another."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import pytest
import websockets
from websockets.protocol import State
from websockets.typing import Origin

import clew
from clew.api.events import StreamEvent
from clew.client import AsyncClient
from clew.server.app import create_app
from clew.server.settings import ServerSettings
from clew.server.tenants.runtimes import MakeRuntime
from clew.testing import ScriptedModel
from tests.runtime.execution.half_answer import HalfAnswer
from tests.server.local_server import listening
from tests.server.slow_server import WORDS
from tests.support.echo import chatting, failing_runtime
from tests.support.stores import shared_url

__all__ = ["shared_url"]
ROOT = Path(__file__).parents[3]
HEADERS = {"X-Clew-User": "alice"}


@asynccontextmanager
async def live(
    model: ScriptedModel | None = None,
    settings: ServerSettings | None = None,
    make_runtime: MakeRuntime | None = None,
) -> AsyncIterator[str]:
    """A server in this process, at a real address."""
    async with clew.open("memory://") as db:
        app = create_app(settings, db=db, agent=make_runtime or chatting(model, settings))
        async with listening(app) as address:
            yield address


@contextmanager
def process(url: str, pause: float) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server in a process of its own. When it is killed, others on this machine see that it is gone.

    Its leases last long, or it would lose its turns on a machine that keeps it waiting.
    """
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.server.slow_server", url, str(pause)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    try:
        yield child, f"http://127.0.0.1:{child.stdout.readline().strip()}"
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


async def up(address: str) -> None:
    """Wait until a server answers; on a busy machine a process takes long to start."""
    async with httpx.AsyncClient() as http, asyncio.timeout(90):
        while True:
            with contextlib.suppress(httpx.HTTPError):
                if (await http.get(f"{address}/api/v1/ready")).status_code == 200:
                    return
            await asyncio.sleep(0.05)


def client_at(address: str) -> AsyncClient:
    """A client of alice's."""
    return AsyncClient(address, headers=HEADERS)


def durable(events: list[StreamEvent]) -> list[tuple[str | None, str]]:
    """The events that have an id."""
    return [(event.id, event.type) for event in events if event.id is not None]


@pytest.mark.promise("B-09")
async def test_a_listener_that_leaves_does_not_end_the_turn() -> None:
    hold = asyncio.Event()
    async with (
        live(ScriptedModel(["Hel", hold, "lo"])) as address,
        client_at(address) as alice,
    ):
        stream = alice.stream_turn("t", "hi", key="k")
        events: list[StreamEvent] = []
        async for event in stream:
            events.append(event)
            if event.type == "text":
                break
        await stream.aclose()  # type: ignore[attr-defined]  # it is a generator
        last = next(event.id for event in reversed(events) if event.id is not None)
        follow = asyncio.create_task(_all(alice.follow("t", after=last, run=str(events[0].data["run"]))))
        hold.set()
        rest = await follow

    assert durable(events) == [("1.0", "run_started"), ("1.1", "message")]
    assert durable(rest) == [("2.0", "message"), ("3.0", "run_finished")]
    assert rest[0].data["message"]["content"] == "Hello"


async def test_an_error_that_nobody_foresaw_is_told_with_the_end_of_its_run_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failing = failing_runtime(KeyError("nobody foresaw this"))
    async with live(make_runtime=failing) as address, httpx.AsyncClient() as http:
        headers = {**HEADERS, "Accept": "text/event-stream"}
        response = await http.post(
            f"{address}/api/v1/threads/t/turns", json={"message": "hi"}, headers=headers
        )

    blocks = response.text.strip().split("\n\n")
    assert blocks[0].startswith("id: 1.0\nevent: run_started\n")
    assert json.loads(blocks[-2].partition("data: ")[2])["termination"] == "error"
    assert blocks[-1] == "event: end\ndata: {}"
    assert [record.name for record in caplog.records if record.exc_info] == ["clew.server"]


async def _all(events: AsyncIterator[StreamEvent]) -> list[StreamEvent]:
    return [event async for event in events]


async def test_the_events_of_a_turn_are_labelled_as_an_event_stream() -> None:
    async with live(ScriptedModel("Hello")) as address, httpx.AsyncClient() as http:
        reply = await http.post(
            f"{address}/api/v1/threads/t/turns",
            json={"message": "hi"},
            headers={**HEADERS, "Accept": "text/event-stream"},
        )

    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"


async def test_a_silent_stream_gives_a_sign_of_life() -> None:
    hold = asyncio.Event()
    settings = ServerSettings(ping_seconds=0.05)
    async with live(ScriptedModel([hold, "late"]), settings) as address, httpx.AsyncClient() as http:
        request = http.stream(
            "POST",
            f"{address}/api/v1/threads/t/turns",
            json={"message": "hi"},
            headers={**HEADERS, "Accept": "text/event-stream"},
        )
        async with request as answer:
            lines = answer.aiter_lines()
            async for line in lines:
                if line.startswith(": "):
                    break
            hold.set()
            rest = [line async for line in lines]

    assert "event: end" in rest


async def test_more_streams_than_allowed_are_refused_politely() -> None:
    hold = asyncio.Event()
    settings = ServerSettings(streams=1)
    async with (
        live(ScriptedModel([hold, "late"]), settings) as address,
        client_at(address) as alice,
    ):
        stream = alice.stream_turn("t", "hi")
        await anext(stream)
        with pytest.raises(clew.ClewError) as error:
            await anext(alice.follow("t", after="0.0"))
        hold.set()
        await _all(stream)
        after = await anext(alice.follow("t", after="0.0"))

    assert error.value.code == "server_full"
    assert after.type == "run_started"


@pytest.mark.promise("B-09", "R-24")
async def test_a_stream_continues_on_another_process_when_its_own_is_killed(shared_url: str) -> None:
    with process(shared_url, 0.1) as (first, address), process(shared_url, 0.01) as (_, other):
        await asyncio.gather(up(address), up(other))
        events: list[StreamEvent] = []
        async with client_at(address) as alice:
            stream = alice.stream_turn("t", "hi", key="k")
            async for event in stream:
                events.append(event)
                if event.type == "text":
                    break
            first.kill()
            first.wait()
            await stream.aclose()  # type: ignore[attr-defined]  # it is a generator
        last = next(event.id for event in reversed(events) if event.id is not None)
        async with client_at(other) as alice:
            rest = [event async for event in alice.stream_turn("t", "hi", key="k", after=last)]
            items = (await alice.items("t")).items
            verdict = await alice.verify("t")

    durable_events = [*durable(events), *durable(rest)]
    assert len({id for id, _ in durable_events}) == len(durable_events)
    assert [type for _, type in durable_events if type == "message"] == ["message", "message"]
    assert durable_events[-1][1] == "run_finished"
    assert rest[-2].data["message"]["content"] == "".join(WORDS)
    assert [item.role for item in items] == ["user", "assistant"]
    assert verdict.ok


@pytest.mark.promise("B-09")
async def test_a_turn_at_work_elsewhere_is_told_here(shared_url: str) -> None:
    with process(shared_url, 0.2) as (_, address), process(shared_url, 0.2) as (_, other):
        await asyncio.gather(up(address), up(other))
        async with (
            AsyncClient(address, headers=HEADERS) as here,
            AsyncClient(other, headers=HEADERS) as there,
        ):
            stream = here.stream_turn("t", "hi", key="k")
            first_event = await anext(stream)
            same = there.stream_turn("t", "hi", key="k")
            first = await anext(same)
            at_work = (await there.runs(status="running")).runs
            rest = [first_event, *await _all(stream)]
            elsewhere = [first, *await _all(same)]

    assert len(at_work) == 1
    assert durable(elsewhere) == durable(rest)


# The WebSocket.


async def test_a_turn_is_told_over_a_websocket() -> None:
    async with live(ScriptedModel(["Hel", "lo"])) as address, connect(address) as line:
        await line.send(json.dumps({"type": "turn", "thread": "t", "message": "hi", "ref": "a"}))
        events = await until_end(line)

    assert [(event["type"], event["id"], event["ref"]) for event in events] == [
        ("run_started", "1.0", "a"),
        ("message", "1.1", "a"),
        ("stage", None, "a"),
        ("text", None, "a"),
        ("text", None, "a"),
        ("message", "2.0", "a"),
        ("run_finished", "3.0", "a"),
        ("end", None, "a"),
    ]


@pytest.mark.promise("R-17")
@pytest.mark.parametrize(
    "message",
    [
        {"type": "turn", "message": "hi"},
        {"type": "turn", "thread": "", "message": "hi"},
        {"type": "turn", "thread": "t"},
        {"type": "shout", "thread": "t"},
        {"type": "turn", "thread": "t", "message": "hi", "else": 1},
        "not an object",
    ],
)
async def test_a_message_that_makes_no_sense_is_refused_and_the_line_stays(message: object) -> None:
    async with live(ScriptedModel("fine")) as address, connect(address) as line:
        await line.send(json.dumps(message))
        problem, end = json.loads(await line.recv()), json.loads(await line.recv())
        await line.send(json.dumps({"type": "turn", "thread": "t2", "message": "hi", "ref": "b"}))
        events = [event for event in await until_end(line, "b") if event["ref"] == "b"]

    assert problem["data"]["status"] == 422
    assert end["type"] == "end"
    assert events[-1]["type"] == "end"


async def test_a_message_that_is_too_large_is_refused_and_the_line_stays() -> None:
    settings = ServerSettings(body=1_000)
    async with live(ScriptedModel("fine"), settings) as address, connect(address) as line:
        await line.send(json.dumps({"type": "turn", "thread": "t", "message": "x" * 1_000}))
        problem, _ = json.loads(await line.recv()), await line.recv()
        await line.send(json.dumps({"type": "turn", "thread": "t", "message": "hi"}))
        events = await until_end(line)

    assert (problem["data"]["code"], problem["data"]["status"]) == ("too_large", 413)
    assert events[-2]["type"] == "run_finished"


async def test_an_error_that_nobody_foresaw_is_told_over_a_websocket_too() -> None:
    failing = failing_runtime(KeyError("nobody foresaw this"))
    async with live(make_runtime=failing) as address, connect(address) as line:
        await line.send(json.dumps({"type": "turn", "thread": "t", "message": "hi", "ref": "a"}))
        async with asyncio.timeout(20):
            events = await until_end(line)

    assert [event["type"] for event in events[-2:]] == ["problem", "end"]
    assert {"code": "error", "status": 500}.items() <= events[-2]["data"].items()  # type: ignore[attr-defined]  # JSON


async def test_requests_over_a_websocket_count_like_any_others() -> None:
    settings = ServerSettings(requests=3)
    async with live(ScriptedModel("fine"), settings) as address, connect(address) as line:
        for ref in ("a", "b", "c"):
            await line.send(json.dumps({"type": "cancel", "thread": "t", "ref": ref}))
        async with asyncio.timeout(20):
            events = [json.loads(await line.recv()) for _ in range(6)]

    codes = {event["ref"]: event["data"]["code"] for event in events if event["type"] == "problem"}
    assert codes == {"a": "thread_not_found", "b": "thread_not_found", "c": "rate_limited"}


async def test_a_websocket_without_credentials_that_hold_is_not_opened() -> None:
    async with live(ScriptedModel("never")) as address:
        url = f"{address.replace('http', 'ws')}/api/v1/ws"
        with pytest.raises(websockets.InvalidStatus) as refusal:
            await websockets.connect(url, additional_headers={"Authorization": "Bearer made-up"})

    assert refusal.value.response.status_code == 401


@pytest.mark.promise("F-09")
async def test_a_websocket_opens_for_pages_of_the_server_and_of_no_other_port() -> None:
    async with live(ScriptedModel("never")) as address:
        url = f"{address.replace('http', 'ws')}/api/v1/ws"
        async with websockets.connect(url, origin=Origin(address)) as own:
            state = own.state
        with pytest.raises(websockets.InvalidStatus) as refusal:
            await websockets.connect(url, origin=Origin("http://127.0.0.1:1"))

    assert state is State.OPEN
    assert refusal.value.response.status_code == 401


async def test_a_lost_websocket_goes_on_from_its_last_event() -> None:
    async with live(ScriptedModel("one")) as address:
        async with connect(address) as line:
            await line.send(json.dumps({"type": "turn", "thread": "t", "message": "hi", "key": "k"}))
            await until_end(line)
        async with connect(address) as line:
            await line.send(
                json.dumps({"type": "turn", "thread": "t", "message": "hi", "key": "k", "after": "1.1"})
            )
            events = await until_end(line)

    assert [(event["type"], event["id"]) for event in events] == [
        ("message", "2.0"),
        ("run_finished", "3.0"),
        ("end", None),
    ]


async def test_a_message_over_a_websocket_interrupts_the_answer_before_it() -> None:
    half = HalfAnswer("I ")
    async with live(ScriptedModel(half.line, "Yes.")) as address, connect(address) as line:
        await line.send(json.dumps({"type": "turn", "thread": "t", "message": "hi", "ref": "1"}))
        await half.is_said.wait()
        second = {"type": "turn", "thread": "t", "message": "?", "busy": "interrupt", "ref": "2"}
        await line.send(json.dumps(second))
        events = await until_end(line, "2")

    first_end = next(event for event in events if event["type"] == "run_finished")
    assert (first_end["ref"], first_end["data"]["termination"]) == ("1", "superseded")  # type: ignore[index]  # JSON


def connect(address: str) -> websockets.connect:
    """A connection of alice's."""
    return websockets.connect(f"{address.replace('http', 'ws')}/api/v1/ws", additional_headers=HEADERS)


async def until_end(line: websockets.ClientConnection, ref: str | None = None) -> list[dict[str, object]]:
    """The events of a request, to its end."""
    events: list[dict[str, object]] = []
    while not events or events[-1]["type"] != "end" or (ref is not None and events[-1]["ref"] != ref):
        events.append(json.loads(await line.recv()))
    return events
