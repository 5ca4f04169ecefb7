"""Feedback at the command line, for operators: listed, exported, and each look in the audit."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import clew
from clew.cli.app import run
from clew.database.audit import AUDIT_LOG, AUDIT_THREAD
from clew.testing import ScriptedModel

pytestmark = pytest.mark.promise("R-23")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database with feedback of ada and of nobody."""
    file = tmp_path / "agent.db"
    asyncio.run(_fill(f"sqlite:///{file}"))
    return file


async def _fill(url: str) -> None:
    async with clew.open(url) as db, clew.Runtime(db, model=ScriptedModel("Hello.", "Hello.")) as runtime:
        await runtime.run_turn("ada-1", "Hi", user="ada")
        await runtime.record_session_feedback("ada-1", "positive", key="k", user="ada")
        await runtime.run_turn("open", "Hi")
        await runtime.end_session("open", feedback="negative")


def run_command(capsys: pytest.CaptureFixture[str], file: Path, *words: str) -> tuple[int, str, str]:
    code = run([*words, "--db", str(file)])
    out, err = capsys.readouterr()
    return code, out, err


def test_feedback_is_listed(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    code, out, _ = run_command(capsys, file, "feedback", "list")

    assert code == 0
    assert [
        word for word in ("positive", "negative", "ada-1", "nobody", "api, text") if word not in out
    ] == []


def test_feedback_of_a_user_or_a_thread_is_listed(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    _, of_ada, _ = run_command(capsys, file, "feedback", "list", "--owner", "ada", "--json")
    _, of_thread, _ = run_command(capsys, file, "feedback", "list", "--thread", "open", "--json")
    _, later, _ = run_command(capsys, file, "feedback", "list", "--since", "2100-01-01", "--json")

    labels = [[row["label"] for row in json.loads(out)["feedback"]] for out in (of_ada, of_thread, later)]
    assert labels == [["positive"], ["negative"], []]


def test_feedback_is_exported_as_lines(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    code, out, err = run_command(capsys, file, "feedback", "export")

    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, "2 rows" in err) == (0, True)
    assert [set(row) for row in rows] == [
        {"id", "thread", "user", "label", "source", "modality", "turns", "recorded"}
    ] * 2


def test_no_feedback_is_said_in_words(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asyncio.run(_create(f"sqlite:///{tmp_path / 'empty.db'}"))
    code, out, _ = run_command(capsys, tmp_path / "empty.db", "feedback", "list")

    assert (code, out.strip()) == (0, "No feedback.")


async def _create(url: str) -> None:
    await (await clew.open(url)).close()


def test_each_look_is_in_the_audit(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    run_command(capsys, file, "feedback", "list", "--owner", "ada")
    run_command(capsys, file, "feedback", "export")

    assert asyncio.run(_actions(f"sqlite:///{file}")) == ["read feedback", "export feedback"]


async def _actions(url: str) -> list[str]:
    async with clew.open(url) as db:
        return [item.body["action"] for item in await db.thread(AUDIT_THREAD).items(log=AUDIT_LOG)]
