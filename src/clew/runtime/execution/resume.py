"""Going on with a run that was suspended or interrupted, in whatever process."""

from collections.abc import Mapping

import msgspec

from clew.core import ops, patch
from clew.core.encoding import JSON
from clew.core.errors import InvalidArgument, RevisionConflict, TurnBusy, VersionConflict
from clew.core.ops import Op
from clew.core.values import AppendTo, Changeset, Committed, Exact, Head, Put, Record
from clew.database.database import Database
from clew.database.thread import Thread
from clew.runtime.attempts import Attempts
from clew.runtime.execution.start import StartedTurn, is_orphaned, log_reader
from clew.runtime.records.episodes import active_episode
from clew.runtime.records.events import USER_MESSAGE
from clew.runtime.records.runs import (
    DONE,
    KIND,
    RUNNING,
    SUSPENDED,
    WAITING,
    Run,
    meta_of,
    record_of,
    run_of,
    this_process,
)
from clew.runtime.settings import Settings
from clew.runtime.stages import remaining_stages
from clew.runtime.state.inputs import MESSAGE
from clew.runtime.state.upgrades import upgrade_ops
from clew.runtime.turn.approvals import Decision, ops_of_decisions, pending_approvals
from clew.runtime.turn.draft import RUN, Draft
from clew.runtime.turn.inbound import RunState, run_state_of, with_latest_usage
from clew.runtime.turn.journal import ThreadJournal
from clew.runtime.turn.result import TurnResult, stored_result

RECENT_ITEMS = 256


class ResumedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A run that goes on, and the calls that were decided just now."""

    turn: StartedTurn
    own_calls: set[str]


async def resume_run(
    db: Database,
    id: str,
    decisions: Mapping[str, Decision],
    settings: Settings,
    *,
    only: str | None = None,
) -> ResumedTurn | TurnResult:
    """Take a run over where it stopped, with what was decided; whichever it is, or this one only.

    If nothing was decided that was not decided before, and the run waits or has ended, nothing is changed.

    Raises:
        DecisionRefused: A decision is about no waiting call, or about one decided otherwise.
        InvalidArgument: There is nothing to resume.
        StageGone: The run stopped at a stage that is not there any more; nothing was changed.
        TurnBusy: The run is still at work somewhere.
        Conflict: Others wrote again and again.
    """
    thread = db.thread(id)
    attempts = Attempts()
    while True:
        head = await thread.head()
        run_state = run_state_of(head.state)
        if (
            not run_state.id
            or only not in (None, run_state.id)
            or (run_state.status == DONE and not decisions)
        ):
            raise InvalidArgument(problem=f"Thread {id!r} has no run to resume.")
        run = run_of(await db.records.get(KIND, run_state.id))
        if run.thread != id:  # a fork stands in the middle of its parent's, or the state was made up
            raise InvalidArgument(problem=f"Thread {id!r} has no run to resume.")
        if run.status == RUNNING and not is_orphaned(run, settings.clock()):
            raise TurnBusy(thread=id, run=run.id, retry_after_ms=max(run.until - settings.clock(), 0))
        decision_ops = await ops_of_decisions(thread, head, run, decisions)
        if not decision_ops and (
            run_state.status == DONE or (run_state.status == WAITING and pending_approvals(head.state))
        ):
            return await _current_result(thread, head, run, settings)
        remaining_stages(
            settings.stages, run_state.stage, thread=id, run=run.id
        )  # before anything is changed
        try:
            turn = await _commit_resume(db, head, run, run_state, list(decision_ops.values()), settings)
        except (VersionConflict, RevisionConflict) as conflict:
            attempts.count(conflict)
            continue  # somebody was faster: what they did decides what is left to do
        return ResumedTurn(turn=turn, own_calls=set(decision_ops))


async def _commit_resume(
    db: Database, head: Head, run: Run, run_state: RunState, decision_ops: list[Op], settings: Settings
) -> StartedTurn:
    run_with_lease = _run_with_lease(with_latest_usage(run, run_state), settings)
    patches = [
        *upgrade_ops(run.thread, head.state, settings.schema, settings.config.state.upgrades),
        *decision_ops,
        patch.merge([RUN], {"status": RUNNING, "epoch": run_with_lease.epoch}),
    ]
    change = Changeset(
        patches=tuple(patches), reason=USER_MESSAGE, run_id=run.id, run_meta=meta_of(run_with_lease, None)
    )
    results = await db.commit(
        [
            AppendTo(thread=run.thread, change=change, expect=Exact(head.version)),
            Put(record=record_of(run_with_lease, head.owner), expect=run.revision),
        ]
    )
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
        days=settings.crisis_days,
    )
    journal.episode = await active_episode(db, run.thread)
    thread = db.thread(run.thread)
    inputs = await _inputs(thread, run.id, run_state.inputs)
    draft = Draft(
        settings.schema, ops.apply_ops(head.state, patches), head.counters.logs, inputs, log_reader(thread)
    )
    change = msgspec.structs.replace(change, version=commit.version, time=commit.time)
    return StartedTurn(draft=draft, journal=journal, change=change)


async def _current_result(thread: Thread, head: Head, run: Run, settings: Settings) -> TurnResult:
    """What became of a run, if nothing more is to be done about it now."""
    approvals = pending_approvals(head.state)
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
        epoch=run.epoch + 1,
        holder=this_process(),
        until=settings.clock() + settings.config.leases.ms,
        ended=None,
        termination=None,
        problem=None,
        cancel=False,
        awaited=False,
        in_doubt=(),
    )


async def _inputs(thread: Thread, run: str, inputs: Mapping[str, JSON]) -> dict[str, JSON]:
    """The inputs that the run began with."""
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
