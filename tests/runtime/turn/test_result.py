"""What comes out of every turn: the response, the crisis assessment and the diagnostics."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clew
from clew.core.errors import ModelFailed
from clew.runtime.execution.stateless import run_agent
from clew.runtime.respond.respond import Stage
from clew.runtime.turn.result import TurnResult
from tests.runtime.gated_agent import SAFE, Answer, Companion, answer, gated_runtime, look_for_danger, moody


async def break_down(state: Companion, ctx: clew.Context) -> None:
    """A stage that fails after the gate."""
    raise ModelFailed(model="m", problem="it is down")


async def note(state: Companion, ctx: clew.Context) -> clew.Delta:
    """A stage that says how it came to what it knows."""
    return {"diagnostics": {"retrieval_path": "token_recall"}}


STAGES: dict[str, Stage] = {"answer": answer, "break_down": break_down, "note": note}


async def persistent(level: int, stages: list[Stage], *, down_after: int | None) -> TurnResult[Any] | None:
    async with clew.open("memory://") as db:
        database, store = moody(db)
        runtime = gated_runtime(database, look_for_danger, *stages)
        store.changes_left = down_after
        try:
            return await runtime.run_turn("a", f"{level} hm")
        except clew.ClewError:
            return None


async def stateless(level: int, stages: list[Stage]) -> TurnResult[Any] | None:
    pipeline = [look_for_danger, *stages]
    try:
        return await run_agent(f"{level} hm", schema=Companion, stages=pipeline, output=Answer)
    except ModelFailed:
        return None


@pytest.mark.promise("R-02", "R-22")
@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 3),
    st.lists(st.sampled_from(sorted(STAGES)), unique=True),
    st.none() | st.integers(0, 5),
)
def test_every_turn_has_a_response_an_assessment_and_diagnostics(
    level: int, names: list[str], down_after: int | None
) -> None:
    stages = [STAGES[name] for name in names]
    with asyncio.Runner() as runner:
        turns = [
            runner.run(persistent(level, stages, down_after=down_after)),
            runner.run(stateless(level, stages)),
        ]

    for result in turns:
        if result is None:
            assert level < 2, "a person in danger got no answer"
            continue
        assert isinstance(result.output, Answer)
        assert result.output.crisis == level
        assert result.text == result.output.response_text
        assert level < 2 or result.text == SAFE or "answer" not in names
        assert result.termination == "natural" or "turn_problem" in result.output.diagnostics
        assert "turn_total_ms" in result.output.diagnostics or "turn_problem" in result.output.diagnostics
