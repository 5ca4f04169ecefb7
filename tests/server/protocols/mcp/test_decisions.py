"""What the answer of a person to an elicitation decides about a call that waits."""

from __future__ import annotations

import pytest

from clew.api.runs import NewDecision
from clew.api.turns import ApprovalView
from clew.core.encoding import JSON
from clew.core.errors import InvalidArgument
from clew.server.protocols.mcp.tasks import DECLINED, decisions_of, input_requests

DECLINE = NewDecision(decision="result", value=DECLINED, asked=2)
REPLAY = NewDecision(decision="replay", asked=2)


def waiting(why: str) -> ApprovalView:
    return ApprovalView(
        call="c1", tool="pay", arguments={"name": "Ann"}, question="How much?", why=why, asked=2
    )


@pytest.mark.parametrize(
    ("why", "answer", "decision"),
    [
        ("approval", {"action": "accept", "content": {}}, REPLAY),
        ("approval", {"action": "decline"}, DECLINE),
        ("approval", {"action": "cancel"}, None),
        (
            "input",
            {"action": "accept", "content": {"answer": "ten"}},
            NewDecision(decision="pass", value="ten", asked=2),
        ),
        ("input", {"action": "decline"}, DECLINE),
        (
            "in doubt",
            {"action": "accept", "content": {"done": True}},
            NewDecision(decision="result", value="It was done.", asked=2),
        ),
        ("in doubt", {"action": "accept", "content": {"done": False}}, REPLAY),
        ("in doubt", {"action": "accept", "content": {}}, None),
        ("in doubt", {"action": "decline"}, None),
    ],
)
def test_an_answer_is_a_decision(why: str, answer: JSON, decision: NewDecision | None) -> None:
    decisions = decisions_of([waiting(why)], {"c1.2": answer})

    assert decisions.get("c1") == decision


def test_an_answer_to_an_earlier_question_decides_nothing() -> None:
    assert decisions_of([waiting("approval")], {"c1.1": {"action": "accept"}}) == {}


@pytest.mark.parametrize(
    "answer", ["yes", None, {}, {"action": "agree"}, {"action": "accept", "content": 7}], ids=str
)
def test_an_answer_that_is_none_is_refused_before_anything_is_decided(answer: JSON) -> None:
    with pytest.raises(InvalidArgument):
        decisions_of([waiting("approval")], {"c1.2": answer})


@pytest.mark.parametrize(
    ("why", "message", "fields"),
    [
        ("approval", 'May this be done: pay with {"name":"Ann"}?', []),
        ("input", "pay asks: How much?", ["answer"]),
        ("in doubt", "The process ended while pay", ["done"]),
    ],
)
def test_a_call_that_waits_is_a_question_with_a_form(why: str, message: str, fields: list[str]) -> None:
    (question,) = input_requests([waiting(why)]).values()

    assert question["params"]["message"].startswith(message)
    assert list(question["params"]["requestedSchema"]["properties"]) == fields
