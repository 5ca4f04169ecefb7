"""Each effect as calls of functions and their values."""

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
    Effect,
    EndJob,
    EraseParts,
    Index,
    ItemRow,
    MoveJob,
    Restore,
    SaveRecord,
    ThreadRow,
)
from clew.core.text.words import words
from clew.core.values import Job
from clew.stores.postgres.answers import LONGEST_WORD, Values, word
from clew.stores.postgres.arrays import Blobs, Integers, Keys, Texts

MOST_WORD_BYTES = 800_000
"""A text is indexed by a megabyte of words at most; what goes beyond cannot be found by its words."""
WORD_BYTES = 4
POSITION_BYTES = 2
MOST_POSITIONS = 250
LAST_POSITION = 16_383
BATCH = 2_000
"""Rows of a restored thread that go in one call."""


class Call(NamedTuple):
    """A query by name, and its values after the scope and before the last."""

    name: str
    values: Values


_Calls: TypeAlias = Iterable[Call]
_encode = msgspec.json.Encoder().encode


def calls_of(effects: Sequence[Effect]) -> list[Call]:
    """The calls that apply some effects, in order."""
    return [call for effect in effects for call in _makers[type(effect)](effect)]


# Threads.


def _add_thread(effect: AddThread) -> _Calls:
    return [_added(effect.row)]


def _added(row: ThreadRow) -> Call:
    return Call(
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


def _advance(effect: Advance) -> _Calls:
    return [Call("advance", alone(effect))]


def alone(step: Advance) -> Values:
    """The values that append one changeset."""
    change = step.change
    return (
        step.before.key,
        step.before.hash,
        Int8(change.version),
        Int8(change.time),
        change.hash,
        _encode(change.counters),
        _about(step.after),
        change.envelope,
        change.content,
        change.salt,
        *(_items(step.items) if step.items else _NO_ITEMS),
        _cuts(step.cuts) if step.cuts else None,
        step.anchor,
        step.name,
        step.fingerprint,
    )


_NO_ITEMS = (None,) * 6


def together(steps: Sequence[Advance]) -> Values:
    """The values that append some changesets, of a thread each."""
    changes = [step.change for step in steps]
    items = [(number, item) for number, step in enumerate(steps, start=1) for item in step.items]
    return (
        Keys([step.before.key for step in steps]),
        Blobs([step.before.hash for step in steps]),
        Integers([change.version for change in changes]),
        Integers([change.time for change in changes]),
        Blobs([change.hash for change in changes]),
        Blobs([_encode(change.counters) for change in changes]),
        Blobs([_about(step.after) for step in steps]),
        Blobs([change.envelope for change in changes]),
        Blobs([change.content for change in changes]),
        Blobs([change.salt for change in changes]),
        *_rarely(steps),
        Integers([number for number, _ in items]),
        *_items([item for _, item in items]),
    )


def _rarely(steps: Sequence[Advance]) -> Values:
    """What few changesets have: anchors, idempotency keys and cuts."""
    anchored = any(step.anchor is not None for step in steps)
    named = any(step.name is not None for step in steps)
    return (
        Blobs([step.anchor for step in steps]) if anchored else None,
        Texts([step.name for step in steps]) if named else None,
        Blobs([step.fingerprint for step in steps]) if named else None,
        Texts([_cuts(step.cuts) if step.cuts else None for step in steps])
        if any(step.cuts for step in steps)
        else None,
    )


def _items(items: Sequence[ItemRow]) -> Values:
    ids = [item.id for item in items]
    return (
        Texts([item.log for item in items]),
        Integers([item.place for item in items]),
        Texts(ids) if any(ids) else None,
        Blobs([item.meta for item in items]),
        Blobs([item.body for item in items]),
        Blobs([item.salt for item in items]),
    )


def _cuts(cuts: Iterable[CutRow]) -> str:
    return _encode([[cut.log, cut.first, cut.last, cut.version, cut.count] for cut in cuts]).decode()


def _restore(effect: Restore) -> _Calls:
    yield _added(effect.row)
    for start in range(0, len(effect.steps), BATCH):
        yield _restored_changesets(effect.row, effect.steps[start : start + BATCH])
    items = [item for step in effect.steps for item in step.items]
    for start in range(0, len(items), BATCH):
        yield _restored_items(effect.row, items[start : start + BATCH])


def _restored_changesets(row: ThreadRow, steps: Sequence[Advance]) -> Call:
    cuts = [cut for step in steps for cut in step.cuts]
    changes = [step.change for step in steps]
    newest = {step.name: step for step in steps}
    return Call(
        "restore_changesets",
        (
            row.key,
            row.owner,
            Integers([change.version for change in changes]),
            Integers([change.time for change in changes]),
            Blobs([change.envelope for change in changes]),
            Blobs([change.content for change in changes]),
            Blobs([change.salt for change in changes]),
            Blobs([change.erased for change in changes]),
            Blobs([change.hash for change in changes]),
            Blobs([_encode(change.counters) for change in changes]),
            Blobs([step.anchor for step in steps]),
            Texts([step.name if newest[step.name] is step else None for step in steps]),
            Blobs([step.fingerprint for step in steps]),
            _cuts(cuts) if cuts else None,
        ),
    )


def _restored_items(row: ThreadRow, items: Sequence[ItemRow]) -> Call:
    logs, places, ids, metas, bodies, salts = _items(items)
    versions = Integers([item.version for item in items])
    times = Integers([item.time for item in items])
    erased = Blobs([item.erased for item in items])
    return Call(
        "restore_items",
        (row.key, row.owner, logs, places, versions, times, ids, metas, bodies, salts, erased),
    )


def _copy_lineage(effect: CopyLineage) -> _Calls:
    for segment in effect.segments:
        yield Call("copy_lineage", (effect.key, effect.owner, segment.key, Int8(segment.upto)))


def _drop_thread(effect: DropThread) -> _Calls:
    return [Call("drop_thread", (effect.row.key, None if effect.anyway else effect.row.hash))]


def _erase_parts(effect: EraseParts) -> _Calls:
    return [
        Call(
            "erase_parts",
            (
                effect.key,
                Texts([log for log, _, _ in effect.items]),
                Integers([place for _, place, _ in effect.items]),
                Blobs([commitment for _, _, commitment in effect.items]),
                Integers([version for version, _ in effect.contents]),
                Blobs([commitment for _, commitment in effect.contents]),
                Int8(effect.states),
            ),
        )
    ]


# Records and jobs.


def _save_record(effect: SaveRecord) -> _Calls:
    record = effect.record
    about = (record.kind, record.id, record.owner, Texts(record.tags), Int8(record.sort))
    return [Call("save_record", (*about, Int8(record.revision), encode(record.body), Int8(effect.before)))]


def _drop_record(effect: DropRecord) -> _Calls:
    return [Call("drop_record", (effect.kind, effect.id, Int8(effect.before)))]


def _check_record(effect: CheckRecord) -> _Calls:
    return [Call("check_record", (effect.kind, effect.id, Int8(effect.before)))]


def _add_job(effect: AddJob) -> _Calls:
    return [Call("add_job", _job(effect.job))]


def _end_job(effect: EndJob) -> _Calls:
    return [Call("end_job", (effect.id, effect.token))]


def _move_job(effect: MoveJob) -> _Calls:
    return [Call("move_job", (effect.token, *_job(effect.job)))]


def _job(job: Job) -> Values:
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


def _index(effect: Index) -> _Calls:
    texts = effect.texts
    return [
        Call(
            "index",
            (
                effect.row.key,
                Int8(effect.upto),
                Texts([text.log for text in texts]),
                Integers([text.place for text in texts]),
                Integers([text.version for text in texts]),
                Texts([_vector(words(text.text)) for text in texts]),
                Blobs([text.text.encode() for text in texts]),
            ),
        )
    ]


def _vector(said: Sequence[str]) -> str:
    """A ``tsvector`` of exactly these words with their positions, as text."""
    stands: dict[str, list[str]] = {}
    room = MOST_WORD_BYTES
    for position, folded in enumerate(said, start=1):
        places = stands.get(folded)
        if places is None and room > 0:
            places = stands[folded] = []
            room -= min(len(folded.encode()), LONGEST_WORD) + WORD_BYTES
        if places is not None and len(places) < MOST_POSITIONS and (room > 0 or not places):
            places.append(str(min(position, LAST_POSITION)))
            room -= POSITION_BYTES
    return " ".join(f"{word(folded)}:{','.join(places)}" for folded, places in stands.items())


_makers: dict[type, Callable[[Any], _Calls]] = {
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
