"""How runs and their steps look. Pure."""

from collections.abc import Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from clew.cli.render.values import clean, facts, short, table, when
from clew.core.encoding import JSON
from clew.runtime.model.protocol import Usage
from clew.runtime.records.runs import Run
from clew.runtime.records.steps import Step

UNKNOWN = "–"
WRONG = "bold red"


def as_value(run: Run) -> dict[str, JSON]:
    """A run as JSON, without what only its process needs."""
    hidden = ("holder", "until", "key", "output", "revision", "cancel", "epoch", "first")
    told = {name: msgspec.to_builtins(getattr(run, name)) for name in run.__struct_fields__}
    usage = {name: getattr(run.usage, name) for name in Usage.__struct_fields__}
    return {name: value for name, value in told.items() if name not in hidden} | {"usage": usage}


def step_value(step: Step) -> dict[str, JSON]:
    """A step as JSON, with all that is known and all that is not."""
    return {name: getattr(step, name) for name in (*step.__struct_fields__, "ended")}


def runs(found: Sequence[Run]) -> RenderableType:
    """Runs, one line each."""
    if not found:
        return Text("There are no runs here.")
    shown = table(
        "run", "thread", "status", "started (UTC)", "tokens", right=["tokens"], fold=("run", "thread")
    )
    for run in found:
        tokens = run.usage.input_tokens + run.usage.output_tokens
        cells = [clean(run.id), clean(run.thread), run.termination or run.status, when(run.started)]
        shown.add_row(*map(Text, cells), Text(str(tokens)))
    return shown


def run(found: Run, told: Sequence[Step]) -> RenderableType:
    """All about a run, then its steps."""
    shown = facts()
    shown.add_row("run", clean(found.id))
    shown.add_row("thread", clean(found.thread))
    shown.add_row("status", found.termination or found.status)
    shown.add_row("started", f"{when(found.started)} UTC")
    if found.ended is not None:
        shown.add_row("took", took(found.ended - found.started))
    shown.add_row("tokens", f"{found.usage.input_tokens} in, {found.usage.output_tokens} out")
    shown.add_row("cost", money(found.usage.cost or None))
    if found.problem is not None:
        shown.add_row("problem", Text(clean(found.problem), style=WRONG))
    return Group(shown, Text(), timeline(told) if told else Text("It has no steps."))


def timeline(told: Sequence[Step]) -> Table:
    """Steps, with when they began after the first."""
    columns = ("step", "name", "stage", "after", "took", "in", "out", "cost", "problem")
    shown = table(*columns, right=("after", "took", "in", "out", "cost"), fold=("problem",))
    begun = min(step.started for step in told)
    for step in told:
        cells = [
            step.kind,
            short(step.name, 24),
            short(step.stage, 16),
            took(step.started - begun),
            took(step.ms),
            str(step.input_tokens or ""),
            str(step.output_tokens or ""),
            money(step.cost) if step.kind == "model" or step.cost is not None else "",
        ]
        shown.add_row(*map(Text, cells), Text(clean(step.error or ""), style=WRONG))
    return shown


def took(ms: float) -> str:
    """A time as one reads it."""
    return f"{ms / 1000:.2f} s" if ms >= 1000 else f"{ms:.0f} ms"


def money(cost: int | None) -> str:
    """Millionths of a dollar in dollars; a dash if nobody knows."""
    return UNKNOWN if cost is None else f"${cost / 1_000_000:.6f}"
