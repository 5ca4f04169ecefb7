"""What is kept when an episode ends: by which rule, and why."""

from __future__ import annotations

import pytest

from clew.runtime.memory.learn.promotion import (
    PromotionDecision,
    PromotionRules,
    RuleMatch,
    candidates_to_keep,
    promotion_decisions,
)
from clew.runtime.memory.phrases.statements import statements_in
from clew.runtime.memory.values import Candidate


def decisions(*turns: str, earlier: tuple[str, ...] = ()) -> list[PromotionDecision]:
    candidates = [
        candidate for number, turn in enumerate(turns) for candidate in statements_in(turn, turn=number)
    ]
    return promotion_decisions(candidates, turns, earlier)


def facts_from(*turns: str, earlier: tuple[str, ...] = ()) -> list[str]:
    return [candidate.object for candidate in candidates_to_keep(decisions(*turns, earlier=earlier))]


@pytest.mark.promise("B-11")
def test_a_plainly_stated_preference_needs_one_statement() -> None:
    (decision,) = decisions("Please call me Sam")

    assert (decision.is_kept, decision.rule, decision.why) == (True, "plain", "it was stated plainly")


def test_a_wish_for_the_moment_is_not_kept() -> None:
    (decision,) = decisions("Just for today, no bullet points please")

    assert (decision.is_kept, decision.rule) == (False, "fleeting")


@pytest.mark.promise("B-11")
def test_not_to_remember_drops_what_it_refers_to_and_nothing_else() -> None:
    turns = ["My sister is called Ann", "My brother is called Tom", "don't remember that", "I live in Oslo"]

    assert facts_from(*turns) == ["Ann", "Oslo"]


def test_what_is_named_is_dropped_wherever_it_was_said() -> None:
    turns = ["My sister is called Ann", "I live in Oslo", "Please don't save my sister's name"]

    assert facts_from(*turns) == ["Oslo"]


def test_what_is_said_after_forget_everything_is_kept() -> None:
    assert facts_from("I live in Oslo", "forget everything", "My dog is called Rex") == ["Rex"]


def test_a_worry_is_kept_if_it_was_said_twice() -> None:
    once = decisions("I'm worried about my exam")
    twice = facts_from("I'm worried about my exam", "It is my exam again, I worry about my exam")

    assert [(decision.is_kept, decision.rule) for decision in once] == [(False, "repeated")]
    assert set(twice) == {"my exam"}


def test_forms_of_a_word_count_as_said_again() -> None:
    assert "my exam" in facts_from("I'm worried about my exam", "All of my exams are soon")


def test_a_worry_is_kept_if_an_earlier_episode_knows_it() -> None:
    assert facts_from("I'm worried about my exam", earlier=("talked about the exam that is my fear",)) == [
        "my exam"
    ]


OWN_RULES = PromotionRules(
    never=lambda candidate: RuleMatch("secret", "no secrets") if candidate.object == "a code" else None,
    repeated=lambda candidate: RuleMatch("doubtful", "twice") if candidate.object == "a guess" else None,
)


def test_an_application_says_what_is_never_kept() -> None:
    code = Candidate(object="a code", quote="a code", plain=True)
    (decision,) = promotion_decisions([code], ["a code"], rules=OWN_RULES)

    assert (decision.is_kept, decision.rule, decision.why) == (False, "secret", "no secrets")


def test_an_application_says_what_is_kept_only_if_it_was_said_more_than_once() -> None:
    once = Candidate(object="a guess", quote="a guess", plain=True, turn=0)
    single = promotion_decisions([once], ["a guess"], rules=OWN_RULES)
    twice = promotion_decisions([once], ["a guess", "a guess again"], rules=OWN_RULES)

    assert [(decision.is_kept, decision.rule) for decision in (*single, *twice)] == [
        (False, "doubtful"),
        (True, "doubtful"),
    ]


def test_a_quote_that_nobody_said_keeps_nothing() -> None:
    made_up = Candidate(predicate="LIVES_IN", object="Oslo", quote="I live in Oslo", plain=True)
    (decision,) = promotion_decisions([made_up], ["I live in Rome"])

    assert (decision.is_kept, decision.rule) == (False, "unquoted")


def test_a_guess_is_not_kept() -> None:
    guess = Candidate(predicate="LIVES_IN", object="Oslo", quote="Oslo", confidence=0.1, plain=True)

    assert [decision.rule for decision in promotion_decisions([guess], ["Oslo is nice"])] == ["guess"]


def test_what_is_about_the_memory_itself_is_not_kept() -> None:
    control = Candidate(object="delete my data", predicate="WANTS", quote="delete my data", plain=True)

    assert [decision.rule for decision in promotion_decisions([control], ["please delete my data"])] == [
        "control"
    ]
