"""Memory, search and jobs over HTTP, on every store."""

from __future__ import annotations

import pytest

import clew
from clew.client import AsyncClient
from clew.core.errors import Forbidden, InvalidArgument, RecordNotFound
from clew.core.values import Job
from clew.runtime.memory.memory import Memory
from clew.runtime.memory.values import Candidate
from tests.server.conftest import Users


@pytest.fixture
async def fact_id(db: clew.Database) -> str:
    """The id of something that is known of alice."""
    memory = Memory(db.scope(tenant=db.tenant, user="alice"), "alice")
    await memory.learn([Candidate(category="context", predicate="LIVES_IN", object="Oslo", plain=True)])
    (fact,) = (await memory.page()).facts
    return fact.id


@pytest.mark.promise("B-11")
async def test_what_is_known_is_shown_to_its_user_alone(users: Users, fact_id: str) -> None:
    page = await users("alice").memory()

    assert [(fact["id"], fact["object"]) for fact in page.facts] == [(fact_id, "Oslo")]
    assert (await users("bob").memory()).facts == []
    assert (await users("alice", tenant=f"{users.tenant}-2").memory()).facts == []
    with pytest.raises(Forbidden):
        await users("bob").memory(user="alice")


@pytest.mark.promise("B-11")
async def test_what_is_known_is_corrected_and_the_correction_undone(alice: AsyncClient, fact_id: str) -> None:
    correction = await alice.correct_memory(fact_id, "Bergen")
    after = await alice.memory()
    undo = await alice.undo_memory()

    assert correction["object"] == "Bergen"
    assert [fact["object"] for fact in (*undo.removed, *undo.restored)] == ["Bergen", "Oslo"]
    assert [fact["object"] for fact in after.facts] == ["Bergen"]
    assert [fact["object"] for fact in (await alice.memory()).facts] == ["Oslo"]


@pytest.mark.promise("B-11")
async def test_what_was_so_at_a_time_is_listed(alice: AsyncClient, fact_id: str) -> None:
    await alice.correct_memory(fact_id, "Bergen", since="2030-06")
    places = {at: (await alice.memory(at=at)).facts for at in ("2020", "2030-05", "2030-07-01")}

    assert {at: [fact["object"] for fact in facts] for at, facts in places.items()} == {
        "2020": [],
        "2030-05": ["Oslo"],
        "2030-07-01": ["Bergen"],
    }


@pytest.mark.promise("B-11")
async def test_what_held_once_is_listed_with_what_took_its_place(alice: AsyncClient, fact_id: str) -> None:
    await alice.correct_memory(fact_id, "Bergen", since="2030-06")
    first = await alice.memory(past=True, limit=1)
    second = await alice.memory(past=True, limit=1, cursor=first.next)
    (bergen,), (oslo,) = first.facts, second.facts

    assert (bergen["object"], oslo["object"], oslo["end"]) == ("Bergen", "Oslo", "superseded")
    assert second.lineage[oslo["id"]]["replacement"]["id"] == bergen["id"]
    assert first.lineage[bergen["id"]]["replaced"][0]["id"] == oslo["id"]
    assert second.next is None


async def test_a_time_that_is_none_is_refused(alice: AsyncClient) -> None:
    with pytest.raises(InvalidArgument):
        await alice.memory(at="in May")


@pytest.mark.promise("B-11")
async def test_a_memory_is_audited_for_its_user_alone(users: Users, fact_id: str) -> None:
    audit = await users("alice").audit_memory()

    assert (audit.ok, audit.counts["facts"], audit.counts["orphaned"]) == (False, 1, 1)
    assert {(finding["fact"], finding["kind"]) for finding in audit.findings} == {
        (fact_id, "no_source"),
        (fact_id, "no_quote"),
    }
    assert (await users("bob").audit_memory()).counts["facts"] == 0
    with pytest.raises(Forbidden):
        await users("bob").audit_memory(user="alice")


@pytest.mark.promise("A-06")
async def test_forgetting_takes_two_steps(alice: AsyncClient, fact_id: str) -> None:
    preview = await alice.forget_memory([fact_id])
    between = await alice.memory()
    result = await alice.forget_memory([fact_id], confirmed=True)

    assert [target["id"] for target in preview.waiting] == [fact_id]
    assert (len(between.facts), between.pending is not None) == (1, True)
    assert result.forgotten == [fact_id]
    assert (await alice.memory()).facts == []


async def test_what_is_not_known_cannot_be_corrected(alice: AsyncClient) -> None:
    with pytest.raises(RecordNotFound):
        await alice.correct_memory("fact-0000", "Bergen")


@pytest.mark.promise("A-05")
async def test_recall_is_switched_off_and_on(alice: AsyncClient) -> None:
    await alice.set_recall(on=False)
    off = (await alice.memory()).recall
    await alice.set_recall(on=True)

    assert (off, (await alice.memory()).recall) == (False, True)


@pytest.mark.promise("B-11")
async def test_a_memory_is_carried_away_as_one_document(alice: AsyncClient, fact_id: str) -> None:
    document = await alice.export_memory()

    assert document["owner"] == "alice"
    assert [fact["id"] for fact in document["facts"]] == [fact_id]


@pytest.mark.promise("B-12")
async def test_a_search_finds_one_s_own_words_only(users: Users) -> None:
    await users("alice").run_turn("a", "the heron by the lake")
    await users("bob").run_turn("b", "another heron")
    hits = (await users("alice").search("heron")).found

    assert {each.thread for each in hits} == {"a"}
    assert (await users("carol").search("heron")).found == []


@pytest.mark.promise("F-13")
async def test_a_job_that_was_given_up_is_seen_and_tried_again(db: clew.Database, users: Users) -> None:
    mine = db.scope(tenant=db.tenant, user="alice")
    await mine.jobs.enqueue(Job(id="walk the dog", kind="walk", owner="alice", limit=1))
    (job,) = await mine.jobs.claim(["walk"])
    await mine.jobs.fail(job, "it rains")
    (dead,) = (await users("alice").jobs(status="dead")).jobs
    again = await users("alice").retry_job("walk the dog")

    assert (dead.id, dead.problem, dead.attempts) == ("walk the dog", "it rains", 1)
    assert (again.status, again.problem is None or again.attempts == 0) == ("waiting", True)
    assert (await users("bob").jobs()).jobs == []
    with pytest.raises(RecordNotFound):
        await users("bob").retry_job("walk the dog")


async def test_jobs_come_in_pages_whatever_comes_and_goes_between(
    db: clew.Database, alice: AsyncClient
) -> None:
    mine = db.scope(tenant=db.tenant, user="alice")
    for number in range(5):
        await mine.jobs.enqueue(Job(id=f"job {number}", kind="walk", owner="alice", due=10 + number))
    first = await alice.jobs(limit=2)
    for number in range(3):  # as many as a page has, and one, before where it ended
        await mine.jobs.enqueue(Job(id=f"early {number}", kind="walk", owner="alice", due=1))
    pages = [[job.id for job in first.jobs]]
    while first.next is not None:
        first = await alice.jobs(limit=2, cursor=first.next)
        pages.append([job.id for job in first.jobs])

    assert pages == [["job 0", "job 1"], [], ["job 2", "job 3"], ["job 4"]]


async def test_the_numbers_are_told_in_the_text_format(users: Users) -> None:
    await users().run_turn("t", "hi")
    answer = await users.http.get("/api/v1/metrics", headers=users.headers())

    assert 'clew_turns_total{agent="default",termination="natural"} 1.0' in answer.text
    assert "clew_turn_seconds_bucket" in answer.text
    assert answer.headers["content-type"].startswith("text/plain")
