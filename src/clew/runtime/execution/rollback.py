"""Take back one run: what it added at the end of each log, by one changeset. The past stays readable."""

from collections.abc import Sequence

import msgspec

from clew.core.errors import RewindRefused
from clew.core.log.tool_calls import open_calls_before
from clew.core.ops import Op
from clew.core.values import HISTORY, AppendTo, Changeset, Committed, Cut, Exact, Head, Item
from clew.database.database import Database
from clew.database.thread import Thread
from clew.runtime.records.effects import ExternalEffect
from clew.runtime.records.rewinds import REWIND
from clew.runtime.respond.compaction import COMPACT
from clew.runtime.state.run_state import starts_run
from clew.runtime.tools.effects import external_effects
from clew.runtime.turn.closure import RunClosure

FEW, MANY = 8, 128
"""The number of changesets read at a time when a run is looked for: a turn mostly has a few."""


class RewindResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a rewind: the items it ended and brought back, and the effects it cannot take back."""

    thread: str
    version: int
    items_removed: int
    items_restored: int = 0
    effects: tuple[ExternalEffect, ...] = ()


async def take_back_run(
    db: Database, head: Head, run: str, closure: RunClosure, *, may_be_empty: bool = False
) -> RewindResult:
    """End exactly what one run added, if that is the whole end of each log it wrote to. The state stays.

    ``closure`` closes the run that stopped on the thread, if one did, in the same changeset. A run that added
    nothing is refused, unless it ``may_be_empty``.

    Raises:
        RewindRefused: Something of it is not at the end, or not there any more.
        VersionConflict: Another writer was faster; nothing was changed.
    """
    thread = db.thread(head.id)
    changes = await _changes_of(thread, run, head.version)
    effects = await external_effects(thread, after=changes[0].version - 1, upto=head.version)
    if changes[-1].reason == REWIND:
        return _result_of(head.id, changes[-1], effects)  # it was done before, and only the answer was lost
    cuts = [
        await _run_suffix(thread, run, head, log, items)
        for log, items in _items_by_log(changes).items()
        if items
    ]
    if not cuts and not may_be_empty:
        raise RewindRefused(thread=head.id, problem=f"run {run!r} added nothing")
    change = rewind_changeset(cuts, (), closure.patches, head, run=run, closure=closure)
    return await commit_rewind(db, head, change, closure, effects)


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


# The changeset.


def rewind_changeset(
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


async def commit_rewind(
    db: Database,
    head: Head,
    change: Changeset,
    closure: RunClosure,
    effects: Sequence[ExternalEffect],
) -> RewindResult:
    """Commit the changeset of a rewind at the version that it was planned for, with the end of a run."""
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
