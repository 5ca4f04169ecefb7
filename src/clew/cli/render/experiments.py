"""How data sets and experiments look. Pure."""

from collections.abc import Iterable, Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from clew.cli.render.runs import UNKNOWN, WRONG, money, took
from clew.cli.render.values import clean, facts, short, some, table, when
from clew.core.encoding import JSON
from clew.workbench.experiments.datasets import Dataset, Made
from clew.workbench.experiments.examples import Example
from clew.workbench.experiments.experiments import Comparison, Experiment
from clew.workbench.experiments.results import Compared, Result, Summary


def made(done: Made) -> Text:
    """What was put into a data set."""
    of = f" from {some(done.threads, 'thread')}" if done.threads else ""
    before = f" It had {done.known:,} more of them already." if done.known else ""
    return Text(f"{some(done.added, 'example')}{of} added to {clean(done.dataset.name)}.{before}")


def datasets(found: Sequence[Dataset]) -> RenderableType:
    """Data sets, one line each."""
    if not found:
        return Text("There are no data sets here.")
    shown = table("data set", "added", "made (UTC)", right=["added"], fold=["data set"])
    for each in found:
        shown.add_row(Text(clean(each.name)), str(each.added), when(each.created))
    return shown


def examples(found: Dataset, told: Sequence[Example]) -> RenderableType:
    """The first examples of a data set."""
    shown = table("example", "asked", "expected", "from", fold=["asked", "expected"])
    for each in told:
        source = "" if each.source is None else f"{each.source.thread} v{each.source.version}"
        cells = [each.id, short(each.question, 80), short(each.expected, 80), short(source, 30)]
        shown.add_row(*(Text(clean(cell)) for cell in cells))
    head = f"{clean(found.name)}: {some(found.added, 'example')} added, since {when(found.created)} UTC."
    return Group(Text(head), shown if told else Text("It has no examples."))


def experiments(found: Sequence[Experiment]) -> RenderableType:
    """Experiments, one line each."""
    if not found:
        return Text("There are no experiments here.")
    right = ["results", "failed", "score"]
    shown = table("experiment", "data set", "asked", "status", *right, right=right, fold=["experiment"])
    for each in found:
        cells = [each.name, each.plan.dataset, each.plan.subject, each.status]
        numbers = [str(each.summary.count), str(each.summary.failed), score(each.summary.mean)]
        shown.add_row(*(Text(clean(cell)) for cell in cells), *map(Text, numbers))
    return shown


def experiment(found: Experiment, told: Sequence[Result] = ()) -> RenderableType:
    """All about an experiment, then results."""
    shown = facts()
    shown.add_row("experiment", clean(found.name))
    shown.add_row("asked", Text(clean(found.plan.subject)))
    shown.add_row("data set", clean(found.plan.dataset))
    shown.add_row("scored by", Text(clean(found.plan.scorer)))
    shown.add_row("status", found.status)
    for name, value in numbers(found.summary):
        shown.add_row(name, value)
    return Group(shown, Text(), _results(told)) if told else shown


def numbers(summary: Summary) -> list[tuple[str, str]]:
    """A summary as names and values."""
    return [
        ("results", str(summary.count)),
        ("failed", str(summary.failed)),
        ("score", score(summary.mean)),
        ("tokens", f"{summary.input_tokens} in, {summary.output_tokens} out"),
        ("cost", money(summary.cost)),
        ("half within", _time(summary.p50_ms)),
        ("95% within", _time(summary.p95_ms)),
    ]


def _time(ms: float | None) -> str:
    return UNKNOWN if ms is None else took(ms)


def score(value: float | None) -> str:
    """A score as one reads it; a dash if there is none."""
    return UNKNOWN if value is None else f"{value:.3f}"


def _results(told: Sequence[Result]) -> RenderableType:
    shown = table(
        "score", "asked", "expected", "answered", "took", right=["score", "took"], fold=["answered"]
    )
    for each in told:
        cells = [score(each.score), short(each.question, 40), short(each.expected, 40)]
        shown.add_row(*map(Text, cells), answered(each), took(each.ms))
    return shown


def answered(result: Result | None) -> Text:
    """What was answered, or what went wrong."""
    if result is None:
        return Text(UNKNOWN, style="dim")
    if result.error is not None:
        return Text(short(result.error, 80), style=WRONG)
    return Text(short(result.output, 80))


def comparison(found: Comparison, *, everything: bool = False) -> RenderableType:
    """Two experiments side by side: their numbers, then the examples that differ."""
    names = [clean(found.first.name), clean(found.second.name)]
    if names[0] == names[1]:
        names[1] = f"{names[1]} "
    totals = table("", *names, right=names)
    pairs = zip(numbers(found.first.summary), numbers(found.second.summary), strict=True)
    for (name, one), (_, other) in pairs:
        totals.add_row(name, one, other)
    told = f"{found.better} better, {found.worse} worse, {found.same} the same."
    rows = shown_of(found, everything=everything)
    return Group(totals, Text(), Text(told), Text(), _differences(names, rows) if rows else Text())


def _differences(names: Sequence[str], rows: Iterable[Compared]) -> RenderableType:
    shown = table("change", "asked", "expected", *names, right=["change"], fold=names)
    for each in rows:
        change = UNKNOWN if each.difference is None else f"{each.difference:+.3f}"
        style = "" if not each.difference else "green" if each.difference > 0 else "red"
        cells = [Text(short(each.question, 40)), Text(short(each.expected, 40))]
        shown.add_row(Text(change, style=style), *cells, answered(each.first), answered(each.second))
    return shown


def shown_of(found: Comparison, *, everything: bool) -> list[Compared]:
    """The examples that are shown: those that differ, or all."""
    return [each for each in found.examples if everything or each.difference != 0]


def result_values(told: Sequence[Result]) -> list[dict[str, JSON]]:
    """Results as JSON, with all that is known and all that is not."""
    return [_value(each) for each in told]


def _value(told: Result | Compared) -> dict[str, JSON]:
    hidden = ("revision", "number")
    names = [name for name in told.__struct_fields__ if name not in hidden]
    return {name: msgspec.to_builtins(getattr(told, name)) for name in names}


def comparison_value(found: Comparison, *, everything: bool) -> dict[str, JSON]:
    """A comparison as JSON."""
    told: dict[str, JSON] = {
        name: msgspec.to_builtins(getattr(found, name))
        for name in ("first", "second", "better", "worse", "same")
    }
    return {**told, "examples": [_value(each) for each in shown_of(found, everything=everything)]}
