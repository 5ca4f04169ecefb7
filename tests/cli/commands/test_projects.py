"""The project that ``clew new`` writes: it is whole, it runs as it is, and nothing is overwritten."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from clew.cli.app import build_app
from clew.cli.commands.projects import write_project
from clew.core.errors import InvalidArgument
from clew.server.process import python_file_times
from tests.cli.commands.test_serve import free_port

PATIENCE = 90.0
"""Seconds that a test waits for another process, which has little of a busy machine."""


def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so in another process."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.1)


@contextmanager
def served(folder: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """``make serve`` in a folder."""
    command = ["make", "serve", f"FLAGS=--port {port}", f"PYTHON={sys.executable}"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CLEW_")}
    child = subprocess.Popen(
        command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield child
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, 15)
        child.communicate(timeout=PATIENCE)


def description_at(port: int) -> str:
    """The description of the agent that is served at a port; empty if none is."""
    with suppress(httpx.TransportError):
        reply = httpx.get(f"http://127.0.0.1:{port}/api/v1/agents", timeout=2)
        return str(reply.json()["agents"][0]["description"])
    return ""


def test_the_files_are_written_and_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(build_app(), ["new", "my-agent", "--json"])

    value = json.loads(result.stdout)
    written = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert (result.exit_code, value["agent"]) == (0, "my-agent")
    assert sorted(value["files"]) == written
    assert not any("{{" in path.read_text() for path in tmp_path.rglob("*") if path.is_file())


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "agent.py").write_text("mine")

    with pytest.raises(InvalidArgument, match="already"):
        write_project("mine", tmp_path)
    assert [path.read_text() for path in (tmp_path / "mine").iterdir()] == ["mine"]


@pytest.mark.parametrize("name", ["", "../up", "a/b", "two words", "-flag", ".hidden", "x" * 65, "{{name}}"])
def test_what_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot be called"):
        write_project(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="cannot be written"):
        write_project("mine", tmp_path / "nowhere")


def test_the_tests_of_the_project_pass(tmp_path: Path) -> None:
    folder = write_project("my-agent", tmp_path)
    environment = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}
    result = subprocess.run(
        ["make", "test"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )

    assert (result.returncode, "Ran 2 tests" in result.stderr) == (0, True)


@pytest.mark.slow
@pytest.mark.promise("B-16")
def test_the_project_is_served_and_follows_its_files(tmp_path: Path) -> None:
    folder, port = write_project("my-agent", tmp_path), free_port()
    script, url = folder / "agent.py", f"http://127.0.0.1:{port}/api/v1"
    text = script.read_text()
    with served(folder, port) as server:
        until(lambda: description_at(port) == "Plans trips by train.")
        turn = httpx.post(f"{url}/threads/t/turns", json={"message": "Hello"}, timeout=PATIENCE)
        script.write_text(text.replace("def make_runtime(", "def make_runtime(:"))
        assert server.stderr is not None
        problem = next(line for line in server.stderr if "cannot be imported" in line)
        script.write_text(text.replace("Plans trips", "Plans long trips"))
        until(lambda: description_at(port) == "Plans long trips by train.")
        messages = httpx.get(f"{url}/threads/t/messages", timeout=PATIENCE).json()["messages"]

    assert turn.json()["termination"] == "natural"
    assert "The module 'agent' cannot be imported: SyntaxError" in problem
    assert [message["role"] for message in messages] == ["user", "assistant"]


def test_files_of_an_environment_are_not_watched(tmp_path: Path) -> None:
    for name in (
        "agent.py",
        "parts/tool.py",
        ".venv/lib/x.py",
        "env/lib/y.py",
        "__pycache__/z.py",
        "notes.txt",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (tmp_path / "env" / "pyvenv.cfg").write_text("")

    watched = {str(path.relative_to(tmp_path)) for path in python_file_times([tmp_path])}
    assert watched == {"agent.py", "parts/tool.py"}


def test_reload_and_workers_do_not_go_together() -> None:
    result = CliRunner().invoke(
        build_app(), ["serve", "--reload", "--workers", "2", "--db", "sqlite:///x.db"]
    )

    assert (result.exit_code, "--reload serves with one process" in result.stderr) == (1, True)
