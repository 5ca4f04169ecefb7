"""The pipeline: the stages of a turn, one after another, with and without a store."""

import asyncio
import inspect
import time
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import msgspec

from clew.core.errors import ClewError, DeadlineExceeded, InvalidArgument
from clew.runtime.context import Context
from clew.runtime.model.redaction import public_error
from clew.runtime.records.events import ASSISTANT, USER_MESSAGE, ErrorEvent, StageStarted, error_event
from clew.runtime.records.runs import CANCELLED, ERROR, NATURAL, SUSPENDED, Ending
from clew.runtime.respond.respond import ENDS_TURN, Stage
from clew.runtime.settings import Settings
from clew.runtime.stages import remaining_stages, stage_label, stage_name
from clew.runtime.state.schema import Field, Fold
from clew.runtime.turn.approvals import Suspension
from clew.runtime.turn.journal import EpisodeBuffer
from clew.runtime.turn.result import output_of_turn
from clew.runtime.turn.turn import Turn

DIAGNOSTICS = "diagnostics"
TOTAL, STAGES = "turn_total_ms", "stage_ms"


def record_times(turn: Turn, *, total_ms: float) -> None:
    """Add the time of the turn and of each of its stages to the diagnostics."""
    add_diagnostics(turn, {TOTAL: total_ms, STAGES: dict(turn.stage_ms)})


def add_diagnostics(turn: Turn, entries: Mapping[str, Any]) -> None:
    """Add entries to the diagnostics, as far as the schema has room for them."""
    field = turn.draft.schema.fields.get(DIAGNOSTICS)
    if field is None or field.fold is not Fold.MERGE:
        return
    diagnostics = {key: value for key, value in entries.items() if _has_room(field, key, value)}
    if diagnostics:
        turn.write("the runtime", {DIAGNOSTICS: diagnostics})


def _has_room(field: Field, key: str, value: Any) -> bool:
    """Return whether a field has room for an entry of this kind."""
    if field.nested_schema is not None:
        return key in field.nested_schema.fields
    try:
        msgspec.convert({key: value}, field.type)
    except msgspec.ValidationError:
        return False
    return True


STAGE_FAILED = "stage_failed"
UNFORESEEN = "A stage failed in a way that nobody foresaw. The program that ran it was told why."
"""All that is stored and sent of an error that is not ours: its own words may hold a path or a key."""


async def run_pipeline(turn: Turn, settings: Settings) -> tuple[Ending, BaseException | None]:
    """Run the stages that are left, timed, and return the ending of the run with its error, if any."""
    start = time.perf_counter()
    try:
        return await _run_to_end(turn, settings)
    finally:
        record_times(turn, total_ms=_milliseconds_since(start))


async def _run_to_end(turn: Turn, settings: Settings) -> tuple[Ending, BaseException | None]:
    try:
        await run_stages(settings.stages, context_of(turn, settings))
        with turn.step("output", "reply" if settings.output is None else settings.output.__name__):
            if settings.output is not None:
                output_of_turn(turn, settings.output)  # one that does not fit must end the run as an error
        if settings.config.on_turn_end is not None:
            settings.config.on_turn_end(turn.thread, turn.draft.view())
    except Suspension:
        return Ending(termination=SUSPENDED), None
    except asyncio.CancelledError as error:
        return ending_of(error), error
    except ClewError as error:
        turn.notify(error_event(error))
        return ending_of(error), error
    except Exception as error:  # noqa: BLE001  # a stage is not ours: its run ends as an error, then it is raised
        turn.notify(ErrorEvent(code=STAGE_FAILED, problem=UNFORESEEN))
        return Ending(termination=ERROR, problem=f"{STAGE_FAILED}: {UNFORESEEN}"), error
    return Ending(termination=NATURAL), None


def ending_of(error: ClewError | asyncio.CancelledError) -> Ending:
    """Return the ending of a run that stopped with an error."""
    if isinstance(error, ClewError):
        return Ending(termination=ERROR, problem=f"{error.code}: {public_error(error)}")
    return Ending(termination=CANCELLED)


def context_of(turn: Turn, settings: Settings) -> Context:
    """Return the context of every stage of a turn."""
    context = Context(
        llm_client=settings.model,
        memory_store=settings.memory_store,
        memory_mode=settings.memory_mode,
        response_llm=settings.response_model,
        embedding_provider=settings.embedding_provider,
        session_memory_buffer=settings.session_memory_buffer or _buffer(turn),
        turn=turn,
    )
    return settings.make_context(context, settings.record_backend)


async def run_stages(stages: Sequence[Stage], context: Context) -> None:
    """Run every stage that is left, and fold the delta of each into the draft.

    The changes of a finished stage are stored together with the next stage, so that nothing is folded
    twice after a crash.

    Raises:
        DeadlineExceeded: All of it took too long.
        StageGone: The stage that it stopped at is not among these.
    """
    turn, seconds = context.turn, context.turn.deadlines.turn_seconds
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            stages_left = remaining_stages(stages, turn.run_state.stage, thread=turn.thread, run=turn.id)
            for stage, next_stage in zip_longest(stages_left, stages_left[1:]):
                await _run_stage(stage, context, next_stage)
    except TimeoutError as error:
        if not deadline.expired():
            raise
        raise DeadlineExceeded(what=f"The turn of thread {turn.thread!r}", seconds=seconds) from error


async def _run_stage(stage: Stage, context: Context, next_stage: Stage | None) -> None:
    """Run one stage and fold its delta into the draft."""
    turn, name = context.turn, stage_name(stage)
    turn.trace.append(name)
    turn.notify(StageStarted(name=name, label=stage_label(stage)))
    turn.ends_now = next_stage is None and getattr(stage, ENDS_TURN, False)
    model_calls, start = turn.model_calls, time.perf_counter()
    work: Any = stage(turn.draft.view(), context)
    if not inspect.isawaitable(work):
        raise InvalidArgument(problem=f"Stage {name!r} must be async: what it returns cannot be awaited.")
    delta: Any = await work
    turn.stage_ms[name] = turn.stage_ms.get(name, 0.0) + _milliseconds_since(start)
    await turn.draft.load_entry_keys(delta, turn.id)
    turn.write(name, delta)
    if next_stage is None:
        turn.defer_answer()  # the end of the run follows at once, and they are committed together
        return
    turn.draft.enter_stage(stage_name(next_stage))
    # A stage that paid for a model call must not pay again after a crash, and what it recorded is stored
    # before a later stage words a reply. An answer is stored as soon as it is finished.
    if turn.draft.has_new_answer:
        await turn.checkpoint(ASSISTANT)
    elif turn.model_calls > model_calls or turn.journal.pending_records():
        await turn.checkpoint(USER_MESSAGE)


def _milliseconds_since(start: float) -> float:
    return round((time.perf_counter() - start) * 1000, 3)


def _buffer(turn: Turn) -> EpisodeBuffer | None:
    """Return the buffer for candidates, if the turn belongs to an episode."""
    return EpisodeBuffer(turn.journal) if turn.journal.episode is not None else None
