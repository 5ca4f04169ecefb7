"""The page on the companion's state says what the schema and the stages say."""

from __future__ import annotations

import pytest

from clew.database.database import Database
from clew.runtime.state.schema import Lifecycle
from clew_companion.values import STAGE_LABELS
from tests.companion.scripted_companion import Talk, talker
from tests.companion.state_page import (
    COMMAND,
    DIAGNOSTICS,
    MODULES,
    PAGE,
    SCHEMA,
    STAGES,
    page,
    readers,
    setters,
    uses,
)
from tests.companion.test_checkpoints import PATHS, Almanac


def test_the_page_is_what_the_schema_says() -> None:
    assert PAGE.read_text("utf-8") == page(), f"{PAGE.name} is out of date; write it anew with: {COMMAND}"


def test_every_stage_is_looked_at() -> None:
    assert STAGE_LABELS.keys() <= STAGES.keys()
    assert all(function in MODULES[module].functions for module, function in STAGES.values())


@pytest.mark.promise("A-03")
def test_every_field_that_is_no_input_is_set_by_somebody() -> None:
    stages = uses()
    unset = [leaf.name for leaf in SCHEMA.leaves if not setters(leaf, stages)]

    assert unset == []


@pytest.mark.promise("A-03")
@pytest.mark.parametrize(
    ("name", "set_by", "read_by"),
    [
        ("memory_control.action", ["`triage`"], ["`memory_control`"]),
        ("working_memory", ["`load_memory`"], ["`triage`", "`therapeutic_reply`", "`panel`"]),
        ("crisis", ["`crisis_gate`"], ["`triage`", "`crisis_response`", "the output"]),
        ("grounded_lookup.status", ["`grounded_lookup`"], ["`finalize_turn`", "`panel`"]),
        ("session_id", ["the runtime"], []),
        ("message", ["the caller"], None),
    ],
)
def test_setters_and_readers_are_those_of_the_code(
    name: str, set_by: list[str], read_by: list[str] | None
) -> None:
    stages = uses()
    field = next(leaf for leaf in SCHEMA.leaves if leaf.name == name)

    assert setters(field, stages) == set_by
    assert read_by is None or readers(field, stages) == read_by


@pytest.mark.promise("A-10", "R-02")
async def test_the_diagnostics_of_every_branch_are_on_the_page(in_memory: Database) -> None:
    names: set[str] = set()
    async with talker(in_memory, search=Almanac()) as runtime:
        for message, _ in PATHS.values():
            names |= (await Talk(runtime).say(message)).diagnostics.keys()

    assert names <= DIAGNOSTICS.keys()
    assert DIAGNOSTICS.keys() - names <= {
        "crisis_gate_ms",
        "crisis_classifier_path",
        "retrieval_problem",
        "lookup_problem",
        "load_memory_problem",
        "turn_problem",
        "pending_records",
    }


def test_inputs_are_set_by_no_stage() -> None:
    names = set(SCHEMA.names(Lifecycle.INPUT))

    assert [stage for stage, use in uses().items() if use.set_names & names] == []
