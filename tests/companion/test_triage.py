"""Where messages go: by rules first, and never past a crisis."""

from __future__ import annotations

import asyncio

import pytest

from clew.core.errors import ModelFailed
from clew.database.database import Database
from clew.runtime.model.protocol import ModelRequest
from clew.runtime.state.declaration import schema_of
from clew_companion import triage
from clew_companion.exercises.selection import asks_for_any, exercise_asked_for
from clew_companion.language.commands import command_in
from clew_companion.language.replies import is_leaving, is_no, is_question, is_yes
from clew_companion.state import CompanionState
from clew_companion.triage import is_fact_question
from tests.companion.scripted_companion import DANGER, SAFE, UNCLEAR, ScriptedControlModel, Talk, talker

COMMANDS = [
    ("What do you remember about me?", "list", "me"),
    ("what do you know about my sister?", "list", "my sister"),
    ("Show me your memory", "list", ""),
    ("do you still remember my brother?", "list", "my brother"),
    ("Forget about my sister", "forget", "my sister"),
    ("please forget that I live in Oslo.", "forget", "I live in Oslo"),
    ("Can you delete everything you know about me?", "forget", ""),
    ("Wipe your memory", "forget", ""),
    ("forget my address", "forget", "my address"),
    ("Undo that, please", "undo", ""),
    ("undo", "undo", ""),
    ("Stop bringing up the past", "recall_off", ""),
    ("Please don't mention what I told you before", "recall_off", ""),
    ("turn recall off", "recall_off", ""),
    ("You can bring up what you remember again", "recall_on", ""),
    ("Remember that my exam is on Friday", "remember", "my exam is on Friday"),
    ("Please change Ann to Anna", "correct", ""),
    ("No, it's Anna, not Ann", "correct", ""),
]
NO_COMMANDS = [
    "I can't remember the last time I slept",
    "I want to forget him",
    "Forget it.",
    "I try to forget everything he said to me that night",
    "Do you remember when we were young? That's what she asked me",
    "I want to change my life to something better",
    "Remember when things were easy?",
    "My mother forgets everything",
    "I wish I could undo what I did",
    "She keeps bringing up the past",
]


@pytest.mark.promise("A-06")
@pytest.mark.parametrize(("message", "kind", "what"), COMMANDS)
def test_a_command_about_the_memory_is_understood(message: str, kind: str, what: str) -> None:
    command = command_in(message)

    assert command is not None
    assert (command.kind, command.what) == (kind, what)


@pytest.mark.parametrize("message", NO_COMMANDS)
def test_what_only_sounds_like_a_command_is_none(message: str) -> None:
    assert command_in(message) is None


@pytest.mark.parametrize(
    "message",
    ["yes", "Yes, please", "ok let's do it", "sure!", "Ja gerne", "go ahead", "yeah I'd like that", "ready"],
)
def test_a_yes_is_a_yes(message: str) -> None:
    assert is_yes(message)


@pytest.mark.parametrize(
    "message",
    [
        "no",
        "yes but not my sister",
        "Please keep your answers short.",
        "I am so tired of all this",
        "yes? what do you mean",
        "okay wait",
        "sure, if you think that all of this will help me in some way",
    ],
)
def test_what_is_not_plainly_a_yes_is_none(message: str) -> None:
    assert not is_yes(message)


@pytest.mark.parametrize(
    "message", ["no", "No thanks.", "not now", "leave it", "nein", "cancel", "never mind"]
)
def test_a_no_is_a_no(message: str) -> None:
    assert is_no(message)


@pytest.mark.parametrize(
    "message",
    [
        "stop",
        "I want to stop",
        "can we stop this?",
        "enough for today",
        "let's just talk",
        "this isn't helping",
    ],
)
def test_leaving_is_understood(message: str) -> None:
    assert is_leaving(message)


@pytest.mark.parametrize(
    "message", ["end table, lamp and cup", "a stop sign", "my leaving party", "the finish line"]
)
def test_an_answer_is_not_taken_for_leaving(message: str) -> None:
    assert not is_leaving(message)


@pytest.mark.parametrize(
    ("message", "exercise"),
    [
        ("Can we do a grounding exercise?", "grounding_5_4_3_2_1"),
        ("box breathing", "box_breathing"),
        ("I'd like to try leaves on a stream", "leaves_on_a_stream"),
        ("guide me through a thought record please", "thought_record"),
    ],
)
def test_an_exercise_is_asked_for_by_its_name(message: str, exercise: str) -> None:
    match = exercise_asked_for(message)

    assert match is not None
    assert match.id == exercise


@pytest.mark.parametrize(
    "message",
    [
        "I tried box breathing yesterday and it did not help at all",
        "What is box breathing?",
        "Someone once had me do something with leaves on a stream which I found strange and never repeated",
    ],
)
def test_an_exercise_that_is_only_spoken_of_is_not_begun(message: str) -> None:
    assert exercise_asked_for(message) is None


def test_exercise_of_another_kind_is_not_meant() -> None:
    assert asks_for_any("Can we do an exercise?")
    assert not asks_for_any("I have to do an exercise for school, can you help me")


@pytest.mark.parametrize(
    "message",
    [
        "How many people live in Norway?",
        "What are the side effects of sertraline?",
        "Can you look up when the library opens?",
    ],
)
def test_a_question_of_fact_is_one(message: str) -> None:
    assert is_fact_question(message)


@pytest.mark.parametrize(
    "message",
    [
        "Why do I feel like this?",
        "What should I do?",
        "When will it stop hurting?",
        "How long will I feel this way?",
        "Who am I without him?",
        "I looked at the sea and felt nothing",
    ],
)
def test_a_question_about_oneself_is_no_question_of_fact(message: str) -> None:
    assert not is_fact_question(message)


def test_a_list_of_things_is_no_question() -> None:
    assert not is_question("my mug, a lamp, the window")


@pytest.mark.promise("A-08", "A-09")
async def test_no_judgement_of_a_model_overrides_a_crisis(in_memory: Database) -> None:
    model = ScriptedControlModel(TriageResult={"route": "memory_control", "memory_action": "list"})
    async with talker(in_memory, model) as runtime:
        output = await Talk(runtime).say(f"What do you remember about me? {DANGER}")

    assert (output.response_text, output.response_type) == (SAFE, "crisis")
    assert model.typed_requests == []


async def test_a_model_is_asked_where_rules_cannot_tell(in_memory: Database) -> None:
    model = ScriptedControlModel(
        TriageResult={"route": "therapeutic", "style": "technique", "approach": "act"}
    )
    async with talker(in_memory, model) as runtime:
        output = await Talk(runtime).say("It is all a bit much with the two of them")

    assert (output.response_style, output.therapeutic_approach) == ("technique", "act")
    assert (output.response_style_source, output.diagnostics["triage_path"]) == ("model", "model")


async def test_a_model_may_not_choose_a_style_of_another_branch(in_memory: Database) -> None:
    model = ScriptedControlModel(TriageResult={"route": "therapeutic", "style": "crisis_response"})
    async with talker(in_memory, model) as runtime:
        output = await Talk(runtime).say("It is all a bit much with the two of them")

    assert output.response_style == "reflective"


async def test_a_model_that_is_slow_is_not_waited_for(
    in_memory: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(ScriptedControlModel):
        async def fill(self, request, kind):  # type: ignore[no-untyped-def]  # the signature of its parent
            await asyncio.Event().wait()

    monkeypatch.setattr(triage, "MODEL_SECONDS", 0.01)
    async with talker(in_memory, Slow()) as runtime:
        output = await Talk(runtime).say("My boss shouted at me")

    assert output.diagnostics["triage_path"] == "rules_after_model_failure"
    assert output.therapeutic_approach == "cbt"


async def test_a_model_that_fails_leaves_it_to_the_rules(in_memory: Database) -> None:
    model = ScriptedControlModel(TriageResult=ModelFailed(model="m", problem="it is down"))
    async with talker(in_memory, model) as runtime:
        output = await Talk(runtime).say("My dog died and I miss him")

    assert (output.response_style, output.therapeutic_approach) == ("supportive", "grief_support")


@pytest.mark.parametrize("question", ["Can we do box breathing?", "Forget everything you know about me"])
async def test_what_is_unclear_is_asked_about_before_anything_else(
    in_memory: Database, question: str
) -> None:
    async with talker(in_memory) as runtime:
        output = await Talk(runtime).say(f"{UNCLEAR} {question}")

    assert (output.response_style, output.response_text) == ("safety_check", SAFE)


@pytest.mark.promise("A-04", "R-18")
async def test_the_model_that_sorts_knows_what_is_remembered(db: Database) -> None:
    prompts: list[str] = []

    def sort(request: ModelRequest) -> dict[str, str]:
        prompts.append(request.instructions)
        return {"route": "therapeutic", "style": "reflective"}

    async with talker(db, ScriptedControlModel(TriageResult=sort)) as runtime:
        first = Talk(runtime, "s1")
        await first.say("I am so anxious. My sister is called Ann.")
        await first.end()
        second = Talk(runtime, "s2")
        await second.say("Ann called me again yesterday")

    assert triage.KNOWN_HEADING not in prompts[0]
    assert "- Last session (anxiety" in prompts[1]
    assert '- [relationship] sister IS_CALLED Ann — "My sister is called Ann."' in prompts[1]


def test_what_an_old_checkpoint_remembers_is_shown_to_it_as_it_is() -> None:
    state = schema_of(CompanionState).build_state({"message": "Hi", "working_memory": ["[old] a plain line"]})
    assert isinstance(state, CompanionState)

    assert triage.triage_instructions(state).endswith(f"{triage.KNOWN_HEADING}\n- [old] a plain line")
