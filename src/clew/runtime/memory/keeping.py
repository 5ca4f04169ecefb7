"""A memory: what is known of one user, or of a thread without one. Learn, look, correct, forget, undo.

It is a thread of its own (``memory/alice``), so every change of it is a changeset: it has a history, can be
undone, is exported, verified and erased like any other thread.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

from clew.core import making
from clew.core.arguments import check_arguments, check_methods
from clew.core.encoding import JSON, plain
from clew.core.errors import InvalidArgument, KeyReused, RecordNotFound
from clew.core.ops import Op
from clew.core.owners import memory_thread
from clew.core.values import Committed, Drop, Item, Write
from clew.runtime.memory import shelf as shelves
from clew.runtime.memory import slots, undoing
from clew.runtime.memory.changing import corrected, learning, seal, target_of
from clew.runtime.memory.embedding import VECTOR, vector_id
from clew.runtime.memory.merging import Known, Learned, Merged, merged
from clew.runtime.memory.shelf import PENDING, RECALL, RULES, Change, Shelf
from clew.runtime.memory.values import (
    ARCHIVED,
    ARCS,
    FACTS,
    THEMES,
    Arc,
    Candidate,
    Fact,
    Forgotten,
    Listed,
    Pending,
    Profile,
    Rule,
    Source,
    Target,
    arc_of,
    fact_of,
    item_of,
    rule_of,
)
from clew.runtime.settings import now_ms
from clew.threads.database import Database

PAGE = 200
Entries: TypeAlias = dict[str, tuple[Fact | Arc | Rule, Item | None]]
"""What is known by its id, and the item that holds it if it stands in a log."""


@check_methods
class Memory:
    """What is known of one owner. Whatever it changes it changes at the version it has read, or anew."""

    def __init__(
        self, db: Database, owner: str, *, of_thread: bool = False, clock: Callable[[], int] = now_ms
    ) -> None:
        self.db = db
        self.owner = None if of_thread else owner
        self.thread = memory_thread(owner, of_thread=of_thread)
        self._clock = clock

    # Looking.

    async def profile(self) -> Profile:
        """Its rules, whether recall is on, and what waits to be confirmed."""
        return (await self._now()).profile

    async def page(
        self, kind: Literal["facts", "arcs"] = "facts", *, limit: int = 20, before: int | None = None
    ) -> Listed:
        """What is known, newest first; ``before`` is where the page before ended."""
        if kind not in (FACTS, ARCS) or limit < 1:
            raise InvalidArgument(problem="List facts or arcs, at least one at a time.")
        items, more = await shelves.page(self.db, self.thread, kind, limit=limit, before=before)
        if kind == FACTS:
            return Listed(facts=tuple(map(fact_of, items)), next=more)
        return Listed(arcs=tuple(map(arc_of, items)), next=more)

    async def get(self, id: str) -> Fact | Arc | Rule:
        """What an id stands for, with its source.

        Raises:
            RecordNotFound: It is not known, or not any more.
        """
        return (await self._entries(await self._now(), [id]))[id][0]

    async def history(self, id: str) -> list[Fact]:
        """Every state of a fact, oldest first, also what was superseded or forgotten since."""
        if (await self._now()).head is None:
            return []
        items = await self.db.thread(self.thread).named([id])
        return [fact_of(item) for item in items if item.log == FACTS]

    # Learning.

    async def learn(
        self, candidates: Iterable[Candidate], *, run: str | None = None, key: str | None = None
    ) -> Learned:
        """Keep candidates, in one change: repetitions refresh, contradictions supersede, the rest is new.

        With a ``key`` the same call a second time changes nothing.
        """
        given = list(candidates)
        done: list[Merged] = []

        async def plan(shelf: Shelf) -> Change | None:
            change, found = await self._learning(shelf, given, run, key)
            done[:] = [found]
            return change if given else None

        try:
            committed = await self._change(plan)
        except KeyReused:
            return Learned(version=(await self._now()).version, repeated=True)
        if committed is None:
            return Learned(version=(await self._now()).version)
        return Learned(
            version=committed.version, outcomes=tuple(done[0].outcomes), repeated=committed.repeated
        )

    async def closing(self, arc: Arc, candidates: Iterable[Candidate]) -> list[Write]:
        """The writes that keep an arc and candidates in one change, to be committed with others.

        There are none if the arc is kept already. If the memory moves meanwhile, the commit is refused with
        ``VersionConflict``; then ask again.
        """
        kept = msgspec.structs.replace(arc, id=f"arc-{arc.episode}", themes=arc.themes[:THEMES])
        shelf = await self._now()
        if await shelves.live(self.db, self.thread, shelf, [kept.id], ARCS):
            return []
        change, _ = await self._learning(shelf, list(candidates), None, None)
        change = msgspec.structs.replace(change, reason="CloseEpisode", items=[*change.items, item_of(kept)])
        return shelves.writes_of(self.thread, self.owner, shelf, change)

    # Correcting.

    async def correct(
        self, id: str, *, object: str, quote: str = "", source: Source | None = None, negated: bool = False
    ) -> Fact | Rule:
        """Put right what a fact says of its subject, or how a rule is worded.

        A fact that is then about something else gets the id of that.

        Raises:
            RecordNotFound: It is not known, or not any more.
        """
        result: list[Fact | Rule] = []

        async def plan(shelf: Shelf) -> Change:
            before, item = (await self._entries(shelf, [id]))[id]
            after = corrected(before, object, quote, source, negated=negated, now=self._clock())
            if isinstance(after, Rule):
                result[:] = [after]
                return Change(reason="Correct", patches=[making.set([RULES, id], plain(after))])
            after = msgspec.structs.replace(after, id=slots.fact_id(after, shelf.salt))
            taken = await shelves.live(self.db, self.thread, shelf, {after.id} - {id}, FACTS)
            result[:] = [after]
            ends = [entry for entry in (item, *taken.values()) if entry is not None]
            return Change(reason="Correct", ends=ends, items=[item_of(after)], writes=self._vectors(ends))

        await self._change(plan)
        return result[0]

    async def set_recall(self, *, on: bool) -> None:
        """Whether what is recalled may be brought up. Rules apply either way."""

        async def plan(shelf: Shelf) -> Change | None:
            if shelf.profile.recall is on:
                return None
            return Change(reason="SetRecall", patches=[making.set([RECALL], on)])

        await self._change(plan)

    # Forgetting, in two steps.

    async def targets(self, ids: Sequence[str]) -> tuple[Target, ...]:
        """What some ids stand for just now: to be shown to somebody, and given to ``forget`` if they agree.

        Raises:
            RecordNotFound: One of them is not known, or not any more.
        """
        return _targets(await self._entries(await self._now(), ids))

    async def forget(self, targets: Sequence[Target]) -> Forgotten:
        """Forget what somebody was shown and agreed to. What has changed since it was shown stays."""
        done: list[Forgotten] = []

        async def plan(shelf: Shelf) -> Change | None:
            change, result = await self._forgetting(shelf, targets)
            done[:] = [result]
            return change if result.ids else None

        committed = await self._change(plan)
        return done[0] if committed is None else msgspec.structs.replace(done[0], version=committed.version)

    async def propose(self, ids: Sequence[str]) -> Pending:
        """Get ready to forget these, and wait for a word. What waited before is given up.

        Raises:
            RecordNotFound: One of them is not known, or not any more.
        """
        found: list[Pending] = []

        async def plan(shelf: Shelf) -> Change:
            targets = _targets(await self._entries(shelf, ids))
            found[:] = [Pending(action="forget", targets=targets, time=self._clock())]
            return Change(reason="Propose", patches=[making.set([PENDING], plain(found[0]))])

        await self._change(plan)
        return found[0]

    async def confirm(self, only: Sequence[str] | None = None) -> Forgotten:
        """Forget what waits (or ``only`` some of it). What has changed since it was shown stays.

        Raises:
            InvalidArgument: Nothing waits.
        """
        done: list[Forgotten] = []

        async def plan(shelf: Shelf) -> Change:
            pending = shelf.profile.pending
            if pending is None:
                raise InvalidArgument(problem="Nothing waits to be confirmed.")
            targets = [target for target in pending.targets if only is None or target.id in only]
            change, result = await self._forgetting(shelf, targets)
            done[:] = [result]
            answered = [*change.patches, making.delete([PENDING])]
            return msgspec.structs.replace(change, patches=answered)

        committed = await self._change(plan)
        assert committed is not None
        return msgspec.structs.replace(done[0], version=committed.version)

    async def cancel(self) -> bool:
        """Forget nothing; whether something had waited."""

        async def plan(shelf: Shelf) -> Change | None:
            if shelf.profile.pending is None:
                return None
            return Change(reason="Cancel", patches=[making.delete([PENDING])])

        return await self._change(plan) is not None

    # Undoing and carrying away.

    async def undo(self, version: int | None = None) -> int:
        """Take back the last change, or the one that made a version; the version it took back.

        Raises:
            InvalidArgument: There is nothing to undo.
            RewindRefused: What it did has been changed again since.
        """
        undone: list[int] = []

        async def plan(shelf: Shelf) -> Change:
            change = await undoing.reversed_change(self.db, self.thread, shelf, version)
            undone[:] = [int(change.actions[0]["undo"])]
            return msgspec.structs.replace(change, writes=self._vectors(change.ends))

        await self._change(plan)
        return undone[0]

    async def export(self) -> dict[str, JSON]:
        """Everything that is known, with the source of each, as JSON; also archived rules."""
        profile = await self.profile()
        return {
            "owner": self.owner,
            "thread": self.thread,
            "version": profile.version,
            "recall": profile.recall,
            "rules": plain(profile.rules),
            "archived_rules": plain([rule_of(item) for item in await self._all(ARCHIVED)]),
            "facts": plain([fact_of(item) for item in await self._all(FACTS)]),
            "arcs": plain([arc_of(item) for item in await self._all(ARCS)]),
        }

    # What they have in common.

    async def _now(self) -> Shelf:
        return await shelves.opened(self.db, self.thread)

    async def _change(self, plan: shelves.Plan) -> Committed | None:
        return await shelves.changed(self.db, self.thread, self.owner, plan)

    async def _all(self, log: str) -> list[Item]:
        found: list[Item] = []
        before: int | None = None
        while True:
            items, before = await shelves.page(self.db, self.thread, log, limit=PAGE, before=before)
            found += items
            if before is None:
                return found[::-1]

    async def _learning(
        self, shelf: Shelf, candidates: Sequence[Candidate], run: str | None, key: str | None
    ) -> tuple[Change, Merged]:
        known = await self._known(shelf, candidates)
        found = merged(candidates, known, shelf.rules, salt=shelf.salt, now=self._clock())
        return learning(found, known, run, key), found

    async def _known(self, shelf: Shelf, candidates: Sequence[Candidate]) -> dict[str, Known]:
        ids = [slots.fact_id(entry, shelf.salt) for entry in candidates if entry.kind == "fact"]
        items = await shelves.live(self.db, self.thread, shelf, ids, FACTS)
        return {id: Known(fact=fact_of(item), item=item) for id, item in items.items()}

    async def _entries(self, shelf: Shelf, ids: Sequence[str]) -> Entries:
        """What ids stand for, and the items that hold it; rules stand in the state."""
        facts = await shelves.live(self.db, self.thread, shelf, ids, FACTS)
        arcs = await shelves.live(self.db, self.thread, shelf, ids, ARCS)
        found: Entries = {
            **{id: (fact_of(item), item) for id, item in facts.items()},
            **{id: (arc_of(item), item) for id, item in arcs.items()},
            **{id: (rule, None) for id, rule in shelf.rules.items()},
        }
        for id in ids:
            if id not in found:
                raise RecordNotFound(kind=slots.kind_of(id) or "memory", id=id)
        return {id: found[id] for id in ids}

    async def _forgetting(self, shelf: Shelf, targets: Sequence[Target]) -> tuple[Change, Forgotten]:
        ends: list[Item] = []
        patches: list[Op] = []
        changed: list[str] = []
        for target in targets:
            log = ARCS if target.kind == "arc" else FACTS
            items = await shelves.live(self.db, self.thread, shelf, [target.id], log)
            rule = shelf.rules.get(target.id)
            if rule is not None and seal(rule) == target.seen:
                patches.append(making.delete([RULES, target.id]))
            elif target.id in items and items[target.id].place == target.seen:
                ends.append(items[target.id])
            else:
                changed.append(target.id)
        ids = tuple(target.id for target in targets if target.id not in changed)
        change = Change(reason="Forget", ends=ends, patches=patches, writes=self._vectors(ends))
        return change, Forgotten(version=0, ids=ids, changed=tuple(changed))

    def _vectors(self, ends: Iterable[Item]) -> list[Drop]:
        """What was made from the words of an item goes with it."""
        return [Drop(kind=VECTOR, id=vector_id(self.thread, item.id or "")) for item in _once(ends)]


def _targets(entries: Entries) -> tuple[Target, ...]:
    return tuple(target_of(entry, item) for entry, item in entries.values())


def _once(items: Iterable[Item]) -> list[Item]:
    return list({item.id: item for item in items}.values())


@check_arguments
def memory_of(db: Database, thread: str, user: str | None = None) -> Memory:
    """The memory of a user, which spans their threads; without a user, that of the thread alone."""
    return Memory(db, user) if user is not None else Memory(db, thread, of_thread=True)
