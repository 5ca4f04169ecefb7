"""Experiments: what was asked of whom, by which rule it was scored, and what came out."""

from collections.abc import AsyncIterator
from typing import Final, Literal, TypeAlias

import msgspec

from clew.core.arguments import check_arguments
from clew.core.encoding import JSON, plain
from clew.core.errors import InvalidArgument, StoreDamaged
from clew.core.values import Drop, Record, RecordQuery
from clew.database.database import Database
from clew.workbench.experiments.examples import record_id
from clew.workbench.experiments.results import (
    RESULT,
    Compared,
    Result,
    Summary,
    result_of,
    side_by_side,
    summed,
)

EXPERIMENT: Final = "experiment"
Status: TypeAlias = Literal["unfinished", "done"]
PAGE = 500


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What an experiment does: whom it asks, about what, and by which rule. Names, for those who look later.

    ``settings`` are whatever else makes it what it is, such as instructions.
    """

    dataset: str
    subject: str
    scorer: str
    settings: dict[str, JSON] = {}


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment, and its results summed up as far as it has come.

    It is ``unfinished`` until every example of its data set had its turn, whether or not somebody is at it.
    """

    name: str
    plan: Plan
    created: int
    status: Status = "unfinished"
    ended: int | None = None
    summary: Summary = Summary()
    owner: str | None = None
    revision: int = 0


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two experiments on one data set; ``better`` counts where the second has the higher score."""

    first: Experiment
    second: Experiment
    better: int
    worse: int
    same: int
    examples: list[Compared]


# Looking.


async def experiments(
    db: Database, *, limit: int = 100, after: tuple[int, str] | None = None
) -> list[Experiment]:
    """Experiments, the newest first, as they stood when they were last run."""
    query = RecordQuery(kind=EXPERIMENT, newest=True, limit=limit, after=after)
    return [experiment_of(record) for record in await db.records.find(query)]


async def experiment(db: Database, name: str) -> Experiment:
    """An experiment, summed up from the results that are there now.

    Raises:
        RecordNotFound: There is none of this name.
    """
    return (await _with_results(db, name))[0]


async def _with_results(db: Database, name: str) -> tuple[Experiment, list[Result]]:
    """An experiment and all of its results, of which its numbers are."""
    found = await last_run(db, name)
    every = [result async for result in every_result(db, name)]
    return msgspec.structs.replace(found, summary=summed(every)), every


async def last_run(db: Database, name: str) -> Experiment:
    """An experiment as it stood when it was last run; no result is read.

    Raises:
        RecordNotFound: There is none of this name.
    """
    return experiment_of(await db.records.get(EXPERIMENT, name))


async def results(
    db: Database, name: str, *, limit: int = PAGE, after: tuple[int, str] | None = None
) -> list[Result]:
    """Some results of an experiment, in the order of the examples."""
    query = RecordQuery(kind=RESULT, tags=(f"experiment:{name}",), limit=limit, after=after)
    return [result_of(record) for record in await db.records.find(query)]


async def every_result(db: Database, name: str) -> AsyncIterator[Result]:
    """All results of an experiment, read page by page."""
    after: tuple[int, str] | None = None
    while found := await results(db, name, after=after):
        for result in found:
            yield result
        after = (found[-1].number, record_id(name, found[-1].example))


@check_arguments
async def compare(db: Database, first: str, second: str) -> Comparison:
    """Two experiments side by side.

    Raises:
        RecordNotFound: There is none of a name.
        InvalidArgument: They are not about the same data set.
    """
    (one, left), (other, right) = await _with_results(db, first), await _with_results(db, second)
    if one.plan.dataset != other.plan.dataset:
        sets = f"{one.plan.dataset!r} and {other.plan.dataset!r}"
        raise InvalidArgument(problem=f"They are about two data sets, {sets}, so nothing can be compared.")
    found = side_by_side(left, right)
    moved = [each.difference for each in found if each.difference is not None]
    return Comparison(
        first=one,
        second=other,
        better=sum(by > 0 for by in moved),
        worse=sum(by < 0 for by in moved),
        same=sum(by == 0 for by in moved),
        examples=found,
    )


async def drop_experiment(db: Database, name: str) -> int:
    """Delete an experiment with its results; how many there were.

    Raises:
        RecordNotFound: There is none of this name.
    """
    await last_run(db, name)
    count = 0
    query = RecordQuery(kind=RESULT, tags=(f"experiment:{name}",), limit=PAGE)
    while found := await db.records.find(query):
        await db.commit([Drop(kind=RESULT, id=record.id) for record in found])
        count += len(found)
    await db.records.drop(EXPERIMENT, name)
    return count


def record_of(told: Experiment) -> Record:
    """The record that an experiment is kept as."""
    body = {name: plain(getattr(told, name)) for name in ("plan", "created", "status", "ended", "summary")}
    return Record(kind=EXPERIMENT, id=told.name, owner=told.owner, sort=told.created, body=body)


def experiment_of(record: Record) -> Experiment:
    """The experiment behind a record."""
    told = {"name": record.id, "owner": record.owner, "revision": record.revision}
    try:
        return msgspec.convert({**record.body, **told}, Experiment)
    except (msgspec.ValidationError, TypeError) as error:
        raise StoreDamaged(store=f"experiment {record.id!r}", problem=str(error)) from error
