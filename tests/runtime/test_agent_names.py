"""Threads and the agents that they belong to: named by the first turn, written by no other agent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

import clew
from clew.core import patch
from clew.core.errors import ClewError, GuestThread, ThreadOfAnotherAgent, TurnBusy
from clew.core.items import user
from clew.core.values import AGENT_KEY, Item, RecordQuery
from clew.database.archive import export_threads, import_threads
from clew.database.database import Database
from clew.runtime.execution import queue
from clew.runtime.execution.start import TurnRequest
from clew.runtime.maintenance.adoption import adopt_thread
from clew.runtime.model.messages import Message
from clew.runtime.records.episodes import (
    Episode,
    EpisodeResult,
    active_episode,
    end_job_kind,
    request_end,
)
from clew.runtime.records.runs import KIND, run_of
from clew.runtime.runtime import Runtime
from clew.runtime.sessions.utterances import Utterance
from clew.runtime.settings import LeaseConfig, RuntimeConfig, SessionConfig
from clew.runtime.state.call_state import PassOn
from clew.runtime.tools.tool import Suspend, ToolContext, tool
from clew.testing.scripted_model import ScriptedModel, calls
from clew.workbench.session.manifests import export_manifest, import_manifest

pytestmark = pytest.mark.promise("B-16")
HOUR_MS = 3_600_000
PATIENT = RuntimeConfig(
    sessions=SessionConfig(finalize_active_sessions_on_close=False), leases=LeaseConfig(sweep_seconds=3_600)
)


def agent(name: str, db: Database, *replies: Any, **options: Any) -> Runtime[Any, Any]:
    """A runtime of an agent that sweeps only when it is told to."""
    return Runtime(db, agent=name, model=ScriptedModel(*replies), **{"config": PATIENT, **options})


async def travelled(db: Database, thread: str = "t") -> None:
    """Run a turn of the agent travel on a thread."""
    await agent("travel", db, "At nine.").run_turn(thread, "To Lisbon?")


@pytest.fixture
async def foreign(db: Database) -> Runtime[Any, Any]:
    """The agent cook, over a database where travel has run a turn on the thread t."""
    await travelled(db)
    return agent("cook", db, "Soup.")


# The name of a thread.


async def test_the_first_turn_gives_a_thread_the_name_of_its_agent(db: Database) -> None:
    await travelled(db)

    head = await db.thread("t").head()
    assert (head.agent, (await db.thread("t").head(at=1)).agent) == ("travel", "travel")


async def test_a_thread_that_was_made_before_is_named_by_its_first_turn(db: Database) -> None:
    thread = await db.create("t")
    await thread.append(items=[user("Hello")])
    before = (await thread.head()).agent
    await travelled(db)

    assert (before, (await thread.head()).agent) == (None, "travel")


async def test_a_later_turn_does_not_name_the_thread_again(db: Database) -> None:
    await travelled(db)
    await travelled(db)

    patches = [op for change in await db.thread("t").changesets() for op in change.patches]
    assert [op.path for op in patches].count(("$thread", AGENT_KEY)) == 1


async def test_an_agent_without_a_name_is_called_default(db: Database) -> None:
    await Runtime(db, model=ScriptedModel("Hi.")).run_turn("t", "Hi")

    assert (await db.thread("t").head()).agent == "default"


# What keeps the name.


async def test_a_rewind_behind_the_first_turn_keeps_the_name(db: Database) -> None:
    thread = await db.create("t")
    await thread.append(patches=[patch.set(["$thread", "title"], "Trips")])
    await travelled(db)
    await thread.append(patches=[patch.set(["$thread", "title"], "Lisbon")])
    await agent("travel", db).rewind("t", to=1)

    head = await thread.head()
    assert (head.agent, head.title, len(await thread.items())) == ("travel", "Trips", 0)


async def test_a_state_that_is_replaced_keeps_the_name(db: Database) -> None:
    await travelled(db)
    await agent("travel", db, "Yes.").run_turn("t", "Anew?", replace_state={})

    assert (await db.thread("t").head()).agent == "travel"


async def test_a_fork_has_the_agent_of_its_thread(foreign: Runtime[Any, Any], db: Database) -> None:
    await foreign.fork("t", "fork")

    with pytest.raises(ThreadOfAnotherAgent):
        await foreign.run_turn("fork", "Soup?")
    assert (await db.thread("fork").head()).agent == "travel"


async def test_an_archive_keeps_the_name(db: Database) -> None:
    await travelled(db)
    async with clew.open("memory://") as other:
        await import_threads(other.store, other._scope, export_threads(db.store, db._scope, ["t"]))
        head = await other.thread("t").head()

    assert head.agent == "travel"


async def test_a_manifest_keeps_the_name_and_gives_it_to_a_new_session(db: Database) -> None:
    await travelled(db)
    manifest = await export_manifest(db, "t")
    await import_manifest(db, "new", manifest, now=1)

    assert (manifest.about[AGENT_KEY], (await db.thread("new").head()).agent) == ("travel", "travel")


async def test_a_manifest_of_another_agent_leaves_a_session_to_its_own(db: Database) -> None:
    await travelled(db)
    manifest = await export_manifest(db, "t")
    await agent("cook", db, "Soup.").run_turn("soups", "Soup?")
    await import_manifest(db, "soups", manifest, now=HOUR_MS)

    assert (await db.thread("soups").head()).agent == "cook"


# What another agent may do.

WRITES: dict[str, Callable[[Runtime[Any, Any]], Awaitable[object]]] = {
    "run a turn": lambda runtime: runtime.run_turn("t", "Soup?"),
    "refuse if busy": lambda runtime: runtime.run_turn("t", "Soup?", busy="refuse"),
    "queue a turn": lambda runtime: runtime.run_turn("t", "Soup?", busy="queue"),
    "stream a turn": lambda runtime: anext(runtime.stream_turn("t", "Soup?")),
    "resume": lambda runtime: runtime.resume("t"),
    "rewind": lambda runtime: runtime.rewind("t", to=1),
    "compact": lambda runtime: runtime.compact("t", keep=0),
    "record a call": lambda runtime: runtime.record_voice_turn("t", text="Soup?", reply="Soup."),
    "judge an utterance": lambda runtime: runtime.judge_utterance(Utterance(thread="t", id="u", text="Soup")),
    "keep a call alive": lambda runtime: runtime.keep_voice_alive("t"),
    "end the session": lambda runtime: runtime.end_session("t", feedback="positive"),
    "end a lost call": lambda runtime: runtime.end_lost_voice("t"),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_no_other_agent_writes_a_thread(
    foreign: Runtime[Any, Any], db: Database, write: Callable[[Runtime[Any, Any]], Awaitable[object]]
) -> None:
    before, episode = await db.thread("t").head(), await active_episode(db, "t")

    with pytest.raises(ThreadOfAnotherAgent) as caught:
        await write(foreign)
    await foreign.close()
    assert (caught.value.thread, caught.value.agent, caught.value.other) == ("t", "cook", "travel")
    assert await db.thread("t").head() == before
    assert await active_episode(db, "t") == episode


async def test_the_refusal_says_how_a_thread_is_handed_over(foreign: Runtime[Any, Any]) -> None:
    with pytest.raises(ThreadOfAnotherAgent, match="clew threads adopt 't' --agent cook"):
        await foreign.run_turn("t", "Soup?")


async def test_a_turn_behind_queued_ones_of_another_agent_is_refused(
    foreign: Runtime[Any, Any], db: Database
) -> None:
    request = TurnRequest(thread="t", inputs={"message": "Later?"}, items=())
    await queue.enqueue_turn(db, "run-later", request, 1, agent="travel")

    with pytest.raises(ThreadOfAnotherAgent):
        await foreign.run_turn("t", "Soup?", busy="queue")
    assert len(await db.records.find(RecordQuery(kind=queue.KIND))) == 1


async def test_another_agent_reads_and_searches_a_thread(foreign: Runtime[Any, Any], db: Database) -> None:
    history = await foreign.history("t")
    status = await foreign.session_status("t")
    found = await db.search("Lisbon")

    assert [item.body["content"] for item in history] == ["To Lisbon?", "At nine."]
    assert (status.status, [hit.thread for hit in found]) == ("active", ["t"])


async def test_who_owns_a_thread_can_delete_it_whatever_its_agent(
    foreign: Runtime[Any, Any], db: Database
) -> None:
    await db.thread("t").delete()
    await foreign.run_turn("t", "Soup?")

    episode = await active_episode(db, "t")
    assert (await db.thread("t").head()).agent == "cook"
    assert episode is not None
    assert episode.agent == "cook"


@tool
async def book(city: str, context: ToolContext) -> str:
    """Book a train."""
    if context.decision is None:
        raise Suspend("Book it?")
    return f"booked to {city}"


async def test_another_agent_neither_decides_nor_cancels(db: Database) -> None:
    travel = agent("travel", db, calls(("c", "book", {"city": "Lisbon"})), "Booked.", tools=[book])
    await travel.run_turn("t", "Book it")
    cook = agent("cook", db)

    with pytest.raises(ThreadOfAnotherAgent):
        await cook.resume("t", {"c": PassOn("yes")})
    with pytest.raises(ThreadOfAnotherAgent):
        await cook.cancel("t")
    assert (await travel.session_status("t")).status == "waiting"


# Guests.

GUESTS: dict[str, tuple[Sequence[Item], dict[str, Any]]] = {
    "OpenAI Agents": ([Item(body={"role": "user", "content": "Hi"}, format="openai.responses")], {}),
    "LangGraph": ([], {"langgraph": {"layout": 1}}),
    "Google ADK": ([], {"adk": {}}),
    "Pydantic AI": ([Item(body={}, format="pydantic-ai")], {"pydantic-ai": {}}),
}


@pytest.mark.parametrize("guest", GUESTS)
async def test_no_agent_runs_a_turn_on_the_thread_of_a_guest(db: Database, guest: str) -> None:
    items, state = GUESTS[guest]
    thread = await db.create("t")
    await thread.append(items=items, snapshot=state)

    with pytest.raises(GuestThread, match=f"is kept by {guest}"):
        await agent("cook", db, "Soup.").run_turn("t", "Soup?")
    with pytest.raises(GuestThread):
        await adopt_thread(db, "t", "cook", now=1)
    assert (await thread.head()).version == 1


async def test_a_guest_that_took_all_away_keeps_its_thread(db: Database) -> None:
    thread = await db.create("t")
    await thread.append(items=[Item(body={"role": "user", "content": "Hi"}, format="openai.responses")])
    await thread.log().clear()

    with pytest.raises(GuestThread):
        await agent("cook", db, "Soup.").run_turn("t", "Soup?")


# Work in the background.


class Ends:
    """Remembers the threads whose episodes an agent has finished."""

    def __init__(self) -> None:
        self.threads: list[str] = []

    async def __call__(self, db: Database, episode: Episode, transcript: Sequence[Message]) -> EpisodeResult:
        self.threads.append(episode.thread)
        return EpisodeResult(episode=episode)


async def test_each_agent_ends_its_own_idle_sessions(db: Database) -> None:
    ends, later = {"travel": Ends(), "cook": Ends()}, db.store.now() + HOUR_MS
    for name in ends:
        await agent(name, db, "Yes.").run_turn(f"of {name}", "Hi")
    config = RuntimeConfig(leases=LeaseConfig(sweep_seconds=3_600), clock=lambda: later)
    await agent("cook", db, finalize=ends["cook"], config=config).sweep()
    after_cook = (ends["travel"].threads[:], await active_episode(db, "of travel"))
    await agent("travel", db, finalize=ends["travel"], config=config).sweep()

    assert after_cook[0] == []
    assert after_cook[1] is not None
    assert (ends["travel"].threads, ends["cook"].threads) == (["of travel"], ["of cook"])


async def test_what_an_episode_leaves_is_made_by_the_agent_that_had_it(db: Database) -> None:
    ends = Ends()
    await travelled(db)
    await request_end(db, "t", by="api", now=1)
    await agent("cook", db, finalize=ends).sweep()
    (job,) = await db.jobs.list()
    await agent("travel", db).sweep()

    assert (job.kind, job.attempts, ends.threads) == (end_job_kind("travel"), 0, [])
    assert await db.jobs.list() == []


async def test_each_agent_ends_its_own_lost_calls(db: Database) -> None:
    later = db.store.now() + HOUR_MS
    for name in ("travel", "cook"):
        runtime = agent(name, db)
        await runtime.record_voice_turn(f"of {name}", text="Hi", reply="Hi.")
        await runtime.keep_voice_alive(f"of {name}", seconds=1.0)
    config = RuntimeConfig(leases=LeaseConfig(sweep_seconds=3_600), clock=lambda: later)
    await agent("cook", db, config=config).sweep()

    assert await active_episode(db, "of cook") is None
    assert await active_episode(db, "of travel") is not None


async def test_each_agent_closes_its_own_dead_runs(db: Database) -> None:
    later = db.store.now() + HOUR_MS
    asked = asyncio.Event()

    async def hang(state: Any, context: Any) -> dict[str, Any]:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    work = asyncio.create_task(agent("travel", db, stages=[hang]).run_turn("t", "Hi"))
    await asked.wait()
    config = RuntimeConfig(leases=LeaseConfig(sweep_seconds=3_600), clock=lambda: later)
    await agent("cook", db, config=config).sweep()
    after_cook = run_of((await db.records.find(RecordQuery(kind=KIND)))[0])
    await agent("travel", db, config=config).sweep()
    after_travel = run_of((await db.records.find(RecordQuery(kind=KIND)))[0])
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)

    assert (after_cook.agent, after_cook.status) == ("travel", "running")
    assert after_travel.termination == "interrupted"


async def test_each_agent_starts_its_own_queued_turns(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    await travelled(db)
    request = TurnRequest(thread="t", inputs={"message": "And back?"}, items=(user("And back?"),), key="back")
    await queue.enqueue_turn(db, "run-back", request, 1, agent="travel")
    cook = agent("cook", db, "Soup.")
    await cook.sweep()
    await cook.close()
    async with agent("travel", db, "At ten.") as travel:
        await travel.sweep()
        async for change in db.thread("t").watch(after=3):
            if change.run_meta is not None and change.run_meta.get("status") == "done":
                break
        items = await db.thread("t").items()

    # Only our own log: a task that an earlier test left may be collected, and reported, just now.
    assert [record.message for record in caplog.records if record.name.startswith("clew")] == []
    assert [item.body["content"] for item in items][-2:] == ["And back?", "At ten."]


# Adoption.


async def test_an_adopted_thread_is_written_by_its_new_agent_alone(
    foreign: Runtime[Any, Any], db: Database
) -> None:
    adoption = await adopt_thread(db, "t", "cook", now=db.store.now())
    result = await foreign.run_turn("t", "Soup?")

    with pytest.raises(ThreadOfAnotherAgent):
        await travelled(db)
    assert (adoption.before, adoption.agent, adoption.version, result.text) == ("travel", "cook", 4, "Soup.")


async def test_what_waits_on_a_thread_goes_to_its_new_agent(db: Database) -> None:
    travel = agent("travel", db, calls(("c", "book", {"city": "Lisbon"})), tools=[book])
    await travel.run_turn("t", "Book it")
    await queue.enqueue_turn(db, "run-q", TurnRequest(thread="t", inputs={}, items=()), 1, agent="travel")
    await adopt_thread(db, "t", "cook", now=db.store.now())
    (entry,) = await db.records.find(RecordQuery(kind=queue.KIND, tags=(queue.agent_tag("cook"),)))
    cook = agent("cook", db, "Booked.", "And back.", tools=[book])
    result = await cook.resume("t", {"c": PassOn("yes")})
    episode = await active_episode(db, "t")
    await cook.close()

    assert episode is not None
    assert (result.termination, episode.agent, entry.id) == ("natural", "cook", "run-q")


async def test_a_thread_at_work_is_not_adopted(db: Database) -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    async def wait(state: Any, context: Any) -> dict[str, Any]:
        asked.set()
        await go.wait()
        return {}

    work = asyncio.create_task(agent("travel", db, stages=[wait]).run_turn("t", "Hi"))
    await asked.wait()
    refusal: ClewError | None = None
    try:
        await adopt_thread(db, "t", "cook", now=db.store.now())
    except ClewError as error:
        refusal = error
    go.set()
    await work

    assert isinstance(refusal, TurnBusy)
    assert (await db.thread("t").head()).agent == "travel"


async def test_an_adoption_by_the_same_agent_changes_nothing(db: Database) -> None:
    await travelled(db)
    adoption = await adopt_thread(db, "t", "travel", now=1)

    assert adoption.version == (await db.thread("t").head()).version == 3


async def test_a_rewind_does_not_take_back_an_adoption(foreign: Runtime[Any, Any], db: Database) -> None:
    await adopt_thread(db, "t", "cook", now=db.store.now())
    await foreign.rewind("t", to=1)

    assert (await db.thread("t").head()).agent == "cook"
