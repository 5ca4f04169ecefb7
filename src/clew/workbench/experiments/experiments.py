"""Experiments: what was asked of whom, by which rule it was scored, and what came out."""

from collections.abc import AsyncIterator
from typing import Final, Literal, TypeAlias

import msgspec

from clew.core.arguments import check_arguments
from clew.core.encoding import JSON, as_json
from clew.core.errors import InvalidArgument, StoreDamaged
from clew.core.values import Drop, Record, RecordQuery
from clew.database.database import Database
from clew.workbench.experiments.examples import record_id
from clew.workbench.experiments.results import (
    RESULT_KIND,
    ExampleComparison,
    ExperimentResult,
    ExperimentSummary,
    compare_results,
    result_of,
    summary_of,
)

EXPERIMENT_KIND: Final = "experiment"
ExperimentStatus: TypeAlias = Literal["unfinished", "done"]
RESULTS_PER_PAGE = 500


class ExperimentPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of an experiment: its subject, its data set and its scorer, by name.

    ``settings`` are whatever else makes it what it is, such as instructions.
    """

    dataset: str
    subject: str
    scorer: str
    settings: dict[str, JSON] = {}


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment, and its results summed up as far as it has come.

    It is ``unfinished`` until every example of its data set had its turn, whether or not it is at work.
    """

    name: str
    plan: ExperimentPlan
    created: int
    status: ExperimentStatus = "unfinished"
    ended: int | None = None
    summary: ExperimentSummary = ExperimentSummary()
    owner: str | None = None
    revision: int = 0


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two experiments on one data set; ``better`` counts where the second has the higher score."""

    first: Experiment
    second: Experiment
    better: int
    worse: int
    same: int
    examples: list[ExampleComparison]


# Looking.


async def read_experiments(
    db: Database, *, limit: int = 100, after: tuple[int, str] | None = None
) -> list[Experiment]:
    """Experiments, the newest first, as they stood when they were last run."""
    query = RecordQuery(kind=EXPERIMENT_KIND, newest=True, limit=limit, after=after)
    return [experiment_of(record) for record in await db.records.find(query)]


async def read_experiment(db: Database, name: str) -> Experiment:
    """An experiment, summed up from the results that are there now.

    Raises:
        RecordNotFound: There is none of this name.
    """
    return (await _read_with_results(db, name))[0]


async def _read_with_results(db: Database, name: str) -> tuple[Experiment, list[ExperimentResult]]:
    """An experiment and all of its results, of which its numbers are."""
    experiment = await read_last_summary(db, name)
    results = [result async for result in every_result(db, name)]
    return msgspec.structs.replace(experiment, summary=summary_of(results)), results


async def read_last_summary(db: Database, name: str) -> Experiment:
    """An experiment as it stood when it was last run; no result is read.

    Raises:
        RecordNotFound: There is none of this name.
    """
    return experiment_of(await db.records.get(EXPERIMENT_KIND, name))


async def read_results(
    db: Database, name: str, *, limit: int = RESULTS_PER_PAGE, after: tuple[int, str] | None = None
) -> list[ExperimentResult]:
    """Some results of an experiment, in the order of the examples."""
    query = RecordQuery(kind=RESULT_KIND, tags=(f"experiment:{name}",), limit=limit, after=after)
    return [result_of(record) for record in await db.records.find(query)]


async def every_result(db: Database, name: str) -> AsyncIterator[ExperimentResult]:
    """All results of an experiment, read page by page."""
    after: tuple[int, str] | None = None
    while page := await read_results(db, name, after=after):
        for result in page:
            yield result
        after = (page[-1].number, record_id(name, page[-1].example))


@check_arguments
async def compare_experiments(db: Database, first: str, second: str) -> Comparison:
    """Two experiments side by side.

    Raises:
        RecordNotFound: There is none of a name.
        InvalidArgument: They are not about the same data set.
    """
    (one, left), (other, right) = await _read_with_results(db, first), await _read_with_results(db, second)
    if one.plan.dataset != other.plan.dataset:
        sets = f"{one.plan.dataset!r} and {other.plan.dataset!r}"
        raise InvalidArgument(problem=f"They are about two data sets, {sets}, so nothing can be compared.")
    comparisons = compare_results(left, right)
    differences = [each.difference for each in comparisons if each.difference is not None]
    return Comparison(
        first=one,
        second=other,
        better=sum(difference > 0 for difference in differences),
        worse=sum(by < 0 for by in differences),
        same=sum(by == 0 for by in differences),
        examples=comparisons,
    )


async def drop_experiment(db: Database, name: str) -> int:
    """Delete an experiment with its results; how many there were.

    Raises:
        RecordNotFound: There is none of this name.
    """
    await read_last_summary(db, name)
    count = 0
    query = RecordQuery(kind=RESULT_KIND, tags=(f"experiment:{name}",), limit=RESULTS_PER_PAGE)
    while records := await db.records.find(query):
        await db.commit([Drop(kind=RESULT_KIND, id=record.id) for record in records])
        count += len(records)
    await db.records.drop(EXPERIMENT_KIND, name)
    return count


def experiment_record(experiment: Experiment) -> Record:
    """The record that an experiment is kept as."""
    body = {
        name: as_json(getattr(experiment, name)) for name in ("plan", "created", "status", "ended", "summary")
    }
    return Record(
        kind=EXPERIMENT_KIND, id=experiment.name, owner=experiment.owner, sort=experiment.created, body=body
    )


def experiment_of(record: Record) -> Experiment:
    """The experiment behind a record."""
    attributes = {"name": record.id, "owner": record.owner, "revision": record.revision}
    try:
        return msgspec.convert({**record.body, **attributes}, Experiment)
    except (msgspec.ValidationError, TypeError) as error:
        raise StoreDamaged(store=f"experiment {record.id!r}", problem=str(error)) from error
