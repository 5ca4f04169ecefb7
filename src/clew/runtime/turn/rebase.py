"""When somebody else wrote in the middle of a run: what may stand side by side, and what may not."""

from collections.abc import Sequence

from clew.core.errors import LeaseLost, StateConflict
from clew.core.ops import Op, commute, op_name
from clew.core.values import Changeset
from clew.database.thread import CHANGESETS_PER_PAGE, Thread
from clew.runtime.records.runs import Run
from clew.runtime.turn.draft import Draft, RunDelta
from clew.runtime.turn.inbound import run_state_of


async def rebase_draft(thread: Thread, run: Run, draft: Draft, delta: RunDelta, version: int) -> int:
    """Move what a run has not committed yet behind what others committed; the version it stands on then.

    Raises:
        LeaseLost: Another run has the thread now.
        StateConflict: Both changed the same place, or both wrote to one log, and the order matters.
    """
    head = await thread.head()
    run_state = run_state_of(head.state)
    if (run_state.id, run_state.epoch) != (run.id, run.epoch):
        raise LeaseLost(thread=run.thread, run=run.id)
    while version < head.version:
        changes = await thread.changesets(after=version, upto=head.version, limit=CHANGESETS_PER_PAGE)
        for change in changes:
            check_compatible(run, delta, change)
            version = change.version
    draft.rebase_onto(head.state, head.counters.logs)
    return head.version


def check_compatible(run: Run, delta: RunDelta, change: Changeset) -> None:
    """Refuse a changeset that cannot have come before this delta without changing what it means."""
    our_logs = {item.log for item in delta.items}
    their_logs = {item.log for item in change.items} | {cut.log for cut in change.cuts}
    for log in sorted(our_logs & their_logs):
        raise StateConflict(
            thread=run.thread, path=[log], ours="append", theirs=change.reason, version=change.version
        )
    if change.snapshot is not None and delta.patches:
        raise StateConflict(
            thread=run.thread, path=[], ours="patches", theirs="snapshot", version=change.version
        )
    conflict = first_conflict(delta.patches, change.patches)
    if conflict is not None:
        ours, theirs = conflict
        raise StateConflict(
            thread=run.thread,
            path=list(theirs.path),
            ours=op_name(ours),
            theirs=op_name(theirs),
            version=change.version,
        )


def first_conflict(left: Sequence[Op], right: Sequence[Op]) -> tuple[Op, Op] | None:
    """The first two ops whose order matters."""
    return next(((a, b) for a in left for b in right if not commute(a, b)), None)
