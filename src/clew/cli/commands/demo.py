"""The demo: a process that is killed again and again, and a thread that loses nothing."""

import asyncio
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.text import Text

from clew.cli.command import CommandCall, CommandResult, database_url
from clew.cli.commands.demo_child import THREAD
from clew.cli.commands.threads import read_difference
from clew.cli.render import values
from clew.core.errors import InvalidArgument, StorageError
from clew.core.values import Changeset
from clew.database.database import Database
from clew.database.thread import changesets_after
from clew.urls import open as open_database

LEAST_SECONDS, MOST_SECONDS, START_TIMEOUT = 0.15, 0.9, 60


class Acknowledgement(msgspec.Struct, frozen=True):
    """The report of the child about one committed turn."""

    turn: int
    version: int
    hash: str
    repeated: bool


class DemoCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of acknowledged turns and of turns in the file after all the kills."""

    rounds: int
    acknowledged: int
    stored: int
    in_doubt: int
    lost: int
    doubled: int


class DemoResult(msgspec.Struct, frozen=True, kw_only=True):
    """The demo in numbers."""

    count: DemoCounts
    version: int
    hash: str
    verified: bool
    seconds: float
    kept: str | None

    @property
    def ok(self) -> bool:
        """Return whether the demo has shown what it says."""
        return self.verified and not self.count.lost and not self.count.doubled


async def demo(
    call: CommandCall,
    rounds: Annotated[int, typer.Option("--rounds", metavar="N", min=1, help="How often to kill it.")] = 10,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="PATH", help="Keep the database there.")
    ] = None,
) -> CommandResult:
    """Kill a writer again and again; see that nothing is lost.

    Example: clew demo --keep demo.db
    """
    start = time.monotonic()
    with _demo_file(keep) as file, _cancel_on_sigterm():
        acknowledgements = await _kill_repeatedly(call, file, rounds)
        async with open_database(database_url(str(file))) as db:
            result = await _show_findings(call, db, acknowledgements, rounds, keep)
    result = msgspec.structs.replace(result, seconds=round(time.monotonic() - start, 1))
    return CommandResult(value=result, display=_result_line(result), ok=result.ok)


@contextmanager
def _demo_file(keep: Path | None) -> Iterator[Path]:
    """The file of the demo: a temporary one, or the one to keep."""
    if keep is not None:
        if keep.exists():
            raise InvalidArgument(problem=f"{str(keep)!r} exists already. Choose another place for --keep.")
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="clew-demo-") as folder:
        yield Path(folder) / "demo.db"


@contextmanager
def _cancel_on_sigterm() -> Iterator[None]:
    """Let a polite request to end clean up as Ctrl-C does."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


# Killing.


async def _kill_repeatedly(call: CommandCall, file: Path, rounds: int) -> list[Acknowledgement]:
    _print(
        call, "A child process runs turns on one thread in a SQLite file. After each commit has", style="bold"
    )
    _print(
        call,
        "returned, it tells us so over a pipe. We kill it with SIGKILL at random moments.\n",
        style="bold",
    )
    async with open_database(database_url(str(file))) as db:
        await db.create(THREAD, owner="demo")
    acknowledgements: list[Acknowledgement] = []
    with call.progress("Killing", rounds, console=None if call.as_json else call.out) as advance:
        for number in range(1, rounds + 1):
            seconds = random.uniform(LEAST_SECONDS, MOST_SECONDS)
            batch = await _run_child(file, len(acknowledgements) + 1, seconds)
            _print(call, _round_line(number, seconds, batch, len(acknowledgements) + len(batch)))
            acknowledgements += batch
            advance(1)
    return acknowledgements


async def _run_child(file: Path, first: int, seconds: float) -> list[Acknowledgement]:
    """Run a child, kill it after some seconds, and return the turns that it acknowledged."""
    acknowledgements: list[Acknowledgement] = []
    has_output = asyncio.Event()
    with tempfile.TemporaryFile() as error_file:
        child = await _start_child(file, first, error_file)
        listener = asyncio.create_task(_listen(child, acknowledgements, has_output))
        try:
            await asyncio.wait_for(has_output.wait(), START_TIMEOUT)
            await asyncio.sleep(seconds if acknowledgements else 0)
        finally:
            child.kill() if child.returncode is None else None
            await listener
            await child.wait()
        if not acknowledgements:
            raise StorageError(store="The demo's child process", problem=_last_line(error_file))
    return acknowledgements


async def _start_child(file: Path, first: int, error_file: BinaryIO) -> asyncio.subprocess.Process:
    """A process in a session of its own, so that Ctrl-C reaches only us; we end it, whatever happens."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "clew.cli.commands.demo_child", str(file), str(first)),
        stdout=asyncio.subprocess.PIPE,
        stderr=error_file,
        start_new_session=True,
    )


async def _listen(
    child: asyncio.subprocess.Process, acknowledgements: list[Acknowledgement], has_output: asyncio.Event
) -> None:
    assert child.stdout is not None
    async for line in child.stdout:
        if line.endswith(b"\n"):
            acknowledgements.append(_parse_acknowledgement(line))
            has_output.set()
    has_output.set()


def _last_line(error_file: BinaryIO) -> str:
    error_file.seek(0)
    lines = error_file.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it ended without a word")


def _parse_acknowledgement(line: bytes) -> Acknowledgement:
    turn, version, hash, repeat_flag = line.decode().split()
    return Acknowledgement(int(turn), int(version), hash, repeat_flag == "1")


def _round_line(number: int, seconds: float, batch: Sequence[Acknowledgement], total: int) -> Text:
    doubt = "   1 in doubt, kept once" if batch and batch[0].repeated else ""
    words = f"  kill {number:2}  after {seconds:4.2f} s  {len(batch):6,} turns  {total:7,} in all{doubt}"
    return Text(words, style="yellow" if doubt else "")


# Showing.


async def _show_findings(
    call: CommandCall,
    db: Database,
    acknowledgements: Sequence[Acknowledgement],
    rounds: int,
    keep: Path | None,
) -> DemoResult:
    thread = db.thread(THREAD)
    with call.progress("Counting", None):
        head, changes = await thread.head(), await _all_changes(db)
    count = count_turns(acknowledgements, changes, rounds)
    _print_section(call, "What is in the file", _count_details(count))
    _print_section(call, "clew log: the end of the timeline", values.changeset_table(changes[-4:]))
    middle = head.version // 2
    version_difference = await read_difference(
        thread, await thread.head(at=middle), thread, await thread.head(at=middle + 1)
    )
    _print_section(
        call,
        f"clew diff: version {middle} against {middle + 1}",
        values.difference_detail(version_difference),
    )
    branch = await (await thread.fork(f"{THREAD}-b", at=middle)).head()
    _print_section(
        call,
        "clew fork: another way from there, nothing copied",
        Group(values.thread_title(branch), values.thread_facts(branch)),
    )
    with call.progress("Checking the hash chain", None):
        verdicts = [await each.verify() for each in (thread, db.thread(f"{THREAD}-b"))]
    _print_section(
        call,
        "clew verify: the hash chain and the replayed state",
        values.verdict_table(verdicts, ()),
    )
    return DemoResult(
        count=count,
        version=head.version,
        hash=head.hash.hex(),
        verified=all(verdict.ok for verdict in verdicts),
        seconds=0,
        kept=str(keep) if keep else None,
    )


async def _all_changes(db: Database) -> list[Changeset]:
    return [change async for change in changesets_after(db.thread(THREAD), 0)]


def count_turns(
    acknowledgements: Sequence[Acknowledgement], changes: Sequence[Changeset], rounds: int
) -> DemoCounts:
    """Compare the acknowledged turns with those in the file."""
    turns_by_version = {change.version: (change.key, change.hash.hex()) for change in changes}
    matches = [
        each
        for each in acknowledgements
        if turns_by_version.get(each.version) == (f"turn-{each.turn}", each.hash)
    ]
    keys = {change.key for change in changes}
    ids = [item.id for change in changes for item in change.items]
    in_doubt = sum(each.repeated for each in acknowledgements) + len(changes) - len(acknowledgements)
    return DemoCounts(
        rounds=rounds,
        acknowledged=len(acknowledgements),
        stored=len(changes),
        in_doubt=in_doubt,
        lost=len(acknowledgements) - len(matches),
        doubled=len(changes) - len(keys) + len(ids) - len(set(ids)),
    )


def _count_details(count: DemoCounts) -> RenderableType:
    details = values.empty_details()
    details.add_row("turns acknowledged", f"{count.acknowledged:,}")
    details.add_row("turns in the file", f"{count.stored:,}")
    details.add_row("killed between commit and acknowledgement", f"{count.in_doubt:,} (each is there once)")
    details.add_row("lost", _zero_count(count.lost))
    details.add_row("doubled", _zero_count(count.doubled))
    return details


def _zero_count(number: int) -> Text:
    return Text(f"{number:,}", style="bold red" if number else "bold green")


def _result_line(result: DemoResult) -> Text:
    kills = f"\n{result.count.rounds} kills, {result.count.acknowledged:,} acknowledged turns, "
    location = f" The database is at {result.kept}." if result.kept else ""
    if result.ok:
        words = f"{kills}nothing lost, nothing doubled ({result.seconds} s).{location}"
        return Text(words, style="bold green")
    return Text(f"{kills}and something is wrong. Please report it.{location}", style="bold red")


def _print_section(call: CommandCall, title: str, content: RenderableType) -> None:
    _print(call, Text(f"\n{title}", style="bold"))
    _print(call, content)


def _print(call: CommandCall, content: RenderableType, style: str = "") -> None:
    if not call.as_json:
        call.out.print(content, style=style)
