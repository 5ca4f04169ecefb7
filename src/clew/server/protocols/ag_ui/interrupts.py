"""Approvals as interrupts of AG-UI, and the answers to those as decisions."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec
from ag_ui.core import Interrupt

from clew.api.ag_ui import OPTIONS, InterruptAnswer
from clew.core.encoding import JSON
from clew.core.errors import InvalidArgument
from clew.core.messages.plain import as_text
from clew.runtime.state.call_state import (
    APPROVAL,
    IN_DOUBT,
    INPUT,
    Approval,
    CallState,
    Decision,
    PassOn,
    Replay,
    UseResult,
)
from clew.server.protocols.ag_ui.transcript import tool_call_id

T = TypeVar("T")
DECLINED = "A person declined this call."
NOT_REPEATED = "It is not known whether this call had its effect. A person decided not to repeat it."


class ApprovalPayload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The payload that answers whether a tool may be called."""

    approved: bool
    reason: str = DECLINED


class RepetitionPayload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The payload that answers whether a call that may have had its effect is made again.

    ``result`` is what the agent is told in place of a repetition.
    """

    repeat: bool
    result: JSON = NOT_REPEATED


class InterruptId(msgspec.Struct, frozen=True, kw_only=True):
    """The question that the id of an interrupt stands for: a run, one of its calls, and its number."""

    run: str
    asked: int
    call: str

    def __str__(self) -> str:
        return f"{self.run}:{self.asked}:{self.call}"

    @classmethod
    def parse(cls, id: str) -> "InterruptId":
        """Return the question that an id stands for.

        Raises:
            InvalidArgument: It is no id of an interrupt.
        """
        run, _, rest = id.partition(":")
        asked, _, call = rest.partition(":")
        if not run or not call or not (asked.isascii() and asked.isdecimal() and len(asked) < 10):
            raise InvalidArgument(problem=f"{id[:80]!r} is not the id of an interrupt.")
        return cls(run=run, asked=int(asked), call=call)


def interrupt_of(run: str, approval: Approval) -> Interrupt:
    """Return a call that waits for a person as an interrupt."""
    return Interrupt(
        id=str(InterruptId(run=run, asked=approval.asked, call=approval.call)),
        reason=approval.why.replace(" ", "_"),
        message=_question_text(approval),
        tool_call_id=tool_call_id(run, approval.call),
        response_schema=_RESPONSE_SCHEMAS.get(approval.why),
        metadata={
            OPTIONS: {"tool": approval.tool, "arguments": approval.arguments, "question": approval.question}
        },
    )


def _question_text(approval: Approval) -> str:
    if approval.why == IN_DOUBT:
        return f"May {approval.tool} be called again? It is not known whether it had its effect."
    if approval.why == INPUT or isinstance(approval.question, str):
        return as_text(approval.question)
    return f"May {approval.tool} be called?"


_RESPONSE_SCHEMAS: dict[str, dict[str, JSON]] = {
    APPROVAL: {
        "type": "object",
        "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
        "required": ["approved"],
        "additionalProperties": False,
    },
    IN_DOUBT: {
        "type": "object",
        "properties": {"repeat": {"type": "boolean"}, "result": {}},
        "required": ["repeat"],
        "additionalProperties": False,
    },
}
"""The payloads that answer a question; a tool that asks for input takes any."""


def decisions_of(answers: Sequence[InterruptAnswer], calls: Mapping[str, CallState]) -> dict[str, Decision]:
    """Return the decisions that answers mean, about the calls of a run that have no result.

    An answer about another call is sent a second time. Its payload shows what it meant, and the runtime
    compares that with what was decided before.

    Raises:
        InvalidArgument: A payload does not fit its question.
    """
    decisions: dict[str, Decision] = {}
    for answer in answers:
        question = InterruptId.parse(answer.interrupt_id)
        call = calls.get(question.call)
        why = call.why if call is not None else _likely_kind(answer.payload)
        decisions[question.call] = _decision(question.asked, answer, why)
    return decisions


def _likely_kind(payload: JSON) -> str:
    if isinstance(payload, dict) and "approved" in payload:
        return APPROVAL
    return IN_DOUBT if isinstance(payload, dict) and "repeat" in payload else INPUT


def _decision(asked: int, answer: InterruptAnswer, why: str) -> Decision:
    if answer.status == "cancelled":
        return UseResult(NOT_REPEATED if why == IN_DOUBT else DECLINED, asked)
    if why == APPROVAL:
        approval = _convert(answer, ApprovalPayload, '{"approved": true} or {"approved": false}')
        return Replay(asked) if approval.approved else UseResult(approval.reason, asked)
    if why == IN_DOUBT:
        repetition = _convert(answer, RepetitionPayload, '{"repeat": true} or {"repeat": false, "result": …}')
        return Replay(asked) if repetition.repeat else UseResult(repetition.result, asked)
    return PassOn(answer.payload, asked)


def _convert(answer: InterruptAnswer, kind: type[T], example: str) -> T:
    try:
        return msgspec.convert(answer.payload, kind)
    except msgspec.ValidationError as error:
        problem = f"The payload for interrupt {answer.interrupt_id!r} must be {example}: {error}."
        raise InvalidArgument(problem=problem) from error
