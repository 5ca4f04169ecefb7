"""Remarks to a simple program: known for what they are, answered kindly, and never mistaken for a worry."""

from __future__ import annotations

import pytest

from clew_companion.language.topics import all_topics, sentences, topics_in
from clew_companion.offline.remarks import all_remarks, least_recent, remark_in
from clew_companion.replies.filter import is_fit

REMARKS = [
    ("how are you?", "how_are_you"),
    ("hey, what's up", "how_are_you"),
    ("can I talk to a real person?", "a_person"),
    ("are you ChatGPT?", "model"),
    ("What is your name?", "your_name"),
    ("how long have you been a therapist?", "no_person"),
    ("do you have kids?", "no_person"),
    ("can you call my husband?", "outside"),
    ("What can you do?", "abilities"),
    ("how does this work?", "abilities"),
    ("do you have feelings?", "feelings"),
    ("do you actually care about me?", "feelings"),
    ("Do you even understand me?", "understanding"),
    ("Is this private?", "privacy"),
    ("who can read what I write?", "privacy"),
    ("I think I have depression", "diagnosis"),
    ("do I have ADHD?", "diagnosis"),
    ("what's wrong with me?", "diagnosis"),
    ("Should I stop taking my sertraline?", "medicine"),
    ("am I overreacting?", "judging"),
    ("Should I quit my job?", "advice"),
    ("tell me a joke", "tasks"),
    ("what's my name?", "own_name"),
    ("what were we talking about?", "so_far"),
    ("What do you mean?", "meaning"),
    ("you're not helping", "complaint"),
    ("this is stupid", "complaint"),
    ("You already asked me that", "complaint"),
    ("can we talk about something else", "something_else"),
    ("I need help", "help"),
    ("not great honestly", "so_so"),
    ("I'm fine, thanks", "well"),
    ("I don't know", "dont_know"),
    ("nothing much", "nothing"),
    ("sorry", "apology"),
    ("nvm", "never_mind"),
    ("lol ok", "laughter"),
    ("yeah", "agreeing"),
    ("hang on a moment", "waiting"),
    ("guide me through a body scan", "unknown_exercise"),
    ("My name is Sam", "name_told"),
    ("I had a bad day. Do you understand me?", "understanding"),
]
STORIES = [
    "My boss keeps criticising everything I do",
    "It was terrible, I forgot all my words",
    "I should have stayed at home",
    "he said I was useless at this",
    "I miss the sea",
    "She never listens to me",
    "We had soup",
    "I am taking my medication every day",
    "I told him that I love him",
]


@pytest.mark.parametrize(("message", "kind"), REMARKS)
def test_a_remark_is_known_for_what_it_is(message: str, kind: str) -> None:
    match = remark_in(message)

    assert match is not None
    assert match.remark.id == kind


@pytest.mark.parametrize("message", STORIES)
def test_what_somebody_tells_is_no_remark(message: str) -> None:
    assert remark_in(message) is None


def test_a_name_is_said_back_as_it_is_written() -> None:
    match = remark_in("you can call me sam")

    assert match is not None
    assert match.answers == ["Good to meet you, Sam. What is on your mind?"]


def test_every_answer_is_fit_and_asks_one_question_at_most() -> None:
    answers = [answer for remark in all_remarks() for answer in remark.answers]

    assert all(is_fit(sentence) for answer in answers for sentence in sentences(answer))
    assert max(answer.count("?") for answer in answers) == 1


def test_what_was_said_comes_again_only_when_all_else_was_said() -> None:
    assert least_recent(["a1", "b2"], ["a1"]) == "b2"
    assert least_recent(["a1", "b2"], ["b2", "a1"]) == "b2"


def test_every_topic_has_several_things_to_say_and_to_ask_and_nothing_unfit() -> None:
    lines = [line for each in all_topics() for line in (*each.reflections, *each.questions, each.explains)]

    assert all(len(each.reflections) > 1 and len(each.questions) > 2 for each in all_topics())
    assert all(is_fit(sentence) for line in lines for sentence in sentences(line))


@pytest.mark.parametrize(
    "message",
    ["my phone died again", "I am sick and tired of it", "work has been a nightmare", "this is stupid"],
)
def test_a_figure_of_speech_is_no_topic_of_its_own(message: str) -> None:
    assert {topic.id for topic in topics_in(message)} <= {"work"}
