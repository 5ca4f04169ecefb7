"""Views of data sets and experiments. Pure."""

from collections.abc import Iterable, Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from clew.cli.render.runs import ERROR_STYLE, UNKNOWN, dollars, duration
from clew.cli.render.values import clean, empty_details, empty_table, quantity, shorten, utc_time
from clew.core.encoding import JSON
from clew.workbench.experiments.datasets import AdditionResult, Dataset
from clew.workbench.experiments.examples import Example
from clew.workbench.experiments.experiments import Comparison, Experiment
from clew.workbench.experiments.results import ExampleComparison, ExperimentResult, ExperimentSummary


def addition_text(addition: AdditionResult) -> Text:
    """The result of adding examples to a data set."""
    origin = f" from {quantity(addition.threads, 'thread')}" if addition.threads else ""
    repeats = f" It had {addition.known:,} more of them already." if addition.known else ""
    return Text(
        f"{quantity(addition.added, 'example')}{origin} added to {clean(addition.dataset.name)}.{repeats}"
    )


def dataset_table(datasets: Sequence[Dataset]) -> RenderableType:
    """Data sets, one line each."""
    if not datasets:
        return Text("There are no data sets here.")
    table = empty_table("data set", "added", "made (UTC)", right=["added"], fold=["data set"])
    for each in datasets:
        table.add_row(Text(clean(each.name)), str(each.added), utc_time(each.created))
    return table


def example_table(dataset: Dataset, examples: Sequence[Example]) -> RenderableType:
    """The first examples of a data set."""
    table = empty_table("example", "asked", "expected", "from", fold=["asked", "expected"])
    for each in examples:
        source = "" if each.source is None else f"{each.source.thread} v{each.source.version}"
        cells = [each.id, shorten(each.question, 80), shorten(each.expected, 80), shorten(source, 30)]
        table.add_row(*(Text(clean(cell)) for cell in cells))
    count = quantity(dataset.added, "example")
    head = f"{clean(dataset.name)}: {count} added, since {utc_time(dataset.created)} UTC."
    return Group(Text(head), table if examples else Text("It has no examples."))


def experiment_table(experiments: Sequence[Experiment]) -> RenderableType:
    """Experiments, one line each."""
    if not experiments:
        return Text("There are no experiments here.")
    right = ["results", "failed", "score"]
    table = empty_table("experiment", "data set", "asked", "status", *right, right=right, fold=["experiment"])
    for each in experiments:
        cells = [each.name, each.plan.dataset, each.plan.subject, each.status]
        numbers = [str(each.summary.count), str(each.summary.failed), score_text(each.summary.mean)]
        table.add_row(*(Text(clean(cell)) for cell in cells), *map(Text, numbers))
    return table


def experiment_detail(experiment: Experiment, results: Sequence[ExperimentResult] = ()) -> RenderableType:
    """All about an experiment, then results."""
    details = empty_details()
    details.add_row("experiment", clean(experiment.name))
    details.add_row("asked", Text(clean(experiment.plan.subject)))
    details.add_row("data set", clean(experiment.plan.dataset))
    details.add_row("scored by", Text(clean(experiment.plan.scorer)))
    details.add_row("status", experiment.status)
    for name, value in summary_rows(experiment.summary):
        details.add_row(name, value)
    return Group(details, Text(), _result_table(results)) if results else details


def summary_rows(summary: ExperimentSummary) -> list[tuple[str, str]]:
    """A summary as names and values."""
    return [
        ("results", str(summary.count)),
        ("failed", str(summary.failed)),
        ("score", score_text(summary.mean)),
        ("tokens", f"{summary.input_tokens} in, {summary.output_tokens} out"),
        ("cost", dollars(summary.cost)),
        ("half within", _duration_or_dash(summary.p50_ms)),
        ("95% within", _duration_or_dash(summary.p95_ms)),
    ]


def _duration_or_dash(ms: float | None) -> str:
    return UNKNOWN if ms is None else duration(ms)


def score_text(value: float | None) -> str:
    """A score as one reads it; a dash if there is none."""
    return UNKNOWN if value is None else f"{value:.3f}"


def _result_table(results: Sequence[ExperimentResult]) -> RenderableType:
    table = empty_table(
        "score", "asked", "expected", "answered", "took", right=["score", "took"], fold=["answered"]
    )
    for each in results:
        cells = [score_text(each.score), shorten(each.question, 40), shorten(each.expected, 40)]
        table.add_row(*map(Text, cells), answer_text(each), duration(each.ms))
    return table


def answer_text(result: ExperimentResult | None) -> Text:
    """The answer, or the error."""
    if result is None:
        return Text(UNKNOWN, style="dim")
    if result.error is not None:
        return Text(shorten(result.error, 80), style=ERROR_STYLE)
    return Text(shorten(result.output, 80))


def comparison_detail(comparison: Comparison, *, everything: bool = False) -> RenderableType:
    """Two experiments side by side: their numbers, then the examples that differ."""
    names = [clean(comparison.first.name), clean(comparison.second.name)]
    if names[0] == names[1]:
        names[1] = f"{names[1]} "
    totals = empty_table("", *names, right=names)
    pairs = zip(summary_rows(comparison.first.summary), summary_rows(comparison.second.summary), strict=True)
    for (name, one), (_, other) in pairs:
        totals.add_row(name, one, other)
    summary = f"{comparison.better} better, {comparison.worse} worse, {comparison.same} the same."
    rows = examples_to_show(comparison, everything=everything)
    return Group(totals, Text(), Text(summary), Text(), _difference_table(names, rows) if rows else Text())


def _difference_table(names: Sequence[str], rows: Iterable[ExampleComparison]) -> RenderableType:
    table = empty_table("change", "asked", "expected", *names, right=["change"], fold=names)
    for each in rows:
        change = UNKNOWN if each.difference is None else f"{each.difference:+.3f}"
        style = "" if not each.difference else "green" if each.difference > 0 else "red"
        cells = [Text(shorten(each.question, 40)), Text(shorten(each.expected, 40))]
        table.add_row(Text(change, style=style), *cells, answer_text(each.first), answer_text(each.second))
    return table


def examples_to_show(comparison: Comparison, *, everything: bool) -> list[ExampleComparison]:
    """The examples that are shown: those that differ, or all."""
    return [each for each in comparison.examples if everything or each.difference != 0]


def result_values(results: Sequence[ExperimentResult]) -> list[dict[str, JSON]]:
    """Results as JSON, with all that is known and all that is not."""
    return [_result_value(each) for each in results]


def _result_value(result: ExperimentResult | ExampleComparison) -> dict[str, JSON]:
    private_fields = ("revision", "number")
    names = [name for name in result.__struct_fields__ if name not in private_fields]
    return {name: msgspec.to_builtins(getattr(result, name)) for name in names}


def comparison_value(comparison: Comparison, *, everything: bool) -> dict[str, JSON]:
    """A comparison as JSON."""
    fields: dict[str, JSON] = {
        name: msgspec.to_builtins(getattr(comparison, name))
        for name in ("first", "second", "better", "worse", "same")
    }
    return {
        **fields,
        "examples": [_result_value(each) for each in examples_to_show(comparison, everything=everything)],
    }
