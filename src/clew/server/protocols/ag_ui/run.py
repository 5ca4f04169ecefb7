"""One AG-UI run as a stream: from what the client has to the end of a run of the thread."""

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import msgspec

from clew.api.ag_ui import AgUiInput
from clew.api.events import END_EVENT, PROBLEM_EVENT, StreamEvent
from clew.api.problems import Problem
from clew.core.errors import ClewError, NotFound
from clew.database.thread import changesets_after
from clew.runtime.execution.queue import is_queued
from clew.runtime.records.events import (
    Event,
    HistoryRewritten,
    MessageAdded,
    RunFinished,
    StateChanged,
    events_of,
)
from clew.runtime.records.runs import ERROR, INTERRUPTED, NATURAL, RUNNING, SUSPENDED
from clew.runtime.state.run_state import RunState
from clew.server.http.callers import ThreadAccess
from clew.server.http.sse import encode_event
from clew.server.protocols.ag_ui.interrupts import interrupt_of
from clew.server.protocols.ag_ui.plan import RunPlan, ThreadPoint, is_at_work, point_at
from clew.server.protocols.ag_ui.projection import ClientView, Projection, problem_event
from clew.server.protocols.ag_ui.state import public_state
from clew.server.protocols.run_events import event_of, read_run
from clew.server.tenants.turn_events import stream_event, thread_events

log = logging.getLogger("clew.server")


def encode_ag_ui(event: StreamEvent) -> bytes:
    """Write an event of AG-UI. A stream has no event of its own for its end, and an error is RUN_ERROR."""
    if event.type == END_EVENT:
        return b""
    if event.type == PROBLEM_EVENT:
        event = problem_event(msgspec.convert(event.data, Problem))
    return encode_event(event)


class AgUiRun:
    """One AG-UI run on a thread, from a point of it on, until a run of the runtime stops or has stopped."""

    def __init__(self, access: ThreadAccess, data: AgUiInput, plan: RunPlan, point: ThreadPoint) -> None:
        self._access = access
        self._thread = access.db.thread(data.thread_id)
        self._plan = plan
        self._mark = point.mark
        self._loaded_version = 0
        self._projection = Projection(data.thread_id, data.run_id, point.transcript, point.state)
        self._client = ClientView(
            messages=data.messages,
            state=data.state,
            pending=[message.id for message in plan.messages],
            trusted=point.has_seen and not data.messages,
        )
        self._has_started = False
        self._ending: RunFinished | None = None

    async def events(self, work: AsyncIterator[StreamEvent] | None) -> AsyncIterator[StreamEvent]:
        """Iterate over the run. ``work`` gives the events of the thread while it starts or resumes a run.

        Its first event comes with the first one of the work, so that an error before that has a status.
        """
        if work is None:
            for each in self._start():
                yield each
        source = work or self._log_events()
        async for each in self._project(source):
            yield each
        if self._ending is None:
            # The run may have ended since the log was read: then the log has the rest.
            rest = self._run_events() if await self._goes_on() else self._log_events()
            for each in self._start():
                yield each
            async for each in self._project(rest):
                yield each
        async for each in self._end():
            yield each
        await _drain(source)

    async def _project(self, source: AsyncIterator[StreamEvent]) -> AsyncIterator[StreamEvent]:
        """Project the events of the thread until the run ends, or there are no more."""
        async for wire_event in source:
            event = event_of(wire_event)
            for each in self._start():
                yield each
            if isinstance(event, HistoryRewritten) and event.mark is not None:
                point = await point_at(self._thread, event.mark[0])
                self._loaded_version = event.mark[0]
                for each in self._projection.replace(point.transcript, point.state):
                    yield each
            elif not self._is_loaded(event):
                for each in self._projection.project(event):
                    yield each
            self._mark = event.mark or self._mark
            if isinstance(event, RunFinished) and self._is_last(event):
                self._ending = event
                return

    def _start(self) -> Iterator[StreamEvent]:
        """Open the run, once."""
        if not self._has_started:
            self._has_started = True
            yield from self._projection.start(self._client, run=self._plan.run)

    def _is_last(self, event: RunFinished) -> bool:
        """Return whether an event ends the run; one that stopped earlier may have gone on since."""
        has_stopped = event.termination in (SUSPENDED, INTERRUPTED)
        is_past = event.mark is not None and event.mark[0] < self._plan.version
        return event.run == self._plan.run and not (has_stopped and is_past)

    def _is_loaded(self, event: Event) -> bool:
        """Return whether the history that was read anew has what an event adds."""
        is_change = isinstance(event, MessageAdded | StateChanged)
        return is_change and event.mark is not None and event.mark[0] <= self._loaded_version

    async def _log_events(self) -> AsyncIterator[StreamEvent]:
        """Iterate over the events of the log behind the client's, as far as there are any now."""
        with suppress(NotFound):
            async for change in changesets_after(self._thread, max(self._mark[0] - 1, 0)):
                for event in events_of(change):
                    if event.mark is not None and event.mark > self._mark:
                        yield stream_event(event)

    def _run_events(self) -> AsyncIterator[StreamEvent]:
        """Iterate over the events of the thread until the run has ended, in whatever process it is."""
        access = self._access
        return thread_events(access.runtime, self._thread.id, access.user, self._mark, self._plan.run)

    async def _goes_on(self) -> bool:
        """Return whether the run is at work somewhere, or waits for its turn."""
        if self._plan.run is None:
            return False
        run = await read_run(self._access.db, self._plan.run)
        if run is None:
            return await is_queued(self._access.db, self._plan.run)
        return is_at_work(run, self._access.db)

    async def _end(self) -> AsyncIterator[StreamEvent]:
        ending = self._ending or await self._recorded_ending()
        state: RunState = RunState()
        with suppress(NotFound):
            document = await self._thread.state(at=self._mark[0] or None)
            state = RunState.of(document)
            for each in self._projection.set_state(public_state(document)):
                yield each
        run = self._plan.run
        if ending.termination in (ERROR, INTERRUPTED):
            last_events = self._projection.fail(ending.termination, ending.problem, run=run)
        else:
            waits = ending.termination == SUSPENDED and state.id == run
            interrupts = [interrupt_of(state.id, approval) for approval in state.approvals] if waits else []
            usage = ending.usage if self._plan.kind == "turn" else None
            last_events = self._projection.finish(ending.termination, interrupts, usage=usage, run=run)
        for each in last_events:
            yield each

    async def _recorded_ending(self) -> RunFinished:
        """Return the end of a run that was over before; without a run nothing went wrong."""
        run = None if self._plan.run is None else await read_run(self._access.db, self._plan.run)
        if run is None:
            return RunFinished(termination=NATURAL)
        lost = INTERRUPTED if run.status == RUNNING else NATURAL
        return RunFinished(run=run.id, termination=run.termination or lost, problem=run.problem)


async def _drain(source: AsyncIterator[StreamEvent]) -> None:
    """Let the work come to its end, whose error the end of the run has named already."""
    try:
        async for _ in source:
            pass
    except ClewError:
        pass
    except Exception:
        log.exception("A run failed")
