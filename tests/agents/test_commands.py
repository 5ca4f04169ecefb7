"""The command line with agents: their commands, the list of them, and a chat with one."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clew.agents.plain import NO_MODEL
from clew.cli.app import run
from tests.agents.conftest import Install

TYPER_AGENT = """
import typer
from clew.agents import Agent

def commands():
    app = typer.Typer()

    @app.command("trips", help="List trips.")
    def trips() -> None:
        print("Lisbon")

    @app.command("verify", help="Verify nothing.")
    def verify() -> None:
        print("not the library's")

    return app

agent = Agent(
    name="travel", make_runtime=lambda db, settings: clew.Runtime(db, agent="travel"), commands=commands
)
"""
SCRIPT = """
import clew
from clew.agents import Agent
from clew.testing import ScriptedModel

agent = Agent(
    name="travel",
    make_runtime=lambda db, settings: clew.Runtime(
        db, agent="travel", model=ScriptedModel("Gladly.", "Gladly again.")
    ),
    make_input=lambda message: f"{message.channel}: {message.text}",
    notices=("Trips may be late.",),
)
"""
HIDDEN = """
import sys
sys.modules["clew_companion"] = None
from clew.agents import discovery
discovery.entry_points = lambda group: ()
from clew.cli.app import run
sys.exit(run(sys.argv[1:]))
"""
"""The command line as it is where the companion is not installed."""


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """The JSON that a command answers with."""
    run([*arguments, "--json"])
    return json.loads(capsys.readouterr().out)


def run_without_companion(*arguments: str, lines: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command in a process that knows no companion."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", HIDDEN, *arguments],
        input=lines,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_the_agents_are_listed_with_where_they_come_from(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install("travel", "agent = make('travel')")
    agents = {each["name"]: each for each in answer(capsys, "agents")["agents"]}

    assert list(agents) == ["companion", "travel", "plain"]
    assert (agents["travel"]["distribution"], agents["travel"]["version"]) == ("installed_travel", "1.2")
    assert [name for name, each in agents.items() if each["default"]] == ["companion"]


def test_a_broken_agent_is_listed_and_the_exit_code_says_so(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install("travel", "agent = 1 / 0")
    code = run(["agents"])
    shown = capsys.readouterr().out

    assert code == 1
    assert "travel: ZeroDivisionError: division by zero" in shown


def test_the_commands_of_an_agent_are_commands_of_clew(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install("travel", TYPER_AGENT)
    code = run(["trips"])

    assert (code, capsys.readouterr().out) == (0, "Lisbon\n")


def test_an_agent_takes_over_no_word_of_clew(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install("travel", TYPER_AGENT)
    run(["verify", "--help"])

    assert "Verify nothing." not in capsys.readouterr().out


def test_a_chat_with_an_agent_of_a_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "chat_script.py").write_text(SCRIPT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "stdin", io.StringIO("To Lisbon?\n/history\n/undo turn\n/history\n"))
    code = run(["chat", "chat.db", "--thread-id", "t", "--agent", "chat_script:agent", "--json"])
    opened, reply, said, undone, left = map(json.loads, capsys.readouterr().out.splitlines()[:5])

    assert code == 0
    assert (opened["agent"], reply["text"]) == ("travel", "Gladly.")
    assert said["messages"][0]["text"] == "terminal: To Lisbon?"
    assert (undone["messages"], left["messages"]) == (2, [])


def test_a_name_that_is_not_installed_is_an_error_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["chat", "memory://", "--agent", "trips"])

    assert code == 1
    assert "There is no agent 'trips'." in capsys.readouterr().err


@pytest.mark.slow
def test_without_the_companion_a_chat_says_how_to_connect_a_model() -> None:
    done = run_without_companion("chat", "memory://", lines="Hello\n/memory\n")

    assert (done.returncode, done.stdout.splitlines()[0]) == (0, NO_MODEL)


@pytest.mark.slow
def test_without_the_companion_help_lists_none_of_its_commands() -> None:
    done = run_without_companion("--help")

    assert done.returncode == 0
    assert "serve" in done.stdout
    assert not [word for word in ("crises", "evaluate") if word in done.stdout]


@pytest.mark.slow
def test_without_the_companion_a_server_would_start() -> None:
    done = run_without_companion("serve", "--db", "memory://", "--check")

    assert (done.returncode, done.stdout) == (0, "Nothing prevents a start.\n")
