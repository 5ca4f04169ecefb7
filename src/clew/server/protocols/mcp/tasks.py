"""Runs as tasks: a task is the record of a run, so that any process answers for it.

The package ``mcp`` knows the extension by name only. Its messages are those of the extension
``io.modelcontextprotocol/tasks`` of the specification 2026-07-28: a task that waits for a person asks by
elicitation, and the result of one that is over is part of what ``tasks/get`` returns.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

import msgspec

from clew.api.runs import NewDecision, RunView
from clew.api.turns import ApprovalView, TurnView
from clew.core.encoding import JSON
from clew.core.errors import InvalidArgument
from clew.runtime.records.runs import (
    CANCELLED,
    DONE,
    INTERRUPTED,
    NATURAL,
    ROLLED_BACK,
    SUPERSEDED,
    WAITING,
)
from clew.runtime.state.call_state import IN_DOUBT, INPUT

TASKS_EXTENSION: Final = "io.modelcontextprotocol/tasks"
TaskStatus: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]
POLL_MS: Final = 1_000
"""How long a client is asked to wait before it looks at a task again."""
INTERNAL_ERROR: Final = -32603
"""The code of JSON-RPC for what went wrong in a server."""
DECLINED: Final = "A person declined this call."
INTERRUPTED_ADVICE: Final = (
    "The process that ran it is gone. Call the tool again with the same arguments and key, and it goes on."
)


class TaskRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run as a task: its record, and its result once it is over. A turn in the queue has no record yet."""

    run: RunView
    turn: TurnView | None = None
    is_queued: bool = False

    @property
    def status(self) -> TaskStatus:
        """The status of the task."""
        if self.run.status == WAITING:
            return "input_required"
        if self.run.status != DONE:
            return "working"
        if self.run.termination in (CANCELLED, SUPERSEDED, ROLLED_BACK):
            return "cancelled"
        return "completed" if self.run.termination == NATURAL else "failed"


class ElicitationAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a person: to accept, with the fields of the form, to decline, or to decide later."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, JSON] | None = None


def created_task(task: TaskRun) -> dict[str, JSON]:
    """Return the result of a tool call that goes on as a task."""
    return {"resultType": "task", **_task_fields(task)}


def detailed_task(task: TaskRun, result: JSON, *, can_elicit: bool) -> dict[str, JSON]:
    """Return a task with what its status calls for: its questions, its ``result``, or its error.

    A client that cannot ask a person gets no questions. Whoever can decides elsewhere, as in the Studio.
    """
    fields = _task_fields(task)
    if task.status == "input_required":
        return {**fields, "inputRequests": input_requests(task.run.waiting) if can_elicit else {}}
    if task.status == "completed":
        return {**fields, "result": result}
    if task.status == "failed":
        return {**fields, "error": {"code": INTERNAL_ERROR, "message": _failure(task.run)}}
    return fields


def _task_fields(task: TaskRun) -> dict[str, JSON]:
    message = _status_message(task)
    return {
        "taskId": task.run.id,
        "status": task.status,
        **({} if message is None else {"statusMessage": message}),
        "createdAt": _iso_time(task.run.started),
        "lastUpdatedAt": _iso_time(task.run.ended or task.run.started),
        "ttlMs": None,  # a run is stored until it is erased
        "pollIntervalMs": POLL_MS,
    }


def _status_message(task: TaskRun) -> str | None:
    if task.is_queued:
        return "Another turn of the thread is at work. This one begins behind it."
    if task.status == "input_required":
        return f"A person must decide about: {', '.join(each.tool for each in task.run.waiting)}."
    if task.run.termination in (SUPERSEDED, ROLLED_BACK):
        return "A newer message has ended it."
    return None


def _failure(run: RunView) -> str:
    return INTERRUPTED_ADVICE if run.termination == INTERRUPTED else run.problem or "The run failed."


def _iso_time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def input_requests(approvals: Iterable[ApprovalView]) -> dict[str, JSON]:
    """Return the questions about calls that wait, by a key for each."""
    return {
        _question_key(approval): {
            "method": "elicitation/create",
            "params": {
                "mode": "form",
                "message": _question(approval),
                "requestedSchema": {"type": "object", **_form(approval)},
            },
        }
        for approval in approvals
    }


def decisions_of(approvals: Iterable[ApprovalView], answers: Mapping[str, JSON]) -> dict[str, NewDecision]:
    """Return what answers decide, by call. Answers to no question that waits are left out.

    Raises:
        InvalidArgument: One of them is no answer.
    """
    decisions: dict[str, NewDecision] = {}
    for approval in approvals:
        key = _question_key(approval)
        if key in answers and (decision := _decision(approval, _parse_answer(answers[key]))) is not None:
            decisions[approval.call] = msgspec.structs.replace(decision, asked=approval.asked)
    return decisions


def _question_key(approval: ApprovalView) -> str:
    # With the number of the question: an answer to the first that is sent again is not one to the second.
    return f"{approval.call}.{approval.asked}"


def _question(approval: ApprovalView) -> str:
    call = f"{approval.tool} with {msgspec.json.encode(approval.arguments).decode()}"
    if approval.why == INPUT:
        question = approval.question
        text = question if isinstance(question, str) else msgspec.json.encode(question).decode()
        return f"{approval.tool} asks: {text}"
    if approval.why == IN_DOUBT:
        return (
            f"The process ended while {call} was at work. Nobody knows whether it took effect. Was it done?"
        )
    return f"May this be done: {call}?"


def _form(approval: ApprovalView) -> dict[str, JSON]:
    if approval.why == INPUT:
        return {"properties": {"answer": {"type": "string", "title": "Answer"}}, "required": ["answer"]}
    if approval.why == IN_DOUBT:
        done = {"type": "boolean", "title": "It was done", "description": "If not, it is done again."}
        return {"properties": {"done": done}, "required": ["done"]}
    return {"properties": {}}


def _parse_answer(answer: JSON) -> ElicitationAnswer:
    try:
        return msgspec.convert(answer, ElicitationAnswer)
    except msgspec.ValidationError as error:
        raise InvalidArgument(problem=f"An answer is the result of an elicitation: {error}.") from error


def _decision(approval: ApprovalView, answer: ElicitationAnswer) -> NewDecision | None:
    """Return the decision that an answer is; None if the person leaves it open."""
    content = answer.content or {}
    if answer.action == "cancel":
        return None
    if approval.why == IN_DOUBT:
        if answer.action == "decline" or not isinstance(content.get("done"), bool):
            return None
        return NewDecision(decision="result", value="It was done.") if content["done"] else _REPLAY
    if answer.action == "decline":
        return NewDecision(decision="result", value=DECLINED)
    return NewDecision(decision="pass", value=content.get("answer")) if approval.why == INPUT else _REPLAY


_REPLAY = NewDecision(decision="replay")
