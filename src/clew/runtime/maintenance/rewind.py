"""Rewinds: one run, or everything after a version, taken back by one changeset. The past stays readable.

Every rewind expects the version it was planned for. If another writer was faster it is refused, and nothing
has changed.
"""

from collections.abc import Sequence

import msgspec

from clew.core import ops, patch
from clew.core.errors import InvalidArgument, RewindRefused, ThreadExists, VersionConflict
from clew.core.log import places
from clew.core.log.checks import ExpectedVersion, expectation
from clew.core.log.tool_calls import open_calls_before
from clew.core.ops import Document, Op
from clew.core.values import (
    ABOUT_KEY,
    AGENT_KEY,
    HISTORY,
    Absent,
    AnyVersion,
    Cut,
    Exact,
    Expectation,
    Head,
    Item,
    LogSize,
    Window,
)
from clew.database.database import Database
from clew.database.thread import Thread
from clew.runtime.execution.rollback import RewindResult, commit_rewind, rewind_changeset, take_back_run
from clew.runtime.maintenance.idle import IdleThread, abandon_run, check_no_open_calls, read_idle_thread
from clew.runtime.respond.compaction import COMPACT
from clew.runtime.respond.view import SUMMARY
from clew.runtime.settings import Settings
from clew.runtime.state.run_state import state_without_run
from clew.runtime.state.thread_agent import check_thread_agent
from clew.runtime.tools.effects import external_effects
from clew.runtime.turn.closure import RunClosure

REASON = "It was taken back."
ANY_VERSION = AnyVersion()


async def rewind_thread(
    db: Database,
    id: str,
    settings: Settings,
    *,
    run: str | None = None,
    to: int | None = None,
    compaction: int | None = None,
    expect: ExpectedVersion = ANY_VERSION,
) -> RewindResult:
    """Take back a run, everything after a version, or a compaction by its version.

    Raises:
        InvalidArgument: Not exactly one of them is given, or there is no such thing to take back.
        RewindRefused: What should be taken back is not whole any more.
        ThreadOfAnotherAgent: The thread is not this agent's to write.
        TurnBusy: A turn is at work.
        VersionConflict: The thread is not where ``expect`` says, or another writer was faster; nothing was
            changed.
    """
    if [run, to, compaction].count(None) != 2:
        raise InvalidArgument(problem="Say what to take back: a run, to=version, or compaction=version.")
    idle_thread = await read_idle_thread(db, id, settings.clock())
    await check_thread_agent(db.thread(id), idle_thread.head, settings.agent)
    _check_version(idle_thread.head, expectation(expect))  # the commit expects the version of this head
    if run is not None:
        return await rewind_run(db, idle_thread, run, settings)
    if to is not None:
        return await rewind_to_version(db, idle_thread, to, settings)
    assert compaction is not None
    return await undo_compaction(db, idle_thread, compaction)


def _check_version(head: Head, expect: Expectation) -> None:
    if isinstance(expect, Absent):
        raise ThreadExists(thread=head.id)
    if isinstance(expect, Exact) and (expect.version != head.version or expect.hash not in (None, head.hash)):
        raise VersionConflict(thread=head.id, expected=expect.version, actual=head.version)


# One run.


async def rewind_run(db: Database, idle_thread: IdleThread, run: str, settings: Settings) -> RewindResult:
    """End exactly what one run added, if that is the whole end of each log it wrote to. The state stays.

    Raises:
        RewindRefused: Something of it is not at the end, or not there any more.
        VersionConflict: Another writer was faster; nothing was changed.
    """
    id, head = idle_thread.head.id, idle_thread.head
    if idle_thread.run_id not in (None, run):
        raise RewindRefused(thread=id, problem=f"run {idle_thread.run_id!r} has stopped behind run {run!r}")
    return await take_back_run(db, head, run, abandon_run(idle_thread, REASON, settings.clock()))


# Everything after a version.


async def rewind_to_version(
    db: Database, idle_thread: IdleThread, version: int, settings: Settings
) -> RewindResult:
    """Make history and state what they were at a version, as a new changeset.

    A run that stopped in between is closed. What the state said of runs does not come back.

    Raises:
        VersionNotFound: The thread has no such version.
        InvalidArgument: It is there already.
        RewindRefused: An item that should come back can no longer be read.
        VersionConflict: Another writer was faster; nothing was changed.
    """
    id, head = idle_thread.head.id, idle_thread.head
    thread = db.thread(id)
    before = await thread.head(at=version)
    if version == head.version:
        raise InvalidArgument(problem=f"Thread {id!r} is at version {version} already.")
    rewrites = [await _rewrite_to(thread, log, head, before) for log in sorted(head.counters.logs)]
    cuts, items = [cut for cut, _ in rewrites], [item for _, items in rewrites for item in items]
    effects = await external_effects(thread, after=version, upto=head.version)
    target = _with_agent_of(head, state_without_run(before.state))
    closure = abandon_run(idle_thread, REASON, settings.clock())
    patches = ops.diff(head.state, target)
    change = rewind_changeset(cuts, items, patches, head, run=None, closure=closure)
    return await commit_rewind(db, head, change, closure, effects)


def _with_agent_of(head: Head, state: Document) -> Document:
    """Return a state with the agent that a thread has now: who writes it is not taken back with its past."""
    if head.agent is None:
        return state
    about = state.get(ABOUT_KEY)
    return {**state, ABOUT_KEY: {**(about if isinstance(about, dict) else {}), AGENT_KEY: head.agent}}


async def _rewrite_to(thread: Thread, log: str, head: Head, before: Head) -> tuple[Cut, Sequence[Item]]:
    """Return the cut of the newest items of a log, and the items behind it, that make the log what it was."""
    now, then = head.counters.logs[log], before.counters.logs.get(log, LogSize())
    if now.cuts == then.cuts and now.end - then.end == now.length - then.length:
        cut = Cut(  # it was only appended to, or not even that, so nothing needs to be read
            log=log,
            first=places.place_of(then.end + 1),
            last=places.place_of(now.end),
            count=now.length - then.length,
            open=before.counters.open,
        )
        return cut, ()
    items = await thread.items(at=before.version, log=log)
    if items.broken:
        raise RewindRefused(thread=thread.id, problem=f"an item of log {log!r} cannot be read")
    current = await thread.items(at=head.version, log=log)
    return _rewrite_log(log, now, current, items.items, before.counters.open)


def _rewrite_log(
    log: str, size: LogSize, now: Window, target: Sequence[Item], open: dict[str, str | None]
) -> tuple[Cut, Sequence[Item]]:
    """Return the cut and the items that make a log a list of items; what both begin with stays."""
    common = 0
    while common < min(len(now), len(target)) and now[common].place == target[common].place:
        common += 1
    again = target[common:]
    cut = Cut(
        log=log,
        first=now[common - 1].place + 1 if common else 1,
        last=places.end_of(size.end),
        count=size.length - common,
        open=open_calls_before(open, again),
    )
    return cut, [msgspec.structs.replace(item, place=0) for item in again]


# A compaction.


async def undo_compaction(db: Database, idle_thread: IdleThread, version: int) -> RewindResult:
    """Put the messages back that a compaction ended, before all that came after it.

    Raises:
        InvalidArgument: That version is no compaction.
        RewindRefused: Its summary, or something it kept, has been taken away since.
        TurnSuspended: Tool calls wait for a decision.
        TranscriptBroken: Tool calls were left open.
        VersionConflict: Another writer was faster; nothing was changed.
    """
    id, head = idle_thread.head.id, idle_thread.head
    thread = db.thread(id)
    check_no_open_calls(head)
    changes = await thread.changesets(after=version - 1, upto=version, limit=1)
    if not changes or changes[0].reason != COMPACT or changes[0].version != version:
        raise InvalidArgument(problem=f"Version {version} of thread {id!r} is no compaction.")
    earlier, after = await thread.items(at=version - 1), await thread.items(at=version)
    now = await thread.items(at=head.version)
    if now.broken or earlier.broken or [i.place for i in after] != [i.place for i in now[: len(after)]]:
        raise RewindRefused(thread=id, problem=f"what the compaction at {version} left is not whole any more")
    target = [*earlier, *now[len(after) :]]
    cut, items = _rewrite_log(HISTORY, head.counters.logs[HISTORY], now, target, {})
    patches = _unmark_ops(head.state, await thread.state(at=version - 1))
    change = rewind_changeset([cut], items, patches, head, run=None)
    return await commit_rewind(db, head, change, RunClosure(), ())


def _unmark_ops(state: Document, before: Document) -> list[Op]:
    """Return the op that deletes the mark of a summary, unless the mark was there before."""
    had, has = before.get(ABOUT_KEY), state.get(ABOUT_KEY)
    if (isinstance(had, dict) and SUMMARY in had) or not (isinstance(has, dict) and SUMMARY in has):
        return []
    return [patch.delete([ABOUT_KEY, SUMMARY])]
