"""Closing a run that no process works on."""

from __future__ import annotations

from clew.core.ops import Document, apply_ops
from clew.core.values import Counters, Head, Put
from clew.runtime.model.protocol import Usage
from clew.runtime.records.runs import CANCELLED, INTERRUPTED, Ending, Run, run_of
from clew.runtime.state.run_state import RunState, intent_op, usage_op
from clew.runtime.turn.closure import PROCESS_LOST, close_run

USAGE = Usage(calls=2, input_tokens=7)
RUN = Run(id="run-1", thread="a", started=0, usage=Usage(calls=1), until=500, revision=4)
CANCEL = Ending(termination=CANCELLED)


def head_of(state: Document, *, open_calls: dict[str, str | None] | None = None) -> Head:
    counters = Counters(open=open_calls or {})
    return Head(
        id="a", owner="ann", version=3, state=state, counters=counters, hash=b"", created=0, updated=0
    )


def at_work() -> Head:
    ops = [*RunState().start_ops(RUN, {}, "plan"), usage_op(USAGE), intent_op("c1", "pay", "k1")]
    return head_of(apply_ops({}, ops), open_calls={"c1": "run-1"})


def test_a_closed_run_takes_from_the_state_what_its_record_does_not_know() -> None:
    closure = close_run(RUN, at_work(), CANCEL, 9, owner="ann")

    assert closure.run is not None
    assert (closure.run.usage, closure.run.in_doubt) == (USAGE, ("c1",))
    assert (closure.run.ended, closure.run.until, closure.run.termination) == (9, 0, CANCELLED)


def test_the_record_and_the_state_get_the_same_new_epoch() -> None:
    head = at_work()
    closure = close_run(RUN, head, PROCESS_LOST, 9, owner="ann")

    assert closure.run is not None
    assert closure.run.epoch == RunState.of(apply_ops(head.state, closure.patches)).epoch == 2


def test_a_cancelled_run_closes_its_calls_and_an_interrupted_one_leaves_them_to_be_answered() -> None:
    cancellation = close_run(RUN, at_work(), CANCEL, 9, owner="ann")
    interruption = close_run(RUN, at_work(), PROCESS_LOST, 9, owner="ann")

    assert [item.kind for item in cancellation.items] == ["repair"]
    assert (
        interruption.items,
        list(RunState.of(apply_ops(at_work().state, interruption.patches)).calls),
    ) == (
        (),
        ["c1"],
    )


def test_its_changeset_tells_how_the_run_ended_and_what_it_cost() -> None:
    change = close_run(RUN, at_work(), PROCESS_LOST, 9, owner="ann").changeset("RunInterrupted")

    assert (change.run_id, change.reason) == ("run-1", "RunInterrupted")
    assert change.run_meta is not None
    assert (change.run_meta["status"], change.run_meta["termination"]) == (INTERRUPTED, INTERRUPTED)
    assert change.run_meta["usage"]["calls"] == 2


def test_the_record_is_written_only_if_nobody_changed_it() -> None:
    (write,) = close_run(RUN, at_work(), CANCEL, 9, owner="ann").writes

    assert isinstance(write, Put)
    assert (write.expect, write.record.owner, run_of(write.record).status) == (4, "ann", "done")


def test_a_fork_in_the_middle_of_a_run_changes_its_own_state_alone() -> None:
    head = at_work()
    closure = close_run(None, head, CANCEL, 9, owner="ann")

    assert (closure.run, closure.writes, closure.meta) == (None, (), None)
    assert RunState.of(apply_ops(head.state, closure.patches)).has_ended
