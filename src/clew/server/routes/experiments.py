"""Data sets and experiments over HTTP: to look at. They are made and run at the command line, or in Python.

Operators see those of the whole tenant, and a look at what people said is in the audit; others see their own.
"""

from typing import Annotated

import msgspec
from litestar import get
from litestar.params import FromPath, QueryParameter

from clew.api.experiments import (
    ComparedView,
    ComparisonView,
    DatasetPage,
    DatasetView,
    ExamplePage,
    ExampleView,
    ExperimentPage,
    ExperimentView,
    ResultPage,
    ResultView,
)
from clew.core.encoding import plain
from clew.core.errors import Forbidden
from clew.database.database import Database
from clew.server.http import audit
from clew.server.http.callers import Caller, Calling, named
from clew.server.routes.threads import Cursor, Limit
from clew.workbench.experiments import datasets, experiments
from clew.workbench.experiments.examples import record_id

Name = Annotated[str, QueryParameter(min_length=1, max_length=128, description="An experiment.")]


@get("/datasets", operation_id="list_datasets")
async def list_datasets(caller: Calling, limit: Limit = 50, cursor: Cursor = None) -> DatasetPage:
    """Data sets, the newest first."""
    db, _ = _seen(caller)
    after = caller.position(cursor, tuple[int, str], "datasets")
    found = await datasets.datasets(db, limit=limit + 1, after=after)
    shown = found[:limit]
    more = [shown[-1].created, shown[-1].name] if len(found) > limit else None
    return DatasetPage(
        datasets=[msgspec.convert(plain(each), DatasetView) for each in shown],
        next=caller.cursor(more, "datasets") if more is not None else None,
    )


@get("/datasets/{name:str}/examples", operation_id="list_examples")
async def list_examples(
    name: FromPath[str], caller: Calling, limit: Limit = 50, cursor: Cursor = None
) -> ExamplePage:
    """The examples of a data set, in order. For operators, a look at them is in the audit."""
    db, list_of = await _looking(caller, "read data set"), f"examples\0{name}"
    name = named(name)
    await datasets.dataset(db, name)
    after = caller.position(cursor, tuple[int, str], list_of)
    found = await datasets.examples(db, name, limit=limit + 1, after=after)
    shown = found[:limit]
    more = [shown[-1].number, record_id(name, shown[-1].id)] if len(found) > limit else None
    return ExamplePage(
        dataset=name,
        examples=[msgspec.convert(plain(each), ExampleView) for each in shown],
        next=caller.cursor(more, list_of) if more is not None else None,
    )


@get("/experiments", operation_id="list_experiments")
async def list_experiments(caller: Calling, limit: Limit = 50, cursor: Cursor = None) -> ExperimentPage:
    """Experiments, the newest first, as they stood when they were last run."""
    db, _ = _seen(caller)
    after = caller.position(cursor, tuple[int, str], "experiments")
    found = await experiments.experiments(db, limit=limit + 1, after=after)
    shown = found[:limit]
    more = [shown[-1].created, shown[-1].name] if len(found) > limit else None
    return ExperimentPage(
        experiments=[msgspec.convert(plain(each), ExperimentView) for each in shown],
        next=caller.cursor(more, "experiments") if more is not None else None,
    )


@get("/experiments/{name:str}", operation_id="get_experiment")
async def get_experiment(name: FromPath[str], caller: Calling) -> ExperimentView:
    """An experiment, summed up from the results that are there now."""
    db, _ = _seen(caller)
    return msgspec.convert(plain(await experiments.experiment(db, named(name))), ExperimentView)


@get("/experiments/{name:str}/results", operation_id="list_results")
async def list_results(
    name: FromPath[str], caller: Calling, limit: Limit = 50, cursor: Cursor = None
) -> ResultPage:
    """The results of an experiment, in order. For operators, a look at them is in the audit."""
    db, list_of = await _looking(caller, "read experiment"), f"results\0{name}"
    name = named(name)
    await experiments.last_run(db, name)
    after = caller.position(cursor, tuple[int, str], list_of)
    found = await experiments.results(db, name, limit=limit + 1, after=after)
    shown = found[:limit]
    more = [shown[-1].number, record_id(name, shown[-1].example)] if len(found) > limit else None
    return ResultPage(
        experiment=name,
        results=[msgspec.convert(plain(each), ResultView) for each in shown],
        next=caller.cursor(more, list_of) if more is not None else None,
    )


@get("/comparisons", operation_id="compare_experiments")
async def compare_experiments(
    caller: Calling,
    first: Name,
    second: Name,
    everything: Annotated[bool, QueryParameter(description="Also examples with the same score.")] = False,  # noqa: FBT002 - a query
    limit: Limit = 50,
    cursor: Cursor = None,
) -> ComparisonView:
    """Two experiments side by side: their numbers, and the examples whose scores differ."""
    db = await _looking(caller, "read experiment")
    list_of = f"comparison\0{msgspec.json.encode([first, second, everything]).decode()}"
    begin = caller.position(cursor, int, list_of) or 0
    found = await experiments.compare(db, first, second)
    rows = [each for each in found.examples if everything or each.difference != 0]
    more = begin + limit if begin + limit < len(rows) else None
    return ComparisonView(
        first=msgspec.convert(plain(found.first), ExperimentView),
        second=msgspec.convert(plain(found.second), ExperimentView),
        better=found.better,
        worse=found.worse,
        same=found.same,
        examples=[msgspec.convert(plain(each), ComparedView) for each in rows[begin : begin + limit]],
        next=caller.cursor(more, list_of) if more is not None else None,
    )


def _seen(caller: Caller) -> tuple[Database, bool]:
    """What a caller sees, and whether that is the whole tenant's: the role admin sees it all."""
    try:
        return caller.operating(), True
    except Forbidden:
        return caller.db, False


async def _looking(caller: Caller, action: str) -> Database:
    """What a caller sees, to look at what people said."""
    db, is_whole = _seen(caller)
    if is_whole:
        await audit.note(db, caller.identity, action)
    return db


EXPERIMENTS = [
    list_datasets,
    list_examples,
    list_experiments,
    get_experiment,
    list_results,
    compare_experiments,
]
