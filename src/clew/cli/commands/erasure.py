"""Commands that let go, and keep from it: erase, receipts, hold, release, holds, retain."""

import re
import sys
from typing import Annotated

import msgspec
import typer

from clew.cli.audit import audit_action
from clew.cli.command import CommandCall, CommandResult
from clew.cli.render import erasure
from clew.cli.volume_option import VolumeFolder, volumes_at
from clew.core.erasure.receipts import COMPLETE, PENDING, Receipt
from clew.core.erasure.retention import RetentionRule
from clew.core.errors import InvalidArgument
from clew.database.database import Database

Owner = Annotated[str | None, typer.Option("--owner", metavar="OWNER", help="All that belongs to them.")]
ThreadName = Annotated[str | None, typer.Option("--thread", metavar="THREAD", help="This thread.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count what would go.")]
DAYS_PER_UNIT = {"d": 1.0, "w": 7.0, "h": 1 / 24, "y": 365.0}


async def erase(
    call: CommandCall,
    owner: Owner = None,
    thread: ThreadName = None,
    *,
    with_retained: Annotated[
        bool, typer.Option("--with-retained", help="Records that have a date too, before it comes.")
    ] = False,
    volume: VolumeFolder = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> CommandResult:
    """Erase a person or a thread, with a receipt.

    Everything goes: threads and their forks, memory, records, jobs, the search index, archives beside the
    database, files and manifests on the volume. It ends with 1 if traces wait to be removed. Killed in the
    middle, run it again.

    Example: clew erase --owner alice --volume /mnt/volume --dry-run
    """
    async with call.database(files=volumes_at(volume)) as db:
        preview = await db.erase(owner=owner, thread=thread, with_retained=with_retained, dry_run=True)
        if dry_run or not (yes or _confirm_erasure(call, preview)):
            return CommandResult(value=preview, display=erasure.receipt_detail(preview), ok=dry_run)
        await audit_action(db, "erase", owner=owner, thread=thread, with_retained=with_retained)
        with call.progress("Erasing", None) as advance:
            receipt = await db.erase(
                owner=owner,
                thread=thread,
                with_retained=with_retained,
                notify=lambda counts: advance(sum(counts.values())),
            )
    return CommandResult(
        value=receipt, display=erasure.receipt_detail(receipt), ok=receipt.status == COMPLETE
    )


async def receipts(
    call: CommandCall,
    receipt: Annotated[str | None, typer.Argument(metavar="RECEIPT", help="Only this one, in full.")] = None,
    *,
    settle: Annotated[bool, typer.Option("--settle", help="Try again what made them wait.")] = False,
) -> CommandResult:
    """List the receipts of what was erased.

    It ends with 1 if one of them still waits.

    Example: clew receipts --settle
    """
    async with call.database() as db:
        if settle:
            await audit_action(db, "settle receipts")
            await db.retention.settle()
        matches = [each for each in await db.retention.receipts() if receipt in (None, each.id)]
    if receipt is not None and not matches:
        raise InvalidArgument(problem=f"There is no receipt {receipt!r}.")
    display = erasure.receipt_table(matches) if receipt is None else erasure.receipt_detail(matches[0])
    is_waiting = any(each.status == PENDING for each in matches)
    return CommandResult(value={"receipts": matches}, display=display, ok=not is_waiting)


async def hold(
    call: CommandCall,
    owner: Owner = None,
    thread: ThreadName = None,
    *,
    reason: Annotated[str, typer.Option("--reason", metavar="WORDS", help="Why it must stay.")],
) -> CommandResult:
    """Put a person or a thread on legal hold.

    What is held cannot be erased or deleted, and no retention rule lets it go.

    Example: clew hold --owner alice --reason "case 12"
    """
    async with call.database() as db:
        await audit_action(db, "hold", owner=owner, thread=thread)
        await db.retention.hold(owner=owner, thread=thread, reason=reason)
        return await _holds_result(db)


async def release(call: CommandCall, owner: Owner = None, thread: ThreadName = None) -> CommandResult:
    """Let go of a legal hold.

    Example: clew release --owner alice
    """
    async with call.database() as db:
        await audit_action(db, "release", owner=owner, thread=thread)
        await db.retention.release(owner=owner, thread=thread)
        return await _holds_result(db)


async def holds(call: CommandCall) -> CommandResult:
    """List what is on legal hold.

    Example: clew holds --json
    """
    async with call.database() as db:
        return await _holds_result(db)


async def retain(
    call: CommandCall,
    *,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="AGE", help="Untouched for so long: 90d, 12h, 2w.")
    ] = None,
    label: Annotated[str | None, typer.Option("--label", help="Only threads with this label.")] = None,
    keep: Annotated[
        str | None, typer.Option("--keep", metavar="NAME", help="Put it in force as a rule, do not apply it.")
    ] = None,
    drop: Annotated[str | None, typer.Option("--drop", metavar="NAME", help="Take a rule back.")] = None,
    volume: VolumeFolder = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> CommandResult:
    """Let go of threads that nobody touched for long.

    Without --older-than the rules in force are applied. What is held stays.

    Example: clew retain --older-than 90d --label draft --dry-run
    """
    async with call.database(files=volumes_at(volume)) as db:
        if keep is not None or drop is not None:
            return await _change_rules(db, keep, drop, older_than, label)
        rules = (
            None if older_than is None else [RetentionRule(name="once", days=_days(older_than), label=label)]
        )
        results = await db.retention.apply(rules, dry_run=True)
        if not dry_run and (yes or _confirm_erasure(call, None)):
            await audit_action(
                db,
                "apply rules",
                **({} if older_than is None else {"older_than": older_than, "label": label}),
            )
            results = await db.retention.apply(rules)
        else:
            dry_run = True
    return CommandResult(
        value={"rules": results}, display=erasure.rule_result_lines(results, dry_run=dry_run)
    )


async def _holds_result(db: Database) -> CommandResult:
    listing = await db.retention.holds()
    return CommandResult(value={"holds": listing}, display=erasure.hold_table(listing))


async def _change_rules(
    db: Database, keep: str | None, drop: str | None, older_than: str | None, label: str | None
) -> CommandResult:
    """Rules put in force or taken back, and those that are in force then."""
    if keep is not None:
        if older_than is None:
            raise InvalidArgument(problem="A rule needs --older-than.")
        rule = RetentionRule(name=keep, days=_days(older_than), label=label)
        await audit_action(db, "set rule", rule=rule.name, days=rule.days)
        await db.retention.add(rule)
    if drop is not None:
        await audit_action(db, "drop rule", rule=drop)
        await db.retention.drop(drop)
    rules = await db.retention.rules()
    return CommandResult(value={"rules": msgspec.to_builtins(rules)}, display=erasure.rule_table(rules))


def _days(age: str) -> float:
    """The number of days of an age: ``90d``, ``12h``, ``2w``, ``1y``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([dhwy])", age)
    if match is None:
        raise InvalidArgument(problem=f"{age!r} is no age. Say 90d, 12h, 2w or 1y.")
    return float(match[1]) * DAYS_PER_UNIT[match[2]]


def _confirm_erasure(call: CommandCall, preview: Receipt | None) -> bool:
    """Ask a person at the terminal; return whether they agree. Without a terminal: False."""
    if call.as_json or not (sys.stdin.isatty() and call.err.is_terminal):
        return False
    if preview is not None:
        call.err.print(erasure.receipt_detail(preview))
    return typer.confirm("Erase this? It cannot be undone.", err=True)
