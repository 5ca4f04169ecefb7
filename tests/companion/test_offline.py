"""The offline model: honest about being simple, useful all the same, and always the same."""

from __future__ import annotations

from itertools import pairwise

import pytest

from holdfast.companion.mirroring import mirrored
from holdfast.companion.offline import OFFER, WHAT_I_AM, WISHES, OfflineModel, offline_reply
from holdfast.companion.replies.careful import is_fit
from holdfast.core.errors import ModelFailed
from holdfast.runtime.events import TextDelta
from holdfast.runtime.messages import Message
from holdfast.runtime.models import Reply, Request, Text
from holdfast.threads.database import Database
from tests.companion.talking import Talk, talker

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


def messages(*texts: str) -> list[Message]:
    """A conversation that begins with the user."""
    roles = ("user", "assistant")
    return [Message(role=roles[number % 2], content=text) for number, text in enumerate(texts)]


def conversation() -> list[str]:
    """What it says in a whole conversation."""
    said: list[str] = []
    for text in TALK:
        said += [text]
        said += [offline_reply(messages(*said))]
    return said[1::2]


async def test_it_streams_and_its_pieces_are_the_whole() -> None:
    request = Request(messages=messages("I am tired of my job"))
    parts = [part async for part in OfflineModel().stream(request)]
    reply = parts[-1]

    assert isinstance(reply, Reply)
    assert len(parts) > 5
    assert "".join(part.text for part in parts if isinstance(part, Text)) == reply.text


async def test_it_judges_nothing() -> None:
    with pytest.raises(ModelFailed):
        await OfflineModel().fill(Request(messages=[]), int)


def test_it_says_the_same_to_the_same_words() -> None:
    assert conversation() == conversation()


def test_it_says_once_what_it_is() -> None:
    replies = conversation()

    assert WHAT_I_AM in replies[0]
    assert not any(WHAT_I_AM in reply for reply in replies[1:])


@pytest.mark.parametrize(
    "asked", ["Are you a real person?", "who are you?", "Are you an AI?", "are you a therapist"]
)
def test_it_says_that_it_is_a_program_when_somebody_asks(asked: str) -> None:
    assert "I am a program, not a person and not a therapist." in offline_reply(messages(asked))


def test_it_asks_no_more_than_one_question_at_a_time() -> None:
    assert max(reply.count("?") for reply in conversation()) == 1


def test_it_does_not_repeat_itself() -> None:
    replies = conversation()

    assert len(set(replies)) == len(replies)


def test_it_offers_an_exercise_that_fits_and_not_in_every_turn() -> None:
    offers = [OFFER in reply for reply in conversation()]

    assert 1 <= sum(offers) <= 3
    assert not any(first and second for first, second in pairwise(offers))


def test_nothing_that_it_says_is_unfit() -> None:
    assert all(is_fit(line) for reply in conversation() for line in reply.split(". "))


def test_it_takes_a_no_for_a_no() -> None:
    said = messages("I am anxious", f"Yes? {OFFER} Box breathing?", "no thanks")

    assert offline_reply(said) == "That is fine, we leave it. What would you rather talk about?"


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ("I am so worried about my mother", "You say that you are so worried about your mother."),
        ("I feel alone, and nobody calls", "You say that you feel alone."),
        ("I've been sad since he left me", "You say that you are sad."),
        ("Am I wrong?", ""),
        ("The sea was blue", ""),
    ],
)
def test_what_somebody_says_of_themself_is_given_back(message: str, sentence: str) -> None:
    assert mirrored(message) == sentence


def test_it_calls_somebody_by_their_name_and_brings_up_the_last_session_if_it_may() -> None:
    leave = "What is known. You may bring these up where it helps."
    known = f"- Call the user Sam.\n\n{leave}\n- Last session (anxiety): x."
    off = known.replace("You may bring these up where it helps.", "Do not bring them up.")

    assert offline_reply(messages("Hey"), known).startswith("Hello, Sam. Last time it was about anxiety.")
    assert "anxiety" not in offline_reply(messages("Hey"), off)


def test_it_keeps_to_what_somebody_asked_of_its_answers() -> None:
    said = messages("I am nervous about tomorrow")
    plain = offline_reply(said)
    short = offline_reply(said, f"{WISHES}\n- Keep answers short.")
    quiet = offline_reply(said, f"{WISHES}\n- Ask fewer questions.")

    assert len(short) < len(plain)
    assert "?" in plain
    assert "?" not in quiet


async def test_what_every_model_is_told_does_not_make_it_short(in_memory: Database) -> None:
    async with talker(in_memory) as runtime:
        output = await Talk(runtime).say("I am so nervous about tomorrow")

    assert output.response_text.startswith("It sounds as if worry has been close to you. You say that")


async def test_a_companion_without_a_model_streams_its_answer(in_memory: Database) -> None:
    async with talker(in_memory) as runtime:
        told = await Talk(runtime).heard("I am tired of my job and of everything around it")

    assert len([event for event in told if isinstance(event, TextDelta)]) > 1
