"""Guided exercises: steps and what they wait for, side questions, leaving, finishing, and restarts."""

from __future__ import annotations

import pytest

import clew
from clew.database.database import Database
from clew.runtime.memory import memory_of
from clew.runtime.settings import RuntimeConfig, SessionConfig
from clew_companion.exercises.catalogue import Exercise, catalogue
from clew_companion.exercises.guide import ExercisePosition, advance_exercise, begin_exercise, thing_count
from clew_companion.exercises.selection import exercise_in, fitting_exercises, offer_in
from tests.companion.scripted_companion import DANGER, UNCLEAR, ScriptedControlModel, Talk, talker

GROUNDING = catalogue()["grounding_5_4_3_2_1"]
BREATHING = catalogue()["box_breathing"]


def test_the_catalogue_has_the_exercises_that_were_promised() -> None:
    assert len(catalogue()) >= 10
    assert {
        "grounding_5_4_3_2_1",
        "box_breathing",
        "muscle_relaxation",
        "thought_record",
        "behavioural_activation",
        "leaves_on_a_stream",
        "values_compass",
        "self_compassion_break",
    } <= catalogue().keys()


@pytest.mark.parametrize("exercise", catalogue().values(), ids=lambda exercise: exercise.id)
def test_every_exercise_can_be_gone_through_to_its_end(exercise: Exercise) -> None:
    move = begin_exercise(exercise)
    turns = 1
    while move.position is not None:
        move = advance_exercise(exercise, move.position, "yes")
        turns += 1

    assert move.text.endswith(exercise.closing)
    assert turns <= 2 * len(exercise.steps) + 1


@pytest.mark.parametrize("exercise", catalogue().values(), ids=lambda exercise: exercise.id)
def test_every_exercise_is_found_by_each_of_its_names(exercise: Exercise) -> None:
    assert {(exercise_in(f"please do {name} with me") or BREATHING).id for name in exercise.called} == {
        exercise.id
    }


@pytest.mark.parametrize(
    ("answer", "count"),
    [
        ("a lamp, a mug and my hand", 3),
        ("lamp mug hand", 3),
        ("1. lamp 2. mug", 2),
        ("the blue lamp on my desk, the wall", 2),
        ("I can see", 0),
    ],
)
def test_things_are_counted_by_parts_or_else_by_words(answer: str, count: int) -> None:
    assert thing_count(answer) == count


def test_what_does_not_fit_is_asked_for_once_more_and_then_taken() -> None:
    first = advance_exercise(GROUNDING, ExercisePosition(step=0), "a lamp, a mug")
    second = advance_exercise(GROUNDING, first.position or ExercisePosition(step=9), "hm")

    assert (first.text, first.position) == (
        GROUNDING.steps[0].repeat,
        ExercisePosition(step=0, is_repeat=True),
    )
    assert second.position == ExercisePosition(step=1)


def test_a_step_can_be_skipped() -> None:
    assert advance_exercise(
        GROUNDING, ExercisePosition(step=0), "skip this one"
    ).position == ExercisePosition(step=1)


def test_an_offer_is_found_in_the_last_question_of_a_reply() -> None:
    offer = "I hear you. Would you like to try Box breathing?"

    assert offer_in(offer) == BREATHING
    assert offer_in("Box breathing is something people do. How was your day?") is None


def test_exercises_fit_what_is_said() -> None:
    assert fitting_exercises(["I am in a panic, everything feels unreal"])[0] == GROUNDING
    assert fitting_exercises(["We had pasta"]) == []


@pytest.mark.promise("A-07")
async def test_an_exercise_keeps_its_type_its_step_and_its_approach(db: Database) -> None:
    async with talker(db) as runtime:
        talk = Talk(runtime)
        output = await talk.say("Can we do a grounding exercise?", "lamp, mug, hand, door, cat")
        exercise_state = (await talk.state()).exercise_state

    assert (exercise_state.exercise_type, exercise_state.exercise_step) == (GROUNDING.id, 1)
    assert exercise_state.exercise_therapeutic_approach == output.therapeutic_approach == "pfa"
    assert output.response_text == GROUNDING.steps[1].say


@pytest.mark.promise("A-07")
async def test_an_exercise_goes_on_after_a_restart(shared_url: str) -> None:
    async with (
        clew.open(shared_url) as db,
        talker(
            db, config=RuntimeConfig(sessions=SessionConfig(finalize_active_sessions_on_close=False))
        ) as runtime,
    ):
        await Talk(runtime).say("box breathing", "yes", "done")
    async with clew.open(shared_url) as db, talker(db) as runtime:
        output = await Talk(runtime).say("I did the three rounds")

    assert output.response_text == BREATHING.steps[3].say


@pytest.mark.promise("A-07")
async def test_finishing_clears_the_exercise_and_says_that_the_turn_is_worth_keeping(db: Database) -> None:
    async with talker(db) as runtime:
        talk = Talk(runtime)
        before = await talk.say("box breathing", "yes", "ok", "ok", "in my chest")
        output = await talk.say("I am fine")
        exercise_state = (await talk.state()).exercise_state

    assert not before.should_persist_memory
    assert output.should_persist_memory
    assert output.response_text == BREATHING.closing
    assert (
        exercise_state.exercise_type,
        exercise_state.exercise_step,
        exercise_state.exercise_therapeutic_approach,
    ) == (None, None, None)


@pytest.mark.promise("A-07")
async def test_leaving_clears_the_exercise_and_keeps_nothing_of_it(db: Database) -> None:
    async with talker(db) as runtime:
        talk = Talk(runtime)
        output = await talk.say("box breathing", "I want to stop")
        exercise_state = (await talk.state()).exercise_state

    assert exercise_state.exercise_type is None
    assert not output.should_persist_memory
    assert output.response_style == "supportive"


@pytest.mark.promise("A-07")
async def test_a_clarifying_question_keeps_the_exercise_and_the_pinned_approach(db: Database) -> None:
    model = ScriptedControlModel("Any colour will do.")
    async with talker(db, model) as runtime:
        talk = Talk(runtime)
        output = await talk.say("Can we do a grounding exercise?", "What do you mean by things?")
        exercise_state = (await talk.state()).exercise_state

    assert (output.response_style, output.therapeutic_approach) == ("clarifying", "pfa")
    assert (exercise_state.exercise_type, exercise_state.exercise_step) == (GROUNDING.id, 0)
    assert output.response_text.startswith("Any colour will do.")
    assert output.response_text.endswith(GROUNDING.steps[0].say)
    assert GROUNDING.steps[0].say in model.requests[-1].instructions


@pytest.mark.promise("A-07")
async def test_psychoeducation_keeps_the_exercise_and_may_take_a_fresh_approach(db: Database) -> None:
    async with talker(db, ScriptedControlModel("Worry narrows what we see.")) as runtime:
        talk = Talk(runtime)
        output = await talk.say("Can we do a grounding exercise?", "Why does this help with worry?")
        exercise_state = (await talk.state()).exercise_state

    assert (output.response_style, output.therapeutic_approach) == ("psychoeducation", "cbt")
    assert exercise_state.exercise_therapeutic_approach == "pfa"
    assert exercise_state.exercise_step == 0


async def test_what_somebody_tells_in_between_is_not_counted_as_an_answer(in_memory: Database) -> None:
    async with talker(in_memory) as runtime:
        talk = Talk(runtime)
        output = await talk.say("box breathing", "My mother died last week and I miss her")
        exercise_state = (await talk.state()).exercise_state

    assert output.response_style == "supportive"
    assert (exercise_state.exercise_type, exercise_state.exercise_step) == (BREATHING.id, 0)


async def test_a_command_about_the_memory_keeps_the_exercise(in_memory: Database) -> None:
    async with talker(in_memory) as runtime:
        talk = Talk(runtime)
        output = await talk.say("box breathing", "yes", "What do you remember about me?")
        exercise_state = (await talk.state()).exercise_state

    assert output.response_style == "memory_control"
    assert (exercise_state.exercise_type, exercise_state.exercise_step) == (BREATHING.id, 1)


async def test_another_exercise_takes_the_place_of_the_first(in_memory: Database) -> None:
    async with talker(in_memory) as runtime:
        talk = Talk(runtime)
        output = await talk.say("box breathing", "yes", "can we do a grounding exercise instead?")

    assert output.therapeutic_approach == "pfa"
    assert (await talk.state()).exercise_state.exercise_step == 0


async def test_danger_ends_an_exercise_and_a_question_about_it_does_not(in_memory: Database) -> None:
    async with talker(in_memory) as runtime:
        talk = Talk(runtime)
        await talk.say("box breathing", UNCLEAR)
        unclear = (await talk.state()).exercise_state.exercise_type
        await talk.say(DANGER)
        danger = (await talk.state()).exercise_state.exercise_type

    assert (unclear, danger) == ("box_breathing", None)


async def test_a_yes_to_an_offer_begins_the_exercise(in_memory: Database) -> None:
    async with talker(
        in_memory, ScriptedControlModel("That is a lot. Would you like to try Box breathing?")
    ) as runtime:
        output = await Talk(runtime).say("My heart is racing", "yes please")

    assert output.response_style == "guided_exercise"
    assert BREATHING.steps[0].say in output.response_text


async def test_asking_for_any_exercise_in_the_middle_of_one_begins_no_other(in_memory: Database) -> None:
    async with talker(in_memory) as runtime:
        output = await Talk(runtime).say(
            "Can we do box breathing?", "yes", "Could we do an exercise against panic?"
        )

    assert not output.response_text.startswith("Let us do")
    assert output.response_style == "clarifying"


@pytest.mark.promise("A-07")
@pytest.mark.parametrize(
    ("question", "reply"),
    [
        ("Are you a real person?", "I am a program"),
        ("do you have feelings?", "feel"),
        ("should I quit my job?", "you"),
        ("do I have ADHD?", "do not diagnose"),
        ("what is anxiety?", "alarm of the body"),
    ],
)
async def test_a_question_about_something_else_is_answered_and_the_exercise_waits(
    in_memory: Database, question: str, reply: str
) -> None:
    async with talker(in_memory) as runtime:
        talk = Talk(runtime)
        await talk.say("Can we do box breathing?")
        output = await talk.say(question)
        exercise_state = (await talk.state()).exercise_state
    answer, _, step = output.response_text.partition("\n\n")

    assert reply in answer
    assert "no right or wrong" not in answer
    assert "?" not in answer
    assert step.startswith("When you are ready, we go on: ")
    assert (exercise_state.exercise_type, exercise_state.exercise_step) == ("box_breathing", 0)


async def test_what_breaks_into_a_step_that_takes_any_answer_is_heard_and_the_step_waits(
    in_memory: Database,
) -> None:
    async with talker(in_memory) as runtime:
        talk = Talk(runtime)
        await talk.say("Can we do box breathing?", "yes")
        output = await talk.say("Actually, my dad called and I got really upset")
        exercise_state = (await talk.state()).exercise_state
        await talk.say("my dad taught me to breathe like that once")
        later = (await talk.state()).exercise_state

    assert output.response_text.startswith("Thank you for telling me.")
    assert (exercise_state.exercise_type, exercise_state.exercise_step) == ("box_breathing", 1)
    assert later.exercise_step == 2


@pytest.mark.parametrize(
    ("question", "style"),
    [
        ("How many people live in Norway?", "grounded_lookup"),
        ("How many rounds?", "clarifying"),
        ("How long?", "clarifying"),
        ("I don't get this", "clarifying"),
    ],
)
async def test_a_question_of_fact_is_told_from_one_about_the_step(
    in_memory: Database, question: str, style: str
) -> None:
    async with talker(in_memory) as runtime:
        talk = Talk(runtime)
        await talk.say("Can we do box breathing?", "yes")
        output = await talk.say(question)
        exercise_state = (await talk.state()).exercise_state

    assert output.response_style == style
    assert (exercise_state.exercise_type, exercise_state.exercise_step) == ("box_breathing", 1)


async def test_something_that_has_to_be_told_waits_for_no_step(in_memory: Database) -> None:
    async with talker(in_memory) as runtime:
        talk = Talk(runtime)
        await talk.say("Can we do box breathing?", "yes")
        output = await talk.say("I need to tell you something, I shouted and it was awful")
        exercise_state = (await talk.state()).exercise_state

    assert output.response_text.startswith("Thank you for telling me.")
    assert exercise_state.exercise_step == 1


@pytest.mark.parametrize("message", ["Can I do it later?", "maybe later", "could we finish this tomorrow?"])
async def test_an_exercise_that_is_put_off_is_left(in_memory: Database, message: str) -> None:
    async with talker(in_memory) as runtime:
        talk = Talk(runtime)
        output = await talk.say("Can we do box breathing?", "yes", message)
        exercise_state = (await talk.state()).exercise_state

    assert "We leave Box breathing here" in output.response_text
    assert exercise_state.exercise_type is None


def test_a_lost_job_speaks_for_no_letter_to_somebody_missed() -> None:
    assert "letter_to_someone_missed" not in [
        each.id for each in fitting_exercises(["My husband lost his job"])
    ]


@pytest.mark.parametrize(
    ("message", "exercise"),
    [
        ("the second one", "grounding_5_4_3_2_1"),
        ("1", "box_breathing"),
        ("the last one please", "thought_record"),
        ("one of my friends came", None),
    ],
)
async def test_an_exercise_is_picked_from_a_list_by_its_number(
    in_memory: Database, message: str, exercise: str | None
) -> None:
    async with talker(in_memory) as runtime:
        talk = Talk(runtime)
        await talk.say("What can I do?", message)
        exercise_state = (await talk.state()).exercise_state

    assert exercise_state.exercise_type == exercise


@pytest.mark.promise("A-07", "R-13")
async def test_an_exercise_does_not_outlive_its_session(db: Database) -> None:
    async with talker(db) as runtime:
        talk = Talk(runtime)
        await talk.say("Let's do box breathing", "ready")
        await talk.end()
        output = await talk.say("ok")
        state = await talk.state()

    assert output.response_style != "guided_exercise"
    assert (state.exercise_state.exercise_type, state.exercise_state.exercise_step) == (None, None)
    assert state.exercise_state.exercise_therapeutic_approach is None


@pytest.mark.promise("A-07", "R-21")
async def test_a_call_that_comes_first_in_the_next_session_does_not_keep_an_exercise(db: Database) -> None:
    async with talker(db) as runtime:
        talk = Talk(runtime)
        await talk.say("Let's do box breathing", "ready")
        await talk.end()
        await runtime.record_voice_turn("s1", text="Hello", reply="Hello.", user="alice")
        output = await talk.say("ok")

    assert output.response_style != "guided_exercise"


@pytest.mark.promise("A-06", "R-13")
async def test_an_action_that_waits_does_not_outlive_its_session(db: Database) -> None:
    async with talker(db) as runtime:
        talk = Talk(runtime)
        await talk.say("Remember that I like jazz", "Forget jazz")
        await talk.end()
        output = await talk.say("yes")
        facts = (await memory_of(db, "s1", "alice").page()).facts

    assert output.response_style != "memory_control"
    assert [fact.object for fact in facts] == ["jazz"]
