"""The run that a thread's state names, with its open tool calls: what is stored, and the ops that change it.

``$run`` holds the run that has the thread, or had it last; ``$calls`` holds the calls without a result. Both
are read and written here alone. Other modules read a ``RunState`` and commit the ops that are made here.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from clew.core import ops
from clew.core.encoding import JSON, as_json
from clew.core.items import repair
from clew.core.ops import Delete, Document, Merge, Op, Set
from clew.core.values import Changeset, Item
from clew.runtime.model.protocol import Usage
from clew.runtime.records.runs import DONE, INTERRUPTED, RUNNING, Ending, Run, status_after
from clew.runtime.state.call_state import DECIDED, INTENDED, SUSPENDED, Approval, CallState, Decision

_RUN: Final = "$run"
_CALLS: Final = "$calls"
_HANDLED: Final = "$handled"
"""Beside the fields of a turn: how many messages of the run the stages have answered."""

RUN_FIELDS: Final = (_RUN, "fields")
"""The path of the fields with the lifetime of a run."""
TURN_FIELDS: Final = (_RUN, "turn")
"""The path of the fields that are fresh in each turn, as far as finished stages have set them."""


def call_fields(call: str) -> tuple[str, ...]:
    """Return the path of the fields with the lifetime of a tool call."""
    return (_CALLS, call, "fields")


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """The run that a state names, how far it came, and its calls without a result.

    ``epoch`` counts the holders of the run: a process that finds another epoch than its own has lost the
    run. ``stage`` is the stage that it is at, ``inputs`` what it needs to be resumed, ``safe`` the reply that
    goes out whatever fails, ``turn`` the fields of the turn, ``stop`` the termination that its holder is
    asked to end it with. A state that names no run gives one without an id. ``keys`` are the keys of the
    state that this was read from.
    """

    id: str = ""
    epoch: int = 1
    status: str = DONE
    stage: str | int | None = None
    inputs: dict[str, JSON] = {}
    usage: Usage = Usage()
    safe: JSON = None
    stop: str | None = None
    turn: JSON = None
    calls: dict[str, CallState] = {}
    keys: tuple[str, ...] = ()

    @classmethod
    def of(cls, state: Document) -> "RunState":
        """Read the run that a state names."""
        run, calls = state.get(_RUN), state.get(_CALLS)
        run_state = msgspec.convert(run, cls) if isinstance(run, dict) else cls()
        return msgspec.structs.replace(
            run_state,
            calls=msgspec.convert(calls, dict[str, CallState]) if isinstance(calls, dict) else {},
            keys=tuple(key for key in (_RUN, _CALLS) if key in state),
        )

    # What it says.

    @property
    def is_open(self) -> bool:
        """True if the state names a run that has not ended: it works, waits, or was interrupted."""
        return bool(self.id) and self.status != DONE

    @property
    def has_ended(self) -> bool:
        """True if the state names a run, and that run has ended."""
        return bool(self.id) and self.status == DONE

    @property
    def safe_reply(self) -> str | None:
        """The reply that goes out whatever fails, if a stage has declared one."""
        return self.safe if isinstance(self.safe, str) else None

    @property
    def handled_count(self) -> int:
        """The number of messages of this run that stages have answered."""
        count = self.turn.get(_HANDLED, 0) if isinstance(self.turn, dict) else 0
        return count if isinstance(count, int) else 0

    @property
    def approvals(self) -> tuple[Approval, ...]:
        """The calls that wait for a person."""
        return tuple(
            Approval(
                call=call,
                tool=entry.tool,
                arguments=entry.arguments,
                question=entry.question,
                why=entry.why,
                asked=entry.asked,
            )
            for call, entry in self.calls.items()
            if entry.status == SUSPENDED
        )

    @property
    def doubtful_calls(self) -> tuple[str, ...]:
        """The calls that may have had their effect, once the run that made them is gone."""
        return tuple(call for call, entry in self.calls.items() if entry.in_doubt)

    def closing_items(self, open_calls: Mapping[str, str | None], reason: str) -> tuple[Item, ...]:
        """Return the item that closes calls which will never be answered; none if no call is open.

        It names those that may have had their effect all the same.
        """
        if not open_calls:
            return ()
        in_doubt = [f"{self.calls[call].tool} ({call})" for call in self.doubtful_calls]
        if in_doubt:
            reason = f"{reason} Whether these had their effect is not known: {', '.join(in_doubt)}."
        return (repair(dict(open_calls), reason),)

    # How it moves.

    def start_ops(self, run: Run, inputs: Mapping[str, JSON], stage: str | None) -> list[Op]:
        """Return the ops that clean away what an earlier run left, and name a new one.

        What they store is enough to resume the run in another process.
        """
        document: Document = {"id": run.id, "epoch": run.epoch, "status": run.status}
        if stage is not None:
            document["stage"] = stage
        if inputs:
            document["inputs"] = dict(inputs)
        return [*(Delete((key,)) for key in self.keys), Set((_RUN,), document)]

    def result_ops(self, call: str) -> tuple[Op, ...]:
        """Return the ops that drop a call once its result is in the history."""
        return (Delete((_CALLS, call)),) if call in self.calls else ()

    def drop_calls_ops(self) -> tuple[Op, ...]:
        """Return the ops that drop every call."""
        return (Delete((_CALLS,)),) if _CALLS in self.keys else ()

    def close_ops(self, ending: Ending, epoch: int) -> tuple[Op, ...]:
        """Return the ops that take a run from its holder, who is gone or has stopped.

        The new epoch keeps a holder that turns up again from committing. An interrupted run can be resumed,
        so its calls stay.
        """
        if ending.termination == INTERRUPTED:
            return (Merge((_RUN,), {"status": INTERRUPTED, "epoch": epoch}),)
        return (*self.drop_calls_ops(), Merge((_RUN,), {"status": DONE, "epoch": epoch}))

    def replaced_state(self) -> Document:
        """Return what a state that replaces the whole says of the run: it has ended, at another epoch."""
        if not self.id:
            return {}
        return {_RUN: {"id": self.id, "epoch": self.epoch + 1, "status": DONE}}


# Ops that are the same whatever the state says.


def resume_op(epoch: int) -> Op:
    """Return the op by which a new holder takes up a run that stopped, whatever the last was asked for."""
    return Merge((_RUN,), {"status": RUNNING, "epoch": epoch, "stop": None})


def stop_op(termination: str | None) -> Op:
    """Return the op that asks the holder of a run to end it with a termination; None takes that back."""
    return Set((_RUN, "stop"), termination)


def stage_op(stage: str) -> Op:
    """Return the op that enters a stage."""
    return Set((_RUN, "stage"), stage)


def usage_op(usage: Usage) -> Op:
    """Return the op that stores what the run has cost so far."""
    return Set((_RUN, "usage"), as_json(usage))


def safe_reply_op(text: str | None) -> Op:
    """Return the op that declares the reply which goes out whatever fails; None withdraws it."""
    return Set((_RUN, "safe"), text)


def handled_count_op(count: int) -> Op:
    """Return the op that stores how many messages of the run the stages have answered."""
    return Set((*TURN_FIELDS, _HANDLED), count)


def ending_ops(ending: Ending, *, stores_turn_fields: bool) -> tuple[Op, ...]:
    """Return the ops by which a run ends that its own process works on."""
    status = status_after(ending)
    status_op = Set((_RUN, "status"), status)
    # A run that waits is resumed with the fields of its turn; once it is over they serve nothing.
    if status != DONE or not stores_turn_fields:
        return (status_op,)
    return (status_op, Delete(TURN_FIELDS))


def intent_op(call: str, tool: str, key: str) -> Op:
    """Return the op that records the intent to call a tool which touches the world."""
    return Set((_CALLS, call), {"tool": tool, "status": INTENDED, "key": key})


def question_op(call: str, waiting: CallState) -> Op:
    """Return the op that lets a call wait for a person."""
    entry: Document = {
        "tool": waiting.tool,
        "arguments": waiting.arguments,
        "status": waiting.status,
        "question": waiting.question,
        "why": waiting.why,
        "asked": waiting.asked,
    }
    if waiting.key is not None:
        entry["key"] = waiting.key
    if waiting.decision is not None:
        entry["decision"] = None  # it answered an earlier question
    return Merge((_CALLS, call), entry)


def decision_op(call: str, decision: Decision) -> Op:
    """Return the op that records a decision about a call."""
    return Merge((_CALLS, call), {"status": DECIDED, "decision": msgspec.to_builtins(decision)})


# What changesets and states say.


def starts_run(change: Changeset, run: str) -> bool:
    """Return whether a changeset is the first of a run: nothing before it is about that run."""
    return any(
        isinstance(op, Set)
        and op.path == (_RUN,)
        and isinstance(op.value, dict)
        and op.value.get("id") == run
        for op in change.patches
    )


def decided_call(change: Changeset, call: str) -> CallState | None:
    """Return what a changeset records of a call that was decided in it; None if none was."""
    for op in change.patches:
        if isinstance(op, Merge) and op.path == (_CALLS, call) and op.value.get("status") == DECIDED:
            return msgspec.convert(op.value, CallState)
    return None


def state_without_run(state: Document) -> Document:
    """Return a state without what it says of its run."""
    return {key: value for key, value in state.items() if key not in (_RUN, _CALLS)}


def calls_of(state: Document) -> Document:
    """Return the part of a state that is about open calls: a state of its own, for ``RunState.of``."""
    return {_CALLS: state.get(_CALLS, {})}


def calls_after(calls: Document, change: Changeset) -> Document:
    """Return the part of a state that is about open calls, after one more changeset."""
    if change.snapshot is not None:
        calls = calls_of(change.snapshot)
    return ops.apply_ops(calls, [op for op in change.patches if op.path[:1] == (_CALLS,)])
