"""The store in memory: nothing durable, everything exact. The others are held to it."""

import os
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from holdfast.core.errors import StoreClosed
from holdfast.core.heads import Heads
from holdfast.core.jobs import is_due
from holdfast.core.owners import obstacle
from holdfast.core.planning import Plan, Setting, plan_claim
from holdfast.core.ports import Report
from holdfast.core.rows import (
    AddJob,
    AddThread,
    Advance,
    Ask,
    AskAnchor,
    AskChangesets,
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
    Index,
    ItemRow,
    KeyRow,
    MoveJob,
    Restore,
    SaveRecord,
    Stale,
    Text,
    ThreadRow,
    answered,
)
from holdfast.core.text import words
from holdfast.core.values import Found, Job, Limits, Record, Scope
from holdfast.stores.waking import Wakes

T = TypeVar("T")


def now_ms() -> int:
    """The time, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class _Rows:
    """The rows of one thread key. Bodies are bytes, so nothing is shared with a caller."""

    def __init__(self, thread: ThreadRow) -> None:
        self.thread = thread
        self.deleted = False
        self.changesets: dict[int, ChangesetRow] = {}
        self.items: dict[tuple[str, int], ItemRow] = {}
        self.cuts: list[CutRow] = []
        self.anchors: dict[int, bytes] = {}
        self.keys: dict[str, KeyRow] = {}
        self.texts: list[Text] = []
        self.indexed = 0

    def write(self, step: Advance) -> None:
        """Add the rows of one changeset."""
        self.changesets[step.change.version] = step.change
        self.items |= {(item.log, item.place): item for item in step.items}
        self.cuts += step.cuts
        if step.anchor is not None:
            self.anchors[step.change.version] = step.anchor
        if step.name is not None:
            self.keys[step.name] = KeyRow(step.change.version, step.fingerprint or b"")

    def copy(self, source: "_Rows", upto: int) -> None:
        """Take over another's rows up to a version."""
        self.changesets |= {v: row for v, row in source.changesets.items() if v <= upto}
        self.items |= {at: row for at, row in source.items.items() if row.version <= upto}
        self.cuts += [cut for cut in source.cuts if cut.version <= upto]
        self.anchors |= {v: state for v, state in source.anchors.items() if v <= upto}


class _Tenant:
    """Everything of one tenant."""

    def __init__(self) -> None:
        self.rows: dict[int, _Rows] = {}
        self.ids: dict[str, int] = {}
        self.records: dict[tuple[str, str], bytes] = {}
        self.jobs: dict[str, bytes] = {}


_record_decoder = msgspec.json.Decoder(Record)
_job_decoder = msgspec.json.Decoder(Job)


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
        self._tenants: dict[str, _Tenant] = {}
        self._heads = Heads()
        self._wakes = Wakes()
        self._keys = 0
        self._closed = False

    async def read(self, scope: Scope, asking: Asking[T]) -> T:
        """The result of a reading."""
        tenant = self._tenant(scope)
        return answered(asking, lambda question: _answer(tenant, scope, question))

    async def change(self, scope: Scope, planning: Callable[[Setting], Asking[Plan]]) -> Plan:
        """The plan that was applied."""
        tenant = self._tenant(scope)
        stale: Sequence[Effect] = ()
        for fresh in (False, True):
            plan = answered(
                planning(self._setting(scope, fresh=fresh)), lambda question: _answer(tenant, scope, question)
            )
            try:
                _apply(tenant, plan.effects)
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
        return [effect.job for effect in plan.effects if isinstance(effect, MoveJob)]

    async def changed(self, scope: Scope, thread: str, after: int, timeout: float) -> None:
        """Return once the thread may be past a version, or when the time is over."""
        tenant = self._tenant(scope)
        key = tenant.ids.get(thread)
        if key is None or tenant.rows[key].thread.version <= after:
            await self._wakes.wait(scope.tenant, thread, timeout)

    async def report(self) -> Report:
        """What the store says about its health."""
        threads = sum(len(tenant.ids) for tenant in self._tenants.values())
        return Report(store="memory", format=1, healthy=not self._closed, facts={"threads": threads})

    async def close(self) -> None:
        """Forget everything."""
        self._closed = True
        self._tenants.clear()

    def _tenant(self, scope: Scope) -> _Tenant:
        if self._closed:
            raise StoreClosed
        return self._tenants.setdefault(scope.tenant, _Tenant())

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


# Questions.


def _answer(tenant: _Tenant, scope: Scope, question: Ask[Any]) -> Any:
    return _answers[type(question)](tenant, scope, question)


def _thread(tenant: _Tenant, scope: Scope, question: AskThread) -> ThreadRow | None:
    key = tenant.ids.get(question.id)
    if key is None or scope.user not in (None, tenant.rows[key].thread.owner):
        return None
    return tenant.rows[key].thread


def _anchor(tenant: _Tenant, scope: Scope, question: AskAnchor) -> tuple[int, bytes] | None:
    anchors = tenant.rows[question.key].anchors
    version = max((v for v in anchors if v <= question.upto), default=None)
    return None if version is None else (version, anchors[version])


def _changesets(tenant: _Tenant, scope: Scope, question: AskChangesets) -> list[ChangesetRow]:
    rows = tenant.rows[question.key].changesets
    last = min(question.upto, question.after + question.limit)
    return [rows[version] for version in range(question.after + 1, last + 1) if version in rows]


def _items(tenant: _Tenant, scope: Scope, question: AskItems) -> list[ItemRow]:
    rows = [
        row
        for (log, place), row in tenant.rows[question.key].items.items()
        if log == question.log and question.above < place < question.below and row.version <= question.upto
    ]
    rows.sort(key=lambda row: row.place, reverse=question.backwards)
    return rows[: question.limit]


def _cuts(tenant: _Tenant, scope: Scope, question: AskCuts) -> list[CutRow]:
    return [
        cut
        for cut in tenant.rows[question.key].cuts
        if cut.log == question.log
        and cut.version <= question.upto
        and cut.first <= question.last
        and cut.last >= question.first
    ]


def _named(tenant: _Tenant, scope: Scope, question: AskNamed) -> list[ItemRow]:
    rows = tenant.rows[question.key].items.values()
    return [row for row in rows if row.id in question.ids and row.version <= question.upto]


def _key(tenant: _Tenant, scope: Scope, question: AskKey) -> KeyRow | None:
    return tenant.rows[question.key].keys.get(question.name)


def _threads(tenant: _Tenant, scope: Scope, question: AskThreads) -> list[ThreadRow]:
    rows = [tenant.rows[key].thread for key in tenant.ids.values()]
    mine = [
        row
        for row in rows
        if scope.user in (None, row.owner)
        and question.owner in (None, row.owner)
        and (question.before is None or (row.created, row.id) < question.before)
    ]
    return sorted(mine, key=lambda row: (row.created, row.id), reverse=True)[: question.limit]


def _record(tenant: _Tenant, scope: Scope, question: AskRecord) -> Record | None:
    data = tenant.records.get((question.kind, question.id))
    record = _record_decoder.decode(data) if data is not None else None
    return record if record and scope.user in (None, record.owner) else None


def _records(tenant: _Tenant, scope: Scope, question: AskRecords) -> list[Record]:
    query = question.query
    records = [_record_decoder.decode(data) for data in tenant.records.values()]
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


def _job(tenant: _Tenant, scope: Scope, question: AskJob) -> Job | None:
    data = tenant.jobs.get(question.id)
    return None if data is None else _job_decoder.decode(data)


def _jobs(tenant: _Tenant, scope: Scope, question: AskJobs) -> list[Job]:
    jobs = [_job_decoder.decode(data) for data in tenant.jobs.values()]
    found = [job for job in jobs if question.status in (None, job.status)]
    return sorted(found, key=lambda job: (job.due, job.id))[: question.limit]


def _due(tenant: _Tenant, scope: Scope, question: AskDue) -> list[Job]:
    jobs = _jobs(tenant, scope, AskJobs(None, len(tenant.jobs)))
    return [job for job in jobs if job.kind in question.kinds and is_due(job, question.now)][: question.limit]


def _pending(tenant: _Tenant, scope: Scope, question: AskPending) -> list[tuple[ThreadRow, int]]:
    rows = [tenant.rows[key] for key in tenant.ids.values()]
    late = [(r.thread, r.indexed) for r in rows if r.indexed < r.thread.version]
    return [(row, at) for row, at in late if scope.user in (None, row.owner)][: question.limit]


def _words(tenant: _Tenant, scope: Scope, question: AskWords) -> list[Found]:
    found = []
    for key in tenant.ids.values():
        rows = tenant.rows[key]
        if scope.user not in (None, rows.thread.owner) or question.owner not in (None, rows.thread.owner):
            continue
        for text in rows.texts:
            said = words(text.text)
            if all(word in said for word in question.words):
                score = sum(said.count(word) for word in question.words) / len(said)
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
    return sorted(found, key=lambda hit: (-hit.score, hit.thread, hit.place))[: question.limit]


_answers: dict[type, Callable[[_Tenant, Scope, Any], Any]] = {
    AskThread: _thread,
    AskAnchor: _anchor,
    AskChangesets: _changesets,
    AskItems: _items,
    AskCuts: _cuts,
    AskNamed: _named,
    AskKey: _key,
    AskThreads: _threads,
    AskRecord: _record,
    AskRecords: _records,
    AskJob: _job,
    AskJobs: _jobs,
    AskDue: _due,
    AskPending: _pending,
    AskWords: _words,
}


# Effects.


def _apply(tenant: _Tenant, effects: Sequence[Effect]) -> None:
    """Apply all effects, or none: what they assume is checked before the first is applied."""
    trial = _Trial(tenant)
    for effect in effects:
        _checks[type(effect)](trial, effect)
    for effect in effects:
        _writes[type(effect)](tenant, effect)


class _Trial:
    """What the tenant will look like while effects are checked."""

    def __init__(self, tenant: _Tenant) -> None:
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
        return 0 if data is None else _record_decoder.decode(data).revision


def _check_new(trial: _Trial, effect: AddThread | Restore) -> None:
    if effect.row.id in trial.ids:
        raise Stale
    trial.ids[effect.row.id] = None
    trial.hashes[effect.row.key] = effect.row.hash


def _check_advance(trial: _Trial, effect: Advance) -> None:
    key = effect.before.key
    rows = trial.tenant.rows.get(key)
    used = effect.name is not None and ((rows and effect.name in rows.keys) or (key, effect.name) in trial.names)
    if trial.hash(key) != effect.before.hash or used:
        raise Stale
    trial.hashes[key] = effect.after.hash
    if effect.name is not None:
        trial.names.add((key, effect.name))


def _check_record(trial: _Trial, effect: SaveRecord | DropRecord | CheckRecord) -> None:
    kind, id = (effect.record.kind, effect.record.id) if isinstance(effect, SaveRecord) else (effect.kind, effect.id)
    if trial.revision(kind, id) != effect.before:
        raise Stale
    after = {SaveRecord: effect.before + 1, DropRecord: 0}.get(type(effect), effect.before)
    trial.revisions[kind, id] = after


def _check_job(trial: _Trial, effect: EndJob | MoveJob) -> None:
    data = trial.tenant.jobs.get(effect.id if isinstance(effect, EndJob) else effect.job.id)
    if data is None or _job_decoder.decode(data).token != effect.token:
        raise Stale


def _check_nothing(trial: _Trial, effect: Effect) -> None:
    """Nothing is assumed."""


_checks: dict[type, Callable[[_Trial, Any], None]] = {
    AddThread: _check_new,
    Restore: _check_new,
    Advance: _check_advance,
    CopyLineage: _check_nothing,
    DropThread: lambda trial, effect: _check_advance_hash(trial, effect),
    SaveRecord: _check_record,
    DropRecord: _check_record,
    CheckRecord: _check_record,
    AddJob: _check_nothing,
    EndJob: _check_job,
    MoveJob: _check_job,
    Index: _check_nothing,
}


def _check_advance_hash(trial: _Trial, effect: DropThread) -> None:
    if trial.hash(effect.row.key) != effect.row.hash:
        raise Stale


def _add_thread(tenant: _Tenant, effect: AddThread) -> None:
    tenant.rows[effect.row.key] = _Rows(effect.row)
    tenant.ids[effect.row.id] = effect.row.key


def _advance(tenant: _Tenant, effect: Advance) -> None:
    rows = tenant.rows[effect.before.key]
    rows.thread = effect.after
    rows.write(effect)


def _restore(tenant: _Tenant, effect: Restore) -> None:
    rows = _Rows(effect.row)
    for step in effect.steps:
        rows.write(step)
    tenant.rows[effect.row.key] = rows
    tenant.ids[effect.row.id] = effect.row.key


def _copy_lineage(tenant: _Tenant, effect: CopyLineage) -> None:
    for segment in effect.segments:
        tenant.rows[effect.key].copy(tenant.rows[segment.key], segment.upto)


def _drop_thread(tenant: _Tenant, effect: DropThread) -> None:
    tenant.rows[effect.row.key].deleted = True
    del tenant.ids[effect.row.id]
    while free := [key for key, rows in tenant.rows.items() if rows.deleted and not _has_child(tenant, key)]:
        for key in free:
            del tenant.rows[key]


def _has_child(tenant: _Tenant, key: int) -> bool:
    return any(rows.thread.parent_key == key for rows in tenant.rows.values())


def _save_record(tenant: _Tenant, effect: SaveRecord) -> None:
    tenant.records[effect.record.kind, effect.record.id] = msgspec.json.encode(effect.record)


def _drop_record(tenant: _Tenant, effect: DropRecord) -> None:
    del tenant.records[effect.kind, effect.id]


def _add_job(tenant: _Tenant, effect: AddJob) -> None:
    jobs = [_job_decoder.decode(data) for data in tenant.jobs.values()]
    waiting = {job.key for job in jobs if job.key is not None and job.status != "dead"}
    if effect.job.id not in tenant.jobs and effect.job.key not in waiting:
        tenant.jobs[effect.job.id] = msgspec.json.encode(effect.job)


def _end_job(tenant: _Tenant, effect: EndJob) -> None:
    del tenant.jobs[effect.id]


def _move_job(tenant: _Tenant, effect: MoveJob) -> None:
    tenant.jobs[effect.job.id] = msgspec.json.encode(effect.job)


def _index(tenant: _Tenant, effect: Index) -> None:
    rows = tenant.rows[effect.row.key]
    rows.texts = [text for text in rows.texts if text.version > effect.upto or text not in effect.texts]
    rows.texts += effect.texts
    rows.indexed = max(rows.indexed, effect.upto)


_writes: dict[type, Callable[[_Tenant, Any], None]] = {
    AddThread: _add_thread,
    Restore: _restore,
    Advance: _advance,
    CopyLineage: _copy_lineage,
    DropThread: _drop_thread,
    SaveRecord: _save_record,
    DropRecord: _drop_record,
    CheckRecord: lambda tenant, effect: None,
    AddJob: _add_job,
    EndJob: _end_job,
    MoveJob: _move_job,
    Index: _index,
}
