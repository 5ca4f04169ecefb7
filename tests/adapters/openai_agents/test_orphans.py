"""A history that a provider would refuse is shown to a model without what it refuses, and stays as it is."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from agents import SQLiteSession
from agents.items import TResponseInputItem
from agents.memory import Session as Protocol
from agents.testing import ScriptedModel

import clew
from clew.adapters.openai_agents import HiddenItem, Session
from tests.adapters.openai_agents.samples import agent, item, run, says, user

pytestmark = [pytest.mark.promise("B-05", "B-10"), pytest.mark.parametrize("way", ["whole", "streamed"])]

ANSWER = item(
    type="message",
    role="assistant",
    id="msg_1",
    status="completed",
    content=[{"type": "output_text", "text": "Fine.", "annotations": []}],
)
THOUGHT = item(type="reasoning", id="rs_1", summary=[])
CALL = item(type="function_call", call_id="c1", id="fc_1", name="look", arguments="{}")
OUTPUT = item(type="function_call_output", call_id="c1", output="found")
ASKED = user("Where is it?")
APPROVAL = item(type="mcp_approval_response", approval_request_id="m1", approve=True)
BOTH = ["function_call", "function_call_output"]
PAIRS: dict[str, dict[str, Any]] = {
    "custom_tool_call": {"name": "look", "input": ""},
    "shell_call": {"action": {"commands": ["ls"]}},
    "local_shell_call": {"action": {}, "id": "l1", "status": "completed"},
    "apply_patch_call": {"operation": {}, "status": "completed"},
    "computer_call": {"action": {}, "id": "cu1", "pending_safety_checks": [], "status": "completed"},
    "program": {},
}
HISTORIES: dict[str, tuple[list[TResponseInputItem], list[str]]] = {
    "whole": ([ASKED, THOUGHT, CALL, OUTPUT, ANSWER], ["user", "reasoning", *BOTH, "message"]),
    "a call without an output": ([ASKED, THOUGHT, CALL], ["user"]),
    "a call that was passed over": ([ASKED, CALL, user("Hello?"), ANSWER], ["user", "user", "message"]),
    "an output without a call": ([OUTPUT, ANSWER], ["message"]),
    "an output at the end": ([ASKED, ANSWER, OUTPUT], ["user", "message"]),
    "an output before its call": ([ASKED, OUTPUT, CALL, ANSWER], ["user", "message"]),
    "two outputs": ([ASKED, CALL, OUTPUT, OUTPUT, ANSWER], ["user", *BOTH, "message"]),
    "a thought at the end": ([ASKED, THOUGHT], ["user"]),
    "a thought and then a person": ([ASKED, THOUGHT, user("Hello?"), ANSWER], ["user", "user", "message"]),
    "a thought about an orphan": (
        [ASKED, THOUGHT, OUTPUT, user("Hello?"), ANSWER],
        ["user", "user", "message"],
    ),
    "an approval of nothing": (
        [ASKED, APPROVAL, ANSWER],
        ["user", "message"],
    ),
    **{
        f"an output of a {kind}": (
            [ASKED, item(type=f"{kind}_output", call_id="x", output={}), ANSWER],
            ["user", "message"],
        )
        for kind in PAIRS
    },
}


def pair(kind: str) -> tuple[TResponseInputItem, TResponseInputItem]:
    """A call of a type, and its output."""
    if kind == "mcp_approval_request":
        request = item(type=kind, id="m1", name="look", arguments="{}", server_label="s")
        return request, APPROVAL
    return item(type=kind, call_id="x", **PAIRS[kind]), item(type=f"{kind}_output", call_id="x", output={})


async def shown(session: Protocol, way: str, new: Any = "Next.") -> list[str]:
    """What the items are that a model is shown, but for what is new."""
    who = agent(says("Yes."))
    await run(who, new, session, way=way)
    assert isinstance(who.model, ScriptedModel)
    items = who.model.calls[0].input
    assert isinstance(items, list)
    return [
        str(body.get("type") or body.get("role")) for body in items[: -1 if isinstance(new, str) else None]
    ]


@pytest.mark.parametrize("history", HISTORIES)
async def test_a_model_is_never_shown_a_half(session: Session, history: str, way: str) -> None:
    items, expected = HISTORIES[history]
    await session.add_items(items)
    kinds = await shown(session, way)

    assert kinds == expected
    assert (await session.get_items())[: len(items)] == items


@pytest.mark.parametrize("kind", [*PAIRS, "mcp_approval_request"])
async def test_a_pair_of_any_type_is_shown_whole(session: Session, kind: str, way: str) -> None:
    call, output = pair(kind)
    await session.add_items([ASKED, call, output, ANSWER])

    assert await shown(session, way) == ["user", kind, output.get("type"), "message"]


async def test_an_output_that_comes_with_the_input_finds_its_call(session: Session, way: str) -> None:
    await session.add_items([ASKED, THOUGHT, CALL])

    assert await shown(session, way, [OUTPUT]) == [
        "user",
        "reasoning",
        "function_call",
        "function_call_output",
    ]


async def test_a_limit_that_parts_a_pair_does_no_harm(db: clew.Database, way: str) -> None:
    history = [ASKED, THOUGHT, CALL, OUTPUT, ANSWER]
    for limit in range(1, 6):
        session = Session(f"limit {limit}", db, session_settings={"limit": limit})
        await session.add_items(history)
        kinds = await shown(session, way)

        assert kinds.count("function_call") == kinds.count("function_call_output")
        assert kinds[-1] == "message"


async def test_what_is_hidden_is_reported(
    db: clew.Database, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    reports: list[tuple[str, HiddenItem]] = []
    session = Session("a", db, on_hidden=lambda *report: reports.append(report))
    logged = Session("b", db)
    for each in (session, logged):
        await each.add_items([OUTPUT, THOUGHT])
    with caplog.at_level(logging.WARNING, "clew"):
        await shown(session, way)
        await shown(logged, way)

    assert [(name, hidden.type, hidden.problem) for name, hidden in reports] == [
        ("a", "function_call_output", "it answers no call 'c1'"),
        ("a", "reasoning", "nothing that it led to follows"),
    ]
    assert len([record for record in caplog.records if "Session 'b'" in record.message]) == 2


async def test_healing_can_be_left_off(db: clew.Database, way: str) -> None:
    session, theirs = Session("a", db, heal=False), SQLiteSession("a")
    for each in (session, theirs):
        await each.add_items([OUTPUT, ANSWER])
    kinds = await shown(session, way)

    assert kinds == await shown(theirs, way) == ["function_call_output", "message"]
    theirs.close()


async def test_whoever_reads_the_items_gets_all_of_them(session: Session, way: str) -> None:
    await session.add_items([OUTPUT, ANSWER, THOUGHT])

    assert await session.get_items() == [OUTPUT, ANSWER, THOUGHT]
    assert await session.pop_item() == THOUGHT
