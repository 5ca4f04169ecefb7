"""Exercises by their names, and corrections of the memory, in the languages that the rules understand."""

from __future__ import annotations

import pytest

from clew.database.database import Database
from clew.runtime.memory import Memory, memory_of
from clew_companion.exercises.catalogue import Exercise, catalogue, names_of
from clew_companion.exercises.guide import fits
from clew_companion.exercises.selection import exercise_asked_for, exercise_in
from clew_companion.language.commands import command_in
from clew_companion.language.phrases import languages, normalize_text
from clew_companion.language.replies import is_skipping
from tests.companion.scripted_companion import Talk, talker

STARTS = [
    ("Lass uns die Kastenatmung machen", "box_breathing"),
    ("Ich möchte bitte Blätter auf dem Fluss machen", "leaves_on_a_stream"),
    ("Hagamos la respiración cuadrada, por favor", "box_breathing"),
    ("¿Podemos hacer las hojas en el río?", "leaves_on_a_stream"),
    ("Je voudrais faire la respiration carrée", "box_breathing"),
    ("Faisons l'exercice d'ancrage ensemble maintenant", "grounding_5_4_3_2_1"),
    ("Facciamo la respirazione quadrata insieme", "box_breathing"),
    ("Vorrei provare le foglie sul fiume", "leaves_on_a_stream"),
    ("Laten we spierontspanning doen vanavond", "muscle_relaxation"),
    ("Ik wil graag bladeren op de rivier doen", "leaves_on_a_stream"),
    ("Zróbmy razem oddychanie pudełkowe", "box_breathing"),
    ("Chcę zrobić relaksację mięśni przed snem", "muscle_relaxation"),
    ("Vamos fazer a respiração quadrada agora", "box_breathing"),
    ("Quero fazer o registo de pensamentos hoje", "thought_record"),
    ("Kutu nefesi yapalım lütfen", "box_breathing"),
    ("Seninle kas gevşetme egzersizi yapmak istiyorum", "muscle_relaxation"),
    ("Wertekompass", "values_compass"),
    ("Przerwa na współczucie dla siebie", "self_compassion_break"),
]
ONLY_TOLD = [
    "Ich mag Kastenatmung nicht",
    "Was ist Kastenatmung?",
    "Gestern Kastenatmung gemacht",
    "No quiero respiración cuadrada",
    "¿Qué es la respiración cuadrada?",
    "Je n'aime pas la respiration carrée",
    "Non voglio la respirazione quadrata",
    "Ik wil geen spierontspanning",
    "Wat is spierontspanning?",
    "Nie chcę oddychania pudełkowego",
    "Não quero respiração quadrada",
    "Kutu nefesi istemiyorum",
    "Kutu nefesi nedir?",
    "Ich mag 5-4-3-2-1 nicht",
    "I had a difficult conversation",
    "Meine Kollegin erzählt oft vom Gedankentagebuch ihrer Therapeutin",
]
GOING_ON = [
    "Lass uns weitermachen",
    "Machen wir mit der Übung weiter",
    "Sigamos con el ejercicio",
    "Continuons l'exercice",
    "Andiamo avanti",
    "Laten we verdergaan met de oefening",
    "Idźmy dalej",
    "Vamos continuar",
    "Devam edelim",
    "Let's continue",
    "carry on with the exercise",
]
NOTHING = ["nothing", "Nichts", "Nada", "Rien", "Niente", "Niets", "Nic", "Nada.", "Hiçbir şey"]

# What is to be remembered, the correction, and what is known then.
CORRECTIONS = [
    ("Remember that my sister is called Ann", "No, my sister's name is Anna", "Anna"),
    ("Merk dir, dass meine Schwester Ann heißt", "Nein, meine Schwester heißt Anna", "Anna"),
    ("Recuerda que mi hermana se llama Ann", "No, mi hermana se llama Anna", "Anna"),
    ("Retiens que ma sœur s’appelle Ann", "Non, ma sœur s’appelle Anna", "Anna"),
    ("Ricorda che mia sorella si chiama Ann", "No, mia sorella si chiama Anna", "mia sorella si chiama Anna"),
    ("Onthoud dat mijn zus Ann heet", "Nee, mijn zus heet Anna", "mijn zus heet Anna"),
    (
        "Zapamiętaj, że moja siostra ma na imię Ann",
        "Nie, imię mojej siostry to Anna",
        "imię mojej siostry to Anna",
    ),
    (
        "Lembra-te que a minha irmã se chama Ann",
        "Não, a minha irmã chama-se Anna",
        "a minha irmã chama-se Anna",
    ),
    ("Unutma: kız kardeşimin adı Ann", "Hayır, kız kardeşimin adı Anna", "kız kardeşimin adı Anna"),
]
NEW_NAMES = [
    ("en", "No, my sister's name is Anna, not Ann"),
    ("de", "Nein, sie heißt Anna, nicht Ann"),
    ("es", "No, se llama Anna, no Ann"),
    ("fr", "Non, elle s'appelle Anna, pas Ann"),
    ("it", "No, si chiama Anna, non Ann"),
    ("nl", "Nee, ze heet Anna, niet Ann"),
    ("pl", "Nie, ona ma na imię Anna, a nie Ann"),
    ("pt", "Não, ela chama-se Anna, não Ann"),
    ("tr", "Hayır, adı Anna, Ann değil"),
]
FORGET_THAT = [
    ("en", "Forget that"),
    ("en", "Please don't remember that"),
    ("de", "Vergiss das wieder"),
    ("de", "Vergiss, was ich gerade gesagt habe"),
    ("es", "Olvida lo que dije"),
    ("fr", "Oublie ça"),
    ("it", "Dimentica quello che ho detto"),
    ("nl", "Vergeet dat maar"),
    ("pl", "Zapomnij o tym"),
    ("pt", "Esquece isso"),
    ("tr", "Bunu unut"),
]
WRONG = [
    ("en", "That's wrong"),
    ("en", "No, you got that wrong"),
    ("de", "Das stimmt nicht"),
    ("es", "Eso no es cierto"),
    ("fr", "C'est faux"),
    ("it", "Non è vero"),
    ("nl", "Dat klopt niet"),
    ("pl", "To nieprawda"),
    ("pt", "Isso está errado"),
    ("tr", "Bu doğru değil"),
]


def exercises() -> list[Exercise]:
    """All exercises."""
    return list(catalogue().values())


async def objects(memory: Memory) -> list[str]:
    """What the facts of a memory say."""
    return [fact.object for fact in (await memory.page()).facts]


# Exercises.


@pytest.mark.promise("A-07")
@pytest.mark.parametrize("exercise", exercises(), ids=lambda each: str(each.id))
def test_every_exercise_has_a_name_in_every_language_that_is_its_alone(exercise: Exercise) -> None:
    exercises = {name: exercise_in(name) for name in names_of(exercise)}

    assert set(exercise.called_in) == set(languages())
    assert {name for name, each in exercises.items() if each is not exercise} == set()
    assert {name for name in exercises if exercise_in(normalize_text(name)) is not exercise} == set()


@pytest.mark.promise("A-07")
@pytest.mark.parametrize(("message", "exercise"), STARTS)
def test_an_exercise_is_asked_for_by_its_name(message: str, exercise: str) -> None:
    match = exercise_asked_for(message)

    assert match is not None
    assert match.id == exercise


@pytest.mark.parametrize("message", ONLY_TOLD)
def test_an_exercise_that_is_only_spoken_of_is_not_begun(message: str) -> None:
    assert exercise_asked_for(message) is None


@pytest.mark.parametrize("message", GOING_ON)
def test_going_on_needs_no_answer(message: str) -> None:
    assert is_skipping(message)


@pytest.mark.parametrize("message", NOTHING)
def test_nothing_is_an_answer_where_things_are_counted(message: str) -> None:
    (step,) = [step for step in catalogue()["grounding_5_4_3_2_1"].steps if step.waits_for.count == 5]

    assert fits(step, message)


@pytest.mark.promise("A-07")
async def test_an_exercise_is_begun_gone_on_with_and_left_in_another_language(in_memory: Database) -> None:
    async with talker(in_memory) as runtime:
        talk = Talk(runtime)
        start = await talk.say("Lass uns die Kastenatmung machen")
        on = await talk.say("Lass uns weitermachen")
        end = await talk.say("Ich möchte aufhören")

    assert start.response_text.startswith("Let us do Box breathing")
    assert on.response_text.startswith("Breathe in")
    assert end.response_text.startswith("That is fine. We leave Box breathing here")


# The memory.


@pytest.mark.promise("A-06")
@pytest.mark.parametrize(("statement", "correction", "name"), CORRECTIONS)
async def test_a_name_that_was_wrong_is_corrected(
    in_memory: Database, statement: str, correction: str, name: str
) -> None:
    async with talker(in_memory) as runtime:
        output = await Talk(runtime).say(statement, correction)

    facts = await objects(memory_of(in_memory, "s1", "alice"))
    assert name in facts
    assert all(fact.endswith("Anna") for fact in facts)
    assert output.response_text.startswith("Corrected.")


async def test_a_name_that_was_told_in_one_language_is_corrected_in_another(in_memory: Database) -> None:
    async with talker(in_memory) as runtime:
        await Talk(runtime).say("Remember that my sister is called Ann", "Nein, meine Schwester heißt Anna")

    assert await objects(memory_of(in_memory, "s1", "alice")) == ["Anna"]


@pytest.mark.promise("A-06")
@pytest.mark.parametrize(("language", "message"), NEW_NAMES)
def test_a_correction_has_the_old_words_and_the_new(language: str, message: str) -> None:
    command = command_in(message)

    assert command is not None
    assert (command.kind, command.old, command.new) == ("correct", "Ann", "Anna")
    assert (command.language or "en") == language


@pytest.mark.parametrize("message", ["No, my sister's name is Anna", "Nein, meine Schwester heißt Anna"])
async def test_a_correction_of_what_is_not_known_is_remembered(in_memory: Database, message: str) -> None:
    async with talker(in_memory) as runtime:
        output = await Talk(runtime).say(message)

    assert output.response_text.startswith("I will remember that:")
    assert "Anna" in str(await objects(memory_of(in_memory, "s1", "alice")))


async def test_of_several_things_about_somebody_a_name_corrects_the_name(in_memory: Database) -> None:
    async with talker(in_memory) as runtime:
        await Talk(runtime).say(
            "Remember that my sister is called Ann",
            "Remember that my sister has a dog",
            "No, my sister's name is Anna",
        )

    assert sorted(await objects(memory_of(in_memory, "s1", "alice"))) == ["Anna", "a dog"]


@pytest.mark.promise("A-06")
@pytest.mark.parametrize(("language", "message"), FORGET_THAT)
async def test_what_was_just_said_is_not_kept(in_memory: Database, language: str, message: str) -> None:
    async with talker(in_memory) as runtime:
        talk = Talk(runtime)
        output = await talk.say("My sister is called Ann.", message)
        await talk.end()

    assert output.response_text == "I will not keep what you said just now."
    assert await objects(memory_of(in_memory, "s1", "alice")) == []


@pytest.mark.promise("A-06")
@pytest.mark.parametrize(("language", "message"), FORGET_THAT)
async def test_what_was_just_remembered_is_forgotten_after_a_yes(
    in_memory: Database, language: str, message: str
) -> None:
    async with talker(in_memory) as runtime:
        talk = Talk(runtime)
        question = await talk.say("Remember that I live in Oslo", message)
        before = await objects(memory_of(in_memory, "s1", "alice"))
        answer = await talk.say("yes")

    assert question.response_text.startswith("Shall I forget this?")
    assert before == ["Oslo"]
    assert answer.response_text.startswith("Forgotten: one thing.")
    assert await objects(memory_of(in_memory, "s1", "alice")) == []


async def test_that_is_asked_about_where_it_could_be_several_things(in_memory: Database) -> None:
    async with talker(in_memory) as runtime:
        output = await Talk(runtime).say(
            "Remember that I live in Oslo",
            "Remember that I am allergic to nuts",
            "What do you remember about me?",
            "Forget that",
        )

    assert output.response_text.startswith("Which of these do you mean?")


async def test_with_nothing_before_it_there_is_nothing_to_forget(in_memory: Database) -> None:
    async with talker(in_memory) as runtime:
        output = await Talk(runtime).say("Forget that")

    assert output.response_text == "There is nothing just before this that I could forget."


@pytest.mark.promise("A-06")
@pytest.mark.parametrize(("language", "message"), WRONG)
async def test_what_is_wrong_in_the_memory_can_be_told(
    in_memory: Database, language: str, message: str
) -> None:
    async with talker(in_memory) as runtime:
        output = await Talk(runtime).say("Remember that I live in Oslo", message)

    assert output.response_style == "memory_control"
    assert output.response_text.startswith("Then tell me how it is.\n- You live in Oslo.")


@pytest.mark.parametrize(("language", "message"), WRONG)
async def test_what_is_wrong_elsewhere_is_no_command(
    in_memory: Database, language: str, message: str
) -> None:
    async with talker(in_memory) as runtime:
        output = await Talk(runtime).say("He says that I am lazy.", message)

    assert output.response_style != "memory_control"


@pytest.mark.parametrize(
    ("statement", "query"),
    [
        ("Zapamiętaj, że mam siostrę w Krakowie", "Co wiesz o siostrze?"),
        ("Merk dir, dass mein Bruder Arzt ist", "Was weißt du über meinen Brüder?"),
    ],
)
async def test_what_is_known_is_found_also_by_a_word_with_another_ending(
    in_memory: Database, statement: str, query: str
) -> None:
    async with talker(in_memory) as runtime:
        output = await Talk(runtime).say(statement, query)

    assert output.response_text.startswith("This is what I remember:")


async def test_in_english_another_name_that_begins_alike_is_not_meant(in_memory: Database) -> None:
    async with talker(in_memory) as runtime:
        output = await Talk(runtime).say(
            "Remember that my sister is called Maria", "What do you know about Mariah?"
        )

    assert output.response_text == "I remember nothing about Mariah."
