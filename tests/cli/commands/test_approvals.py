"""Calls that wait for a person, at the command line: seen, approved and refused."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.agents import Agent, AgentSettings
from clew.cli.app import run
from clew.cli.commands import approvals
from clew.database.audit import AUDIT_LOG, AUDIT_THREAD
from clew.runtime import Suspend, ToolContext
from clew.runtime.model.protocol import Reply, ToolCall
from clew.testing import ScriptedModel

pytestmark = pytest.mark.promise("T-16")
payments: list[str] = []


@clew.tool(approval=True)
async def pay(to: str) -> str:
    """Pay somebody."""
    payments.append(to)
    return f"Paid {to}."


@clew.tool
async def book(day: str, context: ToolContext) -> str:
    """Book a room, once the hour is known."""
    if context.decision is None:
        raise Suspend("At what hour?")
    return f"Booked at {context.decision}."


def make_runtime(db: clew.Database, settings: AgentSettings | None = None) -> clew.Runtime[Any, Any]:
    return clew.Runtime(db, agent="cashier", model=ScriptedModel("It is done."), tools=[pay, book])


cashier = Agent(name="cashier", make_runtime=make_runtime, brings_model=True)
other = Agent(
    name="cook",
    make_runtime=lambda db, settings: clew.Runtime(db, agent="cook", model=ScriptedModel("Soup.")),
    brings_model=True,
)
CASHIER, COOK = f"{__name__}:cashier", f"{__name__}:other"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of a database."""
    payments.clear()
    return tmp_path / "agent.db"


def let_wait(file: Path, *calls: ToolCall) -> str:
    """Let a run of the agent cashier wait for calls."""

    async def start() -> str:
        async with clew.open(f"sqlite:///{file}") as db:
            runtime = clew.Runtime(
                db, agent="cashier", model=ScriptedModel(Reply(calls=calls)), tools=[pay, book]
            )
            return (await runtime.run_turn("bills", "Please.", user="alice")).run

    return asyncio.run(start())


def pay_call(to: str = "Ann", call: str = "c1") -> ToolCall:
    return ToolCall(id=call, name="pay", arguments={"to": to})


def run_command(capsys: pytest.CaptureFixture[str], file: Path, *words: str) -> tuple[int, str, str]:
    code = run(["approvals", *words, "--db", str(file)])
    out, err = capsys.readouterr()
    return code, " ".join(out.split()), " ".join(err.split())


def test_the_word_alone_lists_what_waits(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    let_wait(file, pay_call("Ann \x1b[31m"))
    code, out, _ = run_command(capsys, file)

    assert code == 0
    assert [word for word in ("c1", "pay", "Ann", "cashier") if word not in out] == []
    assert "\x1b" not in out


def test_the_list_is_selected_and_given_as_json(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    run_id = let_wait(file, pay_call(), ToolCall(id="c2", name="pay", arguments={"to": "Bea"}))
    code, out, _ = run_command(capsys, file, "--text", "bea", "--json")

    [each] = json.loads(out)["approvals"]
    assert (code, each["run"], each["call"], each["user"]) == (0, run_id, "c2", "alice")


def test_nothing_that_waits_is_said(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    run(["migrate", "--db", str(file)])
    capsys.readouterr()

    assert run_command(capsys, file) == (0, "Nothing waits for a decision.", "")


def test_a_call_is_shown_with_its_arguments(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    run_id = let_wait(file, pay_call())
    code, out, _ = run_command(capsys, file, "show", run_id)

    assert code == 0
    assert [word for word in ("May this be done?", '"to": "Ann"', "bills", "alice") if word not in out] == []


def test_an_approved_call_is_made_and_the_run_goes_on(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    run_id = let_wait(file, pay_call())
    code, out, err = run_command(capsys, file, "approve", run_id, "--agent", CASHIER, "--yes", "--json")

    reply = json.loads(out)
    assert (code, payments, err) == (0, ["Ann"], "")
    assert (reply["decision"], reply["termination"], reply["text"]) == ("approved", "natural", "It is done.")


def test_a_refused_call_is_not_made_and_the_model_reads_why(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    run_id = let_wait(file, pay_call())
    words = ("refuse", run_id, "c1", "--reason", "Not before Monday.", "--agent", CASHIER, "--yes")
    code, out, _ = run_command(capsys, file, *words)

    async def history() -> list[Any]:
        async with clew.open(f"sqlite:///{file}") as db:
            return [item.body for item in await db.thread("bills").items()]

    assert (code, payments) == (0, [])
    assert "pay (c1) is refused. It is done." in out
    assert "Not before Monday." in str(asyncio.run(history()))


def test_the_decision_is_written_down_in_the_audit(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    run_id = let_wait(file, pay_call())
    run_command(capsys, file, "approve", run_id, "--agent", CASHIER, "--yes")

    async def audit() -> list[Any]:
        async with clew.open(f"sqlite:///{file}") as db:
            return [item.body for item in await db.thread(AUDIT_THREAD).items(log=AUDIT_LOG)]

    [entry] = asyncio.run(audit())
    assert (entry["action"], entry["facts"]["decision"]) == ("decide call", "approved")


def test_without_a_terminal_nothing_is_approved_unless_it_says_yes(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    run_id = let_wait(file, pay_call())
    code, out, _ = run_command(capsys, file, "approve", run_id, "--agent", CASHIER)

    assert (code, payments) == (1, [])
    assert out == "Nothing is approved yet. Say --yes to do it."


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "The agent 'cashier' of thread 'bills' is not installed"),
        (["--agent", COOK], "belongs to the agent 'cashier'"),
    ],
)
def test_an_agent_that_cannot_go_on_is_named_before_anything_is_asked(
    capsys: pytest.CaptureFixture[str],
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    sentence: str,
) -> None:
    def refuse_to_be_asked(*arguments: object, **options: object) -> bool:
        raise AssertionError("It was asked.")

    monkeypatch.setattr(approvals, "_confirm_decision", refuse_to_be_asked)
    run_id = let_wait(file, pay_call())
    code, _, err = run_command(capsys, file, "approve", run_id, *options)

    assert (code, payments) == (1, [])
    assert sentence in err


def test_a_tool_that_asks_gets_the_answer_and_nothing_without_one(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    run_id = let_wait(file, ToolCall(id="c1", name="book", arguments={"day": "Monday"}))
    silent = run_command(capsys, file, "approve", run_id, "--agent", CASHIER, "--yes")
    code, out, _ = run_command(
        capsys, file, "approve", run_id, "--answer", "nine", "--agent", CASHIER, "--yes"
    )

    assert "Answer it with --answer." in silent[2]
    assert (code, "book (c1) is approved. It is done." in out) == (0, True)


def test_one_of_several_calls_has_to_be_named(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    run_id = let_wait(file, pay_call(), pay_call("Bea", "c2"))
    nameless = run_command(capsys, file, "approve", run_id, "--agent", CASHIER, "--yes")
    wrong = run_command(capsys, file, "approve", run_id, "c9", "--agent", CASHIER, "--yes", "--json")

    assert "Name one of them: c1 (pay), c2 (pay)." in nameless[2]
    assert json.loads(wrong[2])["error"]["code"] == "decision_refused"
    assert payments == []


def test_a_run_that_does_not_wait_is_an_error(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    run_id = let_wait(file, pay_call())
    run_command(capsys, file, "approve", run_id, "--agent", CASHIER, "--yes")
    code, _, err = run_command(capsys, file, "approve", run_id, "--agent", CASHIER, "--yes")

    assert (code, payments) == (1, ["Ann"])
    assert "does not wait for a decision" in err


def test_watching_tells_of_each_call_once_as_it_comes(
    capsys: pytest.CaptureFixture[str], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_wait(file, pay_call())
    pauses = iter([None, None])

    async def pause(seconds: float) -> None:
        if next(pauses, "over") == "over":
            raise KeyboardInterrupt

    monkeypatch.setattr("clew.cli.commands.approvals.asyncio.sleep", pause)
    code, out, err = run_command(capsys, file, "--watch", "--json")

    assert (code, err) == (130, "Stopped.")
    assert json.loads(out)["call"] == "c1"
