"""The limits of an interpreter on this machine: what is over them is stopped, and said."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from clew.workbench.interpreter.port import (
    DisplayOutput,
    ErrorOutput,
    Interpreter,
    InterpreterLimits,
    Output,
    StopOutput,
)
from tests.workbench.interpreter.conftest import processes_below
from tests.workbench.interpreter.contract import Make, outputs, text, value

pytestmark = pytest.mark.asyncio(loop_scope="module")

MEGABYTE = 1024**2


def block_until_there(file: Path) -> None:
    """Be busy with something else, the whole process, until the code has come that far, or for a while."""
    until = time.monotonic() + 3
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.02)


async def test_too_much_memory_or_too_large_a_file_is_an_error_and_variables_stay(make: Make) -> None:
    interpreter = await make(InterpreterLimits(memory=512 * MEGABYTE, file_size=MEGABYTE))

    memory = await outputs(interpreter, "small = 1\nlarge = bytearray(600 * 1024**2)")
    file = await outputs(interpreter, "open('large', 'wb').write(bytes(2 * 1024**2))")

    assert [result[-1].name for result in (memory, file) if isinstance(result[-1], ErrorOutput)] == [
        "MemoryError",
        "OSError",
    ]
    assert await value(interpreter, "small") == "1"


async def test_memory_that_is_shared_counts_too(make: Make) -> None:
    interpreter = await make(InterpreterLimits(memory=256 * MEGABYTE))

    result = await outputs(
        interpreter,
        "import mmap, time\nshared = mmap.mmap(-1, 300 * 1024**2)\n"
        "for place in range(0, len(shared), 4096): shared[place] = 1\ntime.sleep(60)",
    )

    assert isinstance(result[-1], StopOutput)
    assert (result[-1].why, result[-1].alive) == ("memory", False)


async def test_children_count_for_the_memory(make: Make) -> None:
    interpreter = await make(InterpreterLimits(memory=256 * MEGABYTE))

    result = await outputs(
        interpreter,
        "import subprocess, sys\nhold = 'x = bytearray(150 * 1024**2); import time; time.sleep(60)'\n"
        "held = [subprocess.Popen([sys.executable, '-c', hold]) for _ in range(2)]\nheld[0].wait()",
    )

    assert isinstance(result[-1], StopOutput)
    assert (result[-1].why, result[-1].alive) == ("memory", False)


async def test_a_fork_bomb_is_ended_with_all_of_it(make: Make) -> None:
    interpreter = await make(InterpreterLimits(processes=20))

    result = await outputs(
        interpreter, "import os\nfor _ in range(8): os.fork()\nos.execvp('sleep', ['sleep', '1000'])"
    )

    assert isinstance(result[-1], StopOutput)
    assert (result[-1].why, result[-1].alive) == ("processes", False)
    assert not [words for words in processes_below() if "sleep 1000" in words]


async def test_few_processes_are_no_trouble(warm: Interpreter) -> None:
    result = await outputs(warm, "import subprocess\nprint(subprocess.check_output(['echo', 'hello']))")

    assert text(result) == "b'hello\\n'\n"


async def test_nothing_of_a_flood_is_lost_on_a_reader_who_is_slow(
    warm: Interpreter, warm_folders: tuple[Path, Path]
) -> None:
    code = "for number in range(2200): display(f'{number:<250}')\nopen('through', 'w').close()"

    result: list[Output] = []
    async for output in warm.run(code):
        if not result:
            block_until_there(warm_folders[1] / "through")
        result.append(output)

    assert [
        display.forms["text/plain"].strip("' ") for display in result if isinstance(display, DisplayOutput)
    ] == [str(number) for number in range(2200)]


async def test_a_flood_of_messages_that_are_no_output_is_nothing(warm: Interpreter) -> None:
    result = await outputs(
        warm,
        "from comm import create_comm\ntalk = create_comm(target_name='nobody')\n"
        "for number in range(2000): talk.send({'number': number, 'load': 'x' * 1000})\nprint('through')",
    )

    assert text(result) == "through\n"
