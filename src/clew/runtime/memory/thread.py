"""The thread that a memory is: reading what is live in it, and changing it at exactly the version read."""

import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from clew.core import patch
from clew.core.errors import ThreadExists, ThreadNotFound, VersionConflict
from clew.core.ops import Document, Op, Set
from clew.core.values import (
    Absent,
    AppendTo,
    Changeset,
    Committed,
    Cut,
    Exact,
    Head,
    Item,
    Write,
)
from clew.database.database import Database
from clew.runtime.attempts import Attempts
from clew.runtime.memory.merge import rules_by_age
from clew.runtime.memory.values import ARCS, FACTS, MemoryProfile, PendingForget, Rule

SALT, RULES, RECALL, PENDING = "salt", "rules", "recall", "pending"
T = TypeVar("T")


class MemoryThread(msgspec.Struct, frozen=True, kw_only=True):
    """A memory thread at one version; version 0 if there is none yet."""

    head: Head | None
    state: Document

    @property
    def version(self) -> int:
        """The version of the thread; 0 if there is none yet."""
        return self.head.version if self.head is not None else 0

    @property
    def salt(self) -> str:
        """The salt that ids are made with."""
        return str(self.state[SALT])

    @property
    def rules(self) -> dict[str, Rule]:
        """The rules by id."""
        return {id: msgspec.convert(rule, Rule) for id, rule in self.state[RULES].items()}

    @property
    def profile(self) -> MemoryProfile:
        """The state in its own words."""
        pending = self.state.get(PENDING)
        return MemoryProfile(
            version=self.version,
            rules=tuple(rules_by_age(self.rules.values())),
            recall=bool(self.state[RECALL]),
            pending=msgspec.convert(pending, PendingForget) if pending is not None else None,
        )


class MemoryChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a memory: items that end, items that come, patches, and writes beside the thread."""

    reason: str
    ends: Sequence[Item] = ()
    items: Sequence[Item] = ()
    patches: Sequence[Op] = ()
    actions: Sequence[Document] = ()
    writes: Sequence[Write] = ()
    run: str | None = None
    key: str | None = None


def write_counts(change: MemoryChange | Changeset) -> dict[str, int]:
    """The number of entries of each kind that a change of a memory writes, new or in a new wording."""
    logs = [item.log for item in change.items]
    rules = [op for op in change.patches if isinstance(op, Set) and op.path[:1] == (RULES,) and op.path[1:]]
    return {"facts": logs.count(FACTS), "rules": len(rules), "arcs": logs.count(ARCS)}


async def read_memory_thread(db: Database, id: str) -> MemoryThread:
    """A memory thread as it is now."""
    try:
        head = await db.thread(id).head()
    except ThreadNotFound:
        return MemoryThread(head=None, state={SALT: secrets.token_hex(8), RULES: {}, RECALL: True})
    return MemoryThread(head=head, state=head.state)


async def change_memory(
    db: Database,
    id: str,
    owner: str | None,
    plan: Callable[[MemoryThread], Awaitable[tuple[MemoryChange | None, T]]],
) -> tuple[Committed | None, T]:
    """Commit what a plan makes of a memory, at the version it was made for; planned anew if that has moved.

    A plan gives its change, or None if there is nothing to change, and what it comes to, which is returned
    with the commit.

    Raises:
        VersionConflict: Others were quicker, again and again.
    """
    attempts = Attempts()
    while True:
        snapshot = await read_memory_thread(db, id)
        change, result = await plan(snapshot)
        if change is None:
            return None, result
        try:
            commit, *_ = await db.commit(writes_of_change(id, owner, snapshot, change))
        except (VersionConflict, ThreadExists) as conflict:
            attempts.count(conflict)
            continue
        assert isinstance(commit, Committed)
        return commit, result


def writes_of_change(id: str, owner: str | None, snapshot: MemoryThread, change: MemoryChange) -> list[Write]:
    """The writes that make a change of a memory, at the version it was planned for."""
    initial_patches: list[Op] = []
    if snapshot.head is None:
        initial_patches = [patch.set([name], snapshot.state[name]) for name in (SALT, RULES, RECALL)]
    changeset = Changeset(
        items=tuple(change.items),
        patches=(*initial_patches, *change.patches),
        cuts=tuple(
            Cut(log=item.log, first=item.place, last=item.place, count=1, open={}) for item in change.ends
        ),
        state_actions=tuple(change.actions),
        reason=change.reason,
        run_id=change.run,
        key=change.key,
    )
    expect = Absent(owner=owner) if snapshot.head is None else Exact(snapshot.version)
    return [AppendTo(thread=id, change=changeset, expect=expect), *change.writes]


async def visible_items(
    db: Database, id: str, snapshot: MemoryThread, ids: Iterable[str], log: str
) -> dict[str, Item]:
    """The visible items among those with some ids. Of each id that is the newest, or none."""
    unique_ids = tuple(dict.fromkeys(ids))
    if snapshot.head is None or not unique_ids:
        return {}
    thread = db.thread(id)
    newest = {item.id: item for item in await thread.items_by_id(unique_ids) if item.log == log}
    items: dict[str, Item] = {}
    for name, item in newest.items():
        window = await thread.items(
            after=item.place - 1, before=item.place + 1, at=snapshot.version, log=log, last=1
        )
        if window and name is not None:
            items[name] = window[0]
    return items


async def log_page(
    db: Database, id: str, log: str, *, limit: int, before: int | None = None
) -> tuple[Sequence[Item], int | None]:
    """Items of a log, the newest first, and where the next page begins."""
    try:
        window = await db.thread(id).items(log=log, last=limit + 1, before=before)
    except ThreadNotFound:
        return (), None
    items = list(window)[::-1]
    next_page = items[limit - 1].place if len(items) > limit else None
    return items[:limit], next_page
