"""The command that hands a thread over to another agent."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import clew
from clew.cli.app import run
from clew.core.values import Item
from clew.database.audit import AUDIT_LOG, AUDIT_THREAD
from clew.testing import ScriptedModel

pytestmark = pytest.mark.promise("B-16")


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with a thread of the agent travel, and one of a guest."""
    url = f"sqlite:///{tmp_path}/agent.db"
    monkeypatch.setenv("CLEW_DB", url)
    asyncio.run(fill(url))
    return url


async def fill(url: str) -> None:
    async with clew.open(url) as db:
        runtime = clew.Runtime(db, agent="travel", model=ScriptedModel("At nine."))
        await runtime.run_turn("t", "To Lisbon?", user="alice")
        guest = Item(body={"role": "user", "content": "Hi"}, format="openai.responses")
        await (await db.create("guest")).append(items=[guest])


async def agent_and_audit(url: str) -> tuple[str | None, list[Item]]:
    async with clew.open(url) as db:
        return (await db.thread("t").head()).agent, list(await db.thread(AUDIT_THREAD).items(log=AUDIT_LOG))


def test_a_thread_is_handed_over_and_the_audit_says_so(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["threads", "adopt", "t", "--agent", "cook", "--json"])
    agent, (entry,) = asyncio.run(agent_and_audit(url))

    assert (code, agent, entry.body["action"]) == (0, "cook", "adopt thread")
    assert entry.body["facts"]["before"] == "travel"
    assert json.loads(capsys.readouterr().out) == {
        "thread": "t",
        "agent": "cook",
        "before": "travel",
        "version": 4,
    }


def test_the_thread_of_a_guest_is_not_handed_over(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["threads", "adopt", "guest", "--agent", "cook"])

    assert code == 1
    assert "is kept by OpenAI Agents" in " ".join(capsys.readouterr().err.split())


@pytest.mark.usefixtures("url")
def test_the_word_alone_lists_threads(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["threads", "--owner", "alice", "--json"])

    assert code == 0
    assert [thread["id"] for thread in json.loads(capsys.readouterr().out)["threads"]] == ["t"]


def test_an_option_before_the_second_word_is_refused(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["threads", "--tenant", "other", "adopt", "t", "--agent", "cook"])

    assert code == 2
    assert "Write the options behind 'adopt'" in capsys.readouterr().err
