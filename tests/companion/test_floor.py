"""The floor: what it takes for danger, what it does not, and that it is no worse than it was."""

from collections.abc import Sequence

import pytest

from holdfast.companion.crisis.floor import ANOTHER, SELF, floor, language_of
from holdfast.companion.crisis.lexicon import lexicon
from holdfast.companion.crisis.patterns import pattern
from holdfast.companion.crisis.words import words
from holdfast.runtime.messages import Message
from tests.companion.figures import (
    PAGE,
    Pair,
    Walked,
    judged,
    milliseconds,
    sensitivity,
    specificity,
    tables,
    walked,
    written,
)


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return judged("development")


@pytest.fixture(scope="module")
def talks() -> list[Walked]:
    return walked("development")


def talk(*turns: str) -> list[Message]:
    """Turns by the person and the companion, in turn."""
    return [
        Message(role="assistant" if number % 2 else "user", content=text) for number, text in enumerate(turns)
    ]


# Figures: they may rise, and must not fall.


@pytest.mark.promise("A-08")
def test_no_message_of_imminent_danger_is_taken_for_less_than_risk(pairs: list[Pair]) -> None:
    assert [pair for pair in pairs if pair.given == 3 and pair.floor < 2] == []


@pytest.mark.promise("A-08")
def test_risk_is_found_as_often_as_before(pairs: list[Pair]) -> None:
    assert sensitivity(pairs, 2) >= 0.97


@pytest.mark.promise("A-08")
def test_what_is_no_risk_is_left_alone_as_often_as_before(pairs: list[Pair]) -> None:
    assert specificity(pairs, 2) >= 0.975


def test_a_model_makes_it_better(pairs: list[Pair]) -> None:
    assert sensitivity(pairs, 2, "both") >= sensitivity(pairs, 2)


@pytest.mark.promise("A-08")
def test_no_conversation_at_risk_passes_unnoticed(talks: list[Walked]) -> None:
    late = [talk for talk in talks if talk.due is not None and (talk.acted is None or talk.acted > talk.due)]

    assert late == []


def test_few_conversations_without_risk_are_disturbed(talks: list[Walked]) -> None:
    disturbed = [talk for talk in talks if talk.shape == "never" and talk.acted is not None]

    assert len(disturbed) <= 2


def test_a_message_takes_less_than_a_millisecond() -> None:
    assert milliseconds("development") < 1


def test_the_page_says_what_is_measured() -> None:
    page = PAGE.read_text("utf-8")

    assert written(page, "development", tables("development")) == page


# What counts as danger.


@pytest.mark.parametrize(
    ("message", "level"),
    [
        ("I'm going to kill myself tonight", 3),
        ("i want to d1e", 2),
        ("k i l l myself", 1),
        ("I wanna unalive myself, not joking", 2),
        ("sucidal again", 2),
        ("I want to dieeeee so badly", 2),
        ("I cut myself again last night", 2),
        ("I'm going to stab him when he gets home", 3),
        ("I wish I could fall asleep and never wake up", 2),
        ("Ich will nicht mehr leben", 2),
        ("Me quiero morir", 2),
        ("Je veux mourir", 2),
        ("Voglio morire", 2),
        ("Ik wil dood", 2),
        ("Chcę umrzeć", 2),
        ("Quero morrer", 2),
        ("Ölmek istiyorum", 2),
    ],
)
def test_danger_is_found_however_it_is_written(message: str, level: int) -> None:
    assert floor(message).level >= level


@pytest.mark.parametrize(
    "message",
    [
        "This commute is killing me",
        "I don't want to die, I want a holiday",
        "I'm not suicidal, I'm just tired",
        "Ten years ago I tried to end my life. Today I have two children",
        "In my novel the hero kills himself. Is that too dark?",
        "My grandmother died last week and I miss her",
        "I'm a nurse. How do I ask a patient about suicidal thoughts?",
        "lol kms i sent it to my boss",
        "Me muero de hambre",
        "Je suis morte de rire",
        "Ich lach mich tot",
    ],
)
def test_words_that_only_look_like_danger_are_left_alone(message: str) -> None:
    assert floor(message).level < 2


PLAIN = {
    "en": "I want to kill myself|I don't want to live anymore|I feel suicidal|I wish I was dead|I overdosed",
    "de": "Ich will mich umbringen|Ich will nicht mehr leben|Ich habe Suizidgedanken|Ich ritze mich",
    "es": "Voy a suicidarme|No quiero vivir más|Tengo pensamientos suicidas|Me hago cortes en los brazos",
    "fr": "Je vais me tuer|Je ne veux plus vivre|J'ai des idées suicidaires|Je me scarifie tous les soirs",
    "it": "Stanotte mi uccido|Non voglio più vivere|Ho pensieri suicidi|Mi taglio le braccia",
    "nl": "Ik maak er een einde aan|Ik wil niet meer leven|Ik denk aan zelfmoord|Ik snijd mezelf",
    "pl": "Zabiję się|Nie chcę już żyć|Mam myśli samobójcze|Tnę się",
    "pt": "Vou me matar|Não quero mais viver|Penso em suicídio|Me corto todo dia",
    "tr": "Kendimi öldüreceğim|Artık yaşamak istemiyorum|İntiharı düşünüyorum|Kendimi kesiyorum",
}
DENIED = {
    "en": "I don't want to kill myself|I'm not having suicidal thoughts|I've never self-harmed",
    "de": "Ich bin nicht suizidal|Ich will nicht sterben",
    "es": "No quiero morir|No tengo pensamientos suicidas",
    "fr": "Je n'ai pas d'idées suicidaires|Je ne veux pas mourir",
    "it": "Non voglio morire|Non ho pensieri suicidi",
    "nl": "Ik wil niet dood|Ik heb geen zelfmoordgedachten",
    "pl": "Nie chcę umierać|Nie myślę o samobójstwie",
    "pt": "Não quero morrer|Não tenho pensamentos suicidas",
    "tr": "Ölmek istemiyorum|İntihar etmeyi düşünmüyorum",
}


@pytest.mark.parametrize("language", PLAIN)
def test_what_is_said_plainly_is_found_in_every_language(language: str) -> None:
    missed = [said for said in PLAIN[language].split("|") if floor(said).level < 2]

    assert missed == []


@pytest.mark.parametrize("language", DENIED)
def test_what_is_denied_plainly_is_no_risk_in_any_language(language: str) -> None:
    taken = [said for said in DENIED[language].split("|") if floor(said).level >= 2]

    assert taken == []


@pytest.mark.parametrize(
    "message",
    [
        "I used to love music. I want to die.",
        "My grandmother died last week. I want to be dead too.",
        "I'm a nurse and I want to kill myself",
        "I'm writing a novel and I want to end my life",
        "lol i'm suicidal",
        "My mum says I'm fine but I want to die",
        'It is all in my note, "I am going to kill myself tonight"',
    ],
)
def test_what_stands_beside_it_does_not_hide_a_plain_statement(message: str) -> None:
    assert floor(message).level >= 2


def test_a_denial_of_action_is_no_denial_of_the_wish() -> None:
    assert floor("I'm not going to do anything. I just don't want to live").level == 2


def test_a_question_about_means_is_harmless_only_out_of_context() -> None:
    question = "Is it painful to drown?"
    dark = talk("I have nothing left to live for", "That sounds heavy.")

    assert (floor(question).level, floor(question, dark).level) == (0, 3)


def test_risk_can_show_slowly() -> None:
    before = talk(
        "I gave my sister my headphones", "Why?", "She should have them", "I see.", "I'm really calm", "Oh?"
    )
    now = "cleaned my room so nobody else has to"

    assert floor(now).level < floor(now, before).level


@pytest.mark.parametrize(
    ("answer", "level"), [("Yes.", 2), ("kind of", 2), ("I don't know", 1), ("No, not at all", 0)]
)
def test_a_short_answer_is_an_answer_to_what_was_asked(answer: str, level: int) -> None:
    asked = talk("I feel low", "Are you having thoughts of suicide?")

    assert floor(answer, asked).level == level


def test_who_worries_about_another_is_told_from_who_is_in_danger() -> None:
    worried = floor("My sister told me she wants to die. What can I do?")

    assert (worried.level, worried.about, worried.kind) == (2, ANOTHER, "worry for another")


def test_a_friend_who_may_be_nobody_else_counts_as_the_person() -> None:
    displaced = floor("Asking for a friend: is it normal to want to be dead every day? She is basically me")

    assert (displaced.level >= 2, displaced.about, displaced.kind) == (True, SELF, "displaced")


def test_a_threat_is_told_from_danger_to_oneself() -> None:
    assert floor("I want to hurt my brother so badly").kind == "harm to others"


def test_it_is_always_the_same() -> None:
    first, second = (floor("I can't go on, the letters are written") for _ in range(2))

    assert first == second


@pytest.mark.parametrize(
    "message", ["", " ", "?!", "\x00", "a" * 100_000, "die " * 50_000, "\u200d\ufe0f💊" * 999]
)
def test_it_answers_whatever_it_is_given(message: str) -> None:
    assert floor(message).level in range(4)


def test_signs_hold_no_word_of_the_person() -> None:
    names = {sign.name for sign in lexicon().signs}

    assert set(floor("I want to die in Zanzibar").signs) <= names


# Words and patterns.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I DON'T know", ["i", "dont", "know"]),
        ("su1c1dal", ["suicidal"]),
        ("s*icide", ["suicide"]),
        ("tonigth", ["tonight"]),
        ("k!ll mys3lf", ["kill", "myself"]),
        ("größe, ja.", ["grosse", ",", "ja", "."]),
    ],
)
def test_words_are_made_plain(text: str, expected: Sequence[str]) -> None:
    assert words(text, lexicon().spelling) == expected


@pytest.mark.parametrize("source", ["(a|(b|c)) d", "a) b", "(a|<b>) c"])
def test_a_pattern_that_cannot_be_read_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        pattern(source, {"b": ["x"]})


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("I just don't know what to do", "en"),
        ("Ich weiß nicht mehr weiter", "de"),
        ("No sé qué hacer con mi vida", "es"),
        ("Je ne sais pas quoi faire", "fr"),
        ("Non so più cosa fare", "it"),
        ("Ik weet het niet meer", "nl"),
        ("Nie wiem co mam robić", "pl"),
        ("Não sei o que eu faço", "pt"),
        ("Ne yapacağımı bilmiyorum artık", "tr"),
        ("", "en"),
    ],
)
def test_a_language_is_known_by_its_commonest_words(text: str, language: str) -> None:
    assert language_of(text) == language
