"""Questions answered with SQL: a named query in, typed rows out."""

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any, ClassVar

import apsw

from clew.core.encoding import decode, decoder, encode
from clew.core.errors import StoreDamaged
from clew.core.log.rows import (
    ROW_COUNT_NAMES,
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
    CutRow,
    ItemRow,
    KeyRow,
    Segment,
    TermCounts,
    ThreadRow,
    UnreadableThread,
)
from clew.core.log.vectors import thread_mark
from clew.core.values import Counters, Job, Record, Scope, SearchHit
from clew.stores.sqlite.connection import QUERIES, LogKeys, parse_term_counts, rows_of
from clew.stores.sqlite.vectors import VectorBlock, closest_places

_counters = decoder(Counters)
_segments = decoder(tuple[Segment, ...])
_labels = decoder(tuple[str, ...])
MIN_INTEGER, MAX_INTEGER = -(1 << 63), (1 << 63) - 1


def _column_terms(words: Iterable[str], between: str) -> str:
    return between.join(f'words : "{word}"' for word in words)


class SqlAnswers:
    """Answers of one connection in one scope."""

    def __init__(self, connection: apsw.Connection, scope: Scope, logs: LogKeys) -> None:
        self._connection = connection
        self._logs = logs
        self._scope = {"tenant": scope.tenant, "user": scope.user}

    def __call__(self, question: Ask[Any]) -> Any:
        """The answer to any question."""
        return self._by_question[type(question)](self, question)

    def _rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        return rows_of(self._connection, QUERIES[query], values | self._scope)

    def _thread(self, question: AskThread) -> ThreadRow | None:
        rows = self._rows("thread", id=question.id)
        if not rows:
            return None
        *columns, last = rows[0]
        # An append does not touch the thread's own row: its head is its last changeset.
        if last is not None:
            columns[4:8] = self._rows("head", key=columns[0], at=last)[0]
        return thread_row(columns)

    def _anchor(self, question: AskAnchor) -> tuple[int, bytes] | None:
        rows = self._rows("anchor", key=question.key, upto=question.upto)
        return (rows[0][0], rows[0][1]) if rows else None

    def _changesets(self, question: AskChangesets) -> list[ChangesetRow]:
        rows = self._rows(
            "changesets", key=question.key, after=question.after, upto=question.upto, limit=question.limit
        )
        return [
            ChangesetRow(
                version=version,
                time=time,
                envelope=envelope,
                content=content,
                salt=salt,
                hash=hash,
                counters=_counters(counters),
                erased=erased,
            )
            for version, time, envelope, content, salt, hash, counters, erased in rows
        ]

    def _items(self, question: AskItems) -> list[ItemRow]:
        log = self._logs.get(self._connection, question.key, question.log)
        if log is None:
            return []
        query = "items_backwards" if question.backwards else "items_whole" if question.with_salts else "items"
        rows = self._rows(
            query,
            key=question.key,
            log=log,
            above=question.above,
            below=question.below,
            upto=question.upto,
            limit=question.limit,
        )
        return [ItemRow(question.log, *row) for row in rows]

    def _cuts(self, question: AskCuts) -> list[CutRow]:
        log = self._logs.get(self._connection, question.key, question.log)
        rows = self._rows(
            "cuts", key=question.key, log=log, first=question.first, last=question.last, upto=question.upto
        )
        return [
            CutRow(log=question.log, first=first, last=last, version=version, count=count)
            for first, last, version, count in rows
        ]

    def _items_at_places(self, question: AskItemsAtPlaces) -> list[ItemRow]:
        key, log, upto = question.key, question.log, question.upto
        return [
            row
            for place in question.places
            for row in self._items(AskItems(key, log, place - 1, place + 1, upto, 1, backwards=False))
        ]

    def _cuts_at_places(self, question: AskCutsAtPlaces) -> list[CutRow]:
        return [
            cut
            for place in question.places
            for cut in self._cuts(AskCuts(question.key, question.log, place, place, question.upto))
        ]

    def _items_by_id(self, question: AskItemsById) -> list[ItemRow]:
        return [
            ItemRow(*row)
            for id in question.ids
            for row in self._rows("named", key=question.key, id=id, upto=question.upto)
        ]

    def _idempotency_key(self, question: AskIdempotencyKey) -> KeyRow | None:
        rows = self._rows("key", key=question.key, name=question.idempotency_key)
        return KeyRow(rows[0][0], rows[0][1]) if rows else None

    def _record(self, question: AskRecord) -> Record | None:
        rows = self._rows("record", kind=question.kind, id=question.id)
        return record_of(rows[0]) if rows else None

    def _records_by_id(self, question: AskRecordsById) -> list[Record]:
        records = [self._record(AskRecord(kind, id)) for kind, id in question.names]
        return [record for record in records if record is not None]

    def _records(self, question: AskRecords) -> list[Record]:
        query = question.query
        if query.until == MIN_INTEGER:
            return []
        after = query.after or (None if query.newest else MIN_INTEGER, None if query.newest else "")
        values = {
            "kind": query.kind,
            "owner": query.owner,
            "since": MIN_INTEGER if query.since is None else query.since,
            "upto": MAX_INTEGER if query.until is None else query.until - 1,
            "after_sort": after[0],
            "after_id": after[1],
            "limit": query.limit,
        }
        name = "records_newest" if query.newest else "records"
        if query.tags:
            name = "records_tagged_newest" if query.newest else "records_tagged"
            values |= {"tag": query.tags[0], "others": encode(query.tags[1:]).decode()}
        return [record_of(row) for row in self._rows(name, **values)]

    def _records_of_owner(self, question: AskRecordsOfOwner) -> list[Record]:
        without = encode(question.without).decode()
        rows = self._rows("records_of", owner=question.owner, without=without, limit=question.limit)
        return [record_of(row) for row in rows]

    def _records_about(self, question: AskRecordsAbout) -> list[Record]:
        names = encode(question.names).decode()
        return [record_of(row) for row in self._rows("records_about", names=names)]

    def _nearest(self, question: AskNearest) -> list[Record]:
        rows = self._rows(
            "vector_blocks",
            space=question.space,
            logs=encode(question.logs).decode(),
            owner=question.owner,
            width=len(question.signs),
        )
        blocks = [VectorBlock(*row) for row in rows]
        mark = None if question.thread is None else thread_mark(question.thread)
        places = encode(closest_places(question.signs, blocks, mark, question.limit)).decode()
        return [record_of(row) for row in self._rows("records_placed", places=places)]

    def _row_counts(self, question: AskRowCounts) -> dict[str, int]:
        rows = self._rows("sizes", key=question.key)
        return dict(zip(ROW_COUNT_NAMES, rows[0], strict=True)) if rows else {}

    def _tenants(self, question: AskTenants) -> list[str]:
        return [tenant for (tenant,) in self._rows("tenants")]

    def _job(self, question: AskJob) -> Job | None:
        rows = self._rows("job", id=question.id)
        return job_of(rows[0]) if rows else None

    def _jobs(self, question: AskJobs) -> list[Job]:
        return [job_of(row) for row in self._rows("jobs", status=question.status, limit=question.limit)]

    def _due_jobs(self, question: AskDueJobs) -> list[Job]:
        kinds = encode(question.kinds).decode()
        return [
            job_of(row)
            for row in self._rows(
                "due_jobs", kinds=kinds, now=question.now, latest=question.latest, limit=question.limit
            )
        ]

    def _threads(self, question: AskThreads) -> list[ThreadRow | UnreadableThread]:
        time, id = question.before or (MAX_INTEGER, "")
        values = {"before_created": time, "before_id": id, "limit": question.limit}
        owner = question.owner if question.owner is not None else self._scope["user"]
        if owner is not None:
            return [_row_or_unreadable(row) for row in self._rows("threads_owned", owner=owner, **values)]
        return [_row_or_unreadable(row) for row in self._rows("threads", **values)]

    def _unindexed_threads(self, question: AskUnindexedThreads) -> list[tuple[ThreadRow, int]]:
        late = [
            (_row_or_unreadable(row[:-1]), row[-1]) for row in self._rows("unindexed", limit=question.limit)
        ]
        return [(row, upto) for row, upto in late if isinstance(row, ThreadRow)]

    def _hits(self, question: AskHits) -> list[SearchHit]:
        rows = self._rows(
            "words",
            match=self._match_expression(question.words, question, " AND "),
            owner=question.owner,
            thread=question.thread,
            log=question.log,
            limit=question.limit,
        )
        return [
            SearchHit(thread=thread, log=log, place=place, version=version, text=text, score=score)
            for thread, log, place, version, text, score in rows
        ]

    def _term_counts(self, question: AskTermCounts) -> list[TermCounts]:
        match = self._match_expression(question.any, question, " AND " if question.all else " OR ")
        twice: frozenset[str] = frozenset()
        if not set(question.words).issubset(question.any):
            # Only what is asked for is counted, so the other words are in it too. What must be there is then
            # asked for twice, and counted twice.
            twice = frozenset(question.any)
            match = f"{match} AND ({_column_terms({*question.words, *question.any}, ' OR ')})"
        within = {"owner": question.owner, "thread": question.thread, "log": question.log}
        rows = self._rows("term_counts", match=match, limit=question.limit, **within)
        return [
            TermCounts(thread, log, place, version, *parse_term_counts(text, twice))
            for thread, log, place, version, text in rows
        ]

    def _text_count(self, question: AskTextCount) -> int:
        return int(self._rows("text_count", owner=question.owner, most=question.most)[0][0])

    def _word_counts(self, question: AskWordCounts) -> list[int]:
        within = {"owner": question.owner, "thread": question.thread, "log": question.log}
        return [
            self._rows(
                "word_count", match=self._match_expression([word], question, ""), most=question.most, **within
            )[0][0]
            for word in question.words
        ]

    def _match_expression(
        self, words: Sequence[str], within: AskHits | AskTermCounts | AskWordCounts, between: str
    ) -> str:
        """The texts that hold these words, as FTS5 understands it; those of others cost nothing."""
        tenant = self._scope["tenant"] or ""
        if within.thread is not None:
            scope = thread_term(tenant, within.thread, within.log)
        else:
            owner = within.owner if within.owner is not None else self._scope["user"]
            scope = scope_term(owner if owner is not None else tenant)
        return f'({_column_terms(words, between)}) AND scope : "{scope}"'

    _by_question: ClassVar[dict[type, Callable[["SqlAnswers", Any], Any]]] = {
        AskThread: _thread,
        AskAnchor: _anchor,
        AskChangesets: _changesets,
        AskItems: _items,
        AskCuts: _cuts,
        AskItemsAtPlaces: _items_at_places,
        AskCutsAtPlaces: _cuts_at_places,
        AskItemsById: _items_by_id,
        AskIdempotencyKey: _idempotency_key,
        AskRecord: _record,
        AskRecordsById: _records_by_id,
        AskRecords: _records,
        AskRecordsOfOwner: _records_of_owner,
        AskRecordsAbout: _records_about,
        AskRowCounts: _row_counts,
        AskTenants: _tenants,
        AskJob: _job,
        AskJobs: _jobs,
        AskDueJobs: _due_jobs,
        AskThreads: _threads,
        AskUnindexedThreads: _unindexed_threads,
        AskHits: _hits,
        AskTermCounts: _term_counts,
        AskTextCount: _text_count,
        AskNearest: _nearest,
        AskWordCounts: _word_counts,
    }


def scope_term(name: str) -> str:
    """A tenant or user as one term of the index, whatever letters are in it."""
    return f"x{name.encode().hex()}"


def thread_term(tenant: str, thread: str, log: str | None = None) -> str:
    """A thread, or one of its logs, as one term of the index."""
    name = encode([tenant, thread, log])
    return f"y{sha256(name).hexdigest()[:20]}"


def thread_row(row: Sequence[Any]) -> ThreadRow:
    """A thread from its columns."""
    key, id, owner, created, updated, version, hash, counters, segments, parent_key, title, labels = row
    return ThreadRow(
        key=key,
        id=id,
        owner=owner,
        created=created,
        updated=updated,
        version=version,
        hash=hash,
        counters=_counters(counters),
        segments=_segments(segments),
        parent_key=parent_key,
        title=title,
        labels=_labels(labels),
    )


def _row_or_unreadable(row: Sequence[Any]) -> ThreadRow | UnreadableThread:
    """A thread in a list, whose row may be damaged."""
    try:
        return thread_row(row)
    except StoreDamaged as error:
        return UnreadableThread(id=row[1], created=row[3], problem=error.problem)


def record_of(row: tuple[Any, ...]) -> Record:
    """A record from its columns."""
    kind, id, owner, sort, revision, tags, body = row
    return Record(
        kind=kind, id=id, owner=owner, sort=sort, revision=revision, tags=_labels(tags), body=decode(body)
    )


def job_of(row: tuple[Any, ...]) -> Job:
    """A job from its columns."""
    id, kind, owner, name, due, attempts, most, status, token, until, problem, body = row
    return Job(
        id=id,
        kind=kind,
        owner=owner,
        key=name,
        due=due,
        attempts=attempts,
        limit=most,
        status=status,
        token=token,
        until=until,
        problem=problem,
        body=decode(body),
    )
