"""The stages of a turn, one list for every way to run it."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from clew.agents.search_provider import SearchProvider
from clew.core.errors import ClewError
from clew.runtime.context import Context
from clew.runtime.execution.safe_reply import gate
from clew.runtime.records.events import StageStarted, TextDelta
from clew.runtime.respond.respond import Stage
from clew.runtime.settings import MemoryConfig
from clew.runtime.stages import label_stage, stage_label, stage_name
from clew.runtime.state.schema import State
from clew.runtime.turn.draft import Delta
from clew_companion.exercises.guide import NO_EXERCISE, guided_exercise
from clew_companion.lookup import make_lookup_stage
from clew_companion.memory.control import memory_control
from clew_companion.memory.load import episode_id, make_load_stage
from clew_companion.replies.stage import make_reply_stage
from clew_companion.state import CompanionState
from clew_companion.triage import triage
from clew_companion.turn_end import finalize_turn
from clew_companion.values import STAGE_LABELS


def make_stages(
    crisis_gate: Stage,
    crisis_response: Stage,
    *,
    search: SearchProvider | None = None,
    skills: Mapping[str, str] | None = None,
    memory: MemoryConfig | None = None,
) -> list[Stage]:
    """The stages of a turn: listen, sort, answer by one branch, finish."""
    load_memory = make_load_stage(memory)
    branches = {
        "crisis": crisis_response,
        "memory_control": memory_control,
        "grounded_lookup": make_lookup_stage(search),
        "guided_exercise": guided_exercise,
        "therapeutic": make_reply_stage(skills or {}),
    }
    for stage in (load_memory, crisis_gate, triage, *branches.values(), finalize_turn):
        label_stage(stage, STAGE_LABELS.get(stage_name(stage), ""))
    return [make_listen_stage(load_memory, crisis_gate), triage, make_answer_stage(branches)]


def make_listen_stage(load_memory: Stage, crisis_gate: Stage) -> Stage:
    """A stage that loads what is remembered while the crisis gate is at work."""

    @gate
    async def listen(state: CompanionState, context: Context) -> Delta:
        _announce_stage(load_memory, context)
        _announce_stage(crisis_gate, context)
        memory_task = asyncio.create_task(_run_and_time(load_memory, state, context))
        try:
            gate_delta = await _run_and_time(crisis_gate, state, context)
            memory_delta = await _await_memory(memory_task, context)
        finally:
            memory_task.cancel()
            await asyncio.gather(memory_task, return_exceptions=True)
        return {**_new_episode_delta(state, context), **_merge_deltas(memory_delta, gate_delta)}

    return listen


def _new_episode_delta(state: CompanionState, context: Context) -> dict[str, Any]:
    """The end of what another episode left: an exercise under way, and an action that waits for a yes."""
    exercise, pending, episode = (
        state.exercise_state,
        state.memory_control.pending_action,
        episode_id(context),
    )
    ends_exercise = exercise.exercise_type is not None and exercise.exercise_episode != episode
    ends_pending = pending is not None and pending.get("episode", "") != episode
    return {
        **({"exercise_state": NO_EXERCISE} if ends_exercise else {}),
        **({"memory_control": {"pending_action": None}} if ends_pending else {}),
    }


def make_answer_stage(branches: Mapping[str, Stage]) -> Stage:
    """A stage that runs the one branch that the turn was sent to, and finishes the turn.

    It is one stage, so that a reply is stored once, as a message, and not before that as a field.
    """

    async def answer(state: CompanionState, context: Context) -> Delta:
        branch = branches[branch_name(state)]
        step_id = context.turn.step_id
        _announce_stage(branch, context)
        delta = await _run_and_time(branch, state, context)
        if context.turn.step_id == step_id:
            context.turn.notify(TextDelta(text=str(delta.get("response_text", "")), step=0))
        context.turn.write(stage_name(branch), delta)
        _announce_stage(finalize_turn, context)
        return await _run_and_time(finalize_turn, context.turn.draft.view(), context)

    return answer


def branch_name(state: CompanionState) -> str:
    """The branch that answers."""
    if state.route == "therapeutic" and state.response_style == "guided_exercise":
        return "guided_exercise"
    return state.route or "therapeutic"


async def _await_memory(task: "asyncio.Task[dict[str, Any]]", context: Context) -> dict[str, Any]:
    """The turn's memory. In danger the person is answered also if it cannot be read."""
    try:
        return await task
    except ClewError as error:
        if context.turn.safe_reply_text is None:
            raise
        return {"diagnostics": {"load_memory_problem": error.code}}


def _announce_stage(stage: Stage, context: Context) -> None:
    """Name a stage that runs within another, in the trace and to listeners."""
    context.turn.trace.append(stage_name(stage))
    context.turn.notify(StageStarted(name=stage_name(stage), label=stage_label(stage)))


async def _run_and_time(stage: Stage, state: State, context: Context) -> dict[str, Any]:
    start = time.perf_counter()
    delta = await stage(state, context)
    context.turn.stage_ms[stage_name(stage)] = round((time.perf_counter() - start) * 1000, 3)
    return dict(delta or {})


def _merge_deltas(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Two deltas of one moment; what both merge into holds what both say."""
    delta = {**first, **second}
    for name in first.keys() & second.keys():
        delta[name] = {**first[name], **second[name]}
    return delta
