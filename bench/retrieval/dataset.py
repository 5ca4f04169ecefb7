"""The set: facts of one made-up person, and questions, each with the facts that answer it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.retrieval import details, held_out, life, people
from clew.runtime.memory.values import Candidate

NEGATIVE = ("NOT_", "DISLIKES", "STOPPED", "DOES_NOT", "AVOIDS", "GAVE_UP")


@dataclass(frozen=True, kw_only=True)
class Question:
    """Something that is asked, what kind of question it is, and the words of the facts that answer it."""

    text: str
    kind: str
    answers: frozenset[str]
    held_out: bool = False


def facts() -> list[Candidate]:
    """Every fact, in an order of its own; its quote is its name."""
    return [*_of_people(), *_of_life(), *_details(), *_held_out_facts()]


def questions() -> list[Question]:
    """Every question."""
    return [
        *_about_people(),
        *_about_life(),
        *_about_details(),
        *_in_other_languages(),
        *_held_out_questions(),
    ]


def _held_out_facts() -> Iterator[Candidate]:
    for category, subject, predicate, what, quote, _, _ in _lines(held_out.HELD_OUT):
        yield Candidate(category=category, subject=subject, predicate=predicate, object=what, quote=quote)


def _held_out_questions() -> Iterator[Question]:
    for *_, quote, kind, text in _lines(held_out.HELD_OUT):
        yield Question(text=text, kind=kind, answers=frozenset({quote}), held_out=True)


def _lines(text: str) -> list[list[str]]:
    return [line.split("|") for line in text.strip().splitlines()]


def _people() -> Iterator[tuple[int, str, dict[str, str]]]:
    for number, (relation, name, city, job, day) in enumerate(_lines(people.PEOPLE)):
        yield number, relation, {"relation": relation, "name": name, "city": city, "job": job, "day": day}


ASPECTS = {
    "name": ("IS_CALLED", people.IS_NAMED, people.ASK_NAME),
    "city": ("LIVES_IN", people.LIVES, people.ASK_CITY),
    "job": ("WORKS_AS", people.WORKS, people.ASK_JOB),
    "day": ("HAS_BIRTHDAY_ON", people.BIRTHDAYS, people.ASK_DAY),
}


def _quote(aspect: str, number: int, person: dict[str, str]) -> str:
    templates = ASPECTS[aspect][1]
    return templates[number % len(templates)].format(**person)


def _of_people() -> Iterator[Candidate]:
    for number, relation, person in _people():
        for aspect, (predicate, _, _) in ASPECTS.items():
            yield Candidate(
                category="relationship",
                subject=relation,
                predicate=predicate,
                object=person[aspect],
                quote=_quote(aspect, number, person),
            )


def _about_people() -> Iterator[Question]:
    for number, _, person in _people():
        for aspect, (_, _, templates) in ASPECTS.items():
            text = templates[number % len(templates)].format(**person)
            yield Question(text=text, kind="people", answers=frozenset({_quote(aspect, number, person)}))


def _of_life() -> Iterator[Candidate]:
    for category, predicate, what, quote, _ in _lines(life.LIFE + life.THEIR_OWN.lstrip()):
        yield Candidate(category=category, predicate=predicate, object=what, quote=quote)


def _about_life() -> Iterator[Question]:
    for _, predicate, _, quote, text in _lines(life.LIFE):
        kind = "negation" if predicate.startswith(NEGATIVE) else "paraphrase"
        yield Question(text=text, kind=kind, answers=frozenset({quote}))
    for _, _, _, quote, text in _lines(life.THEIR_OWN):
        yield Question(text=text, kind="not English", answers=frozenset({quote}))


def _details() -> Iterator[Candidate]:
    rows = [
        *_fill_templates(details.OF_ITEMS, ("item", "place", "year"), _lines(details.ITEMS)),
        *_fill_templates(details.OF_MONTHS, ("month", "whom", "what"), _lines(details.MONTHS)),
        *_fill_templates(details.OF_PLACES, ("place",), _lines(details.PLACES)),
        *_fill_templates(details.OF_FILMS, ("film",), _lines(details.FILMS)),
    ]
    for quote in rows:
        yield Candidate(category="context", predicate="MENTIONED", object=quote.rstrip("."), quote=quote)


def _fill_templates(
    templates: tuple[str, ...], names: tuple[str, ...], rows: list[list[str]]
) -> Iterator[str]:
    for row in rows:
        yield from (template.format(**dict(zip(names, row, strict=True))) for template in templates)


def _about_details() -> Iterator[Question]:
    for text, quote in _lines(details.QUESTIONS):
        yield Question(text=text, kind="near-miss", answers=frozenset({quote}))


def _in_other_languages() -> Iterator[Question]:
    by_relation = {relation: (number, person) for number, relation, person in _people()}
    for aspect, relation, text in _lines(people.OTHER_LANGUAGES):
        answer = _quote(aspect, *by_relation[relation])
        yield Question(text=text, kind="across languages", answers=frozenset({answer}))
    quotes = {(what, category): quote for category, _, what, quote, _ in _lines(life.LIFE)}
    for text, whats in _lines(life.OTHER_LANGUAGES):
        objects = set(whats.split(";"))
        answers = frozenset(quote for (what, _), quote in quotes.items() if what in objects)
        yield Question(text=text, kind="across languages", answers=answers)
