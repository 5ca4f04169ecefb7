"""Undoing a change of a memory by another that takes back its effect, and nothing that came after it."""

from collections.abc import Sequence

import msgspec

from clew.core import patch
from clew.core.errors import InvalidArgument, RewindRefused
from clew.core.ops import Document, Op, Set
from clew.core.values import Changeset, Cut, Item
from clew.database.database import Database
from clew.database.thread import Thread
from clew.runtime.memory.past import visible_past_items
from clew.runtime.memory.thread import RECALL, RULES, MemoryChange, MemoryThread, visible_items
from clew.runtime.memory.values import ARCS, FACTS, PAST, Fact, MemoryEntry, Rule, arc_of, fact_of

UNDO = "Undo"
NEUTRAL_REASONS = ("Propose", "Cancel")
"""Changes that leave what is known as it was."""

CHANGES_PER_PAGE = 64


class UndoPreview(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of an undo: what is not known any more, what is known again, and recall if it is switched.

    ``reason`` says how the change came about that made ``version``: Learn, CloseEpisode, Correct, Forget,
    SetRecall or Undo.
    """

    version: int
    reason: str
    removes: tuple[MemoryEntry, ...] = ()
    restores: tuple[MemoryEntry, ...] = ()
    recall: bool | None = None


def undo_preview(plan: MemoryChange, reason: str, snapshot: MemoryThread) -> UndoPreview:
    """The effect of a planned undo, without past facts and what says the same before and after."""
    removes, restores = _entries_of(plan.ends), _entries_of(plan.items)
    rules = [op for op in plan.patches if op.path[:1] == (RULES,)]
    removes += [snapshot.rules[id] for op in rules for id in map(str, op.path[1:]) if id in snapshot.rules]
    restores += [msgspec.convert(op.value, Rule) for op in rules if isinstance(op, Set)]
    recalls = [bool(op.value) for op in plan.patches if isinstance(op, Set) and op.path == (RECALL,)]
    lasting = {(entry.id, entry.text) for entry in removes} & {(entry.id, entry.text) for entry in restores}
    return UndoPreview(
        version=int(plan.actions[0]["undo"]),
        reason=reason,
        removes=tuple(entry for entry in removes if (entry.id, entry.text) not in lasting),
        restores=tuple(entry for entry in restores if (entry.id, entry.text) not in lasting),
        recall=recalls[0] if recalls else None,
    )


def _entries_of(items: Sequence[Item]) -> list[MemoryEntry]:
    facts: list[MemoryEntry] = [fact_of(item) for item in items if item.log == FACTS]
    return [*facts, *(arc_of(item) for item in items if item.log == ARCS)]


async def plan_undo(db: Database, id: str, snapshot: MemoryThread, version: int | None) -> MemoryChange:
    """Plan to take back the change that made a version, or the last that was not undone.

    Raises:
        InvalidArgument: There is no such change.
        RewindRefused: What it did has been changed again since.
    """
    thread = db.thread(id)
    change = await (
        _last_change(thread, snapshot) if version is None else _change_at(thread, snapshot, version)
    )
    new_items = await _items_as_they_were(db, id, snapshot, change.items)
    old_items = [item for cut in change.cuts for item in await _items_of_cut(thread, cut, change.version)]
    await _check_not_relearned(db, id, snapshot, old_items, new_items)
    before = await thread.state(at=change.version - 1)
    after = await thread.state(at=change.version)
    patches = _undo_patches(id, before, after, snapshot.state)
    if not (new_items or old_items or patches):
        raise InvalidArgument(problem=f"Change {change.version} has no effect any more; nothing is undone.")
    return MemoryChange(
        reason=UNDO,
        ends=new_items,
        items=[_copy_item(item) for item in old_items],
        patches=patches,
        actions=[{"undo": change.version}],
    )


async def _last_change(thread: Thread, snapshot: MemoryThread) -> Changeset:
    """The newest change that does something and was not undone; looked for from the end.

    An undo is passed over together with what it took back. One that took back an undo brought something
    back, and that can be taken back like any other change.
    """
    undo_targets: set[int] = set()
    upto = snapshot.version
    while upto > 0:
        changes = await thread.changesets(
            after=max(upto - CHANGES_PER_PAGE, 0), upto=upto, limit=CHANGES_PER_PAGE
        )
        for change in reversed(changes):
            if change.version in undo_targets or change.reason in NEUTRAL_REASONS or change.erased:
                continue
            if not await _is_effective_undo(thread, change):
                return change
            undo_targets.add(_version_taken_back(change))
        upto -= CHANGES_PER_PAGE
    raise InvalidArgument(problem="There is nothing to undo.")


async def _change_at(thread: Thread, snapshot: MemoryThread, version: int) -> Changeset:
    if not 0 < version <= snapshot.version:
        raise InvalidArgument(problem=f"There is no change {version} to undo.")
    (change,) = await thread.changesets(after=version - 1, upto=version, limit=1)
    if change.erased:
        raise InvalidArgument(problem=f"Change {version} was erased, and cannot be undone.")
    return change


async def _is_effective_undo(thread: Thread, change: Changeset) -> bool:
    """Return whether a change is an undo that left something taken back."""
    is_effective = False
    while change.reason == UNDO and not change.erased:
        is_effective, target = not is_effective, _version_taken_back(change)
        (change,) = await thread.changesets(after=target - 1, upto=target, limit=1)
    return is_effective


def _version_taken_back(change: Changeset) -> int:
    """The version that an undo took back."""
    (action,) = change.state_actions
    return int(action["undo"])


async def _items_as_they_were(
    db: Database, id: str, snapshot: MemoryThread, items: Sequence[Item]
) -> list[Item]:
    """The items that a change added and that are unchanged. Those forgotten since need no undoing.

    A fact can have several past ones, so those are told apart by the ids of their own.
    """
    result: list[Item] = []
    for item in items:
        if item.log == PAST:
            past = await visible_past_items(db, id, snapshot, [item.id or ""])
            result += [past[name] for name in [fact_of(item).id] if name in past]
            continue
        current = (await visible_items(db, id, snapshot, [item.id or ""], item.log)).get(item.id or "")
        # By what it says: an undo in between has put it back at another place.
        if current is not None and current.body != item.body:
            raise RewindRefused(thread=id, problem=f"{item.id!r} has been changed again since")
        if current is None and item.log == FACTS and await _has_ended(db, id, snapshot, fact_of(item)):
            raise RewindRefused(thread=id, problem=f"{item.id!r} has ended since")
        result += [current] if current is not None else []
    return result


async def _has_ended(db: Database, id: str, snapshot: MemoryThread, fact: Fact) -> bool:
    """Return whether a fact is past by now."""
    past = map(fact_of, (await visible_past_items(db, id, snapshot, [fact.id])).values())
    state = (fact.object, fact.negated, fact.began)
    return any((other.object, other.negated, other.began) == state for other in past)


async def _items_of_cut(thread: Thread, cut: Cut, version: int) -> Sequence[Item]:
    window = await thread.items(
        after=cut.first - 1, before=cut.last + 1, at=version - 1, log=cut.log, last=cut.count
    )
    return window.items


async def _check_not_relearned(
    db: Database, id: str, snapshot: MemoryThread, old_items: Sequence[Item], new_items: Sequence[Item]
) -> None:
    """Refuse to bring back what is there again by a later change."""
    leaving_places = {(item.log, item.place) for item in new_items}
    for item in old_items:
        if item.log == PAST:
            continue
        current = (await visible_items(db, id, snapshot, [item.id or ""], item.log)).get(item.id or "")
        if current is not None and (current.log, current.place) not in leaving_places:
            raise RewindRefused(thread=id, problem=f"{item.id!r} has been learned again since")


def _copy_item(item: Item) -> Item:
    return Item(body=item.body, kind=item.kind, id=item.id, log=item.log)


def _undo_patches(id: str, before: Document, after: Document, current: Document) -> list[Op]:
    """The ops that bring rules and recall back to what they were, if they have not changed since."""
    ops: list[Op] = []
    rules_before, rules_after = before.get(RULES, {}), after.get(RULES, {})
    for name in sorted({*rules_before, *rules_after}):
        if rules_before.get(name) != rules_after.get(name):
            if current[RULES].get(name) != rules_after.get(name):
                raise RewindRefused(thread=id, problem=f"{name!r} has been changed again since")
            ops.append(
                patch.set([RULES, name], rules_before[name])
                if name in rules_before
                else patch.delete([RULES, name])
            )
    if before.get(RECALL, True) != after.get(RECALL, True):
        ops.append(patch.set([RECALL], before.get(RECALL, True)))
    return ops
