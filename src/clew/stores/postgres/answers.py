"""Each question as a query and its values, and the rows that come back as core knows them."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

import msgspec
from psycopg.types.numeric import Int8

from clew.core.encoding import decode, decoder
from clew.core.errors import Forbidden, StoreDamaged
from clew.core.log.rows import (
    ROW_COUNT_NAMES,
    Ask,
    AskAnchor,
    AskChangesets,
    AskCuts,
    AskCutsAtPlaces,
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
    CutRow,
    ItemRow,
    KeyRow,
    Segment,
    TermCounts,
    ThreadRow,
    UnreadableThread,
)
from clew.core.values import Counters, Job, Record, SearchHit
from clew.stores.postgres.arrays import IntegerArray, TextArray

Row: TypeAlias = tuple[Any, ...]
Values: TypeAlias = tuple[Any, ...]

LONGEST_WORD = 1024
"""A longer one is known by its hash: PostgreSQL takes no word beyond 2 kB."""


class _StoredSegment(msgspec.Struct, frozen=True, array_like=True):
    key: UUID
    upto: int
    id: str
    owner: str | None
    created: int


_counters = decoder(Counters)
_segments = decoder(tuple[_StoredSegment, ...])
_about = decoder(tuple[str | None, tuple[str, ...]])


def index_word(word: str) -> str:
    """A folded word as the index holds it, quoted. Letters and digits need no escaping."""
    long = len(word.encode()) > LONGEST_WORD
    return f"'{sha256(word.encode()).hexdigest() if long else word}'"


# Rows.


def thread_row(row: Row) -> ThreadRow:
    """A thread."""
    key, id, owner, created, updated, version, hash, counters, segments, parent_key, about = row
    title, labels = _about(about) if about is not None else (None, ())
    return ThreadRow(
        key=key,
        id=id,
        owner=owner,
        created=created,
        updated=updated,
        version=version,
        hash=hash,
        counters=_counters(counters),
        segments=tuple(Segment(s.key, s.upto, s.id, s.owner, s.created) for s in _segments(segments))
        if segments is not None
        else (),
        parent_key=parent_key,
        title=title,
        labels=labels,
    )


def _row_or_unreadable(row: Row) -> ThreadRow | UnreadableThread:
    """A thread in a list, whose row may be damaged."""
    try:
        return thread_row(row)
    except StoreDamaged as error:
        return UnreadableThread(id=row[1], created=row[3], problem=error.problem)


def _unindexed_threads(rows: Sequence[Row]) -> list[tuple[ThreadRow, int]]:
    late = [(_row_or_unreadable(row[:-1]), row[-1]) for row in rows]
    return [(row, upto) for row, upto in late if isinstance(row, ThreadRow)]


def _changeset_row(row: Row) -> ChangesetRow:
    version, time, envelope, content, salt, hash, counters, erased = row
    return ChangesetRow(
        version=version,
        time=time,
        envelope=envelope,
        content=content,
        salt=salt,
        hash=hash,
        counters=_counters(counters),
        erased=erased,
    )


def _item_row(row: Row) -> ItemRow:
    log, place, version, meta, body, salt, erased, id, time = row
    return ItemRow(
        log=log,
        place=place,
        version=version,
        meta=meta,
        body=body,
        salt=salt,
        erased=erased,
        id=id,
        time=time,
    )


def _cut_row(row: Row) -> CutRow:
    log, first, last, version, count = row
    return CutRow(log=log, first=first, last=last, version=version, count=count)


def _record(row: Row) -> Record:
    kind, id, body, owner, tags, sort, revision = row
    return Record(
        kind=kind, id=id, body=decode(body), owner=owner, tags=tuple(tags), sort=sort, revision=revision
    )


def job_of(row: Row) -> Job:
    """A job."""
    id, kind, body, owner, key, due, attempts, limit, status, token, until, problem = row
    return Job(
        id=id,
        kind=kind,
        body=decode(body),
        owner=owner,
        key=key,
        due=due,
        attempts=attempts,
        limit=limit,
        status=status,
        token=token,
        until=until,
        problem=None if problem is None else problem.decode(),
    )


def _hit(row: Row) -> SearchHit:
    thread, log, place, version, text, score = row
    return SearchHit(thread=thread, log=log, place=place, version=version, text=text.decode(), score=score)


def _counted_text(row: Row) -> TermCounts:
    thread, log, place, version, length, terms, counts = row
    return TermCounts(
        thread, log, place, version, length or 0, dict(zip(terms or (), counts or (), strict=True))
    )


def _one(make: Callable[[Row], Any]) -> Callable[[Sequence[Row]], Any]:
    return lambda rows: make(rows[0]) if rows else None


def _many(make: Callable[[Row], Any]) -> Callable[[Sequence[Row]], Any]:
    return lambda rows: [make(row) for row in rows]


def _tenants(rows: Sequence[Row]) -> list[str]:
    if not rows[0][0]:
        raise Forbidden(
            problem="This login does not see every tenant. Name --tenant, or connect as a member of "
            "clew_maintenance."
        )
    return sorted(tenant for _, tenant in rows if tenant is not None)


# Questions.


def _thread(question: AskThread) -> Values:
    return (question.id,)


def _anchor(question: AskAnchor) -> Values:
    return (question.key, Int8(question.upto))


def _changesets(question: AskChangesets) -> Values:
    return (question.key, Int8(question.after), Int8(question.upto), Int8(question.limit))


def _items(question: AskItems) -> Values:
    bounds = (Int8(question.above), Int8(question.below), Int8(question.upto), Int8(question.limit))
    return (question.key, question.log, *bounds)


def _cuts(question: AskCuts) -> Values:
    return (question.key, question.log, Int8(question.first), Int8(question.last), Int8(question.upto))


def _places(question: AskItemsAtPlaces | AskCutsAtPlaces) -> Values:
    return (question.key, question.log, IntegerArray(question.places), Int8(question.upto))


def _items_by_id(question: AskItemsById) -> Values:
    return (question.key, TextArray(question.ids), Int8(question.upto))


def _records(question: AskRecords) -> Values:
    query = question.query
    sort, id = query.after or (None, None)
    bounds = (_int8(query.since), _int8(query.until), _int8(sort), id)
    return (query.kind, TextArray(query.tags), query.owner, *bounds, query.newest, Int8(query.limit))


def _records_of_owner(question: AskRecordsOfOwner) -> Values:
    return (question.owner, TextArray(question.without), Int8(question.limit))


def _threads(question: AskThreads) -> Values:
    time, id = question.before or (None, None)
    return (question.owner, _int8(time), id, Int8(question.limit))


def _hits(question: AskHits) -> Values:
    query = " & ".join(map(index_word, question.words))
    return (query, question.owner, question.thread, question.log, Int8(question.limit))


def _term_counts(question: AskTermCounts) -> Values:
    query = (" & " if question.all else " | ").join(map(index_word, question.any))
    terms = TextArray(question.words)
    return (query, terms, question.owner, question.thread, question.log, Int8(question.limit))


def _word_counts(question: AskWordCounts) -> Values:
    query = TextArray(map(index_word, question.words))
    return (query, question.owner, question.thread, question.log, Int8(question.most))


def _nearest(question: AskNearest) -> Values:
    within = (question.space, TextArray(question.logs), question.owner, question.thread)
    return (*within, question.signs, Int8(question.limit))


def _records_by_id(question: AskRecordsById) -> Values:
    return (TextArray(kind for kind, _ in question.names), TextArray(id for _, id in question.names))


def _int8(value: int | None) -> Int8 | None:
    return None if value is None else Int8(value)


class QuestionQuery(NamedTuple):
    """The query that answers a question: its name, its values after the scope, and the answer in its rows."""

    name: str
    values: Values
    answer: Callable[[Sequence[Row]], Any]


class _QueryKind(NamedTuple):
    """The query for a kind of question: its name, its values for one, and the answer in its rows."""

    name: str
    values: Callable[[Any], Values]
    answer: Callable[[Sequence[Row]], Any]


_queries: dict[type, _QueryKind] = {
    AskThread: _QueryKind("thread", _thread, _one(thread_row)),
    AskAnchor: _QueryKind("anchor", _anchor, _one(lambda row: row)),
    AskChangesets: _QueryKind("changesets", _changesets, _many(_changeset_row)),
    AskItems: _QueryKind("items", _items, _many(_item_row)),
    AskCuts: _QueryKind("cuts", _cuts, _many(_cut_row)),
    AskItemsAtPlaces: _QueryKind("items_at", _places, _many(_item_row)),
    AskCutsAtPlaces: _QueryKind("cuts_at", _places, _many(_cut_row)),
    AskItemsById: _QueryKind("named", _items_by_id, _many(_item_row)),
    AskIdempotencyKey: _QueryKind(
        "key",
        lambda question: (question.key, question.idempotency_key),
        _one(lambda row: KeyRow(*row)),
    ),
    AskRecord: _QueryKind("record", lambda question: (question.kind, question.id), _one(_record)),
    AskRecordsById: _QueryKind("records_named", _records_by_id, _many(_record)),
    AskJob: _QueryKind("job", lambda question: (question.id,), _one(job_of)),
    AskRecords: _QueryKind("records", _records, _many(_record)),
    AskRecordsOfOwner: _QueryKind("records_of", _records_of_owner, _many(_record)),
    AskRecordsAbout: _QueryKind(
        "records_about", lambda question: (TextArray(question.names),), _many(_record)
    ),
    AskRowCounts: _QueryKind(
        "sizes",
        lambda question: (question.key,),
        _one(lambda row: dict(zip(ROW_COUNT_NAMES, row, strict=True))),
    ),
    AskTenants: _QueryKind("tenants", lambda question: (), _tenants),
    AskJobs: _QueryKind("jobs", lambda question: (question.status, Int8(question.limit)), _many(job_of)),
    AskThreads: _QueryKind("threads", _threads, _many(_row_or_unreadable)),
    AskUnindexedThreads: _QueryKind(
        "unindexed", lambda question: (Int8(question.limit),), _unindexed_threads
    ),
    AskHits: _QueryKind("words", _hits, _many(_hit)),
    AskTermCounts: _QueryKind("term_counts", _term_counts, _many(_counted_text)),
    AskTextCount: _QueryKind(
        "text_count",
        lambda question: (question.owner, Int8(question.most)),
        _one(lambda row: row[0]),
    ),
    AskNearest: _QueryKind("nearest", _nearest, _many(_record)),
    AskWordCounts: _QueryKind("word_count", _word_counts, _many(lambda row: row[0])),
}


def query_of(question: Ask[Any]) -> QuestionQuery:
    """The query that answers a question."""
    name, values, answer = _queries[type(question)]
    if isinstance(question, AskItems) and question.backwards:
        name = "items_backwards"
    return QuestionQuery(name, values(question), answer)
