"""Commands about the feedback of users, for operators: list, export."""

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from clew.cli.audit import audit_action
from clew.cli.command import CommandCall, CommandResult
from clew.cli.commands.threads import Limit
from clew.cli.render import values
from clew.core.encoding import as_json, encode
from clew.core.values import RecordQuery
from clew.database.database import Database
from clew.runtime.records.feedback import Feedback, feedback_query, feedback_rows

DATE_FORMATS = ["%Y-%m-%d"]
HIDDEN_FIELDS = ("keys", "revision")
FeedbackThread = Annotated[
    str | None, typer.Option("--thread", metavar="THREAD", help="Only feedback on this thread.")
]
FeedbackOwner = Annotated[
    str | None, typer.Option("--owner", metavar="USER", help="Only feedback of this user.")
]
FeedbackSince = Annotated[
    datetime | None,
    typer.Option("--since", formats=DATE_FORMATS, help="Only feedback from this day on, in UTC."),
]


async def list_(
    call: CommandCall,
    thread: FeedbackThread = None,
    owner: FeedbackOwner = None,
    since: FeedbackSince = None,
    limit: Limit = 50,
) -> CommandResult:
    """List what users thought of their sessions, the newest first.

    A row is a label, where it came from, and how many turns the session had; never what was said.

    Example: clew feedback list --since 2026-05-01
    """
    async with call.database() as db:
        query = await _audited_query(db, "read feedback", thread, owner, since)
        rows: list[Feedback] = []
        async for row in feedback_rows(db, query):
            rows.append(row)
            if len(rows) == limit:
                break
    return CommandResult(value={"feedback": list(map(_row_value, rows))}, display=_feedback_table(rows))


async def export(
    call: CommandCall, thread: FeedbackThread = None, owner: FeedbackOwner = None, since: FeedbackSince = None
) -> CommandResult:
    """Write what users thought of their sessions as lines of JSON.

    One row is one line, the newest first. How many there were goes to standard error.

    Example: clew feedback export > feedback.jsonl
    """
    count = 0
    async with call.database() as db:
        query = await _audited_query(db, "export feedback", thread, owner, since)
        async for row in feedback_rows(db, query):
            call.out.file.write(f"{encode(as_json(_row_value(row))).decode()}\n")
            count += 1
    return CommandResult(
        value={"rows": count}, display=Text(f"{values.quantity(count, 'row')}."), to_stderr=True
    )


async def _audited_query(
    db: Database, action: str, thread: str | None, owner: str | None, since: datetime | None
) -> RecordQuery:
    """Return the query of a command, once it is recorded that somebody looks."""
    since_ms = None if since is None else int(since.replace(tzinfo=UTC).timestamp() * 1000)
    await audit_action(db, action, thread=thread, owner=owner if thread is None else None)
    return feedback_query(thread=thread, owner=owner, since=since_ms)


def _row_value(row: Feedback) -> dict[str, object]:
    """A row by the names that it has over HTTP."""
    return {name: getattr(row, name) for name in row.__struct_fields__ if name not in HIDDEN_FIELDS}


def _feedback_table(rows: list[Feedback]) -> RenderableType:
    if not rows:
        return Text("No feedback.")
    table = values.empty_table("time", "label", "turns", "by", "user", "thread", fold=["user", "thread"])
    for row in rows:
        table.add_row(
            values.utc_time(row.recorded)[:-3],
            values.clean(row.label),
            str(row.turns),
            values.clean(f"{row.source}, {row.modality}"),
            values.clean(row.user or "nobody"),
            values.clean(row.thread),
        )
    return table
