"""Commands about work that is left to do: jobs list, jobs show, jobs retry."""

from typing import Annotated, Literal

import typer
from rich.text import Text

from clew.cli.audit import audit_action
from clew.cli.command import CommandCall, CommandResult
from clew.cli.commands.threads import Limit
from clew.cli.render import jobs, values

JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id, as the list gives it.")]
Status = Annotated[
    Literal["waiting", "running", "dead"] | None, typer.Option("--status", help="Only jobs of this status.")
]


async def list_(call: CommandCall, status: Status = None, limit: Limit = 50) -> CommandResult:
    """List jobs by the time they are due.

    A job that was given up is dead. It stays here, with the reason, until it is retried.

    Example: clew jobs list --status dead
    """
    async with call.database() as db:
        listing = await db.jobs.list(status=status, limit=limit)
    return CommandResult(
        value={"jobs": [jobs.job_value(job) for job in listing]}, display=jobs.job_table(listing)
    )


async def show(call: CommandCall, job: JobId) -> CommandResult:
    """Show a job: how often it was tried, and what went wrong.

    Example: clew jobs show 'end episode-1f2e3d4c5b6a79880716'
    """
    async with call.database() as db:
        entry = await db.jobs.get(job)
    return CommandResult(value=jobs.job_value(entry), display=jobs.job_detail(entry))


async def retry(call: CommandCall, job: JobId) -> CommandResult:
    """Let a job that waits or is dead be due at once.

    It has all of its attempts before it again, and is done by whatever process looks next.

    Example: clew jobs retry 'end episode-1f2e3d4c5b6a79880716'
    """
    async with call.database() as db:
        await audit_action(db, "retry job")
        entry = await db.jobs.retry(job)
    return CommandResult(value=jobs.job_value(entry), display=Text(f"{values.clean(job)} is due now."))
