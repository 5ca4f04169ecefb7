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
    AppendTo,
    Changeset,
    Committed,
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
from clew.runtime.maintenance.idle import IdleThread, abandon_run, check_no_open_calls, read_idle_thread
from clew.runtime.records.rewinds import REWIND
from clew.runtime.respond.compaction import COMPACT
from clew.runtime.respond.view import SUMMARY
from clew.runtime.settings import Settings
from clew.runtime.state.run_state import starts_run, state_without_run
from clew.runtime.state.thread_agent import check_thread_agent
from clew.runtime.tools.effects import ExternalEffect, external_effects
from clew.runtime.turn.closure import RunClosure

FEW, MANY = 8, 128
"""The number of changesets read at a time when a run is looked for: a turn mostly has a few."""
REASON = "It was taken back."
ANY_VERSION = AnyVersion()


class RewindResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a rewind: the items it ended and brought back, and the effects it cannot take back."""

    thread: str
    version: int
    items_removed: int
    items_restored: int = 0
    effects: tuple[ExternalEffect, ...] = ()


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
    thread = db.thread(id)
    if idle_thread.run_id not in (None, run):
        raise RewindRefused(thread=id, problem=f"run {idle_thread.run_id!r} has stopped behind run {run!r}")
    changes = await _changes_of(thread, run, head.version)
    effects = await external_effects(thread, after=changes[0].version - 1, upto=head.version)
    if changes[-1].reason == REWIND:
        return _result_of(id, changes[-1], effects)  # it was done before, and only the answer was lost
    cuts = [
        await _run_suffix(thread, run, head, log, items)
        for log, items in _items_by_log(changes).items()
        if items
    ]
    if not cuts:
        raise RewindRefused(thread=id, problem=f"run {run!r} added nothing")
    closure = abandon_run(idle_thread, REASON, settings.clock())
    change = _changeset(cuts, (), closure.patches, head, run=run, closure=closure)
    return await _commit_rewind(db, idle_thread, change, closure, effects)


async def _changes_of(thread: Thread, run: str, upto: int) -> list[Changeset]:
    """Find the changesets of a run, from its first on. They are looked for from the end."""
    changes: list[Changeset] = []
    size = FEW
    while upto > 0:
        page = await thread.changesets(after=max(upto - size, 0), upto=upto, limit=size)
        own = [change for change in page if change.run_id == run]
        changes = own + changes
        start = next((at for at, change in enumerate(changes) if starts_run(change, run)), None)
        if start is not None:
            return changes[start:]
        if not own and size >= MANY:
            break
        upto, size = page[0].version - 1, min(size * 4, MANY)
    raise RewindRefused(thread=thread.id, problem=f"run {run!r} is not at its end")


def _items_by_log(changes: Sequence[Changeset]) -> dict[str, list[Item]]:
    logs: dict[str, list[Item]] = {}
    for change in changes:
        if change.reason in (COMPACT, REWIND):
            continue  # their items sum up those of others, or bring them back
        for item in change.items:
            logs.setdefault(item.log, []).append(item)
    return logs


async def _run_suffix(thread: Thread, run: str, head: Head, log: str, items: Sequence[Item]) -> Cut:
    """Return the cut that ends these items, after a check that they are the whole end of the log."""
    end = await thread.items(last=len(items), at=head.version, log=log)
    if end.broken or [item.place for item in end] != [item.place for item in items]:
        problem = f"what run {run!r} added to log {log!r} is not the whole end of it"
        raise RewindRefused(thread=thread.id, problem=problem)
    return Cut(
        log=log,
        first=end[0].place,
        last=end[-1].place,
        count=len(end),
        open=open_calls_before(head.counters.open, end.items),
    )


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
    change = _changeset(cuts, items, patches, head, run=None, closure=closure)
    return await _commit_rewind(db, idle_thread, change, closure, effects)


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
    change = _changeset([cut], items, patches, head, run=None)
    return await _commit_rewind(db, idle_thread, change, RunClosure(), ())


def _unmark_ops(state: Document, before: Document) -> list[Op]:
    """Return the op that deletes the mark of a summary, unless the mark was there before."""
    had, has = before.get(ABOUT_KEY), state.get(ABOUT_KEY)
    if (isinstance(had, dict) and SUMMARY in had) or not (isinstance(has, dict) and SUMMARY in has):
        return []
    return [patch.delete([ABOUT_KEY, SUMMARY])]


# The changeset.


def _changeset(
    cuts: Sequence[Cut],
    items: Sequence[Item],
    patches: Sequence[Op],
    head: Head,
    *,
    run: str | None,
    closure: RunClosure | None = None,
) -> Changeset:
    """Return the changeset of a rewind. Its cuts share the calls that are open behind that of the history."""
    changed_logs = {cut.log for cut in cuts if cut.count} | {item.log for item in items}
    history = next((cut for cut in cuts if cut.log == HISTORY and HISTORY in changed_logs), None)
    open = head.counters.open if history is None else history.open
    return Changeset(
        cuts=tuple(msgspec.structs.replace(cut, open=open) for cut in cuts if cut.count),
        items=tuple(items),
        patches=tuple(patches),
        reason=REWIND,
        run_id=run,
        run_meta=closure.meta if closure is not None else None,
    )


async def _commit_rewind(
    db: Database,
    idle_thread: IdleThread,
    change: Changeset,
    closure: RunClosure,
    effects: Sequence[ExternalEffect],
) -> RewindResult:
    head = idle_thread.head
    append = AppendTo(thread=head.id, change=change, expect=Exact(head.version))
    results = await db.commit([append, *closure.writes])
    commit = results[0]
    assert isinstance(commit, Committed)
    return _result_of(head.id, msgspec.structs.replace(change, version=commit.version), effects)


def _result_of(id: str, change: Changeset, effects: Sequence[ExternalEffect]) -> RewindResult:
    return RewindResult(
        thread=id,
        version=change.version,
        items_removed=sum(cut.count for cut in change.cuts),
        items_restored=len(change.items),
        effects=tuple(effects),
    )
