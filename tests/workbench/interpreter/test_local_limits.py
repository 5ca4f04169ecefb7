"""The limits of an interpreter on this machine: what is over them is stopped, and said."""

from __future__ import annotations

import pytest

from holdfast.workbench.interpreter.port import Interpreter, Limits, Raised, Shown, Stopped
from tests.workbench.interpreter.conftest import left_behind
from tests.workbench.interpreter.contract import Make, outputs, text, value

pytestmark = pytest.mark.asyncio(loop_scope="module")

MEGABYTE = 1024**2


async def test_too_much_memory_or_too_large_a_file_is_an_error_and_variables_stay(make: Make) -> None:
    interpreter = await make(Limits(memory=512 * MEGABYTE, file_size=MEGABYTE))

    memory = await outputs(interpreter, "small = 1\nlarge = bytearray(600 * 1024**2)")
    file = await outputs(interpreter, "open('large', 'wb').write(bytes(2 * 1024**2))")

    assert [given[-1].name for given in (memory, file) if isinstance(given[-1], Raised)] == [
        "MemoryError",
        "OSError",
    ]
    assert await value(interpreter, "small") == "1"


async def test_memory_that_is_shared_counts_too(make: Make) -> None:
    interpreter = await make(Limits(memory=256 * MEGABYTE))

    given = await outputs(
        interpreter,
        "import mmap, time\nshared = mmap.mmap(-1, 300 * 1024**2)\n"
        "for place in range(0, len(shared), 4096): shared[place] = 1\ntime.sleep(60)",
    )

    assert isinstance(given[-1], Stopped)
    assert (given[-1].why, given[-1].alive) == ("memory", False)


async def test_children_count_for_the_memory(make: Make) -> None:
    interpreter = await make(Limits(memory=256 * MEGABYTE))

    given = await outputs(
        interpreter,
        "import subprocess, sys\nhold = 'x = bytearray(150 * 1024**2); import time; time.sleep(60)'\n"
        "held = [subprocess.Popen([sys.executable, '-c', hold]) for _ in range(2)]\nheld[0].wait()",
    )

    assert isinstance(given[-1], Stopped)
    assert (given[-1].why, given[-1].alive) == ("memory", False)


async def test_a_fork_bomb_is_ended_with_all_of_it(make: Make) -> None:
    interpreter = await make(Limits(processes=20))

    given = await outputs(
        interpreter, "import os\nfor _ in range(8): os.fork()\nos.execvp('sleep', ['sleep', '1000'])"
    )

    assert isinstance(given[-1], Stopped)
    assert (given[-1].why, given[-1].alive) == ("processes", False)
    assert not [words for words in left_behind() if "sleep 1000" in words]


async def test_few_processes_are_no_trouble(warm: Interpreter) -> None:
    given = await outputs(warm, "import subprocess\nprint(subprocess.check_output(['echo', 'hello']))")

    assert text(given) == "b'hello\\n'\n"


async def test_a_flood_of_displays_ends_and_the_next_run_is_whole(warm: Interpreter) -> None:
    given = await outputs(warm, "for number in range(1500): display(number)")

    assert [shown.forms["text/plain"] for shown in given if isinstance(shown, Shown)] == [
        str(number) for number in range(1500)
    ]


async def test_a_flood_of_messages_that_are_no_output_is_nothing(warm: Interpreter) -> None:
    given = await outputs(
        warm,
        "from comm import create_comm\ntalk = create_comm(target_name='nobody')\n"
        "for number in range(2000): talk.send({'number': number, 'load': 'x' * 1000})\nprint('through')",
    )

    assert text(given) == "through\n"
