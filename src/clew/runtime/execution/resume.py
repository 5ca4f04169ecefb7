"""Resume a run that was suspended or interrupted, in whatever process."""

from collections.abc import Mapping

import msgspec

from clew.core import ops
from clew.core.encoding import JSON
from clew.core.errors import InvalidArgument, RevisionConflict, TurnBusy, VersionConflict
from clew.core.ops import Op
from clew.core.values import AppendTo, Changeset, Committed, Exact, Head, Put, Record
from clew.database.database import Database
from clew.database.thread import Thread
from clew.runtime.attempts import Attempts
from clew.runtime.execution.start import StartedTurn, log_reader
from clew.runtime.records.episodes import active_episode
from clew.runtime.records.events import USER_MESSAGE
from clew.runtime.records.runs import (
    DONE,
    KIND,
    RUNNING,
    SUSPENDED,
    WAITING,
    Run,
    is_orphaned,
    meta_of,
    record_of,
    run_of,
    this_process,
)
from clew.runtime.settings import Settings
from clew.runtime.stages import remaining_stages
from clew.runtime.state.call_state import Decision
from clew.runtime.state.inputs import MESSAGE
from clew.runtime.state.run_state import RunState, resume_op
from clew.runtime.state.thread_agent import check_thread_agent
from clew.runtime.state.upgrades import upgrade_ops
from clew.runtime.telemetry.scope import current_scope
from clew.runtime.turn.approvals import ops_of_decisions
from clew.runtime.turn.closure import with_latest_usage
from clew.runtime.turn.draft import Draft
from clew.runtime.turn.journal import ThreadJournal
from clew.runtime.turn.result import TurnResult, stored_result

RECENT_ITEMS = 256


async def resume_run(
    db: Database,
    id: str,
    decisions: Mapping[str, Decision],
    settings: Settings,
    *,
    only: str | None = None,
) -> StartedTurn | TurnResult:
    """Take a run over where it stopped, with what was decided; any run, or the one of an id ``only``.

    If nothing was decided that was not decided before, and the run waits or has ended, nothing is changed.

    Raises:
        DecisionRefused: A decision is about no waiting call, or about one decided otherwise.
        InvalidArgument: There is nothing to resume.
        StageGone: The run stopped at a stage that is not there any more; nothing was changed.
        ThreadOfAnotherAgent: The thread is not this agent's to write.
        TurnBusy: The run is still at work somewhere.
        Conflict: Others wrote again and again.
    """
    thread = db.thread(id)
    attempts = Attempts()
    while True:
        head = await thread.head()
        await check_thread_agent(thread, head, settings.agent)
        run_state = RunState.of(head.state)
        if (
            not run_state.id
            or only not in (None, run_state.id)
            or (run_state.status == DONE and not decisions)
        ):
            raise InvalidArgument(problem=f"Thread {id!r} has no run to resume.")
        run = run_of(await db.records.get(KIND, run_state.id))
        # A fork that was made in the middle of a run names a run of its parent, and a state can be made up.
        if run.thread != id:
            raise InvalidArgument(problem=f"Thread {id!r} has no run to resume.")
        if run.status == RUNNING and not is_orphaned(run, settings.clock()):
            raise TurnBusy(thread=id, run=run.id, retry_after_ms=max(run.until - settings.clock(), 0))
        decision_ops = await ops_of_decisions(thread, head, run, decisions)
        if not decision_ops and (
            run_state.status == DONE or (run_state.status == WAITING and run_state.approvals)
        ):
            return await _current_result(thread, head, run, settings)
        # A stage that is gone is refused here, before anything is changed.
        remaining_stages(settings.stages, run_state.stage, thread=id, run=run.id)
        try:
            return await _commit_resume(db, head, run, decision_ops, settings)
        except (VersionConflict, RevisionConflict) as conflict:
            attempts.count(conflict)
            continue  # another writer was faster: what it wrote decides what is left to do


async def _commit_resume(
    db: Database, head: Head, run: Run, decision_ops: Mapping[str, Op], settings: Settings
) -> StartedTurn:
    """Commit the decisions together with the new holder of the run."""
    run_state = RunState.of(head.state)
    run_with_lease = _run_with_lease(with_latest_usage(run, run_state), settings)
    patches = [
        *upgrade_ops(run.thread, head.state, settings.schema, settings.config.state.upgrades),
        *decision_ops.values(),
        resume_op(run_with_lease.epoch),
    ]
    change = Changeset(
        patches=tuple(patches), reason=USER_MESSAGE, run_id=run.id, run_meta=meta_of(run_with_lease, None)
    )
    with current_scope().watch_commit(change.reason):
        results = await db.commit(
            [
                AppendTo(thread=run.thread, change=change, expect=Exact(head.version)),
                Put(record=record_of(run_with_lease, head.owner), expect=run.revision),
            ]
        )
    current_scope().begin_run(run.id, run.trace)
    commit, run_record = results[0], results[1]
    assert isinstance(commit, Committed)
    assert isinstance(run_record, Record)
    run_with_lease = msgspec.structs.replace(run_with_lease, revision=run_record.revision)
    journal = ThreadJournal(
        db,
        run_with_lease,
        version=commit.version,
        owner=head.owner,
        clock=settings.clock,
    )
    journal.episode = await active_episode(db, run.thread)
    thread = db.thread(run.thread)
    inputs = await _inputs(thread, run.id, run_state.inputs)
    draft = Draft(
        settings.schema, ops.apply_ops(head.state, patches), head.counters.logs, inputs, log_reader(thread)
    )
    change = msgspec.structs.replace(change, version=commit.version, time=commit.time)
    return StartedTurn(draft=draft, journal=journal, change=change, own_calls=frozenset(decision_ops))


async def _current_result(thread: Thread, head: Head, run: Run, settings: Settings) -> TurnResult:
    """Return the result of a run that nothing more is to be done about now."""
    approvals = RunState.of(head.state).approvals
    if run.output is not None and not approvals:
        return stored_result(run.output, settings.output)
    bodies = [item.body for item in await thread.items(last=RECENT_ITEMS) if item.run == run.id]
    text = bodies[-1].get("content") if bodies and isinstance(bodies[-1], dict) and not approvals else ""
    return TurnResult(
        thread=run.thread,
        run=run.id,
        version=head.version,
        text=text if isinstance(text, str) else "",
        termination=run.termination or SUSPENDED,
        waiting=approvals,
        usage=run.usage,
    )


def _run_with_lease(run: Run, settings: Settings) -> Run:
    return msgspec.structs.replace(
        run,
        status=RUNNING,
        epoch=run.epoch + 1,  # the holder before, if it wakes up, finds that it has lost the run
        holder=this_process(),
        until=settings.clock() + settings.config.leases.ms,
        ended=None,
        termination=None,
        problem=None,
        stop=None,
        awaited=False,
        in_doubt=(),
        trace=current_scope().trace or run.trace,
    )


async def _inputs(thread: Thread, run: str, inputs: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the inputs that the run began with; the message is read from the history."""
    if MESSAGE in inputs:
        return dict(inputs)
    items = await thread.items(last=RECENT_ITEMS)
    user_item = next(
        (item for item in reversed(items.items) if item.run == run and item.role == "user"), None
    )
    message = (
        user_item.body.get("content") if user_item is not None and isinstance(user_item.body, dict) else ""
    )
    return {**inputs, MESSAGE: message}
