"""LangGraph's own conformance suite, whole, on every store."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability

import clew
from clew.adapters.langgraph import Checkpointer

TESTS = {
    "put": 17,
    "put_writes": 10,
    "get_tuple": 10,
    "list": 16,
    "delete_thread": 5,
    "delete_for_runs": 7,
    "copy_thread": 8,
    "prune": 8,
}
"""How many tests the suite has for each capability; fewer would mean that some did not run."""


def test_every_capability_is_tested() -> None:
    assert {capability.value for capability in Capability} == set(TESTS)


@pytest.mark.promise("B-10")
@pytest.mark.parametrize("capability", TESTS)
async def test_a_capability_passes_the_suite(db: clew.Database, capability: str) -> None:
    @checkpointer_test(name="clew")
    async def make_checkpointer() -> AsyncGenerator[BaseCheckpointSaver[int], None]:
        yield Checkpointer(db)

    report = await validate(make_checkpointer, capabilities={capability})

    assert report.results[capability].failures == []
    assert report.results[capability].tests_passed == TESTS[capability]
