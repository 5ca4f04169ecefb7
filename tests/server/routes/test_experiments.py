"""Steps of runs, data sets and experiments over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import msgspec
import pytest

import clew
from clew.api.experiments import (
    ExampleMessageView,
    ExperimentPlanView,
    NewExample,
    NewExamples,
    NewExperimentResult,
)
from clew.client import AsyncClient
from clew.core.errors import InvalidArgument, InvalidInput, RecordNotFound, ThreadNotFound
from clew.server.app import create_app
from clew.server.identity.identity import Authenticate, Identity
from clew.server.settings import ServerSettings
from clew.workbench.experiments.datasets import ExampleSelection, add_examples, make_dataset
from clew.workbench.experiments.examples import Example, ExampleMessage
from clew.workbench.experiments.experiments import ExperimentPlan
from clew.workbench.experiments.results import exact
from clew.workbench.experiments.runner import run_experiment
from tests.server.conftest import Users, clients_of, over_http

NOW = 1_750_000_000_000


def by_headers(tenant: str) -> Authenticate:
    """Lets everybody in as the user and with the roles that they say."""

    async def authenticate(headers: Mapping[str, str]) -> Identity:
        return Identity(
            tenant=tenant,
            user=headers["x-clew-user"],
            workspace="default",
            roles=frozenset({headers["x-roles"]}),
            scopes=frozenset({"read"}),
        )

    return authenticate


@pytest.fixture
async def local() -> AsyncIterator[clew.Database]:
    """A database in memory, for what does not depend on the store."""
    async with clew.open("memory://") as database:
        yield database


@pytest.fixture
async def ada(local: clew.Database) -> AsyncIterator[AsyncClient]:
    """A user of a server on it."""
    async with clients_of(local) as clients:
        yield clients("ada")


async def add_experiments(db: clew.Database, count: int = 3) -> None:
    """A data set, and two experiments on it: one that repeats what it hears, and one that knows."""
    examples = [
        Example(
            id=f"e{number}",
            messages=(ExampleMessage(role="user", content=str(number)),),
            expected=str(number * 2),
        )
        for number in range(count)
    ]
    await add_examples(db, "sums", examples, now=NOW)
    plan = ExperimentPlan(dataset="sums", subject="an echo", scorer="exact")
    await run_experiment(db, "first", plan, lambda example: example.question, exact)
    better = ExperimentPlan(dataset="sums", subject="a calculator", scorer="exact")
    await run_experiment(db, "second", better, lambda example: example.expected, exact)


@pytest.mark.promise("F-12")
async def test_a_run_tells_its_steps(alice: AsyncClient) -> None:
    result = await alice.run_turn("t", "Hi")
    steps = await alice.steps(result.run)

    assert (steps.run, steps.thread) == (result.run, "t")
    assert [step.kind for step in steps.steps] == ["model", "output"]
    assert all(step.ended >= step.started for step in steps.steps)
    assert [step.cost for step in steps.steps] == [None, None]


async def test_the_steps_of_a_run_are_not_there_for_others(users: Users, alice: AsyncClient) -> None:
    result = await alice.run_turn("t", "Hi")

    with pytest.raises(RecordNotFound):
        await users("bob").steps(result.run)


async def test_the_steps_of_a_deleted_thread_are_gone_with_it(ada: AsyncClient) -> None:
    result = await ada.run_turn("t", "Hi")
    await ada.delete_thread("t")

    with pytest.raises((ThreadNotFound, RecordNotFound)):
        await ada.steps(result.run)


@pytest.mark.promise("F-12")
async def test_data_sets_and_their_examples_come_page_by_page(alice: AsyncClient, db: clew.Database) -> None:
    await add_experiments(db)
    [dataset] = (await alice.datasets()).datasets
    first = await alice.examples("sums", limit=2)
    rest = await alice.examples("sums", limit=2, cursor=first.next)

    assert (dataset.name, dataset.added) == ("sums", 3)
    assert [each.expected for each in (*first.examples, *rest.examples)] == ["0", "2", "4"]
    assert rest.next is None


# What is written over HTTP.


QUESTIONS = [
    NewExample(input="Norway?", expected="Oslo", id="n"),
    NewExample(messages=[ExampleMessageView(role="user", content="Italy?")], expected="Rome", id="i"),
]
PLAN = ExperimentPlanView(dataset="capitals", subject="a guess", scorer="exact")


@pytest.mark.promise("F-12")
async def test_a_data_set_is_made_of_examples_and_threads_and_deleted(alice: AsyncClient) -> None:
    await alice.run_turn("t", "Peru?")
    first = await alice.add_examples("capitals", NewExamples(examples=QUESTIONS, threads=["t"]))
    again = await alice.add_examples("capitals", NewExamples(examples=QUESTIONS[:1], threads=["t"]))
    examples = (await alice.examples("capitals")).examples
    await alice.delete_dataset("capitals")

    assert (first.added, first.known, again.added, again.known) == (3, 0, 0, 2)
    assert {each.messages[-1].content for each in examples} == {"Norway?", "Italy?", "Peru?"}
    assert {each.owner for each in examples} == {"alice"}
    assert (await alice.datasets()).datasets == []


@pytest.mark.promise("F-12")
async def test_an_experiment_that_runs_at_a_client_is_stored_compared_and_deleted(alice: AsyncClient) -> None:
    await alice.add_examples("capitals", NewExamples(examples=QUESTIONS))
    right = NewExperimentResult(example="n", output="Oslo", score=1.0, input_tokens=3, cost=7, ms=12.5)
    begun = await alice.save_results("first", PLAN, [right])
    wrong = NewExperimentResult(example="i", error="It did not know.")
    done = await alice.save_results("first", PLAN, [wrong])
    better = NewExperimentResult(example="i", output="Rome", score=0.5)
    await alice.save_results("second", PLAN, [msgspec.structs.replace(right, score=0.0), better])
    corrected = await alice.save_results("second", PLAN, [msgspec.structs.replace(right, score=0.25)])
    results = (await alice.results("first")).results
    comparison = await alice.compare("first", "second", everything=True)
    await alice.delete_experiment("first")

    assert (begun.status, done.status) == ("unfinished", "done")
    assert (done.summary.count, done.summary.failed) == (2, 1)
    assert [(each.question, each.expected, each.score) for each in results] == [
        ("Norway?", "Oslo", 1.0),
        ("Italy?", "Rome", None),
    ]
    assert (corrected.summary.count, corrected.summary.mean) == (2, 0.375)
    assert (comparison.better, comparison.worse) == (0, 1)
    assert [each.name for each in (await alice.experiments()).experiments] == ["second"]


@pytest.mark.parametrize(
    ("plan", "result", "error"),
    [
        (PLAN, {"example": "n", "score": 1.5}, InvalidInput),
        (PLAN, {"example": "n", "owner": "bob"}, InvalidInput),
        (PLAN, {"example": "none"}, RecordNotFound),
        (msgspec.structs.replace(PLAN, dataset="none"), {"example": "n"}, RecordNotFound),
        (msgspec.structs.replace(PLAN, subject="another"), {"example": "n"}, InvalidArgument),
    ],
    ids=["no score", "an owner", "no example", "no data set", "another plan"],
)
async def test_results_that_belong_to_nothing_are_refused(
    local: clew.Database, plan: ExperimentPlanView, result: dict[str, object], error: type[clew.ClewError]
) -> None:
    body = {"plan": msgspec.to_builtins(plan), "results": [result]}
    async with clients_of(local) as clients:
        ada, address = clients("ada"), "/api/v1/experiments/first/results"
        await ada.add_examples("capitals", NewExamples(examples=QUESTIONS))
        await ada.save_results("first", PLAN, [])
        reply = await clients.http.post(address, json=body, headers=clients.headers("ada"))
        results = (await ada.results("first")).results

    assert (reply.json()["code"], results) == (error.code, [])


async def test_nothing_to_add_is_refused_and_makes_no_data_set(ada: AsyncClient) -> None:
    with pytest.raises(InvalidArgument):
        await ada.add_examples("empty", NewExamples())
    with pytest.raises(ThreadNotFound):
        await ada.add_examples("empty", NewExamples(examples=QUESTIONS, threads=["none"]))

    assert (await ada.datasets()).datasets == []


async def test_what_others_have_is_neither_added_to_nor_deleted(users: Users, alice: AsyncClient) -> None:
    await alice.add_examples("capitals", NewExamples(examples=QUESTIONS))
    await alice.save_results("first", PLAN, [])
    bob = users("bob")
    calls = [bob.delete_dataset("capitals"), bob.delete_experiment("first"), bob.save_results("x", PLAN, [])]
    for call in calls:
        with pytest.raises(RecordNotFound):
            await call
    with pytest.raises(InvalidArgument):
        await bob.add_examples("capitals", NewExamples(examples=QUESTIONS))

    assert len((await alice.examples("capitals")).examples) == 2
    assert (await alice.experiment("first")).status == "unfinished"


@pytest.mark.promise("F-12")
async def test_an_experiment_is_listed_shown_and_compared(alice: AsyncClient, db: clew.Database) -> None:
    await add_experiments(db)
    page = await alice.experiments(limit=1)
    experiment = await alice.experiment("second")
    results = await alice.results("first", limit=2)
    comparison = await alice.compare("first", "second")

    assert (len(page.experiments), page.next is not None) == (1, True)
    assert (experiment.status, experiment.summary.mean, experiment.plan.subject) == (
        "done",
        1.0,
        "a calculator",
    )
    assert [(each.output, each.score) for each in results.results] == [("0", 1.0), ("1", 0.0)]
    assert (comparison.better, comparison.worse, comparison.same) == (2, 0, 1)
    assert [each.example for each in comparison.examples] == ["e1", "e2"]


async def test_a_comparison_comes_page_by_page(ada: AsyncClient, local: clew.Database) -> None:
    await add_experiments(local, 5)
    ids: list[str] = []
    cursor: str | None = None
    while True:
        page = await ada.compare("first", "second", everything=True, limit=2, cursor=cursor)
        ids += [each.example for each in page.examples]
        cursor = page.next
        if cursor is None:
            break

    assert ids == ["e0", "e1", "e2", "e3", "e4"]


async def test_experiments_on_two_data_sets_are_refused(ada: AsyncClient, local: clew.Database) -> None:
    await add_experiments(local)
    other = Example(id="x", messages=(ExampleMessage(role="user", content="x"),))
    await add_examples(local, "others", [other], now=NOW)
    plan = ExperimentPlan(dataset="others", subject="an echo", scorer="exact")
    await run_experiment(local, "third", plan, lambda example: example.question, exact)

    with pytest.raises(InvalidArgument):
        await ada.compare("first", "third")


async def test_a_member_sees_what_was_made_of_their_own_and_an_admin_all_of_it(db: clew.Database) -> None:
    for who in ("alice", "bob"):
        thread = await db.create(f"{who}-1", owner=who)
        await thread.append(items=[clew.user(f"I am {who}"), clew.assistant("Hello.")])
    await make_dataset(db, "all", ExampleSelection(threads=("alice-1", "bob-1")), now=NOW)
    mine = db.scope(tenant=db.tenant, user="alice")
    await make_dataset(mine, "mine", ExampleSelection(threads=("alice-1",)), now=NOW + 1)
    async with clients_of(db, authenticate=by_headers(db.tenant)) as users:
        alice, ada = (
            AsyncClient("http://server", http=users.http, headers={"X-Clew-User": who, "X-Roles": roles})
            for who, roles in (("alice", "member"), ("ada", "admin"))
        )
        datasets = {
            who: [each.name for each in (await client.datasets()).datasets]
            for who, client in (("alice", alice), ("ada", ada))
        }
        with pytest.raises(RecordNotFound):
            await alice.examples("all")
        everybody = [each.owner for each in (await ada.examples("all")).examples]
        actions = [entry.action for entry in (await ada.operator.audit()).entries]

    assert datasets == {"alice": ["mine"], "ada": ["mine", "all"]}
    assert (everybody, actions) == (["alice", "bob"], ["read data set"])


@pytest.mark.parametrize("name", ["nothing", "a/b"])
async def test_what_is_not_there_is_not_found(ada: AsyncClient, name: str) -> None:
    with pytest.raises(RecordNotFound):
        await ada.experiment(name)
    with pytest.raises(RecordNotFound):
        await ada.results(name)
    with pytest.raises(RecordNotFound):
        await ada.examples(name)


async def test_a_server_prices_what_its_companion_does(local: clew.Database, tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    file.write_text('{"offline": {"input": 0, "output": 0}}', encoding="utf-8")
    app = create_app(ServerSettings(sweep_seconds=3600, prices=str(file)), db=local)
    async with over_http(app, local) as users:
        alice = users("alice")
        result = await alice.run_turn("t", "Hi", user="alice")
        steps = (await alice.steps(result.run)).steps

    assert "retrieval" in [step.kind for step in steps]
    assert {step.cost for step in steps if step.kind == "model"} == {0}
