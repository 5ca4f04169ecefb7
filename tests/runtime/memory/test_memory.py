"""A memory: learned once, superseded with its history, found again by ids that never change meaning."""

from __future__ import annotations

import asyncio

import pytest

from clew.core.errors import InvalidArgument, RecordNotFound
from clew.database.database import Database
from clew.runtime.memory.memory import Memory, memory_of
from clew.runtime.memory.merge import MOST_RULES
from clew.runtime.memory.values import Arc, Fact, Rule
from clew.testing.clock import Clock
from tests.runtime.memory.candidates import SOURCE, allergic, rule, sister


@pytest.fixture
def memory(db: Database) -> Memory:
    return Memory(db, "alice")


async def facts(memory: Memory) -> list[tuple[str, str]]:
    return sorted((fact.subject, fact.object) for fact in (await memory.page()).facts)


async def only(memory: Memory) -> Fact:
    (fact,) = (await memory.page()).facts
    return fact


@pytest.mark.promise("B-11")
async def test_a_fact_has_its_words_and_its_source_turn(memory: Memory) -> None:
    await memory.learn([sister("Ann")], run="run-1")
    fact = await only(memory)

    assert (fact.quote, fact.source) == ("my sister is called Ann", SOURCE)
    assert await memory.get(fact.id) == fact


@pytest.mark.promise("B-11")
async def test_saying_it_again_refreshes_and_adds_nothing(db: Database) -> None:
    clock = Clock()
    memory = Memory(db, "alice", clock=clock)
    first = await memory.learn([allergic("nuts")])
    clock.advance(5_000)
    again = await memory.learn([allergic("Nuts!")])
    fact = await only(memory)

    assert [outcome.what for outcome in (*first.outcomes, *again.outcomes)] == ["learned", "merged"]
    assert (fact.times, fact.last_referenced - fact.learned, fact.object) == (2, 5_000, "nuts")


@pytest.mark.promise("B-11")
async def test_a_contradiction_supersedes_and_the_history_stays(memory: Memory) -> None:
    await memory.learn([sister("Ann"), allergic("nuts")])
    result = await memory.learn([sister("Beth"), allergic("nuts", negated=True), allergic("milk")])
    history = await memory.history(result.outcomes[0].id)

    assert [outcome.what for outcome in result.outcomes] == ["superseded", "superseded", "learned"]
    assert await facts(memory) == [("User", "milk"), ("User", "nuts"), ("sister", "Beth")]
    assert [fact.object for fact in history] == ["Ann", "Beth"]


@pytest.mark.promise("B-11")
async def test_forms_of_a_word_are_one_fact_and_names_that_look_alike_are_two(memory: Memory) -> None:
    await memory.learn([allergic("peanuts"), sister("Ann")])
    result = await memory.learn([allergic("peanut"), sister("Anne")])

    assert [outcome.what for outcome in result.outcomes] == ["merged", "superseded"]
    assert await facts(memory) == [("User", "peanuts"), ("sister", "Anne")]


async def test_one_change_holds_all_that_was_learned_at_once(memory: Memory, db: Database) -> None:
    await memory.learn([sister("Ann"), allergic("nuts"), rule("length", "Be brief.")])

    assert (await db.thread(memory.thread).head()).version == 1


async def test_the_same_key_learns_once(memory: Memory) -> None:
    await memory.learn([allergic("nuts")], key="episode-1")
    again = await memory.learn([allergic("nuts")], key="episode-1")

    assert (again.repeated, (await only(memory)).times) == (True, 1)


async def test_two_who_learn_at_once_lose_nothing(memory: Memory) -> None:
    names = [f"allergen {number}" for number in range(6)]
    await asyncio.gather(*(memory.learn([allergic(name), allergic("nuts")]) for name in names))
    facts = (await memory.page(limit=50)).facts

    assert sorted(fact.object for fact in facts) == [*names, "nuts"]
    assert [fact.times for fact in facts if fact.object == "nuts"] == [6]


@pytest.mark.promise("R-16")
async def test_a_users_memory_spans_threads_and_nobody_else_sees_it(db: Database) -> None:
    await memory_of(db, "s1", "alice").learn([sister("Ann")])
    alice, bob = (db.scope(tenant=db.tenant, user=user) for user in ("alice", "bob"))

    assert await facts(memory_of(db, "s2", "alice")) == [("sister", "Ann")]
    assert await facts(memory_of(alice, "s2", "alice")) == [("sister", "Ann")]
    assert await facts(memory_of(db, "s1", "bob")) == []
    assert await facts(memory_of(bob, "s1", "alice")) == []
    assert await facts(memory_of(db.scope(tenant="acme"), "s1", "alice")) == []


@pytest.mark.promise("R-16")
async def test_without_a_user_memory_belongs_to_the_thread(db: Database) -> None:
    await memory_of(db, "a").learn([sister("Ann")])

    assert await facts(memory_of(db, "a")) == [("sister", "Ann")]
    assert await facts(memory_of(db, "b")) == []
    assert await facts(memory_of(db, "b", "a")) == []  # a user whose id is the thread's


@pytest.mark.parametrize("owner", ["a/b", "@a", "~", "ü" * 200, "a b#c?d%2F", "memory/x"])
async def test_any_id_can_own_a_memory(db: Database, owner: str) -> None:
    memory = Memory(db, owner)
    await memory.learn([sister("Ann")])

    assert await facts(memory) == [("sister", "Ann")]
    assert (await db.thread(memory.thread).head()).owner == owner


async def test_facts_come_in_pages_the_newest_first(memory: Memory) -> None:
    for number in range(5):
        await memory.learn([allergic(f"allergen {number}")])
    first = await memory.page(limit=3)
    second = await memory.page(limit=3, before=first.next)

    assert [fact.object[-1] for fact in (*first.facts, *second.facts)] == ["4", "3", "2", "1", "0"]
    assert second.next is None


@pytest.mark.promise("B-11")
async def test_a_fact_is_corrected_and_keeps_its_id(memory: Memory) -> None:
    await memory.learn([sister("Ann")])
    fact = await only(memory)
    right = await memory.correct(fact.id, object="Anne", source=SOURCE)

    assert isinstance(right, Fact)
    assert (right.id, right.how, right.quote, await only(memory)) == (fact.id, "user", "", right)


@pytest.mark.promise("B-11")
async def test_a_corrected_fact_is_not_learned_beside_itself(memory: Memory) -> None:
    await memory.learn([allergic("nuts")])
    wrong = await only(memory)
    right = await memory.correct(wrong.id, object="peanuts")
    await memory.learn([allergic("peanuts")])

    assert await only(memory) == await memory.get(right.id)
    with pytest.raises(RecordNotFound):
        await memory.get(wrong.id)


async def test_what_is_not_known_cannot_be_corrected(memory: Memory) -> None:
    with pytest.raises(RecordNotFound):
        await memory.correct("fact-nothing", object="x")


@pytest.mark.promise("A-05")
async def test_rules_stay_whatever_the_recall_toggle_says(memory: Memory) -> None:
    await memory.learn([rule("bullet points", "Do not use bullet points.")])
    await memory.set_recall(on=False)
    profile = await memory.profile()

    assert (profile.recall, [rule.text for rule in profile.rules]) == (False, ["Do not use bullet points."])


async def test_a_rule_about_the_same_thing_replaces_the_rule(memory: Memory) -> None:
    await memory.learn([rule("bullet points", "Do not use bullet points.")])
    await memory.learn([rule("bullet points", "Use bullet points.")])

    assert [rule.text for rule in (await memory.profile()).rules] == ["Use bullet points."]


async def test_of_too_many_rules_the_one_not_heard_longest_is_archived(db: Database) -> None:
    clock = Clock()
    memory = Memory(db, "alice", clock=clock)
    for number in [*range(MOST_RULES), 0]:
        clock.advance(1_000)
        await memory.learn([rule(f"matter {number}", f"Rule {number}.")])
    clock.advance(1_000)
    result = await memory.learn([rule("another matter", "Another rule.")])
    export = await memory.export()

    assert [outcome.what for outcome in result.outcomes] == ["learned", "archived"]
    assert len((await memory.profile()).rules) == MOST_RULES
    assert [rule["text"] for rule in export["archived_rules"]] == ["Rule 1."]


async def test_an_episode_has_one_arc(memory: Memory) -> None:
    arc = Arc(id="", episode="e1", summary="talked about work", themes=("work", "sleep", "rest", "food"))
    for _ in range(2):
        await memory.db.commit(await memory.episode_writes(arc, []))
    (entry,) = (await memory.page("arcs")).arcs

    assert (entry.id, entry.themes) == ("arc-e1", ("work", "sleep", "rest"))


@pytest.mark.promise("R-12")
async def test_what_an_episode_left_already_is_not_left_again(memory: Memory, db: Database) -> None:
    arc = Arc(id="", episode="e1", summary="talked about Ann")
    await db.commit(await memory.episode_writes(arc, [sister("Ann")]))
    again = await memory.episode_writes(arc, [sister("Ann")])

    assert (again, (await only(memory)).times, len((await memory.page("arcs")).arcs)) == ([], 1, 1)


@pytest.mark.promise("B-11")
async def test_everything_is_carried_away_with_its_sources(memory: Memory) -> None:
    await memory.learn([sister("Ann"), rule("length", "Be brief.")])
    await memory.db.commit(
        await memory.episode_writes(Arc(id="", episode="e1", summary="talked about Ann", source=SOURCE), [])
    )
    export = await memory.export()

    assert [fact["source"]["item"] for fact in export["facts"]] == ["message-1"]
    assert [rule["source"]["thread"] for rule in export["rules"]] == ["chat"]
    assert [arc["summary"] for arc in export["arcs"]] == ["talked about Ann"]


async def test_a_memory_is_a_thread_that_verifies(memory: Memory, db: Database) -> None:
    await memory.learn([sister("Ann")])
    await memory.learn([sister("Beth")])

    assert (await db.thread(memory.thread).verify()).ok


async def test_an_empty_memory_reads_as_empty(memory: Memory) -> None:
    export = await memory.export()

    assert (export["facts"], export["rules"], export["recall"]) == ([], [], True)
    assert (await memory.history("fact-x"), (await memory.page("arcs")).arcs) == ([], ())


async def test_ids_cannot_be_guessed_from_words(db: Database) -> None:
    results = [await Memory(db, owner).learn([sister("Ann")]) for owner in ("alice", "bob")]

    assert results[0].outcomes[0].id != results[1].outcomes[0].id


async def test_a_rule_is_corrected(memory: Memory) -> None:
    await memory.learn([rule("length", "Be brief.")])
    (entry,) = (await memory.profile()).rules
    await memory.correct(entry.id, object="Be very brief.")
    now = await memory.get(entry.id)

    assert isinstance(now, Rule)
    assert (now.text, now.how) == ("Be very brief.", "user")


async def test_only_facts_and_arcs_come_in_pages(memory: Memory) -> None:
    with pytest.raises(InvalidArgument):
        await memory.page(limit=0)
