"""The stages of a turn, one list for every way to run it."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from clew.companion.exercises.guide import guided_exercise
from clew.companion.lookup import SearchProvider, lookup_by
from clew.companion.memory.control import memory_control
from clew.companion.memory.load import loading
from clew.companion.replies.stage import reply_with
from clew.companion.state import Companion
from clew.companion.triage import triage
from clew.companion.turn_end import finalize_turn
from clew.companion.values import STAGE_LABELS
from clew.core.errors import ClewError
from clew.runtime.context import Context
from clew.runtime.execution.safe_reply import gate
from clew.runtime.records.events import StageStarted, TextDelta
from clew.runtime.respond.respond import Stage
from clew.runtime.stages import label_of, labelled, name_of
from clew.runtime.turn.draft import Delta


def stages_with(
    crisis_gate: Stage,
    crisis_response: Stage,
    *,
    search: SearchProvider | None = None,
    skills: Mapping[str, str] | None = None,
    known: Sequence[Any] = (),
) -> list[Stage]:
    """The stages of a turn: listen, sort, answer by one branch, finish.

    ``known`` is the working memory of a turn that keeps nothing.
    """
    branches = {
        "crisis": crisis_response,
        "memory_control": memory_control,
        "grounded_lookup": lookup_by(search),
        "guided_exercise": guided_exercise,
        "therapeutic": reply_with(skills or {}),
    }
    load_memory = loading(known)
    for stage in (load_memory, crisis_gate, triage, *branches.values(), finalize_turn):
        labelled(stage, STAGE_LABELS.get(name_of(stage), ""))
    return [listening(load_memory, crisis_gate), triage, answering(branches), finalize_turn]


def listening(load_memory: Stage, crisis_gate: Stage) -> Stage:
    """A stage that loads what is remembered while the crisis gate is at work."""

    @gate
    async def listen(state: Companion, ctx: Context) -> Delta:
        _announce(load_memory, ctx)
        _announce(crisis_gate, ctx)
        loading = asyncio.create_task(_timed(load_memory, state, ctx))
        try:
            judged = await _timed(crisis_gate, state, ctx)
            loaded = await _loaded(loading, ctx)
        finally:
            loading.cancel()
            await asyncio.gather(loading, return_exceptions=True)
        return _together(loaded, judged)

    return listen


def answering(branches: Mapping[str, Stage]) -> Stage:
    """A stage that runs the one branch that the turn was sent to."""

    async def answer(state: Companion, ctx: Context) -> Delta:
        branch = branches[branch_of(state)]
        asked = ctx.turn.position
        _announce(branch, ctx)
        delta = await _timed(branch, state, ctx)
        if ctx.turn.position == asked:
            ctx.turn.tell(TextDelta(text=str(delta.get("response_text", "")), step=0))
        return delta

    return answer


def branch_of(state: Companion) -> str:
    """Which branch answers."""
    if state.route == "therapeutic" and state.response_style == "guided_exercise":
        return "guided_exercise"
    return state.route or "therapeutic"


async def _loaded(loading: "asyncio.Task[dict[str, Any]]", ctx: Context) -> dict[str, Any]:
    """What is remembered. Somebody in danger is answered also if that cannot be had."""
    try:
        return await loading
    except ClewError as error:
        if ctx.turn.safe is None:
            raise
        return {"diagnostics": {"load_memory_problem": error.code}}


def _announce(stage: Stage, ctx: Context) -> None:
    """Name a stage that runs within another, in the trace and to whoever listens."""
    ctx.turn.trace.append(name_of(stage))
    ctx.turn.tell(StageStarted(name=name_of(stage), label=label_of(stage)))


async def _timed(stage: Stage, state: Companion, ctx: Context) -> dict[str, Any]:
    began = time.perf_counter()
    delta = await stage(state, ctx)
    ctx.turn.times[name_of(stage)] = round((time.perf_counter() - began) * 1000, 3)
    return dict(delta or {})


def _together(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Two deltas of one moment; what both merge into holds what both say."""
    both = {**first, **second}
    for name in first.keys() & second.keys():
        both[name] = {**first[name], **second[name]}
    return both
