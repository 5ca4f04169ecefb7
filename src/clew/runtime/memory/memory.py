"""A memory: what is known of one user, or of a thread without one. Learn, look, correct, forget, undo.

It is a thread of its own (``memory/alice``), so every change of it is a changeset: it has a history, can be
undone, is exported, verified and erased like any other thread.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Literal, TypeAlias

import msgspec

from clew.core import patch
from clew.core.arguments import check_arguments, check_methods
from clew.core.encoding import JSON, encode, plain
from clew.core.errors import InvalidArgument, KeyReused, RecordNotFound
from clew.core.log.owners import memory_thread
from clew.core.ops import Op
from clew.core.text.words import words
from clew.core.values import Committed, Drop, Item, Write
from clew.database.database import Database
from clew.runtime.memory import merge
from clew.runtime.memory import thread as shelves
from clew.runtime.memory import undo as memory_undo
from clew.runtime.memory.merge import Known, Learned, Merged, merged
from clew.runtime.memory.thread import PENDING, RECALL, RULES, Change, Shelf
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
from clew.runtime.memory.vectors.embedding import VECTOR, vector_id
from clew.runtime.settings import now_ms


def learning(found: Merged, known: dict[str, Known], run: str | None, key: str | None) -> Change:
    """The change that keeps what some candidates came to."""
    ends = [known[id].item for id in found.facts if id in known]
    archived = {rule.id for rule in found.archived}
    return Change(
        reason="Learn",
        ends=ends,
        items=[
            *(item_of(fact) for fact in found.facts.values()),
            *(item_of(rule) for rule in found.archived),
        ],
        patches=[
            *(patch.set([RULES, id], plain(rule)) for id, rule in found.rules.items()),
            *(patch.delete([RULES, id]) for id in archived),
        ],
        actions=[{"learn": plain(found.outcomes)}],
        run=run,
        key=key,
    )


def corrected(
    before: Fact | Arc | Rule, object: str, quote: str, source: Source | None, *, negated: bool, now: int
) -> Fact | Rule:
    """What is known, put right by the user.

    Raises:
        InvalidArgument: It is an arc.
    """
    if isinstance(before, Arc):
        raise InvalidArgument(problem="An arc tells what was; forget it, or leave it as it is.")
    if isinstance(before, Rule):
        return msgspec.structs.replace(before, text=object, how="user", last_referenced=now)
    return msgspec.structs.replace(
        before,
        object=object,
        quote=quote,
        source=source,
        negated=negated,
        how="user",
        confidence=1.0,
        last_referenced=now,
    )


def seal(rule: Rule) -> int:
    """A number that changes with the rule; rules stand in no place of a log."""
    return int.from_bytes(sha256(encode(plain(rule))).digest()[:6])


def target_of(entry: Fact | Arc | Rule, item: Item | None) -> Target:
    """What the user is shown before it is forgotten, and by what it is known again."""
    if isinstance(entry, Rule):
        return Target(kind="rule", id=entry.id, seen=seal(entry), text=entry.text)
    assert item is not None
    if isinstance(entry, Arc):
        return Target(kind="arc", id=entry.id, seen=item.place, text=entry.summary)
    return Target(kind="fact", id=entry.id, seen=item.place, text=entry.text)


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
                return Change(reason="Correct", patches=[patch.set([RULES, id], plain(after))])
            after = msgspec.structs.replace(after, id=merge.fact_id(after, shelf.salt))
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
            return Change(reason="SetRecall", patches=[patch.set([RECALL], on)])

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
            return Change(reason="Propose", patches=[patch.set([PENDING], plain(found[0]))])

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
            answered = [*change.patches, patch.delete([PENDING])]
            return msgspec.structs.replace(change, patches=answered)

        committed = await self._change(plan)
        assert committed is not None
        return msgspec.structs.replace(done[0], version=committed.version)

    async def cancel(self) -> bool:
        """Forget nothing; whether something had waited."""

        async def plan(shelf: Shelf) -> Change | None:
            if shelf.profile.pending is None:
                return None
            return Change(reason="Cancel", patches=[patch.delete([PENDING])])

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
            change = await memory_undo.reversed_change(self.db, self.thread, shelf, version)
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
        ids = [merge.fact_id(entry, shelf.salt) for entry in candidates if entry.kind == "fact"]
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
                raise RecordNotFound(kind=merge.kind_of(id) or "memory", id=id)
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
                patches.append(patch.delete([RULES, target.id]))
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


YES = r"(?:yes|y|yeah|yep|yup|ja|jawohl|oui|si|sim|da|tak|hai|confirm|confirmed)"
AGREES = re.compile(
    rf"\b(?:{YES}|sure|ok|okay|absolutely|definitely|certainly|of\s+course|go\s+ahead|do\s+it|please\s+do|klar|"
    r"(?:delete|remove)\s+(?:it|them|this|that|these|those|all|both))\b"
)
POLITE = re.compile(
    r"\b(?:please|do|go|ahead|it|them|this|that|these|those|all|both|bitte|thanks|thank|you|delete|remove|forget)\b"
)
NEVER_MIND = re.compile(rf"^(?!.*\b{YES}\b).*\bforget\s+(?:it|that|this)\b")
"""“Forget it” alone rather means: leave it."""

NUMBERS = re.compile(r"\s*(?:number\s+)?(\d{1,2})(?:\s*(?:,|and|&)\s*(\d{1,2}))*\s*[.!]?\s*")


@check_arguments
async def settled(memory: Memory, reply: str) -> Forgotten:
    """Confirm or cancel what waits, by the user's next words alone; no model is asked.

    Numbers choose among what was shown. Whatever is not clearly a yes cancels.
    """
    pending = (await memory.profile()).pending
    if pending is None:
        return Forgotten(version=0)
    if is_yes(reply):
        return await memory.confirm()
    numbers = chosen(reply, len(pending.targets))
    if numbers:
        return await memory.confirm([pending.targets[number - 1].id for number in numbers])
    await memory.cancel()
    return Forgotten(version=0)


def is_yes(reply: str) -> bool:
    """Whether a reply is a clear yes, and nothing besides."""
    said = " ".join(words(reply))
    rest = POLITE.sub("", AGREES.sub("", said))
    return bool(AGREES.search(said)) and not rest.strip() and not NEVER_MIND.search(said)


def chosen(reply: str, most: int) -> list[int]:
    """The numbers that a reply consists of, if each was offered."""
    numbers = [int(found) for found in re.findall(r"\d+", reply)] if NUMBERS.fullmatch(reply) else []
    return numbers if numbers and all(0 < number <= most for number in numbers) else []
