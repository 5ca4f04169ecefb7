"""The state of a run: what is read from a thread's state, and the ops that change it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from clew.core.ops import Document, apply_ops
from clew.core.values import Changeset
from clew.runtime.model.protocol import Usage
from clew.runtime.records.runs import CANCELLED, INTERRUPTED, NATURAL, SUSPENDED, Ending, Run
from clew.runtime.state import run_state as moves
from clew.runtime.state.call_state import APPROVAL, IN_DOUBT, Approval, CallState, Replay, UseResult
from clew.runtime.state.run_state import RunState
from tests.architecture.source import SOURCES, modules

RUN = Run(id="run-1", thread="a", started=0)
QUESTION = Approval(call="c1", tool="pay", arguments={"amount": 3}, question="May I?", why=APPROVAL)
WAITING_CALL = CallState(
    tool="pay", status="suspended", key="k1", arguments={"amount": 3}, question="May I?", asked=1
)


def fresh_state(**inputs: Any) -> Document:
    return apply_ops({}, RunState().start_ops(RUN, inputs, "plan"))


def test_no_other_module_names_its_keys() -> None:
    keys = ('"$run"', '"$calls"', "'$run'", "'$calls'")
    named_in = [module.name for module in modules(*SOURCES) if module.mentions(keys)]

    assert named_in == ["src/clew/runtime/state/run_state.py"]


def test_a_state_without_a_run_names_none() -> None:
    run_state = RunState.of({"mood": "calm"})

    assert (run_state.id, run_state.is_open, run_state.has_ended) == ("", False, False)


def test_a_run_that_starts_is_read_back_with_all_that_a_resume_needs() -> None:
    run_state = RunState.of(fresh_state(city="Rome"))

    assert (run_state.id, run_state.stage, run_state.inputs) == ("run-1", "plan", {"city": "Rome"})
    assert run_state.is_open


def test_a_start_cleans_away_what_the_run_before_left() -> None:
    before = apply_ops({**fresh_state(city="Rome"), "mood": "calm"}, [moves.intent_op("c1", "pay", "k1")])
    second = Run(id="run-2", thread="a", started=0)
    after = apply_ops(before, RunState.of(before).start_ops(second, {}, None))

    assert (RunState.of(after).id, RunState.of(after).inputs, RunState.of(after).calls) == ("run-2", {}, {})
    assert after["mood"] == "calm"


def test_a_run_moves_through_stages_and_adds_what_it_costs() -> None:
    usage = Usage(calls=2, input_tokens=7)
    state = apply_ops(fresh_state(), [moves.stage_op("answer"), moves.usage_op(usage)])

    assert (RunState.of(state).stage, RunState.of(state).usage) == ("answer", usage)


def test_a_call_waits_until_it_is_decided_and_goes_with_its_result() -> None:
    waiting = apply_ops(fresh_state(), [moves.question_op("c1", WAITING_CALL)])
    decision = apply_ops(waiting, [moves.decision_op("c1", Replay(asked=1))])
    after = apply_ops(decision, RunState.of(decision).result_ops("c1"))

    assert RunState.of(waiting).approvals == (QUESTION,)
    assert RunState.of(decision).approvals == ()
    assert RunState.of(decision).calls["c1"].decision == Replay(asked=1)
    assert RunState.of(after).calls == {}


def test_a_second_question_takes_the_answer_to_the_first_away() -> None:
    waiting = apply_ops(fresh_state(), [moves.question_op("c1", WAITING_CALL)])
    decision = apply_ops(waiting, [moves.decision_op("c1", Replay(asked=1))])
    before = RunState.of(decision).calls["c1"]
    again = apply_ops(decision, [moves.question_op("c1", msgspec.structs.replace(before, key=None))])

    assert (RunState.of(again).calls["c1"].decision, RunState.of(again).calls["c1"].key) == (None, "k1")


@pytest.mark.parametrize(
    ("call", "in_doubt"),
    [
        (CallState(status="intended", key="k"), True),
        (CallState(status="intended"), False),
        (CallState(status="suspended", key="k"), False),
        (CallState(status="suspended", key="k", why=IN_DOUBT), True),
        (CallState(status="decided", key="k", decision=Replay()), True),
        (CallState(status="decided", key="k", decision=UseResult(output=1)), False),
    ],
)
def test_a_call_is_in_doubt_if_its_tool_may_have_been_called(call: CallState, in_doubt: bool) -> None:  # noqa: FBT001  # a parameter of the table
    assert call.in_doubt is in_doubt


def test_calls_that_stay_open_are_closed_by_an_item_that_names_those_in_doubt() -> None:
    run_state = RunState.of(apply_ops(fresh_state(), [moves.intent_op("c1", "pay", "k1")]))
    (item,) = run_state.closing_items({"c1": "run-1", "c2": "run-1"}, "It ended.")

    assert item.body["calls"] == {"c1": "run-1", "c2": "run-1"}
    assert item.body["content"] == "It ended. Whether these had their effect is not known: pay (c1)."
    assert run_state.closing_items({}, "It ended.") == ()


def test_an_interrupted_run_keeps_its_calls_and_a_cancelled_one_does_not() -> None:
    state = apply_ops(fresh_state(), [moves.intent_op("c1", "pay", "k1")])
    interruption = apply_ops(state, RunState.of(state).close_ops(Ending(termination=INTERRUPTED), 2))
    cancellation = apply_ops(state, RunState.of(state).close_ops(Ending(termination=CANCELLED), 2))

    assert (RunState.of(interruption).status, list(RunState.of(interruption).calls)) == (INTERRUPTED, ["c1"])
    assert (RunState.of(cancellation).has_ended, RunState.of(cancellation).calls) == (True, {})
    assert RunState.of(interruption).epoch == RunState.of(cancellation).epoch == 2


def test_the_fields_of_a_turn_stay_while_the_run_waits_and_go_with_its_end() -> None:
    state = apply_ops(fresh_state(), [moves.handled_count_op(3)])
    waiting = apply_ops(state, moves.ending_ops(Ending(termination=SUSPENDED), stores_turn_fields=True))
    end = apply_ops(state, moves.ending_ops(Ending(termination=NATURAL), stores_turn_fields=True))

    assert (RunState.of(waiting).status, RunState.of(waiting).handled_count) == ("waiting", 3)
    assert (RunState.of(end).has_ended, RunState.of(end).turn) == (True, None)


def test_the_first_changeset_of_a_run_is_told_from_those_after_it() -> None:
    first = Changeset(patches=tuple(RunState().start_ops(RUN, {}, None)))
    later = Changeset(patches=(moves.stage_op("answer"), moves.resume_op(2)))

    assert [moves.starts_run(change, "run-1") for change in (first, later)] == [True, False]
    assert not moves.starts_run(first, "run-2")
