"""Driving a turn to its end, whichever end it is."""

import asyncio
from collections.abc import Callable

import msgspec

from holdfast.core.errors import Conflict, HoldfastError, LeaseLost
from holdfast.core.items import repair
from holdfast.core.making import delete
from holdfast.runtime.context import Context
from holdfast.runtime.draft import CALLS
from holdfast.runtime.events import Event, Failed, events_of
from holdfast.runtime.lease import Lease
from holdfast.runtime.loop import unanswered
from holdfast.runtime.outputs import Done, done
from holdfast.runtime.pipeline import run_stages
from holdfast.runtime.runs import CANCELLED, ERROR, NATURAL, SUSPENDED, Ending
from holdfast.runtime.settings import Settings
from holdfast.runtime.starting import Started
from holdfast.runtime.suspension import Suspended, Waiting
from holdfast.runtime.turn import Turn


async def drive(
    started: Started, settings: Settings, emit: Callable[[Event], None], begun: set[str] | None = None
) -> Done:
    """Run the stages of a turn that was started, and make its end durable.

    Raises:
        HoldfastError: The turn failed; its end says so, unless the store could not be told.
    """
    turn = Turn(started.draft, started.journal, settings.patience, emit)
    turn.begun |= begun or set()
    if started.change is not None:
        for event in events_of(started.change):
            emit(event)
    task = asyncio.current_task()
    assert task is not None
    lease = Lease(started.journal, settings.lease_seconds, settings.clock, task.cancel)
    lease.start()
    try:
        ending, waiting, error = await _worked(turn, settings)
    finally:
        await lease.end()
    if isinstance(error, LeaseLost):
        turn.tell(Failed(code=error.code, problem=str(error)))
        raise error
    await _finish(turn, started, settings, ending, waiting, error)
    if isinstance(error, BaseException) and not isinstance(error, asyncio.CancelledError):
        raise error
    return done(
        turn,
        version=started.journal.version,
        kind=settings.output,
        termination=ending.termination,
        waiting=waiting,
    )


async def _worked(turn: Turn, settings: Settings) -> tuple[Ending, tuple[Waiting, ...], BaseException | None]:
    """Run the stages; how it ended, what waits, and what went wrong."""
    try:
        await run_stages(settings.stages, _context(turn, settings))
    except Suspended as suspended:
        return Ending(termination=SUSPENDED), suspended.waiting, None
    except asyncio.CancelledError as error:
        return Ending(termination=CANCELLED), (), error
    except HoldfastError as error:
        turn.tell(Failed(code=error.code, problem=str(error)))
        return Ending(termination=ERROR, problem=f"{error.code}: {error}"), (), error
    except Exception as error:  # noqa: BLE001  # a stage is not ours: its run ends as an error, then it is raised
        turn.tell(Failed(code="stage_failed", problem=f"{type(error).__name__}: {error}"))
        return Ending(termination=ERROR, problem=f"{type(error).__name__}: {error}"), (), error
    return Ending(termination=NATURAL), (), None


async def _finish(
    turn: Turn,
    started: Started,
    settings: Settings,
    ending: Ending,
    waiting: tuple[Waiting, ...],
    error: BaseException | None,
) -> None:
    """Make the end durable; if that fails, say so instead of telling that the run has finished."""
    if isinstance(error, Conflict):
        turn.draft.drop_delta()
    if ending.termination in (CANCELLED, ERROR):
        await _close_calls(turn)
    if started.journal.run.key is not None:
        shown = done(turn, version=0, kind=settings.output, termination=ending.termination, waiting=waiting)
        started.journal.output = msgspec.to_builtins(shown)
    try:
        await turn.finish(ending)
    except HoldfastError as failure:
        turn.tell(Failed(code=failure.code, problem=str(failure)))
        raise


async def _close_calls(turn: Turn) -> None:
    """Answer calls that will never be answered, so that the next turn finds the history whole."""
    log = turn.draft.schema.fields.get("history")
    if log is None:
        return
    messages = [entry for entry in await turn.draft.log("history").tail(64) if entry.run == turn.id]
    open = {call.id: turn.id for call in unanswered(messages)}
    if open:
        turn.add([repair(dict(open), "The run ended before the tool answered.")])
    if CALLS in turn.draft.state:
        turn.draft.patch(delete([CALLS]))


def _context(turn: Turn, settings: Settings) -> Context:
    return Context(
        llm_client=settings.model,
        memory_store=settings.memory_store,
        crisis_log_backend=settings.crisis_log_backend,
        memory_mode=settings.memory_mode,
        response_llm=settings.response_model,
        embedding_provider=settings.embedding_provider,
        session_memory_buffer=settings.session_memory_buffer,
        turn=turn,
    )
