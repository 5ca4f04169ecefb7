"""Over sessions: what one tells, the next knows; what goes through one is kept up; what is stated is held."""

from __future__ import annotations

from typing import Any

import pytest

from clew.database.database import Database
from clew.runtime.context import Context
from clew.runtime.memory import memory_of
from clew.runtime.records.episodes import active_episode
from clew.runtime.runtime import Runtime
from clew_companion.memory.session import session_memory_changes
from clew_companion.state import CompanionState, SessionMemory
from tests.companion.scripted_companion import DANGER, ScriptedControlModel, Talk, stages, talker


def session(*concerns: str, loops: tuple[str, ...] = (), goal: str = "") -> SessionMemory:
    """The memory of a session."""
    return SessionMemory(active_concerns=list(concerns), open_loops=list(loops), current_goal=goal)


@pytest.mark.promise("R-18")
async def test_the_first_turn_of_a_new_thread_knows_the_last_session_the_facts_and_the_rules(
    db: Database,
) -> None:
    model = ScriptedControlModel()
    async with talker(db, model) as runtime:
        first = Talk(runtime, "s1")
        await first.say("Please keep your answers short.", "I am so anxious. My sister is called Ann.")
        await first.end()
        await Talk(runtime, "s2").say("Hey there you")
    instructions = model.requests[-1].instructions

    assert "Last session (anxiety" in instructions
    assert "sister IS_CALLED Ann" in instructions
    assert "- Keep answers short." in instructions


@pytest.mark.promise("R-18")
async def test_a_later_turn_is_not_told_the_last_session_again(in_memory: Database) -> None:
    model = ScriptedControlModel()
    async with talker(in_memory, model) as runtime:
        first = Talk(runtime, "s1")
        await first.say("I am so anxious about everything")
        await first.end()
        await Talk(runtime, "s2").say("Hey there you", "We had soup for lunch")

    assert "Last session" in model.requests[-2].instructions
    assert "Last session" not in model.requests[-1].instructions


@pytest.mark.promise("R-20")
async def test_what_is_stated_plainly_is_held_until_the_session_ends(db: Database) -> None:
    async with talker(db) as runtime:
        talk = Talk(runtime)
        await talk.say("My sister is called Ann.")
        episode = await active_episode(db, "s1")
        facts = (await memory_of(db, "s1", "alice").page()).facts
        await talk.end()
        after = (await memory_of(db, "s1", "alice").page()).facts

    assert episode is not None
    assert [candidate["object"] for candidate in episode.candidates] == ["Ann"]
    assert facts == ()
    assert [fact.object for fact in after] == ["Ann"]


@pytest.mark.promise("A-03")
@pytest.mark.parametrize("message", [f"My sister is called Ann. {DANGER}", "Where is the library in Bergen?"])
async def test_the_route_decides_whether_a_message_is_looked_through(
    in_memory: Database, message: str
) -> None:
    async with talker(in_memory) as runtime:
        await Talk(runtime).say(message)
        episode = await active_episode(in_memory, "s1")

    assert episode is not None
    assert episode.candidates == ()


async def test_a_new_session_on_the_same_thread_begins_with_an_empty_memory_of_it(
    in_memory: Database,
) -> None:
    async with talker(in_memory) as runtime:
        talk = Talk(runtime)
        await talk.say("I am so anxious. I have an interview tomorrow.")
        before = (await talk.state()).session_memory
        await talk.end()
        await talk.say("We had soup for lunch")
        after = (await talk.state()).session_memory

    assert before.active_concerns == ["anxiety"]
    assert before.open_loops == ["I have an interview tomorrow."]
    assert (after.active_concerns, after.open_loops) == ([], [])


async def test_what_goes_through_a_session_is_told_to_the_model(in_memory: Database) -> None:
    model = ScriptedControlModel()
    async with talker(in_memory, model) as runtime:
        await Talk(runtime).say(
            "I am so anxious. I have an interview tomorrow.", "It keeps me busy all day long"
        )

    assert "- it is about: anxiety" in model.requests[-1].instructions
    assert "- still open: I have an interview tomorrow." in model.requests[-1].instructions


def test_concerns_are_kept_the_newest_last_and_not_more_than_five() -> None:
    changes = session_memory_changes(session("a", "b", "c", "d", "e"), "I am sad and angry", is_first=False)

    assert changes["active_concerns"] == ["c", "d", "e", "low mood", "anger"]


def test_a_loop_is_closed_by_who_tells_how_it_went() -> None:
    changes = session_memory_changes(
        session(loops=("I have an exam tomorrow.",)), "I passed!", is_first=False
    )

    assert changes["open_loops"] == []


def test_a_goal_is_what_somebody_says_they_want() -> None:
    changes = session_memory_changes(
        session(), "I want to be able to sleep through the night, somehow.", is_first=False
    )

    assert changes["current_goal"] == "sleep through the night"


@pytest.mark.parametrize(
    "message", ["I want to know why", "I want to stop this", "I'd like to try an exercise"]
)
def test_a_wish_of_the_moment_is_no_goal(message: str) -> None:
    assert "current_goal" not in session_memory_changes(session(), message, is_first=False)


def test_what_does_not_change_is_not_written() -> None:
    before = session()

    assert session_memory_changes(before, "We had soup", is_first=False) == {}


@pytest.mark.promise("A-04", "A-03")
@pytest.mark.parametrize(
    ("messages", "approach", "approach_context"),
    [
        (["My dog died and I miss him so much"], "grief_support", "a loss"),
        (["I am so anxious", "Let's do box breathing"], "dbt_skills", "the exercise Box breathing"),
    ],
    ids=["topic", "exercise"],
)
async def test_what_an_approach_was_taken_for_is_known_in_the_next_session(
    db: Database, messages: list[str], approach: str, approach_context: str
) -> None:
    entries: list[Any] = []

    async def look(state: CompanionState, ctx: Context) -> None:
        entries.extend(state.working_memory)

    async with talker(db) as runtime:
        first = Talk(runtime, "s1")
        await first.say(*messages)
        await first.end()
    async with Runtime(db, schema=CompanionState, stages=[stages()[0], look]) as runtime_of_look:
        await runtime_of_look.run_turn("s2", "Hey", user="alice")
    [arc] = [entry for entry in entries if entry["type"] == "episodic"]

    assert (arc["approach_used"], arc["approach_context"]) == (approach, approach_context)


@pytest.mark.promise("A-10", "R-05")
@pytest.mark.parametrize(
    ("message", "counts"),
    [
        ("My sister is called Ann. I live in Oslo.", (2, 0, 0)),
        ("We had soup for lunch today", (0, 0, 0)),
        ("Remember that I like jazz", (0, 1, 0)),
        ("What do you remember about me?", (0, 0, 0)),
    ],
)
async def test_diagnostics_say_what_a_turn_wrote(
    db: Database, message: str, counts: tuple[int, int, int]
) -> None:
    async with talker(db) as runtime:
        await Talk(runtime).say("My brother is called Tom.")
        output = await Talk(runtime).say(message)
    writes = output.diagnostics["write_counts"]

    assert (writes["candidates"], writes["facts"], writes["rules"]) == counts


@pytest.mark.promise("A-10", "R-08")
async def test_an_ended_episode_says_what_it_wrote(db: Database) -> None:
    async with talker(db) as runtime:
        await Talk(runtime).say("My sister is called Ann.", "Please keep your answers short.")
        episode = await runtime.end_session("s1", user="alice")

    assert episode is not None
    assert {name: episode.write_counts[name] for name in ("facts", "rules", "arcs")} == {
        "facts": 1,
        "rules": 1,
        "arcs": 1,
    }
    assert episode.write_counts["candidates"] >= 2
