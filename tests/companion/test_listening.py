"""The offline companion listens: what was said is used later, and is not merely given back."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

import clew
from clew.database.database import Database
from clew.runtime.memory.recall.render import ONLY_IF_ASKED
from clew.runtime.model.messages import Message
from clew_companion.agent import companion
from clew_companion.language.replies import asks_about_last_session
from clew_companion.offline.model import offline_reply, summarize_conversation
from clew_companion.offline.recollection import key_sentences, recollection
from tests.companion.listening import held_out_sessions, play_sessions, repeats, score_session

EARLIER = [
    "The heating in my flat has been broken for a week.",
    "The landlord does not answer my calls about the heating.",
    "I have been so anxious about the cold nights.",
    "Maybe I will write him a letter tomorrow.",
]
TODAY = [
    "My cousin Lena arrives at the station on Saturday at six.",
    "Work was loud again, and my desk is next to the printer.",
    "I bought a blue bicycle from a neighbour.",
]


@pytest.fixture
async def db() -> AsyncIterator[Database]:
    async with await clew.open("memory://") as database:
        yield database


# A session that was written before the companion was changed for it: counts alone are looked at.


@pytest.mark.promise("A-05")
async def test_a_held_out_session_is_listened_to() -> None:
    sessions = held_out_sessions()
    replies = await play_sessions(sessions["earlier_session"]["messages"], sessions["session"]["messages"])
    score = score_session(sessions, replies)

    assert score.repeats <= 2
    assert (score.recalled, score.used, score.contradicted) == ([0], [0, 1, 2, 3], [])
    assert score.most_suggestions <= 1


# Each part by itself.


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "What could I show my cousin here?",
            "You told me: your cousin Lena arrives at the station on Saturday at six.",
        ),
        (
            "Should I ask for another desk?",
            "You told me: work was loud again, and your desk is next to the printer.",
        ),
        ("Do you know how far the moon is?", ""),
    ],
)
def test_what_was_said_before_is_found_by_what_a_question_is_about(message: str, told: str) -> None:
    assert recollection(message, TODAY).casefold() == told.casefold()


def test_a_remembered_fact_is_found_as_well() -> None:
    instructions = '- [person] cousin IS_CALLED Lena — "My cousin is called Lena"'

    assert recollection("What is a good gift for my cousin?", [], instructions) == (
        "You told me: your cousin is called Lena."
    )


@pytest.mark.promise("A-05")
@pytest.mark.parametrize(
    ("then", "style"),
    [
        ("Forget that.", ""),
        ("Forget about my cousin.", ""),
        ("Please don't keep that.", ""),
        ("", "safety_check"),
    ],
    ids=["forgotten", "forgotten by name", "refused", "in danger"],
)
def test_what_is_forgotten_refused_or_said_in_danger_is_not_told_again(then: str, style: str) -> None:
    messages = [
        Message(role="user", content=TODAY[0]),
        Message(role="assistant", content="I see.", meta={"response_style": style}),
        *([Message(role="user", content=then), Message(role="assistant", content="Yes.")] if then else []),
        Message(role="user", content="What could I show my cousin here?"),
    ]

    assert "Lena" not in offline_reply(messages)


@pytest.mark.promise("A-05")
def test_who_does_not_want_the_past_to_be_brought_up_is_not_told_of_it() -> None:
    messages = [
        Message(role="user", content=TODAY[0]),
        Message(role="assistant", content="I see."),
        Message(role="user", content="What could I show my cousin here?"),
    ]

    assert "Lena" in offline_reply(messages)
    assert "Lena" not in offline_reply(messages, ONLY_IF_ASKED)


def test_a_conversation_is_told_by_what_it_comes_back_to() -> None:
    assert key_sentences(EARLIER)[:2] == EARLIER[:2]


@pytest.mark.parametrize(
    "message",
    [
        "What did we talk about last time?",
        "Do you remember what I told you last week?",
        "hey, what was it about yesterday?",
        "Can you remind me what we discussed in our last session?",
    ],
)
def test_a_question_about_the_last_session_is_known(message: str) -> None:
    assert asks_about_last_session(message)


@pytest.mark.parametrize(
    "message",
    ["What did you have for lunch?", "Last time I was there it rained.", "Was it cold yesterday in Oslo?"],
)
def test_another_question_is_none_about_the_last_session(message: str) -> None:
    assert not asks_about_last_session(message)


@pytest.mark.promise("A-05")
async def test_the_last_session_is_told_from_its_arc() -> None:
    _, reply = await play_sessions(EARLIER, ["Good morning", "What did we talk about last time?"])

    assert "Last time it was about anxiety" in reply
    assert "The landlord does not answer your calls about the heating." in reply


async def test_without_an_earlier_session_none_is_made_up() -> None:
    (reply,) = await play_sessions([], ["What did we talk about last time?"])

    assert reply.startswith("I remember nothing of an earlier conversation.")


def summary_of(*texts: str, styles: tuple[str, ...] = ()) -> str:
    """The summary of a conversation whose replies had these styles, the first ones first."""
    messages = []
    for at, text in enumerate(texts):
        meta: dict[str, Any] = {"response_style": styles[at] if at < len(styles) else "reflective"}
        messages += [
            Message(role="user", content=text),
            Message(role="assistant", content="I see.", meta=meta),
        ]
    summary = summarize_conversation(messages)
    return summary.summary if summary else ""


def test_the_arc_has_the_words_that_a_conversation_came_back_to() -> None:
    assert "“The landlord does not answer my calls about the heating.”" in summary_of(*EARLIER)


@pytest.mark.parametrize(
    ("texts", "styles"),
    [
        ([*EARLIER[1:], "Please don't keep any of this."], ()),
        (EARLIER[:3], ()),
        (EARLIER, ("safety_check",) * 4),
    ],
    ids=["refused", "short", "in danger"],
)
def test_no_words_are_kept_of_what_is_refused_short_or_said_in_danger(
    texts: list[str], styles: tuple[str, ...]
) -> None:
    assert "“" not in summary_of(*texts, styles=styles)


def test_what_is_kept_as_a_fact_is_not_kept_in_the_arc_too() -> None:
    assert "Ann" not in summary_of("My sister is called Ann.", *EARLIER)


async def test_words_are_given_back_twice_in_twenty_replies_at_most() -> None:
    messages = [
        f"My {thing} makes me tired every single morning"
        for thing in (
            "boss",
            "train",
            "desk",
            "phone",
            "chair",
            "garden",
            "kitchen",
            "street",
            "car",
            "school",
            "coat",
            "lamp",
            "door",
            "window",
            "table",
            "shelf",
            "stove",
            "fridge",
            "wall",
            "roof",
        )
    ]
    replies = await play_sessions([], messages)

    assert sum(map(repeats, messages, replies)) <= 2


async def test_who_wants_one_suggestion_at_a_time_gets_one(db: Database) -> None:
    async with companion(db) as runtime:
        listed = (await runtime.run_turn("a", "What can I do to be calmer?", user="ada")).text
        await runtime.run_turn("b", "Please give me only one suggestion at a time.", user="bea")
        single = (await runtime.run_turn("b", "What can I do to be calmer?", user="bea")).text

    assert ("\n- " in listed, "\n- " in single) == (True, False)
    assert single.startswith("One thing that may help is ")
