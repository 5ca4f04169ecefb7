"""Turns of a call: recorded whole and once, in an episode that lasts as long as the call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

import clew
from clew.core.errors import (
    InvalidArgument,
    InvalidId,
    KeyReused,
    StateInvalid,
    StoreUnavailable,
    TurnSuspended,
)
from clew.core.log.commit import Plan, Planner
from clew.core.values import Record, Scope
from clew.database.database import Database
from clew.runtime.context import MemoryMode
from clew.runtime.memory.learn.finalizer import Finalizer
from clew.runtime.memory.memory import memory_of
from clew.runtime.model.messages import Message
from clew.runtime.records.episodes import (
    ACTIVE_EPISODE,
    EPISODE,
    LEASED,
    Episode,
    EpisodeResult,
    active_episode,
    episode_of,
)
from clew.runtime.records.feedback import FEEDBACK
from clew.runtime.records.runs import run_of
from clew.runtime.records.turn_records import TurnRecord
from clew.runtime.runtime import Runtime
from clew.runtime.sessions.voice import NO_ANSWER, VoiceCall, end_lost_calls
from clew.runtime.settings import RuntimeConfig, SessionConfig
from clew.runtime.state.schema import State
from clew.runtime.tools.tool import tool
from clew.testing.clock import Clock
from clew.testing.faults import FailingStore
from clew.testing.scripted_model import ScriptedModel, calls
from tests.runtime.gated_agent import INCIDENT, gated_runtime, incident_log, moody, records_of
from tests.support.tenants import db, postgres_url, tenant

__all__ = ["db", "postgres_url", "tenant"]

MINUTE = 60_000
LOOKUP = VoiceCall(name="look_up", arguments={"what": "sleep"}, output={"hours": 8})


async def episodes_after_end(db: Database) -> list[Episode]:
    return [episode_of(record) for record in await records_of(db, EPISODE)]


@pytest.mark.promise("R-21")
async def test_a_voice_turn_is_kept_with_its_tool_calls(db: Database) -> None:
    async with gated_runtime(db) as runtime:
        result = await runtime.record_voice_turn(
            "a", text="How long should I sleep?", reply="Eight hours.", tool_calls=[LOOKUP]
        )
        items = await runtime.history("a")

    assert [(item.role, item.kind, item.call, item.body) for item in items] == [
        ("user", "message", None, {"content": "How long should I sleep?", "meta": {"modality": "voice"}}),
        (
            "assistant",
            "call",
            "call",
            {"name": "look_up", "arguments": {"what": "sleep"}, "meta": {"modality": "voice"}},
        ),
        ("tool", "result", "call", {"output": '{"hours":8}', "meta": {"modality": "voice"}}),
        ("assistant", "message", None, {"content": "Eight hours.", "meta": {"modality": "voice"}}),
    ]
    assert {item.run for item in items} == {result.run}
    assert (result.text, result.version, result.termination) == ("Eight hours.", 1, "natural")


@pytest.mark.promise("R-21")
async def test_it_is_one_changeset_and_its_run_is_over(db: Database) -> None:
    async with gated_runtime(db) as runtime:
        result = await runtime.record_voice_turn("a", text="Hi", reply="Hello.", tool_calls=[LOOKUP])

    changes = await db.thread("a").changesets()
    run = run_of(await db.records.get("run", result.run))
    assert [change.reason for change in changes] == ["VoiceTurn"]
    assert (run.status, run.termination, run.origin) == ("done", "natural", "voice")
    assert (await db.thread("a").state())["$run"]["status"] == "done"
    assert (await db.thread("a").verify()).ok


@pytest.mark.promise("R-21")
async def test_calls_of_one_name_failures_and_silence_are_all_paired(db: Database) -> None:
    tool_calls = [
        VoiceCall(name="a", id="x", output="one"),
        VoiceCall(name="a", id="x", error="it broke"),
        VoiceCall(name="a", id="x"),
        VoiceCall(name="b", output="two"),
    ]
    async with gated_runtime(db) as runtime:
        await runtime.record_voice_turn("a", reply="Done.", tool_calls=tool_calls)
        items = await runtime.history("a")

    results = [(item.call, item.body["output"]) for item in items if item.kind == "result"]
    assert results == [("x", "one"), ("x-2", "Error: it broke"), ("x-3", NO_ANSWER), ("call", "two")]
    assert (await db.thread("a").head()).counters.open == {}


@pytest.mark.promise("R-21")
async def test_the_same_key_records_once(db: Database) -> None:
    async with gated_runtime(db) as runtime:
        both = await asyncio.gather(
            *(runtime.record_voice_turn("a", text="Hi", reply="Hello.", key="k") for _ in range(2))
        )
        with pytest.raises(KeyReused):
            await runtime.record_voice_turn("a", text="Hi", reply="Goodbye.", key="k")
        episode = await active_episode(db, "a")

    assert both[0] == both[1]
    assert len(await db.thread("a").items()) == 2
    assert episode is not None
    assert episode.turns == 1


@pytest.mark.promise("R-21")
async def test_a_store_that_fails_keeps_nothing_of_the_turn_and_it_can_be_sent_again(db: Database) -> None:
    down, store = moody(db)
    runtime = gated_runtime(down)
    store.is_down = True
    with pytest.raises(StoreUnavailable):
        await runtime.record_voice_turn("a", text="Hi", reply="Hello.", tool_calls=[LOOKUP], key="k")
    store.is_down = False
    await runtime.record_voice_turn("a", text="Hi", reply="Hello.", tool_calls=[LOOKUP], key="k")

    assert len(await db.thread("a").items()) == 4


async def test_nothing_said_is_no_turn(db: Database) -> None:
    async with gated_runtime(db) as runtime:
        with pytest.raises(InvalidArgument):
            await runtime.record_voice_turn("a")
        with pytest.raises(InvalidId):
            await runtime.record_voice_turn("", text="Hi")


async def test_a_schema_without_a_history_keeps_no_call(db: Database) -> None:
    class Silent(State):
        mood: str = ""

    async with Runtime(db, schema=Silent, stages=[]) as runtime:
        with pytest.raises(InvalidArgument) as error:
            await runtime.record_voice_turn("a", text="Hi")
    assert "Silent" in str(error.value)


async def test_a_thread_that_waits_for_a_decision_takes_no_voice_turn(db: Database) -> None:
    @tool(approval=True)
    async def send(to: str) -> str:
        """Send a letter."""
        return to

    model = ScriptedModel(calls(("c1", "send", {"to": "Ann"})))
    async with Runtime(
        db,
        model=model,
        tools=[send],
        config=RuntimeConfig(sessions=SessionConfig(finalize_active_sessions_on_close=False)),
    ) as runtime:
        await runtime.run_turn("a", "Write to Ann")
        with pytest.raises(TurnSuspended):
            await runtime.record_voice_turn("a", text="Hi", reply="Hello.")


async def test_the_model_of_the_next_text_turn_sees_what_was_spoken(db: Database) -> None:
    model = ScriptedModel("As I said, eight.")
    async with Runtime(
        db, model=model, config=RuntimeConfig(sessions=SessionConfig(finalize_active_sessions_on_close=False))
    ) as runtime:
        await runtime.record_voice_turn("a", text="How long?", reply="Eight hours.", tool_calls=[LOOKUP])
        await runtime.run_turn("a", "Again?")

    kinds = [(message.role, message.kind) for message in model.requests[0].messages]
    assert kinds == [
        ("user", "message"),
        ("assistant", "call"),
        ("tool", "result"),
        ("assistant", "message"),
        ("user", "message"),
    ]


# Episodes of calls.


@pytest.mark.promise("R-21", "R-09")
async def test_a_call_is_not_swept_however_silent_it_is(db: Database) -> None:
    clock = Clock()
    async with gated_runtime(db, clock=clock) as runtime:
        await runtime.record_voice_turn("a", text="Hi", reply="Hello.")
        clock.advance(600 * MINUTE)
        await runtime.sweep()
        episode = await active_episode(db, "a")

    assert episode is not None
    assert (episode.modality, episode.turns) == ("voice", 1)


@pytest.mark.promise("R-21")
async def test_a_call_ends_by_the_same_path_as_text(db: Database) -> None:
    transcripts: list[list[str]] = []

    async def listen(db: Database, of: Episode, transcript: Sequence[Message]) -> EpisodeResult:
        transcripts.append([message.text for message in transcript if message.kind == "message"])
        return EpisodeResult(episode=of)

    async with gated_runtime(db, finalize=listen) as runtime:
        await runtime.record_voice_turn("a", text="Hi", reply="Hello.")
        over = await runtime.end_session("a", feedback="positive")
        (feedback,) = await _feedback(db)

    assert over is not None
    assert (over.status, over.modality, transcripts) == ("ended", "voice", [["Hi", "Hello."]])
    assert (feedback["modality"], feedback["turns"]) == ("voice", 1)


async def _feedback(db: Database) -> list[dict[str, object]]:
    return [record.body for record in await records_of(db, FEEDBACK)]


@pytest.mark.promise("R-21")
async def test_what_was_said_in_a_call_is_remembered(db: Database) -> None:
    async with gated_runtime(db, finalize=Finalizer()) as runtime:
        await runtime.record_voice_turn("a", text="My cat is called Tom.", reply="Nice.", user="ada")
        await runtime.end_session("a", user="ada")

    facts = (await memory_of(db, "a", "ada").page()).facts
    assert [fact.object for fact in facts] == ["Tom"]


@pytest.mark.promise("R-09")
async def test_a_client_that_promised_to_be_there_and_is_silent_is_lost(db: Database) -> None:
    clock = Clock()
    async with gated_runtime(db, clock=clock) as runtime:
        await runtime.record_voice_turn("a", text="Hi", reply="Hello.")
        await runtime.keep_voice_alive("a", seconds=60)
        clock.advance(MINUTE - 1)
        await runtime.sweep()
        before = await active_episode(db, "a")
        clock.advance(1)
        await runtime.sweep()

    assert before is not None
    assert [(of.ended_by, of.status) for of in await episodes_after_end(db)] == [("lost", "ended")]


@pytest.mark.promise("R-09")
async def test_a_damaged_row_keeps_no_other_lost_call_from_ending(db: Database) -> None:
    clock = Clock()
    runtime = gated_runtime(db, clock=clock)
    await runtime.record_voice_turn("b", text="Hi", reply="Hello.")
    await runtime.keep_voice_alive("b", seconds=60)
    tags = ("modality:voice:default", LEASED)
    await db.records.put(Record(kind=ACTIVE_EPISODE, id="a", body={"no": "episode"}, tags=tags, sort=1))
    clock.advance(MINUTE)
    await end_lost_calls(db, clock())

    assert [(of.thread, of.ended_by) for of in await episodes_after_end(db)] == [("b", "lost")]


@pytest.mark.promise("R-09")
async def test_a_client_that_says_so_in_time_is_there(db: Database) -> None:
    clock = Clock()
    async with gated_runtime(db, clock=clock) as runtime:
        await runtime.record_voice_turn("a", text="Hi", reply="Hello.")
        for _ in range(30):
            await runtime.keep_voice_alive("a", seconds=60)
            clock.advance(MINUTE - 1)
            await runtime.sweep()

    assert await episodes_after_end(db) == []


@pytest.mark.promise("R-09")
async def test_a_client_that_says_so_just_before_it_is_taken_for_lost_wins(db: Database) -> None:
    clock = Clock()
    runtime = gated_runtime(db, clock=clock)  # never entered: its own first sweep might come in between
    await runtime.record_voice_turn("a", text="Hi", reply="Hello.")
    await runtime.keep_voice_alive("a", seconds=60)
    clock.advance(MINUTE)

    class Late(FailingStore):
        """A store on which the client speaks up right after the sweep has looked."""

        async def change(self, scope: Scope, planning: Planner) -> Plan:
            if self.calls < 1 << 20:
                self.calls = 1 << 20
                clock.advance(1)
                await runtime.keep_voice_alive("a", seconds=60)
            return await super().change(scope, planning)

    late = Database(Late(db.store, fail_at=0)).scope(tenant=db.tenant)
    await end_lost_calls(late, clock())
    await runtime.close()

    assert await episodes_after_end(db) == []


@pytest.mark.promise("R-09")
async def test_a_lost_client_can_be_reported(db: Database) -> None:
    async with gated_runtime(db) as runtime:
        await runtime.record_voice_turn("a", text="Hi", reply="Hello.")
        over = await runtime.end_lost_voice("a")
        nobody = await runtime.end_lost_voice("a")

    assert over is not None
    assert (over.ended_by, over.status, nobody) == ("lost", "ended", None)


async def test_where_there_is_no_episode_nothing_is_kept_alive(db: Database) -> None:
    async with gated_runtime(db) as runtime:
        assert await runtime.keep_voice_alive("a") is None


async def test_speaking_and_typing_share_an_episode(db: Database) -> None:
    clock = Clock()
    async with gated_runtime(db, clock=clock) as runtime:
        await runtime.run_turn("a", "Hi")
        text_episode = await active_episode(db, "a")
        await runtime.record_voice_turn("a", text="Hi", reply="Hello.")
        await runtime.keep_voice_alive("a")
        voice_episode = await active_episode(db, "a")
        await runtime.run_turn("a", "And now in writing")
        back = await active_episode(db, "a")
        clock.advance(21 * MINUTE)
        await runtime.sweep()

    assert text_episode is not None
    assert voice_episode is not None
    assert back is not None
    assert text_episode.id == voice_episode.id == back.id
    assert [of.modality for of in (text_episode, voice_episode, back)] == ["text", "voice", "text"]
    assert (back.until, [(of.ended_by, of.turns) for of in await episodes_after_end(db)]) == (
        None,
        [("timeout", 3)],
    )


async def test_closing_the_runtime_ends_the_calls_that_it_had(db: Database) -> None:
    async with gated_runtime(db, finalize_active_sessions_on_close=True) as runtime:
        await runtime.record_voice_turn("a", text="Hi", reply="Hello.")

    assert [(of.ended_by, of.modality) for of in await episodes_after_end(db)] == [("shutdown", "voice")]


# Danger and privacy.


@pytest.mark.promise("R-21", "R-22")
async def test_what_is_recorded_of_a_spoken_turn_commits_with_it(db: Database) -> None:
    async with gated_runtime(db) as runtime:
        record = TurnRecord(kind=INCIDENT, body={"path": "voice_post_turn"}, level=2, keep_days=90)
        result = await runtime.record_voice_turn("a", text="…", reply="…", records=[record], key="k")
        await runtime.record_voice_turn("a", text="…", reply="…", records=[record], key="k")
        episode = await active_episode(db, "a")

    assert episode is not None
    assert [(row.level, row.path, row.run, row.episode) for row in await incident_log(db)] == [
        (2, "voice_post_turn", result.run, episode.id)
    ]
    assert episode.level == 2


@pytest.mark.promise("R-14", "R-21")
async def test_a_call_can_be_incognito(db: Database) -> None:
    clock = Clock()
    async with gated_runtime(db, clock=clock) as runtime:
        await runtime.record_voice_turn("a", text="Hi", reply="Hello.", mode=MemoryMode.INCOGNITO)
        clock.advance(600 * MINUTE)
        await runtime.sweep()
        count = len(await runtime.history("a"))
        await runtime.keep_voice_alive("a", seconds=1)
        clock.advance(MINUTE)
        await runtime.sweep()

        assert (count, runtime._placements.is_incognito("a")) == (2, False)
    with pytest.raises(clew.ClewError):
        await db.thread("a").head()


async def test_an_input_that_the_schema_does_not_have_is_refused(db: Database) -> None:
    async with gated_runtime(db) as runtime:
        with pytest.raises(StateInvalid, match="channel"):
            await runtime.record_voice_turn("a", text="Hi", reply="Hello.", inputs={"channel": "voice"})

        assert (await runtime.threads()).threads == ()


async def test_stages_do_not_run_for_what_was_spoken(db: Database) -> None:
    stages: list[str] = []

    async def stage(state: State, ctx: clew.Context) -> None:
        stages.append("stage")

    async with gated_runtime(db, stage) as runtime:
        await runtime.record_voice_turn("a", text="Hi", reply="Hello.")

    assert stages == []
