"""Experiments: every example is asked once, whatever stops them, and two can be held side by side."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

import clew
from clew.core.errors import InvalidArgument, RecordNotFound, StoreUnavailable
from clew.database.database import Database
from clew.runtime.context import Context
from clew.runtime.model.protocol import Reply, Usage
from clew.runtime.records.steps import Price
from clew.runtime.state.schema import Conversation
from clew.runtime.turn.draft import Delta
from clew.testing.clock import Clock
from clew.testing.faults import FailingStore
from clew.testing.scripted_model import ScriptedModel
from clew.workbench.experiments.datasets import ExampleSelection, add_examples, drop_dataset, make_dataset
from clew.workbench.experiments.examples import Example, ExampleMessage
from clew.workbench.experiments.experiments import (
    Experiment,
    ExperimentPlan,
    compare_experiments,
    drop_experiment,
    every_result,
    read_experiment,
    read_experiments,
)
from clew.workbench.experiments.results import (
    SCORERS,
    ExperimentResult,
    ExperimentSummary,
    Score,
    exact,
    score_of,
    summary_of,
)
from clew.workbench.experiments.runner import ExperimentOptions, run_experiment
from clew.workbench.experiments.subjects import agent_subject

NOW = 1_750_000_000_000
PLAN = ExperimentPlan(dataset="sums", subject="a calculator", scorer="exact")


@pytest.fixture
async def local() -> AsyncIterator[Database]:
    """A database in memory, for what does not depend on the store."""
    async with clew.open("memory://") as database:
        yield database


def one(question: str, expected: Any = None, **more: Any) -> Example:
    return Example(
        id=question, messages=(ExampleMessage(role="user", content=question),), expected=expected, **more
    )


async def sums(db: Database, count: int = 5) -> None:
    """A data set in which every number is to be doubled."""
    examples = [one(str(number), str(2 * number)) for number in range(count)]
    await add_examples(db, "sums", examples, now=NOW)


async def double(example: Example) -> str:
    return str(2 * int(example.question))


async def all_of(db: Database, name: str = "first") -> list[ExperimentResult]:
    return [result async for result in every_result(db, name)]


@pytest.mark.promise("F-12")
async def test_every_example_is_asked_scored_and_kept(db: Database) -> None:
    await sums(db)

    async def nearly(example: Example) -> str:
        return "9" if example.question == "3" else await double(example)

    result = await run_experiment(db, "first", PLAN, nearly, exact, ExperimentOptions(clock=Clock()))

    assert [(each.question, each.output, each.score) for each in await all_of(db)] == [
        ("0", "0", 1.0),
        ("1", "2", 1.0),
        ("2", "4", 1.0),
        ("3", "9", 0.0),
        ("4", "8", 1.0),
    ]
    assert (result.status, result.summary.count, result.summary.mean) == ("done", 5, 0.8)
    assert await read_experiment(db, "first") == msgspec.structs.replace(result, revision=2)


async def test_a_model_is_asked_with_what_was_said_before(local: Database) -> None:
    thread = await local.create("t")
    await thread.append(
        items=[clew.user("Hi"), clew.assistant("Hello."), clew.user("Bye"), clew.assistant("Ciao.")]
    )
    await make_dataset(local, "sums", ExampleSelection(threads=("t",)), now=NOW)
    model = ScriptedModel("Hello.", "Ciao.")
    result = await run_experiment(
        local, "first", PLAN, agent_subject(model), exact, ExperimentOptions(at_once=1)
    )

    assert [[message.text for message in request.messages] for request in model.requests] == [
        ["Hi"],
        ["Hi", "Hello.", "Bye"],
    ]
    assert result.summary.mean == 1.0
    assert (result.summary.input_tokens, result.summary.output_tokens, result.summary.cost) == (4, 2, None)


async def test_the_stages_of_a_runtime_can_be_asked(local: Database) -> None:
    class Shout(msgspec.Struct):
        reply: str

    async def shouting(state: Conversation, ctx: Context) -> Delta:
        return {"reply": state.message.upper()}

    await add_examples(local, "sums", [one("hi", {"reply": "HI"})], now=NOW)
    subject = agent_subject(stages=[shouting], output=Shout)
    result = await run_experiment(local, "first", PLAN, subject, SCORERS["json"])

    assert result.summary.mean == 1.0


async def test_a_price_table_prices_an_experiment(local: Database) -> None:
    await sums(local, 2)
    reply = Reply(text="0", usage=Usage(calls=1, input_tokens=100, output_tokens=10))
    prices = {"scripted": Price(input=1.0, output=2.0)}
    subject = agent_subject(ScriptedModel(reply, reply), prices=prices)
    result = await run_experiment(local, "first", PLAN, subject, exact)

    assert result.summary.cost == 240


async def test_what_fails_is_a_result_and_hides_no_other(db: Database) -> None:
    await sums(db, 3)

    def moody(example: Example) -> str:
        if example.question == "1":
            raise ValueError("not today")
        return str(2 * int(example.question))

    experiment = await run_experiment(db, "first", PLAN, moody, exact)
    failures = [result for result in await all_of(db) if result.error is not None]

    assert [(each.question, each.error, each.score) for each in failures] == [
        ("1", "ValueError: not today", None)
    ]
    assert (experiment.status, experiment.summary.failed, experiment.summary.mean) == ("done", 1, 1.0)


@pytest.mark.parametrize("answer", [1.5, -1, float("nan"), "good", None, {"mark": 1}, [1]])
async def test_what_is_no_score_is_an_error_with_the_output_kept(local: Database, answer: Any) -> None:
    await sums(local, 1)
    experiment = await run_experiment(local, "first", PLAN, double, lambda example, output: answer)
    [result] = await all_of(local)

    assert (result.output, result.score) == ("0", None)
    assert (result.error or "").startswith("The scorer failed. invalid_argument: The scorer gave ")
    assert experiment.summary.failed == 1


async def test_an_output_that_cannot_be_kept_is_an_error(local: Database) -> None:
    await sums(local, 1)
    await run_experiment(local, "first", PLAN, lambda example: float("nan"), exact)
    [result] = await all_of(local)

    assert (result.error or "").startswith("invalid_value: ")


async def test_an_answer_that_takes_too_long_is_an_error(local: Database) -> None:
    await sums(local, 1)

    async def never(example: Example) -> None:
        await asyncio.Event().wait()

    await run_experiment(local, "first", PLAN, never, exact, ExperimentOptions(seconds=0.01))
    [result] = await all_of(local)

    assert result.error == "deadline_exceeded: Example '0' took longer than 0.01 s."


async def test_so_many_are_asked_at_once_and_no_more(local: Database) -> None:
    await sums(local, 12)
    busy, most = 0, 0

    async def counting(example: Example) -> str:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0)
        busy -= 1
        return "0"

    await run_experiment(local, "first", PLAN, counting, exact, ExperimentOptions(at_once=3))

    assert most == 3


async def test_none_at_once_is_refused(local: Database) -> None:
    with pytest.raises(InvalidArgument, match="At least one"):
        await run_experiment(local, "first", PLAN, double, exact, ExperimentOptions(at_once=0))


async def test_progress_is_told_result_by_result(local: Database) -> None:
    await sums(local, 3)
    questions: list[str] = []
    await run_experiment(
        local, "first", PLAN, double, exact, notify=lambda result: questions.append(result.question)
    )

    assert sorted(questions) == ["0", "1", "2"]


# Going on.


async def test_an_experiment_goes_on_where_it_stopped(db: Database) -> None:
    await sums(db)
    questions: list[str] = []

    def noting(example: Example) -> str:
        questions.append(example.question)
        return str(2 * int(example.question))

    half = await run_experiment(db, "first", PLAN, noting, exact, ExperimentOptions(limit=2))
    whole = await run_experiment(db, "first", PLAN, noting, exact)

    assert (half.status, half.summary.count, half.ended) == ("unfinished", 2, None)
    assert (whole.status, whole.summary.count, whole.summary.mean) == ("done", 5, 1.0)
    assert sorted(questions) == ["0", "1", "2", "3", "4"]


@pytest.mark.crash
@pytest.mark.promise("F-12")
async def test_a_killed_experiment_goes_on_in_another_process(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path / 'agent.db'}"
    async with clew.open(url) as db:
        await sums(db)
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.workbench.experiments.experiment_process",
        url,
        stdout=asyncio.subprocess.PIPE,
    )
    assert child.stdout is not None
    lines = [(await child.stdout.readline()).decode().strip() for _ in range(3)]
    os.kill(child.pid, signal.SIGKILL)
    await child.wait()
    async with clew.open(url) as db:
        before = await read_experiment(db, "first")
        questions: list[str] = []

        def noting(example: Example) -> str:
            questions.append(example.question)
            return str(2 * int(example.question))

        after = await run_experiment(db, "first", PLAN, noting, exact)

    assert lines == ["kept 0", "kept 1", "kept 2"]
    assert (before.status, before.summary.count) == ("unfinished", 3)
    assert (after.status, after.summary.mean, questions) == ("done", 1.0, ["3", "4"])


async def test_an_example_that_is_added_later_gets_its_turn(local: Database) -> None:
    await sums(local, 1)
    await run_experiment(local, "first", PLAN, double, exact)
    await add_examples(local, "sums", [one("7", "14")], now=NOW)
    result = await run_experiment(local, "first", PLAN, double, exact)

    assert result.summary.count == 2


async def test_failed_examples_are_asked_again_only_on_request(local: Database) -> None:
    await sums(local, 2)

    def fail(example: Example) -> str:
        raise ValueError("down")

    await run_experiment(local, "first", PLAN, fail, exact)
    same = await run_experiment(local, "first", PLAN, double, exact)
    repair = await run_experiment(local, "first", PLAN, double, exact, ExperimentOptions(retry_failed=True))

    assert (same.summary.failed, repair.summary.failed, repair.summary.mean) == (2, 0, 1.0)


async def test_two_processes_at_one_experiment_keep_one_result_each(local: Database) -> None:
    await sums(local, 20)
    experiments = await asyncio.gather(
        *(run_experiment(local, "first", PLAN, double, exact, ExperimentOptions(at_once=2)) for _ in range(3))
    )

    assert [experiment.summary.count for experiment in experiments][-1] == 20
    assert len(await all_of(local)) == 20
    assert all(result.revision == 1 for result in await all_of(local))


@pytest.mark.parametrize(
    "other",
    [
        ExperimentPlan(dataset="others", subject="a calculator", scorer="exact"),
        ExperimentPlan(dataset="sums", subject="somebody else", scorer="exact"),
        ExperimentPlan(dataset="sums", subject="a calculator", scorer="contains"),
        ExperimentPlan(
            dataset="sums", subject="a calculator", scorer="exact", settings={"instructions": "x"}
        ),
    ],
)
async def test_an_experiment_that_does_something_else_needs_another_name(
    local: Database, other: ExperimentPlan
) -> None:
    await sums(local, 1)
    await add_examples(local, "others", [one("1", "2")], now=NOW)
    await run_experiment(local, "first", PLAN, double, exact)

    with pytest.raises(InvalidArgument, match="was begun otherwise: a calculator on data set 'sums'"):
        await run_experiment(local, "first", other, double, exact)


async def test_without_its_data_set_nothing_is_begun(local: Database) -> None:
    with pytest.raises(RecordNotFound):
        await run_experiment(local, "first", PLAN, double, exact)
    assert await read_experiments(local) == []


async def test_a_store_that_fails_stops_the_experiment_and_is_told(local: Database) -> None:
    await sums(local)
    failing = Database(FailingStore(local.store, fail_at=3, only="change"))

    with pytest.raises(StoreUnavailable):
        await run_experiment(failing, "first", PLAN, double, exact, ExperimentOptions(at_once=1))
    assert len(await all_of(local)) == 1


# Side by side.


@pytest.mark.promise("F-12")
async def test_two_experiments_are_compared_example_by_example(db: Database) -> None:
    await sums(db, 4)

    def guessing(example: Example) -> str:
        if example.question == "2":
            raise ValueError("no idea")
        return "0"

    first = await run_experiment(db, "first", PLAN, guessing, exact)
    other = msgspec.structs.replace(PLAN, subject="a better one")
    await run_experiment(db, "second", other, double, exact, ExperimentOptions(limit=3))
    comparison = await compare_experiments(db, "first", "second")

    assert [(each.question, each.difference) for each in comparison.examples] == [
        ("0", 0.0),
        ("1", 1.0),
        ("2", None),
        ("3", None),
    ]
    assert (comparison.better, comparison.worse, comparison.same) == (1, 0, 1)
    assert (comparison.first.summary, comparison.second.summary.mean) == (first.summary, 1.0)
    last = comparison.examples[-1]
    assert (last.first is not None, last.second, last.expected) == (True, None, "6")


async def test_experiments_on_two_data_sets_cannot_be_compared(local: Database) -> None:
    await sums(local, 1)
    await add_examples(local, "others", [one("1", "2")], now=NOW)
    await run_experiment(local, "first", PLAN, double, exact)
    await run_experiment(local, "second", msgspec.structs.replace(PLAN, dataset="others"), double, exact)

    with pytest.raises(InvalidArgument, match="two data sets, 'sums' and 'others'"):
        await compare_experiments(local, "first", "second")


async def test_results_outlive_their_data_set(local: Database) -> None:
    await sums(local, 2)
    await run_experiment(local, "first", PLAN, double, exact)
    await drop_dataset(local, "sums")

    assert [result.expected for result in await all_of(local)] == ["0", "2"]


async def test_experiments_are_listed_newest_first_and_deleted_whole(db: Database) -> None:
    await sums(db, 2)
    clock = Clock()
    for name in ("old", "new"):
        clock.advance()
        await run_experiment(db, name, PLAN, double, exact, ExperimentOptions(clock=clock))
    experiments = await read_experiments(db)
    count = await drop_experiment(db, "old")

    assert [(experiment.name, experiment.summary.mean) for experiment in experiments] == [
        ("new", 1.0),
        ("old", 1.0),
    ]
    assert count == 2
    assert [experiment.name for experiment in await read_experiments(db)] == ["new"]
    assert await all_of(db, "old") == []


# Whose they are.


@pytest.mark.promise("B-07", "F-12")
async def test_the_erasure_of_a_person_removes_their_results(db: Database) -> None:
    for owner in ("alice", "bob"):
        thread = await db.create(f"{owner}-1", owner=owner)
        await thread.append(items=[clew.user(f"I am {owner}"), clew.assistant("Hello.")])
    await make_dataset(db, "sums", ExampleSelection(threads=("alice-1", "bob-1")), now=NOW)
    await run_experiment(db, "first", PLAN, lambda example: f"Well, {example.question}", exact)
    before = [result.output for result in await all_of(db)]
    receipt = await db.erase(owner="alice")

    assert before == ["Well, I am alice", "Well, I am bob"]
    assert [result.output for result in await all_of(db)] == ["Well, I am bob"]
    assert receipt.counts["records of kind experiment result"] == 1
    assert (await read_experiment(db, "first")).summary.count == 1


@pytest.mark.promise("B-07")
async def test_a_result_belongs_to_whom_its_example_belongs_to(db: Database) -> None:
    await add_examples(db, "sums", [one("1", "2", owner="alice"), one("2", "4")], now=NOW)
    await run_experiment(db, "first", PLAN, double, exact)
    hers = await all_of(db.scope(tenant=db.tenant, user="alice"))
    await db.erase(owner="alice")

    assert [result.question for result in hers] == ["1"]
    assert [result.question for result in await all_of(db)] == ["2"]


@pytest.mark.promise("B-07")
async def test_an_example_that_is_erased_while_it_is_asked_leaves_no_result(db: Database) -> None:
    thread = await db.create("hers", owner="alice")
    await thread.append(items=[clew.user("My secret"), clew.assistant("I see.")])
    await make_dataset(db, "sums", ExampleSelection(threads=("hers",)), now=NOW)

    async def erasing(example: Example) -> str:
        await db.erase(owner="alice")
        return f"About {example.question}"

    result = await run_experiment(db, "first", PLAN, erasing, exact)

    assert (await all_of(db), result.summary) == ([], ExperimentSummary())


# Scores and sums.


@pytest.mark.parametrize(
    ("name", "expected", "output", "score"),
    [
        ("exact", "Yes.", " Yes.\n", 1.0),
        ("exact", "Yes.", "yes.", 0.0),
        ("exact", 4, "4", 0.0),
        ("exact", {"a": 1}, {"a": 1}, 1.0),
        ("contains", "oslo", "It is Oslo, of course.", 1.0),
        ("contains", "Bergen", "It is Oslo.", 0.0),
        ("contains", 42, "The answer is 42.", 1.0),
        ("json", '{"a": 1, "b": [2]}', '{"b":[2],"a":1}', 1.0),
        ("json", {"a": 1}, '{"a": 1}', 1.0),
        ("json", {"a": 1}, '{"a": 2}', 0.0),
        ("json", "no json", "no json", 0.0),
    ],
)
async def test_the_built_in_rules(name: str, expected: Any, output: Any, score: float) -> None:
    assert (await score_of(SCORERS[name], one("q", expected), output)).score == score


class Verdict(msgspec.Struct):
    """A score of somebody else's kind."""

    score: float
    why: str


@pytest.mark.parametrize(
    ("verdict", "score"),
    [
        (True, Score(score=1.0)),
        (0.25, Score(score=0.25)),
        (Score(score=0.5, detail="half"), Score(score=0.5, detail="half")),
        ({"score": 1, "why": "good"}, Score(score=1.0, detail={"why": "good"})),
        (Verdict(score=0.5, why="so so"), Score(score=0.5, detail={"why": "so so"})),
    ],
)
async def test_a_scorer_may_say_more_than_a_number(verdict: Any, score: Score) -> None:
    async def judge(example: Example, output: Any) -> Any:
        return verdict

    assert await score_of(judge, one("q"), "a") == score


def test_a_summary_counts_what_is_known() -> None:
    times = [ExperimentResult(example=str(ms), score=1.0, cost=10, ms=float(ms)) for ms in range(1, 101)]
    whole = summary_of(times)
    partly = summary_of([*times, ExperimentResult(example="x", error="down", ms=9_999.0)])

    assert (whole.p50_ms, whole.p95_ms, whole.cost) == (50.0, 95.0, 1000)
    assert (partly.failed, partly.p95_ms, partly.mean, partly.cost) == (1, 95.0, 1.0, None)
    assert summary_of([]) == ExperimentSummary()


async def test_an_experiment_is_kept_as_it_is(local: Database) -> None:
    await sums(local, 1)
    result = await run_experiment(
        local, "first", msgspec.structs.replace(PLAN, settings={"instructions": "Be brief."}), double, exact
    )
    [experiment] = await read_experiments(local)

    assert isinstance(experiment, Experiment)
    assert experiment.plan == result.plan
