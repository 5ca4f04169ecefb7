"""The crisis log: written with the turn, never with words; read, extended and purged by operators alone."""

from __future__ import annotations

from typing import Any

import pytest

import clew
from clew.core.erasure.receipts import RETAINED_KIND
from clew.core.erasure.retention import DAY_MS
from clew.core.errors import Forbidden, InvalidArgument, RecordNotFound, StoreDamaged
from clew.core.values import Record
from clew.database.database import Database
from clew.runtime.records.episodes import active_episode
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig, SessionConfig
from clew.testing.clock import Clock
from clew_companion.agent import companion
from clew_companion.crisis.log import (
    CRISIS_TAG,
    Assessment,
    Crisis,
    count_expired,
    crises,
    extend_retention,
    max_crisis_level,
    purge_expired,
    record_crisis,
)
from clew_companion.values import CrisisLevel
from tests.support.crises import crisis_record

DANGER = "I want to kill myself tonight"
STAY_OPEN = SessionConfig(finalize_active_sessions_on_close=False)


async def rows(db: Database) -> list[Crisis]:
    """The whole log."""
    return [row async for row in crises(db)]


def assessment_runtime(db: Database, assessment: Assessment, clock: Clock | None = None) -> Runtime[Any, Any]:
    """A runtime whose only stage logs an assessment."""

    async def assess(state: clew.State, ctx: clew.Context) -> None:
        record_crisis(ctx.turn, assessment)

    return Runtime(db, stages=[assess], config=RuntimeConfig(sessions=STAY_OPEN, clock=clock))


@pytest.mark.promise("R-20", "R-22")
@pytest.mark.parametrize("level", [1, 2, 3])
async def test_an_assessment_is_logged_with_the_turn(db: Database, level: int) -> None:
    clock = Clock()
    assessment = Assessment(level=level, confidence=0.75, path="digits", override="first_digit")
    async with assessment_runtime(db, assessment, clock=clock) as runtime:
        result = await runtime.run_turn("a", "Hi", user="ada")
        episode = await active_episode(db, "a")

    assert episode is not None
    assert await rows(db) == [
        Crisis(
            id=f"{result.run}.1.1",
            level=level,
            confidence=0.75,
            path="digits",
            override="first_digit",
            thread="a",
            run=result.run,
            episode=episode.id,
            time=clock(),
            keep_until=clock() + 90 * DAY_MS,
        )
    ]
    assert max_crisis_level(episode) is CrisisLevel(level)


async def test_a_turn_without_danger_leaves_no_row(db: Database) -> None:
    async with assessment_runtime(db, Assessment(level=0)) as runtime:
        await runtime.run_turn("a", "Hi")

    assert await rows(db) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"path": "he said goodbye"},
        {"override": "x" * 65},
        {"path": ""},
        {"confidence": 1.5},
        {"level": 4},
        {"level": -1},
    ],
    ids=str,
)
async def test_what_could_be_words_is_refused(db: Database, wrong: dict[str, Any]) -> None:
    async with assessment_runtime(db, Assessment(**{"level": 2, **wrong})) as runtime:
        with pytest.raises(InvalidArgument):
            await runtime.run_turn("a", "Hi")
    assert await rows(db) == []


@pytest.mark.promise("R-22")
async def test_the_companion_keeps_rows_for_as_long_as_it_is_told(db: Database) -> None:
    async with companion(db, crisis_days=7, config=RuntimeConfig(sessions=STAY_OPEN)) as runtime:
        await runtime.run_turn("a", DANGER, user="ada")
    (row,) = await rows(db)

    assert row.keep_until - row.time == 7 * DAY_MS


# For operators.


async def write_rows(db: Database, *days: int, thread: str = "a") -> None:
    """Rows that are kept until some days after 1970, and a record with a date that is none."""
    for day in days:
        crisis = Crisis(id=f"c{day}", level=2, thread=thread, run="r", time=1, keep_until=day * DAY_MS)
        await db.records.put(crisis_record(crisis, "ada"))
    other = Record(kind=RETAINED_KIND, id="other", tags=("kind:visit", f"thread:{thread}"), sort=1, body={})
    await db.records.put(other)


@pytest.mark.promise("R-22")
async def test_rows_are_purged_when_their_date_has_come_and_nothing_else_is(db: Database) -> None:
    await write_rows(db, 1, 2, 3)
    due = await count_expired(db, now=2 * DAY_MS)
    count = await purge_expired(db, now=2 * DAY_MS)

    assert (due, count, [row.id for row in await rows(db)]) == (2, 2, ["c3"])
    assert (await db.records.get(RETAINED_KIND, "other")).sort == 1


@pytest.mark.promise("R-22")
async def test_a_row_that_is_kept_for_longer_outlives_its_date(db: Database) -> None:
    await write_rows(db, 1, 2)
    count = await extend_retention(db, until=9 * DAY_MS, now=5, ids=["c1"])
    await purge_expired(db, now=8 * DAY_MS)

    assert count == 1
    assert [(row.id, row.keep_until, row.extended) for row in await rows(db)] == [("c1", 9 * DAY_MS, 5)]


@pytest.mark.promise("R-22")
async def test_no_row_is_kept_for_less(db: Database) -> None:
    await write_rows(db, 5)

    assert await extend_retention(db, until=2 * DAY_MS, now=1, ids=["c5"]) == 0
    assert [row.keep_until for row in await rows(db)] == [5 * DAY_MS]


async def test_rows_of_a_thread_or_an_owner_are_extended_together(db: Database) -> None:
    await write_rows(db, 1, 2)
    await write_rows(db, 3, thread="b")
    of_thread = await extend_retention(db, until=9 * DAY_MS, now=1, thread="a")
    of_owner = await extend_retention(db, until=10 * DAY_MS, now=1, owner="ada")

    assert (of_thread, of_owner) == (2, 3)


async def test_the_rows_to_extend_have_to_be_named(db: Database) -> None:
    await write_rows(db, 1)
    with pytest.raises(InvalidArgument):
        await extend_retention(db, until=DAY_MS, now=1)
    for id in ("nobody", "other"):
        with pytest.raises(RecordNotFound):
            await extend_retention(db, until=9 * DAY_MS, now=1, ids=[id])

    assert [row.keep_until for row in await rows(db)] == [DAY_MS]


@pytest.mark.promise("R-22")
async def test_the_log_is_not_read_on_behalf_of_a_person(db: Database) -> None:
    await write_rows(db, 1)
    person = db.scope(tenant=db.tenant, user="ada")

    with pytest.raises(Forbidden):
        [row async for row in crises(person)]
    with pytest.raises(Forbidden):
        await purge_expired(person, now=9 * DAY_MS)
    with pytest.raises(Forbidden):
        await extend_retention(person, until=9 * DAY_MS, now=1, ids=["c1"])


async def test_an_operator_reads_the_rows_of_all_pages(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.database.retention.RECORDS_PER_PAGE", 2)
    await write_rows(db, *range(1, 6))

    assert [row.id async for row in crises(db, thread="a")] == ["c1", "c2", "c3", "c4", "c5"]
    assert [row.id async for row in crises(db, since=2)] == []
    assert await purge_expired(db, now=9 * DAY_MS) == 5


async def test_a_damaged_row_is_named(db: Database) -> None:
    await db.records.put(Record(kind=RETAINED_KIND, id="bad", tags=(CRISIS_TAG,), body={"no": "crisis"}))

    with pytest.raises(StoreDamaged, match="bad"):
        await rows(db)
