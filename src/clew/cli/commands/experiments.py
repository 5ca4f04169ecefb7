"""Commands about experiments: run one on a data set, look at its results, compare two."""

import importlib
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from clew.cli.command import CommandCall, CommandResult
from clew.cli.commands.threads import Limit
from clew.cli.render import experiments as render_experiments
from clew.cli.render.values import clean, quantity
from clew.core.errors import InvalidArgument
from clew.runtime.records.steps import read_prices
from clew.workbench.experiments import datasets, experiments
from clew.workbench.experiments.experiments import Experiment, ExperimentPlan
from clew.workbench.experiments.results import SCORERS, Scorer
from clew.workbench.experiments.runner import ExperimentOptions, run_experiment
from clew.workbench.experiments.subjects import ExperimentSubject, agent_subject

Name = Annotated[str, typer.Argument(metavar="NAME", help="The experiment's name.")]
DatasetName = Annotated[str, typer.Option("--dataset", metavar="NAME", help="The data set to ask about.")]
Model = Annotated[str | None, typer.Option("--model", metavar="PROVIDER:NAME", help="A model that answers.")]
Agent = Annotated[
    str | None, typer.Option("--agent", metavar="MODULE:FUNCTION", help="A function that answers an example.")
]
ScorerName = Annotated[
    str, typer.Option("--scorer", metavar="RULE", help="exact, contains, json, or MODULE:FUNCTION.")
]
Instructions = Annotated[
    str, typer.Option("--instructions", metavar="TEXT", help="Instructions for the model.")
]
PriceFile = Annotated[
    Path | None,
    typer.Option(
        "--prices", envvar="CLEW_PRICES", metavar="FILE", help="What models cost; no price, no cost."
    ),
]
Concurrency = Annotated[
    int, typer.Option("--at-once", metavar="N", min=1, max=256, help="So many at a time.")
]
Seconds = Annotated[float, typer.Option("--seconds", metavar="S", min=0.001, help="So long for an example.")]
RunLimit = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Only the first so many.")]
RetryOption = Annotated[bool, typer.Option("--retry-failed", help="Ask again where it failed before.")]
AtLeast = Annotated[
    float, typer.Option("--at-least", metavar="MEAN", min=0, max=1, help="End with 1 below this mean score.")
]


async def run(
    call: CommandCall,
    name: Name,
    *,
    dataset: DatasetName,
    model: Model = None,
    agent: Agent = None,
    scorer: ScorerName = "exact",
    instructions: Instructions = "",
    prices: PriceFile = None,
    at_once: Concurrency = 4,
    seconds: Seconds = 600.0,
    limit: RunLimit = None,
    retry_failed: RetryOption = False,
    at_least: AtLeast = 0.0,
) -> CommandResult:
    """Ask a model or an agent about every example, and score it.

    What was asked before is not asked again: an experiment that was stopped goes on where it stopped. An
    error is a result, and hides no other.

    Example: clew experiments run first --dataset greetings --model openai:gpt-5 --scorer contains
    """
    settings = {"instructions": instructions} if instructions else {}
    plan = ExperimentPlan(dataset=dataset, subject=agent or model or "", scorer=scorer, settings=settings)
    terms = ExperimentOptions(at_once=at_once, seconds=seconds, limit=limit, retry_failed=retry_failed)
    scorer_function = SCORERS.get(scorer) or import_function(scorer)
    async with open_subject(model, agent, instructions, prices) as subject:
        experiment = await _run_with_progress(call, name, plan, subject, scorer_function, terms)
    is_good = experiment.summary.mean is not None and experiment.summary.mean >= at_least
    return CommandResult(
        value=experiment, display=render_experiments.experiment_detail(experiment), ok=is_good or not at_least
    )


async def list_(call: CommandCall, limit: Limit = 50) -> CommandResult:
    """List experiments, the newest first.

    Example: clew experiments list
    """
    async with call.database() as db:
        listing = await experiments.read_experiments(db, limit=limit)
    return CommandResult(value={"experiments": listing}, display=render_experiments.experiment_table(listing))


async def show(call: CommandCall, name: Name, limit: Limit = 20) -> CommandResult:
    """Show an experiment: its numbers, and its first results.

    Example: clew experiments show first --limit 100
    """
    async with call.database() as db:
        experiment = await experiments.read_experiment(db, name)
        results = await experiments.read_results(db, name, limit=limit)
    value = {"experiment": experiment, "results": render_experiments.result_values(results)}
    return CommandResult(value=value, display=render_experiments.experiment_detail(experiment, results))


async def compare(
    call: CommandCall,
    first: Annotated[str, typer.Argument(metavar="A", help="An experiment.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another on the same data set.")],
    *,
    everything: Annotated[bool, typer.Option("--all", help="Also examples with the same score.")] = False,
) -> CommandResult:
    """Hold two experiments side by side.

    The numbers of both come first, then the examples whose scores differ.

    Example: clew experiments compare first second
    """
    async with call.database() as db:
        comparison = await experiments.compare_experiments(db, first, second)
    value = render_experiments.comparison_value(comparison, everything=everything)
    return CommandResult(
        value=value, display=render_experiments.comparison_detail(comparison, everything=everything)
    )


async def delete(call: CommandCall, name: Name) -> CommandResult:
    """Delete an experiment with its results.

    Example: clew experiments delete first
    """
    async with call.database() as db:
        count = await experiments.drop_experiment(db, name)
    display = Text(f"{clean(name)} is deleted, with {quantity(count, 'result')}.")
    return CommandResult(value={"experiment": name, "results": count}, display=display)


async def _run_with_progress(
    call: CommandCall,
    name: str,
    plan: ExperimentPlan,
    subject: ExperimentSubject,
    scorer: Scorer,
    terms: ExperimentOptions,
) -> Experiment:
    async with call.database() as db:
        total = (await datasets.read_dataset(db, plan.dataset)).added
        with call.progress("Examples", min(total, terms.limit or total)) as advance:
            return await run_experiment(
                db, name, plan, subject, scorer, terms, notify=lambda result: advance(1)
            )


@asynccontextmanager
async def open_subject(
    model: str | None, agent: str | None, instructions: str, prices: Path | None
) -> AsyncIterator[ExperimentSubject]:
    """Open the subject of an experiment: a provider's model, or a function of yours.

    Raises:
        InvalidArgument: Neither is named, or both.
    """
    if (model is None) == (agent is None):
        raise InvalidArgument(problem="Say what is asked: a model (--model) or an agent (--agent).")
    if agent is not None:
        yield import_function(agent)
        return
    from clew.runtime.model.provider import ProviderModel

    async with ProviderModel(model or "") as provider_model:
        yield agent_subject(provider_model, instructions=instructions, prices=read_prices(prices))


def import_function(name: str) -> Callable[..., Any]:
    """A function by ``module:function``, looked for where the command is run too.

    Raises:
        InvalidArgument: It cannot be had.
    """
    module, _, attribute = name.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        function: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidArgument(problem=f"{name!r} cannot be imported: {error}.") from error
    if not callable(function):
        raise InvalidArgument(problem=f"{name!r} is no function.")
    return function
