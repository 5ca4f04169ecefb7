"""The companion's state: every field, how long it lives, and who may write it."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from clew.core.errors import StateInvalid
from clew.runtime.context import Context
from clew.runtime.execution.stateless import run_agent
from clew.runtime.state.declaration import schema_of
from clew.runtime.state.schema import Fold, Lifecycle, leaves_of
from clew.runtime.turn.draft import Delta
from clew_companion.crisis.floor import load_statements
from clew_companion.state import CompanionState
from clew_companion.values import CrisisAssessment, CrisisAudit, OverrideKind, Resource
from tests.companion.scripted_companion import stages

FIELDS = {
    "message": Lifecycle.INPUT,
    "channel": Lifecycle.INPUT,
    "user_id": Lifecycle.INPUT,
    "session_id": Lifecycle.INPUT,
    "installed_skills": Lifecycle.INPUT,
    "history": Lifecycle.REDUCER,
    "transcript": Lifecycle.REDUCER,
    "working_memory": Lifecycle.LOADED,
    "session_memory.summary": Lifecycle.REDUCER,
    "session_memory.active_concerns": Lifecycle.REDUCER,
    "session_memory.open_loops": Lifecycle.REDUCER,
    "session_memory.current_goal": Lifecycle.REDUCER,
    "procedural_profile.procedural_rules": Lifecycle.LOADED,
    "procedural_profile.proactive_recall_enabled": Lifecycle.LOADED,
    "session_progress.turn_count": Lifecycle.REDUCER,
    "exercise_state.exercise_type": Lifecycle.REDUCER,
    "exercise_state.exercise_step": Lifecycle.REDUCER,
    "exercise_state.exercise_therapeutic_approach": Lifecycle.REDUCER,
    "memory_control.pending_action": Lifecycle.REDUCER,
    "memory_control.action": Lifecycle.TURN,
    "crisis": Lifecycle.TURN,
    "crisis_audit": Lifecycle.TURN,
    "route": Lifecycle.TURN,
    "response_text": Lifecycle.TURN,
    "response_style": Lifecycle.TURN,
    "therapeutic_approach": Lifecycle.TURN,
    "should_persist_memory": Lifecycle.TURN,
    "grounded_lookup.query": Lifecycle.TURN,
    "grounded_lookup.status": Lifecycle.TURN,
    "inferred_location": Lifecycle.TURN,
    "found_resources": Lifecycle.TURN,
    "resource_lookup_status": Lifecycle.TURN,
    "diagnostics": Lifecycle.REDUCER,
}


@pytest.mark.promise("A-03")
def test_every_field_is_there_and_lives_as_long_as_it_should() -> None:
    lifecycles = {leaf.name: leaf.lifecycle for leaf in leaves_of(schema_of(CompanionState).fields)}

    assert {name: lifecycles.get(name) for name in FIELDS} == FIELDS


@pytest.mark.promise("A-03", "R-05")
@pytest.mark.parametrize(
    ("name", "fold"),
    [
        ("history", Fold.APPEND),
        ("transcript", Fold.APPEND),
        ("session_progress", Fold.MERGE),
        ("session_memory", Fold.MERGE),
        ("procedural_profile", Fold.MERGE),
        ("exercise_state", Fold.MERGE),
        ("memory_control", Fold.MERGE),
        ("diagnostics", Fold.MERGE),
    ],
)
def test_what_is_kept_is_folded_as_it_should_be(name: str, fold: Fold) -> None:
    assert schema_of(CompanionState).fields[name].fold is fold


@pytest.mark.promise("A-03")
def test_what_is_made_of_parts_has_them_all() -> None:
    assert CrisisAssessment.__struct_fields__ == (
        "level",
        "confidence",
        "reason",
        "needs_crisis_response",
        "needs_clarification",
    )
    assert CrisisAudit.__struct_fields__ == ("override_kind", "classifier_path", "llm_failure_occurred")
    assert Resource.__struct_fields__ == ("name", "phone", "website", "region")


@pytest.mark.promise("A-03", "A-09")
@pytest.mark.parametrize(
    "wrong",
    [
        {"route": "elsewhere"},
        {"response_style": "stern"},
        {"therapeutic_approach": "hypnosis"},
        {"response_type": "poem"},
        {"response_style_type": "grand"},
        {"response_style_source": "the stars"},
        {"resource_lookup_status": "perhaps"},
        {"crisis": {"level": 4}},
        {"crisis": {"level": 1, "confidence": 2.0}},
        {"crisis_audit": {"classifier_path": "guess"}},
        {"crisis_audit": {"override_kind": "mood"}},
        {"message": "x"},
    ],
    ids=json.dumps,
)
async def test_a_value_that_is_not_listed_is_refused(wrong: Delta) -> None:
    async def write(state: CompanionState, ctx: Context) -> Delta:
        return wrong

    with pytest.raises(StateInvalid) as error:
        await run_agent("Hi", schema=CompanionState, stages=[*stages(), write])

    assert (error.value.stage, error.value.field) == ("write", next(iter(wrong)))


@pytest.mark.promise("A-03", "A-09")
@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"grounded_lookup": {"status": "maybe"}}, "grounded_lookup.status"),
        (
            {"exercise_state": {"exercise_therapeutic_approach": "hypnosis"}},
            "exercise_state.exercise_therapeutic_approach",
        ),
    ],
    ids=["status", "approach"],
)
async def test_a_part_that_is_not_listed_is_refused(wrong: Delta, field: str) -> None:
    async def write(state: CompanionState, ctx: Context) -> Delta:
        return wrong

    with pytest.raises(StateInvalid) as error:
        await run_agent("Hi", schema=CompanionState, stages=[write])

    assert (error.value.stage, error.value.field) == ("write", field)


@pytest.mark.promise("A-03")
def test_every_kind_of_danger_that_the_floor_names_may_be_an_override() -> None:
    kinds = {statement.kind.replace(" ", "_") for statement in load_statements()}

    assert kinds <= set(get_args(OverrideKind))
