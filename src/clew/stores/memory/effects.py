"""Effects applied to what is held: checked first, all of them, then written."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from clew.core.rows import (
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
    KeyRow,
    MoveJob,
    Restore,
    SaveRecord,
    Stale,
)
from clew.stores.memory.rows import Rows, Tenant, decode_job, decode_record


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
