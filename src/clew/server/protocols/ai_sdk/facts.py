"""Events of runs, with what the log says besides: approvals, decisions, and fields of the state."""

from collections.abc import AsyncIterator
from contextlib import suppress

from clew.core.encoding import JSON
from clew.core.errors import NotFound
from clew.core.ops import Document
from clew.database.thread import Thread
from clew.runtime.records.events import Event, RunFinished, RunStarted, StateChanged
from clew.runtime.state.call_state import DECIDED
from clew.runtime.state.run_state import RunState
from clew.server.protocols.ai_sdk.chunks import ApprovalsAsked, CallsDecided, FieldsChanged, RunFact


async def facts_of_events(
    events: AsyncIterator[Event], thread: Thread, *, waiting_run: str | None = None, has_state: bool = True
) -> AsyncIterator[RunFact]:
    """Iterate over events and what goes with them; the state is read as it was at their versions.

    ``waiting_run`` is a run that waited for a person before the first of them. Without ``has_state`` the
    fields of the state are left out.
    """
    waiting_runs = {waiting_run}
    async for event in events:
        match event:
            case RunFinished(termination="suspended"):
                waiting_runs.add(event.run)
                approvals = RunState.of(await _state_at(thread, event)).approvals
                yield ApprovalsAsked(run=event.run, approvals=approvals)
                yield event
            case RunStarted() if event.run in waiting_runs:
                yield event
                calls = RunState.of(await _state_at(thread, event)).calls
                decided = {call: entry for call, entry in calls.items() if entry.status == DECIDED}
                yield CallsDecided(run=event.run, calls=decided)
            case StateChanged():
                if has_state:
                    yield await _fields_changed(thread, event)
            case _:
                yield event


async def _fields_changed(thread: Thread, event: StateChanged) -> FieldsChanged:
    state = await _state_at(thread, event)
    names = dict.fromkeys(str(op.path[0]) for op in event.patches if op.path)
    fields: dict[str, JSON] = {name: state.get(name) for name in names}
    return FieldsChanged(run=event.run, version=event.mark[0] if event.mark else 0, fields=fields)


async def _state_at(thread: Thread, event: Event) -> Document:
    """Read the state at the version of an event; empty if it was erased since."""
    with suppress(NotFound):
        return await thread.state(at=event.mark[0] if event.mark else None)
    return {}
