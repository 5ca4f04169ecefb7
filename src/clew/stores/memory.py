"""The store in memory: nothing durable, everything exact. The others are held to it."""

import asyncio
import heapq
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any, TypeVar

import msgspec

from clew.core.clock import now_ms
from clew.core.errors import StoreClosed
from clew.core.log.commit import Plan, PlanContext, Planner, claimed_jobs, plan_claim
from clew.core.log.heads import HeadCache
from clew.core.log.jobs import is_due
from clew.core.log.owners import hidden_conflict
from clew.core.log.rows import (
    ROW_COUNT_NAMES,
    AddJob,
    AddThread,
    Advance,
    Ask,
    AskAnchor,
    AskChangesets,
    AskCuts,
    AskCutsAtPlaces,
    AskDueJobs,
    AskHits,
    AskIdempotencyKey,
    AskItems,
    AskItemsAtPlaces,
    AskItemsById,
    AskJob,
    AskJobs,
    AskNearest,
    AskRecord,
    AskRecords,
    AskRecordsAbout,
    AskRecordsById,
    AskRecordsOfOwner,
    AskRowCounts,
    AskTenants,
    AskTermCounts,
    AskTextCount,
    AskThread,
    AskThreads,
    AskUnindexedThreads,
    AskWordCounts,
    ChangesetRow,
    CheckRecord,
    CopyLineage,
    CutRow,
    DropRecord,
    DropThread,
    EndJob,
    EraseParts,
    IndexTexts,
    ItemRow,
    KeyRow,
    MoveJob,
    RestoreThread,
    SaveRecord,
    SearchText,
    StalePlan,
    StoreRead,
    StoreWrite,
    TermCounts,
    ThreadRow,
    UnreadableThread,
    run_read,
)
from clew.core.log.vectors import VECTOR_KIND, indexed_vector
from clew.core.ports import ScrubResult, StoreReport
from clew.core.text.words import words
from clew.core.values import Job, Limits, Record, Scope, SearchHit
from clew.stores.memory_rows import TenantRows, ThreadRows
from clew.stores.memory_texts import MemoryTexts
from clew.stores.watch import ChangeWaiters

T = TypeVar("T")

decode_record = msgspec.json.Decoder(Record).decode
decode_job = msgspec.json.Decoder(Job).decode


def answer_question(tenant: TenantRows, scope: Scope, question: Ask[Any]) -> Any:
    """The answer to any question."""
    return _answers[type(question)](tenant, scope, question)


def _thread(tenant: TenantRows, scope: Scope, question: AskThread) -> ThreadRow | None:
    key = tenant.ids.get(question.id)
    if key is None or scope.user not in (None, tenant.rows[key].thread.owner):
        return None
    return tenant.rows[key].read()


def _anchor(tenant: TenantRows, scope: Scope, question: AskAnchor) -> tuple[int, bytes] | None:
    anchors = tenant.rows[question.key].anchors
    version = max((v for v in anchors if v <= question.upto), default=None)
    return None if version is None else (version, anchors[version])


def _changesets(tenant: TenantRows, scope: Scope, question: AskChangesets) -> list[ChangesetRow]:
    rows = tenant.rows[question.key].changesets
    last = min(question.upto, question.after + question.limit)
    return [rows[version] for version in range(question.after + 1, last + 1) if version in rows]


def _items(tenant: TenantRows, scope: Scope, question: AskItems) -> list[ItemRow]:
    rows = tenant.rows[question.key]
    order = rows.places_by_log.get(question.log, [])
    places = order[bisect_right(order, question.above) : bisect_left(order, question.below)]
    items = (
        rows.items[question.log, place] for place in (reversed(places) if question.backwards else places)
    )
    return list(islice((row for row in items if row.version <= question.upto), question.limit))


def _cuts(tenant: TenantRows, scope: Scope, question: AskCuts) -> list[CutRow]:
    return [
        cut
        for cut in tenant.rows[question.key].cuts
        if cut.log == question.log
        and cut.version <= question.upto
        and cut.first <= question.last
        and cut.last >= question.first
    ]


def _items_at_places(tenant: TenantRows, scope: Scope, question: AskItemsAtPlaces) -> list[ItemRow]:
    rows = tenant.rows[question.key].items
    items = (rows.get((question.log, place)) for place in question.places)
    return [row for row in items if row is not None and row.version <= question.upto]


def _cuts_at_places(tenant: TenantRows, scope: Scope, question: AskCutsAtPlaces) -> list[CutRow]:
    return [
        cut
        for place in question.places
        for cut in _cuts(tenant, scope, AskCuts(question.key, question.log, place, place, question.upto))
    ]


def _items_by_id(tenant: TenantRows, scope: Scope, question: AskItemsById) -> list[ItemRow]:
    rows = tenant.rows[question.key].items.values()
    return [row for row in rows if row.id in question.ids and row.version <= question.upto]


def _idempotency_key(tenant: TenantRows, scope: Scope, question: AskIdempotencyKey) -> KeyRow | None:
    return tenant.rows[question.key].keys.get(question.idempotency_key)


def _threads(tenant: TenantRows, scope: Scope, question: AskThreads) -> list[ThreadRow | UnreadableThread]:
    rows = [tenant.rows[key] for key in tenant.ids.values()]
    mine = [
        row.try_read()
        for row in rows
        if scope.user in (None, row.thread.owner)
        and question.owner in (None, row.thread.owner)
        and (question.before is None or (row.thread.created, row.thread.id) < question.before)
    ]
    return sorted(mine, key=lambda row: (row.created, row.id), reverse=True)[: question.limit]


def _record(tenant: TenantRows, scope: Scope, question: AskRecord) -> Record | None:
    data = tenant.records.get((question.kind, question.id))
    record = decode_record(data) if data is not None else None
    return record if record and scope.user in (None, record.owner) else None


def _records_by_id(tenant: TenantRows, scope: Scope, question: AskRecordsById) -> list[Record]:
    records = [_record(tenant, scope, AskRecord(kind, id)) for kind, id in question.names]
    return [record for record in records if record is not None]


def _records(tenant: TenantRows, scope: Scope, question: AskRecords) -> list[Record]:
    query = question.query
    records = [decode_record(data) for data in tenant.records.values()]
    matches = [
        record
        for record in records
        if record.kind == query.kind
        and scope.user in (None, record.owner)
        and query.owner in (None, record.owner)
        and set(query.tags) <= set(record.tags)
        and (query.since is None or record.sort >= query.since)
        and (query.until is None or record.sort < query.until)
    ]
    matches.sort(key=lambda record: (record.sort, record.id), reverse=query.newest)
    if query.after is not None:
        after = query.after
        matches = [r for r in matches if ((r.sort, r.id) < after if query.newest else (r.sort, r.id) > after)]
    return matches[: query.limit]


def _records_of_owner(tenant: TenantRows, scope: Scope, question: AskRecordsOfOwner) -> list[Record]:
    records = [decode_record(tenant.records[at]) for at in sorted(tenant.records)]
    mine = [r for r in records if r.owner == question.owner and scope.user in (None, r.owner)]
    return [record for record in mine if record.kind not in question.without][: question.limit]


def _records_about(tenant: TenantRows, scope: Scope, question: AskRecordsAbout) -> list[Record]:
    names = set(question.names)
    records = [decode_record(data) for data in tenant.records.values()]
    return [r for r in records if names & {r.id, *r.tags} and scope.user in (None, r.owner)]


def _nearest(tenant: TenantRows, scope: Scope, question: AskNearest) -> list[Record]:
    signs = int.from_bytes(question.signs)
    distances: list[tuple[int, str, Record]] = []
    for (kind, id), data in tenant.records.items():
        record = decode_record(data) if kind == VECTOR_KIND else None
        vector = indexed_vector(record) if record is not None else None
        if (
            record is not None
            and vector is not None
            and {scope.user, question.owner} <= {None, record.owner}
            and question.thread in (None, vector.thread)
            and vector.log in question.logs
            and vector.space == question.space
            and len(vector.signs) == len(question.signs)
        ):
            distances.append(((int.from_bytes(vector.signs) ^ signs).bit_count(), id, record))
    return [record for _, _, record in heapq.nsmallest(question.limit, distances)]


def _row_counts(tenant: TenantRows, scope: Scope, question: AskRowCounts) -> dict[str, int]:
    rows = tenant.rows[question.key]
    collections: tuple[Sized, ...] = (rows.changesets, rows.items, rows.anchors, rows.keys, rows.texts)
    return dict(zip(ROW_COUNT_NAMES, map(len, collections), strict=True))


def _job(tenant: TenantRows, scope: Scope, question: AskJob) -> Job | None:
    data = tenant.jobs.get(question.id)
    job = None if data is None else decode_job(data)
    return job if job and scope.user in (None, job.owner) else None


def _jobs(tenant: TenantRows, scope: Scope, question: AskJobs) -> list[Job]:
    jobs = [decode_job(data) for data in tenant.jobs.values()]
    mine = [job for job in jobs if scope.user in (None, job.owner)]
    matches = [job for job in mine if question.status in (None, job.status)]
    return sorted(matches, key=lambda job: (job.due, job.id))[: question.limit]


def _due_jobs(tenant: TenantRows, scope: Scope, question: AskDueJobs) -> list[Job]:
    jobs = _jobs(tenant, scope, AskJobs(None, len(tenant.jobs)))
    return [job for job in jobs if job.kind in question.kinds and is_due(job, question.now)][: question.limit]


def _unindexed_threads(
    tenant: TenantRows, scope: Scope, question: AskUnindexedThreads
) -> list[tuple[ThreadRow, int]]:
    rows = [tenant.rows[key] for key in tenant.ids.values()]
    late = [r for r in rows if r.indexed_upto < r.thread.version and scope.user in (None, r.thread.owner)]
    pairs = [(r.try_read(), r.indexed_upto) for r in late[: question.limit]]
    return [(row, upto) for row, upto in pairs if isinstance(row, ThreadRow)]


def _hits(tenant: TenantRows, scope: Scope, question: AskHits) -> list[SearchHit]:
    hits = [
        SearchHit(
            thread=rows.thread.id,
            log=text.log,
            place=text.place,
            version=text.version,
            text=text.text,
            score=sum(map(text_words.count, question.words)) / len(text_words),
        )
        for rows, text, text_words in _indexed_texts(tenant, scope, question)
        if set(question.words) <= set(text_words)
    ]
    return sorted(hits, key=lambda hit: (-hit.score, hit.thread, hit.place))[: question.limit]


def _term_counts(tenant: TenantRows, scope: Scope, question: AskTermCounts) -> list[TermCounts]:
    texts = []
    for rows, text, text_words in _indexed_texts(tenant, scope, question):
        counts = {word: number for word in question.words if (number := text_words.count(word))}
        hits = [word in counts for word in question.any]
        if all(hits) if question.all else any(hits):
            texts.append(
                TermCounts(rows.thread.id, text.log, text.place, text.version, len(text_words), counts)
            )
    return texts[::-1][: question.limit]


def _text_count(tenant: TenantRows, scope: Scope, question: AskTextCount) -> int:
    rows = [tenant.rows[key] for key in tenant.ids.values()]
    owners = {scope.user, question.owner} - {None}
    return min(sum(len(r.texts) for r in rows if owners <= {r.thread.owner}), question.most)


def _word_counts(tenant: TenantRows, scope: Scope, question: AskWordCounts) -> list[int]:
    word_sets = [set(text_words) for _, _, text_words in _indexed_texts(tenant, scope, question)]
    return [min(sum(word in word_set for word_set in word_sets), question.most) for word in question.words]


def _indexed_texts(
    tenant: TenantRows, scope: Scope, question: AskHits | AskTermCounts | AskWordCounts
) -> Iterator[tuple[ThreadRows, SearchText, list[str]]]:
    """The indexed texts that a question is about, and the words of each."""
    owners = {scope.user, question.owner} - {None}
    for id, key in tenant.ids.items():
        rows = tenant.rows[key]
        if owners <= {rows.thread.owner} and question.thread in (None, id):
            for text in rows.texts:
                if question.log in (None, text.log):
                    yield rows, text, [*words(text.speaker), *words(text.text)]


_answers: dict[type, Callable[[TenantRows, Scope, Any], Any]] = {
    AskThread: _thread,
    AskAnchor: _anchor,
    AskChangesets: _changesets,
    AskItems: _items,
    AskCuts: _cuts,
    AskItemsAtPlaces: _items_at_places,
    AskCutsAtPlaces: _cuts_at_places,
    AskItemsById: _items_by_id,
    AskIdempotencyKey: _idempotency_key,
    AskThreads: _threads,
    AskRecord: _record,
    AskRecordsById: _records_by_id,
    AskRecords: _records,
    AskRecordsOfOwner: _records_of_owner,
    AskRecordsAbout: _records_about,
    AskRowCounts: _row_counts,
    AskJob: _job,
    AskJobs: _jobs,
    AskDueJobs: _due_jobs,
    AskUnindexedThreads: _unindexed_threads,
    AskHits: _hits,
    AskTermCounts: _term_counts,
    AskTextCount: _text_count,
    AskNearest: _nearest,
    AskWordCounts: _word_counts,
}


def apply_writes(tenant: TenantRows, writes: Sequence[StoreWrite]) -> None:
    """Apply every write, or none: what they assume is checked before the first is applied."""
    preview = _TenantPreview(tenant)
    for write in writes:
        _checks[type(write)](preview, write)
    for write in writes:
        _writes[type(write)](tenant, write)


class _TenantPreview:
    """A tenant as it will be after the writes that are checked so far."""

    def __init__(self, tenant: TenantRows) -> None:
        self.tenant = tenant
        self.ids = dict.fromkeys(tenant.ids)
        self.hashes: dict[int, bytes] = {}
        self.revisions: dict[tuple[str, str], int] = {}
        self.new_keys: set[tuple[int, str]] = set()

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


def _check_new(preview: _TenantPreview, write: AddThread | RestoreThread) -> None:
    if write.row.id in preview.ids:
        raise StalePlan
    preview.ids[write.row.id] = None
    preview.hashes[write.row.key] = write.row.hash


def _check_advance(preview: _TenantPreview, write: Advance) -> None:
    key = write.before.key
    rows = preview.tenant.rows.get(key)
    is_key_used = write.idempotency_key is not None and (
        (rows and write.idempotency_key in rows.keys) or (key, write.idempotency_key) in preview.new_keys
    )
    if preview.hash(key) != write.before.hash or is_key_used:
        raise StalePlan
    preview.hashes[key] = write.after.hash
    if write.idempotency_key is not None:
        preview.new_keys.add((key, write.idempotency_key))


def _check_drop(preview: _TenantPreview, write: DropThread) -> None:
    hash = preview.hash(write.row.key)
    if not hash or not (write.unconditional or hash == write.row.hash):
        raise StalePlan


def _check_record(preview: _TenantPreview, write: SaveRecord | DropRecord | CheckRecord) -> None:
    kind, id = (
        (write.record.kind, write.record.id) if isinstance(write, SaveRecord) else (write.kind, write.id)
    )
    if preview.revision(kind, id) != write.before:
        raise StalePlan
    after = {SaveRecord: write.before + 1, DropRecord: 0}.get(type(write), write.before)
    preview.revisions[kind, id] = after


def _check_job(preview: _TenantPreview, write: EndJob | MoveJob) -> None:
    data = preview.tenant.jobs.get(write.id if isinstance(write, EndJob) else write.job.id)
    if data is None or decode_job(data).token != write.token:
        raise StalePlan


def _check_nothing(preview: _TenantPreview, write: StoreWrite) -> None:
    """Nothing is assumed."""


_checks: dict[type, Callable[[_TenantPreview, Any], None]] = {
    AddThread: _check_new,
    RestoreThread: _check_new,
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
    IndexTexts: _check_nothing,
}


def _add_thread(tenant: TenantRows, write: AddThread) -> None:
    tenant.rows[write.row.key] = ThreadRows(write.row)
    tenant.ids[write.row.id] = write.row.key


def _advance(tenant: TenantRows, write: Advance) -> None:
    rows = tenant.rows[write.before.key]
    rows.set_thread(write.after)
    rows.add_changeset(write)


def _restore_thread(tenant: TenantRows, write: RestoreThread) -> None:
    rows = ThreadRows(write.row)
    for advance in write.advances:
        rows.add_changeset(advance)
    tenant.rows[write.row.key] = rows
    tenant.ids[write.row.id] = write.row.key


def _copy_lineage(tenant: TenantRows, write: CopyLineage) -> None:
    for segment in write.segments:
        tenant.rows[write.key].copy_rows(tenant.rows[segment.key], segment.upto)


def _drop_thread(tenant: TenantRows, write: DropThread) -> None:
    tenant.rows[write.row.key].deleted = True
    del tenant.ids[write.row.id]
    while free := [key for key, rows in tenant.rows.items() if rows.deleted and not _has_child(tenant, key)]:
        for key in free:
            del tenant.rows[key]


def _erase_parts(tenant: TenantRows, write: EraseParts) -> None:
    rows = tenant.rows[write.key]
    commitments = {(log, place): commitment for log, place, commitment in write.items}
    for at, commitment in commitments.items():
        rows.items[at] = msgspec.structs.replace(rows.items[at], body=None, salt=None, erased=commitment)
    for version, commitment in write.contents:
        rows.changesets[version] = msgspec.structs.replace(
            rows.changesets[version], content=None, salt=None, erased=commitment
        )
    versions = {rows.items[at].version for at in commitments} | {version for version, _ in write.contents}
    rows.keys = {
        name: KeyRow(row.version, b"") if row.version in versions else row for name, row in rows.keys.items()
    }
    rows.anchors = {version: state for version, state in rows.anchors.items() if version > write.states}
    rows.texts = [text for text in rows.texts if (text.log, text.place) not in commitments]


def _has_child(tenant: TenantRows, key: int) -> bool:
    return any(rows.thread.parent_key == key for rows in tenant.rows.values())


def _save_record(tenant: TenantRows, write: SaveRecord) -> None:
    tenant.records[write.record.kind, write.record.id] = msgspec.json.encode(write.record)


def _drop_record(tenant: TenantRows, write: DropRecord) -> None:
    del tenant.records[write.kind, write.id]


def _add_job(tenant: TenantRows, write: AddJob) -> None:
    jobs = [decode_job(data) for data in tenant.jobs.values()]
    waiting = {job.key for job in jobs if job.key is not None and job.status != "dead"}
    if write.job.id not in tenant.jobs and write.job.key not in waiting:
        tenant.jobs[write.job.id] = msgspec.json.encode(write.job)


def _end_job(tenant: TenantRows, write: EndJob) -> None:
    del tenant.jobs[write.id]


def _move_job(tenant: TenantRows, write: MoveJob) -> None:
    tenant.jobs[write.job.id] = msgspec.json.encode(write.job)


def _index_texts(tenant: TenantRows, write: IndexTexts) -> None:
    rows = tenant.rows[write.row.key]
    rows.texts = [text for text in rows.texts if text.version > write.upto or text not in write.texts]
    rows.texts += write.texts
    rows.indexed_upto = max(rows.indexed_upto, write.upto)


_writes: dict[type, Callable[[TenantRows, Any], None]] = {
    AddThread: _add_thread,
    RestoreThread: _restore_thread,
    Advance: _advance,
    CopyLineage: _copy_lineage,
    DropThread: _drop_thread,
    EraseParts: _erase_parts,
    SaveRecord: _save_record,
    DropRecord: _drop_record,
    CheckRecord: lambda tenant, write: None,
    AddJob: _add_job,
    EndJob: _end_job,
    MoveJob: _move_job,
    IndexTexts: _index_texts,
}


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
        self._tenants: dict[str, TenantRows] = {}
        self._heads = HeadCache()
        self._waiters = ChangeWaiters()
        self._last_key = 0
        self._closed = False
        self.provisional = MemoryTexts()

    async def read(self, scope: Scope, read: StoreRead[T]) -> T:
        """The result of a reading."""
        tenant = self._tenant(scope)
        return run_read(read, self._answers(tenant, scope))

    async def change(self, scope: Scope, planner: Planner) -> Plan:
        """The plan that was applied."""
        tenant = self._tenant(scope)
        stale_writes: Sequence[StoreWrite] = ()
        for fresh in (False, True):
            plan = run_read(planner(self._plan_context(scope, fresh=fresh)), self._answers(tenant, scope))
            try:
                apply_writes(tenant, plan.writes)
            except StalePlan:
                stale_writes = plan.writes
                continue
            self._heads.remember(scope.tenant, plan.heads)
            self._waiters.wake(scope.tenant, plan.heads)
            return plan
        raise hidden_conflict(stale_writes)

    async def claim(self, scope: Scope, kinds: Sequence[str], limit: int, lease_ms: int) -> list[Job]:
        """Claim jobs that are due, each for so long."""
        plan = await self.change(scope, lambda context: plan_claim(kinds, limit, lease_ms, context))
        return claimed_jobs(plan)

    async def wait_for_change(self, scope: Scope, thread: str, after: int, timeout: float) -> None:
        """Return once the thread may be past a version, or when the time is over."""
        tenant = self._tenant(scope)
        key = tenant.ids.get(thread)
        if key is not None and tenant.rows[key].thread.version <= after:
            with self._waiters.waiter_for(scope, thread, after) as waiter:
                await asyncio.wait([waiter], timeout=timeout)

    async def wait_for_any_change(self, after: int, timeout: float) -> int:
        """Return a number other than ``after`` once any thread may have changed, or when the time is over."""
        return await self._waiters.wait_for_any_change(after, timeout)

    def now(self) -> int:
        """The time by this machine's clock, in milliseconds since 1970."""
        return self._clock()

    async def report(self) -> StoreReport:
        """Report the store's health."""
        threads = sum(len(tenant.ids) for tenant in self._tenants.values())
        return StoreReport(store="memory", format=1, healthy=not self._closed, facts={"threads": threads})

    async def scrub(self) -> ScrubResult:
        """Leave no trace of rows that were removed: there is none."""
        return ScrubResult()

    async def close(self) -> None:
        """Forget everything."""
        self._closed = True
        self._tenants.clear()
        self.provisional.clear()
        self._waiters.wake_all()

    def _tenant(self, scope: Scope) -> TenantRows:
        if self._closed:
            raise StoreClosed
        return self._tenants.setdefault(scope.tenant, TenantRows())

    def _answers(self, tenant: TenantRows, scope: Scope) -> Callable[[Ask[Any]], Any]:
        def answer_any(question: Ask[Any]) -> Any:
            if isinstance(question, AskTenants):
                names = [
                    name for name, each in self._tenants.items() if each.ids or each.records or each.jobs
                ]
                return sorted(names) if scope.user is None else []
            return answer_question(tenant, scope, question)

        return answer_any

    def _plan_context(self, scope: Scope, *, fresh: bool) -> PlanContext:
        return PlanContext(
            scope=scope,
            now=self._clock(),
            random=self._random,
            new_key=self._new_key,
            find_head=self._heads.finder(scope.tenant),
            fresh=fresh,
        )

    def _new_key(self) -> int:
        self._last_key += 1
        return self._last_key
