"""A memory: what is known of one user, or of a thread without one. Learn, look, correct, forget, undo.

It is a thread of its own (``memory/alice``), so every change of it is a changeset: it has a history, can be
undone, is exported, verified and erased like any other thread.
"""

import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from hashlib import sha256
from typing import Literal, TypeAlias, TypeVar

import msgspec

from clew.core import patch
from clew.core.arguments import check_arguments, check_methods
from clew.core.clock import now_ms
from clew.core.encoding import JSON, as_json, encode
from clew.core.errors import InvalidArgument, KeyReused, RecordNotFound
from clew.core.log.owners import is_memory_thread, memory_thread_id
from clew.core.log.vectors import VECTOR_KIND
from clew.core.ops import Op
from clew.core.text.words import words
from clew.core.values import Committed, Drop, Item, Write
from clew.database.database import Database
from clew.runtime.memory import merge
from clew.runtime.memory import undo as memory_undo
from clew.runtime.memory.merge import LearnResult, MergeResult, StoredFact, merge_candidates
from clew.runtime.memory.past import (
    FactLineage,
    period_of,
    read_arcs_in_time,
    read_facts_in_time,
    read_lineage,
    visible_past_items,
)
from clew.runtime.memory.thread import (
    PENDING,
    RECALL,
    RULES,
    MemoryChange,
    MemoryThread,
    change_memory,
    log_page,
    read_memory_thread,
    visible_items,
    write_counts,
    writes_of_change,
)
from clew.runtime.memory.undo import UndoPreview
from clew.runtime.memory.values import (
    ARCHIVED,
    ARCS,
    FACTS,
    MOST_THEMES,
    PAST,
    Arc,
    Candidate,
    Fact,
    ForgetResult,
    ForgetTarget,
    MemoryEntry,
    MemoryListing,
    MemoryProfile,
    MemorySource,
    PendingForget,
    Rule,
    arc_of,
    fact_of,
    item_of,
    rule_of,
    slot_id,
)
from clew.runtime.memory.vectors.embedding import vector_id


def change_for_learning(
    result: MergeResult, stored_facts: dict[str, StoredFact], run: str | None, key: str | None
) -> MemoryChange:
    """The change that keeps what some candidates came to."""
    ends = [stored_facts[id].item for id in (*result.facts, *result.ended_ids) if id in stored_facts]
    archive_ids = {rule.id for rule in result.rules_to_archive}
    return MemoryChange(
        reason="Learn",
        ends=ends,
        items=[
            *(item_of(fact) for fact in (*result.facts.values(), *result.past.values())),
            *(item_of(rule) for rule in result.rules_to_archive),
        ],
        patches=[
            *(patch.set([RULES, id], as_json(rule)) for id, rule in result.rules.items()),
            *(patch.delete([RULES, id]) for id in archive_ids),
        ],
        actions=[{"learn": as_json(result.outcomes)}],
        run=run,
        key=key,
    )


def apply_correction(
    entry: MemoryEntry, object: str, quote: str, source: MemorySource | None, *, negated: bool, now: int
) -> Fact | Rule:
    """The entry with a correction of the user applied.

    Raises:
        InvalidArgument: It is an arc, or a past fact.
    """
    if isinstance(entry, Arc) or (isinstance(entry, Fact) and entry.ended):
        kind = "An arc" if isinstance(entry, Arc) else "A past fact"
        raise InvalidArgument(problem=f"{kind} tells what was; forget it, or leave it as it is.")
    if isinstance(entry, Rule):
        return msgspec.structs.replace(entry, text=object, how="user", last_referenced=now)
    return msgspec.structs.replace(
        entry,
        object=object,
        quote=quote,
        source=source,
        negated=negated,
        how="user",
        confidence=1.0,
        last_referenced=now,
    )


def rule_fingerprint(rule: Rule) -> int:
    """A number that changes with the rule; rules have no place in a log."""
    return int.from_bytes(sha256(encode(as_json(rule))).digest()[:6])


def forget_target(entry: MemoryEntry, item: Item | None) -> ForgetTarget:
    """An entry as the user is shown it before it is forgotten, with a mark that changes when it does."""
    if isinstance(entry, Rule):
        return ForgetTarget(kind="rule", id=entry.id, seen=rule_fingerprint(entry), text=entry.text)
    assert item is not None
    if isinstance(entry, Arc):
        return ForgetTarget(kind="arc", id=entry.id, seen=item.place, text=entry.summary)
    return ForgetTarget(kind="fact", id=entry.id, seen=item.place, text=entry.text)


T = TypeVar("T")
ITEMS_PER_PAGE = THREADS_PER_PAGE = 200
EntriesById: TypeAlias = dict[str, tuple[MemoryEntry, Item | None]]
"""Entries by their ids, each with the item that holds it if it is in a log."""


@check_methods
class Memory:
    """The memory of one owner. It writes at the version that it has read, and plans again on a conflict.

    ``write_counts`` has the number of entries of each kind that were written through this object, and
    ``last_version`` the version that the last change through it made; 0 if there was none.
    """

    def __init__(
        self, db: Database, owner: str, *, of_thread: bool = False, clock: Callable[[], int] = now_ms
    ) -> None:
        self.db = db
        self.owner = None if of_thread else owner
        self.thread = memory_thread_id(owner, of_thread=of_thread)
        self.write_counts = Counter[str]()
        self.last_version = 0
        self._clock = clock

    # Looking.

    async def profile(self) -> MemoryProfile:
        """Its rules, whether recall is on, and what waits to be confirmed."""
        return (await self._read_snapshot()).profile

    async def page(
        self,
        kind: Literal["facts", "arcs"] = "facts",
        *,
        limit: int = 20,
        before: int | None = None,
        at: str | int | None = None,
        past: bool = False,
    ) -> MemoryListing:
        """A page of entries, newest first; ``before`` is the end of the page before.

        With ``past`` the facts that held once come behind those that hold. With ``at`` the page has what was
        so in a year, in a month, on a day or at a moment: "2026-05", "2026-05-15", or milliseconds.

        Raises:
            InvalidArgument: There is no such kind, or it is no such time.
        """
        if kind not in (FACTS, ARCS) or limit < 1:
            raise InvalidArgument(problem="List facts or arcs, at least one at a time.")
        period = None if at is None else period_of(at)
        if kind == FACTS and (past or period is not None):
            return await read_facts_in_time(self.db, self.thread, limit=limit, before=before, period=period)
        if period is not None:
            return await read_arcs_in_time(self.db, self.thread, limit=limit, before=before, period=period)
        items, more = await log_page(self.db, self.thread, kind, limit=limit, before=before)
        if kind == FACTS:
            return MemoryListing(facts=tuple(map(fact_of, items)), next=more)
        return MemoryListing(arcs=tuple(map(arc_of, items)), next=more)

    async def get(self, id: str) -> MemoryEntry:
        """The entry with an id, and its source.

        Raises:
            RecordNotFound: It is not known, or not any more.
        """
        return (await self._entries(await self._read_snapshot(), [id]))[id][0]

    async def history(self, id: str) -> list[Fact]:
        """Every state of a fact, oldest first, also what was superseded or forgotten since."""
        if (await self._read_snapshot()).head is None:
            return []
        items = await self.db.thread(self.thread).items_by_id([id])
        return [fact_of(item) for item in items if item.log == FACTS]

    async def lineage(self, facts: Sequence[Fact]) -> dict[str, FactLineage]:
        """The lineage of facts by their ids: those that they replaced, and those that replaced them."""
        return await read_lineage(self.db, self.thread, await self._read_snapshot(), facts)

    # Learning.

    async def learn(
        self, candidates: Iterable[Candidate], *, run: str | None = None, key: str | None = None
    ) -> LearnResult:
        """Keep candidates, in one change: repetitions refresh, contradictions supersede, the rest is new.

        A candidate that ``ends`` what it names ends that fact. What is superseded or ended stays, as past.
        With a ``key`` the same call a second time changes nothing.
        """
        candidate_list = list(candidates)

        async def plan(snapshot: MemoryThread) -> tuple[MemoryChange | None, MergeResult]:
            change, result = await self._plan_learning(snapshot, candidate_list, run, key)
            return change if candidate_list else None, result

        try:
            commit, result = await self._change(plan)
        except KeyReused:
            return LearnResult(version=(await self._read_snapshot()).version, repeated=True)
        if commit is None:
            return LearnResult(version=(await self._read_snapshot()).version)
        return LearnResult(version=commit.version, outcomes=tuple(result.outcomes), repeated=commit.repeated)

    async def episode_writes(self, arc: Arc, candidates: Iterable[Candidate]) -> list[Write]:
        """The writes that keep an arc and candidates in one change, to be committed with others.

        There are none if the arc is kept already. If the memory moves meanwhile, the commit is refused with
        ``VersionConflict``; then ask again.
        """
        new_arc = msgspec.structs.replace(arc, id=f"arc-{arc.episode}", themes=arc.themes[:MOST_THEMES])
        snapshot = await self._read_snapshot()
        if await visible_items(self.db, self.thread, snapshot, [new_arc.id], ARCS):
            return []
        change, _ = await self._plan_learning(snapshot, list(candidates), None, None)
        change = msgspec.structs.replace(
            change, reason="CloseEpisode", items=[*change.items, item_of(new_arc)]
        )
        return writes_of_change(self.thread, self.owner, snapshot, change)

    # Correcting.

    async def correct(
        self,
        id: str,
        *,
        object: str,
        quote: str = "",
        source: MemorySource | None = None,
        negated: bool = False,
        since: str | int | None = None,
    ) -> Fact | Rule:
        """Put right what a fact says of its subject, or how a rule is worded.

        A fact that is then about something else gets the id of that. What it says holds since the old one was
        thought to, as that was wrong; or ``since`` a time, if that was right until then.

        Raises:
            RecordNotFound: It is not known, or not any more.
            InvalidArgument: It tells what was, or ``since`` is no time.
        """
        changed = None if since is None else period_of(since).begin

        async def plan(snapshot: MemoryThread) -> tuple[MemoryChange, Fact | Rule]:
            before, item = (await self._entries(snapshot, [id]))[id]
            after = apply_correction(before, object, quote, source, negated=negated, now=self._clock())
            if isinstance(after, Rule):
                return MemoryChange(reason="Correct", patches=[patch.set([RULES, id], as_json(after))]), after
            assert isinstance(before, Fact)
            after = msgspec.structs.replace(after, id=merge.fact_id(after, snapshot.salt))
            facts = merge.correct_fact(before, after, changed=changed, now=self._clock(), salt=snapshot.salt)
            namesakes = await visible_items(self.db, self.thread, snapshot, {after.id} - {id}, FACTS)
            ends = [entry for entry in (item, *namesakes.values()) if entry is not None]
            change = MemoryChange(
                reason="Correct", ends=ends, items=list(map(item_of, facts)), writes=self._vector_drops(ends)
            )
            return change, facts[0]

        _, entry = await self._change(plan)
        return entry

    async def set_recall(self, *, on: bool) -> None:
        """Set whether recalled entries may be brought up. Rules apply either way."""

        async def plan(snapshot: MemoryThread) -> tuple[MemoryChange | None, None]:
            if snapshot.profile.recall is on:
                return None, None
            return MemoryChange(reason="SetRecall", patches=[patch.set([RECALL], on)]), None

        await self._change(plan)

    # Forgetting, in two steps.

    async def targets(self, ids: Sequence[str]) -> tuple[ForgetTarget, ...]:
        """The entries of some ids as they are now, to be shown to the user and then passed to ``forget``.

        Raises:
            RecordNotFound: One of them is not known, or not any more.
        """
        return _targets_of(await self._entries(await self._read_snapshot(), ids))

    async def forget(self, targets: Sequence[ForgetTarget]) -> ForgetResult:
        """Forget entries that the user was shown and agreed to. Those that changed since then stay."""

        async def plan(snapshot: MemoryThread) -> tuple[MemoryChange | None, ForgetResult]:
            change, result = await self._plan_forgetting(snapshot, targets)
            return change if result.ids else None, result

        commit, result = await self._change(plan)
        return result if commit is None else msgspec.structs.replace(result, version=commit.version)

    async def propose_forgetting(self, ids: Sequence[str]) -> PendingForget:
        """Get ready to forget these, and wait for a word. What waited before is given up.

        Raises:
            RecordNotFound: One of them is not known, or not any more.
        """

        async def plan(snapshot: MemoryThread) -> tuple[MemoryChange, PendingForget]:
            targets = _targets_of(await self._entries(snapshot, ids))
            proposal = PendingForget(action="forget", targets=targets, time=self._clock())
            return MemoryChange(reason="Propose", patches=[patch.set([PENDING], as_json(proposal))]), proposal

        _, proposal = await self._change(plan)
        return proposal

    async def confirm_forgetting(self, only_ids: Sequence[str] | None = None) -> ForgetResult:
        """Forget what waits (or ``only_ids`` some of it). What has changed since it was shown stays.

        Raises:
            InvalidArgument: Nothing waits.
        """

        async def plan(snapshot: MemoryThread) -> tuple[MemoryChange, ForgetResult]:
            pending = snapshot.profile.pending
            if pending is None:
                raise InvalidArgument(problem="Nothing waits to be confirmed.")
            targets = [target for target in pending.targets if only_ids is None or target.id in only_ids]
            change, result = await self._plan_forgetting(snapshot, targets)
            patches = [*change.patches, patch.delete([PENDING])]
            return msgspec.structs.replace(change, patches=patches), result

        commit, result = await self._change(plan)
        assert commit is not None
        return msgspec.structs.replace(result, version=commit.version)

    async def cancel_forgetting(self) -> bool:
        """Forget nothing; whether something had waited."""

        async def plan(snapshot: MemoryThread) -> tuple[MemoryChange | None, bool]:
            if snapshot.profile.pending is None:
                return None, False
            return MemoryChange(reason="Cancel", patches=[patch.delete([PENDING])]), True

        _, has_waited = await self._change(plan)
        return has_waited

    # Undoing and carrying away.

    async def preview_undo(self, version: int | None = None) -> UndoPreview:
        """The effect that ``undo`` would have, to be shown first. Nothing changes.

        Raises:
            InvalidArgument: There is nothing to undo.
            RewindRefused: What it did has been changed again since.
        """
        snapshot = await self._read_snapshot()
        plan = await memory_undo.plan_undo(self.db, self.thread, snapshot, version)
        target = int(plan.actions[0]["undo"])
        changes = await self.db.thread(self.thread).changesets(after=target - 1, upto=target, limit=1)
        return memory_undo.undo_preview(plan, changes[0].reason, snapshot)

    async def undo(self, version: int | None = None) -> int:
        """Take back the last change, or the one that made a version; the version it took back.

        Raises:
            InvalidArgument: There is nothing to undo.
            RewindRefused: What it did has been changed again since.
        """

        async def plan(snapshot: MemoryThread) -> tuple[MemoryChange, int]:
            change = await memory_undo.plan_undo(self.db, self.thread, snapshot, version)
            writes = self._vector_drops(change.ends)
            return msgspec.structs.replace(change, writes=writes), int(change.actions[0]["undo"])

        _, undone_version = await self._change(plan)
        return undone_version

    async def export(self) -> dict[str, JSON]:
        """Everything that is known, with the source of each, as JSON; also archived rules."""
        profile = await self.profile()
        return {
            "owner": self.owner,
            "thread": self.thread,
            "version": profile.version,
            "recall": profile.recall,
            "rules": as_json(profile.rules),
            "archived_rules": as_json([rule_of(item) for item in await self._all_items(ARCHIVED)]),
            "facts": as_json([fact_of(item) for item in await self._all_items(FACTS)]),
            "past_facts": as_json([fact_of(item) for item in await self._all_items(PAST)]),
            "arcs": as_json([arc_of(item) for item in await self._all_items(ARCS)]),
        }

    # What they have in common.

    async def _read_snapshot(self) -> MemoryThread:
        return await read_memory_thread(self.db, self.thread)

    async def _change(
        self, plan: Callable[[MemoryThread], Awaitable[tuple[MemoryChange | None, T]]]
    ) -> tuple[Committed | None, T]:
        """Commit what a plan makes of the memory, and count what that writes: see ``change_memory``."""

        async def plan_with_change(
            snapshot: MemoryThread,
        ) -> tuple[MemoryChange | None, tuple[MemoryChange | None, T]]:
            change, result = await plan(snapshot)
            return change, (change, result)

        commit, (change, result) = await change_memory(self.db, self.thread, self.owner, plan_with_change)
        if commit is not None and change is not None and not commit.repeated:
            self.write_counts.update(write_counts(change))
            self.last_version = commit.version
        return commit, result

    async def _all_items(self, log: str) -> list[Item]:
        all_items: list[Item] = []
        before: int | None = None
        while True:
            items, before = await log_page(self.db, self.thread, log, limit=ITEMS_PER_PAGE, before=before)
            all_items += items
            if before is None:
                return all_items[::-1]

    async def _plan_learning(
        self, snapshot: MemoryThread, candidates: Sequence[Candidate], run: str | None, key: str | None
    ) -> tuple[MemoryChange, MergeResult]:
        stored_facts = await self._stored_facts(snapshot, candidates)
        result = merge_candidates(
            candidates,
            stored_facts,
            snapshot.rules,
            salt=snapshot.salt,
            now=self._clock(),
            ends=await self._end_times(snapshot, candidates, stored_facts),
        )
        change = change_for_learning(result, stored_facts, run, key)
        drops = self._vector_drops(item for item in change.ends if item.id in result.ended_ids)
        return msgspec.structs.replace(change, writes=drops), result

    async def _stored_facts(
        self, snapshot: MemoryThread, candidates: Sequence[Candidate]
    ) -> dict[str, StoredFact]:
        """The facts that candidates are about: that repeat or replace them, or that they end."""
        patterns = [each for candidate in candidates for each in merge.ended_patterns(candidate)]
        ids = [merge.fact_id(entry, snapshot.salt) for entry in candidates if entry.kind == "fact"]
        ids += [id for pattern in patterns for id in merge.pattern_ids(pattern, snapshot.salt)]
        items = await visible_items(self.db, self.thread, snapshot, ids, FACTS)
        if any(not pattern.object for pattern in patterns):
            items |= {item.id or "": item for item in await self._all_items(FACTS)}
        return {id: StoredFact(fact=fact_of(item), item=item) for id, item in items.items()}

    async def _end_times(
        self, snapshot: MemoryThread, candidates: Sequence[Candidate], stored_facts: dict[str, StoredFact]
    ) -> dict[str, int]:
        """The times when facts ended that candidates tell again and that hold no longer."""
        ids = {merge.fact_id(entry, snapshot.salt) for entry in candidates if entry.kind == "fact"}
        past = await visible_past_items(self.db, self.thread, snapshot, ids - stored_facts.keys())
        return {slot_id(id): fact_of(item).ended for id, item in past.items()}

    async def _entries(self, snapshot: MemoryThread, ids: Sequence[str]) -> EntriesById:
        """The entries of some ids, with the items that hold them; rules are in the state."""
        facts = await visible_items(self.db, self.thread, snapshot, ids, FACTS)
        arcs = await visible_items(self.db, self.thread, snapshot, ids, ARCS)
        past = await self._past_items(snapshot, ids)
        entries: EntriesById = {
            **{id: (fact_of(item), item) for id, item in (facts | past).items()},
            **{id: (arc_of(item), item) for id, item in arcs.items()},
            **{id: (rule, None) for id, rule in snapshot.rules.items()},
        }
        for id in ids:
            if id not in entries:
                raise RecordNotFound(kind=merge.entry_kind(id) or "memory", id=id)
        return {id: entries[id] for id in ids}

    async def _plan_forgetting(
        self, snapshot: MemoryThread, targets: Sequence[ForgetTarget]
    ) -> tuple[MemoryChange, ForgetResult]:
        ends: list[Item] = []
        patches: list[Op] = []
        stale_ids: list[str] = []
        for target in targets:
            log = ARCS if target.kind == "arc" else FACTS
            items = await visible_items(self.db, self.thread, snapshot, [target.id], log)
            items |= await self._past_items(snapshot, [target.id])
            rule = snapshot.rules.get(target.id)
            if rule is not None and rule_fingerprint(rule) == target.seen:
                patches.append(patch.delete([RULES, target.id]))
            elif target.id in items and items[target.id].place == target.seen:
                # What a fact said before goes with it.
                past = await visible_past_items(self.db, self.thread, snapshot, [target.id])
                ends += [items[target.id], *past.values()]
            else:
                stale_ids.append(target.id)
        ids = tuple(target.id for target in targets if target.id not in stale_ids)
        change = MemoryChange(reason="Forget", ends=ends, patches=patches, writes=self._vector_drops(ends))
        return change, ForgetResult(version=0, ids=ids, changed=tuple(stale_ids))

    async def _past_items(self, snapshot: MemoryThread, ids: Iterable[str]) -> dict[str, Item]:
        """The items of those of some ids that are of past facts."""
        past_ids = {id for id in ids if slot_id(id) != id}
        items = await visible_past_items(self.db, self.thread, snapshot, map(slot_id, past_ids))
        return {id: item for id, item in items.items() if id in past_ids}

    def _vector_drops(self, ends: Iterable[Item]) -> list[Drop]:
        """The writes that drop the vectors of some items. A past fact has none of its own."""
        items = _distinct_items(item for item in ends if item.log != PAST)
        return [Drop(kind=VECTOR_KIND, id=vector_id(self.thread, item.id or "")) for item in items]


def _targets_of(entries: EntriesById) -> tuple[ForgetTarget, ...]:
    return tuple(forget_target(entry, item) for entry, item in entries.values())


def _distinct_items(items: Iterable[Item]) -> list[Item]:
    return list({item.id: item for item in items}.values())


@check_arguments
def memory_of(db: Database, thread: str, user: str | None = None) -> Memory:
    """The memory of a user, which spans their threads; without a user, that of the thread alone."""
    return Memory(db, user) if user is not None else Memory(db, thread, of_thread=True)


async def all_memories(db: Database) -> AsyncIterator[Memory]:
    """Every memory of a tenant, of users and of threads without one."""
    after: str | None = None
    while True:
        page = await db.threads(system=True, limit=THREADS_PER_PAGE, after=after)
        for summary in page.threads:
            if is_memory_thread(summary.id, summary.owner):
                memory = Memory(db, summary.owner or summary.id, of_thread=summary.owner is None)
                # The id of a thread cannot always be told from that of its memory: long ones are hashed.
                memory.thread = summary.id
                yield memory
        after = page.next
        if after is None:
            return


YES_WORDS = r"(?:yes|y|yeah|yep|yup|ja|jawohl|oui|si|sim|da|tak|hai|confirm|confirmed)"
AGREEMENT = re.compile(
    rf"\b(?:{YES_WORDS}|sure|ok|okay|absolutely|definitely|certainly|of\s+course|go\s+ahead|do\s+it|please\s+do|klar|"
    r"(?:delete|remove)\s+(?:it|them|this|that|these|those|all|both))\b"
)
POLITE_WORD = re.compile(
    r"\b(?:please|do|go|ahead|it|them|this|that|these|those|all|both|bitte|thanks|thank|you|delete|remove|forget)\b"
)
NEVER_MIND = re.compile(rf"^(?!.*\b{YES_WORDS}\b).*\bforget\s+(?:it|that|this)\b")
"""“Forget it” alone rather means: leave it."""

NUMBER_LIST = re.compile(r"\s*(?:number\s+)?(\d{1,2})(?:\s*(?:,|and|&)\s*(\d{1,2}))*\s*[.!]?\s*")


@check_arguments
async def answer_pending(memory: Memory, reply: str) -> ForgetResult:
    """Confirm or cancel what waits, by the user's next words alone; no model is asked.

    Numbers choose among what was shown. Whatever is not clearly a yes cancels.
    """
    pending = (await memory.profile()).pending
    if pending is None:
        return ForgetResult(version=0)
    if is_yes(reply):
        return await memory.confirm_forgetting()
    numbers = numbers_in_reply(reply, len(pending.targets))
    if numbers:
        return await memory.confirm_forgetting([pending.targets[number - 1].id for number in numbers])
    await memory.cancel_forgetting()
    return ForgetResult(version=0)


def is_yes(reply: str) -> bool:
    """Return whether a reply is a clear yes, and nothing besides."""
    text = " ".join(words(reply))
    rest = POLITE_WORD.sub("", AGREEMENT.sub("", text))
    return bool(AGREEMENT.search(text)) and not rest.strip() and not NEVER_MIND.search(text)


def numbers_in_reply(reply: str, highest: int) -> list[int]:
    """The numbers that a reply consists of, if each was offered."""
    numbers = [int(digits) for digits in re.findall(r"\d+", reply)] if NUMBER_LIST.fullmatch(reply) else []
    return numbers if numbers and all(0 < number <= highest for number in numbers) else []
