"""A thread at rest: nobody is at work on it, so that its history may be rewritten."""

import msgspec

from clew.core.errors import InvalidArgument, RecordNotFound, TranscriptBroken, TurnBusy, TurnSuspended
from clew.core.ops import Document, Op
from clew.core.patch import delete, merge
from clew.core.values import Changeset, Exact, Head, Put, Window, Write
from clew.database.database import Database
from clew.runtime.execution.start import is_orphaned
from clew.runtime.model.call import ask
from clew.runtime.model.protocol import ModelRequest, Reply
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
from clew.runtime.respond.compaction import Compaction, CompactionResult, compact, model_summarizer
from clew.runtime.settings import Settings
from clew.runtime.turn.approvals import doubtful_calls
from clew.runtime.turn.draft import CALLS, RUN
from clew.runtime.turn.inbound import run_state_of
from clew.runtime.turn.journal import run_with_ending


class IdleThread(msgspec.Struct, frozen=True, kw_only=True):
    """A thread that nobody works on; the run that stopped there unfinished, if one did, and its record.

    A fork may stand in the middle of a run of its parent. That run's record is the parent's affair.
    """

    head: Head
    run_id: str | None = None
    run: Run | None = None


async def read_idle_thread(db: Database, id: str, settings: Settings) -> IdleThread:
    """A thread that nobody works on.

    Raises:
        TurnBusy: A turn is at work.
    """
    return await read_idle_thread_at(db, id, settings.clock())


async def read_idle_thread_at(db: Database, id: str, time: int) -> IdleThread:
    """A thread that nobody works on at a time.

    Raises:
        TurnBusy: A turn is at work.
    """
    head = await db.thread(id).head()
    run_state = run_state_of(head.state)
    if run_state.status == DONE or not run_state.id:
        return IdleThread(head=head)
    try:
        run = run_of(await db.records.get(KIND, run_state.id))
    except RecordNotFound:
        return IdleThread(head=head, run_id=run_state.id)
    if run.thread != id:
        return IdleThread(head=head, run_id=run_state.id)
    if run.status == RUNNING and not is_orphaned(run, time):
        raise TurnBusy(thread=id, run=run.id, retry_after_ms=max(run.until - time, 0))
    return IdleThread(head=head, run_id=run_state.id, run=run)


def check_no_open_calls(head: Head) -> None:
    """Refuse while tool calls are open: they and what answers them belong together.

    Raises:
        TurnSuspended: Some wait for a decision.
        TranscriptBroken: Some were left open.
    """
    open_calls, run_state = list(head.counters.open), run_state_of(head.state)
    if open_calls and run_state.status == WAITING:
        raise TurnSuspended(thread=head.id, run=run_state.id, calls=open_calls)
    if open_calls:
        raise TranscriptBroken(thread=head.id, call=open_calls[0], problem="a tool call is still open")


async def compact_idle_thread(
    db: Database, id: str, compaction: Compaction, settings: Settings
) -> CompactionResult:
    """Compact a thread that nobody works on. What a run that may be resumed has added stays.

    Raises:
        InvalidArgument: There is nothing to compact, no model, or somebody else keeps this history.
        TurnBusy: A turn is at work.
        TurnSuspended: Tool calls wait for a decision; it has to wait until they are answered.
        TranscriptBroken: Tool calls were left open; the next turn closes them.
        VersionConflict: Somebody wrote meanwhile; nothing was changed.
        ModelFailed: There is no summary; nothing was changed.
    """
    idle_thread = await read_idle_thread(db, id, settings)
    head = idle_thread.head
    check_no_open_calls(head)
    thread, model = db.thread(id), settings.model
    if model is None and compaction.summarize is None:
        raise InvalidArgument(problem="A summary needs a model, or a function that makes it.")

    async def ask_model(request: ModelRequest) -> Reply:
        assert model is not None
        return await ask(model, request, settings.config.retry_policy)

    async def commit(change: Changeset) -> int:
        return (await thread.append(change, expect=Exact(head.version))).version

    summarize = compaction.summarize or model_summarizer(ask_model, compaction.instructions)
    items = await thread.items(at=head.version)
    keep = max(compaction.keep, _resumable_count(items, idle_thread.run_id))
    return await compact(id, head, items, keep, summarize, commit)


def _resumable_count(items: Window, run: str | None) -> int:
    """How many of the newest items a run that stopped unfinished needs, if it is to be resumed."""
    own = (at for at, item in enumerate(items) if run is not None and item.run == run)
    return len(items) - next(own, len(items))


class Abandonment(msgspec.Struct, frozen=True, kw_only=True):
    """What it takes to give up a run that stopped unfinished: it can be resumed no more."""

    patches: tuple[Op, ...] = ()
    writes: tuple[Write, ...] = ()
    meta: Document | None = None


def abandonment_of(idle_thread: IdleThread, reason: str, now: int) -> Abandonment:
    """What it takes to give up the run that stopped here, if one did."""
    if idle_thread.run_id is None:
        return Abandonment()
    head, run = idle_thread.head, idle_thread.run
    epoch = run_state_of(head.state).epoch + 1
    patches: list[Op] = [delete([CALLS])] if CALLS in head.state else []
    patches.append(merge([RUN], {"status": DONE, "epoch": epoch}))
    if run is None:
        return Abandonment(patches=tuple(patches))
    ending = Ending(termination=CANCELLED, problem=reason)
    final_run = msgspec.structs.replace(
        run_with_ending(run, ending, now), epoch=epoch, in_doubt=doubtful_calls(head.state)
    )
    return Abandonment(
        patches=tuple(patches),
        writes=(Put(record=record_of(final_run, head.owner), expect=run.revision),),
        meta=meta_of(run, ending),
    )
