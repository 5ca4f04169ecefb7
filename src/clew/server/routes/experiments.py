"""Data sets and experiments over HTTP: to look at. They are made and run at the command line, or in Python.

Operators see those of the whole tenant, and a look at what people said is in the audit; others see their own.
"""

from typing import Annotated, Any

import msgspec
from litestar.params import FromPath, QueryParameter

from clew.api.experiments import (
    COMPARE_EXPERIMENTS,
    GET_EXPERIMENT,
    LIST_DATASETS,
    LIST_EXAMPLES,
    LIST_EXPERIMENTS,
    LIST_RESULTS,
    ComparisonView,
    DatasetPage,
    DatasetView,
    ExampleComparisonView,
    ExamplePage,
    ExampleView,
    ExperimentPage,
    ExperimentResultPage,
    ExperimentResultView,
    ExperimentView,
)
from clew.api.route import Route
from clew.core.encoding import as_json
from clew.core.errors import Forbidden
from clew.database.database import Database
from clew.server.http import audit
from clew.server.http.callers import Caller, CurrentCaller
from clew.server.http.endpoint import endpoint
from clew.server.http.parameters import Cursor, Limit
from clew.server.http.paths import decode_path_part
from clew.workbench.experiments import datasets, experiments
from clew.workbench.experiments.examples import record_id

ExperimentName = Annotated[str, QueryParameter(min_length=1, max_length=128, description="An experiment.")]


@endpoint(LIST_DATASETS)
async def list_datasets(caller: CurrentCaller, limit: Limit = 50, cursor: Cursor = None) -> DatasetPage:
    """List data sets, the newest first."""
    db, _ = _visible_database(caller)
    pages = caller.pages(cursor, tuple[int, str], "datasets")
    rows = await datasets.read_datasets(db, limit=limit + 1, after=pages.start)
    page, next = pages.cut(rows, limit, lambda row: [row.created, row.name])
    return DatasetPage(
        datasets=[msgspec.convert(as_json(each), DatasetView) for each in page],
        next=next,
    )


@endpoint(LIST_EXAMPLES)
async def list_examples(
    name: FromPath[str], caller: CurrentCaller, limit: Limit = 50, cursor: Cursor = None
) -> ExamplePage:
    """List the examples of a data set, in order. For operators, a look at them is in the audit."""
    db = await _database_to_read(caller, LIST_EXAMPLES)
    name = decode_path_part(name)
    await datasets.read_dataset(db, name)
    pages = caller.pages(cursor, tuple[int, str], "examples", name)
    rows = await datasets.read_examples(db, name, limit=limit + 1, after=pages.start)
    page, next = pages.cut(rows, limit, lambda row: [row.number, record_id(name, row.id)])
    return ExamplePage(
        dataset=name,
        examples=[msgspec.convert(as_json(each), ExampleView) for each in page],
        next=next,
    )


@endpoint(LIST_EXPERIMENTS)
async def list_experiments(caller: CurrentCaller, limit: Limit = 50, cursor: Cursor = None) -> ExperimentPage:
    """List experiments, the newest first, as they stood when they were last run."""
    db, _ = _visible_database(caller)
    pages = caller.pages(cursor, tuple[int, str], "experiments")
    rows = await experiments.read_experiments(db, limit=limit + 1, after=pages.start)
    page, next = pages.cut(rows, limit, lambda row: [row.created, row.name])
    return ExperimentPage(
        experiments=[msgspec.convert(as_json(each), ExperimentView) for each in page],
        next=next,
    )


@endpoint(GET_EXPERIMENT)
async def get_experiment(name: FromPath[str], caller: CurrentCaller) -> ExperimentView:
    """Return an experiment, summed up from the results that are there now."""
    db, _ = _visible_database(caller)
    return msgspec.convert(
        as_json(await experiments.read_experiment(db, decode_path_part(name))), ExperimentView
    )


@endpoint(LIST_RESULTS)
async def list_results(
    name: FromPath[str], caller: CurrentCaller, limit: Limit = 50, cursor: Cursor = None
) -> ExperimentResultPage:
    """List the results of an experiment, in order. For operators, a look at them is in the audit."""
    db = await _database_to_read(caller, LIST_RESULTS)
    name = decode_path_part(name)
    await experiments.read_last_summary(db, name)
    pages = caller.pages(cursor, tuple[int, str], "results", name)
    rows = await experiments.read_results(db, name, limit=limit + 1, after=pages.start)
    page, next = pages.cut(rows, limit, lambda row: [row.number, record_id(name, row.example)])
    return ExperimentResultPage(
        experiment=name,
        results=[msgspec.convert(as_json(each), ExperimentResultView) for each in page],
        next=next,
    )


@endpoint(COMPARE_EXPERIMENTS)
async def compare_experiments(
    caller: CurrentCaller,
    first: ExperimentName,
    second: ExperimentName,
    everything: Annotated[bool, QueryParameter(description="Also examples with the same score.")] = False,  # noqa: FBT002 - a query
    limit: Limit = 50,
    cursor: Cursor = None,
) -> ComparisonView:
    """Compare two experiments: their numbers, and the examples whose scores differ."""
    db = await _database_to_read(caller, COMPARE_EXPERIMENTS)
    pages = caller.pages(cursor, int, "comparison", first, second, everything)
    start = pages.start or 0
    comparison = await experiments.compare_experiments(db, first, second)
    rows = [each for each in comparison.examples if everything or each.difference != 0]
    return ComparisonView(
        first=msgspec.convert(as_json(comparison.first), ExperimentView),
        second=msgspec.convert(as_json(comparison.second), ExperimentView),
        better=comparison.better,
        worse=comparison.worse,
        same=comparison.same,
        examples=[
            msgspec.convert(as_json(each), ExampleComparisonView) for each in rows[start : start + limit]
        ],
        next=pages.cursor(start + limit if start + limit < len(rows) else None),
    )


def _visible_database(caller: Caller) -> tuple[Database, bool]:
    """Return the database as a caller sees it, and whether that is the whole tenant's, as for an admin."""
    try:
        return caller.tenant_database(), True
    except Forbidden:
        return caller.db, False


async def _database_to_read(caller: Caller, route: Route[Any]) -> Database:
    """Return the database as a caller sees it, to read what people said; an admin's look is audited."""
    db, is_tenant = _visible_database(caller)
    if is_tenant:
        await audit.record_action(db, caller.identity, route.audit)
    return db


EXPERIMENT_ROUTES = [
    list_datasets,
    list_examples,
    list_experiments,
    get_experiment,
    list_results,
    compare_experiments,
]
