"""Effects applied with SQL, inside a transaction that somebody else holds."""

from collections.abc import Callable, Sequence
from itertools import chain
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
    Effect,
    EndJob,
    EraseParts,
    Index,
    ItemRow,
    MoveJob,
    Restore,
    SaveRecord,
    Segment,
    Stale,
    ThreadRow,
)
from clew.core.text.words import words
from clew.core.values import Job, Scope
from clew.stores.sqlite.answers import scope_term, thread_term
from clew.stores.sqlite.connection import QUERIES, LogKeys, rows_of

_encode: Final = msgspec.json.Encoder(order="sorted").encode
_ADVANCE: Final = QUERIES["advance"]
_ADD_ITEM: Final = QUERIES["add_item"]
_ADD_FOUR_ITEMS: Final = QUERIES["add_four_items"]
_ADD_PENDING: Final = QUERIES["add_pending"]
_PURGES: Final = [name for name in QUERIES if name.startswith("purge_")]
PURGE_BY_LOG: Final = ("purge_items", "purge_cuts")


class Effects:
    """What a plan writes, on one connection, in one scope."""

    def __init__(self, connection: apsw.Connection, scope: Scope, logs: LogKeys) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._scope = {"tenant": scope.tenant, "user": scope.user}
        self._logs = logs

    def apply(self, effects: Sequence[Effect]) -> None:
        """Apply all effects.

        Raises:
            Stale: Something they assume is no longer so; the transaction must be undone.
        """
        for effect in effects:
            self._by_effect[type(effect)](self, effect)

    def _run(self, query: str, **values: Any) -> int:
        """Run a named query; how many rows it changed."""
        self._execute(QUERIES[query], values | self._scope)
        return self._connection.changes()

    def _rows(self, query: str, values: Any) -> list[tuple[Any, ...]]:
        return rows_of(self._connection, QUERIES[query], values)

    def _add_thread(self, effect: AddThread) -> None:
        self._insert_thread(effect.row)

    def _insert_thread(self, row: ThreadRow) -> None:
        try:
            added = self._run(
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
            raise Stale from None
        if not added:
            raise Stale

    def _advance(self, effect: Advance) -> None:
        before, after, change = effect.before, effect.after, effect.change
        try:
            self._execute(
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
            raise Stale from None
        if self._connection.changes() != 1:
            raise Stale
        self._write(effect)
        if after.title != before.title or after.labels != before.labels:
            self._run("rename_thread", key=after.key, title=after.title, labels=_encode(after.labels))
        self._execute(_ADD_PENDING, (after.key,))

    def _write(self, step: Advance) -> None:
        """The rows that go with a changeset."""
        key = step.after.key
        if step.name is not None:
            self._add_key(step)
        if step.items:
            self._add_items(key, step.items)
        for cut in step.cuts:
            log = self._logs.made(self._connection, key, cut.log)
            self._execute(QUERIES["add_cut"], (log, cut.last, cut.version, cut.first, cut.count))
        if step.anchor is not None:
            self._execute(QUERIES["add_anchor"], ((key << 32) + step.change.version, step.anchor))

    def _add_key(self, step: Advance) -> None:
        values = (step.after.key, step.name, step.change.version, step.fingerprint or b"")
        try:
            self._execute(QUERIES["add_key"], values)
        except apsw.ConstraintError:
            raise Stale from None

    def _add_items(self, key: int, items: Sequence[ItemRow]) -> None:
        log_key = self._logs.made
        rows = [
            (
                (log_key(self._connection, key, item.log) << 32) + item.place,
                item.version,
                item.time,
                item.meta,
                item.body,
                item.salt,
                item.erased,
            )
            for item in items
        ]
        fours = len(rows) - len(rows) % 4
        for start in range(0, fours, 4):
            self._execute(_ADD_FOUR_ITEMS, tuple(chain.from_iterable(rows[start : start + 4])))
        for row in rows[fours:]:
            self._execute(_ADD_ITEM, row)
        for item in items:
            if item.id is not None:
                log = self._logs.made(self._connection, key, item.log)
                self._execute(QUERIES["add_name"], (key, item.id, log, item.place))

    def _restore(self, effect: Restore) -> None:
        self._insert_thread(effect.row)
        for step in effect.steps:
            change = step.change
            values = (change.time, change.envelope, change.content, change.salt, change.hash)
            at = (effect.row.key << 32) + change.version
            self._execute(QUERIES["add_changeset"], (at, *values, _encode(change.counters), change.erased))
            self._write(step)
        self._execute(_ADD_PENDING, (effect.row.key,))

    def _copy_lineage(self, effect: CopyLineage) -> None:
        for source, upto in _reach(effect.segments).items():
            for query in ("copy_changesets", "copy_anchors"):
                self._run(query, source=source, key=effect.key, upto=upto)
            logs = self._rows("logs_of", {"key": source, **self._scope})
            for log, name in logs:
                new_log = self._logs.made(self._connection, effect.key, name)
                values = {"source": source, "log": log, "new_log": new_log, "upto": upto}
                self._run("copy_items", **values)
                self._run("copy_cuts", **values)
                self._run("copy_names", key=effect.key, **values)

    def _drop_thread(self, effect: DropThread) -> None:
        before = None if effect.anyway else effect.row.hash
        if not self._run("hide_thread", key=effect.row.key, before=before):
            raise Stale
        key: int | None = effect.row.key
        while key is not None:
            orphan = self._rows("orphan", {"key": key, **self._scope})
            if not orphan:
                break
            self._purge(key)
            key = orphan[0][0]

    def _purge(self, key: int) -> None:
        logs = self._rows("logs_of", {"key": key, **self._scope})
        for log, _ in logs:
            for query in PURGE_BY_LOG:
                self._run(query, log=log)
        for query in _PURGES:
            if query not in PURGE_BY_LOG:
                self._run(query, key=key)

    def _erase_parts(self, effect: EraseParts) -> None:
        for log, place, commitment in effect.items:
            at = {
                "key": effect.key,
                "log": self._logs.made(self._connection, effect.key, log),
                "place": place,
            }
            self._run("erase_item", **at, erased=commitment)
            for query in ("erase_item_key", "erase_text", "erase_text_row"):
                self._run(query, **at)
        for version, commitment in effect.contents:
            self._run("erase_content", key=effect.key, version=version, erased=commitment)
            self._run("erase_content_key", key=effect.key, version=version)
        self._run("erase_states", key=effect.key, states=effect.states)

    def _save_record(self, effect: SaveRecord) -> None:
        record = effect.record
        if effect.before:
            self._check_revision(record.kind, record.id, effect.before)
        tags = _encode(record.tags)
        saved = self._run(
            "save_record",
            kind=record.kind,
            id=record.id,
            owner=record.owner,
            sort=record.sort,
            revision=record.revision,
            tags=tags,
            body=encode(record.body),
            before=effect.before,
        )
        if not saved:
            raise Stale
        if record.tags:
            self._run("add_tags", kind=record.kind, tags=tags.decode(), sort=record.sort, id=record.id)

    def _check_revision(self, kind: str, id: str, before: int) -> None:
        """Hold a record to a revision, and take its tags away."""
        rows = self._rows("record", {"kind": kind, "id": id, **self._scope})
        if (rows[0][4] if rows else 0) != before:
            raise Stale
        if rows:
            self._run("drop_tags", kind=kind, id=id, sort=rows[0][3], tags=rows[0][5].decode())

    def _drop_record(self, effect: DropRecord) -> None:
        self._check_revision(effect.kind, effect.id, effect.before)
        self._run("drop_record", kind=effect.kind, id=effect.id)

    def _check_record(self, effect: CheckRecord) -> None:
        values = {"kind": effect.kind, "id": effect.id, **self._scope}
        rows = self._rows("record", values)
        if (rows[0][4] if rows else 0) != effect.before:
            raise Stale

    def _add_job(self, effect: AddJob) -> None:
        self._run("add_job", **_job_values(effect.job))

    def _end_job(self, effect: EndJob) -> None:
        if not self._run("end_job", id=effect.id, token=effect.token):
            raise Stale

    def _move_job(self, effect: MoveJob) -> None:
        job = effect.job
        moved = self._run(
            "move_job",
            id=job.id,
            before=effect.token,
            due=job.due,
            attempts=job.attempts,
            status=job.status,
            token=job.token,
            until=job.until,
            problem=job.problem,
        )
        if not moved:
            raise Stale

    def _index(self, effect: Index) -> None:
        row = effect.row
        tenant = self._scope["tenant"] or ""
        owner = [scope_term(row.owner)] if row.owner else []
        scopes = [scope_term(tenant), *owner, thread_term(tenant, row.id)]
        for text in effect.texts:
            log = self._logs.made(self._connection, row.key, text.log)
            there = {"key": row.key, "log": log, "place": text.place, **self._scope}
            if self._rows("text_row", there):
                continue
            folded = " ".join(words(text.text))
            scope = " ".join([*scopes, thread_term(tenant, row.id, text.log)])
            values = (folded, scope, text.text, row.key, text.log, text.place, text.version)
            self._execute(QUERIES["add_text"], values)
            added = self._connection.last_insert_rowid()  # a virtual table RETURNs no row of its own
            self._execute(QUERIES["add_text_row"], (row.key, log, text.place, added))
        self._execute(QUERIES["set_indexed"], (row.key, effect.upto))
        self._run("drop_pending", key=row.key, upto=effect.upto)

    _by_effect: ClassVar[dict[type, Callable[["Effects", Any], None]]] = {
        AddThread: _add_thread,
        Advance: _advance,
        Restore: _restore,
        CopyLineage: _copy_lineage,
        DropThread: _drop_thread,
        EraseParts: _erase_parts,
        SaveRecord: _save_record,
        DropRecord: _drop_record,
        CheckRecord: _check_record,
        AddJob: _add_job,
        EndJob: _end_job,
        MoveJob: _move_job,
        Index: _index,
    }


def _reach(segments: Sequence[Segment]) -> dict[int, int]:
    found: dict[int, int] = {}
    for segment in segments:
        found[segment.key] = max(segment.upto, found.get(segment.key, 0))
    return found


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
