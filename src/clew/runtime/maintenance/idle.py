"""A thread at rest: nobody is at work on it, so that its history may be rewritten."""

import msgspec

from clew.core.errors import InvalidArgument, RecordNotFound, TranscriptBroken, TurnBusy, TurnSuspended
from clew.core.ops import Document, Op
from clew.core.patch import delete, merge
from clew.core.values import Changeset, Exact, Head, Put, Window, Write
from clew.database.database import Database
from clew.runtime.execution.start import is_over
from clew.runtime.model.call import ask
from clew.runtime.model.protocol import Reply, Request
from clew.runtime.records.runs import (
    CANCELLED,
    DONE,
    KIND,
    RUNNING,
    WAITING,
    Ending,
    Run,
    meta_of,
    record_of,
    run_of,
)
from clew.runtime.respond.compaction import Compacted, Compaction, by_model, compact
from clew.runtime.settings import Settings
from clew.runtime.turn.approvals import doubtful
from clew.runtime.turn.draft import CALLS, RUN
from clew.runtime.turn.inbound import standing
from clew.runtime.turn.journal import ended


class Resting(msgspec.Struct, frozen=True, kw_only=True):
    """A thread that nobody works on; the run that stopped there unfinished, if one did, and its record.

    A fork may stand in the middle of a run of its parent. That run's record is the parent's affair.
    """

    head: Head
    unfinished: str | None = None
    record: Run | None = None


async def at_rest(db: Database, id: str, settings: Settings) -> Resting:
    """A thread that nobody works on.

    Raises:
        TurnBusy: A turn is at work.
    """
    return await rest_at(db, id, settings.clock())


async def rest_at(db: Database, id: str, time: int) -> Resting:
    """A thread that nobody works on at a time.

    Raises:
        TurnBusy: A turn is at work.
    """
    head = await db.thread(id).head()
    now = standing(head.state)
    if now.status == DONE or not now.id:
        return Resting(head=head)
    try:
        run = run_of(await db.records.get(KIND, now.id))
    except RecordNotFound:
        return Resting(head=head, unfinished=now.id)
    if run.thread != id:
        return Resting(head=head, unfinished=now.id)
    if run.status == RUNNING and not is_over(run, time):
        raise TurnBusy(thread=id, run=run.id, retry_after_ms=max(run.until - time, 0))
    return Resting(head=head, unfinished=now.id, record=run)


def check_answered(head: Head) -> None:
    """Refuse while tool calls are open: they and what answers them belong together.

    Raises:
        TurnSuspended: Some wait for a decision.
        TranscriptBroken: Some were left open.
    """
    open, now = list(head.counters.open), standing(head.state)
    if open and now.status == WAITING:
        raise TurnSuspended(thread=head.id, run=now.id, calls=open)
    if open:
        raise TranscriptBroken(thread=head.id, call=open[0], problem="a tool call is still open")


async def compact_at_rest(db: Database, id: str, compaction: Compaction, settings: Settings) -> Compacted:
    """Compact a thread that nobody works on. What a run that may be resumed has added stays.

    Raises:
        InvalidArgument: There is nothing to compact, no model, or somebody else keeps this history.
        TurnBusy: A turn is at work.
        TurnSuspended: Tool calls wait for a decision; it has to wait until they are answered.
        TranscriptBroken: Tool calls were left open; the next turn closes them.
        VersionConflict: Somebody wrote meanwhile; nothing was changed.
        ModelFailed: There is no summary; nothing was changed.
    """
    resting = await at_rest(db, id, settings)
    head = resting.head
    check_answered(head)
    thread, model = db.thread(id), settings.model
    if model is None and compaction.summarize is None:
        raise InvalidArgument(problem="A summary needs a model, or a function that makes it.")

    async def by(request: Request) -> Reply:
        assert model is not None
        return await ask(model, request, settings.patience)

    async def commit(change: Changeset) -> int:
        return (await thread.append(change, expect=Exact(head.version))).version

    summarize = compaction.summarize or by_model(by, compaction.instructions)
    items = await thread.items(at=head.version)
    keep = max(compaction.keep, _resumable(items, resting.unfinished))
    return await compact(id, head, items, keep, summarize, commit)


def _resumable(items: Window, run: str | None) -> int:
    """How many of the newest items a run that stopped unfinished needs, if it is to be resumed."""
    own = (at for at, item in enumerate(items) if run is not None and item.run == run)
    return len(items) - next(own, len(items))


class Abandoned(msgspec.Struct, frozen=True, kw_only=True):
    """What it takes to give up a run that stopped unfinished: it can be resumed no more."""

    patches: tuple[Op, ...] = ()
    writes: tuple[Write, ...] = ()
    meta: Document | None = None


def abandoned(resting: Resting, reason: str, now: int) -> Abandoned:
    """What it takes to give up the run that stopped here, if one did."""
    if resting.unfinished is None:
        return Abandoned()
    head, run = resting.head, resting.record
    epoch = standing(head.state).epoch + 1
    patches: list[Op] = [delete([CALLS])] if CALLS in head.state else []
    patches.append(merge([RUN], {"status": DONE, "epoch": epoch}))
    if run is None:
        return Abandoned(patches=tuple(patches))
    ending = Ending(termination=CANCELLED, problem=reason)
    over = msgspec.structs.replace(ended(run, ending, now), epoch=epoch, in_doubt=doubtful(head.state))
    return Abandoned(
        patches=tuple(patches),
        writes=(Put(record=record_of(over, head.owner), expect=run.revision),),
        meta=meta_of(run, ending),
    )
