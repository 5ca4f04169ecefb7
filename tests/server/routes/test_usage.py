"""Usage by day: what is added up, for whom, and since when."""

from __future__ import annotations

import pytest

import clew
from clew.core.errors import InvalidArgument
from clew.runtime.model.protocol import Usage
from clew.runtime.records.runs import Run, record_of
from clew.runtime.records.usage import read_usage, usage_of_runs
from tests.server.conftest import Users

DAY = 86_400_000
NOON = 1_790_000_000_000 - 1_790_000_000_000 % DAY + DAY // 2


def run(id: str, started: int, agent: str = "default", tokens: int = 10) -> Run:
    """A run that has ended."""
    usage = Usage(calls=1, input_tokens=tokens, output_tokens=2 * tokens, cost=3 * tokens)
    return Run(id=id, thread="t", agent=agent, status="done", started=started, usage=usage)


async def put_runs(db: clew.Database, *runs: Run, owner: str | None = None) -> None:
    for each in runs:
        await db.records.put(record_of(each, owner))


def test_runs_are_added_up_by_day_and_agent() -> None:
    runs = [run("a", NOON), run("b", NOON + 1), run("c", NOON, "cook", 5), run("d", NOON - DAY)]
    days = usage_of_runs(runs)

    assert [(each.agent, each.runs, each.input_tokens, each.output_tokens, each.cost) for each in days] == [
        ("cook", 1, 5, 10, 15),
        ("default", 2, 20, 40, 60),
        ("default", 1, 10, 20, 30),
    ]
    assert days[0].day == days[1].day > days[2].day


async def test_only_the_last_days_count_from_their_first_moment_on(db: clew.Database) -> None:
    midnight = NOON - DAY // 2
    await put_runs(db, run("now", NOON), run("first", midnight - DAY), run("before", midnight - DAY - 1))
    usage = await read_usage(db, now=NOON, days=2)

    assert [each.runs for each in usage.days] == [1, 1]
    assert usage.is_complete


async def test_usage_is_of_the_caller_alone_and_of_an_agent_if_one_is_named(users: Users) -> None:
    await users().run_turn("t", "hi")
    [day] = (await users().usage()).days

    assert (day.agent, day.runs) == ("default", 1)
    assert (await users().usage(agent="cook")).days == []
    assert (await users("bob").usage()).days == []


@pytest.mark.parametrize("days", [0, 367])
async def test_a_number_of_days_that_makes_no_sense_is_refused(users: Users, days: int) -> None:
    with pytest.raises(InvalidArgument):
        await users().usage(days=days)
