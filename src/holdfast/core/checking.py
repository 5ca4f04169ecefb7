"""Writes checked and encoded as far as can be without a store."""

from collections.abc import Sequence

import msgspec

from holdfast.core.encoding import TAG_BYTES, check_id, encode_checked
from holdfast.core.errors import InvalidArgument, TooLarge
from holdfast.core.leases import LONGEST_LEASE_MS
from holdfast.core.planning import Ready
from holdfast.core.stored import prepare
from holdfast.core.values import (
    AppendTo,
    Drop,
    Enqueue,
    Finish,
    Job,
    Limits,
    Put,
    Record,
    RecordQuery,
    Require,
    Write,
)

INTEGERS = range(-(1 << 63), 1 << 63)
"""What every store can keep as an integer."""


MOST = 1 << 40
"""As good as no limit."""


def check_limit(limit: int) -> int:
    """How many to read at most, as every store understands it.

    Raises:
        InvalidArgument: It is negative.
    """
    if limit < 0:
        raise InvalidArgument(problem=f"A limit cannot be negative, and {limit} is.")
    return min(limit, MOST)


def check_lease(lease_ms: int) -> int:
    """How long a job is held, as every store can keep it.

    Raises:
        InvalidArgument: It is longer than an hour.
    """
    if not -MOST <= lease_ms <= LONGEST_LEASE_MS:
        raise InvalidArgument(
            problem=f"A lease of {lease_ms} ms is too long; an hour is the most. Extend it."
        )
    return lease_ms


def check_query(query: RecordQuery) -> RecordQuery:
    """A query that every store understands.

    Raises:
        InvalidArgument: A number in it is none that a record can have.
    """
    numbers = {"since": query.since, "until": query.until, "after": query.after and query.after[0]}
    _check_integers(**{name: number for name, number in numbers.items() if number is not None})
    return msgspec.structs.replace(query, limit=check_limit(query.limit))


def all_ready(writes: Sequence[Write], limits: Limits) -> list[Write | Ready]:
    """Writes that may be committed together.

    Raises:
        InvalidInput: One of them cannot be stored, or two of them write the same thing.
    """
    _check_once(writes)
    return [made_ready(write, limits) for write in writes]


def made_ready(write: Write, limits: Limits) -> Write | Ready:
    """A write checked and encoded as far as can be without the store."""
    match write:
        case AppendTo():
            check_id(write.thread, "thread id")
            return Ready(thread=write.thread, prepared=prepare(write.change, limits), expect=write.expect)
        case Put():
            _check_record(write.record, limits)
        case Enqueue():
            _check_job(write.job, limits)
    return write


def _check_record(record: Record, limits: Limits) -> None:
    check_id(record.kind, "kind")
    check_id(record.id, "record id")
    for tag in record.tags:
        check_id(tag, "tag", most=TAG_BYTES)
    _check_integers(sort=record.sort)
    _check_size(record.body, "record.body", limits)


def _check_job(job: Job, limits: Limits) -> None:
    for what, name in [
        ("job id", job.id),
        ("job kind", job.kind),
        ("job key", job.key),
        ("owner", job.owner),
    ]:
        if name is not None or what in ("job id", "job kind"):
            check_id(name, what)
    _check_integers(due=job.due, limit=job.limit)
    _check_size(job.body, "job.body", limits)


def _check_integers(**values: int) -> None:
    for name, value in values.items():
        if type(value) is not int or value not in INTEGERS:
            raise InvalidArgument(problem=f"{name} must be an integer of 64 bits, not {value!r}.")


def _check_size(body: object, what: str, limits: Limits) -> None:
    data, _ = encode_checked(body, what)
    if len(data) > limits.body:
        raise TooLarge(what=what, size=len(data), limit=limits.body)


def _check_once(writes: Sequence[Write]) -> None:
    """Refuse writes whose order would decide what they assume."""
    seen: set[tuple[str, ...]] = set()
    for write in writes:
        name = _touched(write)
        if name is not None and name in seen:
            raise InvalidArgument(
                problem=f"One commit writes {' '.join(map(repr, name))} twice. Join the writes."
            )
        if name is not None:
            seen.add(name)


def _touched(write: Write) -> tuple[str, ...] | None:
    match write:
        case AppendTo():
            return None if write.change.key is None else ("key", write.thread, write.change.key)
        case Put():
            return "record", write.record.kind, write.record.id
        case Drop() | Require():
            return "record", write.kind, write.id
        case Enqueue():
            return None
        case Finish():
            return "job", write.job
