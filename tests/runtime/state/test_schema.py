"""What a state class may say, what it may not, and what its fields take."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import clew
from clew.core import ops
from clew.core.errors import SchemaInvalid, StateInvalid
from clew.core.ops import Op
from clew.core.values import Item
from clew.runtime.model.messages import Message
from clew.runtime.state.declaration import schema_of
from clew.runtime.state.log import StateLog
from clew.runtime.state.schema import (
    Lifecycle,
    Lifetime,
    State,
    input,
    loaded,
    per_call,
    per_run,
    per_turn,
    persistent,
    whole_of,
)
from clew.runtime.turn.draft import Draft


class Control(State):
    action: Annotated[dict[str, Any], per_turn]
    pending_action: dict[str, Any] | None = None
    scratch: Annotated[dict[str, int], clew.merge, per_run]


class Profile(State):
    rules: list[str]
    recall: bool = True


class Everything(State):
    message: Annotated[str, input]
    channel: Annotated[str, input] = "test"
    history: Annotated[StateLog[Message], clew.append]
    transcript: Annotated[StateLog[Message], whole_of("history")]
    control: Annotated[Control, clew.merge]
    profile: Annotated[Profile, clew.merge, loaded]
    progress: Annotated[dict[str, int], clew.merge]
    mood: Annotated[str, persistent] = "calm"
    seen: Annotated[list[str], operator.add]
    route: str = ""
    budget: Annotated[int, per_run] = 3
    asked: Annotated[list[str], per_call]


async def nothing_to_read(log: str, count: int | None, *, whole: bool = False) -> Sequence[Item]:
    """A log without entries."""
    return ()


def new_draft(schema: type[State] = Everything, state: dict[str, Any] | None = None) -> Draft:
    """A draft on a state, with no log behind it."""
    return Draft(schema_of(schema), state or {}, {}, {"message": "Hi"}, nothing_to_read)


@pytest.mark.promise("A-01")
@pytest.mark.parametrize(
    ("name", "lifecycle", "scope"),
    [
        ("message", Lifecycle.INPUT, Lifetime.THREAD),
        ("history", Lifecycle.REDUCER, Lifetime.THREAD),
        ("control.action", Lifecycle.TURN, Lifetime.THREAD),
        ("control.pending_action", Lifecycle.REDUCER, Lifetime.THREAD),
        ("control.scratch", Lifecycle.REDUCER, Lifetime.RUN),
        ("profile.rules", Lifecycle.LOADED, Lifetime.THREAD),
        ("progress", Lifecycle.REDUCER, Lifetime.THREAD),
        ("mood", Lifecycle.REDUCER, Lifetime.THREAD),
        ("seen", Lifecycle.REDUCER, Lifetime.THREAD),
        ("route", Lifecycle.TURN, Lifetime.THREAD),
        ("budget", Lifecycle.REDUCER, Lifetime.RUN),
        ("asked", Lifecycle.REDUCER, Lifetime.CALL),
    ],
)
def test_a_field_lives_as_long_as_it_says(name: str, lifecycle: Lifecycle, scope: Lifetime) -> None:
    leaf = next(leaf for leaf in schema_of(Everything).leaves if leaf.name == name)

    assert (leaf.lifecycle, leaf.lifetime) == (lifecycle, scope)


def test_what_is_not_set_has_its_default() -> None:
    state = new_draft().view()

    assert isinstance(state, Everything)
    assert (state.message, state.channel, state.mood, state.seen) == ("Hi", "test", "calm", [])
    assert state.control == Control(action={}, pending_action=None, scratch={})
    assert (len(state.history), len(state.transcript)) == (0, 0)


# Declarations that make no sense.


class TwoLifecycles(State):
    field: Annotated[str, persistent, loaded] = ""


class TwoReducers(State):
    field: Annotated[dict[str, int], clew.merge, operator.or_]


class FoldedInput(State):
    field: Annotated[dict[str, int], input, clew.merge]


class FreshWithScope(State):
    field: Annotated[str, loaded, per_run] = ""


class ListAsLog(State):
    field: Annotated[list[str], clew.append]


class LogWithoutAppend(State):
    field: StateLog[str]


class LogOfARun(State):
    field: Annotated[StateLog[str], clew.append, per_run]


class MergedNumber(State):
    field: Annotated[int, clew.merge] = 0


class NoDefault(State):
    field: Annotated[int, persistent]


class OpThatIsNoReducer(State):
    field: Annotated[list[str], clew.insert]


class WholeOfNothing(State):
    field: Annotated[StateLog[str], whole_of("history")]


class WholeOfOthers(State):
    history: Annotated[StateLog[Message], clew.append]
    field: Annotated[StateLog[str], whole_of("history")]


class Inner(State):
    field: Annotated[str, persistent] = ""


class InnerLog(State):
    field: Annotated[StateLog[str], clew.append]


class InnerInput(State):
    field: Annotated[str, input]


class Unmerged(State):
    outer: Inner


class OutlivesItsWhole(State):
    outer: Annotated[Inner, clew.merge, loaded]


class LogWithin(State):
    outer: Annotated[InnerLog, clew.merge]


class InputWithin(State):
    outer: Annotated[InnerInput, clew.merge]


class OfACall(State):
    field: Annotated[str, per_call] = ""


class TwoScopes(State):
    outer: Annotated[OfACall, clew.merge, per_run]


class Endless(State):
    field: Annotated[Endless, clew.merge]


@pytest.mark.promise("A-01")
@pytest.mark.parametrize(
    ("state", "at", "problem"),
    [
        (TwoLifecycles, "TwoLifecycles", "two lifecycles"),
        (TwoReducers, "TwoReducers", "two reducers"),
        (FoldedInput, "FoldedInput", "neither reducer nor scope"),
        (FreshWithScope, "FreshWithScope", "has no scope"),
        (ListAsLog, "ListAsLog", "append needs a StateLog"),
        (LogWithoutAppend, "LogWithoutAppend", "a StateLog needs append"),
        (LogOfARun, "LogOfARun", "a log belongs to the thread"),
        (MergedNumber, "MergedNumber", "merge needs a dict"),
        (NoDefault, "NoDefault", "needs a default"),
        (OpThatIsNoReducer, "OpThatIsNoReducer", "mark it persistent"),
        (WholeOfNothing, "WholeOfNothing", "no log of the same entries"),
        (WholeOfOthers, "WholeOfOthers", "no log of the same entries"),
        (Unmerged, "Inner", "written as a whole"),
        (OutlivesItsWhole, "Inner", "cannot outlive 'outer'"),
        (LogWithin, "InnerLog", "at the top of a state"),
        (InputWithin, "InnerInput", "at the top of a state"),
        (TwoScopes, "OfACall", "another scope"),
        (Endless, "Endless", "part of itself"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_declaration_that_makes_no_sense_is_refused(state: type[State], at: str, problem: str) -> None:
    with pytest.raises(SchemaInvalid, match=problem) as error:
        schema_of(state)
    assert (error.value.schema, error.value.field) == (at, "field")


def test_an_annotation_that_cannot_be_read_is_named() -> None:
    class Local(State):
        field: Annotated[Somewhere, persistent]  # type: ignore[name-defined]  # noqa: F821  # that is the point

    with pytest.raises(SchemaInvalid, match="Somewhere"):
        schema_of(Local)


# What a delta may say.


@pytest.mark.promise("A-01")
@pytest.mark.parametrize(
    ("delta", "field", "problem"),
    [
        ({"message": "mine"}, "message", "input"),
        ({"nope": 1}, "nope", "no such field"),
        ({"control": {"nope": 1}}, "control.nope", "no such field"),
        ({"control": "text"}, "control", "takes a dict of the parts"),
        ({"control": {"pending_action": 3}}, "control.pending_action", "Expected"),
        ({"control": {"scratch": {"n": "x"}}}, "control.scratch", "Expected `int`"),
        ({"progress": {"turns": "two"}}, "progress", "Expected `int`"),
        ({"progress": 3}, "progress", "takes a dict of the keys"),
        ({"mood": 3}, "mood", "Expected `str`"),
        ({"mood": None}, "mood", "Expected `str`"),
        ({"seen": [3]}, "seen", "Expected `str`"),
        ({"seen": 3}, "seen", "its reducer raised TypeError"),
        ({"history": "Hi"}, "history", "takes a list"),
        ({"history": ["Hi"]}, "history", "its entries are messages"),
        ({"history": [{"content": "Hi"}]}, "history", "missing required field `role`"),
        ({"route": object()}, "route", "object is not JSON"),
        ({"progress": {"turns": float("nan")}}, "progress", "nan is not a JSON number"),
        ({"asked": ["me"]}, "asked", "belongs to a tool call"),
        ("text", "", "returned str, not a dict"),
    ],
)
def test_a_delta_that_does_not_fit_is_refused_by_stage_and_field(
    delta: Any, field: str, problem: str
) -> None:
    with pytest.raises(StateInvalid, match=problem) as error:
        new_draft().write("triage", delta, run="r")
    assert (error.value.stage, error.value.field) == ("triage", field)


@pytest.mark.promise("A-01")
@pytest.mark.parametrize("wrong", [{"mood": 3}, {"seen": 3}, {"nope": 1}, {"message": "mine"}])
def test_nothing_of_a_refused_delta_is_kept(wrong: dict[str, Any]) -> None:
    draft = new_draft()
    draft.write("first", {"progress": {"turns": 1}}, run="r")
    good = {
        "route": "crisis",
        "progress": {"turns": 2},
        "control": {"action": {"kind": "forget"}},
        "history": [Message(role="assistant", content="Hello")],
    }
    before = (draft.view(), draft.take_delta())

    with pytest.raises(StateInvalid):
        draft.write("second", good | wrong, run="r")
    assert (without_logs(draft.view()), draft.take_delta()) == (without_logs(before[0]), before[1])
    assert len(draft.log("history")) == 0


def without_logs(state: State) -> dict[str, Any]:
    """The fields of a state that can be compared."""
    return {name: value for name, value in vars(state).items() if not isinstance(value, StateLog)}


# How changes are folded.


@pytest.mark.promise("A-02")
def test_the_last_write_wins_within_a_turn() -> None:
    draft = new_draft()
    draft.write("one", {"route": "crisis", "mood": "low"}, run="r")
    draft.write("two", {"route": "memory", "mood": "better"}, run="r")

    values = draft.values()
    assert (values["route"], values["mood"]) == ("memory", "better")


@pytest.mark.promise("R-05", "A-02")
def test_a_merge_keeps_siblings() -> None:
    draft = new_draft(state={"progress": {"turns": 4, "flags": 1}})
    draft.write("one", {"progress": {"turns": 5}}, run="r")

    assert draft.values()["progress"] == {"turns": 5, "flags": 1}
    assert draft.take_delta().patches == (clew.merge(["progress"], {"turns": 5}),)


class Counters(State):
    message: Annotated[str, input]
    progress: Annotated[dict[str, int], clew.merge] = dataclasses.field(
        default_factory=lambda: {"turns": 0, "flags": 7}
    )
    count: Annotated[int, clew.increment] = 5
    highest: Annotated[int, clew.max] = 0
    lowest: Annotated[int, clew.min] = 9
    themes: Annotated[list[str], clew.union]


def test_the_first_merge_keeps_what_the_field_began_with() -> None:
    draft = new_draft(Counters)
    draft.write("one", {"progress": {"turns": 1}}, run="r")

    assert draft.values()["progress"] == {"turns": 1, "flags": 7}


@pytest.mark.parametrize(
    ("field", "changes", "value", "last"),
    [
        ("count", [2, 3], 10, clew.increment(["count"], 3)),
        ("highest", [-1, 4], 4, clew.max(["highest"], 4)),
        ("lowest", [12, 4], 4, clew.min(["lowest"], 4)),
        ("themes", [["b", "a"], ["c", "a"]], ["a", "b", "c"], clew.union(["themes"], ["c", "a"])),
    ],
)
def test_an_op_can_be_a_reducer(field: str, changes: list[Any], value: Any, last: Op) -> None:
    draft = new_draft(Counters)
    for change in changes:
        draft.write("one", {field: change}, run="r")

    assert draft.values()[field] == value
    assert draft.take_delta().patches[-1] == last


def test_an_op_that_does_not_fit_is_refused_by_stage_and_field() -> None:
    with pytest.raises(StateInvalid, match="Expected `int`") as error:
        new_draft(Counters).write("count", {"count": 1.5}, run="r")
    assert (error.value.stage, error.value.field) == ("count", "count")


def merge_ranks(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """A reducer of an application: scores add up, the rest is replaced."""
    scores = {name: old["scores"].get(name, 0) + score for name, score in new["scores"].items()}
    return {**old, "scores": {**old["scores"], **scores}}


class RankBoard(State):
    message: Annotated[str, input]
    notes: Annotated[list[str], operator.add]
    board: Annotated[dict[str, Any], merge_ranks] = dataclasses.field(default_factory=lambda: {"scores": {}})
    tags: Annotated[set[str], operator.or_]


@pytest.mark.promise("A-02")
@pytest.mark.parametrize(
    ("state", "delta", "patches"),
    [
        ({"notes": ["a"]}, {"notes": ["b", "c"]}, (clew.append(["notes"], "b"), clew.append(["notes"], "c"))),
        ({}, {"notes": ["a"]}, (clew.set(["notes"], ["a"]),)),
        ({"notes": ["a"]}, {"notes": []}, ()),
        (
            {"board": {"scores": {"ann": 1, "bob": 2}, "title": "chess"}},
            {"board": {"scores": {"ann": 3}}},
            (clew.set(["board", "scores", "ann"], 4),),
        ),
        ({"tags": ["a"]}, {"tags": {"a"}}, ()),
    ],
)
def test_a_reducer_of_ones_own_is_stored_as_the_smallest_difference(
    state: dict[str, Any], delta: dict[str, Any], patches: tuple[Op, ...]
) -> None:
    draft = new_draft(RankBoard, state)
    draft.write("one", delta, run="r")

    assert draft.take_delta().patches == patches


def test_a_part_that_is_merged_keeps_its_own_siblings() -> None:
    draft = new_draft(state={"$run": {"fields": {"control": {"scratch": {"a": 1}}}}})
    draft.write("one", {"control": {"scratch": {"b": 2}}}, run="r")
    control = draft.values()["control"]

    assert control == {"scratch": {"a": 1, "b": 2}}


def test_a_state_can_be_written_as_a_whole_or_in_part() -> None:
    draft = new_draft()
    draft.write("one", {"profile": Profile(rules=["short"], recall=False)}, run="r")
    draft.write("two", {"profile": {"rules": ["shorter"]}}, run="r")

    assert draft.values()["profile"] == {"rules": ["shorter"], "recall": False}


def test_none_that_was_written_is_not_the_default() -> None:
    draft = new_draft(Optional)
    draft.write("one", {"guess": None}, run="r")
    view = draft.view()

    assert isinstance(view, Optional)
    assert view.guess is None


class Optional(State):
    message: Annotated[str, input]
    guess: Annotated[int | None, persistent] = 5


@pytest.mark.promise("A-02")
def test_what_a_stage_does_to_its_copy_changes_nothing() -> None:
    draft = new_draft(state={"control": {"pending_action": {"ids": [1]}}, "seen": ["a"]})
    view = draft.view()
    assert isinstance(view, Everything)
    assert view.control.pending_action is not None
    view.control.pending_action["ids"].append(2)
    view.seen.append("b")

    values = draft.values()
    assert (values["control"]["pending_action"], values["seen"]) == ({"ids": [1]}, ["a"])


@pytest.mark.promise("A-02")
def test_what_a_stage_keeps_of_its_delta_changes_nothing_later() -> None:
    draft = new_draft()
    mine = {"kind": "forget", "ids": [1]}
    draft.write("one", {"control": {"pending_action": mine}}, run="r")
    mine["ids"] = []

    assert draft.values()["control"]["pending_action"]["ids"] == [1]


def test_a_state_cannot_be_changed_in_place() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        new_draft().view().mood = "x"  # type: ignore[attr-defined]


def test_a_stored_value_of_another_type_is_named() -> None:
    with pytest.raises(StateInvalid) as error:
        new_draft(state={"mood": 3}).view()
    assert (error.value.stage, error.value.field) == ("the stored state", "mood")


# Whatever the stages do.

WORDS = st.sampled_from(["a", "b", "c"])
NUMBERS = st.integers(-3, 3)
DELTAS = st.fixed_dictionaries(
    {},
    optional={
        "progress": st.dictionaries(WORDS, NUMBERS),
        "mood": WORDS,
        "seen": st.lists(WORDS, max_size=2),
        "route": WORDS,
        "budget": NUMBERS,
        "profile": st.fixed_dictionaries({}, optional={"rules": st.lists(WORDS), "recall": st.booleans()}),
        "control": st.fixed_dictionaries(
            {},
            optional={
                "action": st.dictionaries(WORDS, NUMBERS),
                "pending_action": st.none() | st.dictionaries(WORDS, NUMBERS),
                "scratch": st.dictionaries(WORDS, NUMBERS),
            },
        ),
    },
)
MERGE_FIELDS = ("control", "profile")


def model_of(values: dict[str, Any], delta: dict[str, Any]) -> dict[str, Any]:
    """What the fields are after a delta, in the plainest way to say it."""
    after = {name: dict(value) if isinstance(value, dict) else value for name, value in values.items()}
    for name, value in delta.items():
        if name == "progress":
            after[name] = {**after.get(name, {}), **value}
        elif name == "seen":
            after[name] = after.get(name, []) + value
        elif name in MERGE_FIELDS:
            for part, change in value.items():
                whole = after.setdefault(name, {})
                whole[part] = {**whole.get(part, {}), **change} if part == "scratch" else change
        else:
            after[name] = value
    return after


@pytest.mark.promise("A-02")
@given(st.lists(st.tuples(DELTAS, st.booleans()), max_size=8))
def test_what_is_committed_folds_to_what_the_stages_see(steps: list[tuple[dict[str, Any], bool]]) -> None:
    draft, state = new_draft(), dict[str, Any]()
    values: dict[str, Any] = {"message": "Hi"}
    for delta, commits in steps:
        draft.write("stage", delta, run="r")
        values = model_of(values, delta)
        if commits:
            patch = draft.take_delta()
            state = ops.apply_ops(state, patch.all_patches)
            draft.confirm_delta(patch)
    state = ops.apply_ops(state, draft.take_delta().all_patches)

    assert draft.values() == values
    assert new_draft(state=state).values() == values
