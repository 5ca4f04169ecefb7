"""Views of jobs. Pure."""

from collections.abc import Sequence

import msgspec
from rich.console import RenderableType
from rich.text import Text

from clew.cli.render.values import clean, empty_details, empty_table, shorten, utc_time
from clew.core.encoding import JSON
from clew.core.values import Job

DEAD_STYLE = "bold red"


def job_value(job: Job) -> dict[str, JSON]:
    """A job as JSON, without the token of the worker that has it."""
    value: dict[str, JSON] = msgspec.to_builtins(msgspec.structs.replace(job, token=None))
    del value["token"]
    return value


def job_table(jobs: Sequence[Job]) -> RenderableType:
    """Jobs, one line each."""
    if not jobs:
        return Text("There are no jobs here.")
    table = empty_table("job", "kind", "status", "tried", "next (UTC)", "problem", fold=("job", "problem"))
    for job in jobs:
        status = Text(job.status, style=DEAD_STYLE if job.status == "dead" else "")
        cells = [f"{job.attempts} of {job.limit}", _next_attempt(job), shorten(job.problem or "", 80)]
        table.add_row(Text(clean(job.id)), Text(clean(job.kind)), status, *map(Text, cells))
    return table


def job_detail(job: Job) -> RenderableType:
    """All about a job."""
    details = empty_details()
    details.add_row("job", clean(job.id))
    details.add_row("kind", clean(job.kind))
    details.add_row("status", Text(job.status, style=DEAD_STYLE if job.status == "dead" else ""))
    details.add_row("tried", f"{job.attempts} of {job.limit}")
    details.add_row({"running": "held until"}.get(job.status, "next (UTC)"), _next_attempt(job))
    details.add_row("owner", clean(job.owner or "none"))
    details.add_row("problem", Text(clean(job.problem or "none")))
    details.add_row("body", Text(shorten(job.body, 400)))
    return details


def _next_attempt(job: Job) -> str:
    """The time of a job's next attempt, or the end of its lease."""
    if job.status == "dead":
        return "never"
    return utc_time(job.until if job.status == "running" else job.due) if job.until or job.due else "now"
