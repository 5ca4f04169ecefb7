"""Idle threads: no turn is at work on them, so that their history may be rewritten."""

import msgspec

from clew.core.errors import InvalidArgument, RecordNotFound, TranscriptBroken, TurnBusy, TurnSuspended
from clew.core.values import Changeset, Exact, Head, Window
from clew.database.database import Database
from clew.runtime.model.call import ask
from clew.runtime.model.protocol import ModelRequest, Reply
from clew.runtime.records.runs import CANCELLED, KIND, RUNNING, WAITING, Ending, Run, is_orphaned, run_of
from clew.runtime.respond.compaction import Compaction, CompactionResult, compact, model_summarizer
from clew.runtime.settings import Settings
from clew.runtime.state.run_state import RunState
from clew.runtime.state.thread_agent import check_thread_agent
from clew.runtime.turn.closure import RunClosure, close_run


class IdleThread(msgspec.Struct, frozen=True, kw_only=True):
    """A thread that no turn works on, with the run that stopped there unfinished, if one did, and its record.

    A fork that was made in the middle of a run of its parent has the id without the record, which is the
    parent's.
    """

    head: Head
    run_id: str | None = None
    run: Run | None = None


async def read_idle_thread(db: Database, id: str, now: int) -> IdleThread:
    """Read a thread that no turn works on.

    Raises:
        TurnBusy: A turn is at work.
    """
    head = await db.thread(id).head()
    run_state = RunState.of(head.state)
    if not run_state.is_open:
        return IdleThread(head=head)
    try:
        run = run_of(await db.records.get(KIND, run_state.id))
    except RecordNotFound:
        return IdleThread(head=head, run_id=run_state.id)
    if run.thread != id:
        return IdleThread(head=head, run_id=run_state.id)
    if run.status == RUNNING and not is_orphaned(run, now):
        raise TurnBusy(thread=id, run=run.id, retry_after_ms=max(run.until - now, 0))
    return IdleThread(head=head, run_id=run_state.id, run=run)


def check_no_open_calls(head: Head) -> None:
    """Refuse while tool calls are open: a call and its result belong together.

    Raises:
        TurnSuspended: Some wait for a decision.
        TranscriptBroken: Some were left open.
    """
    open_calls, run_state = list(head.counters.open), RunState.of(head.state)
    if open_calls and run_state.status == WAITING:
        raise TurnSuspended(thread=head.id, run=run_state.id, calls=open_calls)
    if open_calls:
        raise TranscriptBroken(thread=head.id, call=open_calls[0], problem="a tool call is still open")


async def compact_idle_thread(
    db: Database, id: str, compaction: Compaction, settings: Settings
) -> CompactionResult:
    """Compact a thread that no turn works on. What a run that may be resumed has added stays.

    Raises:
        InvalidArgument: There is nothing to compact, no model, or a guest's items are in this history.
        ThreadOfAnotherAgent: The thread is not this agent's to write.
        TurnBusy: A turn is at work.
        TurnSuspended: Tool calls wait for a decision; it has to wait until they are answered.
        TranscriptBroken: Tool calls were left open; the next turn closes them.
        VersionConflict: Another writer was faster; nothing was changed.
        ModelFailed: There is no summary; nothing was changed.
    """
    idle_thread = await read_idle_thread(db, id, settings.clock())
    head = idle_thread.head
    await check_thread_agent(db.thread(id), head, settings.agent)
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
    return await compact(head, items, keep, summarize, commit)


def _resumable_count(items: Window, run: str | None) -> int:
    """Return how many of the newest items a run needs that stopped unfinished and may be resumed."""
    own = (at for at, item in enumerate(items) if run is not None and item.run == run)
    return len(items) - next(own, len(items))


def abandon_run(idle_thread: IdleThread, reason: str, now: int) -> RunClosure:
    """Plan the close of the run that stopped on a thread, if one did: it can be resumed no more."""
    if idle_thread.run_id is None:
        return RunClosure()
    head, ending = idle_thread.head, Ending(termination=CANCELLED, problem=reason)
    return close_run(idle_thread.run, head, ending, now, owner=head.owner)
