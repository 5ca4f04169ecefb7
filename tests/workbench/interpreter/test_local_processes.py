"""Interpreters on this machine end with everything they began, however they end."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from clew.core.errors import InterpreterFailed, InterpreterGone
from clew.workbench.interpreter.local import WALLS, LocalInterpreters
from clew.workbench.interpreter.port import Interpreter, InterpreterLimits, Sandbox, StopOutput, StreamOutput
from tests.workbench.interpreter.contract import Make, outputs, value

pytestmark = pytest.mark.asyncio(loop_scope="module")

RUNAWAY = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", {seconds!r}])
    os._exit(0)
os.wait()
print("off", flush=True)
"""
MAKER = """
import asyncio, sys
from clew.workbench.interpreter.local import WALLS, LocalInterpreters
from clew.workbench.interpreter.port import Sandbox

async def main():
    interpreter = await LocalInterpreters().make(Sandbox(volume=sys.argv[1], scratch=sys.argv[2]))
    async for output in interpreter.run(sys.argv[3]):
        print(output, flush=True)

asyncio.run(main())
"""


def pids_of(words: str) -> list[int]:
    """Who on this machine has these words in its command line, and is not a corpse."""
    pids = []
    for process in psutil.process_iter():
        try:
            if words in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                pids.append(process.pid)
        except psutil.NoSuchProcess:
            continue
    return pids


def within(seconds: float, true: Callable[[], bool]) -> bool:
    """Whether something is so at the latest after a while: it is so in other processes, which tell nobody."""
    until = time.monotonic() + seconds
    while not true() and time.monotonic() < until:
        time.sleep(0.02)
    return true()


def private_folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("clew-kernel-*"))


@pytest.fixture
def seconds() -> str:
    """How long a runaway sleeps: also the mark by which it is found."""
    return f"1000.{time.monotonic_ns()}"


@pytest.fixture(params=[WALLS, ()], ids=["walls", "no walls"])
def either(request: pytest.FixtureRequest) -> LocalInterpreters:
    """With what the system has to keep code apart, and without."""
    return LocalInterpreters(walls=request.param)


@pytest.fixture
def sandbox(folders: tuple[Path, Path]) -> Sandbox:
    volume, scratch = map(str, folders)
    return Sandbox(volume=volume, scratch=scratch)


async def test_a_child_that_ran_away_ends_with_it(
    either: LocalInterpreters, sandbox: Sandbox, seconds: str
) -> None:
    interpreter = await either.make(sandbox)
    await outputs(interpreter, RUNAWAY.format(seconds=seconds))
    there = within(10, lambda: bool(pids_of(f"sleep {seconds}")))

    await interpreter.close()

    assert (there, pids_of(f"sleep {seconds}")) == (True, [])


async def test_a_child_that_ran_away_ends_when_the_kernel_dies(
    either: LocalInterpreters, sandbox: Sandbox, seconds: str
) -> None:
    interpreter = await either.make(sandbox)
    result = await outputs(interpreter, RUNAWAY.format(seconds=seconds) + "os._exit(1)")

    assert isinstance(result[-1], StopOutput)
    assert pids_of(f"sleep {seconds}") == []


@pytest.mark.crash
@pytest.mark.parametrize("walls", ["{'namespaces'}", "()"])
async def test_killing_the_process_that_made_it_leaves_nothing(
    folders: tuple[Path, Path], seconds: str, walls: str
) -> None:
    before = private_folders()
    code = RUNAWAY.format(seconds=seconds) + "while True: pass"
    maker = MAKER.replace("LocalInterpreters()", f"LocalInterpreters(walls={walls})")
    command = [sys.executable, "-c", maker, *map(str, folders), code]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    assert b"off" in await process.stdout.readline()
    process.kill()
    await process.wait()

    assert within(10, lambda: not pids_of(f"sleep {seconds}") and not private_folders() - before)


@pytest.mark.crash
async def test_killing_its_supervisor_ends_the_run_and_leaves_no_kernel(
    sandbox: Sandbox, interpreters: LocalInterpreters
) -> None:
    interpreter = await interpreters.make(sandbox)
    children = psutil.Process(os.getpid()).children()
    supervisors = [child for child in children if "interpreter.supervisor" in " ".join(child.cmdline())]
    newest = max(supervisors, key=lambda child: child.create_time())
    family = newest.children(recursive=True)

    result = []
    async for output in interpreter.run("print('on', flush=True)\nwhile True: pass"):
        result.append(output)
        if isinstance(output, StreamOutput):
            newest.kill()

    assert isinstance(result[-1], StopOutput)
    assert (result[-1].why, result[-1].alive) == ("died", False)
    assert psutil.wait_procs(family, timeout=5)[1] == []


async def test_a_crash_is_told_by_its_signal(make: Make) -> None:
    interpreter = await make(InterpreterLimits())

    result = await outputs(interpreter, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")

    assert isinstance(result[-1], StopOutput)
    assert (result[-1].why, result[-1].detail.split("\n")[0]) == ("died", "it was killed by SIGSEGV")


async def test_an_interrupt_reaches_the_program_that_the_code_waits_for(
    warm: Interpreter, seconds: str
) -> None:
    async for output in warm.run(
        f"import subprocess\nprint('on', flush=True)\nsubprocess.run(['sleep', '{seconds}'])"
    ):
        if isinstance(output, StreamOutput):
            await warm.interrupt()

    assert (output, pids_of(f"sleep {seconds}")) == (
        StopOutput("interrupted", "it was interrupted", alive=True),
        [],
    )


async def test_a_kernel_that_is_stopped_in_its_tracks_is_killed(make: Make) -> None:
    interpreter = await make(InterpreterLimits(seconds=0.5))

    result = await outputs(interpreter, "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)")

    assert isinstance(result[-1], StopOutput)
    assert (result[-1].why, result[-1].alive) == ("time", False)


async def test_runs_that_wait_when_it_dies_are_told(make: Make) -> None:
    interpreter = await make(InterpreterLimits())

    first, second = await asyncio.gather(
        outputs(interpreter, "import os, time\ntime.sleep(0.3)\nos._exit(1)"),
        outputs(interpreter, "1"),
        return_exceptions=True,
    )

    assert isinstance(first, list)
    assert isinstance(second, InterpreterGone)


async def test_a_kernel_without_room_to_start_has_failed(
    interpreters: LocalInterpreters, folders: tuple[Path, Path]
) -> None:
    before = private_folders()
    volume, scratch = map(str, folders)

    with pytest.raises(InterpreterFailed, match="did not come up"):
        await interpreters.make(
            Sandbox(volume=volume, scratch=scratch, limits=InterpreterLimits(memory=10_000_000))
        )
    assert private_folders() - before == set()


async def test_one_without_its_folders_has_failed(interpreters: LocalInterpreters, tmp_path: Path) -> None:
    with pytest.raises(InterpreterFailed, match="no folder"):
        await interpreters.make(Sandbox(volume=str(tmp_path / "none"), scratch=str(tmp_path)))


async def test_a_start_that_is_cancelled_leaves_nothing(
    sandbox: Sandbox, interpreters: LocalInterpreters
) -> None:
    before = private_folders()
    for after in (0.0, 0.05, 0.2):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(interpreters.make(sandbox), after)

    assert private_folders() - before == set()


async def test_a_kernel_that_does_not_answer_in_time_has_failed(sandbox: Sandbox) -> None:
    before = private_folders()

    with pytest.raises(InterpreterFailed, match="did not answer") as error:
        await LocalInterpreters(start_timeout=0.01).make(sandbox)
    assert (error.value.retry, private_folders() - before) == (True, set())


async def test_the_code_s_own_keyboard_interrupt_is_an_error(warm: Interpreter) -> None:
    [failure] = await outputs(warm, "raise KeyboardInterrupt")

    assert failure.name == "KeyboardInterrupt"  # type: ignore[union-attr]  # mypy cannot know
    assert await value(warm, "1") == "1"


async def test_closing_where_they_come_from_closes_all_of_each(sandbox: Sandbox) -> None:
    before = private_folders()
    local = LocalInterpreters()
    interpreter = await local.make(sandbox)
    [folder] = private_folders() - before
    mode = stat.S_IMODE(folder.stat().st_mode)
    closing = asyncio.create_task(interpreter.close())
    await asyncio.sleep(0)
    closing.cancel()

    await local.close()

    assert (mode, folder.exists(), await interpreter.alive()) == (0o700, False, False)
