"""Incognito over HTTP: no trace of anybody, and nobody reaches anybody else's."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import clew
from clew.core.errors import ModeRefused, NotFound, RateLimited
from clew.core.values import RecordQuery
from clew.runtime.model.protocol import ModelRequest, Reply, ReplyPart
from clew.runtime.records.episodes import ACTIVE_EPISODE
from clew.server.settings import ServerSettings
from clew.testing import ScriptedModel
from tests.server.conftest import Users, clients_of, in_memory

pytestmark = pytest.mark.promise("R-14")


class Recalling:
    """A model that repeats all that was said to it."""

    name = "recalling"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
        """One reply."""
        yield Reply(text=" | ".join(each.text for each in request.messages if each.role == "user"))

    async def fill(self, request: ModelRequest, kind: type[object]) -> object:
        """Nothing is ever asked of it in this way."""
        raise NotImplementedError


@pytest.fixture
async def talkers() -> AsyncIterator[Users]:
    """Users of a server whose model repeats what it has heard."""
    async with clew.open("memory://") as db, clients_of(db, model=Recalling()) as clients:  # type: ignore[arg-type]  # it fills no forms
        yield clients


async def test_two_users_of_one_tenant_have_an_incognito_thread_of_one_id_each(talkers: Users) -> None:
    await talkers("alice").run_turn("chat", "my secret", mode="incognito")
    bob = await talkers("bob").run_turn("chat", "hello", mode="incognito")
    alice = await talkers("alice").run_turn("chat", "and more", mode="incognito")

    assert bob.text == "hello"
    assert alice.text == "my secret | and more"


async def test_nobody_elses_incognito_thread_is_there(talkers: Users) -> None:
    await talkers("alice").run_turn("chat", "my secret", mode="incognito")
    bob = talkers("bob")
    for call in (
        bob.session_status("chat"),
        bob.end_session("chat"),
        bob.end_lost_voice("chat"),
        bob.items("chat"),
    ):
        with pytest.raises(NotFound):
            await call
    turn = await bob.run_turn("chat", "mine")

    assert turn.text == "mine"


async def test_an_incognito_thread_can_be_read_by_whose_it_is_until_it_ends(talkers: Users) -> None:
    alice = talkers("alice")
    await alice.run_turn("chat", "my secret", mode="incognito")
    texts = [each.text for each in (await alice.messages("chat")).messages]
    state, detail = await alice.state("chat"), await alice.thread("chat")
    turns = [each.user_message for each in (await alice.turns("chat")).turns]
    changes, verdict = (await alice.changesets("chat")).changesets, await alice.verify("chat")
    differs = await alice.diff("chat", 0)
    ids = [each.id for each in (await alice.threads()).threads]
    await alice.end_session("chat")

    assert texts == ["my secret", "my secret"]
    assert (state.version, detail.version, len(changes), differs.after) == (3, 3, 3, 3)
    assert (turns, verdict.ok, ids) == (["my secret"], True, [])
    with pytest.raises(NotFound):
        await alice.messages("chat")


@pytest.mark.parametrize("name", ["thread", "items", "messages", "changesets", "state", "verify", "turns"])
async def test_nobody_else_reads_an_incognito_thread(talkers: Users, name: str) -> None:
    await talkers("alice").run_turn("chat", "my secret", mode="incognito")
    others = [talkers("bob"), talkers("*"), talkers("alice", tenant="another")]
    for other in others:
        with pytest.raises(NotFound):
            await getattr(other, name)("chat")


async def test_going_incognito_takes_no_id_from_anybody(talkers: Users) -> None:
    await talkers("bob").run_turn("chat", "mine")
    await talkers("alice").run_turn("chat", "hello", mode="incognito")
    again = await talkers("bob").run_turn("chat", "still mine")
    await talkers("alice").end_session("chat")

    assert again.text == "mine | still mine"


async def test_another_tenants_user_of_one_name_is_somebody_else(talkers: Users) -> None:
    await talkers("alice").run_turn("chat", "my secret", mode="incognito")
    other = await talkers("alice", tenant="another").run_turn("chat", "hello", mode="incognito")

    assert other.text == "hello"


@pytest.mark.promise("R-15")
async def test_a_thread_stays_incognito_until_it_is_ended(talkers: Users) -> None:
    alice = talkers("alice")
    await alice.run_turn("chat", "one", mode="incognito")
    two = await alice.run_turn("chat", "two")
    status = await alice.session_status("chat")
    end = await alice.end_session("chat", feedback="positive")
    three = await alice.run_turn("chat", "three")

    assert two.text == "one | two"
    assert (status.incognito, status.status) == (True, "active")
    assert end.status == "ended"
    assert three.text == "three"


@pytest.mark.promise("R-15")
@pytest.mark.parametrize("mode", ["synced", "local"])
async def test_a_request_never_steps_up(talkers: Users, mode: str) -> None:
    alice = talkers("alice")
    await alice.run_turn("chat", "one", mode="incognito")

    with pytest.raises(ModeRefused):
        await alice.run_turn("chat", "two", mode=mode)  # type: ignore[arg-type]  # one of the modes


@pytest.mark.promise("R-15")
async def test_no_request_is_synced_where_that_is_not_offered(talkers: Users) -> None:
    with pytest.raises(ModeRefused):
        await talkers("alice").run_turn("chat", "one", mode="synced")


async def test_incognito_needs_no_user(talkers: Users) -> None:
    turn = await talkers("*").run_turn("chat", "who am I?", mode="incognito")

    assert turn.text == "who am I?"


async def test_an_incognito_turn_is_told_as_it_goes(talkers: Users) -> None:
    alice = talkers("alice")
    events = [event async for event in alice.stream_turn("chat", "hello", mode="incognito", key="k")]
    again = await alice.run_turn("chat", "hello", mode="incognito", key="k")

    assert [event.type for event in events if event.id is not None][-1] == "run_finished"
    assert again.text == "hello"


async def test_nothing_of_it_is_on_disk(tmp_path: Path) -> None:
    file = tmp_path / "server.db"
    async with clew.open(f"sqlite:///{file}") as db, clients_of(db) as users:
        alice = users("alice")
        await alice.run_turn("durable", "hello", key="first")
        before = _rows(file)
        await alice.run_turn("veiled-chat", "lantern", mode="incognito", key="k1")
        await alice.keep_voice_alive("veiled-chat", key="k2")
        await alice.end_session("veiled-chat", feedback="negative", key="k3")
        after = _rows(file)
        page = await alice.threads()

    assert after == before
    assert [thread.id for thread in page.threads] == ["durable"]
    assert _files_with(b"veiled-chat", tmp_path) == []


def _files_with(text: bytes, folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir() if text in each.read_bytes()]


def _rows(file: Path) -> dict[str, int]:
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as line:
        names = [name for (name,) in line.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: line.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names}


async def test_a_key_is_kept_as_long_as_the_incognito_thread_is(talkers: Users) -> None:
    alice = talkers("alice")
    await alice.run_turn("chat", "hello", mode="incognito")
    headers = {**talkers.headers("alice"), "Idempotency-Key": "k"}
    path = "/api/v1/sessions/chat/voice/alive"
    first = await talkers.http.post(path, json={"seconds": 60}, headers=headers)
    again = await talkers.http.post(path, json={"seconds": 60}, headers=headers)

    assert again.headers["idempotent-replayed"] == "true"
    assert again.json() == first.json()


async def test_there_are_so_many_incognito_users_at_once() -> None:
    async with in_memory(settings=ServerSettings(guests=1)) as users:
        await users("alice").run_turn("a", "hello", mode="incognito")
        with pytest.raises(RateLimited):
            await users("bob").run_turn("b", "hello", mode="incognito")
        await users("alice").run_turn("c", "hello", mode="incognito")


async def test_a_waiting_call_of_an_incognito_thread_is_cancelled_by_its_user_alone() -> None:
    start = asyncio.Event()

    def line(request: object) -> list[str | asyncio.Event]:
        start.set()
        return [asyncio.Event(), "late"]

    async with in_memory(model=ScriptedModel(line)) as users:
        alice = users("alice")
        turn = asyncio.create_task(alice.run_turn("chat", "hello", mode="incognito"))
        await start.wait()
        run = (await alice.session_status("chat")).run
        assert run is not None
        with pytest.raises(NotFound):
            await users("bob").cancel(run)
        cancellation = await alice.cancel(run)
        result = await turn

    assert cancellation.cancelled
    assert result.termination == "cancelled"


@pytest.mark.parametrize(
    "settings", [ServerSettings(workers=2), ServerSettings(pinned=False)], ids=["workers", "servers"]
)
async def test_where_requests_may_reach_another_process_nothing_is_incognito(
    db: clew.Database, settings: ServerSettings
) -> None:
    async with clients_of(db, settings=settings) as users:
        agent = await users("alice").agent()
        with pytest.raises(ModeRefused) as error:
            await users("alice").run_turn("a", "hello", mode="incognito")

    assert not agent.incognito
    assert (error.value.asked, "requests may reach another" in str(error.value)) == ("incognito", True)
    assert (await db.threads()).threads == ()


@pytest.mark.promise("R-15")
async def test_one_process_may_be_incognito_on_every_store_and_reports_its_mode(
    db: clew.Database,
) -> None:
    settings = ServerSettings(url=f"{db.store.name}://")
    async with clients_of(db, settings=settings) as users:
        alice = users("alice")
        agent = await alice.agent()
        await alice.run_turn("chat", "my secret", mode="incognito")
        turn = await alice.run_turn("chat", "and more")
        status = await alice.session_status("chat")
        records = [
            await db.records.find(RecordQuery(kind=kind)) for kind in (ACTIVE_EPISODE, "run", "request")
        ]

    assert (agent.mode, agent.incognito) == ("synced" if db.store.name == "postgres" else "local", True)
    assert (status.incognito, "and more" in turn.text) == (True, True)
    assert ((await db.threads()).threads, records) == ((), [[], [], []])


@pytest.mark.promise("R-15")
async def test_a_request_steps_down_to_incognito_and_to_nothing_else(db: clew.Database) -> None:
    async with clients_of(db) as users:
        alice = users("alice")
        mode = (await alice.agent()).mode
        turn = await alice.run_turn("a", "hello", mode=mode)
        with pytest.raises(ModeRefused) as error:
            await alice.run_turn("b", "hello", mode="local" if mode == "synced" else "synced")

    assert turn.termination == "natural"
    assert error.value.offered == mode
