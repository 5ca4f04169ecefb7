"""Stages, one after another: the one pipeline of the stateless call and the persistent runtime."""

import asyncio
import inspect
import time
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, TypeAlias

import msgspec

from clew.core.encoding import JSON
from clew.core.errors import ClewError, DeadlineExceeded, InvalidArgument
from clew.runtime.context import Context
from clew.runtime.model.redaction import tellable
from clew.runtime.records.episodes import Buffer
from clew.runtime.records.events import USER_MESSAGE, Failed, StageStarted, failed
from clew.runtime.records.runs import CANCELLED, ERROR, NATURAL, SUSPENDED, Ending
from clew.runtime.respond.respond import ENDS, Stage
from clew.runtime.settings import Settings
from clew.runtime.stages import label_of, name_of, remaining
from clew.runtime.state.schema import Field, Fold
from clew.runtime.turn.approvals import Suspended, Waiting
from clew.runtime.turn.draft import RUN, STAGE
from clew.runtime.turn.result import shown
from clew.runtime.turn.turn import Turn

DIAGNOSTICS = "diagnostics"
TOTAL, STAGES = "turn_total_ms", "stage_ms"


def stamp(turn: Turn, *, total_ms: float) -> None:
    """Note how long the turn and each of its stages took, as far as the field has room for it."""
    note(turn, {TOTAL: total_ms, STAGES: dict(turn.times)})


def note(turn: Turn, entries: Mapping[str, Any]) -> None:
    """Note entries, as far as the schema has room for them."""
    field = turn.draft.schema.fields.get(DIAGNOSTICS)
    if field is None or field.fold is not Fold.MERGE:
        return
    noted = {key: value for key, value in entries.items() if _takes(field, key, value)}
    if noted:
        turn.write("the runtime", {DIAGNOSTICS: noted})


def _takes(field: Field, key: str, value: Any) -> bool:
    """Whether a field has room for an entry of this kind."""
    if field.nested is not None:
        return key in field.nested.fields
    try:
        msgspec.convert({key: value}, field.type)
    except msgspec.ValidationError:
        return False
    return True


STAGE_FAILED = "stage_failed"
UNFORESEEN = "A stage failed in a way that nobody foresaw. The program that ran it was told why."
"""All that is kept and told of an error that is not ours: its own words may hold a path, a query or a key."""
Worked: TypeAlias = tuple[Ending, tuple[Waiting, ...], BaseException | None]


async def worked(turn: Turn, settings: Settings) -> Worked:
    """Run the stages; how it ended, what waits, and what went wrong. Its times are noted with what it did."""
    began = time.perf_counter()
    try:
        return await _ended(turn, settings)
    finally:
        stamp(turn, total_ms=_ms_since(began))


async def _ended(turn: Turn, settings: Settings) -> Worked:
    try:
        await run_stages(settings.stages, context_of(turn, settings))
        with turn.step("output", "reply" if settings.output is None else settings.output.__name__):
            if settings.output is not None:
                shown(turn, settings.output)  # what does not fit ends the run, before its end is on disk
    except Suspended as suspended:
        return Ending(termination=SUSPENDED), suspended.waiting, None
    except asyncio.CancelledError as error:
        return ended_by(error), (), error
    except ClewError as error:
        turn.tell(failed(error))
        return ended_by(error), (), error
    except Exception as error:  # noqa: BLE001  # a stage is not ours: its run ends as an error, then it is raised
        turn.tell(Failed(code=STAGE_FAILED, problem=UNFORESEEN))
        return Ending(termination=ERROR, problem=f"{STAGE_FAILED}: {UNFORESEEN}"), (), error
    return Ending(termination=NATURAL), (), None


def ended_by(error: ClewError | asyncio.CancelledError) -> Ending:
    """The end that an error brings."""
    if isinstance(error, ClewError):
        return Ending(termination=ERROR, problem=f"{error.code}: {tellable(error)}")
    return Ending(termination=CANCELLED)


def context_of(turn: Turn, settings: Settings) -> Context:
    """What every stage of a turn works with."""
    return Context(
        llm_client=settings.model,
        memory_store=settings.memory_store,
        crisis_log_backend=settings.crisis_log_backend,
        memory_mode=settings.memory_mode,
        response_llm=settings.response_model,
        embedding_provider=settings.embedding_provider,
        session_memory_buffer=settings.session_memory_buffer or _buffer(turn),
        turn=turn,
    )


async def run_stages(stages: Sequence[Stage], ctx: Context) -> None:
    """Run every stage that is not done yet, and fold what each returns.

    A stage that asked a model, or saw a crisis, is made durable when it ends: it is not asked again after a
    crash, and what it saw is on record before anybody words a reply. Whatever a finished stage changed is
    stored together with the note that it is done, so nothing is folded twice.

    Raises:
        DeadlineExceeded: All of it took too long.
        StageGone: The stage that it stopped at is not among these.
    """
    turn, seconds = ctx.turn, ctx.turn.patience.turn
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            left = remaining(stages, _mark(turn), thread=turn.thread, run=turn.id)
            for stage, following in zip_longest(left, left[1:]):
                await _run(stage, ctx, following)
    except TimeoutError as error:
        if not deadline.expired():
            raise
        raise DeadlineExceeded(what=f"The turn of thread {turn.thread!r}", seconds=seconds) from error


async def _run(stage: Stage, ctx: Context, following: Stage | None) -> None:
    turn, name = ctx.turn, name_of(stage)
    turn.trace.append(name)
    turn.tell(StageStarted(name=name, label=label_of(stage)))
    turn.ends_now = following is None and getattr(stage, ENDS, False)
    asked, began = turn.asked, time.perf_counter()
    work: Any = stage(turn.draft.view(), ctx)
    if not inspect.isawaitable(work):
        raise InvalidArgument(problem=f"Stage {name!r} must be async: what it returns cannot be awaited.")
    delta: Any = await work
    turn.times[name] = turn.times.get(name, 0.0) + _ms_since(began)
    await turn.draft.recall(delta, turn.id)
    turn.write(name, delta)
    if following is None:
        return  # the end of the run is the next checkpoint
    turn.draft.passed(name_of(following))
    if turn.asked > asked or turn.journal.unwritten():
        await turn.checkpoint(USER_MESSAGE)


def _mark(turn: Turn) -> JSON:
    """Which stage the state says that the run is at."""
    standing = turn.draft.state.get(RUN)
    return standing.get(STAGE) if isinstance(standing, dict) else None


def _ms_since(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 3)


def _buffer(turn: Turn) -> Buffer | None:
    """Where candidates are held, if the turn belongs to an episode."""
    return Buffer(turn.journal) if turn.journal.episode is not None else None
