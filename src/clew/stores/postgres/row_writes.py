"""The writes of a plan as calls of the schema's functions, with their values."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
from psycopg.types.numeric import Int8

from clew.core.encoding import encode
from clew.core.log.rows import (
    AddJob,
    AddThread,
    Advance,
    CheckRecord,
    CopyLineage,
    CutRow,
    DropRecord,
    DropThread,
    EndJob,
    EraseParts,
    IndexTexts,
    ItemRow,
    MoveJob,
    RestoreThread,
    SaveRecord,
    StoreWrite,
    ThreadRow,
)
from clew.core.text.words import words
from clew.core.values import Job
from clew.stores.postgres.answers import LONGEST_WORD, Values, index_word
from clew.stores.postgres.arrays import BlobArray, IntegerArray, KeyArray, TextArray

MOST_WORD_BYTES = 800_000
"""A text is indexed by a megabyte of words at most; what goes beyond cannot be found by its words."""
WORD_BYTES = 4
POSITION_BYTES = 2
MOST_POSITIONS = 250
LAST_POSITION = 16_383
ROWS_PER_CALL = 2_000
"""Rows of a restored thread that go in one call."""


class QueryCall(NamedTuple):
    """A query by name, and its values after the scope and before the last."""

    name: str
    values: Values


_Calls: TypeAlias = Iterable[QueryCall]
_encode = msgspec.json.Encoder().encode


def calls_of(writes: Sequence[StoreWrite]) -> list[QueryCall]:
    """The calls that apply some writes, in order."""
    return [call for write in writes for call in _makers[type(write)](write)]


# Threads.


def _add_thread(write: AddThread) -> _Calls:
    return [_add_thread_call(write.row)]


def _add_thread_call(row: ThreadRow) -> QueryCall:
    return QueryCall(
        "add_thread",
        (
            row.key,
            row.id,
            row.owner,
            Int8(row.created),
            Int8(row.updated),
            Int8(row.version),
            row.hash,
            _encode(row.counters),
            _encode(row.segments) if row.segments else None,
            row.parent_key,
            _about(row),
        ),
    )


def _about(row: ThreadRow) -> bytes | None:
    return _encode((row.title, row.labels)) if row.title is not None or row.labels else None


def _advance(write: Advance) -> _Calls:
    return [QueryCall("advance", append_values(write))]


def append_values(advance: Advance) -> Values:
    """The values that append one changeset."""
    change = advance.change
    return (
        advance.before.key,
        advance.before.hash,
        Int8(change.version),
        Int8(change.time),
        change.hash,
        _encode(change.counters),
        _about(advance.after),
        change.envelope,
        change.content,
        change.salt,
        *(_item_values(advance.items) if advance.items else _NO_ITEMS),
        _cut_values(advance.cuts) if advance.cuts else None,
        advance.anchor,
        advance.idempotency_key,
        advance.fingerprint,
    )


_NO_ITEMS = (None,) * 6


def batch_append_values(advances: Sequence[Advance]) -> Values:
    """The values that append some changesets, of a thread each."""
    changes = [step.change for step in advances]
    items = [(number, item) for number, step in enumerate(advances, start=1) for item in step.items]
    return (
        KeyArray([step.before.key for step in advances]),
        BlobArray([step.before.hash for step in advances]),
        IntegerArray([change.version for change in changes]),
        IntegerArray([change.time for change in changes]),
        BlobArray([change.hash for change in changes]),
        BlobArray([_encode(change.counters) for change in changes]),
        BlobArray([_about(step.after) for step in advances]),
        BlobArray([change.envelope for change in changes]),
        BlobArray([change.content for change in changes]),
        BlobArray([change.salt for change in changes]),
        *_rare_values(advances),
        IntegerArray([number for number, _ in items]),
        *_item_values([item for _, item in items]),
    )


def _rare_values(advances: Sequence[Advance]) -> Values:
    """The values that few changesets have: anchors, idempotency keys and cuts."""
    has_anchors = any(step.anchor is not None for step in advances)
    has_keys = any(step.idempotency_key is not None for step in advances)
    return (
        BlobArray([step.anchor for step in advances]) if has_anchors else None,
        TextArray([step.idempotency_key for step in advances]) if has_keys else None,
        BlobArray([step.fingerprint for step in advances]) if has_keys else None,
        TextArray([_cut_values(step.cuts) if step.cuts else None for step in advances])
        if any(step.cuts for step in advances)
        else None,
    )


def _item_values(items: Sequence[ItemRow]) -> Values:
    ids = [item.id for item in items]
    return (
        TextArray([item.log for item in items]),
        IntegerArray([item.place for item in items]),
        TextArray(ids) if any(ids) else None,
        BlobArray([item.meta for item in items]),
        BlobArray([item.body for item in items]),
        BlobArray([item.salt for item in items]),
    )


def _cut_values(cuts: Iterable[CutRow]) -> str:
    return _encode([[cut.log, cut.first, cut.last, cut.version, cut.count] for cut in cuts]).decode()


def _restore_thread(write: RestoreThread) -> _Calls:
    yield _add_thread_call(write.row)
    for start in range(0, len(write.advances), ROWS_PER_CALL):
        yield _restore_changesets_call(write.row, write.advances[start : start + ROWS_PER_CALL])
    items = [item for step in write.advances for item in step.items]
    for start in range(0, len(items), ROWS_PER_CALL):
        yield _restore_items_call(write.row, items[start : start + ROWS_PER_CALL])


def _restore_changesets_call(row: ThreadRow, advances: Sequence[Advance]) -> QueryCall:
    cuts = [cut for step in advances for cut in step.cuts]
    changes = [step.change for step in advances]
    # A key names one version. Only a made-up archive has it twice; then the last changeset gets it.
    newest = {step.idempotency_key: step for step in advances}
    return QueryCall(
        "restore_changesets",
        (
            row.key,
            row.owner,
            IntegerArray([change.version for change in changes]),
            IntegerArray([change.time for change in changes]),
            BlobArray([change.envelope for change in changes]),
            BlobArray([change.content for change in changes]),
            BlobArray([change.salt for change in changes]),
            BlobArray([change.erased for change in changes]),
            BlobArray([change.hash for change in changes]),
            BlobArray([_encode(change.counters) for change in changes]),
            BlobArray([step.anchor for step in advances]),
            TextArray(
                [step.idempotency_key if newest[step.idempotency_key] is step else None for step in advances]
            ),
            BlobArray([step.fingerprint for step in advances]),
            _cut_values(cuts) if cuts else None,
        ),
    )


def _restore_items_call(row: ThreadRow, items: Sequence[ItemRow]) -> QueryCall:
    logs, places, ids, metas, bodies, salts = _item_values(items)
    versions = IntegerArray([item.version for item in items])
    times = IntegerArray([item.time for item in items])
    commitments = BlobArray([item.erased for item in items])
    return QueryCall(
        "restore_items",
        (row.key, row.owner, logs, places, versions, times, ids, metas, bodies, salts, commitments),
    )


def _copy_lineage(write: CopyLineage) -> _Calls:
    for segment in write.segments:
        yield QueryCall("copy_lineage", (write.key, write.owner, segment.key, Int8(segment.upto)))


def _drop_thread(write: DropThread) -> _Calls:
    return [QueryCall("drop_thread", (write.row.key, None if write.unconditional else write.row.hash))]


def _erase_parts(write: EraseParts) -> _Calls:
    return [
        QueryCall(
            "erase_parts",
            (
                write.key,
                TextArray([log for log, _, _ in write.items]),
                IntegerArray([place for _, place, _ in write.items]),
                BlobArray([commitment for _, _, commitment in write.items]),
                IntegerArray([version for version, _ in write.contents]),
                BlobArray([commitment for _, commitment in write.contents]),
                Int8(write.states),
            ),
        )
    ]


# Records and jobs.


def _save_record(write: SaveRecord) -> _Calls:
    record = write.record
    about = (record.kind, record.id, record.owner, TextArray(record.tags), Int8(record.sort))
    return [
        QueryCall("save_record", (*about, Int8(record.revision), encode(record.body), Int8(write.before)))
    ]


def _drop_record(write: DropRecord) -> _Calls:
    return [QueryCall("drop_record", (write.kind, write.id, Int8(write.before)))]


def _check_record(write: CheckRecord) -> _Calls:
    return [QueryCall("check_record", (write.kind, write.id, Int8(write.before)))]


def _add_job(write: AddJob) -> _Calls:
    return [QueryCall("add_job", _job_values(write.job))]


def _end_job(write: EndJob) -> _Calls:
    return [QueryCall("end_job", (write.id, write.token))]


def _move_job(write: MoveJob) -> _Calls:
    return [QueryCall("move_job", (write.token, *_job_values(write.job)))]


def _job_values(job: Job) -> Values:
    return (
        job.id,
        job.kind,
        job.owner,
        job.key,
        Int8(job.due),
        Int8(job.attempts),
        Int8(job.limit),
        job.status,
        job.token,
        Int8(job.until),
        None if job.problem is None else job.problem.encode(),
        encode(job.body),
    )


# Search.


def _index_texts(write: IndexTexts) -> _Calls:
    texts = write.texts
    return [
        QueryCall(
            "index",
            (
                write.row.key,
                Int8(write.upto),
                TextArray([text.log for text in texts]),
                IntegerArray([text.place for text in texts]),
                IntegerArray([text.version for text in texts]),
                TextArray([_text_vector([*words(text.speaker), *words(text.text)]) for text in texts]),
                BlobArray([text.text.encode() for text in texts]),
            ),
        )
    ]


def _text_vector(text_words: Sequence[str]) -> str:
    """A ``tsvector`` of exactly these words with their positions, as text."""
    positions: dict[str, list[str]] = {}
    room = MOST_WORD_BYTES
    for position, word in enumerate(text_words, start=1):
        places = positions.get(word)
        if places is None and room > 0:
            places = positions[word] = []
            room -= min(len(word.encode()), LONGEST_WORD) + WORD_BYTES
        if places is not None and len(places) < MOST_POSITIONS and (room > 0 or not places):
            places.append(str(min(position, LAST_POSITION)))
            room -= POSITION_BYTES
    return " ".join(f"{index_word(folded)}:{','.join(places)}" for folded, places in positions.items())


_makers: dict[type, Callable[[Any], _Calls]] = {
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
