"""Data sets and experiments over HTTP. Their results are stored here; the experiment itself runs elsewhere.

Operators see those of the whole tenant, and a look at what people said is in the audit; others see their own.
Everybody writes and deletes their own alone.
"""

from typing import Annotated, Any

import msgspec
from litestar.params import FromPath, JSONBody, QueryParameter

from clew.api.experiments import (
    ADD_EXAMPLES,
    COMPARE_EXPERIMENTS,
    DELETE_DATASET,
    DELETE_EXPERIMENT,
    GET_EXPERIMENT,
    LIST_DATASETS,
    LIST_EXAMPLES,
    LIST_EXPERIMENTS,
    LIST_RESULTS,
    SAVE_RESULTS,
    AdditionView,
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
    NewExamples,
    NewExperimentResults,
)
from clew.api.route import Route
from clew.core.clock import now_ms
from clew.core.encoding import as_json
from clew.core.errors import Forbidden, InvalidArgument
from clew.database.database import Database
from clew.server.http import audit
from clew.server.http.callers import Caller, CurrentCaller
from clew.server.http.endpoint import endpoint
from clew.server.http.parameters import Cursor, Limit
from clew.server.http.paths import decode_path_part
from clew.workbench.experiments import datasets, experiments
from clew.workbench.experiments.datasets import ExampleSelection
from clew.workbench.experiments.examples import Example, ExampleLine, example_from_line, record_id
from clew.workbench.experiments.experiments import ExperimentPlan
from clew.workbench.experiments.results import ExperimentResult
from clew.workbench.experiments.runner import save_results as store_results

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


@endpoint(ADD_EXAMPLES)
async def add_examples(
    name: FromPath[str], data: JSONBody[NewExamples], caller: CurrentCaller
) -> AdditionView:
    """Put examples into a data set, which is made if it is not there: as they are, and from threads.

    An example belongs to the caller, or to the owner of its thread. One that is there already stays.
    """
    name, now = decode_path_part(name), now_ms()
    examples = [
        _own_example(as_json(each), number, caller.identity.user)
        for number, each in enumerate(data.examples, start=1)
    ]
    additions = []
    if data.threads or data.label is not None or data.search is not None:
        additions.append(await datasets.make_dataset(caller.db, name, _selection_of(data), now=now))
    if examples:
        additions.append(await datasets.add_examples(caller.db, name, examples, now=now))
    if not additions:
        raise InvalidArgument(problem="Send examples, or say which threads: by id, by label, or by words.")
    return AdditionView(
        dataset=msgspec.convert(as_json(additions[-1].dataset), DatasetView),
        added=sum(each.added for each in additions),
        known=sum(each.known for each in additions),
    )


def _selection_of(data: NewExamples) -> ExampleSelection:
    return ExampleSelection(
        threads=tuple(data.threads),
        label=data.label,
        search=data.search,
        from_version=data.from_version,
        window=data.window,
        limit=data.limit,
    )


def _own_example(fields: Any, number: int, user: str | None) -> Example:
    """Return an example that a caller sends, as their own."""
    example = example_from_line(msgspec.convert(fields, ExampleLine), f"Example {number}")
    return msgspec.structs.replace(example, owner=user)


@endpoint(DELETE_DATASET)
async def delete_dataset(name: FromPath[str], caller: CurrentCaller) -> None:
    """Delete a data set with its examples. Results of experiments on it stay."""
    await datasets.drop_dataset(caller.db, decode_path_part(name))


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


@endpoint(SAVE_RESULTS)
async def save_results(
    name: FromPath[str], data: JSONBody[NewExperimentResults], caller: CurrentCaller
) -> ExperimentView:
    """Store results of an experiment that runs elsewhere, in place of earlier ones of the same examples.

    The first request begins it. It is done once every example of its data set has a result.
    """
    plan = msgspec.convert(as_json(data.plan), ExperimentPlan)
    results = [msgspec.convert(as_json(each), ExperimentResult) for each in data.results]
    experiment = await store_results(caller.db, decode_path_part(name), plan, results, now=now_ms())
    return msgspec.convert(as_json(experiment), ExperimentView)


@endpoint(DELETE_EXPERIMENT)
async def delete_experiment(name: FromPath[str], caller: CurrentCaller) -> None:
    """Delete an experiment with its results."""
    await experiments.drop_experiment(caller.db, decode_path_part(name))


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
    add_examples,
    delete_dataset,
    list_experiments,
    get_experiment,
    list_results,
    save_results,
    delete_experiment,
    compare_experiments,
]
