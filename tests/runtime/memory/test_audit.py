"""The audit of a memory: each fact against its quote, its turn and the other facts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import clew
from clew.core.values import Item
from clew.database.database import Database
from clew.runtime.memory.audit import MemoryAudit, audit_memory
from clew.runtime.memory.learn.extraction import remember, user_turns
from clew.runtime.memory.memory import Memory, all_memories, memory_of
from clew.runtime.memory.values import FACTS, Candidate

pytestmark = pytest.mark.promise("B-11")
MESSAGES = ("I'm allergic to nuts.", "My sister is called Ann.", "I live in Oslo.")


async def learn_session(db: Database, thread: str = "s1", owner: str | None = "alice") -> Memory:
    """The memory of a person who said a few things."""
    session = await db.create(thread, owner=owner)
    await session.append(items=[clew.user(text) for text in MESSAGES])
    memory = memory_of(db, thread, owner)
    await remember(memory, user_turns(await session.items(), thread))
    return memory


@pytest.fixture
async def memory(db: Database) -> Memory:
    return await learn_session(db)


def kinds_of(audit: MemoryAudit) -> set[str]:
    return {finding.kind for finding in audit.findings}


async def tamper(memory: Memory, **more: Any) -> None:
    """Put in the place of a fact another that no rule of learning would leave."""
    fact = (await memory.page()).facts[-1]
    (item,) = await memory.db.thread(memory.thread).items(log=FACTS, first=1)
    body = {**msgspec.to_builtins(fact), **more}
    await memory.forget(await memory.targets([fact.id]))
    await memory.db.thread(memory.thread).append(
        items=[Item(body=body, id=item.id, log=FACTS, kind=item.kind)]
    )


async def test_a_memory_that_was_learned_by_the_rules_is_right(memory: Memory) -> None:
    audit = await audit_memory(memory)

    assert (audit.ok, audit.findings) == (True, ())
    assert (audit.counts.facts, audit.counts.with_quote, audit.counts.quote_found) == (3, 3, 3)
    assert (audit.counts.source_found, audit.counts.orphaned, audit.counts.contradicted) == (3, 0, 0)


async def test_a_quote_that_was_not_said_is_found(memory: Memory) -> None:
    await tamper(memory, quote="I'm allergic to pollen.")
    audit = await audit_memory(memory)

    assert kinds_of(audit) == {"quote_not_found"}
    assert (audit.counts.with_quote, audit.counts.quote_found) == (3, 2)


async def test_a_fact_without_a_quote_is_found(memory: Memory) -> None:
    await tamper(memory, quote="")

    assert kinds_of(await audit_memory(memory)) == {"no_quote"}


async def test_a_fact_whose_turn_was_erased_is_found(memory: Memory, db: Database) -> None:
    thread = db.thread("s1")
    first = (await thread.items(first=1))[0].place
    await thread.erase(after=first - 1, before=first + 1)
    audit = await audit_memory(memory)

    assert kinds_of(audit) == {"source_erased"}
    assert audit.counts.source_erased == 1


async def test_facts_of_a_deleted_thread_are_orphans(memory: Memory, db: Database) -> None:
    await db.thread("s1").delete()
    audit = await audit_memory(memory)

    assert kinds_of(audit) == {"source_gone"}
    assert audit.counts.orphaned == 3


@pytest.mark.security
async def test_a_fact_from_another_persons_thread_is_found(memory: Memory, db: Database) -> None:
    await learn_session(db, "s2", "bob")
    source = msgspec.to_builtins((await Memory(db, "bob").page()).facts[-1].source)
    await tamper(memory, source=source)

    assert kinds_of(await audit_memory(memory)) == {"source_foreign"}


async def test_a_fact_that_names_no_turn_is_an_orphan(memory: Memory) -> None:
    await memory.learn([Candidate(predicate="LIKES", object="tea", quote="I like tea")])
    audit = await audit_memory(memory)

    assert kinds_of(audit) == {"no_source"}
    assert audit.counts.orphaned == 1


async def test_a_correction_by_hand_needs_no_turn(memory: Memory) -> None:
    (fact,) = [fact for fact in (await memory.page()).facts if fact.object == "Ann"]
    await memory.correct(fact.id, object="Anne")
    audit = await audit_memory(memory)

    assert audit.ok
    assert (audit.counts.past, audit.counts.superseded, audit.counts.by_hand) == (1, 0, 1)


async def test_facts_that_exclude_each_other_are_found(memory: Memory) -> None:
    (oslo,) = [fact for fact in (await memory.page()).facts if fact.object == "Oslo"]
    other = Candidate(predicate="LIVES_IN", object="Rome", quote="I live in Oslo.", source=oslo.source)
    await memory.learn([other])
    audit = await audit_memory(memory)

    assert kinds_of(audit) == {"contradicted"}
    assert audit.counts.contradicted == 2
    assert {finding.others for finding in audit.findings} >= {(oslo.id,)}


async def test_things_of_which_there_can_be_many_do_not_exclude_each_other(memory: Memory) -> None:
    (nuts,) = [fact for fact in (await memory.page()).facts if fact.object == "nuts"]
    milk = Candidate(predicate="IS_ALLERGIC_TO", object="milk", quote=nuts.quote, source=nuts.source)
    await memory.learn([milk])

    assert (await audit_memory(memory)).ok


async def test_past_facts_are_checked_and_contradict_nothing(memory: Memory, db: Database) -> None:
    session = db.thread("s1")
    await session.append(items=[clew.user("I live in Rome.")])
    await remember(memory, user_turns(await session.items(), "s1")[-1:])
    audit = await audit_memory(memory)

    assert audit.ok
    assert (audit.counts.facts, audit.counts.past, audit.counts.superseded) == (3, 1, 1)


async def test_a_memory_of_a_thread_without_a_user_is_audited_like_any_other(db: Database) -> None:
    audit = await audit_memory(await learn_session(db, "s3", None))

    assert (audit.ok, audit.counts.facts) == (True, 3)


async def test_every_memory_of_a_tenant_is_found(memory: Memory, db: Database) -> None:
    await learn_session(db, "s3", None)
    memories = [(each.owner, each.thread) async for each in all_memories(db)]

    assert sorted(memories, key=str) == [("alice", memory.thread), (None, "memory/@s3")]
