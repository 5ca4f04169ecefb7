"""Running an experiment: something is asked every example of a data set, and what it answers is kept.

Each result is a record whose name says which example it is about. So whatever stops an experiment, it goes on
where it stopped when it is run again.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

import msgspec

from clew.core.arguments import check_arguments
from clew.core.encoding import encode_checked
from clew.core.errors import DeadlineExceeded, InvalidArgument, RevisionConflict
from clew.core.values import Put, Require
from clew.database.database import Database
from clew.runtime.attempts import Attempts
from clew.runtime.records.steps import problem_of
from clew.runtime.settings import now_ms
from clew.workbench.experiments import experiments, results
from clew.workbench.experiments.datasets import dataset, every_example
from clew.workbench.experiments.examples import EXAMPLE, Example, checked_name, record_id
from clew.workbench.experiments.experiments import (
    EXPERIMENT,
    Experiment,
    Plan,
    Status,
    every_result,
    experiment,
)
from clew.workbench.experiments.results import Result, Scorer, called, score_of
from clew.workbench.experiments.subjects import Answer, Subject

Left: TypeAlias = asyncio.Queue[tuple[Example, int] | None]
"""Examples that are left, each with the revision that its result must have; None is the end."""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """How an experiment is run: so many examples at once, so many seconds for each, so many of them."""

    at_once: int = 4
    seconds: float = 600.0
    limit: int | None = None
    retry_failed: bool = False
    clock: Callable[[], int] = now_ms


@check_arguments
async def run_experiment(
    db: Database,
    name: str,
    plan: Plan,
    subject: Subject,
    scorer: Scorer,
    terms: Terms | None = None,
    *,
    told: Callable[[Result], None] = lambda result: None,
) -> Experiment:
    """Ask about every example that has no result yet, and give the experiment as it stands then.

    An error of what is asked, or of the scorer, is the result of that example, and hides no other.

    Raises:
        InvalidArgument: An experiment of this name does something else.
        RecordNotFound: There is no such data set.
    """
    how = terms or Terms()
    if how.at_once < 1:
        raise InvalidArgument(problem="At least one example must be asked about at a time.")
    begun = await _begun(db, checked_name(name, "experiment"), plan, how.clock())
    try:
        is_whole = await _tried(_Trial(db, begun, subject, scorer, how, told), db, begun, how)
    except ExceptionGroup as several:
        raise several.exceptions[0] from several  # one is enough to know why it stopped
    return await _ended(db, begun, how.clock(), is_whole=is_whole)


async def _tried(trial: "_Trial", db: Database, begun: Experiment, how: Terms) -> bool:
    """Ask about all examples that are left, so many at once; whether every one had its turn."""
    queue: Left = asyncio.Queue(how.at_once)
    async with asyncio.TaskGroup() as group:
        for _ in range(how.at_once):
            group.create_task(trial.work(queue))
        is_whole = await _handed_out(db, begun, how, queue)
        for _ in range(how.at_once):
            await queue.put(None)
    return is_whole


async def _begun(db: Database, name: str, plan: Plan, now: int) -> Experiment:
    await dataset(db, plan.dataset)
    new = Experiment(name=name, plan=plan, created=now)
    with suppress(RevisionConflict):
        return experiments.experiment_of(await db.records.put(experiments.record_of(new), expect=0))
    found = experiments.experiment_of(await db.records.get(EXPERIMENT, name))
    if found.plan != plan:
        raise InvalidArgument(
            problem=f"Experiment {name!r} was begun otherwise: {_said(found.plan)}. Choose another name."
        )
    return found


def _said(plan: Plan) -> str:
    return f"{plan.subject} on data set {plan.dataset!r}, scored by {plan.scorer}"


async def _handed_out(db: Database, begun: Experiment, how: Terms, queue: Left) -> bool:
    """Hand out the examples that are left; whether every one had its turn."""
    before = {result.example: result async for result in every_result(db, begun.name)}
    seen = 0
    async for example in every_example(db, begun.plan.dataset):
        if how.limit is not None and seen >= how.limit:
            return False
        seen += 1
        known = before.get(example.id)
        if known is None:
            await queue.put((example, 0))
        elif how.retry_failed and known.error is not None:
            await queue.put((example, known.revision))
    return True


async def _ended(db: Database, begun: Experiment, now: int, *, is_whole: bool) -> Experiment:
    """Keep how an experiment stands, whoever else has done a part of it."""
    attempts = Attempts()
    while True:
        found = await experiment(db, begun.name)
        status: Status = "done" if is_whole else "unfinished"
        over = msgspec.structs.replace(found, status=status, ended=now if is_whole else None)
        try:
            await db.records.put(experiments.record_of(over), expect=found.revision)
        except RevisionConflict as conflict:
            attempts.count(conflict)
            continue
        return over


class _Trial:
    """Asks about one example after another, and keeps what comes out."""

    def __init__(
        self,
        db: Database,
        begun: Experiment,
        subject: Subject,
        scorer: Scorer,
        how: Terms,
        told: Callable[[Result], None],
    ) -> None:
        self._db = db
        self._name = begun.name
        self._dataset = begun.plan.dataset
        self._subject = subject
        self._scorer = scorer
        self._how = how
        self._told = told

    async def work(self, queue: Left) -> None:
        """Take examples until there are none."""
        while (taken := await queue.get()) is not None:
            example, revision = taken
            result = await self._result(example)
            if await self._kept(example, result, revision):
                self._told(result)

    async def _result(self, example: Example) -> Result:
        started, began = self._how.clock(), time.perf_counter()
        bare = Result(
            example=example.id,
            question=example.question,
            expected=example.expected,
            source=example.source,
            owner=example.owner,
            number=example.number,
            started=started,
        )
        try:
            answer = await self._answer(example)
        except Exception as error:  # noqa: BLE001  # what is asked is not ours; its error is its result
            return msgspec.structs.replace(bare, error=problem_of(error), ms=_ms_since(began))
        ms = _ms_since(began)
        found = msgspec.structs.replace(
            bare,
            output=answer.output,
            input_tokens=answer.usage.input_tokens,
            output_tokens=answer.usage.output_tokens,
            cost=answer.cost,
            ms=ms,
        )
        return await self._scored(example, found)

    async def _answer(self, example: Example) -> Answer:
        deadline = asyncio.timeout(self._how.seconds)
        try:
            async with deadline:
                given = await called(self._subject, example)
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise DeadlineExceeded(what=f"Example {example.id!r}", seconds=self._how.seconds) from error
        answer = given if isinstance(given, Answer) else Answer(output=msgspec.to_builtins(given))
        return msgspec.structs.replace(answer, output=encode_checked(answer.output, "output")[1])

    async def _scored(self, example: Example, found: Result) -> Result:
        try:
            score = await score_of(self._scorer, example, found.output)
            detail = encode_checked(score.detail, "detail")[1]
        except Exception as error:  # noqa: BLE001  # a scorer is not ours; its error is kept with what it could not score
            return msgspec.structs.replace(found, error=f"The scorer failed. {problem_of(error)}")
        return msgspec.structs.replace(found, score=score.score, detail=detail)

    async def _kept(self, example: Example, result: Result, revision: int) -> bool:
        """Keep a result, unless its example was erased meanwhile or somebody else was faster."""
        within = record_id(self._dataset, example.id)
        try:
            await self._db.commit(
                [
                    Require(kind=EXAMPLE, id=within, expect=example.revision),
                    Put(record=results.record_of(self._name, result), expect=revision),
                ]
            )
        except RevisionConflict:
            return False
        return True


def _ms_since(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 3)
