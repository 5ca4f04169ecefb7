"""The companion's turn: one list of stages for both layers, a crisis first, and nothing left over."""

from __future__ import annotations

import asyncio
from typing import Any, get_args

import msgspec
import pytest

import clew
from clew.core.errors import InvalidArgument, InvalidId, StateInvalid, StoreUnavailable
from clew.database.database import Database
from clew.runtime.context import Context
from clew.runtime.execution.stateless import run_agent
from clew.runtime.records.events import StageStarted, TextDelta
from clew.runtime.settings import RuntimeConfig, SessionConfig
from clew.runtime.turn.draft import Delta
from clew.runtime.turn.result import TurnResult
from clew.testing.faults import FailingStore
from clew_companion.agent import answer, companion, inputs_of, talk
from clew_companion.crisis.help import crisis_reply
from clew_companion.crisis.log import crises
from clew_companion.pipeline import make_listen_stage
from clew_companion.state import CompanionState
from clew_companion.values import STAGE_LABELS, AgentInput, AgentOutput, Approach, Channel, ResponseStyle
from tests.companion.scripted_companion import (
    DANGER,
    SAFE,
    UNCLEAR,
    ScriptedControlModel,
    Talk,
    crisis_gate,
    stages,
    talker,
)

BRANCHES = {
    "I had a hard day with my boss": "therapeutic_reply",
    "Let's do box breathing": "guided_exercise",
    "What do you remember about me?": "memory_control",
    "How many people live in Norway?": "grounded_lookup",
    f"I cannot go on {DANGER}": "crisis_response",
}


async def once(message: str, model: Any = None) -> TurnResult[AgentOutput]:
    """The turn of the layer that keeps nothing."""
    return await run_agent(message, schema=CompanionState, stages=stages(), model=model, output=AgentOutput)


@pytest.mark.promise("R-01")
@pytest.mark.parametrize(("message", "branch"), BRANCHES.items())
async def test_both_layers_run_the_same_stages_in_the_same_order(
    db: Database, message: str, branch: str
) -> None:
    async with talker(db) as runtime:
        result = await runtime.run_turn("s1", message)
    passing = await once(message)

    assert result.trace == passing.trace
    assert [name for name in result.trace if name in STAGE_LABELS] == [
        "load_memory",
        "crisis_gate",
        "triage",
        branch,
        "finalize_turn",
    ]


@pytest.mark.promise("R-01")
async def test_both_layers_give_the_same_answer_to_somebody_in_danger(db: Database) -> None:
    async with talker(db) as runtime:
        result = await runtime.run_turn("s1", DANGER)
    passing = await once(DANGER)

    assert result.text == passing.text == SAFE
    assert result.output.crisis == passing.output.crisis


@pytest.mark.promise("R-02", "A-10")
async def test_every_turn_gives_a_response_an_assessment_and_diagnostics(db: Database) -> None:
    async with talker(db) as runtime:
        output = await Talk(runtime).say("I am worried about my exam")

    assert output.response_text
    assert output.crisis.level == 0
    assert {"load_memory_ms", "retrieval_path", "turn_total_ms", "triage_path"} <= output.diagnostics.keys()
    assert output.diagnostics["retrieval_path"] == "token_recall"


async def test_listeners_are_told_the_branch_by_a_name_that_has_a_label(in_memory: Database) -> None:
    async with talker(in_memory) as runtime:
        events = await Talk(runtime).events_of("Let's do box breathing")
    names = [event.name for event in events if isinstance(event, StageStarted)]

    assert STAGE_LABELS["guided_exercise"] == "Guiding the exercise"
    assert [name for name in names if name in STAGE_LABELS] == [
        "load_memory",
        "crisis_gate",
        "triage",
        "guided_exercise",
        "finalize_turn",
    ]


@pytest.mark.parametrize("message", BRANCHES)
async def test_listeners_hear_the_words_of_every_branch(in_memory: Database, message: str) -> None:
    async with talker(in_memory) as runtime:
        talk = Talk(runtime)
        events = await talk.events_of(message)
        (last,) = await (await talk.state()).history.tail(1)

    assert "".join(event.text for event in events if isinstance(event, TextDelta)).strip() == last.text


async def test_the_memory_is_loaded_while_the_gate_is_at_work(in_memory: Database) -> None:
    memory_ready = asyncio.Event()

    async def load_memory(state: CompanionState, ctx: Context) -> Delta:
        memory_ready.set()
        return {}

    async def crisis_gate(state: CompanionState, ctx: Context) -> Delta:
        await asyncio.wait_for(memory_ready.wait(), timeout=5)
        return {}

    result = await run_agent(
        "Hi", schema=CompanionState, stages=[make_listen_stage(load_memory, crisis_gate)], output=AgentOutput
    )

    assert result.trace == ("listen", "load_memory", "crisis_gate")


async def test_somebody_in_danger_is_answered_though_the_memory_cannot_be_read(in_memory: Database) -> None:
    async def load_memory(state: CompanionState, ctx: Context) -> Delta:
        raise StoreUnavailable(problem="it is away")

    listen = [make_listen_stage(load_memory, crisis_gate), *stages()[1:]]
    async with clew.Runtime(in_memory, schema=CompanionState, stages=listen, output=AgentOutput) as runtime:
        result = await runtime.run_turn("s1", DANGER)

    assert result.text == SAFE
    assert result.output.diagnostics["load_memory_problem"] == "store_unavailable"


@pytest.mark.promise("R-22")
@pytest.mark.parametrize("number", range(1, 9))
async def test_somebody_in_danger_is_answered_whichever_call_of_the_store_fails(
    db: Database, number: int
) -> None:
    failing = Database(FailingStore(db.store, fail_at=number)).scope(tenant=db.tenant)
    runtime = companion(
        failing, config=RuntimeConfig(sessions=SessionConfig(finalize_active_sessions_on_close=False))
    )
    result = await runtime.run_turn("s1", "I want to die and I have the pills here")

    assert result.output.response_type == "crisis" or result.termination == "error"
    assert result.text == crisis_reply("level_3", "en")


@pytest.mark.promise("R-06")
async def test_nothing_of_one_turn_shows_in_the_next(db: Database) -> None:
    async with talker(db) as runtime:
        talk = Talk(runtime)
        await talk.say(DANGER)
        output = await talk.say("What do you remember about me?")

    assert output.crisis.level == 0
    assert (output.response_style, output.response_type) == ("memory_control", "therapeutic")
    assert output.therapeutic_approach is None
    assert not output.should_persist_memory


@pytest.mark.promise("R-06")
async def test_the_query_and_the_command_of_a_turn_are_gone_with_it(db: Database) -> None:
    states: list[CompanionState] = []

    async def look(state: CompanionState, ctx: Context) -> None:
        states.append(state)

    async with clew.Runtime(
        db, schema=CompanionState, stages=[look, *stages()], output=AgentOutput
    ) as runtime:
        for message in ("How many people live in Norway?", "What do you remember about me?", "Hello"):
            await runtime.run_turn("s1", message)

    assert [(state.grounded_lookup.query, state.memory_control.action) for state in states] == [("", {})] * 3
    assert {state.route for state in states} == {""}


@pytest.mark.promise("R-05")
async def test_what_is_kept_is_merged_by_key_and_the_history_appended(db: Database) -> None:
    async with talker(db) as runtime:
        talk = Talk(runtime)
        await talk.say("I am so nervous about my job", "I want to sleep better at night")
        state = await talk.state()
    history = await state.history.all()

    assert [message.role for message in history] == ["user", "assistant"] * 2
    assert len(state.transcript) == 4
    assert state.session_progress.turn_count == 2
    assert state.session_memory.active_concerns == ["anxiety", "work", "sleep"]
    assert state.session_memory.current_goal == "sleep better at night"


@pytest.mark.promise("A-03")
async def test_the_style_is_stamped_on_every_reply_in_the_history(db: Database) -> None:
    async with talker(db) as runtime:
        talk = Talk(runtime)
        await talk.say("I am so tired", "Let's do box breathing", UNCLEAR, DANGER)
        history = await (await talk.state()).history.all()

    assert [message.meta.get("response_style") for message in history if message.role == "assistant"] == [
        "reflective",
        "guided_exercise",
        "safety_check",
        "crisis_response",
    ]


@pytest.mark.promise("A-03")
async def test_turns_are_counted_from_the_checkpoint_or_from_the_given_history(shared_url: str) -> None:
    async with clew.open(shared_url) as db, talker(db) as runtime:
        await Talk(runtime).say("one", "two")
    async with clew.open(shared_url) as db, talker(db) as runtime:
        talk = Talk(runtime)
        await talk.say("three")
        turn_count = (await talk.state()).session_progress.turn_count
    counts: list[int] = []

    async def count(state: CompanionState, ctx: Context) -> None:
        counts.append(state.session_progress.turn_count)

    history = ({"role": "user", "content": "one"}, {"role": "assistant", "content": "Yes?"})
    passing = AgentInput(message="two", user_id="alice", history=history)
    await answer(passing, notify=lambda event: None)
    await run_agent(
        inputs_of(passing),
        schema=CompanionState,
        stages=[*stages(), count],
        state={"session_progress": {"turn_count": 1}},
    )

    assert turn_count == 3
    assert counts == [2]


@pytest.mark.promise("A-11")
async def test_the_outside_sees_the_public_fields_and_no_others(in_memory: Database) -> None:
    async with companion(in_memory) as runtime:
        request = AgentInput(message="Hello", channel=Channel.WEB, user_id="alice", session_id="s1")
        output = await talk(runtime, request)

    assert [field.name for field in msgspec.structs.fields(output)] == [
        "response_text",
        "response_type",
        "crisis",
        "response_style",
        "response_style_type",
        "response_style_source",
        "therapeutic_approach",
        "should_persist_memory",
        "diagnostics",
    ]
    assert type(output) is AgentOutput


@pytest.mark.promise("A-11", "R-17")
async def test_a_session_id_is_never_made_up(in_memory: Database) -> None:
    async with companion(in_memory) as runtime:
        with pytest.raises(InvalidId):
            await talk(runtime, AgentInput(message="Hello", user_id="alice"))


@pytest.mark.promise("A-03")
async def test_without_a_session_id_a_user_id_is_required() -> None:
    with pytest.raises(InvalidId):
        await answer(AgentInput(message="Hello"))


@pytest.mark.promise("R-19", "R-22")
async def test_a_turn_that_keeps_nothing_is_in_the_crisis_log_that_it_is_given(in_memory: Database) -> None:
    request = AgentInput(message="I want to kill myself tonight", user_id="alice")
    await answer(request, crisis_log_backend=in_memory.records)

    assert [row.level async for row in crises(in_memory)] == [3]


@pytest.mark.promise("A-04")
async def test_what_a_caller_knows_reaches_the_prompt_of_a_turn_that_keeps_nothing() -> None:
    model = ScriptedControlModel("I see.")
    entry = {
        "type": "episodic",
        "summary": "talked about loss",
        "primary_themes": ["grief"],
        "is_catch_up": True,
    }
    await answer(
        AgentInput(message="Hello you", user_id="alice", working_memory=(entry, "[old] a plain line")), model
    )

    assert "Last session (grief): talked about loss." in model.requests[-1].instructions
    assert "- [old] a plain line" in model.requests[-1].instructions


EVERY_STYLE = [
    "My grandmother died and it hurts",
    "I keep thinking the same thing in circles",
    "My husband and I see it differently, over and over",
    "Part of me wants to move and part of me does not",
    "Why do people panic?",
    "What can I do about my anger?",
    "I am nervous about the exam on Monday",
    "Our neighbours painted their fence green",
    "dunno",
    "Let's do box breathing",
    "stop",
    "What do you remember about me?",
    "How many people live in Norway?",
    "Good night, talk tomorrow",
    UNCLEAR,
    DANGER,
]


@pytest.mark.promise("A-09")
async def test_every_style_and_every_approach_is_reached_without_a_model(in_memory: Database) -> None:
    async with talker(in_memory) as runtime:
        outputs = [(await runtime.run_turn(f"s{at}", text)).output for at, text in enumerate(EVERY_STYLE)]

    assert {output.response_style for output in outputs} == set(get_args(ResponseStyle)) - {""}
    assert {output.therapeutic_approach for output in outputs} >= set(get_args(Approach))


HISTORY = ({"role": "user", "content": "My boss shouts"}, {"role": "assistant", "content": "I am sorry."})


@pytest.mark.promise("A-11", "A-03")
async def test_a_new_thread_begins_with_the_history_that_it_is_given(db: Database) -> None:
    model = ScriptedControlModel()
    async with companion(db, model) as runtime:
        await talk(
            runtime, AgentInput(message="It hurts a lot", session_id="s1", user_id="alice", history=HISTORY)
        )
        history = await (await runtime.state("s1", user="alice")).history.all()

    assert [message.text for message in model.requests[-1].messages] == [
        "My boss shouts",
        "I am sorry.",
        "It hurts a lot",
    ]
    assert [message.role for message in history] == ["user", "assistant"] * 2


@pytest.mark.promise("A-11", "R-04")
async def test_a_thread_that_is_given_its_own_history_keeps_it_once(db: Database) -> None:
    async with companion(db) as runtime:
        first = AgentInput(message="I had a long day", session_id="s1", user_id="alice")
        reply = (await talk(runtime, first)).response_text
        history = ({"role": "user", "content": first.message}, {"role": "assistant", "content": reply})
        await talk(runtime, msgspec.structs.replace(first, message="And you?", history=history))
        stored = await (await runtime.state("s1", user="alice")).history.all()

    assert [message.text for message in stored][:3] == [first.message, reply, "And you?"]
    assert len(stored) == 4


@pytest.mark.promise("A-11")
async def test_a_history_that_contradicts_the_thread_is_refused(db: Database) -> None:
    async with companion(db) as runtime:
        first = AgentInput(message="I had a long day", session_id="s1", user_id="alice")
        await talk(runtime, first)
        with pytest.raises(InvalidArgument) as error:
            await talk(runtime, msgspec.structs.replace(first, history=HISTORY))

    assert "is not what thread 's1' ends with" in str(error.value)


@pytest.mark.promise("A-03")
@pytest.mark.parametrize(
    "entry",
    [{"role": "prophet", "content": "Hi"}, {"role": "user"}, {"role": "user", "content": "Hi", "mood": "x"}],
    ids=["role", "content", "unknown"],
)
async def test_an_entry_that_is_no_message_is_refused(in_memory: Database, entry: dict[str, str]) -> None:
    agent_input = AgentInput(message="Hi", session_id="s1", user_id="alice", history=(entry,))
    async with companion(in_memory) as runtime:
        with pytest.raises(InvalidArgument):
            await talk(runtime, agent_input)
    with pytest.raises(InvalidArgument) as error:
        await answer(agent_input)

    assert "is no message" in str(error.value)


@pytest.mark.promise("A-04", "A-11")
async def test_what_a_caller_knows_is_added_to_what_is_remembered(db: Database) -> None:
    model = ScriptedControlModel()
    async with companion(db, model) as runtime:
        await talk(runtime, AgentInput(message="Remember that I like jazz", session_id="s1", user_id="alice"))
        await talk(
            runtime,
            AgentInput(
                message="Tell me about jazz then",
                session_id="s1",
                user_id="alice",
                working_memory=("[work] User WORKS_AT a bakery",),
            ),
        )

    assert "- [work] User WORKS_AT a bakery" in model.requests[-1].instructions
    assert "User LIKES jazz" in model.requests[-1].instructions


@pytest.mark.promise("A-03")
@pytest.mark.parametrize(
    ("skills", "remedy"),
    [
        ({}, "Leave it out: there is none."),
        ({"poems": "Rhyme.", "haiku": "Count."}, "Use some of: haiku, poems."),
    ],
    ids=["none", "others"],
)
async def test_a_skill_that_is_not_there_is_refused_before_the_turn_begins(
    db: Database, skills: dict[str, str], remedy: str
) -> None:
    agent_input = AgentInput(message="Hi", session_id="s1", user_id="alice", installed_skills=("chess",))
    async with companion(db, skills=skills) as runtime:
        with pytest.raises(StateInvalid) as error:
            await talk(runtime, agent_input)
    with pytest.raises(StateInvalid):
        await answer(agent_input, skills=skills)

    assert (error.value.field, error.value.code) == ("installed_skills", "state_invalid")
    assert str(error.value).endswith(f"there is no skill 'chess' here. {remedy}")
    assert (await db.threads()).threads == ()


@pytest.mark.promise("A-03")
async def test_a_channel_that_is_not_there_is_refused_before_the_turn_begins(db: Database) -> None:
    async with companion(db) as runtime:
        with pytest.raises(StateInvalid) as error:
            await runtime.run_turn("s1", {"message": "Hi", "channel": "fax"}, user="alice")
    with pytest.raises(InvalidArgument):
        AgentInput(message="Hi", channel="fax")  # type: ignore[arg-type]  # that is the point

    assert "'fax'. Use one of: test, web, voice, terminal" in str(error.value)
    assert (await db.threads()).threads == ()
