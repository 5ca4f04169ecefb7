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

from clew.cli.command import Answer, Call, url_of
from clew.cli.commands.demo_child import THREAD
from clew.cli.commands.threads import difference
from clew.cli.render import values
from clew.core.errors import InvalidArgument, StorageError
from clew.core.values import Changeset
from clew.database.database import Database
from clew.urls import open as open_database

FEWEST, MOST, LONGEST = 0.15, 0.9, 60


class Acknowledged(msgspec.Struct, frozen=True):
    """What the child said about one turn after its commit."""

    turn: int
    version: int
    hash: str
    repeated: bool


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """What was acknowledged, and what is in the file after all the kills."""

    rounds: int
    acknowledged: int
    stored: int
    in_doubt: int
    lost: int
    doubled: int


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The demo in numbers."""

    count: Count
    version: int
    hash: str
    verified: bool
    seconds: float
    kept: str | None

    @property
    def ok(self) -> bool:
        """Whether the demo has shown what it says."""
        return self.verified and not self.count.lost and not self.count.doubled


async def demo(
    call: Call,
    rounds: Annotated[int, typer.Option("--rounds", metavar="N", min=1, help="How often to kill it.")] = 10,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="PATH", help="Keep the database there.")
    ] = None,
) -> Answer:
    """Kill a writer again and again; see that nothing is lost.

    Example: clew demo --keep demo.db
    """
    started = time.monotonic()
    with _scratch(keep) as file, _ended_by_signal():
        said = await _killed_again_and_again(call, file, rounds)
        async with open_database(url_of(str(file))) as db:
            outcome = await _shown(call, db, said, rounds, keep)
    outcome = msgspec.structs.replace(outcome, seconds=round(time.monotonic() - started, 1))
    return Answer(value=outcome, shown=_verdict(outcome), ok=outcome.ok)


@contextmanager
def _scratch(keep: Path | None) -> Iterator[Path]:
    """Where the demo writes: a place that is gone afterwards, or the one to keep."""
    if keep is not None:
        if keep.exists():
            raise InvalidArgument(problem=f"{str(keep)!r} exists already. Choose another place for --keep.")
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="clew-demo-") as folder:
        yield Path(folder) / "demo.db"


@contextmanager
def _ended_by_signal() -> Iterator[None]:
    """Let a polite request to end clean up as Ctrl-C does."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


# Killing.


async def _killed_again_and_again(call: Call, file: Path, rounds: int) -> list[Acknowledged]:
    _say(
        call, "A child process runs turns on one thread in a SQLite file. After each commit has", style="bold"
    )
    _say(
        call,
        "returned, it tells us so over a pipe. We kill it with SIGKILL at random moments.\n",
        style="bold",
    )
    async with open_database(url_of(str(file))) as db:
        await db.create(THREAD, owner="demo")
    said: list[Acknowledged] = []
    with call.progress("Killing", rounds, beside=None if call.as_json else call.out) as advance:
        for number in range(1, rounds + 1):
            life = random.uniform(FEWEST, MOST)
            new = await _one_life(file, len(said) + 1, life)
            _say(call, _round_line(number, life, new, len(said) + len(new)))
            said += new
            advance(1)
    return said


async def _one_life(file: Path, first: int, seconds: float) -> list[Acknowledged]:
    """What a child acknowledged between its first turn and its death, some seconds later."""
    said: list[Acknowledged] = []
    begun = asyncio.Event()
    with tempfile.TemporaryFile() as trouble:
        child = await _child(file, first, trouble)
        listening = asyncio.create_task(_listen(child, said, begun))
        try:
            await asyncio.wait_for(begun.wait(), LONGEST)
            await asyncio.sleep(seconds if said else 0)
        finally:
            child.kill() if child.returncode is None else None
            await listening
            await child.wait()
        if not said:
            raise StorageError(store="The demo's child process", problem=_last_line(trouble))
    return said


async def _child(file: Path, first: int, trouble: BinaryIO) -> asyncio.subprocess.Process:
    """A process in a session of its own, so that Ctrl-C reaches only us; we end it, whatever happens."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "clew.cli.commands.demo_child", str(file), str(first)),
        stdout=asyncio.subprocess.PIPE,
        stderr=trouble,
        start_new_session=True,
    )


async def _listen(child: asyncio.subprocess.Process, said: list[Acknowledged], begun: asyncio.Event) -> None:
    assert child.stdout is not None
    async for line in child.stdout:
        if line.endswith(b"\n"):
            said.append(_heard(line))
            begun.set()
    begun.set()


def _last_line(trouble: BinaryIO) -> str:
    trouble.seek(0)
    lines = trouble.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it ended without a word")


def _heard(line: bytes) -> Acknowledged:
    turn, version, hash, repeated = line.decode().split()
    return Acknowledged(int(turn), int(version), hash, repeated == "1")


def _round_line(number: int, life: float, new: Sequence[Acknowledged], total: int) -> Text:
    again = "   1 in doubt, kept once" if new and new[0].repeated else ""
    words = f"  kill {number:2}  after {life:4.2f} s  {len(new):6,} turns  {total:7,} in all{again}"
    return Text(words, style="yellow" if again else "")


# Showing.


async def _shown(
    call: Call, db: Database, said: Sequence[Acknowledged], rounds: int, keep: Path | None
) -> Outcome:
    thread = db.thread(THREAD)
    with call.progress("Counting", None):
        head, changes = await thread.head(), await _all_changes(db)
    count = counted(said, changes, rounds)
    _section(call, "What is in the file", _count_lines(count))
    _section(call, "clew log: the end of the timeline", values.timeline(changes[-4:]))
    middle = head.version // 2
    found = await difference(thread, await thread.head(at=middle), thread, await thread.head(at=middle + 1))
    _section(call, f"clew diff: version {middle} against {middle + 1}", values.difference(found))
    branch = await (await thread.fork(f"{THREAD}-b", at=middle)).head()
    _section(
        call,
        "clew fork: another way from there, nothing copied",
        Group(values.title(branch), values.about(branch)),
    )
    with call.progress("Checking the hash chain", None):
        verdicts = [await each.verify() for each in (thread, db.thread(f"{THREAD}-b"))]
    _section(
        call,
        "clew verify: the hash chain and the replayed state",
        values.verdicts(verdicts, ()),
    )
    return Outcome(
        count=count,
        version=head.version,
        hash=head.hash.hex(),
        verified=all(verdict.ok for verdict in verdicts),
        seconds=0,
        kept=str(keep) if keep else None,
    )


async def _all_changes(db: Database) -> list[Changeset]:
    changes: list[Changeset] = []
    while more := await db.thread(THREAD).changesets(after=len(changes), limit=1000):
        changes += more
    return changes


def counted(said: Sequence[Acknowledged], changes: Sequence[Changeset], rounds: int) -> Count:
    """What was said beside what is there."""
    stored = {change.version: (change.key, change.hash.hex()) for change in changes}
    found = [each for each in said if stored.get(each.version) == (f"turn-{each.turn}", each.hash)]
    keys = {change.key for change in changes}
    ids = [item.id for change in changes for item in change.items]
    in_doubt = sum(each.repeated for each in said) + len(changes) - len(said)
    return Count(
        rounds=rounds,
        acknowledged=len(said),
        stored=len(changes),
        in_doubt=in_doubt,
        lost=len(said) - len(found),
        doubled=len(changes) - len(keys) + len(ids) - len(set(ids)),
    )


def _count_lines(count: Count) -> RenderableType:
    shown = values.facts()
    shown.add_row("turns acknowledged", f"{count.acknowledged:,}")
    shown.add_row("turns in the file", f"{count.stored:,}")
    shown.add_row("killed between commit and acknowledgement", f"{count.in_doubt:,} (each is there once)")
    shown.add_row("lost", _good(count.lost))
    shown.add_row("doubled", _good(count.doubled))
    return shown


def _good(number: int) -> Text:
    return Text(f"{number:,}", style="bold red" if number else "bold green")


def _verdict(outcome: Outcome) -> Text:
    kills = f"\n{outcome.count.rounds} kills, {outcome.count.acknowledged:,} acknowledged turns, "
    kept = f" The database is at {outcome.kept}." if outcome.kept else ""
    if outcome.ok:
        words = f"{kills}nothing lost, nothing doubled ({outcome.seconds} s).{kept}"
        return Text(words, style="bold green")
    return Text(f"{kills}and something is wrong. Please report it.{kept}", style="bold red")


def _section(call: Call, title: str, shown: RenderableType) -> None:
    _say(call, Text(f"\n{title}", style="bold"))
    _say(call, shown)


def _say(call: Call, shown: RenderableType, style: str = "") -> None:
    if not call.as_json:
        call.out.print(shown, style=style)
