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

from holdfast.cli import render
from holdfast.cli.frame import Answer, Call
from holdfast.cli.looking import At, ThreadId
from holdfast.core.values import Job
from holdfast.opening import migrate_store

EXTRAS = {"postgres": "psycopg", "cli": "typer"}
PACKAGES = ("holdfast", "msgspec", "apsw", "psycopg")
LITTLE_ROOM = 256 * 1024 * 1024


async def fork(
    call: Call,
    thread: ThreadId,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The id of the new thread.")],
    at: At = None,
) -> Answer:
    """Start a new thread from a version of another.

    Nothing is copied, and neither sees what the other does from there on.

    Example: holdfast fork alice-s1 alice-s1-b --at 12
    """
    async with call.database() as db:
        head = await (await db.thread(thread).fork(new, at=at)).head()
    words = f"{render.clean(new)} stands on {render.clean(thread)} at version {head.version}."
    return Answer(value={"thread": new, "parent": thread, "version": head.version}, shown=Text(words))


async def migrate(call: Call) -> Answer:
    """Make the database, or bring its schema up to date.

    Example: holdfast migrate --db sqlite:///agent.db
    """
    before, after = await migrate_store(call.url)
    words = f"The schema is at {after}." if before == after else f"The schema went from {before} to {after}."
    return Answer(value={"from": before, "to": after}, shown=Text(words))


async def doctor(call: Call) -> Answer:
    """Say how the database is, what is wrong, what to do.

    Example: holdfast doctor --json
    """
    async with call.database() as db:
        report = await db.report()
        dead = await db.jobs.list(status="dead", limit=1000)
    around = environment(call.file)
    problems = [*report.problems, *troubles(call.file), *given_up(dead)]
    if not report.healthy and not problems:
        problems.append("The store says it is not healthy. Run holdfast verify, and keep a backup at hand.")
    value = {**msgspec.to_builtins(report), "environment": around, "problems": problems}
    return Answer(value=value, shown=render.report(report, around, problems), ok=not problems)


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
    return [f"{len(dead)} job(s) were given up. holdfast jobs list --status dead shows why."]


def _free(file: Path) -> int:
    return shutil.disk_usage(file.absolute().parent).free
