"""Retention beside turns: a runtime applies the rules of its tenant, at once and then every hour."""

from __future__ import annotations

import pytest

from clew.core.erasure.retention import RetentionRule
from clew.core.errors import ThreadNotFound
from clew.core.items import user
from clew.database.database import Database
from clew.runtime.maintenance.sweeper import HOUR_MS
from clew.runtime.memory.memory import Memory
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig
from clew.testing.clock import Clock

DAY_MS = 24 * HOUR_MS


def runtime_at(db: Database, clock: Clock) -> Runtime:
    """A runtime with a clock of its own, which sweeps when it is told to."""
    return Runtime(db, stages=[], config=RuntimeConfig(clock=clock))


@pytest.mark.promise("B-07")
async def test_a_thread_that_is_past_its_time_is_let_go(db: Database) -> None:
    thread = await db.create("old")
    await thread.append(items=[user("Hi")])
    last_write = (await thread.head()).updated
    await db.retention.add(RetentionRule(name="short", days=1))

    await runtime_at(db, Clock(last_write + 2 * DAY_MS)).sweep()

    with pytest.raises(ThreadNotFound):
        await thread.head()


@pytest.mark.promise("B-07")
async def test_rules_are_looked_at_again_after_an_hour_and_not_before(db: Database) -> None:
    thread = await db.create("old")
    clock = Clock((await thread.head()).updated + 2 * DAY_MS)
    runtime = runtime_at(db, clock)
    await runtime.sweep()
    await db.retention.add(RetentionRule(name="short", days=1))
    clock.advance(HOUR_MS - 1)
    await runtime.sweep()
    there = (await thread.head()).version
    clock.advance(1)
    await runtime.sweep()

    assert there == 0
    with pytest.raises(ThreadNotFound):
        await thread.head()


@pytest.mark.promise("B-07")
async def test_what_is_remembered_of_a_person_is_not_let_go_because_nothing_was_learned(db: Database) -> None:
    memory = Memory(db, "ann")
    await memory.set_recall(on=False)
    await db.retention.add(RetentionRule(name="short", days=1))
    last_write = (await db.thread(memory.thread).head()).updated

    await runtime_at(db, Clock(last_write + 2 * DAY_MS)).sweep()

    assert not (await memory.profile()).recall


async def test_the_database_of_one_user_applies_no_rules(db: Database) -> None:
    thread = await db.create("old", owner="ann")
    await db.retention.add(RetentionRule(name="short", days=1))
    later = Clock((await thread.head()).updated + 2 * DAY_MS)

    await runtime_at(db.scope(tenant=db.tenant, user="ann"), later).sweep()

    assert (await thread.head()).version == 0
