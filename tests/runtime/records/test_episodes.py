"""Episodes: begun by a first turn, touched by each, ended by one path whoever ends them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

import clew
from clew.core.errors import InvalidArgument, RevisionConflict
from clew.core.values import Record, RecordQuery
from clew.database.database import Database
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import ModelRequest
from clew.runtime.records import episodes
from clew.runtime.records.episodes import (
    ACTIVE_EPISODE,
    EPISODE,
    Episode,
    EpisodeResult,
    active_episode,
    end_expired_episodes,
    episode_of,
    read_episode,
    request_end,
)
from clew.runtime.records.feedback import FEEDBACK
from clew.runtime.runtime import Runtime
from clew.runtime.settings import LeaseConfig, RuntimeConfig, SessionConfig
from clew.testing.scripted_model import ScriptedModel
from clew.writes import Put
from tests.runtime.episode_ends import work

MINUTES = 60_000


class Time:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1_000_000_000_000

    def __call__(self) -> int:
        return self.now

    def pass_minutes(self, minutes: int) -> None:
        self.now += minutes * MINUTES


async def notice(state: clew.State, ctx: clew.Context) -> clew.Delta:
    """A stage that holds what was said as a candidate, and takes its first digit for a level."""
    text = str(getattr(state, "message", ""))
    assert ctx.session_memory_buffer is not None
    ctx.session_memory_buffer.add({"said": text})
    if text[:1].isdigit():
        ctx.turn.note_level(int(text[:1]))
    return {"reply": "Noted."}


async def endings(db: Database) -> list[Episode]:
    return [episode_of(record) for record in await db.records.find(RecordQuery(kind=EPISODE))]


def quiet(db: Database, clock: Time | None = None) -> Runtime[clew.State, object]:
    """A runtime that neither sweeps nor ends anything by itself."""
    runtime: Runtime[clew.State, object] = Runtime(
        db,
        stages=[notice],
        config=RuntimeConfig(sessions=SessionConfig(finalize_active_sessions_on_close=False), clock=clock),
    )
    runtime._sweeper.start = lambda: None  # type: ignore[method-assign]  # it would look around at once
    return runtime


@pytest.mark.promise("R-07")
async def test_the_first_turn_begins_an_episode_and_later_ones_touch_it(db: Database) -> None:
    clock = Time()
    async with quiet(db, clock) as runtime:
        await runtime.run_turn("a", "Hi")
        first = await active_episode(db, "a")
        clock.pass_minutes(1)
        await runtime.run_turn("a", "Again")
        second = await active_episode(db, "a")

    assert first is not None
    assert second is not None
    assert (second.id, second.turns, second.touched - first.touched) == (first.id, 2, MINUTES)


@pytest.mark.promise("R-20")
async def test_an_episode_keeps_what_was_noticed_and_where_it_starts(db: Database) -> None:
    async with quiet(db) as runtime:
        await runtime.run_turn("a", "2 sad")
        await runtime.run_turn("a", "1 better")

    episode = await active_episode(db, "a")
    assert episode is not None
    assert episode.candidates == ({"said": "2 sad"}, {"said": "1 better"})
    assert episode.level == 2
    assert episode.first == (await db.thread("a").items(first=1))[0].place


@pytest.mark.promise("R-08", "R-13")
async def test_an_ended_episode_is_followed_by_a_new_one_with_nothing_held(db: Database) -> None:
    async with quiet(db) as runtime:
        await runtime.run_turn("a", "Hi")
        episode = await runtime.end_session("a")
        await runtime.run_turn("a", "Back again")
        now = await active_episode(db, "a")

    assert episode is not None
    assert now is not None
    assert (episode.status, episode.ended_by, episode.turns) == ("ended", "api", 1)
    assert (now.id != episode.id, now.candidates) == (True, ({"said": "Back again"},))
    assert len(await db.thread("a").items()) == 2


async def test_a_thread_without_an_episode_has_none_to_end(db: Database) -> None:
    await db.create("a")
    async with quiet(db) as runtime:
        assert await runtime.end_session("a") is None


@pytest.mark.promise("R-08", "R-23")
async def test_feedback_is_recorded_with_the_end_and_never_as_text(db: Database) -> None:
    async with quiet(db) as runtime:
        await runtime.run_turn("a", "Hi")
        episode = await runtime.end_session("a", feedback="positive", by="user")

    (record,) = await db.records.find(RecordQuery(kind=FEEDBACK))
    assert episode is not None
    assert record.id == episode.id
    assert {key: record.body[key] for key in ("label", "source", "modality", "turns")} == {
        "label": "positive",
        "source": "user",
        "modality": "text",
        "turns": 1,
    }


@pytest.mark.promise("R-23")
@pytest.mark.parametrize("feedback", ["it was all right I suppose", "", "positive\n"])
async def test_feedback_that_is_no_label_is_refused_and_nothing_ends(db: Database, feedback: str) -> None:
    runtime = quiet(db)
    await runtime.run_turn("a", "Hi")

    with pytest.raises(InvalidArgument):
        await runtime.end_session("a", feedback=feedback)
    assert await active_episode(db, "a") is not None
    assert await db.records.find(RecordQuery(kind=FEEDBACK)) == []


@pytest.mark.promise("R-08")
async def test_feedback_that_somebody_has_recorded_already_does_not_block_the_end(db: Database) -> None:
    runtime = quiet(db)
    await runtime.run_turn("a", "Hi")
    now = await active_episode(db, "a")
    assert now is not None
    await db.records.put(Record(kind=FEEDBACK, id=now.id, body={"label": "neutral"}))
    episode = await runtime.end_session("a", feedback="positive")

    (record,) = await db.records.find(RecordQuery(kind=FEEDBACK))
    assert episode is not None
    assert (episode.status, record.body["label"]) == ("ended", "positive")


@pytest.mark.promise("R-08")
async def test_an_episode_whose_id_is_taken_is_an_error_and_no_endless_loop(db: Database) -> None:
    runtime = quiet(db)
    await runtime.run_turn("a", "Hi")
    now = await active_episode(db, "a")
    assert now is not None
    await db.records.put(Record(kind=EPISODE, id=now.id, body={}))

    with pytest.raises(RevisionConflict):
        await runtime.end_session("a")


@pytest.mark.promise("R-08")
async def test_the_transcript_of_an_episode_is_its_own(db: Database) -> None:
    transcripts: list[list[str]] = []

    async def listen(db: Database, of: Episode, transcript: Sequence[Message]) -> EpisodeResult:
        transcripts.append([message.text for message in transcript])
        return EpisodeResult(episode=of)

    model = ScriptedModel("One.", "Two.")
    async with Runtime(db, model=model, finalize=listen) as runtime:
        await runtime.run_turn("a", "1")
        await runtime.end_session("a")
        await runtime.run_turn("a", "2")
        await runtime.end_session("a")

    assert transcripts == [["1", "One."], ["2", "Two."]]


@pytest.mark.promise("R-08", "R-12")
async def test_an_end_that_is_made_late_tells_nothing_of_the_next_episode(db: Database) -> None:
    transcripts: list[list[str]] = []

    async def listen(db: Database, of: Episode, transcript: Sequence[Message]) -> EpisodeResult:
        transcripts.append([message.text for message in transcript])
        return EpisodeResult(episode=of)

    runtime = Runtime(db, model=ScriptedModel("One.", "Two."), finalize=listen)
    await runtime.run_turn("a", "1")
    await request_end(db, "a", by="api", now=1)
    await runtime.run_turn("a", "2")
    await work(db, runtime._settings)

    assert transcripts == [["1", "One."]]


@pytest.mark.promise("R-12", "F-13")
async def test_an_end_that_fails_is_tried_again_and_keeps_what_was_held(db: Database) -> None:
    episodes: list[Episode] = []

    async def once_broken(db: Database, of: Episode, transcript: Sequence[Message]) -> EpisodeResult:
        episodes.append(of)
        if len(episodes) == 1:
            raise RuntimeError("the model is down")
        return EpisodeResult(
            episode=of, writes=[Put(record=Record(kind="fact", id="f", body=list(of.candidates)))]
        )

    async with quiet(db) as runtime:
        await runtime.run_turn("a", "Hi")
        await request_end(db, "a", by="api", now=1)
        await work(db, replace(runtime._settings, finalize=once_broken))
        (job,) = await db.jobs.list()
        await asyncio.sleep(max(job.due / 1000 - time.time(), 0) + 0.01)  # its next attempt is due then
        await work(db, replace(runtime._settings, finalize=once_broken))

    assert (job.status, job.problem) == ("waiting", "RuntimeError: the model is down")
    assert (await db.records.get("fact", "f")).body == [{"said": "Hi"}]
    assert [of.status for of in await endings(db)] == ["ended"]
    assert await db.jobs.list() == []


@pytest.mark.promise("R-09")
async def test_an_episode_that_nobody_touched_is_ended(db: Database) -> None:
    clock = Time()
    async with quiet(db, clock) as runtime:
        await runtime.run_turn("a", "Hi")
        clock.pass_minutes(19)
        early = await end_expired_episodes(db, idle_ms=20 * MINUTES, now=clock())
        clock.pass_minutes(2)
        late = await end_expired_episodes(db, idle_ms=20 * MINUTES, now=clock())

    assert (early, late) == (0, 1)
    assert [(of.ended_by, of.status) for of in await endings(db)] == [("timeout", "ending")]


@pytest.mark.promise("R-09")
async def test_a_turn_that_just_arrived_wins(db: Database) -> None:
    clock = Time()
    async with quiet(db, clock) as runtime:
        await runtime.run_turn("a", "Hi")
        clock.pass_minutes(30)
        await runtime.run_turn("a", "I am still here")
        episode = await request_end(
            db, "a", by="timeout", now=clock(), untouched_since=clock() - 20 * MINUTES
        )

    assert episode is None


@pytest.mark.promise("R-09")
async def test_the_sweeper_ends_what_nobody_touches(db: Database) -> None:
    clock = Time()
    async with quiet(db, clock) as runtime:
        await runtime.run_turn("a", "Hi")
        clock.pass_minutes(21)
        await runtime.sweep()

    assert [(of.ended_by, of.status) for of in await endings(db)] == [("timeout", "ended")]


@pytest.mark.promise("R-10")
async def test_many_sweepers_end_each_episode_once(db: Database) -> None:
    clock = Time()
    ids: list[str] = []

    async def count(db: Database, of: Episode, transcript: Sequence[Message]) -> EpisodeResult:
        ids.append(of.id)
        return EpisodeResult(episode=of)

    async with quiet(db, clock) as runtime:
        for number in range(20):
            await runtime.run_turn(f"t{number}", "Hi")
        clock.pass_minutes(21)
        await asyncio.gather(
            *(end_expired_episodes(db, idle_ms=20 * MINUTES, now=clock()) for _ in range(4)),
        )
        settings = replace(runtime._settings, finalize=count)
        await asyncio.gather(*(work(db, settings) for _ in range(4)))

    assert len(ids) == len(set(ids)) == 20


@pytest.mark.promise("R-11")
async def test_closing_the_runtime_ends_what_it_began(db: Database) -> None:
    async with Runtime(db, stages=[notice]) as runtime:
        await runtime.run_turn("a", "Hi")
        await runtime.run_turn("b", "Hi")

    assert sorted((of.thread, of.ended_by, of.status) for of in await endings(db)) == [
        ("a", "shutdown", "ended"),
        ("b", "shutdown", "ended"),
    ]
    assert not await db.records.find(RecordQuery(kind=ACTIVE_EPISODE))


@pytest.mark.promise("R-11")
async def test_closing_the_runtime_waits_no_longer_than_its_deadline(db: Database) -> None:
    async def never(db: Database, of: Episode, transcript: Sequence[Message]) -> EpisodeResult:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    runtime = Runtime(
        db, stages=[notice], finalize=never, config=RuntimeConfig(sessions=SessionConfig(close_seconds=0.2))
    )
    await runtime.run_turn("a", "Hi")
    async with asyncio.timeout(30):
        await runtime.close()

    (job,) = await db.jobs.list()
    assert [of.status for of in await endings(db)] == ["ending"]
    assert (job.status, job.attempts) == ("waiting", 0)


@pytest.mark.promise("R-11")
async def test_nobody_keeps_the_session_of_somebody_else_from_being_ended_at_the_close(db: Database) -> None:
    runtime = Runtime(db, stages=[notice])
    await runtime.run_turn("a", "Hi", user="ann")
    episode = await runtime.end_session("a", user="eve")
    await runtime.close()

    assert episode is None
    assert [(of.thread, of.ended_by) for of in await endings(db)] == [("a", "shutdown")]


@pytest.mark.promise("R-12")
async def test_what_a_turn_noticed_while_its_episode_was_ended_is_kept(db: Database) -> None:
    async def ended_meanwhile(state: clew.State, ctx: clew.Context) -> clew.Delta:
        assert ctx.session_memory_buffer is not None
        ctx.session_memory_buffer.add({"said": "late"})
        await request_end(db, "a", by="api", now=1)
        return {"reply": "ok"}

    await Runtime(db, stages=[ended_meanwhile]).run_turn("a", "Hi")  # not swept, so the end is not made yet

    (of,) = await endings(db)
    assert (await read_episode(db, of.id)).candidates == ({"said": "late"},)


@pytest.mark.promise("R-12")
async def test_what_is_noticed_before_and_after_an_end_in_the_middle_of_a_turn_is_kept(db: Database) -> None:
    async def end(state: clew.State, ctx: clew.Context) -> None:
        assert ctx.session_memory_buffer is not None
        ctx.session_memory_buffer.add({"said": "before"})
        await request_end(db, "a", by="api", now=1)
        await ctx.turn.ask(ctx.llm_client, ModelRequest(messages=[]))  # so that the stage is made durable

    async def go_on(state: clew.State, ctx: clew.Context) -> clew.Delta:
        assert ctx.session_memory_buffer is not None
        ctx.session_memory_buffer.add({"said": "after"})
        ctx.turn.note_level(2)
        return {"reply": "ok"}

    result = await Runtime(db, stages=[end, go_on], model=ScriptedModel("ok")).run_turn("a", "Hi")

    (of,) = await endings(db)
    assert result.termination == "natural"
    assert (of.status, of.level, [one["said"] for one in of.candidates]) == (
        "ending",
        2,
        ["before", "after"],
    )
    assert await active_episode(db, "a") is None


async def test_a_turn_goes_on_when_its_episode_was_ended_and_finished_meanwhile(db: Database) -> None:
    async def end(state: clew.State, ctx: clew.Context) -> None:
        assert ctx.session_memory_buffer is not None
        await quiet(db).end_session("a")
        ctx.session_memory_buffer.add({"said": "late"})
        await ctx.turn.ask(ctx.llm_client, ModelRequest(messages=[]))

    async def reply(state: clew.State, ctx: clew.Context) -> clew.Delta:
        return {"reply": "ok"}

    result = await Runtime(db, stages=[end, reply], model=ScriptedModel("ok")).run_turn("a", "Hi")

    (of,) = await endings(db)
    assert (result.text, of.status, of.candidates) == ("ok", "ended", ())


async def test_the_episode_of_a_users_thread_is_the_users(db: Database) -> None:
    await db.create("a", owner="alice")
    async with quiet(db) as runtime:
        await runtime.run_turn("a", "Hi", user="alice")
        episode = await runtime.end_session("a")

    alice, bob = db.scope(tenant="default", user="alice"), db.scope(tenant="default", user="bob")
    assert episode is not None
    assert [of.id for of in await endings(alice)] == [episode.id]
    assert await endings(bob) == []


async def test_a_damaged_row_keeps_no_other_episode_from_ending(db: Database) -> None:
    clock = Time()
    async with quiet(db, clock) as runtime:
        await runtime.run_turn("b", "Hi")
        await db.records.put(
            Record(
                kind=ACTIVE_EPISODE, id="a", body={"no": "episode"}, tags=("modality:text:default",), sort=1
            )
        )
        clock.pass_minutes(21)
        count = await end_expired_episodes(db, idle_ms=20 * MINUTES, now=clock())

    assert (count, [of.thread for of in await endings(db)]) == (1, ["b"])


@pytest.mark.promise("R-09")
async def test_one_look_ends_all_that_is_idle_however_much_it_is(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(episodes, "EPISODES_PER_PAGE", 2)
    runtime = quiet(db)
    for number in range(5):
        await runtime.run_turn(f"t{number}", "Hi")
    later = runtime._settings.clock() + 21 * MINUTES

    assert await end_expired_episodes(db, idle_ms=20 * MINUTES, now=later) == 5


async def test_only_threads_with_recent_turns_are_remembered_for_the_close(db: Database) -> None:
    clock = Time()
    async with quiet(db, clock) as runtime:
        await runtime.run_turn("old", "Hi")
        clock.pass_minutes(30)
        await runtime.run_turn("new", "Hi")

        assert list(runtime._scheduler.recent_threads) == ["new"]


async def test_ending_a_session_does_not_wait_for_other_episodes(db: Database) -> None:
    async def only_a(db: Database, of: Episode, transcript: Sequence[Message]) -> EpisodeResult:
        assert of.thread == "a", "another episode's end was waited for"
        return EpisodeResult(episode=of)

    async with Runtime(
        db,
        stages=[notice],
        finalize=only_a,
        config=RuntimeConfig(
            leases=LeaseConfig(sweep_seconds=3600),
            sessions=SessionConfig(finalize_active_sessions_on_close=False),
        ),
    ) as runtime:
        await runtime.run_turn("b", "Hi")
        await runtime.run_turn("a", "Hi")
        await request_end(db, "b", by="api", now=1)
        episode = await runtime.end_session("a")

    assert episode is not None
    assert sorted((of.thread, of.status) for of in await endings(db)) == [("a", "ended"), ("b", "ending")]


async def test_a_session_whose_end_fails_is_ended_later(db: Database) -> None:
    async def fail(db: Database, of: Episode, transcript: Sequence[Message]) -> EpisodeResult:
        raise RuntimeError("the model is down")

    async with Runtime(
        db,
        stages=[notice],
        finalize=fail,
        config=RuntimeConfig(
            leases=LeaseConfig(sweep_seconds=3600),
            sessions=SessionConfig(finalize_active_sessions_on_close=False),
        ),
    ) as runtime:
        await runtime.run_turn("a", "Hi")
        episode = await runtime.end_session("a")

    (job,) = await db.jobs.list()
    assert episode is not None
    assert (episode.status, job.status, job.attempts) == ("ending", "waiting", 1)
