"""What is stated plainly is found without a model, and what only looks like it is not."""

from __future__ import annotations

import pytest

from clew.runtime.memory.phrases.refusals import refusals_in
from clew.runtime.memory.phrases.statements import is_fleeting, statements_in
from clew.runtime.memory.values import LONGEST_QUOTE, Candidate, MemorySource


def statements(text: str) -> list[tuple[str, str]]:
    """What a text states: its subject, and what is said of it."""
    return [
        (statement.subject, f"{prefix(statement)}{statement.predicate} {statement.object}")
        if statement.kind == "fact"
        else (statement.subject, statement.object)
        for statement in statements_in(text)
        if statement.predicate != "IS_OVER"
    ]


def prefix(statement: Candidate) -> str:
    """What stands before a predicate that is denied, or that only ends a fact."""
    return "no more " if statement.ends else "not " if statement.negated else ""


@pytest.mark.promise("B-11")
@pytest.mark.parametrize(
    ("text", "about", "rule"),
    [
        ("call me Sam", "name", "Call the user Sam."),
        ("Hi! Please call me sam.", "name", "Call the user Sam."),
        ("Could you call me Alex?", "name", "Call the user Alex."),
        ("My name is Mary Ann, by the way", "name", "Call the user Mary Ann."),
        ("please don't call me Samantha", "not called Samantha", "Do not call the user Samantha."),
        ("my pronouns are they/them", "pronouns", "The user's pronouns are they/them."),
        ("please no bullet points", "bullet points", "Answer without bullet points."),
        ("No bullets please!", "bullet points", "Answer without bullets."),
        ("Stop using emojis.", "emojis", "Answer without emojis."),
        ("I don't want any advice", "advice", "Answer without advice."),
        ("Please use bullet points from now on", "bullet points", "Use bullet points."),
        ("keep your answers short", "manner", "Keep answers short."),
        ("I'd prefer longer answers", "manner", "Keep answers longer."),
        ("Be gentle with me, please", "tone", "Be gentle."),
        ("please answer in German", "language", "Answer in German."),
        ("please don't bring up my ex", "topic my ex", "Do not bring up my ex."),
        ("You can call me Sam.", "name", "Call the user Sam."),
        ("I'd rather be called Robin", "name", "Call the user Robin."),
        ("please refer to me as Alex", "name", "Call the user Alex."),
        ("You may call me Dr. Brown", "name", "Call the user Dr. Brown."),
        ("I use he/him pronouns", "pronouns", "The user's pronouns are he/him."),
        ("please don't give me bullet points", "bullet points", "Answer without bullet points."),
        ("I hate bullet points", "bullet points", "Answer without bullet points."),
        ("fewer emojis please", "emojis", "Answer without emojis."),
        ("Shorter answers, please", "manner", "Keep answers shorter."),
        ("Short replies are better for me", "manner", "Keep answers short."),
        ("Keep your replies under three sentences", "manner", "Answer in three sentences."),
        ("don't be so formal", "not formal", "Do not be formal."),
        ("Stop asking me so many questions", "questions", "Ask fewer questions."),
        ("I prefer metric units", "metric units", "Use metric units."),
        ("Please speak German with me", "language", "Answer in German."),
        ("Can we talk in Spanish?", "language", "Answer in Spanish."),
        ("Ich heiße Lena", "name", "Call the user Lena."),
        ("Je m'appelle Zoé", "name", "Call the user Zoé."),
        ("Nenn mich bitte Lena", "name", "Call the user Lena."),
        ("Appelle-moi Zoé", "name", "Call the user Zoé."),
        ("Llámame Lucía, por favor", "name", "Call the user Lucía."),
        ("Bitte keine Stichpunkte", "bullet points", "Answer without bullet points."),
        ("Antworte bitte auf Deutsch", "language", "Answer in German."),
    ],
)
def test_a_preference_is_found_in_one_statement(text: str, about: str, rule: str) -> None:
    (statement,) = statements_in(text)

    assert (statement.kind, statement.subject, statement.object, statement.plain) == (
        "rule",
        about,
        rule,
        True,
    )


@pytest.mark.promise("B-11")
@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (
            "My sister is called Ann and she lives in Rome.",
            [("sister", "IS_CALLED Ann"), ("sister", "DOES lives in Rome")],
        ),
        ("my dog's name is Rex", [("dog", "IS_CALLED Rex")]),
        ("I have a cat named Mia", [("cat", "IS_CALLED Mia")]),
        (
            "I'm allergic to nuts and shellfish.",
            [("User", "IS_ALLERGIC_TO nuts"), ("User", "IS_ALLERGIC_TO shellfish")],
        ),
        ("I'm no longer allergic to milk", [("User", "not IS_ALLERGIC_TO milk")]),
        ("I live in Berlin and I work as a nurse", [("User", "LIVES_IN Berlin"), ("User", "WORKS_AS nurse")]),
        ("I've just moved to Porto", [("User", "LIVES_IN Porto")]),
        ("I'm vegan.", [("User", "EATS vegan")]),
        ("I'm 34 years old", [("User", "IS_AGED 34")]),
        ("I love hiking, it calms me", [("User", "LIKES hiking")]),
        ("I can't stand mushrooms", [("User", "not LIKES mushrooms")]),
        ("my favourite colour is blue", [("favourite colour", "IS blue")]),
        ("my sister is called Ann and I'm vegan", [("sister", "IS_CALLED Ann"), ("User", "EATS vegan")]),
        ("my sister Ann lives in Rome", [("sister", "IS_CALLED Ann")]),
        ("I've got a dog named Rex", [("dog", "IS_CALLED Rex")]),
        ("my therapist is called Dr. Weber.", [("therapist", "IS_CALLED Dr. Weber")]),
        ("I'm allergic to penicillin, my mum told me", [("User", "IS_ALLERGIC_TO penicillin")]),
        ("I'm allergic to penicillin, by the way", [("User", "IS_ALLERGIC_TO penicillin")]),
        ("I have a peanut allergy", [("User", "IS_ALLERGIC_TO peanut")]),
        ("I don't drink coffee or tea", [("User", "AVOIDS coffee"), ("User", "AVOIDS tea")]),
        ("I'm lactose intolerant", [("User", "DOES_NOT_TOLERATE lactose")]),
        ("We're moving on: I'm living in Oslo now", [("User", "LIVES_IN Oslo")]),
        ("I don't live in Berlin anymore", [("User", "NO_LONGER_DOES live in Berlin")]),
        ("I moved from Rome to Oslo", [("User", "LIVES_IN Oslo")]),
        ("I love the sea", [("User", "LIKES the sea")]),
        ("I prefer tea over coffee", [("User", "PREFERS tea over coffee")]),
        ("When I'm low, I like hiking", [("User", "LIKES hiking")]),
        (
            "Please remember that I have an exam on Friday",
            [("User", "ASKED_TO_REMEMBER I have an exam on Friday")],
        ),
        ("Don't forget that I hate surprises", [("User", "not LIKES surprises")]),
        ("Meine Schwester heißt Anna", [("sister", "IS_CALLED Anna")]),
        ("Ma sœur s'appelle Zoé", [("sister", "IS_CALLED Zoé")]),
        ("Soy alérgica a los cacahuetes.", [("User", "IS_ALLERGIC_TO cacahuetes")]),
        ("Ich bin nicht allergisch gegen Katzen", [("User", "no more IS_ALLERGIC_TO Katzen")]),
    ],
)
def test_a_fact_is_found_in_one_statement(text: str, facts: list[tuple[str, str]]) -> None:
    assert statements(text) == facts


def test_two_wishes_in_one_sentence_are_both_found() -> None:
    rules = [statement.object for statement in statements_in("Please call me Sam, and no bullet points.")]

    assert rules == ["Call the user Sam.", "Answer without bullet points."]


@pytest.mark.parametrize(
    "text",
    [
        "call me tomorrow",
        "Call me back when you can.",
        "call me crazy but",
        "He said call me Bob",
        'My friend wrote "I live in Oslo"',
        "What if I'm allergic to nuts?",
        "Am I allergic to nuts?",
        "My mother says I'm allergic to work",
        "no questions asked",
        "there is no table here",
        "my boss is terrible",
        "I love it",
        "I like to think about that",
        "I'm 5 minutes late",
        "If I live in Rome one day, fine",
        "In the book my sister is called Ann",
        "In my novel, my sister is called Ann",
        "Suppose I'm allergic to nuts",
        "I don't think I'm allergic to nuts",
        "I'm not sure I'm allergic to nuts",
        "When I live in Rome I'll be happy",
        "maybe I live in the wrong city",
        "I wish I lived in Rome",
        "My mom said, I'm allergic to work",
        "They call me names at school",
        "Call me ASAP",
        "translate this: call me Sam",
        "I live in fear",
        "I like the idea",
        "I hate it when people lie",
        "I don't eat when I'm sad",
        "My favourite thing is that I can sleep",
        "please write French vocabulary for me",
        "In this text, use bullet points",
        "Remember when I lived in Rome?",
        "please don't forget my birthday",
        "",
    ],
)
def test_what_only_looks_like_a_statement_is_left_alone(text: str) -> None:
    assert statements(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "I'm worried about my exam",
        "I want to sleep better",
        "I'm such a failure",
        "My brother is Muslim",
        "I don't want to talk about my ex",
    ],
)
def test_what_may_pass_is_noticed_but_not_plain(text: str) -> None:
    (statement,) = statements_in(text)

    assert not statement.plain


def test_a_quote_stands_in_the_turn_word_for_word_and_is_not_long() -> None:
    text = "Well. " + "so " * 200 + "my sister is called Ann and that is that"
    (statement,) = statements_in(text, turn=3, source=MemorySource(thread="chat"))

    assert statement.quote in text
    assert "my sister is called Ann" in statement.quote
    assert len(statement.quote) <= LONGEST_QUOTE
    assert (statement.turn, statement.source) == (3, MemorySource(thread="chat"))


@pytest.mark.parametrize(
    ("text", "is_for_now"),
    [
        ("just for today, no bullet points", True),
        ("Keep it short this time", True),
        ("nur heute keine Listen", True),
        ("From now on, and right now, keep it short", False),
        ("Always keep it short", False),
        ("keep it short", False),
        ("use bullet points for this letter", True),
    ],
)
def test_a_wish_for_the_moment_is_told_from_a_lasting_one(text: str, is_for_now: bool) -> None:  # noqa: FBT001 - a parameter
    assert is_fleeting(text) is is_for_now


@pytest.mark.parametrize(
    ("turns", "refusals"),
    [
        (["I like tea", "My ex is called Tom, but don't remember that."], [{1}]),
        (["My ex is called Tom", "please don't remember that"], [{0}]),
        (["a", "b", "Forget everything I said today"], [{0, 1, 2}]),
        (["My ex is called Tom. This stays off the record."], [{0}]),
        (["Mein Bruder heißt Tom", "Merk dir das nicht"], [{0}]),
        (["Mein Bruder heißt Tom", "Merk dir das"], []),
        (["I don't remember that"], []),
        (["don't forget that I like tea"], []),
        (["Do you remember that?"], []),
        (["please keep it short"], []),
    ],
)
def test_not_to_remember_refers_to_what_was_just_said(turns: list[str], refusals: list[set[int]]) -> None:
    assert [set(refusal.turns) for refusal in refusals_in(turns)] == refusals
