"""Several processes on one store behind one address: none has a thread to itself, and any may be killed."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import clew
from clew.api.events import StreamEvent
from clew.client import AsyncClient
from clew.core.errors import ModeRefused, ThreadNotFound
from clew.runtime.records.episodes import request_end
from clew.server.settings import ServerSettings
from tests.cli.commands.test_serve import command, free_port
from tests.server.conftest import clients_of
from tests.server.http.test_sse import HEADERS, client_at, durable, process, up
from tests.server.slow_server import WORDS
from tests.support.proxy import Proxy
from tests.support.shared_postgres import PostgresDatabase
from tests.support.stores import shared_url

__all__ = ["shared_url"]
pytestmark = pytest.mark.slow


PATIENCE = 60.0
"""Seconds that a test waits for another process, which has little of a busy machine."""


async def until(true: Callable[[], Awaitable[bool]], seconds: float = PATIENCE) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(seconds):
        while not await true():  # noqa: ASYNC110  # it is so in another process, which tells nobody here
            await asyncio.sleep(0.05)


@pytest.mark.promise("B-09", "R-24")
async def test_a_stream_goes_on_by_itself_when_its_process_is_killed(shared_url: str) -> None:
    with process(shared_url, 0.1) as (first, one), process(shared_url, 0.01) as (_, other):
        await asyncio.gather(up(one), up(other))
        events: list[StreamEvent] = []
        async with Proxy([one, other]) as proxy, client_at(proxy.url) as alice:
            async for event in alice.stream_turn("t", "hi"):
                events.append(event)
                if event.type == "text" and first.poll() is None:
                    first.kill()
                    first.wait()
            messages = (await alice.items("t")).items
            verdict = await alice.verify("t")

    ids = [id for id, _ in durable(events)]
    assert proxy.choices[0] == one
    assert proxy.choices[-1] == other
    assert len(set(ids)) == len(ids)
    assert ids == sorted(ids, key=lambda id: [int(part) for part in str(id).split(".")])
    assert durable(events)[-1][1] == "run_finished"
    assert [event.data["message"]["content"] for event in events if event.type == "message"] == [
        "hi",
        "".join(WORDS),
    ]
    assert [item.role for item in messages] == ["user", "assistant"]
    assert verdict.ok


@pytest.mark.postgres
@pytest.mark.promise("B-09")
async def test_a_follower_hears_every_event_once_while_processes_come_and_go(
    postgres_database: PostgresDatabase,
) -> None:
    url = postgres_database.url
    with process(url, 0.0) as (first, one), process(url, 0.0) as (_, other):
        await asyncio.gather(up(one), up(other))
        events: list[StreamEvent] = []
        async with Proxy([one, other]) as proxy, client_at(proxy.url) as follower, client_at(other) as alice:
            await alice.run_turn("t", "turn 0")
            listening = asyncio.create_task(_hear(follower, events, 4))
            await alice.run_turn("t", "turn 1")
            first.kill()
            first.wait()
            for number in (2, 3):
                await alice.run_turn("t", f"turn {number}")
            await asyncio.wait_for(listening, PATIENCE)

    texts = [event.data["message"]["content"] for event in events if event.type == "message"]
    assert [text for text in texts if text.startswith("turn")] == [f"turn {number}" for number in range(4)]
    ids = [id for id, _ in durable(events)]
    assert len(set(ids)) == len(ids)


def joined_text(events: list[StreamEvent]) -> str:
    """The live text, if every piece of it begins where the one before it ends."""
    text = ""
    for event in events:
        if event.type == "text":
            assert event.data.get("offset", 0) == len(text)
            text += event.data["text"]
    return text


@pytest.mark.promise("B-17", "B-09")
async def test_a_follower_at_another_process_reads_an_answer_while_it_is_given(shared_url: str) -> None:
    with process(shared_url, 0.1) as (_, one), process(shared_url, 0.0) as (_, other):
        await asyncio.gather(up(one), up(other))
        events: list[StreamEvent] = []
        async with client_at(one) as alice, client_at(other) as follower:
            turn = asyncio.create_task(alice.run_turn("t", "hi"))
            await until(lambda: _is_there(follower))
            await _hear(follower, events, 1)
            await turn

    texts = [event for event in events if event.type == "text"]
    assert "".join(WORDS).startswith(joined_text(events))
    assert len(texts) > 1
    assert [event.type for event in events if event.type != "text"][-2:] == ["message", "run_finished"]


@pytest.mark.promise("B-17", "B-09")
async def test_a_turn_that_is_sent_again_gets_its_text_from_the_beginning(shared_url: str) -> None:
    with process(shared_url, 0.1) as (_, one), process(shared_url, 0.0) as (_, other):
        await asyncio.gather(up(one), up(other))
        async with client_at(one) as alice, client_at(other) as again:
            first = alice.stream_turn("t", "hi", key="k")
            async for event in first:
                if event.type == "text" and event.data["text"] == WORDS[4]:
                    break
            await first.aclose()  # type: ignore[attr-defined]  # it is a generator
            events = [event async for event in again.stream_turn("t", "hi", key="k")]

    messages = [event.data["message"]["content"] for event in events if event.type == "message"]
    assert joined_text(events).startswith(WORDS[0])
    assert messages == ["hi", "".join(WORDS)]


async def _is_there(client: AsyncClient) -> bool:
    try:
        await client.thread("t")
    except ThreadNotFound:
        return False
    return True


async def _hear(client: AsyncClient, events: list[StreamEvent], runs: int) -> None:
    async for event in client.follow("t", after="0.0"):
        events.append(event)
        if sum(each.type == "run_finished" for each in events) == runs:
            return


@pytest.mark.postgres
@pytest.mark.promise("R-24")
async def test_turns_of_one_thread_stand_one_after_another_whatever_process_has_them(
    postgres_database: PostgresDatabase,
) -> None:
    url = postgres_database.url
    with process(url, 0.005) as (_, one), process(url, 0.005) as (_, other):
        await asyncio.gather(up(one), up(other))
        async with (
            Proxy([one, other], in_turn=True) as proxy,
            client_at(one) as here,
            client_at(other) as there,
        ):
            both = [client.run_turn("t", f"{n}") for n, client in enumerate([here, there] * 3)]
            turns = await asyncio.gather(*both)
            async with client_at(proxy.url) as alice:
                items = (await alice.items("t")).items
                verdict = await alice.verify("t")

    assert [turn.termination for turn in turns] == ["natural"] * 6
    assert [item.role for item in items] == ["user", "assistant"] * 6
    assert sorted(item.body["content"] for item in items[::2]) == [f"{n}" for n in range(6)]
    assert all(ask.run == reply.run for ask, reply in zip(items[::2], items[1::2], strict=True))
    assert verdict.ok


@pytest.mark.postgres
@pytest.mark.promise("F-13", "R-24")
async def test_what_a_killed_process_leaves_is_tended_by_another(postgres_database: PostgresDatabase) -> None:
    url = postgres_database.url
    with process(url, 5.0) as (first, one), process(url, 0.0) as (_, other):
        await asyncio.gather(up(one), up(other))
        async with client_at(one) as alice:
            stream = alice.stream_turn("left", "hi")
            first_event = await anext(stream)
            first.kill()
            first.wait()
            await stream.aclose()  # type: ignore[attr-defined]  # it is a generator
        async with client_at(other) as alice:
            await alice.run_turn("ending", "hi")
            async with clew.open(url) as db:
                episode = await request_end(
                    db.scope(tenant="default", user="alice"), "ending", by="test", now=10**13
                )
            run = str(first_event.data["run"])

            async def is_closed() -> bool:
                over = (await alice.run(run)).termination is not None
                return over and not (await alice.jobs()).jobs

            await until(is_closed)
            run_after = await alice.run(run)
            turn = await alice.run_turn("left", "again")

    assert episode is not None
    assert (run_after.status, run_after.termination) == ("done", "interrupted")
    assert turn.termination == "natural"


@pytest.mark.postgres
async def test_a_worker_that_dies_is_replaced_at_once_and_none_outlives_its_parent(
    postgres_database: PostgresDatabase,
) -> None:
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with command("--db", postgres_database.url, "--port", str(port), "--workers", "2") as child:
        await up(address)
        workers = await _workers(child.pid, 2)
        os.kill(workers[0], signal.SIGSTOP)
        await asyncio.sleep(1.0)  # whoever asks it how it is, has asked by now, and gets no answer
        os.kill(workers[0], signal.SIGKILL)
        for number in range(5):
            async with AsyncClient(address, headers=HEADERS) as client:
                await client.run_turn("t", f"{number}", key=f"{number}")
        workers_after = await _workers(child.pid, 2, without=workers[0])
        async with AsyncClient(address, headers=HEADERS) as client:
            turns = (await client.turns("t")).turns
        child.kill()
        await until(lambda: _all_ended(workers_after))

    assert workers[1] in workers_after
    assert [turn.user_message for turn in turns] == [f"{number}" for number in range(5)]


async def _all_ended(pids: list[int]) -> bool:
    """Whether none of some processes serves any more, which a parent that was killed cannot tell them."""
    return not any(_command_line(str(pid)) for pid in pids)


async def _workers(parent: int, count: int, without: int = 0) -> list[int]:
    """The processes that serve, once there are so many; before whoever is silent is given up."""
    pids: list[int] = []

    async def enough() -> bool:
        pids[:] = [pid for pid in _children(parent) if pid != without]
        return len(pids) == count

    await until(enough, PATIENCE / 2)
    return pids


def _children(parent: int) -> list[int]:
    """The children of a process that serve; the one that keeps count of semaphores is none."""
    pids = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii").split()
    return [int(pid) for pid in pids if b"spawn_main" in _command_line(pid)]


def _command_line(pid: str) -> bytes:
    """How a process was started; nothing of one that has just been buried."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


# Incognito.


@pytest.mark.promise("R-15")
@pytest.mark.parametrize(
    "settings",
    [
        ServerSettings(url="postgresql://somewhere/agents", pinned=False),
        ServerSettings(url="sqlite:///agent.db", workers=2),
    ],
    ids=["several servers", "several workers"],
)
async def test_incognito_is_refused_where_another_process_may_get_the_next_request(
    settings: ServerSettings,
) -> None:
    async with clew.open("memory://") as db, clients_of(db, settings=settings) as users:
        answer = await users.http.post(
            "/api/v1/threads/t/turns", json={"message": "hi", "mode": "incognito"}, headers=users.headers()
        )
        threads = (await users().threads()).threads

    assert answer.status_code == 422
    assert answer.json()["code"] == ModeRefused.code
    assert "process" in answer.json()["detail"]
    assert threads == []


@pytest.mark.promise("R-15")
async def test_incognito_is_served_by_a_server_of_one_process() -> None:
    async with clew.open("memory://") as db, clients_of(db) as users:
        answer = await users.http.post(
            "/api/v1/threads/t/turns", json={"message": "hi", "mode": "incognito"}, headers=users.headers()
        )

    assert answer.status_code == 200
