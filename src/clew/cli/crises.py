"""Commands about the crisis log, for operators: list, export, extend, purge."""

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from clew.cli.audit import noted
from clew.cli.command import Answer, Call
from clew.cli.commands.threads import Limit
from clew.cli.render import values
from clew.core.encoding import JSON, encode, plain
from clew.database.database import Database
from clew.runtime.crises import Crisis, crises, due
from clew.runtime.crises import extend as extended
from clew.runtime.crises import purge as purged

DATE = ["%Y-%m-%d"]
OfThread = Annotated[str | None, typer.Option("--thread", metavar="THREAD", help="Only rows of this thread.")]
Owner = Annotated[str | None, typer.Option("--owner", metavar="USER", help="Only rows of this user.")]
Since = Annotated[
    datetime | None, typer.Option("--since", formats=DATE, help="Only rows from this day on, in UTC.")
]


async def list_(
    call: Call, thread: OfThread = None, owner: Owner = None, since: Since = None, limit: Limit = 50
) -> Answer:
    """List the crisis log, the newest first.

    A row says how serious a turn was and how that was found, and never what was said.

    Example: clew crises list --since 2026-05-01
    """
    async with call.database() as db:
        await _noted(db, "read crises", thread, owner)
        found = [row async for row in crises(db, thread=thread, owner=owner, since=_ms(since))]
    newest = list(islice(sorted(found, key=lambda row: row.time, reverse=True), limit))
    return Answer(value={"rows": newest, "total": len(found)}, shown=_table(newest, len(found)))


async def export(call: Call, thread: OfThread = None, owner: Owner = None, since: Since = None) -> Answer:
    """Write the crisis log as lines of JSON.

    One row is one line, in the order in which rows are purged. How many there were goes to standard error.

    Example: clew crises export > crises.jsonl
    """
    count = 0
    async with call.database() as db:
        await _noted(db, "export crises", thread, owner)
        async for row in crises(db, thread=thread, owner=owner, since=_ms(since)):
            call.out.file.write(f"{encode(plain(row)).decode()}\n")
            count += 1
    return Answer(value={"rows": count}, shown=Text(f"{values.some(count, 'row')}."), aside=True)


async def extend(
    call: Call,
    until: Annotated[datetime, typer.Option("--until", formats=DATE, help="Through this day, in UTC.")],
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID...", help="Which rows.")] = None,
    thread: OfThread = None,
    owner: Owner = None,
) -> Answer:
    """Keep rows of the crisis log for longer.

    Say which: by id, by thread or by owner. A row that is kept for longer already stays as it is.

    Example: clew crises extend --thread alice-s1 --until 2027-12-31
    """
    last = _ms(until + timedelta(days=1))
    async with call.database() as db:
        await _noted(db, "extend crises", thread, owner, until=last, ids=len(ids or ()))
        count = await extended(
            db, until=last or 0, now=db.store.now(), ids=ids or (), thread=thread, owner=owner
        )
    words = f"{values.some(count, 'row')} kept through {until.date()}."
    return Answer(value={"extended": count, "until": last}, shown=Text(words))


async def purge(
    call: Call,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many rows are due.")] = False,
) -> Answer:
    """Delete the rows of the crisis log whose date has come.

    A runtime does the same while it is open. Rows whose retention was extended stay.

    Example: clew crises purge --dry-run
    """
    async with call.database() as db:
        if not dry_run:
            await noted(db, "purge crises")
        count = await due(db, now=db.store.now()) if dry_run else await purged(db, now=db.store.now())
    words = f"{values.some(count, 'row')} {'due' if dry_run else 'purged'}."
    return Answer(value={"due" if dry_run else "purged": count}, shown=Text(words))


async def _noted(db: Database, action: str, thread: str | None, owner: str | None, **facts: JSON) -> None:
    """Write it down; a row is about a thread, if one is named, and otherwise about its owner."""
    await noted(db, action, thread=thread, owner=owner if thread is None else None, **facts)


def _ms(day: datetime | None) -> int | None:
    return None if day is None else int(day.replace(tzinfo=UTC).timestamp() * 1000)


def _table(rows: list[Crisis], total: int) -> RenderableType:
    if not rows:
        return Text("No rows.")
    table = values.table("time", "level", "kept until", "how", "thread", "id", fold=["how", "thread", "id"])
    for row in rows:
        table.add_row(
            values.when(row.time)[:-3],
            str(row.level),
            values.when(row.keep_until - 1)[:10],
            ", ".join(_how(row)),
            values.clean(row.thread),
            values.clean(row.id),
        )
    rest = total - len(rows)
    return Group(table, Text(f"{rest} more; --limit shows them.", style="dim")) if rest else table


def _how(row: Crisis) -> list[str]:
    sure = "" if row.confidence is None else f"{row.confidence:.2f}"
    return [word for word in (row.path, row.override, sure, "model failed" if row.llm_failed else "") if word]
