"""Data sets and experiments over HTTP: to look at. They are made and run at the command line, or in Python.

Operators see those of the whole tenant, and a look at what people said is in the audit; others see their own.
"""

from typing import Annotated

import msgspec
from litestar import get
from litestar.params import FromPath, QueryParameter

from clew.api.experiments import (
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
from clew.core.encoding import as_json
from clew.core.errors import Forbidden
from clew.database.database import Database
from clew.server.http import audit
from clew.server.http.callers import Caller, CurrentCaller, decode_path_part
from clew.server.routes.threads import Cursor, Limit
from clew.workbench.experiments import datasets, experiments
from clew.workbench.experiments.examples import record_id

ExperimentName = Annotated[str, QueryParameter(min_length=1, max_length=128, description="An experiment.")]


@get("/datasets", operation_id="list_datasets")
async def list_datasets(caller: CurrentCaller, limit: Limit = 50, cursor: Cursor = None) -> DatasetPage:
    """Data sets, the newest first."""
    db, _ = _visible_database(caller)
    after = caller.position(cursor, tuple[int, str], "datasets")
    rows = await datasets.read_datasets(db, limit=limit + 1, after=after)
    page = rows[:limit]
    position = [page[-1].created, page[-1].name] if len(rows) > limit else None
    return DatasetPage(
        datasets=[msgspec.convert(as_json(each), DatasetView) for each in page],
        next=caller.cursor(position, "datasets") if position is not None else None,
    )


@get("/datasets/{name:str}/examples", operation_id="list_examples")
async def list_examples(
    name: FromPath[str], caller: CurrentCaller, limit: Limit = 50, cursor: Cursor = None
) -> ExamplePage:
    """The examples of a data set, in order. For operators, a look at them is in the audit."""
    db, list_name = await _database_to_read(caller, "read data set"), f"examples\0{name}"
    name = decode_path_part(name)
    await datasets.read_dataset(db, name)
    after = caller.position(cursor, tuple[int, str], list_name)
    rows = await datasets.read_examples(db, name, limit=limit + 1, after=after)
    page = rows[:limit]
    position = [page[-1].number, record_id(name, page[-1].id)] if len(rows) > limit else None
    return ExamplePage(
        dataset=name,
        examples=[msgspec.convert(as_json(each), ExampleView) for each in page],
        next=caller.cursor(position, list_name) if position is not None else None,
    )


@get("/experiments", operation_id="list_experiments")
async def list_experiments(caller: CurrentCaller, limit: Limit = 50, cursor: Cursor = None) -> ExperimentPage:
    """Experiments, the newest first, as they stood when they were last run."""
    db, _ = _visible_database(caller)
    after = caller.position(cursor, tuple[int, str], "experiments")
    rows = await experiments.read_experiments(db, limit=limit + 1, after=after)
    page = rows[:limit]
    position = [page[-1].created, page[-1].name] if len(rows) > limit else None
    return ExperimentPage(
        experiments=[msgspec.convert(as_json(each), ExperimentView) for each in page],
        next=caller.cursor(position, "experiments") if position is not None else None,
    )


@get("/experiments/{name:str}", operation_id="get_experiment")
async def get_experiment(name: FromPath[str], caller: CurrentCaller) -> ExperimentView:
    """An experiment, summed up from the results that are there now."""
    db, _ = _visible_database(caller)
    return msgspec.convert(
        as_json(await experiments.read_experiment(db, decode_path_part(name))), ExperimentView
    )


@get("/experiments/{name:str}/results", operation_id="list_results")
async def list_results(
    name: FromPath[str], caller: CurrentCaller, limit: Limit = 50, cursor: Cursor = None
) -> ExperimentResultPage:
    """The results of an experiment, in order. For operators, a look at them is in the audit."""
    db, list_name = await _database_to_read(caller, "read experiment"), f"results\0{name}"
    name = decode_path_part(name)
    await experiments.read_last_summary(db, name)
    after = caller.position(cursor, tuple[int, str], list_name)
    rows = await experiments.read_results(db, name, limit=limit + 1, after=after)
    page = rows[:limit]
    position = [page[-1].number, record_id(name, page[-1].example)] if len(rows) > limit else None
    return ExperimentResultPage(
        experiment=name,
        results=[msgspec.convert(as_json(each), ExperimentResultView) for each in page],
        next=caller.cursor(position, list_name) if position is not None else None,
    )


@get("/comparisons", operation_id="compare_experiments")
async def compare_experiments(
    caller: CurrentCaller,
    first: ExperimentName,
    second: ExperimentName,
    everything: Annotated[bool, QueryParameter(description="Also examples with the same score.")] = False,  # noqa: FBT002 - a query
    limit: Limit = 50,
    cursor: Cursor = None,
) -> ComparisonView:
    """Two experiments side by side: their numbers, and the examples whose scores differ."""
    db = await _database_to_read(caller, "read experiment")
    list_name = f"comparison\0{msgspec.json.encode([first, second, everything]).decode()}"
    start = caller.position(cursor, int, list_name) or 0
    comparison = await experiments.compare_experiments(db, first, second)
    rows = [each for each in comparison.examples if everything or each.difference != 0]
    position = start + limit if start + limit < len(rows) else None
    return ComparisonView(
        first=msgspec.convert(as_json(comparison.first), ExperimentView),
        second=msgspec.convert(as_json(comparison.second), ExperimentView),
        better=comparison.better,
        worse=comparison.worse,
        same=comparison.same,
        examples=[
            msgspec.convert(as_json(each), ExampleComparisonView) for each in rows[start : start + limit]
        ],
        next=caller.cursor(position, list_name) if position is not None else None,
    )


def _visible_database(caller: Caller) -> tuple[Database, bool]:
    """What a caller sees, and whether that is the whole tenant's: the role admin sees it all."""
    try:
        return caller.tenant_database(), True
    except Forbidden:
        return caller.db, False


async def _database_to_read(caller: Caller, action: str) -> Database:
    """What a caller sees, to look at what people said."""
    db, is_tenant = _visible_database(caller)
    if is_tenant:
        await audit.record_action(db, caller.identity, action)
    return db


EXPERIMENT_ROUTES = [
    list_datasets,
    list_examples,
    list_experiments,
    get_experiment,
    list_results,
    compare_experiments,
]
