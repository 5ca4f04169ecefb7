"""Views of runs and their steps. Pure."""

from collections.abc import Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from clew.cli.render.values import clean, empty_details, empty_table, shorten, utc_time
from clew.core.encoding import JSON
from clew.runtime.model.protocol import Usage
from clew.runtime.records.runs import Run
from clew.runtime.records.steps import Step

UNKNOWN = "–"
ERROR_STYLE = "bold red"


def run_value(run: Run) -> dict[str, JSON]:
    """A run as JSON, without what only its process needs."""
    private_fields = ("holder", "until", "key", "output", "revision", "cancel", "epoch", "first")
    fields = {name: msgspec.to_builtins(getattr(run, name)) for name in run.__struct_fields__}
    usage = {name: getattr(run.usage, name) for name in Usage.__struct_fields__}
    return {name: value for name, value in fields.items() if name not in private_fields} | {"usage": usage}


def step_value(step: Step) -> dict[str, JSON]:
    """A step as JSON, with all that is known and all that is not."""
    return {name: getattr(step, name) for name in (*step.__struct_fields__, "ended")}


def run_table(runs: Sequence[Run]) -> RenderableType:
    """Runs, one line each."""
    if not runs:
        return Text("There are no runs here.")
    table = empty_table(
        "run", "thread", "status", "started (UTC)", "tokens", right=["tokens"], fold=("run", "thread")
    )
    for run in runs:
        tokens = run.usage.input_tokens + run.usage.output_tokens
        cells = [clean(run.id), clean(run.thread), run.termination or run.status, utc_time(run.started)]
        table.add_row(*map(Text, cells), Text(str(tokens)))
    return table


def run_detail(run: Run, steps: Sequence[Step]) -> RenderableType:
    """All about a run, then its steps."""
    details = empty_details()
    details.add_row("run", clean(run.id))
    details.add_row("thread", clean(run.thread))
    details.add_row("status", run.termination or run.status)
    details.add_row("started", f"{utc_time(run.started)} UTC")
    if run.ended is not None:
        details.add_row("took", duration(run.ended - run.started))
    details.add_row("tokens", f"{run.usage.input_tokens} in, {run.usage.output_tokens} out")
    details.add_row("cost", dollars(run.usage.cost or None))
    if run.problem is not None:
        details.add_row("problem", Text(clean(run.problem), style=ERROR_STYLE))
    return Group(details, Text(), step_table(steps) if steps else Text("It has no steps."))


def step_table(steps: Sequence[Step]) -> Table:
    """Steps, with when they began after the first."""
    columns = ("step", "name", "stage", "after", "took", "in", "out", "cost", "problem")
    table = empty_table(*columns, right=("after", "took", "in", "out", "cost"), fold=("problem",))
    start = min(step.started for step in steps)
    for step in steps:
        cells = [
            step.kind,
            shorten(step.name, 24),
            shorten(step.stage, 16),
            duration(step.started - start),
            duration(step.ms),
            str(step.input_tokens or ""),
            str(step.output_tokens or ""),
            dollars(step.cost) if step.kind == "model" or step.cost is not None else "",
        ]
        table.add_row(*map(Text, cells), Text(clean(step.error or ""), style=ERROR_STYLE))
    return table


def duration(ms: float) -> str:
    """A time as one reads it."""
    return f"{ms / 1000:.2f} s" if ms >= 1000 else f"{ms:.0f} ms"


def dollars(cost: int | None) -> str:
    """Millionths of a dollar in dollars; a dash if nobody knows."""
    return UNKNOWN if cost is None else f"${cost / 1_000_000:.6f}"
