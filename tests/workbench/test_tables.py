"""Each table has a writer and a reader that people can reach: a command, or a route of the server.

Sandbox snapshots are shown by tests of their own, with the interpreter that writes them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.cli.app import run
from clew.core.errors import ModelFailed
from clew.runtime.model.messages import Message
from clew.runtime.records.episodes import Episode, EpisodeResult
from clew.runtime.runtime import Runtime
from clew.runtime.settings import RuntimeConfig, SessionConfig
from clew.server.app import create_app
from clew.server.settings import ServerSettings
from tests.server.conftest import clients_of, over_http
from tests.support.echo import EchoModel

pytestmark = pytest.mark.promise("F-12")


def run_command(capsys: pytest.CaptureFixture[str], file: Path, *words: str) -> Any:
    """The answer of a command in JSON."""
    code = run([*words, "--db", str(file), "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    return json.loads(out)


def test_identities_are_entered_and_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "agent.db"
    assert run(["migrate", "--db", str(file)]) == 0
    capsys.readouterr()
    run_command(capsys, file, "tenants", "create", "acme")
    run_command(capsys, file, "users", "create", "alice", "--tenant", "acme")
    tenants = run_command(capsys, file, "tenants", "list")
    users = run_command(capsys, file, "users", "list", "--tenant", "acme")

    assert ("acme" in json.dumps(tenants), "alice" in json.dumps(users)) == (True, True)


async def test_a_job_is_written_by_the_end_of_a_session_and_read_from_the_list(db: clew.Database) -> None:
    async def failing(db: clew.Database, episode: Episode, transcript: Sequence[Message]) -> EpisodeResult:
        raise ModelFailed(model="m", problem="it is down")

    def make(database: clew.Database) -> Runtime:
        return Runtime(
            database,
            model=EchoModel(),
            finalize=failing,
            config=RuntimeConfig(sessions=SessionConfig(finalize_active_sessions_on_close=False)),
        )

    async with clients_of(db, make_runtime=make) as users:
        alice = users("alice")
        await alice.run_turn("t", "I like tea.")
        await alice.end_session("t")
        jobs = (await alice.jobs()).jobs

    assert [(job.kind, job.problem) for job in jobs] == [
        ("end episode:default", "Model 'm' failed: it is down.")
    ]


async def test_a_memory_is_written_by_a_session_and_read_by_its_user(db: clew.Database) -> None:
    app = create_app(ServerSettings(sweep_seconds=3600), db=db)
    async with over_http(app, db) as users:
        alice = users("alice")
        await alice.run_turn("t", "My sister is called Ann.", user="alice")
        await alice.end_session("t")
        facts = (await alice.memory()).facts

    assert "Ann" in json.dumps(facts)


async def test_a_step_is_written_by_a_turn_and_read_with_its_run(db: clew.Database) -> None:
    async with clients_of(db) as users:
        alice = users("alice")
        result = await alice.run_turn("t", "Hi")
        steps = (await alice.steps(result.run)).steps

    assert [(step.kind, step.name) for step in steps] == [("model", "echo"), ("output", "reply")]


def test_data_sets_experiments_and_results_are_written_and_read_by_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, lines = tmp_path / "agent.db", tmp_path / "set.jsonl"
    module = f"answering_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text("def answer(example):\n    return 'Oslo'\n", encoding="utf-8")
    lines.write_text('{"input": "Norway?", "expected": "Oslo"}\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    run_command(capsys, file, "datasets", "import", "capitals", str(lines))
    run_command(
        capsys, file, "experiments", "run", "e", "--dataset", "capitals", "--agent", f"{module}:answer"
    )
    sets = run_command(capsys, file, "datasets", "list")["datasets"]
    experiments = run_command(capsys, file, "experiments", "list")["experiments"]
    results = run_command(capsys, file, "experiments", "show", "e")["results"]

    assert ([each["name"] for each in sets], [each["name"] for each in experiments]) == (["capitals"], ["e"])
    assert [(each["output"], each["score"]) for each in results] == [("Oslo", 1.0)]
