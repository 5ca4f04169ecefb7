"""Undoing a change of a memory by another that takes back its effect, and nothing that came after it."""

from collections.abc import Sequence

from clew.core import patch
from clew.core.errors import InvalidArgument, RewindRefused
from clew.core.ops import Document, Op
from clew.core.values import Changeset, Cut, Item
from clew.database.database import Database
from clew.database.thread import Thread
from clew.runtime.memory.thread import RECALL, RULES, Change, Shelf, live

UNDO = "Undo"
NOTHING = ("Propose", "Cancel")
"""Changes that leave what is known as it was."""

PAGE = 64


async def reversed_change(db: Database, id: str, shelf: Shelf, version: int | None) -> Change:
    """What takes back the change that made a version, or the last that was not undone.

    Raises:
        InvalidArgument: There is no such change.
        RewindRefused: What it did has been changed again since.
    """
    thread = db.thread(id)
    change = await (_last(thread, shelf) if version is None else _named(thread, shelf, version))
    added = await _still_there(db, id, shelf, change.items)
    ended = [item for cut in change.cuts for item in await _ended(thread, cut, change.version)]
    await _check_free(db, id, shelf, ended, added)
    before = await thread.state(at=change.version - 1)
    after = await thread.state(at=change.version)
    patches = _patches(id, before, after, shelf.state)
    if not (added or ended or patches):
        raise InvalidArgument(problem=f"Change {change.version} has no effect any more; nothing is undone.")
    return Change(
        reason=UNDO,
        ends=added,
        items=[_again(item) for item in ended],
        patches=patches,
        actions=[{"undo": change.version}],
    )


async def _last(thread: Thread, shelf: Shelf) -> Changeset:
    """The newest change that does something and was not undone; looked for from the end.

    An undo is passed over together with what it took back. One that took back an undo brought something
    back, and that can be taken back like any other change.
    """
    undone: set[int] = set()
    upto = shelf.version
    while upto > 0:
        changes = await thread.changesets(after=max(upto - PAGE, 0), upto=upto, limit=PAGE)
        for change in reversed(changes):
            if change.version in undone or change.reason in NOTHING or change.erased:
                continue
            if not await _takes_back(thread, change):
                return change
            undone.add(_undone_by(change))
        upto -= PAGE
    raise InvalidArgument(problem="There is nothing to undo.")


async def _named(thread: Thread, shelf: Shelf, version: int) -> Changeset:
    if not 0 < version <= shelf.version:
        raise InvalidArgument(problem=f"There is no change {version} to undo.")
    (change,) = await thread.changesets(after=version - 1, upto=version, limit=1)
    if change.erased:
        raise InvalidArgument(problem=f"Change {version} was erased, and cannot be undone.")
    return change


async def _takes_back(thread: Thread, change: Changeset) -> bool:
    """Whether a change is an undo that left something taken back."""
    takes_back = False
    while change.reason == UNDO and not change.erased:
        takes_back, target = not takes_back, _undone_by(change)
        (change,) = await thread.changesets(after=target - 1, upto=target, limit=1)
    return takes_back


def _undone_by(change: Changeset) -> int:
    """The version that an undo took back."""
    (action,) = change.state_actions
    return int(action["undo"])


async def _still_there(db: Database, id: str, shelf: Shelf, items: Sequence[Item]) -> list[Item]:
    """What a change added and is there as it was. What was forgotten since needs no undoing."""
    found: list[Item] = []
    for item in items:
        now = (await live(db, id, shelf, [item.id or ""], item.log)).get(item.id or "")
        if now is not None and now.place != item.place:
            raise RewindRefused(thread=id, problem=f"{item.id!r} has been changed again since")
        found += [now] if now is not None else []
    return found


async def _ended(thread: Thread, cut: Cut, version: int) -> Sequence[Item]:
    window = await thread.items(
        after=cut.first - 1, before=cut.last + 1, at=version - 1, log=cut.log, last=cut.count
    )
    return window.items


async def _check_free(
    db: Database, id: str, shelf: Shelf, ended: Sequence[Item], added: Sequence[Item]
) -> None:
    """Refuse to bring back what is there again by a later change."""
    leaving = {item.place for item in added}
    for item in ended:
        now = (await live(db, id, shelf, [item.id or ""], item.log)).get(item.id or "")
        if now is not None and now.place not in leaving:
            raise RewindRefused(thread=id, problem=f"{item.id!r} has been learned again since")


def _again(item: Item) -> Item:
    return Item(body=item.body, kind=item.kind, id=item.id, log=item.log)


def _patches(id: str, before: Document, after: Document, now: Document) -> list[Op]:
    """What brings rules and recall back to what they were, if nobody has changed them since."""
    found: list[Op] = []
    had, has = before.get(RULES, {}), after.get(RULES, {})
    for name in sorted({*had, *has}):
        if had.get(name) != has.get(name):
            if now[RULES].get(name) != has.get(name):
                raise RewindRefused(thread=id, problem=f"{name!r} has been changed again since")
            found.append(patch.set([RULES, name], had[name]) if name in had else patch.delete([RULES, name]))
    if before.get(RECALL, True) != after.get(RECALL, True):
        found.append(patch.set([RECALL], before.get(RECALL, True)))
    return found
