"""Commands about experiments: run one on a data set, look at its results, compare two."""

import importlib
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from clew.cli.command import Answer, Call
from clew.cli.commands.threads import Limit
from clew.cli.render import experiments as render_experiments
from clew.cli.render.values import clean, some
from clew.core.errors import InvalidArgument
from clew.runtime.records.steps import prices_at
from clew.workbench.experiments import datasets, experiments
from clew.workbench.experiments.experiments import Experiment, Plan
from clew.workbench.experiments.results import SCORERS, Scorer
from clew.workbench.experiments.runner import Terms, run_experiment
from clew.workbench.experiments.subjects import Subject, asked

Name = Annotated[str, typer.Argument(metavar="NAME", help="The experiment's name.")]
DatasetName = Annotated[str, typer.Option("--dataset", metavar="NAME", help="The data set to ask about.")]
Model = Annotated[str | None, typer.Option("--model", metavar="PROVIDER:NAME", help="A model that answers.")]
Agent = Annotated[
    str | None, typer.Option("--agent", metavar="MODULE:FUNCTION", help="A function that answers an example.")
]
Scoring = Annotated[
    str, typer.Option("--scorer", metavar="RULE", help="exact, contains, json, or MODULE:FUNCTION.")
]
Instructions = Annotated[str, typer.Option("--instructions", metavar="TEXT", help="What the model is told.")]
PriceFile = Annotated[
    Path | None,
    typer.Option(
        "--prices", envvar="CLEW_PRICES", metavar="FILE", help="What models cost; no price, no cost."
    ),
]
AtOnce = Annotated[int, typer.Option("--at-once", metavar="N", min=1, max=256, help="So many at a time.")]
Seconds = Annotated[float, typer.Option("--seconds", metavar="S", min=0.001, help="So long for an example.")]
Most = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Only the first so many.")]
Again = Annotated[bool, typer.Option("--retry-failed", help="Ask again where it failed before.")]
AtLeast = Annotated[
    float, typer.Option("--at-least", metavar="MEAN", min=0, max=1, help="End with 1 below this mean score.")
]


async def run(
    call: Call,
    name: Name,
    *,
    dataset: DatasetName,
    model: Model = None,
    agent: Agent = None,
    scorer: Scoring = "exact",
    instructions: Instructions = "",
    prices: PriceFile = None,
    at_once: AtOnce = 4,
    seconds: Seconds = 600.0,
    limit: Most = None,
    retry_failed: Again = False,
    at_least: AtLeast = 0.0,
) -> Answer:
    """Ask a model or an agent about every example, and score it.

    What was asked before is not asked again: an experiment that was stopped goes on where it stopped. An
    error is a result, and hides no other.

    Example: clew experiments run first --dataset greetings --model openai:gpt-5 --scorer contains
    """
    settings = {"instructions": instructions} if instructions else {}
    plan = Plan(dataset=dataset, subject=agent or model or "", scorer=scorer, settings=settings)
    terms = Terms(at_once=at_once, seconds=seconds, limit=limit, retry_failed=retry_failed)
    rule = SCORERS.get(scorer) or imported(scorer)
    async with subject_of(model, agent, instructions, prices) as subject:
        done = await _ran(call, name, plan, subject, rule, terms)
    is_good = done.summary.mean is not None and done.summary.mean >= at_least
    return Answer(value=done, shown=render_experiments.experiment(done), ok=is_good or not at_least)


async def list_(call: Call, limit: Limit = 50) -> Answer:
    """List experiments, the newest first.

    Example: clew experiments list
    """
    async with call.database() as db:
        found = await experiments.experiments(db, limit=limit)
    return Answer(value={"experiments": found}, shown=render_experiments.experiments(found))


async def show(call: Call, name: Name, limit: Limit = 20) -> Answer:
    """Show an experiment: its numbers, and its first results.

    Example: clew experiments show first --limit 100
    """
    async with call.database() as db:
        found = await experiments.experiment(db, name)
        results = await experiments.results(db, name, limit=limit)
    value = {"experiment": found, "results": render_experiments.result_values(results)}
    return Answer(value=value, shown=render_experiments.experiment(found, results))


async def compare(
    call: Call,
    first: Annotated[str, typer.Argument(metavar="A", help="An experiment.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another on the same data set.")],
    *,
    everything: Annotated[bool, typer.Option("--all", help="Also examples with the same score.")] = False,
) -> Answer:
    """Hold two experiments side by side.

    The numbers of both come first, then the examples whose scores differ.

    Example: clew experiments compare first second
    """
    async with call.database() as db:
        found = await experiments.compare(db, first, second)
    value = render_experiments.comparison_value(found, everything=everything)
    return Answer(value=value, shown=render_experiments.comparison(found, everything=everything))


async def delete(call: Call, name: Name) -> Answer:
    """Delete an experiment with its results.

    Example: clew experiments delete first
    """
    async with call.database() as db:
        count = await experiments.drop_experiment(db, name)
    shown = Text(f"{clean(name)} is deleted, with {some(count, 'result')}.")
    return Answer(value={"experiment": name, "results": count}, shown=shown)


async def _ran(
    call: Call, name: str, plan: Plan, subject: Subject, scorer: Scorer, terms: Terms
) -> Experiment:
    async with call.database() as db:
        total = (await datasets.dataset(db, plan.dataset)).added
        with call.progress("Examples", min(total, terms.limit or total)) as advance:
            return await run_experiment(
                db, name, plan, subject, scorer, terms, told=lambda result: advance(1)
            )


@asynccontextmanager
async def subject_of(
    model: str | None, agent: str | None, instructions: str, prices: Path | None
) -> AsyncIterator[Subject]:
    """What is asked: a provider's model, or a function of yours.

    Raises:
        InvalidArgument: Neither is named, or both.
    """
    if (model is None) == (agent is None):
        raise InvalidArgument(problem="Say what is asked: a model (--model) or an agent (--agent).")
    if agent is not None:
        yield imported(agent)
        return
    from clew.runtime.model.provider import ProviderModel

    async with ProviderModel(model or "") as made:
        yield asked(made, instructions=instructions, prices=prices_at(prices))


def imported(name: str) -> Callable[..., Any]:
    """A function by ``module:function``, looked for where the command is run too.

    Raises:
        InvalidArgument: It cannot be had.
    """
    module, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidArgument(problem=f"{name!r} cannot be imported: {error}.") from error
    if not callable(found):
        raise InvalidArgument(problem=f"{name!r} is no function.")
    return found
