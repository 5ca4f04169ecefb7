"""Questions answered from what is held."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from clew.core.jobs import is_due
from clew.core.rows import (
    Ask,
    AskAnchor,
    AskChangesets,
    AskCounts,
    AskCuts,
    AskDue,
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
    AskThread,
    AskThreads,
    AskWords,
    ChangesetRow,
    CutRow,
    ItemRow,
    KeyRow,
    Text,
    ThreadRow,
    Unreadable,
)
from clew.core.text import words
from clew.core.values import Found, Job, Record, Scope
from clew.stores.memory.rows import Rows, Tenant, decode_job, decode_record


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
