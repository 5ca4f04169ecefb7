"""What the interpreters' tests share: ones of this machine, and a look at the process list at the end."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from clew.workbench.interpreter.local import LocalInterpreter, LocalInterpreters
from clew.workbench.interpreter.port import InterpreterLimits, Sandbox
from tests.workbench.interpreter.contract import Make, interpreter_maker


def processes_below() -> list[str]:
    """Every process below this one that is an interpreter's own or was started by one."""
    command_lines = []
    for process in psutil.Process(os.getpid()).children(recursive=True):
        try:
            words = " ".join(process.cmdline())
        except psutil.NoSuchProcess:
            continue
        if any(mark in words for mark in ("ipykernel", "interpreter.supervisor", "sleep")):
            command_lines.append(words)
    return command_lines


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No kernel, no supervisor, no child of theirs and no private folder outlives the tests of a module.

    Private folders are made in a folder of the module's own: other workers make theirs at the same time.
    """
    tmp_path_factory.getbasetemp()  # pytest's own folder must not be made in ours
    with tempfile.TemporaryDirectory(prefix="hf-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield
        assert (processes_below(), list(Path(folder).glob("clew-kernel-*"))) == ([], [])


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A volume and a scratch of one test's own."""
    pair = (tmp_path / "volume", tmp_path / "scratch")
    for folder in pair:
        folder.mkdir()
    return pair


@pytest.fixture(scope="module")
def warm_folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The volume and the scratch of the warm one."""
    return tmp_path_factory.mktemp("volume"), tmp_path_factory.mktemp("scratch")


@pytest.fixture(scope="module")
def warm_sandbox(warm_folders: tuple[Path, Path]) -> Sandbox:
    """What the warm one is made with."""
    volume, scratch = map(str, warm_folders)
    return Sandbox(volume=volume, scratch=scratch, environment={"NAMED": "named"})


@pytest.fixture
def other_sandbox(tmp_path: Path) -> Sandbox:
    """A sandbox on another volume."""
    return Sandbox(volume=str(tmp_path), scratch=str(tmp_path))


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def interpreters() -> AsyncIterator[LocalInterpreters]:
    """Where the interpreters of a module come from."""
    local = LocalInterpreters(grace=2.0)
    yield local
    await local.close()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def warm(interpreters: LocalInterpreters, warm_sandbox: Sandbox) -> LocalInterpreter:
    """One interpreter for all the tests of a module that leave it alive, made by a process with secrets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-secret")
        return await interpreters.make(warm_sandbox)


@pytest_asyncio.fixture(loop_scope="module")
async def make(interpreters: LocalInterpreters, folders: tuple[Path, Path]) -> AsyncIterator[Make]:
    """A way to make one with limits of its own, closed after the test."""

    async def one(limits: InterpreterLimits) -> LocalInterpreter:
        volume, scratch = map(str, folders)
        return await interpreters.make(Sandbox(volume=volume, scratch=scratch, limits=limits))

    async for way in interpreter_maker(one):
        yield way
