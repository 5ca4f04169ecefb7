"""The store in memory: nothing durable, everything exact. The others are held to it."""

import asyncio
import os
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import msgspec

from clew.core.clock import now_ms
from clew.core.encoding import decoder
from clew.core.errors import StoreClosed, StoreDamaged
from clew.core.log.commit import Plan, Setting, plan_claim
from clew.core.log.heads import Heads
from clew.core.log.jobs import is_due
from clew.core.log.owners import obstacle
from clew.core.log.rows import (
    AddJob,
    AddThread,
    Advance,
    Ask,
    AskAnchor,
    AskChangesets,
    AskCounts,
    AskCuts,
    AskDue,
    Asking,
    AskItems,
    AskJob,
    AskJobs,
    AskKey,
    AskNamed,
    AskPending,
    AskRecord,
    AskRecords,
    AskRecordsAbout,
    AskRecordsNamed,
    AskRecordsOf,
    AskSizes,
    AskTenants,
    AskThread,
    AskThreads,
    AskWords,
    ChangesetRow,
    CheckRecord,
    CopyLineage,
    CutRow,
    DropRecord,
    DropThread,
    Effect,
    EndJob,
    EraseParts,
    Index,
    ItemRow,
    KeyRow,
    MoveJob,
    Restore,
    SaveRecord,
    Stale,
    Text,
    ThreadRow,
    Unreadable,
    answered,
)
from clew.core.ports import Report, Scrubbed
from clew.core.text.words import words
from clew.core.values import Counters, Found, Job, Limits, Record, Scope
from clew.stores.watch import Wakes

_decode_counters = decoder(Counters)


class Rows:
    """The rows of one thread key. Bodies are bytes, so nothing is shared with a caller."""

    def __init__(self, thread: ThreadRow) -> None:
        self.move(thread)
        self.deleted = False
        self.changesets: dict[int, ChangesetRow] = {}
        self.items: dict[tuple[str, int], ItemRow] = {}
        self.order: dict[str, list[int]] = {}
        self.cuts: list[CutRow] = []
        self.anchors: dict[int, bytes] = {}
        self.keys: dict[str, KeyRow] = {}
        self.texts: list[Text] = []
        self.indexed = 0

    def move(self, thread: ThreadRow) -> None:
        """Take over the thread's row."""
        self.thread = thread
        self.counters = msgspec.json.encode(thread.counters)

    def read(self) -> ThreadRow:
        """The thread's row.

        Raises:
            StoreDamaged: It is not what was written.
        """
        return msgspec.structs.replace(self.thread, counters=_decode_counters(self.counters))

    def listed(self) -> ThreadRow | Unreadable:
        """The thread's row in a list, where one that is damaged hides no other."""
        try:
            return self.read()
        except StoreDamaged as error:
            return Unreadable(id=self.thread.id, created=self.thread.created, problem=error.problem)

    def write(self, step: Advance) -> None:
        """Add the rows of one changeset."""
        self.changesets[step.change.version] = step.change
        self._add_items(step.items)
        self.cuts += step.cuts
        if step.anchor is not None:
            self.anchors[step.change.version] = step.anchor
        if step.name is not None:
            self.keys[step.name] = KeyRow(step.change.version, step.fingerprint or b"")

    def _add_items(self, items: Iterable[ItemRow]) -> None:
        for item in items:
            self.items[item.log, item.place] = item
            insort(self.order.setdefault(item.log, []), item.place)

    def copy(self, source: "Rows", upto: int) -> None:
        """Take over another's rows up to a version."""
        self.changesets |= {v: row for v, row in source.changesets.items() if v <= upto}
        self._add_items(row for row in source.items.values() if row.version <= upto)
        self.cuts += [cut for cut in source.cuts if cut.version <= upto]
        self.anchors |= {v: state for v, state in source.anchors.items() if v <= upto}


class Tenant:
    """Everything of one tenant."""

    def __init__(self) -> None:
        self.rows: dict[int, Rows] = {}
        self.ids: dict[str, int] = {}
        self.records: dict[tuple[str, str], bytes] = {}
        self.jobs: dict[str, bytes] = {}


decode_record = msgspec.json.Decoder(Record).decode
decode_job = msgspec.json.Decoder(Job).decode


def answer(tenant: Tenant, scope: Scope, question: Ask[Any]) -> Any:
    """The answer to any question."""
    return _answers[type(question)](tenant, scope, question)


def _thread(tenant: Tenant, scope: Scope, question: AskThread) -> ThreadRow | None:
    key = tenant.ids.get(question.id)
    if key is None or scope.user not in (None, tenant.rows[key].thread.owner):
        return None
    return tenant.rows[key].read()


def _anchor(tenant: Tenant, scope: Scope, question: AskAnchor) -> tuple[int, bytes] | None:
    anchors = tenant.rows[question.key].anchors
    version = max((v for v in anchors if v <= question.upto), default=None)
    return None if version is None else (version, anchors[version])


def _changesets(tenant: Tenant, scope: Scope, question: AskChangesets) -> list[ChangesetRow]:
    rows = tenant.rows[question.key].changesets
    last = min(question.upto, question.after + question.limit)
    return [rows[version] for version in range(question.after + 1, last + 1) if version in rows]


def _items(tenant: Tenant, scope: Scope, question: AskItems) -> list[ItemRow]:
    rows = tenant.rows[question.key]
    order = rows.order.get(question.log, [])
    places = order[bisect_right(order, question.above) : bisect_left(order, question.below)]
    born = (rows.items[question.log, place] for place in (reversed(places) if question.backwards else places))
    return list(islice((row for row in born if row.version <= question.upto), question.limit))


def _cuts(tenant: Tenant, scope: Scope, question: AskCuts) -> list[CutRow]:
    return [
        cut
        for cut in tenant.rows[question.key].cuts
        if cut.log == question.log
        and cut.version <= question.upto
        and cut.first <= question.last
        and cut.last >= question.first
    ]


def _named(tenant: Tenant, scope: Scope, question: AskNamed) -> list[ItemRow]:
    rows = tenant.rows[question.key].items.values()
    return [row for row in rows if row.id in question.ids and row.version <= question.upto]


def _key(tenant: Tenant, scope: Scope, question: AskKey) -> KeyRow | None:
    return tenant.rows[question.key].keys.get(question.name)


def _threads(tenant: Tenant, scope: Scope, question: AskThreads) -> list[ThreadRow | Unreadable]:
    rows = [tenant.rows[key] for key in tenant.ids.values()]
    mine = [
        row.listed()
        for row in rows
        if scope.user in (None, row.thread.owner)
        and question.owner in (None, row.thread.owner)
        and (question.before is None or (row.thread.created, row.thread.id) < question.before)
    ]
    return sorted(mine, key=lambda row: (row.created, row.id), reverse=True)[: question.limit]


def _record(tenant: Tenant, scope: Scope, question: AskRecord) -> Record | None:
    data = tenant.records.get((question.kind, question.id))
    record = decode_record(data) if data is not None else None
    return record if record and scope.user in (None, record.owner) else None


def _records_named(tenant: Tenant, scope: Scope, question: AskRecordsNamed) -> list[Record]:
    found = [_record(tenant, scope, AskRecord(kind, id)) for kind, id in question.names]
    return [record for record in found if record is not None]


def _records(tenant: Tenant, scope: Scope, question: AskRecords) -> list[Record]:
    query = question.query
    records = [decode_record(data) for data in tenant.records.values()]
    found = [
        record
        for record in records
        if record.kind == query.kind
        and scope.user in (None, record.owner)
        and query.owner in (None, record.owner)
        and set(query.tags) <= set(record.tags)
        and (query.since is None or record.sort >= query.since)
        and (query.until is None or record.sort < query.until)
    ]
    found.sort(key=lambda record: (record.sort, record.id), reverse=query.newest)
    if query.after is not None:
        after = query.after
        found = [r for r in found if ((r.sort, r.id) < after if query.newest else (r.sort, r.id) > after)]
    return found[: query.limit]


def _records_of(tenant: Tenant, scope: Scope, question: AskRecordsOf) -> list[Record]:
    records = [decode_record(tenant.records[at]) for at in sorted(tenant.records)]
    mine = [r for r in records if r.owner == question.owner and scope.user in (None, r.owner)]
    return [record for record in mine if record.kind not in question.without][: question.limit]


def _records_about(tenant: Tenant, scope: Scope, question: AskRecordsAbout) -> list[Record]:
    names = set(question.names)
    records = [decode_record(data) for data in tenant.records.values()]
    return [r for r in records if names & {r.id, *r.tags} and scope.user in (None, r.owner)]


def _sizes(tenant: Tenant, scope: Scope, question: AskSizes) -> dict[str, int]:
    rows = tenant.rows[question.key]
    return {
        "changesets": len(rows.changesets),
        "items": len(rows.items),
        "states": len(rows.anchors),
        "keys": len(rows.keys),
        "index entries": len(rows.texts),
    }


def _job(tenant: Tenant, scope: Scope, question: AskJob) -> Job | None:
    data = tenant.jobs.get(question.id)
    job = None if data is None else decode_job(data)
    return job if job and scope.user in (None, job.owner) else None


def _jobs(tenant: Tenant, scope: Scope, question: AskJobs) -> list[Job]:
    jobs = [decode_job(data) for data in tenant.jobs.values()]
    mine = [job for job in jobs if scope.user in (None, job.owner)]
    found = [job for job in mine if question.status in (None, job.status)]
    return sorted(found, key=lambda job: (job.due, job.id))[: question.limit]


def _due(tenant: Tenant, scope: Scope, question: AskDue) -> list[Job]:
    jobs = _jobs(tenant, scope, AskJobs(None, len(tenant.jobs)))
    return [job for job in jobs if job.kind in question.kinds and is_due(job, question.now)][: question.limit]


def _pending(tenant: Tenant, scope: Scope, question: AskPending) -> list[tuple[ThreadRow, int]]:
    rows = [tenant.rows[key] for key in tenant.ids.values()]
    late = [r for r in rows if r.indexed < r.thread.version and scope.user in (None, r.thread.owner)]
    listed = [(r.listed(), r.indexed) for r in late[: question.limit]]
    return [(row, indexed) for row, indexed in listed if isinstance(row, ThreadRow)]


def _words(tenant: Tenant, scope: Scope, question: AskWords) -> list[Found]:
    found = []
    for rows, text in _texts(tenant, scope, question):
        said = words(text.text)
        held = [word for word in question.words if word in said]
        if held if question.any else len(held) == len(question.words):
            score = 0.0 if question.newest else sum(said.count(word) for word in held) / len(said)
            found.append(
                Found(
                    thread=rows.thread.id,
                    log=text.log,
                    place=text.place,
                    version=text.version,
                    text=text.text,
                    score=score,
                )
            )
    if question.newest:
        return found[::-1][: question.limit]
    return sorted(found, key=lambda hit: (-hit.score, hit.thread, hit.place))[: question.limit]


def _counts(tenant: Tenant, scope: Scope, question: AskCounts) -> list[int]:
    said = [set(words(text.text)) for _, text in _texts(tenant, scope, question)]
    return [min(sum(word in held for held in said), question.most) for word in question.words]


def _texts(tenant: Tenant, scope: Scope, question: AskWords | AskCounts) -> Iterator[tuple[Rows, Text]]:
    """The indexed texts that a question is about."""
    for id, key in tenant.ids.items():
        rows = tenant.rows[key]
        if scope.user not in (None, rows.thread.owner) or question.owner not in (None, rows.thread.owner):
            continue
        if question.thread in (None, id):
            yield from ((rows, text) for text in rows.texts if question.log in (None, text.log))


_answers: dict[type, Callable[[Tenant, Scope, Any], Any]] = {
    AskThread: _thread,
    AskAnchor: _anchor,
    AskChangesets: _changesets,
    AskItems: _items,
    AskCuts: _cuts,
    AskNamed: _named,
    AskKey: _key,
    AskThreads: _threads,
    AskRecord: _record,
    AskRecordsNamed: _records_named,
    AskRecords: _records,
    AskRecordsOf: _records_of,
    AskRecordsAbout: _records_about,
    AskSizes: _sizes,
    AskJob: _job,
    AskJobs: _jobs,
    AskDue: _due,
    AskPending: _pending,
    AskWords: _words,
    AskCounts: _counts,
}


def apply(tenant: Tenant, effects: Sequence[Effect]) -> None:
    """Apply all effects, or none: what they assume is checked before the first is applied."""
    trial = _Trial(tenant)
    for effect in effects:
        _checks[type(effect)](trial, effect)
    for effect in effects:
        _writes[type(effect)](tenant, effect)


class _Trial:
    """What the tenant will look like while effects are checked."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.ids = dict.fromkeys(tenant.ids)
        self.hashes: dict[int, bytes] = {}
        self.revisions: dict[tuple[str, str], int] = {}
        self.names: set[tuple[int, str]] = set()

    def hash(self, key: int) -> bytes:
        """The hash at the head of a key."""
        if key in self.hashes:
            return self.hashes[key]
        rows = self.tenant.rows.get(key)
        return b"" if rows is None or rows.deleted else rows.thread.hash

    def revision(self, kind: str, id: str) -> int:
        """The revision of a record."""
        if (kind, id) in self.revisions:
            return self.revisions[kind, id]
        data = self.tenant.records.get((kind, id))
        return 0 if data is None else decode_record(data).revision


def _check_new(trial: _Trial, effect: AddThread | Restore) -> None:
    if effect.row.id in trial.ids:
        raise Stale
    trial.ids[effect.row.id] = None
    trial.hashes[effect.row.key] = effect.row.hash


def _check_advance(trial: _Trial, effect: Advance) -> None:
    key = effect.before.key
    rows = trial.tenant.rows.get(key)
    used = effect.name is not None and (
        (rows and effect.name in rows.keys) or (key, effect.name) in trial.names
    )
    if trial.hash(key) != effect.before.hash or used:
        raise Stale
    trial.hashes[key] = effect.after.hash
    if effect.name is not None:
        trial.names.add((key, effect.name))


def _check_drop(trial: _Trial, effect: DropThread) -> None:
    hash = trial.hash(effect.row.key)
    if not hash or not (effect.anyway or hash == effect.row.hash):
        raise Stale


def _check_record(trial: _Trial, effect: SaveRecord | DropRecord | CheckRecord) -> None:
    kind, id = (
        (effect.record.kind, effect.record.id) if isinstance(effect, SaveRecord) else (effect.kind, effect.id)
    )
    if trial.revision(kind, id) != effect.before:
        raise Stale
    after = {SaveRecord: effect.before + 1, DropRecord: 0}.get(type(effect), effect.before)
    trial.revisions[kind, id] = after


def _check_job(trial: _Trial, effect: EndJob | MoveJob) -> None:
    data = trial.tenant.jobs.get(effect.id if isinstance(effect, EndJob) else effect.job.id)
    if data is None or decode_job(data).token != effect.token:
        raise Stale


def _check_nothing(trial: _Trial, effect: Effect) -> None:
    """Nothing is assumed."""


_checks: dict[type, Callable[[_Trial, Any], None]] = {
    AddThread: _check_new,
    Restore: _check_new,
    Advance: _check_advance,
    CopyLineage: _check_nothing,
    DropThread: _check_drop,
    EraseParts: _check_nothing,
    SaveRecord: _check_record,
    DropRecord: _check_record,
    CheckRecord: _check_record,
    AddJob: _check_nothing,
    EndJob: _check_job,
    MoveJob: _check_job,
    Index: _check_nothing,
}


def _add_thread(tenant: Tenant, effect: AddThread) -> None:
    tenant.rows[effect.row.key] = Rows(effect.row)
    tenant.ids[effect.row.id] = effect.row.key


def _advance(tenant: Tenant, effect: Advance) -> None:
    rows = tenant.rows[effect.before.key]
    rows.move(effect.after)
    rows.write(effect)


def _restore(tenant: Tenant, effect: Restore) -> None:
    rows = Rows(effect.row)
    for step in effect.steps:
        rows.write(step)
    tenant.rows[effect.row.key] = rows
    tenant.ids[effect.row.id] = effect.row.key


def _copy_lineage(tenant: Tenant, effect: CopyLineage) -> None:
    for segment in effect.segments:
        tenant.rows[effect.key].copy(tenant.rows[segment.key], segment.upto)


def _drop_thread(tenant: Tenant, effect: DropThread) -> None:
    tenant.rows[effect.row.key].deleted = True
    del tenant.ids[effect.row.id]
    while free := [key for key, rows in tenant.rows.items() if rows.deleted and not _has_child(tenant, key)]:
        for key in free:
            del tenant.rows[key]


def _erase_parts(tenant: Tenant, effect: EraseParts) -> None:
    rows = tenant.rows[effect.key]
    gone = {(log, place): commitment for log, place, commitment in effect.items}
    for at, commitment in gone.items():
        rows.items[at] = msgspec.structs.replace(rows.items[at], body=None, salt=None, erased=commitment)
    for version, commitment in effect.contents:
        rows.changesets[version] = msgspec.structs.replace(
            rows.changesets[version], content=None, salt=None, erased=commitment
        )
    touched = {rows.items[at].version for at in gone} | {version for version, _ in effect.contents}
    rows.keys = {
        name: KeyRow(row.version, b"") if row.version in touched else row for name, row in rows.keys.items()
    }
    rows.anchors = {version: state for version, state in rows.anchors.items() if version > effect.states}
    rows.texts = [text for text in rows.texts if (text.log, text.place) not in gone]


def _has_child(tenant: Tenant, key: int) -> bool:
    return any(rows.thread.parent_key == key for rows in tenant.rows.values())


def _save_record(tenant: Tenant, effect: SaveRecord) -> None:
    tenant.records[effect.record.kind, effect.record.id] = msgspec.json.encode(effect.record)


def _drop_record(tenant: Tenant, effect: DropRecord) -> None:
    del tenant.records[effect.kind, effect.id]


def _add_job(tenant: Tenant, effect: AddJob) -> None:
    jobs = [decode_job(data) for data in tenant.jobs.values()]
    waiting = {job.key for job in jobs if job.key is not None and job.status != "dead"}
    if effect.job.id not in tenant.jobs and effect.job.key not in waiting:
        tenant.jobs[effect.job.id] = msgspec.json.encode(effect.job)


def _end_job(tenant: Tenant, effect: EndJob) -> None:
    del tenant.jobs[effect.id]


def _move_job(tenant: Tenant, effect: MoveJob) -> None:
    tenant.jobs[effect.job.id] = msgspec.json.encode(effect.job)


def _index(tenant: Tenant, effect: Index) -> None:
    rows = tenant.rows[effect.row.key]
    rows.texts = [text for text in rows.texts if text.version > effect.upto or text not in effect.texts]
    rows.texts += effect.texts
    rows.indexed = max(rows.indexed, effect.upto)


_writes: dict[type, Callable[[Tenant, Any], None]] = {
    AddThread: _add_thread,
    Restore: _restore,
    Advance: _advance,
    CopyLineage: _copy_lineage,
    DropThread: _drop_thread,
    EraseParts: _erase_parts,
    SaveRecord: _save_record,
    DropRecord: _drop_record,
    CheckRecord: lambda tenant, effect: None,
    AddJob: _add_job,
    EndJob: _end_job,
    MoveJob: _move_job,
    Index: _index,
}


T = TypeVar("T")


class MemoryStore:
    """Threads, records and jobs in this process only."""

    name = "memory"

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        clock: Callable[[], int] = now_ms,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.limits = limits or Limits()
        self._clock = clock
        self._random = random
        self._tenants: dict[str, Tenant] = {}
        self._heads = Heads()
        self._wakes = Wakes()
        self._keys = 0
        self._closed = False

    async def read(self, scope: Scope, asking: Asking[T]) -> T:
        """The result of a reading."""
        tenant = self._tenant(scope)
        return answered(asking, self._answers(tenant, scope))

    async def change(self, scope: Scope, planning: Callable[[Setting], Asking[Plan]]) -> Plan:
        """The plan that was applied."""
        tenant = self._tenant(scope)
        stale: Sequence[Effect] = ()
        for fresh in (False, True):
            plan = answered(planning(self._setting(scope, fresh=fresh)), self._answers(tenant, scope))
            try:
                apply(tenant, plan.effects)
            except Stale:
                stale = plan.effects
                continue
            self._heads.learn(scope.tenant, plan.known)
            self._wakes.wake(scope.tenant, plan.known)
            return plan
        raise obstacle(stale)

    async def claim(self, scope: Scope, kinds: Sequence[str], limit: int, lease_ms: int) -> list[Job]:
        """Jobs that are due, now held by a claim of their own for so long."""
        plan = await self.change(scope, lambda setting: plan_claim(kinds, limit, lease_ms, setting))
        jobs = [effect.job for effect in plan.effects if isinstance(effect, MoveJob)]
        return [job for job in jobs if job.status == "running"]

    async def changed(self, scope: Scope, thread: str, after: int, timeout: float) -> None:
        """Return once the thread may be past a version, or when the time is over."""
        tenant = self._tenant(scope)
        key = tenant.ids.get(thread)
        if key is not None and tenant.rows[key].thread.version <= after:
            with self._wakes.waiting(scope, thread, after) as woken:
                await asyncio.wait([woken], timeout=timeout)

    async def stirred(self, after: int, timeout: float) -> int:
        """A number that is no longer ``after`` once anybody may have changed a thread."""
        return await self._wakes.stirred(after, timeout)

    def now(self) -> int:
        """The time by this machine's clock, in milliseconds since 1970."""
        return self._clock()

    async def report(self) -> Report:
        """What the store says about its health."""
        threads = sum(len(tenant.ids) for tenant in self._tenants.values())
        return Report(store="memory", format=1, healthy=not self._closed, facts={"threads": threads})

    async def scrub(self) -> Scrubbed:
        """Leave no trace of rows that were removed: there is none."""
        return Scrubbed()

    async def close(self) -> None:
        """Forget everything."""
        self._closed = True
        self._tenants.clear()
        self._wakes.wake_all()

    def _tenant(self, scope: Scope) -> Tenant:
        if self._closed:
            raise StoreClosed
        return self._tenants.setdefault(scope.tenant, Tenant())

    def _answers(self, tenant: Tenant, scope: Scope) -> Callable[[Ask[Any]], Any]:
        def answer_any(question: Ask[Any]) -> Any:
            if isinstance(question, AskTenants):
                names = [
                    name for name, each in self._tenants.items() if each.ids or each.records or each.jobs
                ]
                return sorted(names) if scope.user is None else []
            return answer(tenant, scope, question)

        return answer_any

    def _setting(self, scope: Scope, *, fresh: bool) -> Setting:
        return Setting(
            scope=scope,
            now=self._clock(),
            random=self._random,
            new_key=self._new_key,
            known=self._heads.of(scope.tenant),
            fresh=fresh,
        )

    def _new_key(self) -> int:
        self._keys += 1
        return self._keys


__all__ = ["MemoryStore"]
