"""Steps of runs, data sets and experiments over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

import clew
from clew.client import AsyncClient
from clew.core.errors import InvalidArgument, RecordNotFound, ThreadNotFound
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
