"""The events of one run, from any place of its log to its end, whatever process works on it meanwhile."""

from collections.abc import AsyncIterator
from contextlib import aclosing

import msgspec

from clew.api.events import StreamEvent
from clew.core.errors import InvalidArgument, RecordNotFound, TurnBusy
from clew.database.database import Database
from clew.database.thread import changesets_after
from clew.runtime.records.events import Event, Mark, RunFinished, events_of
from clew.runtime.records.runs import (
    DONE,
    INTERRUPTED,
    KIND,
    RUNNING,
    SUSPENDED,
    WAITING,
    Run,
    is_orphaned,
    run_of,
)
from clew.runtime.runtime import AFTER_LAST_EVENT
from clew.runtime.state.run_state import RunState
from clew.server.http.callers import Caller, ThreadAccess
from clew.server.tenants.turn_events import parse_event_id, resumable_turn_events


def event_of(wire_event: StreamEvent) -> Event:
    """Return the event that the wire has."""
    mark = parse_event_id(wire_event.id)
    fields = {**wire_event.data, "type": wire_event.type}
    event: Event = msgspec.convert(fields if mark is None else {**fields, "mark": mark}, Event)
    return event


def mark_before(run: Run) -> Mark:
    """Return the mark before the first event of a run."""
    return max(run.first - 1, 0), AFTER_LAST_EVENT


def is_last(event: Event, version: int) -> bool:
    """Return whether an event ends its run for now, on a thread that was at a version when it was asked for.

    A run that was suspended at an earlier version has gone on since.
    """
    if not isinstance(event, RunFinished) or event.termination == INTERRUPTED:
        return False
    return event.termination != SUSPENDED or event.mark is None or event.mark[0] >= version


async def read_run(db: Database, run: str) -> Run | None:
    """Read the record of a run; None while its turn is queued."""
    try:
        return run_of(await db.records.get(KIND, run))
    except RecordNotFound:
        return None


def has_stopped(run: Run, now: int) -> bool:
    """Return whether no process works on a run that has not ended: it can be taken up."""
    return run.termination == INTERRUPTED or (run.status == RUNNING and is_orphaned(run, now))


async def run_events(
    caller: Caller, access: ThreadAccess, thread: str, run: str, mark: Mark, version: int
) -> AsyncIterator[Event]:
    """Iterate over the events of a run behind a mark until it ends; one whose process died is taken up.

    ``version`` is that of the thread when the events were asked for.
    """
    is_over = False
    while not is_over:
        record = await read_run(access.db, run)
        is_over = (
            record is not None and record.status in (DONE, WAITING) and record.termination != INTERRUPTED
        )
        if record is not None and has_stopped(record, access.db.store.now()):
            is_over = not await _is_current(access, thread, run)
            events = (
                _past_events(access, thread, mark)
                if is_over
                else _resumed_events(caller, access, thread, mark)
            )
        else:
            events = _past_events(access, thread, mark) if is_over else _log_events(access, thread, mark)
        async with aclosing(events) as source:  # type: ignore[type-var]  # a generator
            async for event in source:
                mark = event.mark or mark
                if event.run != run:
                    continue
                yield event
                if is_last(event, version):
                    return
                if isinstance(event, RunFinished) and event.termination == INTERRUPTED:
                    break  # its process died: look who has it now


async def _is_current(access: ThreadAccess, thread: str, run: str) -> bool:
    """Return whether a thread names a run as its last: it has not gone on without it."""
    return RunState.of(await access.db.thread(thread).state()).id == run


async def _past_events(access: ThreadAccess, thread: str, mark: Mark) -> AsyncIterator[Event]:
    async for change in changesets_after(access.db.thread(thread), max(mark[0] - 1, 0)):
        for event in events_of(change):
            if event.mark is not None and event.mark > mark:
                yield event


async def _log_events(access: ThreadAccess, thread: str, mark: Mark) -> AsyncIterator[Event]:
    events = access.runtime.events(thread, after=mark, user=access.user, live=True)
    async with aclosing(events) as source:  # type: ignore[type-var]  # a generator
        async for event in source:
            yield event


async def _resumed_events(
    caller: Caller, access: ThreadAccess, thread: str, mark: Mark
) -> AsyncIterator[Event]:
    """Take up a run and iterate over its events; those of the log alone if another process was faster."""
    try:
        with caller.resources.user_turns.enter(caller.name):
            async for each in resumable_turn_events(
                access.runtime.stream_resume(thread, user=access.user),
                access.runtime,
                access.db.thread(thread),
                access.user,
                mark,
            ):
                event = event_of(each)
                mark = event.mark or mark
                yield event
    except (InvalidArgument, TurnBusy):
        async for event in _log_events(access, thread, mark):
            yield event
