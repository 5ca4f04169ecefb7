"""Rebasing a draft: a run goes on behind what others committed, if both may be there side by side."""

from collections.abc import Sequence

from clew.core.errors import LeaseLost, StateConflict
from clew.core.ops import Op, commute, op_name
from clew.core.values import Changeset
from clew.database.thread import Thread, changesets_after
from clew.runtime.records.runs import Run
from clew.runtime.state.run_state import RunState
from clew.runtime.turn.draft import Draft, RunDelta


async def rebase_draft(thread: Thread, run: Run, draft: Draft, delta: RunDelta, version: int) -> int:
    """Move what a run has not committed yet behind what others committed; return the version it is on then.

    Raises:
        LeaseLost: Another run has the thread now.
        StateConflict: Both changed the same path, or both wrote to one log, and the order matters.
    """
    head = await thread.head()
    run_state = RunState.of(head.state)
    # A newer version does not show who wrote it. Other writers than runs may write beside one, and the run
    # goes on; but if the state names another run or epoch, the thread was taken over.
    if (run_state.id, run_state.epoch) != (run.id, run.epoch):
        raise LeaseLost(thread=run.thread, run=run.id)
    # Every changeset is compared, not only the difference of the two states: a value that was changed and
    # changed back still came before ours.
    async for change in changesets_after(thread, version, upto=head.version):
        check_compatible(run, delta, change)
    draft.rebase_onto(head.state, head.counters.logs)
    return head.version


def check_compatible(run: Run, delta: RunDelta, change: Changeset) -> None:
    """Refuse a changeset that cannot have come before this delta without changing what it means."""
    our_logs = {item.log for item in delta.items}
    their_logs = {item.log for item in change.items} | {cut.log for cut in change.cuts}
    # The order of a log is its meaning: an answer is about the messages that the model saw before it.
    for log in sorted(our_logs & their_logs):
        raise StateConflict(
            thread=run.thread, path=[log], ours="append", theirs=change.reason, version=change.version
        )
    if change.snapshot is not None and delta.all_patches:
        # A snapshot says what the whole state is, so each of our ops might be about something else now.
        raise StateConflict(
            thread=run.thread, path=[], ours="patches", theirs="snapshot", version=change.version
        )
    conflict = first_conflict(delta.all_patches, change.patches)
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
    """Return the first two ops whose order matters."""
    return next(((a, b) for a in left for b in right if not commute(a, b)), None)
