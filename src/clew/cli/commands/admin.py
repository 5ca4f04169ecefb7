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
from clew.cli.command import Answer, Call
from clew.cli.commands.threads import At, ThreadId
from clew.cli.render import values
from clew.core.errors import Forbidden, StoreDamaged
from clew.core.ports import Store
from clew.core.values import Job, Scope
from clew.database.jobs import Jobs
from clew.urls import migrate_store

EXTRAS = {"postgres": "psycopg", "cli": "typer"}
PACKAGES = ("clew", "msgspec", "apsw", "psycopg")
LITTLE_ROOM = 256 * 1024 * 1024


async def fork(
    call: Call,
    thread: ThreadId,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The id of the new thread.")],
    at: At = None,
) -> Answer:
    """Start a new thread from a version of another.

    Nothing is copied, and neither sees what the other does from there on.

    Example: clew fork alice-s1 alice-s1-b --at 12
    """
    async with call.database() as db:
        head = await (await db.thread(thread).fork(new, at=at)).head()
    words = f"{values.clean(new)} stands on {values.clean(thread)} at version {head.version}."
    return Answer(value={"thread": new, "parent": thread, "version": head.version}, shown=Text(words))


async def migrate(call: Call) -> Answer:
    """Make the database, or bring its schema up to date.

    Example: clew migrate --db sqlite:///agent.db
    """
    before, after = await migrate_store(call.url)
    words = f"The schema is at {after}." if before == after else f"The schema went from {before} to {after}."
    return Answer(value={"from": before, "to": after}, shown=Text(words))


async def doctor(
    call: Call,
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="Look at the pages of the file, but not at every thread.")
    ] = False,
) -> Answer:
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
        dead = [
            job for scope in scopes for job in await Jobs(db.store, scope).list(status="dead", limit=1000)
        ]
    around = environment(call.file)
    problems = [*report.problems, *damage, *broken, *unseen, *troubles(call.file), *given_up(dead)]
    if not report.healthy and not problems:
        problems.append("The store says it is not healthy. Run clew verify, and keep a backup at hand.")
    value = {**msgspec.to_builtins(report), "environment": around, "problems": problems}
    return Answer(value=value, shown=values.report(report, around, problems), ok=not problems)


async def _damage(call: Call, store: Store, *, quick: bool) -> list[str]:
    """What is wrong with the file of a database."""
    if not isinstance(store, CheckedFile):
        return []
    with call.progress("Checking the file", None):
        problems = await store.check_integrity(quick=quick)
    return [f"The file is damaged: {problem}. Keep it, and restore a backup." for problem in problems]


async def _scopes(call: Call, store: Store) -> tuple[list[Scope], list[str]]:
    """What is looked at, and what is wrong if that is not everything."""
    try:
        return await scopes_of(call, store), []
    except Forbidden as error:
        return [call.scope], [f"Only tenant {call.scope.tenant!r} was looked at. {error}"]
    except StoreDamaged as error:
        return [], [str(error)]


async def _broken_threads(call: Call, store: Store, scopes: Sequence[Scope]) -> list[str]:
    """What is wrong with threads."""
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
    """What the database stands on: versions, extras, room on the disk."""
    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.release()}"}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    installed = [extra for extra, module in EXTRAS.items() if find_spec(module)]
    found["extras"] = ", ".join(installed) or "none"
    if file is not None:
        found["free_disk"] = f"{_free(file) / 1e9:,.1f} GB"
    return found


def troubles(file: Path | None) -> list[str]:
    """What is wrong around the database."""
    if file is not None and _free(file) < LITTLE_ROOM:
        return [f"Only {_free(file) / 1e6:,.0f} MB are free on the disk of {file}. Make room."]
    return []


def given_up(dead: Sequence[Job]) -> list[str]:
    """What is wrong with jobs: some failed too often."""
    if not dead:
        return []
    return [f"{len(dead)} job(s) were given up. clew jobs list --status dead shows why."]


def _free(file: Path) -> int:
    return shutil.disk_usage(file.absolute().parent).free
