"""Closing a run that no process works on: its record, its state and its changeset, from one place."""

from typing import Final

import msgspec

from clew.core.ops import Document, Op
from clew.core.values import Changeset, Head, Item, Put, Write
from clew.runtime.records.runs import (
    INTERRUPTED,
    SUPERSEDED,
    WAITING,
    Ending,
    Run,
    meta_of,
    record_of,
    run_with_ending,
)
from clew.runtime.state.run_state import RunState

NOT_APPROVED: Final = "It was not approved: a new message came before the decision."
PROCESS_LOST: Final = Ending(termination=INTERRUPTED, problem="Its process ended before it did.")


class RunClosure(msgspec.Struct, frozen=True, kw_only=True):
    """The changes to commit for a run to be over; none, if there is no run to close.

    ``run`` is the run as its record will say. The record belongs to the ``writes``; without it only the
    state is changed, as in a fork that was made in the middle of a run of its parent.
    """

    run: Run | None = None
    items: tuple[Item, ...] = ()
    patches: tuple[Op, ...] = ()
    writes: tuple[Write, ...] = ()
    meta: Document | None = None

    def changeset(self, reason: str) -> Changeset:
        """Return the changeset that closes the run on its thread."""
        return Changeset(
            items=self.items,
            patches=self.patches,
            reason=reason,
            run_id=self.run.id if self.run is not None else None,
            parent_run_id=self.run.parent if self.run is not None else None,
            run_meta=self.meta,
        )


def close_run(run: Run | None, head: Head, ending: Ending, now: int, *, owner: str | None) -> RunClosure:
    """Plan the close of the run that a thread's state names; ``run`` is its record, if it has one here.

    The record takes what the state knows better: its cost, and the calls that are in doubt. Calls that stay
    open are closed by an item, unless the run is only interrupted: then it can be resumed and answer them.
    """
    run_state = RunState.of(head.state)
    epoch = (run_state.epoch if run is None else run.epoch) + 1
    patches = run_state.close_ops(ending, epoch)
    if run is None:
        return RunClosure(patches=patches)
    closed_run = msgspec.structs.replace(
        with_latest_usage(run_with_ending(run, ending, now), run_state),
        epoch=epoch,
        in_doubt=run_state.doubtful_calls,
    )
    is_interrupted = ending.termination == INTERRUPTED
    if run_state.status == WAITING and ending.termination == SUPERSEDED:
        reason = NOT_APPROVED
    else:
        reason = f"The run was {ending.termination} before the tool answered."
    meta = meta_of(closed_run, ending)
    return RunClosure(
        run=closed_run,
        items=() if is_interrupted else run_state.closing_items(head.counters.open, reason),
        patches=patches,
        writes=(Put(record=record_of(closed_run, owner), expect=run.revision),),
        meta={**meta, "status": INTERRUPTED} if is_interrupted else meta,
    )


def with_latest_usage(run: Run, run_state: RunState) -> Run:
    """Return a run with its whole cost: its record may be older than its last checkpoint."""
    if run_state.id != run.id or run_state.usage.calls <= run.usage.calls:
        return run
    return msgspec.structs.replace(run, usage=run_state.usage)
