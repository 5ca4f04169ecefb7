"""What a person decides about calls that wait, held against what was asked and what was decided before."""

from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from clew.core import making
from clew.core.encoding import encode_checked
from clew.core.errors import DecisionRefused, InvalidValue
from clew.core.ops import Merge, Op, Set
from clew.core.values import Changeset, Head
from clew.runtime.draft import CALLS, RUN
from clew.runtime.runs import Run
from clew.runtime.suspension import DECIDED, SUSPENDED, Decision, Entry, entries
from clew.threads.thread import Thread

PAGE = 64


async def decide(thread: Thread, head: Head, run: Run, decisions: Mapping[str, Decision]) -> dict[str, Op]:
    """What changes by the decisions, by call. One that was taken before in the same way changes nothing.

    Raises:
        DecisionRefused: One is about no call of this run that waits or waited, or says otherwise than before.
    """
    known = entries(head.state)
    changes: dict[str, Op] = {}
    for call, decision in decisions.items():
        _check(thread.id, call, decision)
        entry = known.get(call)
        if entry is None:
            entry = await _decided_before(thread, head, run, call)
        if entry.status == SUSPENDED:
            _check_question(thread.id, call, decision, entry)
            numbered = msgspec.structs.replace(decision, asked=entry.asked)
            said = {"status": DECIDED, "decision": msgspec.to_builtins(numbered)}
            changes[call] = making.merge([CALLS, call], said)
        elif entry.decision is None:
            raise DecisionRefused(thread=thread.id, call=call, problem="it does not wait for a decision")
        elif not _is_same(decision, entry):
            raise DecisionRefused(thread=thread.id, call=call, problem="it was decided otherwise before")
    return changes


def _check(thread: str, call: str, decision: Any) -> None:
    if not isinstance(decision, get_args(Decision)):
        raise DecisionRefused(thread=thread, call=call, problem=f"{decision!r} is no decision")
    try:
        encode_checked(msgspec.to_builtins(decision), f"the decision on {call}")
    except (TypeError, InvalidValue) as error:
        raise DecisionRefused(thread=thread, call=call, problem=f"it is not JSON: {error}") from error


def _check_question(thread: str, call: str, decision: Decision, entry: Entry) -> None:
    """Refuse what may be the answer to an earlier question, sent again."""
    if decision.asked not in (None, entry.asked):
        problem = f"it answers question {decision.asked}, and question {entry.asked} waits"
        raise DecisionRefused(thread=thread, call=call, problem=problem)
    if decision.asked is None and entry.asked > 1:
        problem = f"question {entry.asked} about it waits; an answer to that says asked={entry.asked}"
        raise DecisionRefused(thread=thread, call=call, problem=problem)


def _is_same(decision: Decision, entry: Entry) -> bool:
    before = entry.decision
    if before is None or decision.asked not in (None, before.asked):
        return False
    return before == msgspec.structs.replace(decision, asked=before.asked)


async def _decided_before(thread: Thread, head: Head, run: Run, call: str) -> Entry:
    """How a call was decided that waits no more, as the log of its run says."""
    upto = head.version
    while upto > 0:
        changes = await thread.changesets(after=max(upto - PAGE, 0), upto=upto)
        for change in reversed(changes):
            said = _said(change, call)
            if said is not None:
                return msgspec.convert(said, Entry)
            if _begins(change, run.id):
                upto = 0
                break
        upto = max(upto - PAGE, 0)
    raise DecisionRefused(thread=thread.id, call=call, problem="no such call waits")


def _said(change: Changeset, call: str) -> Mapping[str, Any] | None:
    """The decision on a call in a changeset."""
    for op in change.patches:
        if isinstance(op, Merge) and op.path == (CALLS, call) and op.value.get("status") == DECIDED:
            return op.value
    return None


def _begins(change: Changeset, run: str) -> bool:
    """Whether a run begins here; what came before is not about it."""
    return any(
        isinstance(op, Set) and op.path == (RUN,) and isinstance(op.value, dict) and op.value.get("id") == run
        for op in change.patches
    )
