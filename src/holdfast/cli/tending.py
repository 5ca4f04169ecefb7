"""Commands that tend: fork, migrate, doctor."""

import platform
import shutil
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

EXTRAS = {"postgres": "psycopg", "cli": "typer"}
PACKAGES = ("holdfast", "msgspec", "apsw", "psycopg")
LITTLE_ROOM = 256 * 1024 * 1024


async def fork(
    call: Call,
    thread: ThreadId,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The id of the new thread.")],
    at: At = None,
) -> Answer:
    """Make a new thread that goes its own way from a version of another. Nothing is copied.

    Example: holdfast fork alice-s1 alice-s1-b --at 12
    """
    async with call.database() as db:
        head = await (await db.thread(thread).fork(new, at=at)).head()
    words = f"{render.clean(new)} stands on {render.clean(thread)} at version {head.version}."
    return Answer(value={"thread": new, "parent": thread, "version": head.version}, shown=Text(words))


async def migrate(call: Call) -> Answer:
    """Bring the database's schema up to date, and make the database if it is not there.

    Example: holdfast migrate --db sqlite:///agent.db
    """
    async with call.database(create=True) as db:
        report = await db.report()
    before = report.facts.get("migrated_from", report.format)
    same = before == report.format
    words = (
        f"The schema is at {report.format}." if same else f"The schema went from {before} to {report.format}."
    )
    return Answer(value={"store": report.store, "from": before, "to": report.format}, shown=Text(words))


async def doctor(call: Call) -> Answer:
    """Look the database and its surroundings over, and say what is wrong and what to do.

    Example: holdfast doctor --json
    """
    async with call.database() as db:
        report = await db.report()
    around = environment(call.file)
    problems = [*report.problems, *troubles(call.file)]
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


def _free(file: Path) -> int:
    return shutil.disk_usage(file.absolute().parent).free
