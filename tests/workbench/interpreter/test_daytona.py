"""What goes wrong at the provider, and what is asked of it: told by name, and nothing is left there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from daytona import DaytonaConfig

from clew.core.errors import InterpreterFailed, InterpreterGone
from clew.workbench.interpreter.daytona import RemoteInterpreters
from clew.workbench.interpreter.port import (
    DisplayOutput,
    ErrorOutput,
    InterpreterLimits,
    Sandbox,
    StopOutput,
    StreamOutput,
)
from clew.workbench.interpreter.remote import RemoteInterpreter
from tests.workbench.interpreter.contract import outputs, text, value
from tests.workbench.interpreter.daytona_server import KEY, Fault, StandIn

COUNTING = "count = 0\nfor count in range(10): print(count)\nwhile True: count += 1"


@pytest_asyncio.fixture
async def provider() -> AsyncIterator[StandIn]:
    """The stand-in."""
    standing = StandIn()
    await standing.start()
    yield standing
    await standing.stop()


def at(provider: StandIn, *, key: str = KEY, patience: float = 60.0) -> RemoteInterpreters:
    """Interpreters at the stand-in."""
    config = DaytonaConfig(api_key=key, api_url=provider.url, target="here")
    return RemoteInterpreters(config, mount="/volume", grace=1.0, start_timeout=patience)


@pytest_asyncio.fixture
async def interpreters(provider: StandIn) -> AsyncIterator[RemoteInterpreters]:
    """Where the interpreters come from."""
    remote = at(provider)
    yield remote
    await remote.close()


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return Sandbox(volume="alice/session", scratch=str(tmp_path))


@pytest_asyncio.fixture
async def interpreter(interpreters: RemoteInterpreters, sandbox: Sandbox) -> RemoteInterpreter:
    return await interpreters.make(sandbox)


def sandboxes_of(provider: StandIn) -> list[str]:
    """The sandboxes that are still there."""
    return [remote.id for remote in provider.sandboxes.values() if remote.state != "destroyed"]


# --- making one --------------------------------------------------------------------------------


async def test_a_sandbox_is_asked_for_with_its_walls_and_its_volume(
    provider: StandIn, interpreter: RemoteInterpreter
) -> None:
    [remote] = provider.sandboxes.values()
    body = remote.request_body

    assert (body["networkBlockAll"], body["autoDeleteInterval"], body["autoStopInterval"]) == (True, 0, 15)
    assert body["volumes"] == [{"volumeId": "volume-alice", "mountPath": "/volume", "subpath": "session"}]
    assert interpreter.describe().network


async def test_the_network_can_be_allowed(
    provider: StandIn, interpreters: RemoteInterpreters, tmp_path: Path
) -> None:
    open_sandbox = Sandbox(volume="alice", scratch=str(tmp_path), limits=InterpreterLimits(network=True))

    isolation = (await interpreters.make(open_sandbox)).describe()

    assert (isolation.network, isolation.notes) == (False, ("the network is allowed",))


async def test_a_key_that_does_not_hold_is_told(provider: StandIn, sandbox: Sandbox) -> None:
    remote = at(provider, key="wrong")

    with pytest.raises(InterpreterFailed, match="Invalid credentials") as error:
        await remote.make(sandbox)
    await remote.close()
    assert not error.value.retry


async def test_no_key_at_all_is_told(monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox) -> None:
    for name in ("DAYTONA_API_KEY", "DAYTONA_JWT_TOKEN"):
        monkeypatch.delenv(name, raising=False)

    with pytest.raises(InterpreterFailed, match="DAYTONA_API_KEY") as error:
        await RemoteInterpreters().make(sandbox)
    assert not error.value.retry


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_provider_in_trouble_may_be_tried_again(
    provider: StandIn, interpreters: RemoteInterpreters, sandbox: Sandbox, status: int
) -> None:
    provider.faults["POST /sandbox"] = Fault(status=status)

    with pytest.raises(InterpreterFailed) as error:
        await interpreters.make(sandbox)
    assert error.value.retry
    assert await value(await interpreters.make(sandbox), "1") == "1"


async def test_a_provider_that_is_not_there_may_be_tried_again(sandbox: Sandbox) -> None:
    absent = StandIn()
    await absent.start()
    await absent.stop()
    remote = at(absent)

    with pytest.raises(InterpreterFailed) as error:
        await remote.make(sandbox)
    await remote.close()
    assert error.value.retry


async def test_a_sandbox_that_does_not_start_in_time_is_deleted(provider: StandIn, sandbox: Sandbox) -> None:
    provider.first_state = "creating"
    remote = at(provider, patience=1.0)

    with pytest.raises(InterpreterFailed) as error:
        await remote.make(sandbox)
    await remote.close()
    assert (error.value.retry, sandboxes_of(provider)) == (True, [])


async def test_a_sandbox_that_starts_slowly_is_waited_for(
    provider: StandIn, interpreters: RemoteInterpreters, sandbox: Sandbox
) -> None:
    provider.first_state = "starting"

    assert await value(await interpreters.make(sandbox), "1") == "1"


async def test_a_volume_that_is_not_ready_is_waited_for(
    provider: StandIn, interpreters: RemoteInterpreters, sandbox: Sandbox
) -> None:
    provider.volumes["alice"] = ["creating", "ready"]

    assert await value(await interpreters.make(sandbox), "1") == "1"


async def test_a_broken_volume_is_told(
    provider: StandIn, interpreters: RemoteInterpreters, sandbox: Sandbox
) -> None:
    provider.volumes["alice"] = ["error"]

    with pytest.raises(InterpreterFailed, match="volume 'alice' is error"):
        await interpreters.make(sandbox)
    assert provider.sandboxes == {}


async def test_a_sandbox_whose_context_does_not_start_is_deleted(
    provider: StandIn, interpreters: RemoteInterpreters, sandbox: Sandbox
) -> None:
    provider.faults["interpreter/context"] = Fault(status=500)

    with pytest.raises(InterpreterFailed):
        await interpreters.make(sandbox)
    assert sandboxes_of(provider) == []


# --- running -----------------------------------------------------------------------------------


async def test_a_connection_cut_in_the_middle_of_output_loses_the_rest_and_keeps_the_variables(
    provider: StandIn, interpreter: RemoteInterpreter
) -> None:
    provider.faults["interpreter/execute"] = Fault(cut_after=3)

    result = await outputs(interpreter, COUNTING)

    assert text(result) == "0\n1\n2\n"
    assert isinstance(result[-1], StopOutput)
    assert (result[-1].why, result[-1].alive) == ("lost", True)
    assert int(await value(interpreter, "count")) >= 3


async def test_a_connection_cut_for_good_loses_the_interpreter(
    provider: StandIn, interpreter: RemoteInterpreter
) -> None:
    provider.faults["interpreter/execute"] = Fault(cut_after=3)
    provider.faults["interpreter/context"] = Fault(status=502, times=99)

    result = await outputs(interpreter, COUNTING)

    assert isinstance(result[-1], StopOutput)
    assert (result[-1].why, result[-1].alive) == ("lost", False)
    with pytest.raises(InterpreterGone):
        await outputs(interpreter, "1")


@pytest.mark.parametrize(("status", "again"), [(401, False), (403, False), (429, True), (500, True)])
async def test_a_run_that_is_refused_did_not_begin(
    provider: StandIn,
    interpreter: RemoteInterpreter,
    status: int,
    again: bool,  # noqa: FBT001 - the parameters give it
) -> None:
    provider.faults["interpreter/execute"] = Fault(status=status)

    with pytest.raises(InterpreterFailed) as error:
        await outputs(interpreter, "begun = True")
    assert error.value.retry is again
    assert await value(interpreter, "'begun' in globals()") == "False"


async def test_a_run_in_a_sandbox_that_is_gone_is_told(
    provider: StandIn, interpreter: RemoteInterpreter
) -> None:
    [remote] = provider.sandboxes.values()
    remote.state = "destroyed"

    with pytest.raises(InterpreterGone):
        await outputs(interpreter, "1")


async def test_a_context_that_ended_between_two_runs_is_gone(
    provider: StandIn, interpreter: RemoteInterpreter
) -> None:
    [remote] = provider.sandboxes.values()
    for context in remote.contexts.values():
        await context.end()

    with pytest.raises(InterpreterGone):
        await outputs(interpreter, "1")


async def test_a_provider_that_hangs_is_given_up_at_the_limit(
    provider: StandIn, interpreters: RemoteInterpreters, sandbox: Sandbox
) -> None:
    hasty_sandbox = Sandbox(
        volume=sandbox.volume, scratch=sandbox.scratch, limits=InterpreterLimits(seconds=0.3)
    )
    interpreter = await interpreters.make(hasty_sandbox)
    provider.faults["interpreter/execute"] = Fault(seconds=60)

    result = await outputs(interpreter, "1")

    assert isinstance(result[-1], StopOutput)
    assert (result[-1].why, result[-1].alive) == ("time", False)


async def test_the_code_s_own_keyboard_interrupt_is_an_error(interpreter: RemoteInterpreter) -> None:
    assert await outputs(interpreter, "raise KeyboardInterrupt") == [ErrorOutput("KeyboardInterrupt", "", "")]


async def test_a_large_picture_comes_in_pieces(interpreters: RemoteInterpreters, tmp_path: Path) -> None:
    wide = Sandbox(volume="alice", scratch=str(tmp_path), limits=InterpreterLimits(output=8 * 1024**2))
    interpreter = await interpreters.make(wide)

    result = await outputs(
        interpreter, "class Large:\n    def _repr_png_(self): return bytes(3 * 2**19)\nprint('a')\nLarge()"
    )

    assert result[0] == StreamOutput("stdout", "a\n")
    assert isinstance(result[1], DisplayOutput)
    assert (len(result[1].forms["image/png"]), len(result)) == (2**21, 2)


async def test_limits_of_memory_hold_there_too(interpreters: RemoteInterpreters, tmp_path: Path) -> None:
    small = Sandbox(
        volume="alice", scratch=str(tmp_path), limits=InterpreterLimits(memory=200 * 1024**2, file_size=1000)
    )
    interpreter = await interpreters.make(small)

    memory = await outputs(interpreter, "bytearray(300 * 1024**2)")
    file = await outputs(interpreter, "with open('large', 'wb') as file: file.write(bytes(2000))")

    assert [result[-1].name for result in (memory, file) if isinstance(result[-1], ErrorOutput)] == [
        "MemoryError",
        "OSError",
    ]


# --- finding one again, and ending it -----------------------------------------------------------


async def test_one_is_found_again_by_another_process(
    provider: StandIn, interpreter: RemoteInterpreter, sandbox: Sandbox
) -> None:
    await outputs(interpreter, "kept = 7")
    elsewhere = at(provider)

    again = await elsewhere.attach(interpreter.id, sandbox)

    assert await value(again, "kept") == "7"
    await elsewhere.close()


async def test_one_found_again_can_be_interrupted(
    provider: StandIn, interpreters: RemoteInterpreters, interpreter: RemoteInterpreter, sandbox: Sandbox
) -> None:
    again = await interpreters.attach(interpreter.id, sandbox)

    result = []
    async for output in again.run(COUNTING):
        result.append(output)
        await again.interrupt()

    assert result[-1] == StopOutput("interrupted", "it was interrupted", alive=True)


async def test_one_whose_sandbox_was_stopped_is_gone(
    provider: StandIn, interpreters: RemoteInterpreters, interpreter: RemoteInterpreter, sandbox: Sandbox
) -> None:
    [remote] = provider.sandboxes.values()
    remote.state = "stopped"

    with pytest.raises(InterpreterGone, match="its sandbox is stopped"):
        await interpreters.attach(interpreter.id, sandbox)


async def test_a_provider_that_does_not_say_is_not_taken_for_a_death(
    provider: StandIn, interpreters: RemoteInterpreters, interpreter: RemoteInterpreter, sandbox: Sandbox
) -> None:
    provider.faults["GET /sandbox"] = Fault(status=500, times=99)

    with pytest.raises(InterpreterFailed) as error:
        await interpreters.attach(interpreter.id, sandbox)
    assert error.value.retry


async def test_closing_deletes_the_sandbox(provider: StandIn, interpreter: RemoteInterpreter) -> None:
    await interpreter.close()

    assert sandboxes_of(provider) == []


async def test_closing_one_that_is_gone_already_is_fine(
    provider: StandIn, interpreter: RemoteInterpreter
) -> None:
    provider.sandboxes.clear()
    await interpreter.close()

    assert not await interpreter.alive()


async def test_a_close_that_the_provider_refuses_is_told_and_can_be_repeated(
    provider: StandIn, interpreter: RemoteInterpreter
) -> None:
    provider.faults["DELETE /sandbox"] = Fault(status=500)

    with pytest.raises(InterpreterFailed):
        await interpreter.close()
    await interpreter.close()
    assert sandboxes_of(provider) == []


@pytest.mark.parametrize(
    ("module", "absent", "extra"),
    [
        ("daytona", "daytona", "daytona"),
        ("local", "zmq", "workbench"),
        ("local", "jupyter_client", "workbench"),
    ],
)
def test_a_missing_package_is_told_with_what_to_install(module: str, absent: str, extra: str) -> None:
    script = (
        f"import sys; sys.modules[{absent!r}] = None\n"
        "from clew.core.errors import MissingExtra\n"
        f"try: import clew.workbench.interpreter.{module}\n"
        "except MissingExtra as error: print(error)"
    )

    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout

    assert f"pip install '.[{extra}]'" in output
