"""Facts in time: from when to when each held, what took its place, and what was so at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from clew.core.errors import InvalidArgument, RecordNotFound, RewindRefused
from clew.core.log.vectors import VECTOR_KIND
from clew.core.values import Item, RecordQuery, Scope
from clew.database.archive import import_threads
from clew.database.database import Database
from clew.runtime.memory.memory import Memory
from clew.runtime.memory.past import Period, period_of
from clew.runtime.memory.recall.retrieval import Retriever
from clew.runtime.memory.values import FACTS, Candidate, FactPattern, MemorySource
from clew.runtime.person_export import export_person
from clew.stores.memory import MemoryStore

pytestmark = pytest.mark.promise("B-11")


def day(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def statement(on: str, predicate: str, object: str, **more: Any) -> Candidate:
    source = MemorySource(thread="chat", place=256, time=day(on))
    return Candidate(predicate=predicate, object=object, quote=object, source=source, **more)


def home(on: str, place: str, **more: Any) -> Candidate:
    return statement(on, "LIVES_IN", place, single=True, **more)


def allergy(on: str, to: str, **more: Any) -> Candidate:
    return statement(on, "IS_ALLERGIC_TO", to, **more)


class SameVector:
    """An embedder to which all texts mean the same."""

    name = "same"

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0, 0.5] for _ in texts]


@pytest.fixture
def memory(db: Database) -> Memory:
    return Memory(db, "alice", clock=lambda: day("2026-09-01"))


async def objects_at(memory: Memory, at: str | int) -> list[str]:
    return sorted(fact.object for fact in (await memory.page(at=at)).facts)


async def past_of(memory: Memory) -> list[tuple[str, str | None]]:
    facts = (await memory.page(past=True)).facts
    return [(fact.object, fact.end) for fact in facts if fact.ended]


async def test_a_fact_holds_from_when_it_was_said(memory: Memory) -> None:
    await memory.learn([home("2026-03-10", "Berlin")])
    (fact,) = (await memory.page()).facts

    assert (fact.began, fact.ended, fact.learned) == (day("2026-03-10"), 0, day("2026-09-01"))


async def test_a_fact_holds_since_the_time_that_was_named(memory: Memory) -> None:
    await memory.learn([home("2026-03-10", "Berlin", began=day("2019-01-01"))])

    assert await objects_at(memory, "2020") == ["Berlin"]


@pytest.mark.parametrize(
    ("at", "places"),
    [
        ("2026-02", []),
        ("2026-05", ["Berlin"]),
        ("2026-05-15", ["Berlin"]),
        ("2026-06", ["Berlin", "Paris"]),
        ("2026-06-20T12:00", ["Paris"]),
        ("2026-07", ["Paris"]),
    ],
)
async def test_one_can_ask_what_was_so_at_a_time(memory: Memory, at: str, places: list[str]) -> None:
    await memory.learn([home("2026-03-10", "Berlin")])
    await memory.learn([home("2026-06-15", "Paris")])

    assert await objects_at(memory, at) == places


async def test_a_superseded_fact_stays_visible_and_is_not_listed_among_what_holds(memory: Memory) -> None:
    await memory.learn([home("2026-03-10", "Berlin")])
    await memory.learn([home("2026-06-15", "Paris")])
    paris, berlin = (await memory.page(past=True)).facts
    lineage = await memory.lineage([paris, berlin])

    assert [fact.object for fact in (await memory.page()).facts] == ["Paris"]
    assert (berlin.began, berlin.ended, berlin.end) == (day("2026-03-10"), day("2026-06-15"), "superseded")
    assert lineage[paris.id].replaced == (berlin,)
    assert lineage[berlin.id].replacement == paris
    assert await memory.get(berlin.id) == berlin


async def test_of_two_statements_in_one_episode_the_first_is_past(memory: Memory) -> None:
    await memory.learn([home("2026-06-15", "Paris"), home("2026-03-10", "Berlin")])

    assert await past_of(memory) == [("Berlin", "superseded")]
    assert await objects_at(memory, "2026-05") == ["Berlin"]


async def test_each_of_several_replacements_has_its_own_predecessor(memory: Memory) -> None:
    for on, place in (("2026-01-01", "Rome"), ("2026-03-10", "Berlin"), ("2026-06-15", "Paris")):
        await memory.learn([home(on, place)])
    facts = (await memory.page(past=True)).facts
    lineage = await memory.lineage(facts)
    replacements = {fact.object: lineage[fact.id].replacement for fact in facts}

    assert {name: fact.object for name, fact in replacements.items() if fact is not None} == {
        "Rome": "Berlin",
        "Berlin": "Paris",
    }


async def test_a_statement_ends_a_fact_without_replacing_it(memory: Memory) -> None:
    await memory.learn([allergy("2026-01-01", "nuts"), allergy("2026-01-01", "milk")])
    result = await memory.learn([allergy("2026-06-01", "nut", ends=True)])

    assert [outcome.what for outcome in result.outcomes] == ["ended"]
    assert [fact.object for fact in (await memory.page()).facts] == ["milk"]
    assert await past_of(memory) == [("nuts", "ended")]
    assert await objects_at(memory, "2026-05") == ["milk", "nuts"]


async def test_an_end_without_an_object_ends_all_facts_of_its_predicate(memory: Memory) -> None:
    await memory.learn(
        [allergy("2026-01-01", "nuts"), allergy("2026-01-01", "milk"), home("2026-01-01", "Rome")]
    )
    await memory.learn([allergy("2026-06-01", "", ends=True)])

    assert [fact.object for fact in (await memory.page()).facts] == ["Rome"]


async def test_an_end_of_another_object_ends_nothing(memory: Memory) -> None:
    await memory.learn([statement("2026-01-01", "WORKS_AS", "teacher", single=True)])
    result = await memory.learn([statement("2026-06-01", "WORKS_AS", "nurse", ends=True)])

    assert result.outcomes == ()
    assert [fact.object for fact in (await memory.page()).facts] == ["teacher"]


async def test_an_end_that_was_said_before_the_fact_ends_nothing(memory: Memory) -> None:
    await memory.learn([allergy("2026-06-01", "nuts")])
    await memory.learn([allergy("2026-01-01", "nuts", ends=True)])

    assert [fact.object for fact in (await memory.page()).facts] == ["nuts"]


async def test_a_fact_that_has_ended_is_not_learned_again_from_before_its_end(memory: Memory) -> None:
    await memory.learn([allergy("2026-01-01", "nuts")])
    await memory.learn([allergy("2026-06-01", "nuts", ends=True)])
    await memory.learn([allergy("2026-01-02", "nuts")])
    facts_before = (await memory.page()).facts
    await memory.learn([allergy("2026-07-01", "nuts")])

    assert facts_before == ()
    assert await objects_at(memory, "2026-06-15") == []
    assert await objects_at(memory, "2026-07-15") == ["nuts"]


async def test_a_fact_supersedes_others_that_it_names(memory: Memory) -> None:
    await memory.learn([statement("2026-01-01", "IS", "vegetarian"), statement("2026-01-01", "IS", "tall")])
    meat = statement(
        "2026-06-01", "EATS", "meat", supersedes=(FactPattern(predicate="IS", object="vegetarians"),)
    )
    await memory.learn([meat])
    facts = {fact.object: fact for fact in (await memory.page(past=True)).facts}
    lineage = await memory.lineage(list(facts.values()))

    assert sorted(fact.object for fact in (await memory.page()).facts) == ["meat", "tall"]
    assert lineage[facts["vegetarian"].id].replacement == facts["meat"]


async def test_what_is_put_right_was_never_so(memory: Memory) -> None:
    await memory.learn([home("2026-03-10", "Berlin")])
    (fact,) = (await memory.page()).facts
    await memory.correct(fact.id, object="Bern")

    assert await past_of(memory) == [("Berlin", "corrected")]
    assert await objects_at(memory, "2026-05") == ["Bern"]


async def test_a_correction_since_a_time_leaves_what_was_before(memory: Memory) -> None:
    await memory.learn([home("2026-03-10", "Berlin")])
    (fact,) = (await memory.page()).facts
    await memory.correct(fact.id, object="Bern", since="2026-06-01")

    assert await past_of(memory) == [("Berlin", "superseded")]
    assert (await objects_at(memory, "2026-05"), await objects_at(memory, "2026-06")) == (
        ["Berlin"],
        ["Bern"],
    )


async def test_a_past_fact_is_not_corrected(memory: Memory) -> None:
    await memory.learn([home("2026-03-10", "Berlin"), home("2026-06-15", "Paris")])
    _, berlin = (await memory.page(past=True)).facts

    with pytest.raises(InvalidArgument):
        await memory.correct(berlin.id, object="Bern")


async def test_undo_restores_the_interval(memory: Memory) -> None:
    await memory.learn([home("2026-01-01", "Rome")])
    before = (await memory.page(past=True)).facts
    await memory.learn([home("2026-03-10", "Berlin")])
    await memory.learn([home("2026-06-15", "Paris")])
    await memory.undo()
    await memory.undo()

    assert (await memory.page(past=True)).facts == before


async def test_a_correction_of_a_correction_is_undone_step_by_step(memory: Memory) -> None:
    await memory.learn([home("2026-01-01", "Rome")])
    (fact,) = (await memory.page()).facts
    for place in ("Bern", "Rome", "Oslo"):
        await memory.correct(fact.id, object=place)
    places = [await past_of(memory)]
    for _ in range(3):
        await memory.undo()
        places.append(await past_of(memory))

    assert [[place for place, _ in past] for past in places] == [
        ["Rome", "Bern", "Rome"],
        ["Bern", "Rome"],
        ["Rome"],
        [],
    ]


async def test_what_an_undo_brought_back_is_undone_with_its_past(memory: Memory) -> None:
    await memory.learn([home("2026-01-01", "Rome")])
    before = (await memory.page(past=True)).facts
    await memory.learn([home("2026-03-10", "Berlin")])
    (berlin,) = (await memory.page()).facts
    await memory.forget(await memory.targets([berlin.id]))
    await memory.undo()
    await memory.undo()

    assert (await memory.page(past=True)).facts == before


async def test_undo_of_an_end_lets_the_fact_hold_again(memory: Memory) -> None:
    await memory.learn([allergy("2026-01-01", "nuts")])
    before = (await memory.page(past=True)).facts
    await memory.learn([allergy("2026-06-01", "nuts", ends=True)])
    await memory.undo()

    assert (await memory.page(past=True)).facts == before


async def test_what_has_ended_since_is_not_undone(memory: Memory) -> None:
    learning = await memory.learn([allergy("2026-01-01", "nuts")])
    await memory.learn([allergy("2026-06-01", "nuts", ends=True)])

    with pytest.raises(RewindRefused):
        await memory.undo(learning.version)


async def test_a_forgotten_fact_takes_its_past_along_and_brings_it_back(memory: Memory) -> None:
    await memory.learn([home("2026-03-10", "Berlin")])
    await memory.learn([home("2026-06-15", "Paris")])
    before = (await memory.page(past=True)).facts
    await memory.forget(await memory.targets([before[0].id]))
    forgotten = (await memory.page(past=True)).facts
    await memory.undo()

    assert (forgotten, (await memory.page(past=True)).facts) == ((), before)


async def test_a_fact_whose_past_is_forgotten_keeps_its_vector(memory: Memory, db: Database) -> None:
    await memory.learn([home("2026-03-10", "Berlin")])
    await memory.learn([home("2026-06-15", "Paris")])
    await Retriever(memory, SameVector()).embed_missing()
    _, berlin = (await memory.page(past=True)).facts
    await memory.forget(await memory.targets([berlin.id]))

    assert len(await db.records.find(RecordQuery(kind=VECTOR_KIND, owner="alice"))) == 1


async def test_a_past_fact_is_forgotten_alone(memory: Memory) -> None:
    await memory.learn([home("2026-03-10", "Berlin")])
    await memory.learn([home("2026-06-15", "Paris")])
    _, berlin = (await memory.page(past=True)).facts
    await memory.forget(await memory.targets([berlin.id]))

    assert [fact.object for fact in (await memory.page(past=True)).facts] == ["Paris"]
    with pytest.raises(RecordNotFound):
        await memory.get(berlin.id)


@pytest.mark.security
async def test_erasing_a_fact_erases_its_past(memory: Memory, db: Database) -> None:
    await memory.learn([home("2026-03-10", "Berlin")])
    await memory.learn([home("2026-06-15", "Paris")])
    (fact,) = (await memory.page()).facts
    await db.thread(memory.thread).erase([fact.id])

    assert (await memory.page(past=True)).facts == ()
    assert await memory.history(fact.id) == []


async def test_past_facts_are_not_found_by_a_search(memory: Memory, db: Database) -> None:
    await memory.learn([home("2026-03-10", "Berlin")])
    await memory.learn([home("2026-06-15", "Paris")])

    assert [len(await db.search(word, owner="alice")) for word in ("Paris", "Berlin")] == [1, 0]


async def test_the_export_has_what_held_once(memory: Memory) -> None:
    await memory.learn([home("2026-03-10", "Berlin")])
    await memory.learn([home("2026-06-15", "Paris")])
    document = await memory.export()
    (past,) = document["past_facts"]

    assert (past["object"], past["began"], past["ended"]) == ("Berlin", day("2026-03-10"), day("2026-06-15"))


async def test_an_archive_of_a_person_keeps_the_times(memory: Memory, db: Database) -> None:
    await memory.learn([home("2026-03-10", "Berlin")])
    await memory.learn([home("2026-06-15", "Paris")])
    store = MemoryStore()
    await import_threads(store, Scope(), export_person(db, "alice"))
    copy = Memory(Database(store), "alice")

    assert (await copy.page(past=True)).facts == (await memory.page(past=True)).facts
    assert await objects_at(copy, "2026-05") == ["Berlin"]


@pytest.mark.security
async def test_erasing_a_person_erases_their_past(memory: Memory, db: Database) -> None:
    await memory.learn([home("2026-03-10", "Berlin")])
    await memory.learn([home("2026-06-15", "Paris")])
    await db.erase(owner="alice")

    assert (await memory.page(past=True)).facts == ()
    assert await objects_at(memory, "2026-05") == []


async def test_a_fact_stored_without_times_holds_since_it_was_said(memory: Memory, db: Database) -> None:
    await memory.learn([home("2026-03-10", "Berlin")])
    (fact,) = (await memory.page()).facts
    body = msgspec.to_builtins(fact)
    del body["began"]
    await db.thread(memory.thread).append(items=[Item(body=body, id="fact-old", log=FACTS, kind="fact")])

    assert [fact.began for fact in (await memory.page()).facts] == [day("2026-03-10")] * 2


async def test_pages_go_on_from_what_holds_to_what_held_once(memory: Memory) -> None:
    for on, place in (("2026-01-01", "Rome"), ("2026-03-10", "Berlin"), ("2026-06-15", "Paris")):
        await memory.learn([home(on, place)])
    places: list[str] = []
    before: int | None = None
    while not places or before is not None:
        page = await memory.page(past=True, limit=1, before=before)
        places += [fact.object for fact in page.facts]
        before = page.next

    assert places == ["Paris", "Berlin", "Rome"]


@pytest.mark.parametrize(
    ("at", "begin", "end"),
    [
        ("2026", "2026-01-01", "2027-01-01"),
        ("2024-02", "2024-02-01", "2024-03-01"),
        ("2026-12-31", "2026-12-31", "2027-01-01"),
        ("2026-05-15T12:00+02:00", "2026-05-15T10:00", "2026-05-15T10:00:00.001"),
    ],
)
def test_a_period_is_a_year_a_month_a_day_or_a_moment(at: str, begin: str, end: str) -> None:
    assert period_of(at) == Period(begin=day(begin), end=day(end))


@pytest.mark.parametrize("at", ["", "May", "2026-13", "2026-02-30", "yesterday", "9999"])
def test_what_is_no_time_is_refused(at: str) -> None:
    with pytest.raises(InvalidArgument):
        period_of(at)
