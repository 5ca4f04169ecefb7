"""The list of calls that wait for a person: what is in it, for whom, and where each can be decided."""

from __future__ import annotations

from typing import Any

import pytest

import clew
from clew.agents import Agent
from clew.api.runs import NewDecision
from clew.core.errors import InvalidArgument
from clew.runtime.model.protocol import Reply, ToolCall
from clew.runtime.records.runs import Run, record_of
from clew.server.app import create_app
from clew.testing import ScriptedModel
from tests.server.conftest import Users, clients_of, over_http

pytestmark = pytest.mark.promise("T-16")


@clew.tool(approval=True)
async def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    return f"Paid {amount} to {to}."


@clew.tool(approval=True)
async def mail(to: str) -> str:
    """Write to somebody."""
    return f"Written to {to}."


def calling(*calls: ToolCall) -> Reply:
    """A reply that calls tools."""
    return Reply(calls=calls)


def pay_call(to: str, call: str = "c1") -> ToolCall:
    return ToolCall(id=call, name="pay", arguments={"to": to, "amount": 500})


def runtime(db: clew.Database, *script: Reply | str, agent: str = "default") -> clew.Runtime[Any, Any]:
    return clew.Runtime(db, agent=agent, model=ScriptedModel(*script), tools=[pay, mail])


async def wait_for(
    db: clew.Database, thread: str, user: str, *calls: ToolCall, agent: str = "default"
) -> str:
    """Let a run wait for calls."""
    result = await runtime(db, calling(*calls), agent=agent).run_turn(thread, "Please.", user=user)
    return result.run


async def test_calls_that_wait_are_listed_with_their_runs_and_threads(
    users: Users, db: clew.Database
) -> None:
    run = await wait_for(db, "t", "alice", pay_call("Ann"))
    page = await users().approvals()

    [each] = page.approvals
    assert (each.run, each.thread, each.user, each.agent) == (run, "t", "alice", "default")
    assert (each.call, each.tool, each.arguments) == ("c1", "pay", {"to": "Ann", "amount": 500})
    assert each.refusal is None


async def test_a_call_of_another_agent_says_before_that_it_cannot_be_decided_here(
    users: Users, db: clew.Database
) -> None:
    await wait_for(db, "t", "alice", pay_call("Ann"), agent="cook")
    page = await users().approvals()

    assert "The agent 'cook' is not served here" in (page.approvals[0].refusal or "")


async def test_a_call_of_any_agent_that_is_served_can_be_decided_here(db: clew.Database) -> None:
    run = await wait_for(db, "t", "alice", pay_call("Ann"), agent="cook")
    cook = Agent(
        name="cook",
        make_runtime=lambda each, settings: runtime(each, "Done.", agent="cook"),
        brings_model=True,
    )
    app = create_app(db=db, agent=lambda each: runtime(each, "Never."), agents=[cook])
    async with over_http(app, db) as users:
        [waiting] = (await users().approvals()).approvals
        result = await users().decide(run, {"c1": NewDecision(decision="replay")})

    assert (waiting.refusal, result.text) == (None, "Done.")


async def test_a_thread_without_a_title_is_named_by_what_was_said_first(
    users: Users, db: clew.Database
) -> None:
    await wait_for(db, "t", "alice", pay_call("Ann"))

    assert [each.first for each in (await users().approvals(first=True)).approvals] == ["Please."]
    assert [each.first for each in (await users().approvals()).approvals] == [None]


async def test_nobody_sees_the_calls_of_another_user(users: Users, db: clew.Database) -> None:
    await wait_for(db, "t", "alice", pay_call("Ann"))

    assert (await users("bob").approvals()).approvals == []


@pytest.mark.parametrize(
    "selection",
    [{"tool": "mail"}, {"agent": "cook"}, {"owner": "bob"}, {"text": "castle"}, {"thread": "other"}],
    ids=lambda selection: next(iter(selection)),
)
async def test_calls_are_selected(users: Users, db: clew.Database, selection: dict[str, Any]) -> None:
    await wait_for(db, "t", "alice", pay_call("Ann"))
    letter = ToolCall(id="c2", name="mail", arguments={"to": "the Castle"})
    await wait_for(db, "other", "bob", letter, agent="cook")
    page = await users(None).approvals(**selection)

    assert [each.call for each in page.approvals] == ["c2"]


async def test_a_decided_call_is_gone_from_the_list(db: clew.Database) -> None:
    run = await wait_for(db, "t", "alice", pay_call("Ann"), pay_call("Bea", "c2"))
    async with clients_of(db, make_runtime=lambda each: runtime(each, "Done.")) as users:
        await users().decide(run, {"c1": NewDecision(decision="replay")})
        page = await users().approvals()

    assert [each.call for each in page.approvals] == ["c2"]


async def test_a_run_that_its_thread_no_longer_names_waits_for_nothing(
    users: Users, db: clew.Database
) -> None:
    await wait_for(db, "t", "alice", pay_call("Ann"))
    stale = Run(id="run-stale", thread="t", status="waiting", user="alice", started=1)
    await db.records.put(record_of(stale, "alice"))

    assert "run-stale" not in [each.run for each in (await users().approvals()).approvals]


async def test_a_run_that_was_cancelled_waits_for_nothing(db: clew.Database) -> None:
    run = await wait_for(db, "t", "alice", pay_call("Ann"))
    async with clients_of(db, make_runtime=lambda each: runtime(each, "Done.")) as users:
        await users().cancel(run)

        assert (await users().approvals()).approvals == []


async def test_pages_follow_each_other_and_a_cursor_is_for_its_selection_alone(
    users: Users, db: clew.Database
) -> None:
    for number in range(3):
        await wait_for(db, f"t{number}", "alice", pay_call("Ann"))
    first = await users().approvals(limit=2)
    second = await users().approvals(limit=2, cursor=first.next)

    assert sorted(each.thread for each in [*first.approvals, *second.approvals]) == ["t0", "t1", "t2"]
    assert second.next is None
    with pytest.raises(InvalidArgument):
        await users().approvals(limit=2, tool="pay", cursor=first.next)
