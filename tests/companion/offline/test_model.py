"""The offline model: honest about being simple, useful all the same, and always the same."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from clew.core.errors import ModelFailed
from clew.database.database import Database
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import ModelRequest, Reply, TextChunk
from clew.runtime.records.events import TextDelta
from clew_companion.language.phrases import phrases_of
from clew_companion.language.topics import all_topics
from clew_companion.offline.model import (
    NO_ANSWER,
    SMALL_TALK,
    WHAT_I_AM,
    WISHES_HEADING,
    WORDLESS,
    OfflineModel,
    offline_reply,
    summarize_conversation,
)
from clew_companion.offline.reflection import OFFER, feeling_reflection, restatement
from clew_companion.replies.filter import is_fit
from tests.companion.scripted_companion import Talk, talker

TALK = [
    "Hi",
    "I have been so anxious about my exam next week",
    "I can't sleep and my heart is racing",
    "My boss shouted at me in front of everybody",
    "I don't know",
    "I miss my grandfather, he died in spring",
    "I feel like a failure",
    "We had soup",
    "thanks, that is all for today",
]

LONG = [
    "hello",
    "how are you?",
    "not great honestly",
    "work has been a nightmare lately",
    "my boss keeps criticising everything I do",
    "every single day",
    "yeah",
    "I don't know",
    "what can you do?",
    "lol ok",
    "my sister says I should quit",
    "should I quit my job?",
    "I can't sleep because of it",
    "no thanks",
    "can we talk about something else",
    "I had a nice weekend, went hiking with my friend Tom",
    "the weather was great",
    "tell me a joke",
    "asdkjfh aksjdfh",
    "I think I have depression",
    "what is anxiety?",
    "you're not helping",
    "sorry",
    "I'm bored",
    "my job starts at six in the morning",
    "the same tomorrow",
    "I guess",
    "my boss again",
    "it never stops at work",
    "my boss shouted",
    "thank you",
]


def messages(*texts: str) -> list[Message]:
    """A conversation that begins with the user."""
    roles = ("user", "assistant")
    return [Message(role=roles[number % 2], content=text) for number, text in enumerate(texts)]


def conversation(talk: Sequence[str] = TALK) -> list[str]:
    """What it says in a whole conversation."""
    texts: list[str] = []
    for text in talk:
        texts += [text]
        texts += [offline_reply(messages(*texts))]
    return texts[1::2]


async def test_it_streams_and_its_pieces_are_the_whole() -> None:
    request = ModelRequest(messages=messages("I am tired of my job"))
    parts = [part async for part in OfflineModel().stream(request)]
    reply = parts[-1]

    assert isinstance(reply, Reply)
    assert len(parts) > 5
    assert "".join(part.text for part in parts if isinstance(part, TextChunk)) == reply.text


async def test_it_judges_nothing() -> None:
    with pytest.raises(ModelFailed):
        await OfflineModel().fill(ModelRequest(messages=[]), int)


def test_it_says_the_same_to_the_same_words() -> None:
    assert conversation() == conversation()


def test_it_says_once_what_it_is() -> None:
    replies = conversation()

    assert WHAT_I_AM in replies[0]
    assert not any(WHAT_I_AM in reply for reply in replies[1:])


@pytest.mark.parametrize(
    "question", ["Are you a real person?", "who are you?", "Are you an AI?", "are you a therapist"]
)
def test_it_says_that_it_is_a_program_when_somebody_asks(question: str) -> None:
    assert "I am a program, not a person and not a therapist." in offline_reply(messages(question))


def test_it_asks_no_more_than_one_question_at_a_time() -> None:
    assert max(reply.count("?") for reply in conversation()) == 1


def test_it_does_not_repeat_itself() -> None:
    replies = conversation()

    assert len(set(replies)) == len(replies)


def test_in_a_long_conversation_it_says_nothing_twice_and_offers_no_exercise_again() -> None:
    replies = conversation(LONG)
    offers = [reply.partition(OFFER)[2] for reply in replies if OFFER in reply]

    assert len(set(replies)) == len(replies)
    assert len(set(offers)) == len(offers) >= 1
    assert max(reply.count("?") for reply in replies) == 1


@pytest.mark.parametrize(
    ("message", "reply"),
    [
        ("how are you?", "I am a program"),
        ("do I have ADHD?", "do not diagnose"),
        ("I had a lovely weekend with my sister", "best part of it"),
        ("what is anxiety?", "alarm of the body"),
        ("why do I feel so tired all the time?", "Sleep comes by itself"),
        ("qwrtpsdf jklhgfds", "I know plain English words best"),
        ("???", "I know plain English words best"),
        ("我最近很焦虑", "I know plain English words best"),
        ("My boss keeps criticising me", "our boss keeps criticising you"),
    ],
)
def test_it_answers_what_was_said_and_owns_up_to_what_it_does_not_understand(
    message: str, reply: str
) -> None:
    assert reply in offline_reply(messages("Hi", "Hello.", message))


@pytest.mark.parametrize("phrase", ["That makes sense to me", "I am following you"])
def test_it_claims_no_understanding_that_it_does_not_have(phrase: str) -> None:
    assert not any(phrase in reply for reply in [*conversation(), *conversation(LONG)])


@pytest.mark.parametrize("question", ["Does it matter?", "how high is the tower", "Where did the time go?"])
def test_it_does_not_pretend_to_know_an_answer(question: str) -> None:
    assert offline_reply(messages("Hi", "Hello.", question)) in NO_ANSWER


def test_a_first_word_of_a_loss_is_met_with_no_exercise_and_a_panic_at_once_with_one() -> None:
    assert OFFER not in offline_reply(messages("Hi", "Hello.", "My mum died last year"))
    assert f"{OFFER} 5-4-3-2-1 grounding?" in offline_reply(messages("I am having a panic attack right now"))


def test_it_says_in_the_language_of_the_person_how_little_it_understands() -> None:
    first = offline_reply(messages("Ich habe heute wieder sehr viel Angst gehabt"))
    second = offline_reply(messages("Hallo", first, "Meine Schwester versteht mich einfach nicht"))

    assert (german := phrases_of("de")) is not None
    assert first == german.simple
    assert second in german.asks


def test_it_knows_the_name_that_somebody_said_and_what_it_was_about() -> None:
    history = messages("My name is Sam", "Hello.", "I am anxious about my exam", "I see.")

    assert "call you Sam" in offline_reply([*history, *messages("what's my name?")])
    assert "anxiety and work" in offline_reply([*history, *messages("what were we talking about?")])


@pytest.mark.parametrize("message", ["...", "👍", "🙂"])
def test_a_sign_without_words_is_no_error(message: str) -> None:
    assert offline_reply(messages("Hi", "Hello.", message)) in WORDLESS


@pytest.mark.parametrize("message", ["I'm going to bed", "bye", "thanks for listening", "ok, I have to go"])
def test_a_farewell_is_not_held_up_by_a_question(message: str) -> None:
    assert offline_reply(messages("Hi", "Hello.", message)).endswith("I am here when you want to go on.")


def test_an_exercise_that_was_left_is_not_offered_again() -> None:
    texts = ["I am so anxious", "Would you like to try Worry time?", "no thanks", "Fine.", "I worry a lot"]
    later = [*texts, "I hear you.", "I worry about it all", "I hear you.", "I am worried and anxious"]

    assert OFFER in offline_reply(messages(*[text.replace("Worry time", "x") for text in later][2:]))
    assert "Worry time" not in offline_reply(messages(*later))


def test_no_thanks_is_a_no_and_not_a_farewell() -> None:
    assert "Take good care" not in offline_reply(messages("Hi", "Hello.", "no thanks"))
    assert "Take good care" not in offline_reply(messages("Hi", "Hello.", "no, thanks"))


def test_why_it_is_so_is_explained_by_what_was_talked_about() -> None:
    history = messages("I am anxious", "I hear you.", "can you explain why I feel like this?")

    assert "alarm of the body" in offline_reply(history)


def test_the_exercise_that_is_offered_fits_the_last_message_first() -> None:
    texts = ("I had an argument with my boss", "I hear you.", "I have a craving to smoke")

    assert f"{OFFER} Urge surfing?" in offline_reply(messages(*texts))


def test_what_is_not_to_be_kept_is_acknowledged() -> None:
    history = messages("Hi", "Hello.", "I live in Oslo, but please don't remember that.")

    assert offline_reply(history).startswith("I will not keep that. ")


def test_a_message_that_goes_on_with_a_topic_is_asked_about_it_and_another_one_is_not() -> None:
    before = ("I argued with my sister", "I hear you.")
    people = next(topic for topic in all_topics() if topic.id == "people")

    assert any(each in offline_reply(messages(*before, "every single day")) for each in people.questions)
    assert not any(
        each in offline_reply(messages(*before, "I bought a very old bicycle")) for each in people.questions
    )


def test_a_session_of_small_talk_is_told_as_such_and_other_ones_are_left_to_their_own_words() -> None:
    small, more = messages("hello again", "Hello.", "how are you?"), messages("We painted the kitchen blue")

    assert (summary := summarize_conversation(small)) is not None
    assert (summary.summary, summary.themes) == (SMALL_TALK, [])
    assert summarize_conversation(more) is None


def test_it_offers_an_exercise_that_fits_and_not_in_every_turn() -> None:
    offers = [OFFER in reply for reply in conversation()]

    assert 1 <= sum(offers) <= 3
    assert not any(first and second for first, second in pairwise(offers))


def test_nothing_that_it_says_is_unfit() -> None:
    assert all(is_fit(line) for reply in conversation() for line in reply.split(". "))


def test_it_takes_a_no_for_a_no() -> None:
    history = messages("I am anxious", f"Yes? {OFFER} Box breathing?", "no thanks")

    assert offline_reply(history) == "That is fine, we leave it. What would you rather talk about?"


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ("I am so worried about my mother", "You say that you are so worried about your mother."),
        ("I feel alone, and nobody calls", "You say that you feel alone."),
        ("I've been sad since he left me", "You say that you are sad."),
        ("I've been working until midnight", "You say that you have been working until midnight."),
        ("He thinks that I am boring", ""),
        ("Am I wrong?", ""),
        ("The sea was blue", ""),
    ],
)
def test_what_somebody_says_of_themself_is_given_back(message: str, sentence: str) -> None:
    assert feeling_reflection(message) == sentence


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ("My boss keeps criticising everything I do.", "your boss keeps criticising everything you do"),
        ("And I was late for our meeting", "you were late for your meeting"),
        ("My father was strict with me", "your father was strict with you"),
        ("Me and my brother don't talk", "you and your brother don't talk"),
        ("You never listen to me", ""),
        ("Is it raining in your town?", ""),
        ("Fine by me", ""),
    ],
)
def test_what_somebody_tells_is_turned_round(message: str, sentence: str) -> None:
    assert restatement(message) == sentence


def test_it_calls_somebody_by_their_name_and_brings_up_the_last_session_if_it_may() -> None:
    leave = "What is known. You may bring these up where it helps."
    instructions = f"- Call the user Sam.\n\n{leave}\n- Last session (anxiety): x."
    off = instructions.replace("You may bring these up where it helps.", "Do not bring them up.")

    assert offline_reply(messages("Hey"), instructions).startswith(
        "Hello, Sam. Last time it was about anxiety."
    )
    assert "anxiety" not in offline_reply(messages("Hey"), off)


def test_it_keeps_to_what_somebody_asked_of_its_answers() -> None:
    history = messages("I am nervous about tomorrow")
    plain = offline_reply(history)
    short = offline_reply(history, f"{WISHES_HEADING}\n- Keep answers short.")
    quiet = offline_reply(history, f"{WISHES_HEADING}\n- Ask fewer questions.")

    assert len(short) < len(plain)
    assert "?" in plain
    assert "?" not in quiet


async def test_what_every_model_is_told_does_not_make_it_short(in_memory: Database) -> None:
    async with talker(in_memory) as runtime:
        output = await Talk(runtime).say("I am so nervous about tomorrow")

    assert output.response_text.startswith("It sounds as if worry has been close to you. You say that")


async def test_a_companion_without_a_model_streams_its_answer(in_memory: Database) -> None:
    async with talker(in_memory) as runtime:
        events = await Talk(runtime).events_of("I am tired of my job and of everything around it")

    assert len([event for event in events if isinstance(event, TextDelta)]) > 1
