"""What code on this machine can reach, and that what it can reach is said."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.workbench.interpreter.kernel import isolation_of
from clew.workbench.interpreter.local import LocalInterpreters
from clew.workbench.interpreter.port import ErrorOutput, Interpreter, InterpreterLimits, Sandbox
from tests.workbench.interpreter.contract import Make, outputs, text, value

pytestmark = pytest.mark.asyncio(loop_scope="module")

REACH = """
import socket
try:
    socket.create_connection(("127.0.0.1", {port}), timeout=2).close()
    print("reached")
except OSError:
    print("out of reach")
"""
SECRETS = """
import pathlib
found = []
for file in pathlib.Path("/proc").glob("[0-9]*/environ"):
    try:
        found += [file for word in (b"sk-secret", b"OPENAI_API_KEY") if word in file.read_bytes()]
    except OSError:
        pass
print(found)
"""


@pytest.fixture
def port() -> Iterator[int]:
    """A port of this machine where somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


async def test_what_is_said_to_be_out_of_reach_of_the_network_is(warm: Interpreter, port: int) -> None:
    result = await outputs(warm, REACH.format(port=port))

    assert text(result) == ("out of reach\n" if warm.describe().network else "reached\n")


async def test_the_network_can_be_allowed(make: Make, port: int) -> None:
    interpreter = await make(InterpreterLimits(network=True))

    result = await outputs(interpreter, REACH.format(port=port))

    assert (text(result), interpreter.describe().network) == ("reached\n", False)
    assert "the network is allowed" in interpreter.describe().notes


async def test_no_secret_is_in_any_environment_that_it_can_read(warm: Interpreter) -> None:
    if not warm.describe().processes:
        pytest.xfail("this system keeps processes no secret from one another, and describe() says so")

    assert text(await outputs(warm, SECRETS)) == "[]\n"


async def test_one_that_is_not_kept_apart_says_so_and_still_inherits_no_secret(
    monkeypatch: pytest.MonkeyPatch, folders: tuple[Path, Path]
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    volume, scratch = map(str, folders)
    interpreter = await LocalInterpreters(walls=()).make(Sandbox(volume=volume, scratch=scratch))

    result = await outputs(interpreter, "print(b'sk-secret' in open('/proc/self/environ', 'rb').read())")
    isolation = interpreter.describe()
    await interpreter.close()

    assert text(result) == "False\n"
    assert (isolation.network, isolation.files, isolation.processes, len(isolation.notes)) == (
        False,
        False,
        False,
        2,
    )


async def test_what_keeps_it_apart_is_used_where_the_system_has_it(warm: Interpreter) -> None:
    isolation = warm.describe()

    # Where this fails, the tests run on a system without user namespaces: then it must be said why.
    assert (isolation.network and isolation.files and isolation.processes) or isolation.notes


async def test_only_its_own_folders_are_seen(warm: Interpreter, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("another user's")

    is_visible = await value(warm, f"__import__('os').path.exists({str(tmp_path / 'other')!r})")

    assert is_visible == str(not warm.describe().files)


async def test_the_system_s_own_files_cannot_be_changed(warm: Interpreter) -> None:
    await outputs(warm, "import os, sys")

    assert await value(warm, "os.access(sys.prefix, os.W_OK)") == str(not warm.describe().files)


async def test_it_has_no_capability(warm: Interpreter) -> None:
    result = await outputs(warm, "print([line for line in open('/proc/self/status') if 'CapEff' in line])")

    assert "0000000000000000" in text(result)


async def test_it_does_not_see_other_processes(warm: Interpreter) -> None:
    await outputs(warm, "import os")

    assert await value(warm, f"os.path.exists('/proc/{os.getpid()}/cmdline')") == str(
        not warm.describe().processes
    )


async def test_shell_and_magic_work_under_the_same_walls(warm: Interpreter, port: int) -> None:
    result = await outputs(warm, "!echo $HOME; pwd\n%pwd")

    scratch = await value(warm, "__import__('os').getcwd()")
    assert text(result).split() == [scratch, scratch]


async def test_shared_memory_and_temporary_files_work(warm: Interpreter) -> None:
    result = await outputs(
        warm,
        "import multiprocessing, tempfile\nwith tempfile.TemporaryFile() as file: file.write(b'x')\n"
        "lock = multiprocessing.get_context('spawn').Lock()\nwith lock: print('held')",
    )

    assert text(result) == "held\n"


async def test_nothing_but_its_files_is_in_the_scratch_of_a_new_one(
    make: Make, folders: tuple[Path, Path]
) -> None:
    await make(InterpreterLimits())

    assert list(folders[1].iterdir()) == []


async def test_what_the_system_refused_is_said(folders: tuple[Path, Path]) -> None:
    sandbox = Sandbox(volume=str(folders[0]), scratch=str(folders[1]))

    isolation = isolation_of(
        sandbox,
        {"alone": "unshare: Operation not permitted", "confined": "unshare: no", "fenced": "no Landlock"},
    )

    assert (isolation.network, isolation.files, isolation.processes) == (False, False, False)
    assert isolation.notes == (
        "no namespaces of its own: unshare: Operation not permitted",
        "files are not confined: unshare: no; no Landlock",
    )


async def test_files_alone_may_be_refused(folders: tuple[Path, Path]) -> None:
    sandbox = Sandbox(volume=str(folders[0]), scratch=str(folders[1]))

    isolation = isolation_of(sandbox, {"alone": None, "confined": "mount: no", "fenced": "no Landlock"})

    assert (isolation.network, isolation.files, isolation.processes) == (True, False, True)


async def test_landlock_stands_in_where_namespaces_are_refused(
    monkeypatch: pytest.MonkeyPatch, folders: tuple[Path, Path], tmp_path: Path, port: int
) -> None:
    (tmp_path / "other").write_text("another user's")
    volume, scratch = map(str, folders)
    interpreter = await LocalInterpreters(walls={"landlock"}).make(Sandbox(volume=volume, scratch=scratch))
    isolation = interpreter.describe()

    reading = await outputs(interpreter, f"open({str(tmp_path / 'other')!r})")
    writing = await outputs(interpreter, "import os, sys\nopen(os.path.join(sys.prefix, 'x'), 'w')")
    own = await outputs(interpreter, "open('own', 'w').write('x')\n!cat own")
    network = await outputs(interpreter, REACH.format(port=port))
    await interpreter.close()

    # On a system with neither, nothing is fenced: then it must be said why.
    names = ["PermissionError"] * 2 if isolation.files else []
    assert [result[-1].name for result in (reading, writing) if isinstance(result[-1], ErrorOutput)] == names
    assert (text(own).strip(), isolation.network, isolation.processes) == ("x", False, False)
    assert text(network) in ("out of reach\n", "reached\n")
    assert len(isolation.notes) >= 2
