"""How jobs look. Pure."""

from collections.abc import Sequence

import msgspec
from rich.console import RenderableType
from rich.text import Text

from clew.cli.render.values import clean, facts, short, table, when
from clew.core.encoding import JSON
from clew.core.values import Job

DEAD = "bold red"


def as_value(job: Job) -> dict[str, JSON]:
    """A job as JSON; the token of whoever is at it is nobody else's business."""
    value: dict[str, JSON] = msgspec.to_builtins(msgspec.structs.replace(job, token=None))
    del value["token"]
    return value


def jobs(found: Sequence[Job]) -> RenderableType:
    """Jobs, one line each."""
    if not found:
        return Text("There are no jobs here.")
    shown = table("job", "kind", "status", "tried", "next (UTC)", "problem", fold=("job", "problem"))
    for job in found:
        status = Text(job.status, style=DEAD if job.status == "dead" else "")
        cells = [f"{job.attempts} of {job.limit}", _next(job), short(job.problem or "", 80)]
        shown.add_row(Text(clean(job.id)), Text(clean(job.kind)), status, *map(Text, cells))
    return shown


def job(found: Job) -> RenderableType:
    """All about a job."""
    shown = facts()
    shown.add_row("job", clean(found.id))
    shown.add_row("kind", clean(found.kind))
    shown.add_row("status", Text(found.status, style=DEAD if found.status == "dead" else ""))
    shown.add_row("tried", f"{found.attempts} of {found.limit}")
    shown.add_row({"running": "held until"}.get(found.status, "next (UTC)"), _next(found))
    shown.add_row("owner", clean(found.owner or "none"))
    shown.add_row("problem", Text(clean(found.problem or "none")))
    shown.add_row("body", Text(short(found.body, 400)))
    return shown


def _next(job: Job) -> str:
    """When a job is tried next, or when whoever is at it is taken for lost."""
    if job.status == "dead":
        return "never"
    return when(job.until if job.status == "running" else job.due) if job.until or job.due else "now"
