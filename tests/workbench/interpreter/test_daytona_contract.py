"""The interpreter at Daytona does what every interpreter does; its provider is a stand-in on this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from daytona import DaytonaConfig

from clew.workbench.interpreter.daytona import RemoteInterpreters
from clew.workbench.interpreter.port import InterpreterLimits, Sandbox
from clew.workbench.interpreter.remote import RemoteInterpreter
from tests.workbench.interpreter.contract import InterpreterContract, Make, interpreter_maker
from tests.workbench.interpreter.daytona_server import KEY, StandIn

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def provider() -> AsyncIterator[StandIn]:
    """The stand-in."""
    standing = StandIn()
    await standing.start()
    yield standing
    await standing.stop()


@pytest.fixture(scope="module")
def warm_sandbox(warm_folders: tuple[Path, Path]) -> Sandbox:
    """What the warm one is made with."""
    return Sandbox(volume="alice/session", scratch=str(warm_folders[1]), environment={"NAMED": "named"})


@pytest.fixture
def other_sandbox(tmp_path: Path) -> Sandbox:
    """A sandbox on another volume."""
    return Sandbox(volume="bob", scratch=str(tmp_path))


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def interpreters(
    provider: StandIn, warm_folders: tuple[Path, Path]
) -> AsyncIterator[RemoteInterpreters]:
    """Where the interpreters come from."""
    config = DaytonaConfig(api_key=KEY, api_url=provider.url, target="here")
    remote = RemoteInterpreters(config, mount=str(warm_folders[0]), grace=2.0)
    yield remote
    await remote.close()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def warm(interpreters: RemoteInterpreters, warm_sandbox: Sandbox) -> AsyncIterator[RemoteInterpreter]:
    """One for all the tests that leave it alive, made by a process with secrets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-secret")
        interpreter = await interpreters.make(warm_sandbox)
    yield interpreter
    await interpreter.close()


@pytest_asyncio.fixture(loop_scope="module")
async def make(interpreters: RemoteInterpreters, tmp_path: Path) -> AsyncIterator[Make]:
    """A way to make one with limits of its own, closed after the test."""

    async def one(limits: InterpreterLimits) -> RemoteInterpreter:
        return await interpreters.make(Sandbox(volume="alice/session", scratch=str(tmp_path), limits=limits))

    async for way in interpreter_maker(one):
        yield way


class TestRemote(InterpreterContract):
    """The whole contract, against the stand-in."""
