"""The commands that erase, hold and let go."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.cli.app import run
from tests.database.people import live, raw, traces

pytestmark = pytest.mark.usefixtures("long_lock_wait")


async def fill(url: str) -> None:
    async with clew.open(url) as db:
        await live(db, "alice", items=3)
        await live(db, "bob", items=3)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "agent.db"
    asyncio.run(fill(f"sqlite:///{path}"))
    return path


class Shell:
    """Runs commands on one file, and reads what they say."""

    def __init__(self, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._file = file
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str]:
        """The exit code, and all that was said."""
        code = run([*words, "--db", str(self._file)])
        output = self._capsys.readouterr()
        return code, output.out + output.err

    def json(self, *words: str) -> Any:
        """What a command answers in JSON."""
        _, text = self(*words, "--json")
        return json.loads(text)


@pytest.fixture
def shell(file: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(file, capsys)


def test_without_a_yes_nothing_is_removed(shell: Shell, file: Path) -> None:
    code, output = shell("erase", "--owner", "alice")

    assert (code, "Nothing was removed" in output) == (1, True)
    assert traces(raw(file), "alice") != []


def test_a_dry_run_counts(shell: Shell) -> None:
    preview = shell.json("erase", "--owner", "alice", "--dry-run")

    assert (preview["status"], preview["counts"]["threads"]) == ("preview", 4)


@pytest.mark.promise("B-07")
def test_a_person_is_erased_and_the_receipt_kept(shell: Shell, file: Path) -> None:
    code, output = shell("erase", "--owner", "alice", "--yes")
    (receipt,) = shell.json("receipts")["receipts"]
    _, receipt_text = shell("receipts", receipt["id"])

    assert (code, "Erased. The receipt is kept." in output) == (0, True)
    assert traces(raw(file), "alice") == []
    assert (receipt["status"], receipt["counts"]["threads"]) == ("complete", 4)
    assert receipt["hash"][:32] in receipt_text


@pytest.mark.promise("B-06")
def test_verify_tells_an_erased_thread_from_a_missing_one(shell: Shell, file: Path, tmp_path: Path) -> None:
    heads = shell.json("verify")
    (tmp_path / "heads.json").write_text(json.dumps(heads), encoding="utf-8")
    shell("erase", "--owner", "alice", "--yes")
    code, output = shell("verify", "--heads", str(tmp_path / "heads.json"))
    asyncio.run(forget(file))
    after, complaint = shell("verify", "--heads", str(tmp_path / "heads.json"))

    assert (code, "alice-1: erased on purpose: the whole thread (receipt-" in output) == (0, True)
    assert (after, "bob-1" in complaint) == (1, True)


async def forget(file: Path) -> None:
    async with clew.open(f"sqlite:///{file}") as db:
        await db.thread("bob-1").delete()


@pytest.mark.promise("B-07")
def test_a_hold_is_made_listed_and_released(shell: Shell) -> None:
    shell("hold", "--owner", "alice", "--reason", "case 12")
    holds = shell.json("holds")["holds"]
    code, output = shell("erase", "--owner", "alice", "--yes")
    shell("release", "--owner", "alice")
    after, _ = shell("erase", "--owner", "alice", "--yes")

    assert [(hold["what"], hold["name"], hold["reason"]) for hold in holds] == [("owner", "alice", "case 12")]
    assert (code, "legal_hold" in output, "case 12" in output) == (1, True, True)
    assert after == 0


@pytest.mark.promise("B-07")
def test_old_threads_with_a_label_are_let_go(shell: Shell) -> None:
    label = "kilimanjarobasalt-label"
    shell("erase", "--thread", "bob-2", "--yes")  # a fork, which would keep its parent
    (preview,) = shell.json("retain", "--older-than", "0.0000001h", "--label", label, "--dry-run")["rules"]
    (result,) = shell.json("retain", "--older-than", "0.0000001h", "--label", label, "--yes")["rules"]

    assert preview["threads"] == ["bob-1"]
    assert result["receipt"]["counts"]["threads"] == 1


def test_rules_are_put_in_force_and_taken_back(shell: Shell) -> None:
    rules = shell.json("retain", "--older-than", "90d", "--label", "x", "--keep", "ninety")["rules"]
    (result,) = shell.json("retain", "--yes")["rules"]
    rules_after = shell.json("retain", "--drop", "ninety")["rules"]

    assert rules == [{"name": "ninety", "days": 90.0, "label": "x"}]
    assert (result["rule"], result["threads"]) == ("ninety", [])
    assert rules_after == []


@pytest.mark.parametrize(
    "words",
    [
        ("erase", "--yes"),
        ("hold", "--owner", "a", "--thread", "b", "--reason", "r"),
        ("hold", "--owner", "a", "--reason", " "),
        ("retain", "--older-than", "soon", "--yes"),
        ("retain", "--keep", "name"),
        ("receipts", "nothing"),
    ],
)
def test_what_makes_no_sense_is_said(shell: Shell, words: tuple[str, ...]) -> None:
    code, output = shell(*words)

    assert (code, "(invalid_argument)" in output) == (1, True)
