"""What a "not" reaches in a message, and what it leaves standing."""

import pytest

from clew_companion.crisis.concepts import read_message
from clew_companion.crisis.floor import judge_message
from clew_companion.crisis.lexicon import load_lexicon


@pytest.mark.promise("A-08")
@pytest.mark.parametrize(
    "message",
    [
        "I can't stop thinking about killing myself",
        "I couldn't stop cutting myself last night",
        "I can't help thinking about suicide",
        "There is no reason not to kill myself",
        "I see no reason not to end my life",
        "I can't promise I won't kill myself",
        "I can't promise that I won't hurt myself tonight",
        "I can't go a day without thinking about suicide",
        "Not a day goes by without me wanting to die",
        "I don't trust myself not to kill myself",
        "I never stopped wanting to die",
        "I haven't told anyone that I want to die",
        "I'm not afraid to kill myself any more",
        "No puedo dejar de pensar en suicidarme",
        "Je ne peux pas m'empêcher de penser au suicide",
        "Non riesco a smettere di pensare al suicidio",
        "Ik kan niet stoppen met denken aan zelfmoord",
        "Nie mogę przestać myśleć o samobójstwie",
        "Não consigo parar de pensar em suicídio",
    ],
)
def test_a_negation_that_denies_nothing_keeps_the_danger(message: str) -> None:
    verdict = judge_message(message)

    assert (verdict.stated >= 2, verdict.says_safe) == (True, False)


@pytest.mark.parametrize(
    "message",
    [
        "I don't want to die",
        "I'm not going to kill myself",
        "I have no plans to kill myself",
        "I would never kill myself",
        "No, I'm not suicidal",
        "I have no reason to kill myself",
    ],
)
def test_a_plain_denial_states_no_danger(message: str) -> None:
    assert judge_message(message).stated == 0


@pytest.mark.parametrize(
    ("message", "concept"),
    [
        ("I cannot stop thinking about suicide", "suicide"),
        ("no reason not to kill myself", "kill_self"),
        ("I am not suicidal", "-suicide"),
        ("I am not afraid, I am not suicidal", "-suicide"),
        ("I don't care about living any more", "-livingness"),
    ],
)
def test_what_a_negation_reaches_has_a_minus(message: str, concept: str) -> None:
    assert concept in read_message(message, load_lexicon()).concepts


@pytest.mark.promise("A-08")
@pytest.mark.parametrize(
    "others", ["my sister called him about the car that he sold to her neighbour in the spring and then "]
)
def test_a_clause_without_marks_ends_where_the_person_speaks_of_themselves_again(others: str) -> None:
    message = others + "i want to die and " + others

    assert judge_message(message).stated >= 2
