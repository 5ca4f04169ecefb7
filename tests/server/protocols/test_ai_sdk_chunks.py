"""Chunks of a UI message stream: what each event of a run becomes, and live text at its commit."""

from __future__ import annotations

from typing import Any

import pytest

from clew.core.log.tool_calls import CALL, REPAIR, RESULT
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import Usage
from clew.runtime.records.events import (
    HistoryRewritten,
    MessageAdded,
    RunFinished,
    RunStarted,
    StageStarted,
    TextDelta,
)
from clew.runtime.state.call_state import IN_DOUBT, Approval, CallState, Replay, UseResult
from clew.server.protocols.ai_sdk.chunks import (
    ApprovalsAsked,
    CallsDecided,
    FieldsChanged,
    RunChunks,
    RunFact,
    approval_id,
    asked_in,
)
from clew.server.protocols.ai_sdk.messages import MessageBuilder

RUN = "run-1"
START: dict[str, Any] = {"type": "start", "messageId": RUN}


def chunks_of(*facts: RunFact) -> list[dict[str, Any]]:
    """The chunks of some facts of a run that has begun, without the first."""
    chunks = list(RunChunks(RUN).of([RunStarted(run=RUN), *facts]))
    assert chunks[0] == START
    return chunks[1:]


def types_of(*facts: RunFact) -> list[str]:
    """The types of the same."""
    return [chunk["type"] for chunk in chunks_of(*facts)]


def parts_of(*facts: RunFact) -> list[dict[str, Any]]:
    """The parts of the message that they make."""
    builder = MessageBuilder(RUN)
    builder.add(chunks_of(*facts))
    return builder.message.parts


def text(content: str, step: int = 1) -> MessageAdded:
    """A text that is durable."""
    return MessageAdded(run=RUN, message=Message(role="assistant", content=content, step=step))


def live(content: str, offset: int = 0, step: int = 1, attempt: int = 1) -> TextDelta:
    """Some text that is not."""
    return TextDelta(run=RUN, text=content, step=step, attempt=attempt, offset=offset)


def call(id: str = "c1", step: int = 1) -> MessageAdded:
    """A call of a tool."""
    message = Message(role="assistant", kind=CALL, call=id, name="pay", arguments={"euros": 4}, step=step)
    return MessageAdded(run=RUN, message=message)


def result(output: Any, id: str = "c1") -> MessageAdded:
    """The result of a call."""
    return MessageAdded(run=RUN, message=Message(role="tool", kind=RESULT, call=id, content=output))


def finish(termination: str = "natural", problem: str | None = None) -> RunFinished:
    """The end of the run."""
    return RunFinished(run=RUN, termination=termination, problem=problem, usage=Usage(input_tokens=3))


def test_live_text_is_ended_by_the_message_that_it_became() -> None:
    assert chunks_of(live("He"), live("llo", 2), text("Hello")) == [
        {"type": "start-step"},
        {"type": "text-start", "id": "text-1"},
        {"type": "text-delta", "id": "text-1", "delta": "He"},
        {"type": "text-delta", "id": "text-1", "delta": "llo"},
        {"type": "text-end", "id": "text-1"},
    ]


@pytest.mark.parametrize(
    "deltas",
    [
        [],
        [live("He")],
        [live("He"), live("ello", 1)],
        [live("He"), live("He")],
        [live("o", 4)],
        [live("Bye")],
        [live("Bye"), live("Hello", attempt=2)],
    ],
    ids=["none", "a part", "overlapping", "twice", "with a gap", "another text", "another attempt"],
)
def test_whatever_was_live_the_durable_text_stands_in_the_message_once(deltas: list[TextDelta]) -> None:
    assert parts_of(*deltas, text("Hello"), finish()) == [
        {"type": "step-start"},
        {"type": "text", "text": "Hello", "state": "done"},
    ]


def test_live_text_that_comes_behind_its_message_is_left_out() -> None:
    assert "text-delta" not in types_of(text("Hello"), live("Hello"))[4:]


def test_text_that_a_crash_cut_off_is_said_anew_in_the_same_step() -> None:
    assert parts_of(live("Bye"), finish("interrupted"), RunStarted(run=RUN), text("Hello"), finish()) == [
        {"type": "step-start"},
        {"type": "text", "text": "Hello", "state": "done"},
    ]


def test_steps_that_are_counted_anew_behind_a_stop_are_other_steps() -> None:
    parts = parts_of(text("One"), finish("suspended"), RunStarted(run=RUN), text("Two"), finish())

    assert [part.get("text") for part in parts] == [None, "One", None, "Two"]


def test_every_call_of_the_model_is_a_step() -> None:
    assert types_of(text("Let me see."), call(), result("ok"), text("Done.", 2), finish()) == [
        "start-step",
        "text-start",
        "text-delta",
        "text-end",
        "tool-input-available",
        "tool-output-available",
        "finish-step",
        "start-step",
        "text-start",
        "text-delta",
        "text-end",
        "finish-step",
        "message-metadata",
        "finish",
    ]


@pytest.mark.parametrize(
    ("output", "chunk"),
    [
        ({"sky": "clear"}, {"type": "tool-output-available", "output": {"sky": "clear"}}),
        ({"error": "It broke."}, {"type": "tool-output-error", "errorText": "It broke."}),
        ({"declined": "No."}, {"type": "tool-output-denied"}),
        ({"error": "x", "code": 1}, {"type": "tool-output-available", "output": {"error": "x", "code": 1}}),
    ],
    ids=["an output", "an error", "a refusal", "an output that speaks of an error"],
)
def test_a_result_is_an_output_an_error_or_a_refusal(output: Any, chunk: dict[str, Any]) -> None:
    assert chunks_of(call(), result(output))[-1] == {**chunk, "toolCallId": "c1"}


def test_a_call_that_will_never_be_answered_ends_with_an_error() -> None:
    repair = MessageAdded(run=RUN, message=Message(role="tool", kind=REPAIR, content="It was lost."))

    assert chunks_of(call(), repair)[-1] == {
        "type": "tool-output-error",
        "toolCallId": "c1",
        "errorText": "It was lost.",
    }


def test_a_call_that_waits_asks_and_the_question_of_a_tool_is_the_reason() -> None:
    approvals = (
        Approval(call="c1", tool="pay"),
        Approval(call="c2", tool="pay", question="Again?", why=IN_DOUBT, asked=2),
    )

    assert chunks_of(call("c1"), call("c2"), ApprovalsAsked(run=RUN, approvals=approvals))[-2:] == [
        {"type": "tool-approval-request", "approvalId": "c1.1", "toolCallId": "c1"},
        {"type": "tool-approval-request", "approvalId": "c2.2", "toolCallId": "c2", "reason": "Again?"},
    ]


def test_a_decision_is_the_response_to_the_question() -> None:
    calls = {
        "c1": CallState(tool="pay", asked=1, decision=Replay()),
        "c2": CallState(tool="pay", asked=1, decision=UseResult({"declined": "No."})),
    }

    assert chunks_of(CallsDecided(run=RUN, calls=calls)) == [
        {"type": "tool-approval-response", "approvalId": "c1.1", "approved": True},
        {"type": "tool-approval-response", "approvalId": "c2.1", "approved": False, "reason": "No."},
    ]


@pytest.mark.parametrize("call_id", ["c1", "call.7", "7"])
def test_the_id_of_an_approval_says_which_question_it_answers(call_id: str) -> None:
    assert asked_in(approval_id(call_id, 3)) == 3


def test_an_id_that_is_none_of_ours_names_no_question() -> None:
    assert asked_in("aitxt-abc") is None


@pytest.mark.parametrize(
    ("event", "types"),
    [
        (finish("natural"), ["message-metadata", "finish"]),
        (finish("error", "It broke."), ["message-metadata", "error", "finish"]),
        (finish("cancelled"), ["message-metadata", "abort", "finish"]),
        (finish("superseded"), ["message-metadata", "abort", "finish"]),
        (finish("interrupted"), []),
    ],
    ids=lambda value: value.termination if isinstance(value, RunFinished) else "",
)
def test_the_end_of_a_run_says_how_it_ended(event: RunFinished, types: list[str]) -> None:
    assert types_of(event) == types


def test_what_is_about_the_thread_is_in_no_message() -> None:
    chunks = chunks_of(
        StageStarted(run=RUN, name="respond", label="Thinking"),
        FieldsChanged(run=RUN, version=3, fields={"notes": ["milk"]}),
        HistoryRewritten(run=RUN, reason="Compact", ended=4),
    )

    assert [(chunk["type"], chunk["data"], chunk["transient"]) for chunk in chunks] == [
        ("data-stage", {"name": "respond", "label": "Thinking"}, True),
        ("data-state", {"version": 3, "fields": {"notes": ["milk"]}}, True),
        ("data-rewritten", {"reason": "Compact", "ended": 4}, True),
    ]


def test_what_is_about_another_run_is_passed_over() -> None:
    assert list(RunChunks("run-2").of([RunStarted(run=RUN), text("Hello"), finish()])) == []
