"""Records of a turn: written with it, or once the store is back. The safe reply: out whatever fails."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

import clew
from clew.core.encoding import encode
from clew.core.erasure.receipts import DOCUMENT_TAG, RETAINED_KIND
from clew.core.erasure.retention import DAY_MS
from clew.core.errors import (
    InvalidArgument,
    InvalidValue,
    ModelFailed,
    StoreUnavailable,
)
from clew.core.log.commit import Plan, Planner
from clew.core.values import Record, Scope
from clew.database.database import Database
from clew.runtime.execution.safe_reply import gate
from clew.runtime.execution.stateless import run_agent
from clew.runtime.model.protocol import ModelRequest
from clew.runtime.records.episodes import active_episode
from clew.runtime.records.events import TextDelta
from clew.runtime.records.turn_records import PendingRecords
from clew.stores.memory import MemoryStore
from clew.testing.clock import Clock
from clew.testing.faults import FailingStore
from clew.testing.scripted_model import ScriptedModel
from tests.runtime.gated_agent import (
    INCIDENT,
    SAFE,
    WORDS,
    Companion,
    Incident,
    answer,
    gated_runtime,
    incident_log,
    look_for_danger,
    moody,
    records_of,
)
from tests.support.tenants import db, postgres_url, tenant

__all__ = ["db", "postgres_url", "tenant"]


# With the turn.


@pytest.mark.promise("R-22")
@pytest.mark.parametrize("level", [1, 2, 3])
async def test_a_record_is_written_with_the_turn(db: Database, level: int) -> None:
    clock = Clock()
    async with gated_runtime(db, clock=clock) as runtime:
        result = await runtime.run_turn("a", f"{level} {WORDS}", user="ada")
        episode = await active_episode(db, "a")

    assert episode is not None
    assert await incident_log(db) == [
        Incident(
            id=f"{result.run}.1.1",
            level=level,
            path="digits",
            thread="a",
            run=result.run,
            episode=episode.id,
            time=clock(),
            keep_until=clock() + 90 * DAY_MS,
        )
    ]
    assert episode.level == level


@pytest.mark.promise("R-22")
async def test_nothing_that_was_said_is_in_a_record(db: Database) -> None:
    async with gated_runtime(db) as runtime:
        await runtime.run_turn("a", f"3 {WORDS}", user="ada")

    stored_bytes = b"".join(
        encode(msgspec.to_builtins(record)) for record in await records_of(db, RETAINED_KIND)
    )
    assert stored_bytes
    assert not any(word.encode() in stored_bytes for word in WORDS.split())


@pytest.mark.parametrize(
    "wrong",
    [{"kind": ""}, {"kind": "retained"}, {"level": -1}, {"keep_days": 0}, {"body": {"at": object()}}],
    ids=["no kind", "the kind of the library", "a negative level", "no days", "no JSON"],
)
async def test_a_record_that_cannot_be_is_refused(db: Database, wrong: dict[str, Any]) -> None:
    async def talk_too_much(state: Companion, ctx: clew.Context) -> None:
        ctx.turn.record(**{"kind": INCIDENT, "body": {}, "keep_days": 1, **wrong})

    async with gated_runtime(db, talk_too_much) as runtime:
        with pytest.raises((InvalidArgument, InvalidValue)):
            await runtime.run_turn("a", "Hi")
    assert await incident_log(db) == []


async def test_a_turn_without_danger_leaves_no_row(db: Database) -> None:
    async with gated_runtime(db) as runtime:
        await runtime.run_turn("a", "Hi")

    assert await incident_log(db) == []


@pytest.mark.promise("R-22")
async def test_the_row_is_there_before_the_reply_is_worded(db: Database) -> None:
    levels: list[int] = []

    async def look(state: Companion, ctx: clew.Context) -> None:
        levels.extend(row.level for row in await incident_log(db))

    async with gated_runtime(db, look_for_danger, look, answer) as runtime:
        await runtime.run_turn("a", "1 hm")

    changes = await db.thread("a").changesets()
    reasons = [change.reason for change in changes]
    assert (levels, len(await incident_log(db))) == ([1], 1)
    assert reasons == ["UserMessage", "UserMessage", "AssistantTurnCommitted", "RunFinished"]


@pytest.mark.promise("R-22")
async def test_a_row_stands_or_falls_with_the_commit_of_its_turn(db: Database) -> None:
    down, store = moody(db)

    async def fall(state: Companion, ctx: clew.Context) -> None:
        ctx.turn.record(INCIDENT, {}, level=1, keep_days=90)
        store.is_down = True

    runtime = gated_runtime(down, fall, answer)
    with pytest.raises(StoreUnavailable):
        await runtime.run_turn("a", "Hi")

    assert (await incident_log(db), len(runtime._settings.pending_records)) == ([], 1)
    assert (await db.thread("a").head()).version == 1


@pytest.mark.promise("R-22")
async def test_what_a_failed_turn_recorded_is_written_all_the_same(db: Database) -> None:
    async def fail(state: Companion, ctx: clew.Context) -> None:
        raise ModelFailed(model="m", problem="it is down")

    async with gated_runtime(db, look_for_danger, fail) as runtime:
        with pytest.raises(ModelFailed):
            await runtime.run_turn("a", "1 hm")

    assert [row.level for row in await incident_log(db)] == [1]


@pytest.mark.promise("R-22")
async def test_the_stateless_call_gives_its_records_to_a_backend() -> None:
    log = Database(MemoryStore()).records
    result = await run_agent("2 hm", schema=Companion, stages=[look_for_danger, answer], record_backend=log)

    record = await log.get(RETAINED_KIND, f"{result.run}.1.1")
    assert (result.text, record.body["level"]) == (SAFE, 2)


async def test_every_record_of_a_turn_is_written(db: Database) -> None:
    async def again(state: Companion, ctx: clew.Context) -> None:
        ctx.turn.record(INCIDENT, {"path": "second_look"}, level=3, keep_days=90)

    async with gated_runtime(db, look_for_danger, again, answer) as runtime:
        await runtime.run_turn("a", "1 hm")

    assert sorted((row.level, row.path) for row in await incident_log(db)) == [
        (1, "digits"),
        (3, "second_look"),
    ]


# The safe reply.


@pytest.mark.promise("R-22")
@pytest.mark.parametrize("changes", range(4))
async def test_the_safe_reply_goes_out_whenever_the_store_fails(db: Database, changes: int) -> None:
    down, store = moody(db)
    runtime = gated_runtime(down)
    store.changes_left = changes
    result = await runtime.run_turn("a", "3 help")
    store.changes_left, store.is_down = None, False
    await runtime.sweep()

    assert (result.text, result.output.response_text, result.output.crisis) == (SAFE, SAFE, 3)
    assert result.termination == ("error" if changes < 3 else "natural")
    assert [(row.level, row.thread) for row in await incident_log(db)] == [(3, "a")]


@pytest.mark.promise("R-22")
async def test_every_call_of_the_store_may_be_the_one_that_fails(db: Database) -> None:
    store = FailingStore(db.store, fail_at=0)
    await gated_runtime(Database(store).scope(tenant=db.tenant)).run_turn("count", "3 help")
    texts: list[str] = []
    for number in range(1, store.calls + 1):
        failing = Database(FailingStore(db.store, fail_at=number)).scope(tenant=db.tenant)
        runtime = gated_runtime(failing)
        texts.append((await runtime.run_turn(f"t{number}", "3 help")).text)
        await runtime.sweep()

    assert store.calls > 3
    assert texts == [SAFE] * store.calls
    rows = [row.thread for row in await incident_log(db)]
    assert sorted(rows) == sorted(["count", *(f"t{number}" for number in range(1, store.calls + 1))])


@pytest.mark.promise("R-22")
async def test_an_answer_that_was_lost_makes_no_second_row(db: Database) -> None:
    for number in range(1, 4):
        store = FailingStore(db.store, fail_at=number, how="after", only="change")
        runtime = gated_runtime(Database(store).scope(tenant=db.tenant))
        result = await runtime.run_turn(f"t{number}", "3 help")
        await runtime.sweep()

        assert result.text == SAFE
    assert sorted({row.thread for row in await incident_log(db)}) == ["t1", "t2", "t3"]
    assert len({row.run for row in await incident_log(db)}) == len(await incident_log(db))


@pytest.mark.promise("R-22")
async def test_the_failure_is_reported(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    down, store = moody(db)
    runtime = gated_runtime(down)
    store.is_down = True
    with caplog.at_level(logging.WARNING, "clew"):
        result = await runtime.run_turn("a", f"3 {WORDS}")

    assert result.output.diagnostics["turn_problem"] == "store_unavailable"
    assert result.output.diagnostics["pending_records"] == 1
    assert "level:3, thread:a" in caplog.text
    assert "Zanzibar" not in caplog.text


@pytest.mark.promise("R-22")
async def test_whoever_listens_gets_the_safe_reply(db: Database) -> None:
    down, store = moody(db)
    runtime = gated_runtime(down)
    store.is_down = True
    events = [event async for event in runtime.stream_turn("a", "3 help")]

    assert [event.text for event in events if isinstance(event, TextDelta)] == [SAFE]


async def test_without_a_safe_reply_the_failure_is_raised(db: Database) -> None:
    down, store = moody(db)
    runtime = gated_runtime(down)
    store.is_down = True

    with pytest.raises(StoreUnavailable):
        await runtime.run_turn("a", "Hi")


async def test_only_a_gate_runs_without_the_store(db: Database) -> None:
    down, store = moody(db)
    effects: list[str] = []

    async def effect(state: Companion, ctx: clew.Context) -> None:
        effects.append("effect")

    runtime = gated_runtime(down, effect, look_for_danger, answer)
    store.is_down = True
    result = await runtime.run_turn("a", "3 help")

    assert (result.text, result.trace, effects) == (SAFE, ("look_for_danger",), [])


async def test_a_gate_that_fails_hides_no_failure_of_the_store(db: Database) -> None:
    @gate
    async def fail(state: Companion, ctx: clew.Context) -> None:
        await ctx.turn.ask(ctx.llm_client, ModelRequest(messages=[]))

    down, store = moody(db)
    runtime = gated_runtime(down, fail)
    store.is_down = True

    with pytest.raises(StoreUnavailable):
        await runtime.run_turn("a", "3 help")


@pytest.mark.promise("R-22")
async def test_the_safe_reply_goes_out_if_a_later_stage_fails(db: Database) -> None:
    async def fail(state: Companion, ctx: clew.Context) -> None:
        raise RuntimeError("a bug")

    async with gated_runtime(db, look_for_danger, fail) as runtime:
        result = await runtime.run_turn("a", "3 help", key="k")
        again = await runtime.run_turn("a", "3 help", key="k")
        texts = [item.body["content"] for item in await runtime.history("a")]

    assert (result.text, again.text, result.termination) == (SAFE, SAFE, "error")
    assert result.output.diagnostics["turn_problem"] == "RuntimeError"
    assert texts == ["3 help", SAFE]


async def test_the_safe_reply_is_said_once(db: Database) -> None:
    async def fail(state: Companion, ctx: clew.Context) -> None:
        raise RuntimeError("a bug")

    async with gated_runtime(db, look_for_danger, answer, fail) as runtime:
        await runtime.run_turn("a", "3 help")
        texts = [item.body["content"] for item in await runtime.history("a")]

    assert texts == ["3 help", SAFE]


async def test_the_safe_reply_of_the_stateless_call_goes_out_if_the_log_fails(db: Database) -> None:
    down, store = moody(db)
    store.is_down = True
    result = await run_agent(
        "3 help", schema=Companion, stages=[look_for_danger, answer], record_backend=down.records
    )

    assert (result.text, result.output["response_text"]) == (SAFE, SAFE)


@pytest.mark.promise("R-22")
async def test_a_log_with_a_bug_withholds_no_safe_reply() -> None:
    class FailingLog:
        async def put(self, record: Record, *, expect: int | None = None) -> Record:
            raise TypeError("a bug")

    result = await run_agent(
        "3 help", schema=Companion, stages=[look_for_danger, answer], record_backend=FailingLog()
    )

    assert (result.text, result.termination) == (SAFE, "error")


async def test_a_turn_of_a_model_that_is_down_is_answered_safely(db: Database) -> None:
    async def word(state: Companion, ctx: clew.Context) -> clew.Delta:
        reply = await ctx.turn.ask(ctx.llm_client, ModelRequest(messages=[]))
        return {"response_text": reply.text}

    async with gated_runtime(db, look_for_danger, word, model=ScriptedModel()) as runtime:
        result = await runtime.run_turn("a", "3 help")

    assert (result.text, [row.level for row in await incident_log(db)]) == (SAFE, [3])


# What is held.


def incident(id: str, date: int) -> Record:
    """A record that is kept until a date."""
    tags = (f"{DOCUMENT_TAG}{INCIDENT}", "level:1", "thread:a")
    body = {"level": 1, "thread": "a", "run": "r", "time": 1}
    return Record(kind=RETAINED_KIND, id=id, owner="ada", tags=tags, sort=date, body=body)


async def test_a_row_that_was_written_after_all_is_not_held_any_longer(db: Database) -> None:
    row = incident("c", 2)
    pending = PendingRecords()
    pending.add(db, [row])
    await db.records.put(row)
    await pending.write()

    assert (len(pending), len(await incident_log(db))) == (0, 1)


async def test_what_is_held_is_written_at_the_close(db: Database) -> None:
    down, store = moody(db)
    async with gated_runtime(down) as runtime:
        store.is_down = True
        await runtime.run_turn("a", "3 help")
        store.is_down = False

    assert [row.level for row in await incident_log(db)] == [3]


async def test_a_row_stays_held_while_the_store_is_down(db: Database) -> None:
    down, store = moody(db)
    pending = PendingRecords()
    store.is_down = True
    pending.add(down, [incident("c", 2)])
    await pending.write()

    assert len(pending) == 1


async def test_a_store_that_is_down_keeps_no_other_waiting(db: Database) -> None:
    down, store = moody(db)
    store.is_down = True
    pending = PendingRecords()
    pending.add(down, [incident("c1", 2)])
    pending.add(db, [incident("c2", 2)])
    await pending.write()

    assert (len(pending), [row.id for row in await incident_log(db)]) == (1, ["c2"])


async def test_a_store_that_was_closed_is_not_waited_for() -> None:
    dead_db = await clew.open("memory://")
    await dead_db.close()
    pending = PendingRecords()
    pending.add(dead_db, [incident("c", 2)])
    await pending.write()

    assert len(pending) == 0


async def test_what_is_lost_at_the_close_is_said(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    down, store = moody(db)
    runtime = gated_runtime(down)
    store.is_down = True
    result = await runtime.run_turn("a", "3 help")
    await runtime.close()

    assert f"is lost, since the store did not take it: {result.run}.1.1." in caplog.text


# Retention.


@pytest.mark.promise("R-22")
async def test_the_sweeper_purges(db: Database) -> None:
    async def note(state: Companion, ctx: clew.Context) -> None:
        ctx.turn.record(INCIDENT, {}, level=1, keep_days=1)

    clock = Clock()
    runtime = gated_runtime(db, note, clock=clock)
    await runtime.run_turn("a", "hm")
    await runtime.sweep()
    before = len(await incident_log(db))
    clock.advance(DAY_MS)
    await runtime.sweep()

    assert (before, await incident_log(db)) == (1, [])


async def test_a_record_without_a_date_is_of_its_own_kind_and_stays(db: Database) -> None:
    async def note(state: Companion, ctx: clew.Context) -> None:
        ctx.turn.record("note", {"about": "tea"}, tags=("drink",))

    clock = Clock()
    runtime = gated_runtime(db, note, clock=clock)
    result = await runtime.run_turn("a", "hm", user="ada")
    clock.advance(999 * DAY_MS)
    await runtime._sweeper.sweep_and_wait()

    (record,) = await records_of(db, "note")
    assert (record.id, record.owner, record.tags) == (f"{result.run}.1.1", "ada", ("thread:a", "drink"))
    assert (record.body["about"], record.body["run"]) == ("tea", result.run)


@pytest.mark.promise("R-22")
async def test_a_record_that_is_extended_while_it_is_purged_stays(db: Database) -> None:
    class Late(FailingStore):
        """A store on which an operator extends the record right after the purge has found it."""

        async def change(self, scope: Scope, planning: Planner) -> Plan:
            await db.retention.extend(until=9 * DAY_MS, now=5, ids=["c1"])
            return await super().change(scope, planning)

    await db.records.put(incident("c1", DAY_MS))
    late = Database(Late(db.store, fail_at=0)).scope(tenant=db.tenant)
    count = await late.retention.purge(now=2 * DAY_MS)

    assert (count, [row.keep_until for row in await incident_log(db)]) == (0, [9 * DAY_MS])


@pytest.mark.promise("R-22")
async def test_what_a_person_sees_of_a_thread_says_nothing_of_the_records(db: Database) -> None:
    async with gated_runtime(db) as runtime:
        await runtime.run_turn("a", "2 hm", user="ada")
        items = await runtime.history("a", user="ada")
        changes = await db.thread("a").changesets()

    text = encode([msgspec.to_builtins(item) for item in items])
    assert b"digits" not in text
    assert b"digits" not in msgspec.json.encode(changes)
