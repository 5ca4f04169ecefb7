"""The writes of a plan as SQL, inside a transaction that the writer holds."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

import apsw
import msgspec

from clew.core.encoding import encode
from clew.core.log.rows import (
    AddJob,
    AddThread,
    Advance,
    CheckRecord,
    CopyLineage,
    DropRecord,
    DropThread,
    EndJob,
    EraseParts,
    IndexTexts,
    ItemRow,
    MoveJob,
    RestoreThread,
    SaveRecord,
    StalePlan,
    StoreWrite,
    ThreadRow,
)
from clew.core.log.vectors import VECTOR_KIND
from clew.core.text.words import words
from clew.core.values import Job, Scope
from clew.stores.sqlite.answers import scope_term, thread_term
from clew.stores.sqlite.connection import QUERIES, LogKeys, rows_of
from clew.stores.sqlite.vectors import VectorBlocks

_encode: Final = msgspec.json.Encoder(order="sorted").encode
_ADVANCE: Final = QUERIES["advance"]
_ADD_ITEM: Final = QUERIES["add_item"]
_ADD_FOUR_ITEMS: Final = QUERIES["add_four_items"]
_ADD_UNINDEXED: Final = QUERIES["add_unindexed"]
_ITEM_COLUMNS: Final = 7
MOST_UNINDEXED: Final = 10_000
"""Threads remembered to be noted for the search index, so that an append need not note them again."""
_PURGES: Final = [name for name in QUERIES if name.startswith("purge_")]
PURGE_BY_LOG: Final = ("purge_items", "purge_cuts")


class SqlWrites:
    """The writes of plans, on one connection."""

    def __init__(self, connection: apsw.Connection, logs: LogKeys) -> None:
        self._connection = connection
        self._execute = connection.cursor().execute  # at half the cost of the connection's own
        self._scope: dict[str, str | None] = {}
        self._logs = logs
        self._unindexed: set[int] = set()

    def apply(self, writes: Sequence[StoreWrite], scope: Scope) -> None:
        """Apply writes in order, in a scope.

        Raises:
            StalePlan: Something they assume is no longer so; what was written must be undone.
        """
        self._scope = {"tenant": scope.tenant, "user": scope.user}
        for write in writes:
            self._by_write[type(write)](self, write)

    def forget(self) -> None:
        """Forget what is remembered of rows: some were undone, or another connection has written."""
        self._logs.forget()
        self._unindexed.clear()

    def _run(self, query: str, **values: Any) -> int:
        """Run a named query; how many rows it changed."""
        self._execute(QUERIES[query], values | self._scope)
        return self._connection.changes()

    def _rows(self, query: str, values: Any) -> list[tuple[Any, ...]]:
        return rows_of(self._connection, QUERIES[query], values)

    def _add_thread(self, write: AddThread) -> None:
        self._insert_thread(write.row)

    def _insert_thread(self, row: ThreadRow) -> None:
        try:
            count = self._run(
                "add_thread",
                key=row.key,
                id=row.id,
                owner=row.owner,
                created=row.created,
                updated=row.updated,
                version=row.version,
                hash=row.hash,
                counters=_encode(row.counters),
                segments=_encode(row.segments),
                parent_key=row.parent_key,
                title=row.title,
                labels=_encode(row.labels),
            )
        except apsw.ConstraintError:
            raise StalePlan from None
        if not count:
            raise StalePlan

    def _advance(self, write: Advance) -> None:
        before, after, change = write.before, write.after, write.change
        try:
            self._execute(
                # Inserts only onto the head that the plan assumes. The thread's own row is not touched:
                # its head is its last changeset, so an append dirties few pages.
                _ADVANCE,
                (
                    (after.key << 32) + after.version,
                    change.time,
                    change.envelope,
                    change.content,
                    change.salt,
                    change.hash,
                    _encode(change.counters),
                    after.key,
                    self._scope["tenant"],
                    self._scope["user"],
                    before.hash,
                    before.version,
                ),
            )
        except apsw.ConstraintError:
            raise StalePlan from None
        if self._connection.changes() != 1:
            raise StalePlan
        self._add_rows(write)
        if after.title != before.title or after.labels != before.labels:
            self._run("rename_thread", key=after.key, title=after.title, labels=_encode(after.labels))
        if after.key not in self._unindexed:
            self._add_unindexed(after.key)

    def _add_unindexed(self, key: int) -> None:
        """Note that the search index must be brought up to date, which is done later."""
        self._execute(_ADD_UNINDEXED, (key,))
        if len(self._unindexed) >= MOST_UNINDEXED:  # anything may be forgotten: it is noted once more then
            self._unindexed.clear()
        self._unindexed.add(key)

    def _add_rows(self, advance: Advance) -> None:
        """The rows that go with a changeset."""
        key = advance.after.key
        if advance.idempotency_key is not None:
            self._add_key(advance)
        if advance.items:
            self._add_items(key, advance.items)
        for cut in advance.cuts:
            log = self._logs.get_or_add(self._connection, key, cut.log)
            self._execute(QUERIES["add_cut"], (log, cut.last, cut.version, cut.first, cut.count))
        if advance.anchor is not None:
            self._execute(QUERIES["add_anchor"], ((key << 32) + advance.change.version, advance.anchor))

    def _add_key(self, advance: Advance) -> None:
        values = (
            advance.after.key,
            advance.idempotency_key,
            advance.change.version,
            advance.fingerprint or b"",
        )
        try:
            self._execute(QUERIES["add_key"], values)
        except apsw.ConstraintError:
            raise StalePlan from None

    def _add_items(self, key: int, items: Sequence[ItemRow]) -> None:
        values: list[Any] = []
        log, first = "", 0
        for item in items:
            if item.log != log:
                log = item.log
                first = self._logs.get_or_add(self._connection, key, log) << 32
            values += (
                first + item.place,
                item.version,
                item.time,
                item.meta,
                item.body,
                item.salt,
                item.erased,
            )
        # One statement for four rows costs less than four statements.
        rest = len(items) % 4 * _ITEM_COLUMNS
        for start in range(0, len(values) - rest, 4 * _ITEM_COLUMNS):
            self._execute(_ADD_FOUR_ITEMS, values[start : start + 4 * _ITEM_COLUMNS])
        for start in range(len(values) - rest, len(values), _ITEM_COLUMNS):
            self._execute(_ADD_ITEM, values[start : start + _ITEM_COLUMNS])
        for item in items:
            if item.id is not None:
                log_key = self._logs.get_or_add(self._connection, key, item.log)
                self._execute(QUERIES["add_name"], (key, item.id, log_key, item.place))

    def _restore_thread(self, write: RestoreThread) -> None:
        self._insert_thread(write.row)
        for advance in write.advances:
            change = advance.change
            values = (change.time, change.envelope, change.content, change.salt, change.hash)
            at = (write.row.key << 32) + change.version
            self._execute(QUERIES["add_changeset"], (at, *values, _encode(change.counters), change.erased))
            self._add_rows(advance)
        self._add_unindexed(write.row.key)

    def _copy_lineage(self, write: CopyLineage) -> None:
        for segment in write.segments:
            source, upto = segment.key, segment.upto
            for query in ("copy_changesets", "copy_anchors"):
                self._run(query, source=source, key=write.key, upto=upto)
            logs = self._rows("logs_of", {"key": source, **self._scope})
            for log, name in logs:
                new_log = self._logs.get_or_add(self._connection, write.key, name)
                values = {"source": source, "log": log, "new_log": new_log, "upto": upto}
                self._run("copy_items", **values)
                self._run("copy_cuts", **values)
                self._run("copy_names", key=write.key, **values)

    def _drop_thread(self, write: DropThread) -> None:
        before = None if write.unconditional else write.row.hash
        if not self._run("hide_thread", key=write.row.key, before=before):
            raise StalePlan
        key: int | None = write.row.key
        while key is not None:
            # Rows of hidden ancestors go with the last fork that needed them, up the line.
            orphan = self._rows("orphan", {"key": key, **self._scope})
            if not orphan:
                break
            self._purge(key)
            key = orphan[0][0]

    def _purge(self, key: int) -> None:
        self._unindexed.discard(key)
        logs = self._rows("logs_of", {"key": key, **self._scope})
        for log, _ in logs:
            for query in PURGE_BY_LOG:
                self._run(query, log=log)
        for query in _PURGES:
            if query not in PURGE_BY_LOG:
                self._run(query, key=key)

    def _erase_parts(self, write: EraseParts) -> None:
        for log, place, commitment in write.items:
            at = {
                "key": write.key,
                "log": self._logs.get_or_add(self._connection, write.key, log),
                "place": place,
            }
            self._run("erase_item", **at, erased=commitment)
            for query in ("erase_item_key", "erase_text", "erase_text_row"):
                self._run(query, **at)
        for version, commitment in write.contents:
            self._run("erase_content", key=write.key, version=version, erased=commitment)
            self._run("erase_content_key", key=write.key, version=version)
        self._run("erase_states", key=write.key, states=write.states)

    def _save_record(self, write: SaveRecord) -> None:
        record = write.record
        if write.before:
            self._drop_tags(self._record_at(record.kind, record.id, write.before))
        tags = _encode(record.tags)
        count = self._run(
            "save_record",
            kind=record.kind,
            id=record.id,
            owner=record.owner,
            sort=record.sort,
            revision=record.revision,
            tags=tags,
            body=encode(record.body),
            before=write.before,
        )
        if not count:
            raise StalePlan
        if record.kind == VECTOR_KIND:
            VectorBlocks(self._connection, self._scope).save(record)
        if record.tags:
            self._run("add_tags", kind=record.kind, tags=tags.decode(), sort=record.sort, id=record.id)

    def _record_at(self, kind: str, id: str, before: int) -> tuple[Any, ...] | None:
        """The row of a record, which must be at a revision; None if it must be, and is, absent."""
        rows = self._rows("record", {"kind": kind, "id": id, **self._scope})
        row = rows[0] if rows else None
        if (row[4] if row else 0) != before:
            raise StalePlan
        return row

    def _drop_tags(self, row: tuple[Any, ...] | None) -> None:
        if row is not None:
            kind, id, _, sort, _, tags, _ = row
            self._run("drop_tags", kind=kind, id=id, sort=sort, tags=tags.decode())

    def _drop_record(self, write: DropRecord) -> None:
        self._drop_tags(self._record_at(write.kind, write.id, write.before))
        if write.kind == VECTOR_KIND:
            VectorBlocks(self._connection, self._scope).drop(write.id)
        self._run("drop_record", kind=write.kind, id=write.id)

    def _check_record(self, write: CheckRecord) -> None:
        self._record_at(write.kind, write.id, write.before)

    def _add_job(self, write: AddJob) -> None:
        self._run("add_job", **_job_values(write.job))

    def _end_job(self, write: EndJob) -> None:
        if not self._run("end_job", id=write.id, token=write.token):
            raise StalePlan

    def _move_job(self, write: MoveJob) -> None:
        job = write.job
        count = self._run(
            "move_job",
            id=job.id,
            before=write.token,
            due=job.due,
            attempts=job.attempts,
            status=job.status,
            token=job.token,
            until=job.until,
            problem=job.problem,
        )
        if not count:
            raise StalePlan

    def _index_texts(self, write: IndexTexts) -> None:
        row = write.row
        tenant = self._scope["tenant"] or ""
        owner = [scope_term(row.owner)] if row.owner else []
        scopes = [scope_term(tenant), *owner, thread_term(tenant, row.id)]
        for text in write.texts:
            log = self._logs.get_or_add(self._connection, row.key, text.log)
            where = {"key": row.key, "log": log, "place": text.place, **self._scope}
            if self._rows("text_row", where):
                continue
            index_text = " ".join([*words(text.speaker), *words(text.text)])
            scope = " ".join([*scopes, thread_term(tenant, row.id, text.log)])
            values = (index_text, scope, text.text, row.key, text.log, text.place, text.version)
            self._execute(QUERIES["add_text"], values)
            row_id = self._connection.last_insert_rowid()  # a virtual table RETURNs no row of its own
            self._execute(QUERIES["add_text_row"], (row.key, log, text.place, row_id))
        self._execute(QUERIES["set_indexed"], (row.key, write.upto))
        self._run("drop_unindexed", key=row.key, upto=write.upto)
        self._unindexed.discard(row.key)

    _by_write: ClassVar[dict[type, Callable[["SqlWrites", Any], None]]] = {
        AddThread: _add_thread,
        Advance: _advance,
        RestoreThread: _restore_thread,
        CopyLineage: _copy_lineage,
        DropThread: _drop_thread,
        EraseParts: _erase_parts,
        SaveRecord: _save_record,
        DropRecord: _drop_record,
        CheckRecord: _check_record,
        AddJob: _add_job,
        EndJob: _end_job,
        MoveJob: _move_job,
        IndexTexts: _index_texts,
    }


def _job_values(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "kind": job.kind,
        "owner": job.owner,
        "name": job.key,
        "due": job.due,
        "attempts": job.attempts,
        "most": job.limit,
        "status": job.status,
        "token": job.token,
        "until": job.until,
        "problem": job.problem,
        "body": encode(job.body),
    }
