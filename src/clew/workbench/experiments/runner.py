"""Running an experiment: something is asked every example of a data set, and what it answers is kept.

Each result is a record whose name says which example it is about. So whatever stops an experiment, it goes on
where it stopped when it is run again.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

import msgspec

from clew.core.arguments import check_arguments
from clew.core.clock import now_ms
from clew.core.encoding import encode_checked
from clew.core.errors import DeadlineExceeded, InvalidArgument, RevisionConflict
from clew.core.values import Put, Require
from clew.database.database import Database
from clew.runtime.attempts import Attempts
from clew.runtime.records.steps import problem_of
from clew.workbench.experiments import experiments, results
from clew.workbench.experiments.datasets import every_example, read_dataset
from clew.workbench.experiments.examples import EXAMPLE_KIND, Example, check_name, example_of, record_id
from clew.workbench.experiments.experiments import (
    EXPERIMENT_KIND,
    Experiment,
    ExperimentPlan,
    ExperimentStatus,
    every_result,
    read_experiment,
)
from clew.workbench.experiments.results import ExperimentResult, Scorer, call_function, score_of
from clew.workbench.experiments.subjects import ExperimentSubject, SubjectAnswer

ExampleQueue: TypeAlias = asyncio.Queue[tuple[Example, int] | None]
"""Examples that are left, each with the revision that its result must have; None is the end."""


class ExperimentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a run: examples at once, seconds for each, and their number."""

    at_once: int = 4
    seconds: float = 600.0
    limit: int | None = None
    retry_failed: bool = False
    clock: Callable[[], int] = now_ms


@check_arguments
async def run_experiment(
    db: Database,
    name: str,
    plan: ExperimentPlan,
    subject: ExperimentSubject,
    scorer: Scorer,
    options: ExperimentOptions | None = None,
    *,
    notify: Callable[[ExperimentResult], None] = lambda result: None,
) -> Experiment:
    """Ask about every example that has no result yet, and return the experiment as it is then.

    An error of what is asked, or of the scorer, is the result of that example, and hides no other.

    Raises:
        InvalidArgument: An experiment of this name does something else.
        RecordNotFound: There is no such data set.
    """
    options = options or ExperimentOptions()
    if options.at_once < 1:
        raise InvalidArgument(problem="At least one example must be asked about at a time.")
    experiment = await _start_experiment(db, check_name(name, "experiment"), plan, options.clock())
    try:
        is_complete = await _run_workers(
            _ExampleWorker(db, experiment, subject, scorer, options, notify), db, experiment, options
        )
    except ExceptionGroup as several:
        raise several.exceptions[0] from several  # one is enough to know why it stopped
    return await _finish_experiment(db, experiment, options.clock(), is_complete=is_complete)


@check_arguments
async def save_results(
    db: Database, name: str, plan: ExperimentPlan, new: Sequence[ExperimentResult], *, now: int
) -> Experiment:
    """Store results that another program came to, in place of earlier ones; return the experiment then.

    Of each only what came out is taken; question, source and owner are its example's. The experiment is done
    once every example has a result.

    Raises:
        InvalidArgument: An experiment of this name does something else.
        RecordNotFound: There is no such data set, or it has no such example.
        RevisionConflict: Another writer stored a result of the same example at the same moment.
    """
    experiment = await _start_experiment(db, check_name(name, "experiment"), plan, now)
    earlier = {result.example: result.revision async for result in every_result(db, name)}
    for result in new:
        record = await db.records.get(EXAMPLE_KIND, record_id(plan.dataset, result.example))
        example = example_of(record)
        whole = msgspec.structs.replace(
            result,
            question=example.question,
            expected=example.expected,
            source=example.source,
            owner=example.owner,
            number=example.number,
        )
        revision = earlier.get(result.example, 0)
        required = Require(kind=EXAMPLE_KIND, id=record.id, expect=record.revision)
        await db.commit([required, Put(record=results.result_record(name, whole), expect=revision)])
    with_result = {result.example async for result in every_result(db, name)}
    is_complete = all([example.id in with_result async for example in every_example(db, plan.dataset)])
    return await _finish_experiment(db, experiment, now, is_complete=is_complete)


async def _run_workers(
    worker: "_ExampleWorker", db: Database, experiment: Experiment, options: ExperimentOptions
) -> bool:
    """Ask about all examples that are left, so many at once; whether every one had its turn."""
    queue: ExampleQueue = asyncio.Queue(options.at_once)
    async with asyncio.TaskGroup() as group:
        for _ in range(options.at_once):
            group.create_task(worker.work(queue))
        is_complete = await _enqueue_examples(db, experiment, options, queue)
        for _ in range(options.at_once):
            await queue.put(None)
    return is_complete


async def _start_experiment(db: Database, name: str, plan: ExperimentPlan, now: int) -> Experiment:
    await read_dataset(db, plan.dataset)
    new = Experiment(name=name, plan=plan, created=now)
    with suppress(RevisionConflict):
        return experiments.experiment_of(await db.records.put(experiments.experiment_record(new), expect=0))
    earlier = experiments.experiment_of(await db.records.get(EXPERIMENT_KIND, name))
    if earlier.plan != plan:
        raise InvalidArgument(
            problem=f"Experiment {name!r} was begun otherwise: {_describe_plan(earlier.plan)}. "
            "Choose another name."
        )
    return earlier


def _describe_plan(plan: ExperimentPlan) -> str:
    return f"{plan.subject} on data set {plan.dataset!r}, scored by {plan.scorer}"


async def _enqueue_examples(
    db: Database, experiment: Experiment, options: ExperimentOptions, queue: ExampleQueue
) -> bool:
    """Hand out the examples that are left; whether every one had its turn."""
    results_by_example = {result.example: result async for result in every_result(db, experiment.name)}
    count = 0
    async for example in every_example(db, experiment.plan.dataset):
        if options.limit is not None and count >= options.limit:
            return False
        count += 1
        earlier = results_by_example.get(example.id)
        if earlier is None:
            await queue.put((example, 0))
        elif options.retry_failed and earlier.error is not None:
            await queue.put((example, earlier.revision))
    return True


async def _finish_experiment(
    db: Database, experiment: Experiment, now: int, *, is_complete: bool
) -> Experiment:
    """Store the progress of an experiment, also where another process has done a part of it."""
    attempts = Attempts()
    while True:
        current = await read_experiment(db, experiment.name)
        status: ExperimentStatus = "done" if is_complete else "unfinished"
        final = msgspec.structs.replace(current, status=status, ended=now if is_complete else None)
        try:
            await db.records.put(experiments.experiment_record(final), expect=current.revision)
        except RevisionConflict as conflict:
            attempts.count(conflict)
            continue
        return final


class _ExampleWorker:
    """Asks about one example after another, and keeps what comes out."""

    def __init__(
        self,
        db: Database,
        experiment: Experiment,
        subject: ExperimentSubject,
        scorer: Scorer,
        options: ExperimentOptions,
        notify: Callable[[ExperimentResult], None],
    ) -> None:
        self._db = db
        self._name = experiment.name
        self._dataset = experiment.plan.dataset
        self._subject = subject
        self._scorer = scorer
        self._options = options
        self._notify = notify

    async def work(self, queue: ExampleQueue) -> None:
        """Take examples until there are none."""
        while (entry := await queue.get()) is not None:
            example, revision = entry
            result = await self._run_example(example)
            if await self._store_result(example, result, revision):
                self._notify(result)

    async def _run_example(self, example: Example) -> ExperimentResult:
        start_time, start = self._options.clock(), time.perf_counter()
        blank = ExperimentResult(
            example=example.id,
            question=example.question,
            expected=example.expected,
            source=example.source,
            owner=example.owner,
            number=example.number,
            started=start_time,
        )
        try:
            answer = await self._ask_subject(example)
        except Exception as error:  # noqa: BLE001  # what is asked is not ours; its error is its result
            return msgspec.structs.replace(blank, error=problem_of(error), ms=_milliseconds_since(start))
        ms = _milliseconds_since(start)
        result = msgspec.structs.replace(
            blank,
            output=answer.output,
            input_tokens=answer.usage.input_tokens,
            output_tokens=answer.usage.output_tokens,
            cost=answer.cost,
            ms=ms,
        )
        return await self._score_result(example, result)

    async def _ask_subject(self, example: Example) -> SubjectAnswer:
        deadline = asyncio.timeout(self._options.seconds)
        try:
            async with deadline:
                output = await call_function(self._subject, example)
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise DeadlineExceeded(what=f"Example {example.id!r}", seconds=self._options.seconds) from error
        answer = (
            output if isinstance(output, SubjectAnswer) else SubjectAnswer(output=msgspec.to_builtins(output))
        )
        return msgspec.structs.replace(answer, output=encode_checked(answer.output, "output")[1])

    async def _score_result(self, example: Example, result: ExperimentResult) -> ExperimentResult:
        try:
            score = await score_of(self._scorer, example, result.output)
            detail = encode_checked(score.detail, "detail")[1]
        except Exception as error:  # noqa: BLE001  # a scorer is not ours; its error is kept with what it could not score
            return msgspec.structs.replace(result, error=f"The scorer failed. {problem_of(error)}")
        return msgspec.structs.replace(result, score=score.score, detail=detail)

    async def _store_result(self, example: Example, result: ExperimentResult, revision: int) -> bool:
        """Store a result, unless its example was erased meanwhile or another process was faster."""
        example_record_id = record_id(self._dataset, example.id)
        try:
            await self._db.commit(
                [
                    Require(kind=EXAMPLE_KIND, id=example_record_id, expect=example.revision),
                    Put(record=results.result_record(self._name, result), expect=revision),
                ]
            )
        except RevisionConflict:
            return False
        return True


def _milliseconds_since(start: float) -> float:
    return round((time.perf_counter() - start) * 1000, 3)
