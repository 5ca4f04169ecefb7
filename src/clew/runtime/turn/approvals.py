"""Approvals: how a run stops for a person, and the checks on what the person decides."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias, get_args

import msgspec

from clew.core.encoding import encode_checked
from clew.core.errors import DecisionRefused, InvalidArgument, InvalidValue
from clew.core.ops import Op
from clew.core.shapes import describe_value
from clew.core.values import Head
from clew.database.thread import Thread
from clew.runtime.records.runs import Run
from clew.runtime.state.call_state import SUSPENDED, CallState, Decision
from clew.runtime.state.run_state import RunState, decided_call, decision_op, starts_run

CHANGESETS_PER_PAGE = 64


def check_decisions(decisions: object, what: str) -> None:
    """Refuse what is no mapping of calls to decisions; each decision is checked later, with its call.

    Raises:
        InvalidArgument: It is something else.
    """
    if not isinstance(decisions, Mapping):
        problem = f"{what} must be a dict of call ids to decisions, not {describe_value(decisions)}."
        raise InvalidArgument(problem=problem)


Decisions: TypeAlias = Annotated[Mapping[str, Decision], check_decisions]
"""The decision about each call, by the id of the call."""


class Suspension(Exception):
    """Raised to end the work of a run until the calls that its state names are decided. It is no error."""


async def ops_of_decisions(
    thread: Thread, head: Head, run: Run, decisions: Mapping[str, Decision]
) -> dict[str, Op]:
    """Return the op for each decision, by call. A decision that was made before gives none.

    Raises:
        DecisionRefused: One is about no call of this run that waits or waited, or says otherwise than before.
    """
    call_states = RunState.of(head.state).calls
    changes: dict[str, Op] = {}
    for call, decision in decisions.items():
        _check_decision(thread.id, call, decision)
        entry = call_states.get(call)
        if entry is None:
            entry = await _find_earlier_decision(thread, head, run, call)
        if entry.status == SUSPENDED:
            _check_question(thread.id, call, decision, entry)
            # It is stored with the number of the question, so that it can be told from an answer to the next.
            changes[call] = decision_op(call, msgspec.structs.replace(decision, asked=entry.asked))
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
    """Find the decision about a call that waits no more, in the log of its run, newest first."""
    upto = head.version
    while upto > 0:
        after = max(upto - CHANGESETS_PER_PAGE, 0)
        for change in reversed(await thread.changesets(after=after, upto=upto)):
            if (call_state := decided_call(change, call)) is not None:
                return call_state
            if starts_run(change, run.id):
                after = 0  # a call of the same id before this one was another run's
                break
        upto = after
    raise DecisionRefused(thread=thread.id, call=call, problem="no such call waits")
