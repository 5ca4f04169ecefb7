"""Writes checked and encoded as far as can be without a store."""

import math
from collections.abc import Sequence
from typing import Annotated, TypeAlias, get_args

import msgspec

from clew.core.arguments import LARGEST, check_fields
from clew.core.encoding import TAG_BYTES, check_id, encode_checked
from clew.core.errors import InvalidArgument, TooLarge
from clew.core.log.codec import PreparedWrite, prepare_append
from clew.core.log.leases import LONGEST_LEASE_MS
from clew.core.shapes import describe_value
from clew.core.values import (
    Absent,
    AnyVersion,
    AppendTo,
    Drop,
    Enqueue,
    Exact,
    Expectation,
    Finish,
    Job,
    Limits,
    Put,
    Record,
    RecordQuery,
    Require,
    VectorQuery,
    Write,
)

INTEGERS = range(-LARGEST - 1, LARGEST + 1)
"""The integers that every store can keep."""


WRITES: tuple[type, ...] = get_args(Write)
"""Every kind of write."""

NO_LIMIT = 1 << 40
"""As good as no limit."""


def check_limit(limit: int) -> int:
    """A limit of rows that every store understands.

    Raises:
        InvalidArgument: It is negative.
    """
    if limit < 0:
        raise InvalidArgument(problem=f"A limit cannot be negative, and {limit} is.")
    return min(limit, NO_LIMIT)


def check_lease(lease_ms: int) -> int:
    """A lease in milliseconds that every store can keep.

    Raises:
        InvalidArgument: It is longer than an hour.
    """
    if not -NO_LIMIT <= lease_ms <= LONGEST_LEASE_MS:
        raise InvalidArgument(
            problem=f"A lease of {lease_ms} ms is too long; an hour is the most. Extend it."
        )
    return lease_ms


def check_query(query: RecordQuery) -> RecordQuery:
    """A query that every store understands.

    Raises:
        InvalidArgument: A number in it is none that a record can have.
    """
    check_fields(query)
    numbers = {"since": query.since, "until": query.until, "after": query.after and query.after[0]}
    _check_integers(**{name: number for name, number in numbers.items() if number is not None})
    return msgspec.structs.replace(query, limit=check_limit(query.limit))


def check_vector_query(query: VectorQuery) -> VectorQuery:
    """A query for vectors that every store understands.

    Raises:
        InvalidArgument: A number in it is out of range, or its vector has none.
    """
    check_fields(query)
    if not query.vector or not all(map(math.isfinite, query.vector)):
        raise InvalidArgument(problem="A vector is made of finite numbers, and of one at least.")
    return msgspec.structs.replace(query, limit=check_limit(query.limit))


def prepare_writes(writes: Sequence[Write], limits: Limits) -> list[PreparedWrite]:
    """Writes that may be committed together.

    Raises:
        InvalidInput: One of them cannot be stored, or two of them write the same thing.
    """
    _check_distinct(writes)
    return [prepare_write(write, limits) for write in writes]


def expectation(expect: object, what: str = "expect") -> Expectation:
    """The expectation of where a thread is: as given, or exactly at a version given as a number.

    Raises:
        InvalidArgument: It is neither; True and False are no versions.
    """
    if isinstance(expect, Exact | AnyVersion | Absent):
        return expect
    if type(expect) is int and 0 <= expect <= LARGEST:
        return Exact(expect)
    problem = (
        f"{what} must be a version (a number from 0 on), Exact(version), AnyVersion() or Absent(), "
        f"not {describe_value(expect)}."
    )
    raise InvalidArgument(problem=problem)


ExpectedVersion: TypeAlias = Annotated[Expectation | int, expectation]
"""An expectation as the argument of a call: a number is exactly that version."""


def prepare_write(write: Write, limits: Limits) -> PreparedWrite:
    """A write checked and encoded as far as can be without the store."""
    if isinstance(write, AppendTo):
        check_id(write.thread, "thread id")
        return prepare_append(write.thread, write.change, expectation(write.expect), limits)
    if not isinstance(write, WRITES):
        wanted = ", ".join(kind.__name__ for kind in WRITES)
        raise InvalidArgument(problem=f"A write is one of {wanted}, not {describe_value(write)}.")
    check_fields(write)
    match write:
        case Put():
            _check_record(write.record, limits)
        case Enqueue():
            _check_job(write.job, limits)
    return write


def _check_record(record: Record, limits: Limits) -> None:
    check_id(record.kind, "kind")
    check_id(record.id, "record id")
    if not isinstance(record.tags, list | tuple):
        raise InvalidArgument(problem=f"tags must be a list of texts, not {describe_value(record.tags)}.")
    for tag in record.tags:
        check_id(tag, "tag", most=TAG_BYTES)
    _check_integers(sort=record.sort)
    _check_size(record.body, "record.body", limits)


def _check_job(job: Job, limits: Limits) -> None:
    check_fields(job)
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


def _check_distinct(writes: Sequence[Write]) -> None:
    """Refuse writes whose order would decide what they assume."""
    if not isinstance(writes, list | tuple):
        raise InvalidArgument(problem=f"writes must be a list, not {describe_value(writes)}.")
    targets: set[tuple[str, ...]] = set()
    for write in writes:
        target = _target_of(write)
        if target is not None and target in targets:
            raise InvalidArgument(
                problem=f"One commit writes {' '.join(map(repr, target))} twice. Join the writes."
            )
        if target is not None:
            targets.add(target)


def _target_of(write: Write) -> tuple[str, ...] | None:
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
