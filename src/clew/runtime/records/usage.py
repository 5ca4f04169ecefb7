"""Usage over time: the runs of each day, with their tokens and costs, by agent."""

from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime, timedelta

import msgspec

from clew.core.values import RecordQuery
from clew.database.database import Database
from clew.database.records import record_pages
from clew.runtime.records.runs import KIND, Run, run_of

RUNS_PER_READ, MOST_RUNS = 500, 20_000
"""How many runs a report reads at a time, and at most."""


class DayUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one agent that began on one day, in UTC. ``cost`` is in millionths of a dollar."""

    day: str
    agent: str
    runs: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int = 0


class UsageByDay(msgspec.Struct, frozen=True, kw_only=True):
    """Usage from a day on, the newest day first; days without a run are left out.

    ``is_complete`` is false if there were more runs than are read for one report: the oldest are missing.
    """

    since: str
    until: str
    days: list[DayUsage]
    is_complete: bool = True


async def read_usage(db: Database, *, now: int, days: int, agent: str | None = None) -> UsageByDay:
    """Return the usage of the last days up to now, of every agent or of one."""
    today = datetime.fromtimestamp(now / 1000, tz=UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    first_day = today - timedelta(days=days - 1)
    since = round(first_day.timestamp() * 1000)
    runs: list[Run] = []
    is_complete = True
    async for run in _newest_runs(db):
        if run.started < since:
            break
        if len(runs) >= MOST_RUNS:
            is_complete = False
            break
        runs.append(run)
    chosen = [run for run in runs if agent in (None, run.agent)]
    return UsageByDay(
        since=first_day.date().isoformat(),
        until=today.date().isoformat(),
        days=usage_of_runs(chosen),
        is_complete=is_complete,
    )


async def _newest_runs(db: Database) -> AsyncIterator[Run]:
    query = RecordQuery(kind=KIND, newest=True, limit=RUNS_PER_READ)
    async for records in record_pages(db.records, query):
        for record in records:
            yield run_of(record)


def usage_of_runs(runs: Iterable[Run]) -> list[DayUsage]:
    """Return the usage of runs by day and agent, the newest day first."""
    totals: dict[tuple[str, str], DayUsage] = {}
    for run in runs:
        day = datetime.fromtimestamp(run.started / 1000, tz=UTC).date().isoformat()
        total = totals.get((day, run.agent)) or DayUsage(day=day, agent=run.agent)
        totals[day, run.agent] = msgspec.structs.replace(
            total,
            runs=total.runs + 1,
            calls=total.calls + run.usage.calls,
            input_tokens=total.input_tokens + run.usage.input_tokens,
            output_tokens=total.output_tokens + run.usage.output_tokens,
            cost=total.cost + run.usage.cost,
        )
    by_name = sorted(totals.values(), key=lambda each: each.agent)
    return sorted(by_name, key=lambda each: each.day, reverse=True)
