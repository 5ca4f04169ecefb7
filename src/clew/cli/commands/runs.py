"""Commands about runs: what was executed on threads, and the steps of one run."""

from typing import Annotated, Literal

import typer

from clew.cli.command import CommandCall, CommandResult
from clew.cli.commands.threads import Limit
from clew.cli.render import runs as render_runs
from clew.core.values import RecordQuery
from clew.runtime.records.runs import KIND, run_of
from clew.runtime.records.steps import run_steps

RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, as the list gives it.")]
Thread = Annotated[str | None, typer.Option("--thread", metavar="THREAD", help="Only runs of this thread.")]
Status = Annotated[
    Literal["running", "waiting", "done"] | None,
    typer.Option("--status", help="Only runs of this status."),
]


async def list_(
    call: CommandCall, thread: Thread = None, status: Status = None, limit: Limit = 50
) -> CommandResult:
    """List runs, the newest first.

    Example: clew runs list --thread alice-s1
    """
    filters = (("thread", thread), ("status", status))
    tags = tuple(f"{name}:{value}" for name, value in filters if value is not None)
    async with call.database() as db:
        records = await db.records.find(RecordQuery(kind=KIND, tags=tags, newest=True, limit=limit))
    runs = [run_of(record) for record in records]
    return CommandResult(
        value={"runs": [render_runs.run_value(run) for run in runs]}, display=render_runs.run_table(runs)
    )


async def show(call: CommandCall, run: RunId) -> CommandResult:
    """Show a run and its steps: what took how long, and what it cost.

    A step is a model call, a tool, a retrieval, code, or the output. A cost is shown only where a price is
    known.

    Example: clew runs show run-1f2e3d4c5b6a79880716
    """
    async with call.database() as db:
        run_record = run_of(await db.records.get(KIND, run))
        steps = await run_steps(db, run_record.thread, run)
    value = {
        "run": render_runs.run_value(run_record),
        "steps": [render_runs.step_value(step) for step in steps],
    }
    return CommandResult(value=value, display=render_runs.run_detail(run_record, steps))
