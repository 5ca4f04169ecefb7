"""Chunks of a UI message stream, made from the events of one run in their order.

Every process that reads the log makes the same chunks. Live text comes before the message that it becomes;
where the two differ, the step is reset and the message is sent whole.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from clew.core.encoding import JSON, encode
from clew.core.log.tool_calls import CALL, REPAIR, RESULT
from clew.runtime.model.messages import Message
from clew.runtime.records.events import (
    Event,
    HistoryRewritten,
    MessageAdded,
    RunFinished,
    RunStarted,
    StageStarted,
    TextDelta,
)
from clew.runtime.records.runs import (
    CANCELLED,
    ERROR,
    INTERRUPTED,
    NATURAL,
    ROLLED_BACK,
    SUPERSEDED,
    SUSPENDED,
)
from clew.runtime.state.call_state import APPROVAL, Approval, CallState, UseResult

Chunk: TypeAlias = dict[str, JSON]

DECLINED = "declined"
"""The key of the result that a call gets when a person declined it; its value is the reason."""
ABORT_REASONS = {
    CANCELLED: "The run was cancelled.",
    SUPERSEDED: "Another message came, and the answer was cut short.",
    ROLLED_BACK: "Another message came, and the answer was taken back.",
}
FINISH_REASONS = {NATURAL: "stop", SUSPENDED: "tool-calls", ERROR: "error"}


class ApprovalsAsked(msgspec.Struct, frozen=True, kw_only=True):
    """The calls that a run waits for, when it is suspended."""

    run: str | None
    approvals: tuple[Approval, ...]


class CallsDecided(msgspec.Struct, frozen=True, kw_only=True):
    """The calls that a person has decided about, when their run goes on."""

    run: str | None
    calls: Mapping[str, CallState]


class FieldsChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of the state that a run has changed, with their values at a version."""

    run: str | None
    version: int
    fields: Mapping[str, JSON]


RunFact: TypeAlias = Event | ApprovalsAsked | CallsDecided | FieldsChanged
"""What the chunks are made from: an event, or what the log says besides at the version of an event."""


class RunChunks:
    """The chunks of the message that one run makes. What is about other runs is passed over."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._has_started = False
        self._step: int | None = None
        self._has_step = False
        self._is_step_empty = False
        self._text_count = 0
        self._live_text: str | None = None
        self._attempt = 1
        self._last_committed_step = 0
        self._open_calls: set[str] = set()

    def of(self, facts: Iterable[RunFact]) -> Iterator[Chunk]:
        """Iterate over the chunks of several facts."""
        for fact in facts:
            yield from self.after(fact)

    def after(self, fact: RunFact) -> Iterator[Chunk]:
        """Iterate over the chunks of the next fact."""
        if fact.run != self._run:
            return
        if not self._has_started:
            self._has_started = True
            yield {"type": "start", "messageId": self._run}
        match fact:
            case RunStarted():
                yield from self._go_on()
            case TextDelta():
                yield from self._add_text(fact)
            case MessageAdded():
                yield from self._add_message(fact.message)
            case ApprovalsAsked():
                yield from map(_approval_request, fact.approvals)
            case CallsDecided():
                yield from _approval_responses(fact.calls)
            case RunFinished():
                yield from self._finish(fact)
            case _:
                yield from _data_chunks(fact)

    def _go_on(self) -> Iterator[Chunk]:
        """Begin, or go on after a stop: steps are counted anew, and what was not durable is said again."""
        yield from self._drop_live_text()
        self._step, self._last_committed_step = None, 0

    def _enter_step(self, step: int | None) -> Iterator[Chunk]:
        if self._has_step and (self._is_step_empty or step == self._step):
            self._step = step
            return
        yield from self._leave_step()
        self._step, self._has_step, self._is_step_empty = step, True, True
        yield {"type": "start-step"}

    def _leave_step(self) -> Iterator[Chunk]:
        if self._has_step:
            self._has_step = False
            yield {"type": "finish-step"}

    def _add_text(self, delta: TextDelta) -> Iterator[Chunk]:
        if delta.step <= self._last_committed_step:
            return  # the message that it became was read from the log before
        if self._live_text is not None and (delta.step, delta.attempt) != (self._step, self._attempt):
            yield from self._drop_live_text()
        if self._live_text is None:
            yield from self._enter_step(delta.step)
            self._attempt = delta.attempt
            yield from self._open_text()
        length = len(self._live_text or "")
        if delta.offset <= length < delta.offset + len(delta.text):
            yield self._text_delta(delta.text[length - delta.offset :])

    def _open_text(self) -> Iterator[Chunk]:
        self._text_count += 1
        self._live_text, self._is_step_empty = "", False
        yield {"type": "text-start", "id": self._text_id}

    def _text_delta(self, text: str) -> Chunk:
        self._live_text = (self._live_text or "") + text
        return {"type": "text-delta", "id": self._text_id, "delta": text}

    @property
    def _text_id(self) -> str:
        return f"text-{self._text_count}"

    def _drop_live_text(self) -> Iterator[Chunk]:
        """Take back text that no message has become. A step has nothing else before its text is durable."""
        if self._live_text is not None:
            self._live_text, self._is_step_empty = None, True
            yield {"type": "reset-step"}

    def _add_message(self, message: Message) -> Iterator[Chunk]:
        if message.kind == CALL:
            yield from self._enter_step(message.step)
            yield from self._add_call(message)
        elif message.kind == RESULT:
            self._open_calls.discard(message.call or "")
            yield _output_chunk(message)
        elif message.kind == REPAIR:
            yield from self._close_calls(message.text)
        elif message.role == "assistant":
            yield from self._commit_text(message)

    def _commit_text(self, message: Message) -> Iterator[Chunk]:
        text = message.content if isinstance(message.content, str) else encode(message.content).decode()
        if self._live_text is not None and (
            message.step != self._step or not text.startswith(self._live_text)
        ):
            yield from self._drop_live_text()
        if not text and self._live_text is None:
            return
        if self._live_text is None:
            yield from self._enter_step(message.step)
            yield from self._open_text()
        rest = text[len(self._live_text or "") :]
        if rest:
            yield self._text_delta(rest)
        yield {"type": "text-end", "id": self._text_id}
        self._live_text = None
        self._last_committed_step = message.step or self._last_committed_step

    def _add_call(self, message: Message) -> Iterator[Chunk]:
        call = message.call or ""
        self._open_calls.add(call)
        self._is_step_empty = False
        yield {
            "type": "tool-input-available",
            "toolCallId": call,
            "toolName": message.name or "",
            "input": message.arguments,
        }

    def _close_calls(self, reason: str) -> Iterator[Chunk]:
        """Close the calls that will never be answered."""
        for call in sorted(self._open_calls):
            yield {"type": "tool-output-error", "toolCallId": call, "errorText": reason}
        self._open_calls.clear()

    def _finish(self, event: RunFinished) -> Iterator[Chunk]:
        yield from self._drop_live_text()
        if event.termination == INTERRUPTED:
            return  # it goes on in another process, in the same step
        yield from self._leave_step()
        metadata: JSON = {
            "termination": event.termination,
            "inputTokens": event.usage.input_tokens,
            "outputTokens": event.usage.output_tokens,
        }
        yield {"type": "message-metadata", "messageMetadata": metadata}
        if event.termination == ERROR:
            yield {"type": "error", "errorText": event.problem or "The run failed."}
        if event.termination in ABORT_REASONS:
            yield {"type": "abort", "reason": event.problem or ABORT_REASONS[event.termination]}
        yield {"type": "finish", "finishReason": FINISH_REASONS.get(event.termination, "other")}


def approval_id(call: str, asked: int) -> str:
    """Return the id of a question about a call: an answer to the first is not one to the second."""
    return f"{call}.{asked}"


def asked_in(approval: str) -> int | None:
    """Return the number of the question that an approval id names; None if it is none of ours."""
    number = approval.rpartition(".")[2]
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else None


def _approval_request(approval: Approval) -> Chunk:
    chunk: Chunk = {
        "type": "tool-approval-request",
        "approvalId": approval_id(approval.call, approval.asked),
        "toolCallId": approval.call,
    }
    if approval.why != APPROVAL:
        question = approval.question
        chunk["reason"] = question if isinstance(question, str) else encode(question).decode()
    return chunk


def _approval_responses(calls: Mapping[str, CallState]) -> Iterator[Chunk]:
    for call, entry in calls.items():
        decision = entry.decision
        chunk: Chunk = {
            "type": "tool-approval-response",
            "approvalId": approval_id(call, entry.asked),
            "approved": not isinstance(decision, UseResult),
        }
        if isinstance(decision, UseResult) and (reason := _declined_reason(decision.output)):
            chunk["reason"] = reason
        yield chunk


def _output_chunk(message: Message) -> Chunk:
    output = message.content
    if _declined_reason(output) is not None:
        return {"type": "tool-output-denied", "toolCallId": message.call}
    if isinstance(output, dict) and output.keys() == {"error"} and isinstance(output["error"], str):
        return {"type": "tool-output-error", "toolCallId": message.call, "errorText": output["error"]}
    return {"type": "tool-output-available", "toolCallId": message.call, "output": output}


def _declined_reason(output: JSON) -> str | None:
    """Return why a person declined a call; None if the output says no such thing."""
    if isinstance(output, dict) and output.keys() == {DECLINED}:
        return str(output[DECLINED])
    return None


def _data_chunks(fact: RunFact) -> Iterator[Chunk]:
    """Iterate over what is about the thread and not about the message: pages get it, messages do not."""
    match fact:
        case FieldsChanged():
            data: JSON = {"version": fact.version, "fields": dict(fact.fields)}
            yield {"type": "data-state", "data": data, "transient": True}
        case HistoryRewritten():
            data = {"reason": fact.reason, "ended": fact.ended}
            yield {"type": "data-rewritten", "data": data, "transient": True}
        case StageStarted():
            data = {"name": fact.name, "label": fact.label}
            yield {"type": "data-stage", "data": data, "transient": True}
