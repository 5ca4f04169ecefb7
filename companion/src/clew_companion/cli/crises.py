"""Commands about the crisis log, for operators: list, export, extend, purge."""

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from clew.cli.audit import audit_action
from clew.cli.command import CommandCall, CommandResult
from clew.cli.commands.threads import Limit
from clew.cli.render import values
from clew.core.encoding import JSON, as_json, encode
from clew.database.database import Database
from clew_companion.crisis.log import Crisis, count_expired, crises, extend_retention, purge_expired

DATE_FORMATS = ["%Y-%m-%d"]
ThreadFilter = Annotated[
    str | None, typer.Option("--thread", metavar="THREAD", help="Only rows of this thread.")
]
Owner = Annotated[str | None, typer.Option("--owner", metavar="USER", help="Only rows of this user.")]
Since = Annotated[
    datetime | None, typer.Option("--since", formats=DATE_FORMATS, help="Only rows from this day on, in UTC.")
]


async def list_(
    call: CommandCall,
    thread: ThreadFilter = None,
    owner: Owner = None,
    since: Since = None,
    limit: Limit = 50,
) -> CommandResult:
    """List the crisis log, the newest first.

    A row says how serious a turn was and how that was found, and never what was said.

    Example: clew crises list --since 2026-05-01
    """
    async with call.database() as db:
        await _audit_crises(db, "read crises", thread, owner)
        rows = [row async for row in crises(db, thread=thread, owner=owner, since=_milliseconds(since))]
    newest = list(islice(sorted(rows, key=lambda row: row.time, reverse=True), limit))
    return CommandResult(value={"rows": newest, "total": len(rows)}, display=_crisis_table(newest, len(rows)))


async def export(
    call: CommandCall, thread: ThreadFilter = None, owner: Owner = None, since: Since = None
) -> CommandResult:
    """Write the crisis log as lines of JSON.

    One row is one line, in the order in which rows are purged. How many there were goes to standard error.

    Example: clew crises export > crises.jsonl
    """
    count = 0
    async with call.database() as db:
        await _audit_crises(db, "export crises", thread, owner)
        async for row in crises(db, thread=thread, owner=owner, since=_milliseconds(since)):
            call.out.file.write(f"{encode(as_json(row)).decode()}\n")
            count += 1
    return CommandResult(
        value={"rows": count}, display=Text(f"{values.quantity(count, 'row')}."), to_stderr=True
    )


async def extend(
    call: CommandCall,
    until: Annotated[
        datetime, typer.Option("--until", formats=DATE_FORMATS, help="Through this day, in UTC.")
    ],
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID...", help="Which rows.")] = None,
    thread: ThreadFilter = None,
    owner: Owner = None,
) -> CommandResult:
    """Keep rows of the crisis log for longer.

    Say which: by id, by thread or by owner. A row that is kept for longer already stays as it is.

    Example: clew crises extend --thread alice-s1 --until 2027-12-31
    """
    until_ms = _milliseconds(until + timedelta(days=1))
    async with call.database() as db:
        await _audit_crises(db, "extend crises", thread, owner, until=until_ms, ids=len(ids or ()))
        count = await extend_retention(
            db, until=until_ms or 0, now=db.store.now(), ids=ids or (), thread=thread, owner=owner
        )
    words = f"{values.quantity(count, 'row')} kept through {until.date()}."
    return CommandResult(value={"extended": count, "until": until_ms}, display=Text(words))


async def purge(
    call: CommandCall,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many rows are due.")] = False,
) -> CommandResult:
    """Delete the rows of the crisis log whose date has come.

    A runtime does the same while it is open. Rows whose retention was extended stay.

    Example: clew crises purge --dry-run
    """
    async with call.database() as db:
        if not dry_run:
            await audit_action(db, "purge crises")
        purge_or_count = count_expired if dry_run else purge_expired
        count = await purge_or_count(db, now=db.store.now())
    words = f"{values.quantity(count, 'row')} {'due' if dry_run else 'purged'}."
    return CommandResult(value={"due" if dry_run else "purged": count}, display=Text(words))


async def _audit_crises(
    db: Database, action: str, thread: str | None, owner: str | None, **facts: JSON
) -> None:
    """Write it down; a row is about a thread, if one is named, and otherwise about its owner."""
    await audit_action(db, action, thread=thread, owner=owner if thread is None else None, **facts)


def _milliseconds(day: datetime | None) -> int | None:
    return None if day is None else int(day.replace(tzinfo=UTC).timestamp() * 1000)


def _crisis_table(rows: list[Crisis], total: int) -> RenderableType:
    if not rows:
        return Text("No rows.")
    table = values.empty_table(
        "time", "level", "kept until", "how", "thread", "id", fold=["how", "thread", "id"]
    )
    for row in rows:
        table.add_row(
            values.utc_time(row.time)[:-3],
            str(row.level),
            values.utc_time(row.keep_until - 1)[:10],
            ", ".join(_assessment_words(row)),
            values.clean(row.thread),
            values.clean(row.id),
        )
    remaining = total - len(rows)
    return Group(table, Text(f"{remaining} more; --limit shows them.", style="dim")) if remaining else table


def _assessment_words(row: Crisis) -> list[str]:
    confidence = "" if row.confidence is None else f"{row.confidence:.2f}"
    return [
        word
        for word in (row.path, row.override, confidence, "model failed" if row.llm_failed else "")
        if word
    ]
