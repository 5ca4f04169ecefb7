"""Memory by talk: seen, corrected, forgotten in two steps, undone, and no model asked."""

from __future__ import annotations

import msgspec
import pytest

import clew
from clew.database.database import Database
from clew.runtime.context import MemoryMode
from clew.runtime.execution.stateless import run_agent
from clew.runtime.memory import Candidate, Memory, memory_of
from clew.runtime.settings import RuntimeConfig, SessionConfig
from clew_companion.state import CompanionState
from tests.companion.scripted_companion import DANGER, ScriptedControlModel, Talk, stages, talker

ANN = Candidate(
    category="relationship",
    subject="sister",
    predicate="IS_CALLED",
    object="Ann",
    single=True,
    quote="My sister is called Ann.",
    plain=True,
)
OSLO = Candidate(predicate="LIVES_IN", object="Oslo", quote="I live in Oslo.", single=True, plain=True)
SHORT = Candidate(kind="rule", subject="manner", object="Keep answers short.", plain=True)


async def memory_of_alice(db: Database) -> Memory:
    """The memory of alice, with three things in it."""
    memory = memory_of(db, "s1", "alice")
    await memory.learn([ANN, OSLO, SHORT])
    return memory


async def objects(memory: Memory) -> list[str]:
    """What the facts of a memory are about."""
    return sorted(fact.object for fact in (await memory.page()).facts)


@pytest.mark.promise("A-06", "B-11")
async def test_what_is_remembered_is_listed_with_the_words_it_comes_from(db: Database) -> None:
    await memory_of_alice(db)
    async with talker(db) as runtime:
        output = await Talk(runtime).say("What do you remember about me?")

    assert "Your sister is called Ann. You said: “My sister is called Ann.”" in output.response_text
    assert "You live in Oslo." in output.response_text
    assert "Keep answers short." in output.response_text


async def test_a_list_about_somebody_has_nothing_else(in_memory: Database) -> None:
    await memory_of_alice(in_memory)
    async with talker(in_memory) as runtime:
        output = await Talk(runtime).say("What do you know about my sister?")

    assert "Ann" in output.response_text
    assert "Oslo" not in output.response_text


@pytest.mark.promise("A-06")
async def test_forgetting_waits_for_the_next_word(db: Database) -> None:
    memory = await memory_of_alice(db)
    async with talker(db) as runtime:
        talk = Talk(runtime)
        output = await talk.say("Forget about my sister")
        pending = (await talk.state()).memory_control.pending_action

    assert "Shall I forget this?" in output.response_text
    assert pending is not None
    assert [target["id"][:4] for target in pending["targets"]] == ["fact"]
    assert await objects(memory) == ["Ann", "Oslo"]


@pytest.mark.promise("A-06")
async def test_a_yes_forgets_what_was_shown_and_nothing_else_without_asking_a_model(db: Database) -> None:
    memory, model = await memory_of_alice(db), ScriptedControlModel()
    async with talker(db, model) as runtime:
        talk = Talk(runtime)
        output = await talk.say("Forget about my sister", "yes")
        pending = (await talk.state()).memory_control.pending_action

    assert await objects(memory) == ["Oslo"]
    assert output.response_text.startswith("Forgotten: one thing.")
    assert (pending, model.typed_requests, model.requests) == (None, [], [])


@pytest.mark.promise("A-06")
async def test_a_no_forgets_nothing_without_asking_a_model(db: Database) -> None:
    memory, model = await memory_of_alice(db), ScriptedControlModel()
    async with talker(db, model) as runtime:
        talk = Talk(runtime)
        output = await talk.say("Forget about my sister", "no, keep it")
        later = await talk.say("yes")

    assert await objects(memory) == ["Ann", "Oslo"]
    assert output.response_text == "Nothing was forgotten. It stays as it is."
    assert later.response_style != "memory_control"


@pytest.mark.promise("A-06")
async def test_any_other_word_gives_the_forgetting_up(db: Database) -> None:
    memory = await memory_of_alice(db)
    async with talker(db) as runtime:
        talk = Talk(runtime)
        await talk.say("Forget about my sister", "I had a long day at my job", "yes")

    assert await objects(memory) == ["Ann", "Oslo"]


@pytest.mark.promise("A-06")
async def test_a_pending_action_is_there_after_a_restart(shared_url: str) -> None:
    async with (
        clew.open(shared_url) as db,
        talker(
            db, config=RuntimeConfig(sessions=SessionConfig(finalize_active_sessions_on_close=False))
        ) as runtime,
    ):
        await memory_of_alice(db)
        await Talk(runtime).say("Forget about my sister")
    async with (
        clew.open(shared_url) as db,
        talker(
            db, config=RuntimeConfig(sessions=SessionConfig(finalize_active_sessions_on_close=False))
        ) as runtime,
    ):
        await Talk(runtime).say("yes")
        facts_after = await objects(memory_of(db, "s1", "alice"))

    assert facts_after == ["Oslo"]


async def test_danger_gives_a_pending_action_up(in_memory: Database) -> None:
    memory = await memory_of_alice(in_memory)
    async with talker(in_memory) as runtime:
        await Talk(runtime).say("Forget about my sister", DANGER, "yes")

    assert await objects(memory) == ["Ann", "Oslo"]


async def test_everything_can_be_forgotten_at_once(in_memory: Database) -> None:
    memory = await memory_of_alice(in_memory)
    async with talker(in_memory) as runtime:
        await Talk(runtime).say("Forget everything you know about me", "yes")

    assert await objects(memory) == []
    assert (await memory.profile()).rules == ()


@pytest.mark.promise("A-06", "B-11")
async def test_what_was_forgotten_is_back_after_an_undo(db: Database) -> None:
    memory = await memory_of_alice(db)
    async with talker(db) as runtime:
        output = await Talk(runtime).say("Forget about my sister", "yes", "undo that")

    assert await objects(memory) == ["Ann", "Oslo"]
    assert output.response_text.startswith("Undone.")


@pytest.mark.promise("B-11")
async def test_a_correction_is_kept_with_the_turn_it_was_told_in(db: Database) -> None:
    memory = await memory_of_alice(db)
    async with talker(db) as runtime:
        output = await Talk(runtime).say("No, it's Anna, not Ann")
    (fact,) = [fact for fact in (await memory.page()).facts if fact.subject == "sister"]

    assert fact.object == "Anna"
    assert fact.source is not None
    assert fact.source.thread == "s1"
    assert "Anna" in output.response_text


async def test_a_correction_that_could_mean_several_things_asks_which(in_memory: Database) -> None:
    memory = await memory_of_alice(in_memory)
    await memory.learn(
        [Candidate(subject="boss", predicate="IS_CALLED", object="Ann", quote="My boss is called Ann.")]
    )
    async with talker(in_memory) as runtime:
        output = await Talk(runtime).say("Change Ann to Anna")

    assert output.response_text.startswith("Which of these do you mean?")
    assert await objects(memory) == ["Ann", "Ann", "Oslo"]


async def test_what_shall_be_remembered_is_kept_at_once_with_its_source(in_memory: Database) -> None:
    async with talker(in_memory) as runtime:
        await Talk(runtime).say("Please remember that I am allergic to nuts")
    (fact,) = (await memory_of(in_memory, "s1", "alice").page()).facts

    assert fact.object == "nuts"
    assert fact.source is not None


@pytest.mark.promise("A-05")
async def test_recall_can_be_turned_off_and_on(in_memory: Database) -> None:
    memory = await memory_of_alice(in_memory)
    async with talker(in_memory) as runtime:
        talk = Talk(runtime)
        await talk.say("Stop bringing up the past")
        off = (await memory.profile()).recall
        await talk.say("You can bring up the past again")
        await runtime.end_session("s1", user="alice")
    profile = await memory.profile()

    assert not off
    assert profile.recall
    assert [rule.text for rule in profile.rules] == ["Keep answers short."]


@pytest.mark.promise("B-11")
async def test_an_undo_names_what_it_takes_back_and_what_comes_back(in_memory: Database) -> None:
    await memory_of_alice(in_memory)
    async with talker(in_memory) as runtime:
        output = await Talk(runtime).say("No, it's Anna, not Ann", "undo that")

    removed, _, restored = output.response_text.partition("I remember again:")
    assert "I no longer remember:\n- Your sister is called Anna." in removed
    assert "Your sister is called Ann." in restored


@pytest.mark.promise("B-11")
async def test_an_undo_of_recall_says_what_holds_again(in_memory: Database) -> None:
    await memory_of_alice(in_memory)
    async with talker(in_memory) as runtime:
        output = await Talk(runtime).say("Don't bring up what you remember", "undo that")

    assert output.response_text == "Undone.\nI may bring up what I remember."


@pytest.mark.promise("B-11")
async def test_a_whole_session_is_named_and_asked_about_before_it_is_undone(db: Database) -> None:
    async with talker(db) as runtime:
        talk = Talk(runtime)
        await talk.say("I live in Rome.")
        await runtime.end_session("s1", user="alice")
        question = await talk.say("undo that")
        before = await objects(memory_of(db, "s1", "alice"))
        reply = await talk.say("yes")

    assert "it is what I kept when a session ended. Shall I undo it?" in question.response_text
    assert "I would no longer remember:\n- You live in Rome." in question.response_text
    assert before == ["Rome"]
    assert reply.response_text.startswith("Undone.\nI no longer remember:\n- You live in Rome.")
    assert await objects(memory_of(db, "s1", "alice")) == []


@pytest.mark.promise("B-11")
@pytest.mark.parametrize("answer", ["no", "I had a long day at my job"])
async def test_an_undo_that_is_not_confirmed_undoes_nothing(in_memory: Database, answer: str) -> None:
    memory = await memory_of_alice(in_memory)
    async with talker(in_memory) as runtime:
        await Talk(runtime).say("undo that", answer, "yes")

    assert await objects(memory) == ["Ann", "Oslo"]


@pytest.mark.promise("B-11")
async def test_a_second_undo_is_asked_about(in_memory: Database) -> None:
    memory = await memory_of_alice(in_memory)
    async with talker(in_memory) as runtime:
        await Talk(runtime).say("Remember that I like tea", "Remember that I like jam", "undo that")
        after_one = await objects(memory)
        output = await Talk(runtime).say("undo that")

    assert after_one == ["Ann", "Oslo", "tea"]
    assert "Shall I undo it?\nI would no longer remember:\n- You like tea." in output.response_text
    assert await objects(memory) == after_one


async def test_a_change_from_elsewhere_is_not_taken_for_the_last_command(in_memory: Database) -> None:
    memory = await memory_of_alice(in_memory)
    async with talker(in_memory) as runtime:
        talk = Talk(runtime)
        await talk.say("Remember that I like tea")
        (oslo,) = [fact for fact in (await memory.page()).facts if fact.object == "Oslo"]
        await memory.correct(oslo.id, object="Bergen")
        output = await talk.say("undo that")

    assert "it is a correction. Shall I undo it?" in output.response_text
    assert "Bergen" in await objects(memory)


async def test_a_statement_that_was_not_kept_is_no_topic(in_memory: Database) -> None:
    async with talker(in_memory) as runtime:
        talk = Talk(runtime)
        output = await talk.say("Bigos is my dog.", "Forget that Bigos is my dog")
        later = await talk.say("What do you remember about me?")

    assert output.response_text.startswith("I have kept nothing that says that Bigos is your dog, so")
    assert "Bigos" not in later.response_text


async def test_what_was_asked_to_be_remembered_and_undone_is_not_learned_when_the_session_ends(
    in_memory: Database,
) -> None:
    async with talker(in_memory) as runtime:
        await Talk(runtime).say("Remember that my sister is called Ann", "Undo that", "I live in Rome.")
        await runtime.end_session("s1", user="alice")
    page = await memory_of(in_memory, "s1", "alice").page()

    assert [fact.object for fact in page.facts] == ["Rome"]


async def test_what_was_asked_in_a_call_is_learned_when_it_ends_since_nobody_did_it_before(
    in_memory: Database,
) -> None:
    async with talker(in_memory) as runtime:
        await runtime.record_voice_turn(
            "s1", text="Remember that my sister is called Ann", reply="I will.", user="alice"
        )
        await runtime.end_session("s1", user="alice")
    page = await memory_of(in_memory, "s1", "alice").page()

    assert [fact.object for fact in page.facts] == ["Ann"]


async def test_nothing_known_is_said_and_will_not_be_kept_either(in_memory: Database) -> None:
    async with talker(in_memory) as runtime:
        talk = Talk(runtime)
        await talk.say("My sister is called Ann.")
        output = await talk.say("Forget about Ann")
        await talk.end()

    assert "nothing to forget. I will not keep it from this conversation either." in output.response_text
    assert await objects(memory_of(in_memory, "s1", "alice")) == []


async def test_without_a_store_it_says_that_nothing_is_kept() -> None:
    result = await run_agent("What do you remember about me?", schema=CompanionState, stages=stages())

    assert "I keep nothing in this conversation" in result.text


@pytest.mark.promise("R-16")
async def test_nobody_sees_the_memory_of_another(in_memory: Database) -> None:
    await memory_of_alice(in_memory)
    async with talker(in_memory) as runtime:
        output = await Talk(runtime, "s2", "bob").say("What do you remember about me?")

    assert output.response_text == "I remember nothing about you yet."


@pytest.mark.promise("B-11")
async def test_a_correction_outlives_the_end_of_the_session_in_which_it_was_made(db: Database) -> None:
    async with talker(db) as runtime:
        talk = Talk(runtime)
        await talk.say("Please remember that my sister is called Ann", "No, it's Anna, not Ann")
        await talk.end()

    assert await objects(memory_of(db, "s1", "alice")) == ["Anna"]


@pytest.mark.parametrize(
    ("candidate", "message", "after"),
    [
        (
            Candidate(object="tea with milk", predicate="LIKES", plain=True),
            "Change milk to lemon",
            "tea with lemon",
        ),
        (
            Candidate(kind="rule", subject="manner", object="Keep answers short."),
            "Change short to long",
            "long.",
        ),
    ],
)
async def test_a_correction_leaves_the_other_words_as_they_are(
    in_memory: Database, candidate: Candidate, message: str, after: str
) -> None:
    await memory_of(in_memory, "s1", "alice").learn([candidate])
    async with talker(in_memory) as runtime:
        output = await Talk(runtime).say(message)

    assert after in output.response_text
    assert "Keep answers long." in output.response_text or candidate.kind == "fact"


async def test_a_session_that_is_over_is_not_corrected(in_memory: Database) -> None:
    async with talker(in_memory) as runtime:
        talk = Talk(runtime)
        await talk.say("I argued with Ferdinand at work")
        await talk.end()
        output = await talk.say("Change Ferdinand to Franz")

    assert output.response_text.startswith("I remember nothing about Ferdinand")


async def test_a_long_list_says_how_much_more_there_is(in_memory: Database) -> None:
    likes = [Candidate(predicate="LIKES", object=f"thing {number}", plain=True) for number in range(15)]
    await memory_of(in_memory, "s1", "alice").learn(likes)
    async with talker(in_memory) as runtime:
        output = await Talk(runtime).say("What do you remember about me?")

    assert output.response_text.count("\n- ") == 12
    assert "… and 3 more." in output.response_text


async def test_what_was_denied_is_told_as_denied(in_memory: Database) -> None:
    denial = Candidate(predicate="LIKES", object="tea", negated=True, plain=True)
    await memory_of(in_memory, "s1", "alice").learn([denial])
    async with talker(in_memory) as runtime:
        output = await Talk(runtime).say("What do you remember about me?")

    assert "- You do not like tea." in output.response_text


@pytest.mark.promise("A-05")
async def test_a_list_says_that_nothing_of_it_is_brought_up(in_memory: Database) -> None:
    memory = await memory_of_alice(in_memory)
    await memory.set_recall(on=False)
    async with talker(in_memory) as runtime:
        output = await Talk(runtime).say("What do you remember about me?")

    assert "I do not bring these up unless you ask, as you wished." in output.response_text


async def test_what_changed_between_the_question_and_the_yes_is_left(in_memory: Database) -> None:
    memory = await memory_of_alice(in_memory)
    async with talker(in_memory) as runtime:
        talk = Talk(runtime)
        await talk.say("Forget about my sister")
        (ann,) = [fact for fact in (await memory.page()).facts if fact.object == "Ann"]
        await memory.correct(ann.id, object="Anna")
        output = await talk.say("yes")

    assert output.response_text == "Nothing was forgotten. 1 of it had changed since, so I left it."
    assert await objects(memory) == ["Anna", "Oslo"]


@pytest.mark.promise("B-11")
async def test_what_was_told_in_this_conversation_is_listed_before_it_is_kept(db: Database) -> None:
    async with talker(db) as runtime:
        talk = Talk(runtime)
        await talk.say("My sister is called Ann.", "I live in Oslo. Please don't remember that.")
        output = await talk.say("What do you know about me?")

    assert "In this conversation you have told me:\n- Your sister is called Ann." in output.response_text
    assert "Oslo" not in output.response_text
    assert "I remember nothing" not in output.response_text


async def test_a_slip_that_is_only_noted_is_corrected_for_good(db: Database) -> None:
    async with talker(db) as runtime:
        talk = Talk(runtime)
        output = await talk.say("My sister is called Ann.", "No, it's Anna, not Ann")
        answer = await talk.say("What do you know about my sister?")
        await talk.end()

    assert "Corrected. I now remember: Your sister is called Anna." in output.response_text
    assert "called Ann." not in answer.response_text
    assert await objects(memory_of(db, "s1", "alice")) == ["Anna"]


async def test_what_is_newly_told_shows_beside_what_it_will_replace(in_memory: Database) -> None:
    await memory_of_alice(in_memory)
    async with talker(in_memory) as runtime:
        output = await Talk(runtime).say("I live in Bergen.", "Where do I live?")

    assert "You live in Oslo." in output.response_text
    assert "You live in Bergen." in output.response_text


async def test_what_shares_a_sentence_with_something_is_not_forgotten_with_it(in_memory: Database) -> None:
    both = "I live in Oslo and my sister is called Ann."
    memory = memory_of(in_memory, "s1", "alice")
    await memory.learn([msgspec.structs.replace(each, quote=both) for each in (ANN, OSLO)])
    async with talker(in_memory) as runtime:
        await Talk(runtime).say("Forget about my sister", "yes")

    assert await objects(memory) == ["Oslo"]


@pytest.mark.parametrize(
    ("message", "fact"),
    [
        ("remember my birthday is in May", "Your birthday is in May."),
        ("Please remember I like jazz", "You like jazz."),
        ("remember that you can call me Sam", "Call you Sam."),
    ],
)
async def test_what_is_to_be_remembered_is_understood_and_told_back(
    in_memory: Database, message: str, fact: str
) -> None:
    async with talker(in_memory) as runtime:
        output = await Talk(runtime).say(message)

    assert f"I will remember that:\n- {fact}" in output.response_text


@pytest.mark.parametrize(
    "message",
    ["Remember I told you about him?", "remember when we met", "I can't forget yesterday", "forget him"],
)
async def test_a_way_to_speak_is_no_command(in_memory: Database, message: str) -> None:
    async with talker(in_memory) as runtime:
        output = await Talk(runtime).say(message)

    assert output.response_style != "memory_control"


async def test_one_word_is_enough_to_say_what_to_forget(in_memory: Database) -> None:
    memory = await memory_of_alice(in_memory)
    async with talker(in_memory) as runtime:
        await Talk(runtime).say("forget Oslo", "yes")

    assert await objects(memory) == ["Ann"]


async def test_incognito_it_says_how_long_it_remembers(in_memory: Database) -> None:
    async with talker(in_memory) as runtime:
        result = await runtime.run_turn("s1", "Remember that I like jazz", mode=MemoryMode.INCOGNITO)

    assert result.text.endswith("I remember it until this conversation ends; nothing of it is kept.")
