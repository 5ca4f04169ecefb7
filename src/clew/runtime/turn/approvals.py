"""Calls that wait for a person: how they are kept, and what may be decided about them."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias, get_args

import msgspec

from clew.core import patch
from clew.core.arguments import check_fields
from clew.core.encoding import JSON, encode_checked
from clew.core.errors import DecisionRefused, InvalidArgument, InvalidValue
from clew.core.items import repair
from clew.core.ops import Document, Merge, Op, Set
from clew.core.shapes import describe_value
from clew.core.values import Changeset, Head, Item
from clew.database.thread import Thread
from clew.runtime.records.runs import Run
from clew.runtime.turn.draft import CALLS, RUN

INTENDED, SUSPENDED, DECIDED = "intended", "suspended", "decided"
APPROVAL, INPUT, IN_DOUBT = "approval", "input", "in doubt"


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits, and what a person is asked.

    ``why`` is ``approval`` (may it be called?), ``input`` (the tool asks something) or ``in doubt`` (did it
    have its effect before the process ended?). ``asked`` counts the questions about this call.
    """

    call: str
    tool: str
    arguments: JSON = None
    question: JSON = None
    why: str = APPROVAL
    asked: int = 1


class Replay(msgspec.Struct, frozen=True, omit_defaults=True, tag="replay"):
    """Go ahead: run the call as it was asked for."""

    asked: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)


class UseResult(msgspec.Struct, frozen=True, omit_defaults=True, tag="result"):
    """Do not run the call; this is its result."""

    output: JSON
    asked: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)


class PassOn(msgspec.Struct, frozen=True, omit_defaults=True, tag="pass"):
    """Run the call, and give this to the tool as ``context.decision``."""

    value: JSON
    asked: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)


Decision: TypeAlias = Replay | UseResult | PassOn
"""What a person decides. An answer to a second question about a call says so, ``Replay(asked=2)``: an answer
to the first that is sent again is never taken for it."""


def check_decisions(decisions: object, what: str) -> None:
    """Refuse what is no mapping of calls to decisions; a decision is refused later, with the call it is for.

    Raises:
        InvalidArgument: It is something else.
    """
    if not isinstance(decisions, Mapping):
        problem = f"{what} must be a dict of call ids to decisions, not {describe_value(decisions)}."
        raise InvalidArgument(problem=problem)


Decisions: TypeAlias = Annotated[Mapping[str, Decision], check_decisions]
"""What a person decides of each call, by its id."""


class Suspension(Exception):
    """Ends a run's work until calls are decided. It is no error."""

    def __init__(self, approvals: tuple[Approval, ...]) -> None:
        super().__init__(", ".join(entry.call for entry in approvals))
        self.approvals = approvals


class CallState(msgspec.Struct, frozen=True, kw_only=True):
    """What the state keeps of an unresolved call. No status means that nothing was noted.

    Only a call that may touch the world has a key.
    """

    tool: str = ""
    status: str | None = None
    key: str | None = None
    arguments: JSON = None
    question: JSON = None
    why: str = APPROVAL
    asked: int = 0
    decision: Decision | None = None

    @property
    def in_doubt(self) -> bool:
        """Whether it may have had its effect, if the run that made it is gone."""
        if self.key is None:
            return False
        if self.status == SUSPENDED:
            return self.why == IN_DOUBT
        return not isinstance(self.decision, UseResult)


def call_states_of(state: Document) -> dict[str, CallState]:
    """What the state keeps of unresolved calls, by their ids."""
    calls = state.get(CALLS)
    return msgspec.convert(calls, dict[str, CallState]) if isinstance(calls, dict) else {}


def doubtful_calls(state: Document) -> tuple[str, ...]:
    """The calls that may or may not have had their effect, if the run that made them is gone."""
    return tuple(call for call, entry in call_states_of(state).items() if entry.in_doubt)


def closing_item(open_calls: dict[str, str | None], state: Document, reason: str) -> Item:
    """Closes calls that will never be answered, and names those that may have had their effect anyway."""
    call_states = call_states_of(state)
    in_doubt = [f"{call_states[call].tool} ({call})" for call in doubtful_calls(state)]
    if in_doubt:
        reason = f"{reason} Whether these had their effect is not known: {', '.join(in_doubt)}."
    return repair(open_calls, reason)


def pending_approvals(state: Document) -> tuple[Approval, ...]:
    """The calls that wait, as the state says."""
    return tuple(
        Approval(
            call=call,
            tool=entry.tool,
            arguments=entry.arguments,
            question=entry.question,
            why=entry.why,
            asked=entry.asked,
        )
        for call, entry in call_states_of(state).items()
        if entry.status == SUSPENDED
    )


CHANGESETS_PER_PAGE = 64


async def ops_of_decisions(
    thread: Thread, head: Head, run: Run, decisions: Mapping[str, Decision]
) -> dict[str, Op]:
    """What changes by the decisions, by call. One that was taken before in the same way changes nothing.

    Raises:
        DecisionRefused: One is about no call of this run that waits or waited, or says otherwise than before.
    """
    call_states = call_states_of(head.state)
    changes: dict[str, Op] = {}
    for call, decision in decisions.items():
        _check_decision(thread.id, call, decision)
        entry = call_states.get(call)
        if entry is None:
            entry = await _find_earlier_decision(thread, head, run, call)
        if entry.status == SUSPENDED:
            _check_question(thread.id, call, decision, entry)
            numbered_decision = msgspec.structs.replace(decision, asked=entry.asked)
            change = {"status": DECIDED, "decision": msgspec.to_builtins(numbered_decision)}
            changes[call] = patch.merge([CALLS, call], change)
        elif entry.decision is None:
            raise DecisionRefused(thread=thread.id, call=call, problem="it does not wait for a decision")
        elif not _is_same(decision, entry):
            raise DecisionRefused(thread=thread.id, call=call, problem="it was decided otherwise before")
    return changes


def _check_decision(thread: str, call: str, decision: Any) -> None:
    if not isinstance(decision, get_args(Decision)):
        raise DecisionRefused(thread=thread, call=call, problem=f"{decision!r} is no decision")
    try:
        encode_checked(msgspec.to_builtins(decision), f"the decision on {call}")
    except (TypeError, InvalidValue) as error:
        raise DecisionRefused(thread=thread, call=call, problem=f"it is not JSON: {error}") from error


def _check_question(thread: str, call: str, decision: Decision, entry: CallState) -> None:
    """Refuse what may be the answer to an earlier question, sent again."""
    if decision.asked not in (None, entry.asked):
        problem = f"it answers question {decision.asked}, and question {entry.asked} waits"
        raise DecisionRefused(thread=thread, call=call, problem=problem)
    if decision.asked is None and entry.asked > 1:
        problem = f"question {entry.asked} about it waits; an answer to that says asked={entry.asked}"
        raise DecisionRefused(thread=thread, call=call, problem=problem)


def _is_same(decision: Decision, entry: CallState) -> bool:
    before = entry.decision
    if before is None or decision.asked not in (None, before.asked):
        return False
    return before == msgspec.structs.replace(decision, asked=before.asked)


async def _find_earlier_decision(thread: Thread, head: Head, run: Run, call: str) -> CallState:
    """How a call was decided that waits no more, as the log of its run says."""
    upto = head.version
    while upto > 0:
        changes = await thread.changesets(after=max(upto - CHANGESETS_PER_PAGE, 0), upto=upto)
        for change in reversed(changes):
            document = _decision_in(change, call)
            if document is not None:
                return msgspec.convert(document, CallState)
            if _starts_run(change, run.id):
                upto = 0
                break
        upto = max(upto - CHANGESETS_PER_PAGE, 0)
    raise DecisionRefused(thread=thread.id, call=call, problem="no such call waits")


def _decision_in(change: Changeset, call: str) -> Mapping[str, Any] | None:
    """The decision on a call in a changeset."""
    for op in change.patches:
        if isinstance(op, Merge) and op.path == (CALLS, call) and op.value.get("status") == DECIDED:
            return op.value
    return None


def _starts_run(change: Changeset, run: str) -> bool:
    """Whether a run begins here; what came before is not about it."""
    return any(
        isinstance(op, Set) and op.path == (RUN,) and isinstance(op.value, dict) and op.value.get("id") == run
        for op in change.patches
    )
