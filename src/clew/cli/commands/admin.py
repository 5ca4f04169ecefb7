"""Commands that tend: fork, migrate, doctor."""

import platform
import shutil
from collections.abc import Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.text import Text

from clew.cli.backup.files import CheckedFile
from clew.cli.backup.inventory import scopes_of, verify_scopes
from clew.cli.command import CommandCall, CommandResult
from clew.cli.commands.threads import At, ThreadId
from clew.cli.render import values
from clew.core.errors import Forbidden, StoreDamaged
from clew.core.ports import Store
from clew.core.values import Job, Scope
from clew.database.jobs import Jobs
from clew.urls import migrate_store

EXTRAS = {"postgres": "psycopg", "cli": "typer"}
PACKAGES = ("clew", "msgspec", "apsw", "psycopg")
LEAST_FREE_BYTES = 256 * 1024 * 1024


async def fork(
    call: CommandCall,
    thread: ThreadId,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The id of the new thread.")],
    at: At = None,
) -> CommandResult:
    """Start a new thread from a version of another.

    Nothing is copied, and neither sees what the other does from there on.

    Example: clew fork alice-s1 alice-s1-b --at 12
    """
    async with call.database() as db:
        head = await (await db.thread(thread).fork(new, at=at)).head()
    words = f"{values.clean(new)} is a fork of {values.clean(thread)} at version {head.version}."
    return CommandResult(
        value={"thread": new, "parent": thread, "version": head.version}, display=Text(words)
    )


async def migrate(call: CommandCall) -> CommandResult:
    """Make the database, or bring its schema up to date.

    Example: clew migrate --db sqlite:///agent.db
    """
    before, after = await migrate_store(call.url)
    words = f"The schema is at {after}." if before == after else f"The schema went from {before} to {after}."
    return CommandResult(value={"from": before, "to": after}, display=Text(words))


async def doctor(
    call: CommandCall,
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="Look at the pages of the file, but not at every thread.")
    ] = False,
) -> CommandResult:
    """Say how the database is, what is wrong, what to do.

    The file is checked, and every thread of every tenant as by verify, unless --tenant names one. It ends
    with 1 if anything is wrong.

    Example: clew doctor --json
    """
    async with call.database() as db:
        report = await db.report()
        damage = await _damage(call, db.store, quick=quick)
        scopes, unseen = await _scopes(call, db.store)
        broken = [] if quick else await _broken_threads(call, db.store, scopes)
        dead_jobs = [
            job for scope in scopes for job in await Jobs(db.store, scope).list(status="dead", limit=1000)
        ]
    system_facts = environment(call.file)
    problems = [
        *report.problems,
        *damage,
        *broken,
        *unseen,
        *disk_problems(call.file),
        *job_problems(dead_jobs),
    ]
    if not report.healthy and not problems:
        problems.append("The store says it is not healthy. Run clew verify, and keep a backup at hand.")
    value = {**msgspec.to_builtins(report), "environment": system_facts, "problems": problems}
    return CommandResult(
        value=value, display=values.store_report(report, system_facts, problems), ok=not problems
    )


async def _damage(call: CommandCall, store: Store, *, quick: bool) -> list[str]:
    """The damage to the file of a database."""
    if not isinstance(store, CheckedFile):
        return []
    with call.progress("Checking the file", None):
        problems = await store.check_integrity(quick=quick)
    return [f"The file is damaged: {problem}. Keep it, and restore a backup." for problem in problems]


async def _scopes(call: CommandCall, store: Store) -> tuple[list[Scope], list[str]]:
    """The scopes to check, and the problem if they are not all there are."""
    try:
        return await scopes_of(call, store), []
    except Forbidden as error:
        return [call.scope], [f"Only tenant {call.scope.tenant!r} was looked at. {error}"]
    except StoreDamaged as error:
        return [], [str(error)]


async def _broken_threads(call: CommandCall, store: Store, scopes: Sequence[Scope]) -> list[str]:
    """The problems of threads."""
    try:
        verdicts = await verify_scopes(call, store, scopes)
    except StoreDamaged as error:
        return [str(error)]
    return [
        f"{values.name_of(verdict.tenant, verdict.thread)}: {problem}. Keep it, and restore a backup."
        for verdict in verdicts
        for problem in verdict.problems
    ]


def environment(file: Path | None) -> dict[str, str]:
    """The environment of a database: versions, extras, room on the disk."""
    facts = {"python": platform.python_version(), "system": f"{platform.system()} {platform.release()}"}
    for package in PACKAGES:
        try:
            facts[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            facts[package] = "not installed"
    extras = [extra for extra, module in EXTRAS.items() if find_spec(module)]
    facts["extras"] = ", ".join(extras) or "none"
    if file is not None:
        facts["free_disk"] = f"{_free_bytes(file) / 1e9:,.1f} GB"
    return facts


def disk_problems(file: Path | None) -> list[str]:
    """The problems around the database."""
    if file is not None and _free_bytes(file) < LEAST_FREE_BYTES:
        return [f"Only {_free_bytes(file) / 1e6:,.0f} MB are free on the disk of {file}. Make room."]
    return []


def job_problems(dead_jobs: Sequence[Job]) -> list[str]:
    """The problems of jobs: those that failed too often."""
    if not dead_jobs:
        return []
    return [f"{len(dead_jobs)} job(s) were given up. clew jobs list --status dead shows why."]


def _free_bytes(file: Path) -> int:
    return shutil.disk_usage(file.absolute().parent).free
