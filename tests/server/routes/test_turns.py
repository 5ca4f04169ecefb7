"""Turns over HTTP, on every store: whole or told as they go, repeated, refused, decided."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import clew
from clew.api.events import StreamEvent
from clew.api.runs import NewDecision
from clew.api.turns import WhenBusy
from clew.client import AsyncClient
from clew.core.errors import (
    DecisionRefused,
    Forbidden,
    InvalidArgument,
    KeyReused,
    ModelFailed,
    RecordNotFound,
    ThreadNotFound,
    TurnBusy,
    TurnSuspended,
)
from clew.runtime import ModelRequest, ToolContext
from clew.server.tenants.runtimes import MakeRuntime
from clew.testing import ScriptedModel
from clew.testing.scripted_model import calls
from tests.runtime.execution.half_answer import HalfAnswer
from tests.server.conftest import Users, clients_of, in_memory


async def collect(events: Any) -> list[StreamEvent]:
    """All events of a stream."""
    return [event async for event in events]


def held_model(start: asyncio.Event, hold: asyncio.Event) -> ScriptedModel:
    """A model that says when it is asked, and then waits."""

    def line(request: ModelRequest) -> list[str | asyncio.Event]:
        start.set()
        return ["I ", hold, "see"]

    return ScriptedModel(line)


async def test_a_turn_is_answered_whole(alice: AsyncClient) -> None:
    result = await alice.run_turn("t", "hello there")

    assert (result.termination, result.version) == ("natural", 3)
    assert "“hello there”" in result.text
    assert result.usage.calls == 1


@pytest.mark.promise("R-17")
async def test_a_turn_without_a_thread_is_refused_and_none_is_made_up(users: Users) -> None:
    answer = await users.http.post("/api/v1/turns", json={"message": "hi"}, headers=users.headers())
    empty = await users.http.post(
        "/api/v1/turns", json={"message": "hi", "thread": ""}, headers=users.headers()
    )

    assert (answer.status_code, empty.status_code) == (422, 422)
    assert "thread" in answer.json()["detail"]
    assert (await users().threads()).threads == []


@pytest.mark.promise("R-17")
async def test_a_turn_without_a_user_is_nobodys_and_none_is_made_up(db: clew.Database) -> None:
    async with without_user(db) as users:
        nobodys = await users.http.post("/api/v1/turns", json={"message": "hi", "thread": "t"})
        hers = await users.http.post("/api/v1/turns", json={"message": "hi", "thread": "u", "user": "alice"})

    assert (nobodys.status_code, hers.status_code) == (200, 200)
    assert (await db.thread("t").head()).owner is None
    assert (await db.thread("u").head()).owner == "alice"


async def test_credentials_of_one_user_do_not_speak_for_another(alice: AsyncClient) -> None:
    with pytest.raises(clew.ClewError) as error:
        await alice.run_turn("t", "hi", user="bob")

    assert error.value.code == "forbidden"


@pytest.mark.promise("B-02")
async def test_a_turn_with_a_key_is_made_once(db: clew.Database) -> None:
    model = ScriptedModel("first", "second")
    async with clients_of(db, model=model) as users:
        first = await users().run_turn("t", "hi", key="k")
        again = await users().run_turn("t", "hi", key="k")
        with pytest.raises(KeyReused):
            await users().run_turn("t", "another", key="k")

    assert again == first
    assert len(model.requests) == 1


@pytest.mark.promise("F-11")
async def test_a_turn_on_another_s_thread_is_not_there(users: Users, alice: AsyncClient) -> None:
    await alice.run_turn("t", "hi")

    with pytest.raises(ThreadNotFound):
        await users("bob").run_turn("t", "hi")


async def test_a_second_turn_is_refused_with_the_time_to_wait(db: clew.Database) -> None:
    start, hold = asyncio.Event(), asyncio.Event()
    async with clients_of(db, model=held_model(start, hold)) as users:
        first = asyncio.create_task(users().run_turn("t", "hi"))
        await start.wait()
        answer = await users.http.post(
            "/api/v1/threads/t/turns", json={"message": "?", "busy": "refuse"}, headers=users.headers()
        )
        with pytest.raises(TurnBusy):
            await users().run_turn("t", "?", busy="refuse")
        hold.set()
        await first

    assert (answer.status_code, answer.json()["code"]) == (409, "turn_busy")
    assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    ("busy", "termination", "texts", "cut_texts"),
    [
        ("interrupt", "superseded", ["hi", "I ", "?", "Yes."], ["I "]),
        ("rollback", "rolled_back", ["?", "Yes."], []),
    ],
)
async def test_a_second_message_ends_the_first_turn(
    db: clew.Database, busy: WhenBusy, termination: str, texts: list[str], cut_texts: list[str]
) -> None:
    half = HalfAnswer("I ")
    async with clients_of(db, model=ScriptedModel(half.line, "Yes.")) as users:
        first = asyncio.create_task(users().run_turn("t", "hi"))
        await half.is_said.wait()
        result = await users().run_turn("t", "?", busy=busy)
        cut = await first
        messages = (await users().messages("t")).messages

    assert (cut.termination, result.termination, result.effects) == (termination, "natural", [])
    assert [message.text for message in messages] == texts
    assert [message.text for message in messages if message.meta.get("cut_short")] == cut_texts


async def test_a_model_that_fails_is_told_as_such(db: clew.Database) -> None:
    async with clients_of(db, model=ScriptedModel(ModelFailed(model="m", problem="it is down"))) as users:
        with pytest.raises(ModelFailed):
            await users().run_turn("t", "hi")
        (run,) = (await users().runs(thread="t")).runs

    assert (run.status, run.termination) == ("done", "error")


@pytest.mark.promise("T-11")
async def test_a_stream_tells_durable_events_with_ids_and_live_ones_without(db: clew.Database) -> None:
    async with clients_of(db, model=ScriptedModel(["He", "llo"])) as users:
        events = await collect(users().stream_turn("t", "hi"))

    assert [(event.type, event.id) for event in events] == [
        ("run_started", "1.0"),
        ("message", "1.1"),
        ("stage", None),
        ("text", None),
        ("text", None),
        ("message", "2.0"),
        ("run_finished", "3.0"),
    ]
    assert events[5].data["message"]["content"] == "Hello"


@pytest.mark.promise("B-09")
async def test_a_repeated_stream_tells_what_was_missed_once(db: clew.Database) -> None:
    async with clients_of(db, model=ScriptedModel("one", "two")) as users:
        whole = await collect(users().stream_turn("t", "hi", key="k"))
        await users().run_turn("t", "later")
        again = await collect(users().stream_turn("t", "hi", key="k", after="1.1"))
        repetition = await collect(users().stream_turn("t", "hi", key="k"))

    durable = [event for event in whole if event.id is not None]
    assert again[:2] == durable[2:]
    assert repetition[:4] == durable
    assert [event.id for event in again] == ["2.0", "3.0", "4.0", "4.1", "5.0", "6.0"]


async def test_an_error_at_once_has_a_status_of_its_own(users: Users, alice: AsyncClient) -> None:
    await alice.run_turn("t", "hi")
    answer = await users.http.post(
        "/api/v1/threads/t/turns",
        json={"message": "hi"},
        headers={**users.headers("bob"), "Accept": "text/event-stream"},
    )

    assert (answer.status_code, answer.json()["code"]) == (404, "thread_not_found")


@pytest.mark.parametrize("id", ["x", "1", "1.", ".1", "1.x", "9" * 20 + ".0"])
async def test_what_is_no_id_of_an_event_is_refused(id: str) -> None:
    async with in_memory() as users:
        await users().run_turn("t", "hi")
        with pytest.raises(InvalidArgument):
            await collect(users().follow("t", after=id))


# Runs.


@clew.tool(approval=True)
async def pay(amount: int, ctx: ToolContext) -> str:
    """Pay somebody."""
    return f"paid {amount}"


def payment_runtime(*script: Any) -> MakeRuntime:
    """A runtime with a tool that waits for approval."""
    model = ScriptedModel(*script)
    return lambda db: clew.Runtime(db, model=model, tools=[pay])


@pytest.mark.promise("T-16")
async def test_a_call_that_waits_is_decided_over_http(db: clew.Database) -> None:
    reply = calls(("c1", "pay", {"amount": 5}))
    async with clients_of(db, make_runtime=payment_runtime(reply, "done")) as users:
        waiting = await users().run_turn("t", "pay 5")
        run = await users().run(waiting.run)
        with pytest.raises(TurnSuspended):
            await users().run_turn("t", "and?")
        result = await users().decide(waiting.run, {"c1": NewDecision(decision="replay")})

    assert waiting.termination == "suspended"
    assert [(each.call, each.tool, each.arguments) for each in run.waiting] == [("c1", "pay", {"amount": 5})]
    assert (result.termination, result.text) == ("natural", "done")


async def test_a_decision_about_no_waiting_call_is_refused(db: clew.Database) -> None:
    reply = calls(("c1", "pay", {"amount": 5}))
    async with clients_of(db, make_runtime=payment_runtime(reply, "done")) as users:
        waiting = await users().run_turn("t", "pay 5")

        with pytest.raises(DecisionRefused):
            await users().decide(waiting.run, {"c2": NewDecision(decision="replay")})


async def test_another_s_run_is_neither_seen_nor_cancelled_nor_decided(db: clew.Database) -> None:
    reply = calls(("c1", "pay", {"amount": 5}))
    async with clients_of(db, make_runtime=payment_runtime(reply, "done")) as users:
        waiting = await users().run_turn("t", "pay 5")
        bob = users("bob")
        for call in (
            bob.run(waiting.run),
            bob.cancel(waiting.run),
            bob.decide(waiting.run, {"c1": NewDecision(decision="replay")}),
        ):
            with pytest.raises(RecordNotFound):
                await call

        assert (await bob.runs()).runs == []
        assert (await users().run(waiting.run)).status == "waiting"


async def test_a_decision_is_for_the_user_that_it_names(db: clew.Database) -> None:
    reply = calls(("c1", "pay", {"amount": 5}))
    yes = {"c1": NewDecision(decision="replay")}
    async with clients_of(db, make_runtime=payment_runtime(reply, "done")) as users:
        waiting, everybody = await users().run_turn("t", "pay 5"), users("*")
        with pytest.raises(Forbidden):
            await users().decide(waiting.run, yes, user="bob")
        with pytest.raises(RecordNotFound):
            await everybody.decide(waiting.run, yes, user="bob")
        result = await everybody.decide(waiting.run, yes, user="alice")

    assert result.text == "done"


async def test_a_run_at_work_is_cancelled(db: clew.Database) -> None:
    start = asyncio.Event()
    async with clients_of(db, model=held_model(start, asyncio.Event())) as users:
        turn = asyncio.create_task(users().run_turn("t", "hi"))
        await start.wait()
        runs = (await users().runs(status="running")).runs
        cancellation = await users().cancel(runs[0].id)
        result = await turn
        run = await users().run(runs[0].id)

    assert (cancellation.cancelled, result.termination) == (True, "cancelled")
    assert (run.status, run.termination) == ("done", "cancelled")


async def test_runs_are_listed_in_pages_newest_first(alice: AsyncClient) -> None:
    runs = [(await alice.run_turn("t", message)).run for message in ("one", "two", "three")]
    first = await alice.runs(thread="t", limit=2)
    second = await alice.runs(thread="t", limit=2, cursor=first.next)

    assert sorted(run.id for run in (*first.runs, *second.runs)) == sorted(runs)
    assert second.next is None


def without_user(db: clew.Database) -> Any:
    """A server whose credentials speak for a tenant and no user."""
    from clew.server.identity.identity import Identity

    async def authenticate(headers: Any) -> Identity:
        return Identity(tenant=db.tenant, user=None, workspace="default", scopes=frozenset({"read", "write"}))

    return clients_of(db, authenticate=authenticate)
