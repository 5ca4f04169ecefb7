"""The rules understand the languages of the crisis floor, with and without accents, and no more than that."""

from __future__ import annotations

import pytest

from clew.database.database import Database
from clew_companion.crisis.lexicon import load_lexicon
from clew_companion.exercises.selection import asks_for_any
from clew_companion.language.commands import command_in
from clew_companion.language.phrases import SAYING_KINDS, languages, normalize_text, saying_in
from clew_companion.language.replies import is_leaving, is_no, is_skipping, is_yes
from clew_companion.replies.style import choose_style
from clew_companion.triage import is_fact_question
from tests.companion.scripted_companion import Talk, talker

YES = [
    "Ja, bitte!",
    "Sí, claro",
    "Oui, s'il te plaît",
    "Certo",
    "Graag",
    "Tak, proszę",
    "Sim",
    "Evet, lütfen",
]
NO = ["Nein, lieber nicht", "Mejor no", "Non merci", "Meglio di no", "Laat maar", "Nie teraz", "Não", "Hayır"]
LEAVING = [
    "Ich möchte aufhören",
    "Quiero parar",
    "Je veux arrêter",
    "Basta",
    "Ik wil stoppen",
    "Nie chcę więcej",
    "Quero parar",
    "Yeter",
]
SKIPPING = ["Weiter", "Siguiente", "Suivant", "Avanti", "Volgende", "Dalej", "Próximo", "Sonraki"]
EXERCISES = [
    "Können wir eine Übung machen?",
    "¿Podemos hacer un ejercicio?",
    "Je voudrais faire un exercice",
    "Facciamo un esercizio",
    "Laten we een ademhalingsoefening doen",
    "Zróbmy jakieś ćwiczenie",
    "Vamos fazer um exercício",
    "Bir nefes egzersizi yapalım",
]
LOOKING_UP = [
    "Such im Internet nach der Dosis",
    "Busca en internet la dosis",
    "Cherche sur internet la dose",
    "Cerca su internet la dose",
    "Zoek online de dosis",
    "Sprawdź w internecie dawkę",
    "Pesquisa na internet a dose",
    "İnternette ara doz",
]
CLOSING = [
    "Gute Nacht, bis morgen",
    "Buenas noches",
    "Bonne nuit, à demain",
    "Buonanotte",
    "Welterusten",
    "Dobranoc",
    "Boa noite, até amanhã",
    "İyi geceler",
]
COMMANDS = [
    ("Was weißt du über mich?", "list", ""),
    ("Was weißt du über meine Schwester?", "list", "Schwester"),
    ("Vergiss alles, was du über mich weißt", "forget", ""),
    ("Vergiss meine Schwester", "forget", "Schwester"),
    ("Merk dir, dass ich in Köln wohne.", "remember", "ich in Köln wohne"),
    ("Mach das rückgängig", "undo", ""),
    ("¿Qué sabes de mí?", "list", ""),
    ("Olvida todo lo que sabes de mí", "forget", ""),
    ("Olvida a mi hermana", "forget", "hermana"),
    ("Recuerda que mi examen es el viernes", "remember", "mi examen es el viernes"),
    ("Deshaz eso", "undo", ""),
    ("Que sais-tu de moi ?", "list", ""),
    ("Oublie tout ce que tu sais de moi", "forget", ""),
    ("Oublie ma sœur", "forget", "sœur"),
    ("Souviens-toi que j'habite à Lyon", "remember", "j'habite à Lyon"),
    ("Cosa sai di me?", "list", ""),
    ("Dimentica tutto", "forget", ""),
    ("Dimentica mia sorella", "forget", "sorella"),
    ("Ricordati che vivo a Roma", "remember", "vivo a Roma"),
    ("Wat weet je over mij?", "list", ""),
    ("Vergeet alles over mij", "forget", ""),
    ("Onthoud dat ik in Gent woon", "remember", "ik in Gent woon"),
    ("Co o mnie wiesz?", "list", ""),
    ("Zapomnij o wszystkim", "forget", ""),
    ("Zapamiętaj, że mieszkam w Łodzi", "remember", "mieszkam w Łodzi"),
    ("O que você sabe sobre mim?", "list", ""),
    ("Esquece tudo", "forget", ""),
    ("Lembra-te que moro no Porto", "remember", "moro no Porto"),
    ("Hakkımda ne biliyorsun?", "list", ""),
    ("Her şeyi unut", "forget", ""),
    ("Geri al", "undo", ""),
]
EVERYTHING = [*YES, *NO, *LEAVING, *EXERCISES, *CLOSING, *(message for message, *_ in COMMANDS)]
NOTHING = [
    "Vergiss es",
    "Ja, aber nicht heute und nicht so",
    "Nein sagen fällt mir schwer",
    "Olvídalo",
    "Oublie",
    "Lascia perdere tutto quello che ho detto a lui",
    "Meine Mutter vergisst alles",
    "No puedo olvidar a mi hermana",
    "Je n'arrive pas à oublier ma sœur",
    "Ich kann nicht weiter",
]


def test_they_are_the_languages_of_the_crisis_floor() -> None:
    assert set(languages()) | {"en"} == set(load_lexicon().languages)


@pytest.mark.parametrize("message", YES)
def test_a_yes_is_a_yes(message: str) -> None:
    assert is_yes(message)
    assert not is_no(message)


@pytest.mark.parametrize("message", NO)
def test_a_no_is_a_no(message: str) -> None:
    assert is_no(message)
    assert not is_yes(message)


@pytest.mark.promise("A-07")
@pytest.mark.parametrize("message", LEAVING)
def test_an_exercise_can_be_left(message: str) -> None:
    assert is_leaving(message)


@pytest.mark.parametrize("message", SKIPPING)
def test_a_step_can_be_skipped(message: str) -> None:
    assert is_skipping(message)


@pytest.mark.parametrize("message", EXERCISES)
def test_an_exercise_is_asked_for(message: str) -> None:
    assert asks_for_any(message)


@pytest.mark.parametrize("message", LOOKING_UP)
def test_a_question_of_fact_is_looked_up(message: str) -> None:
    assert is_fact_question(message)


@pytest.mark.parametrize("message", CLOSING)
def test_a_goodbye_closes(message: str) -> None:
    assert choose_style(message).style == "closing"


@pytest.mark.promise("A-06")
@pytest.mark.parametrize(("message", "kind", "what"), COMMANDS)
def test_a_command_about_the_memory_is_understood(message: str, kind: str, what: str) -> None:
    command = command_in(message)

    assert command is not None
    assert (command.kind, command.what) == (kind, what)


@pytest.mark.parametrize("message", NOTHING)
def test_what_only_sounds_like_it_is_nothing(message: str) -> None:
    assert command_in(message) is None
    assert not is_yes(message)
    assert not is_leaving(message)
    assert saying_in(message, *SAYING_KINDS) is None


@pytest.mark.parametrize(
    "message", [*YES, *NO, *LEAVING, *EXERCISES, *CLOSING, *(each[0] for each in COMMANDS)]
)
def test_accents_and_capitals_do_not_matter(message: str) -> None:
    saying = saying_in(message, *SAYING_KINDS)
    plain = saying_in(normalize_text(message), *SAYING_KINDS)

    assert (saying and (saying.kind, saying.language)) == (plain and (plain.kind, plain.language))


@pytest.mark.promise("A-06")
async def test_forgetting_in_another_language_waits_for_a_word_in_it(in_memory: Database) -> None:
    async with talker(in_memory) as runtime:
        talk = Talk(runtime)
        await talk.say("Remember that my sister is called Ann.")
        question = await talk.say("Vergiss alles, was du über mich weißt")
        answer = await talk.say("Ja, bitte")

    assert "Shall I forget this?" in question.response_text
    assert "Forgotten: one thing." in answer.response_text
