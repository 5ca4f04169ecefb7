"""Admission: which threads and records of an archive are taken in, for whom, and which are refused.

An import on behalf of a user takes what is theirs and nothing else. The body of a record counts as much as
its owner, since background work acts on both. An operator, who imports for a whole tenant, may bring any kind
of record; but episodes and runs have to fit their threads all the same.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from clew.core.encoding import JSON, check_id
from clew.core.erasure.receipts import ARTIFACT_KIND, DOCUMENT_KIND
from clew.core.errors import InvalidArgument
from clew.core.log.commit import Plan, PlanContext, plan_commit
from clew.core.log.owners import check_named_owner, is_memory_of, owner_for
from clew.core.log.rows import AskThread, StoreRead, ThreadRow, ask
from clew.core.values import ACTIVE_EPISODE_KIND, RESERVED_THREAD_PREFIXES, THREAD_TAG, Put, Record, Scope


class RecordShape(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of records of one kind: where they name themselves and their thread, and in which status.

    ``id`` is the field of the body that repeats the record's id. With ``bare`` its tags are its thread's id
    and nothing else. ``default`` is the status of a body that names none.
    """

    id: str | None = None
    bare: bool = False
    default: str = ""
    statuses: tuple[str, ...] = ("",)

    @property
    def is_worked_on(self) -> bool:
        """True if background work acts on such records."""
        return bool(self.default)


IMPORTABLE: Final[Mapping[str, RecordShape]] = {
    ACTIVE_EPISODE_KIND: RecordShape(id="thread", default="active", statuses=("active",)),
    "episode": RecordShape(id="id", default="active", statuses=("ending", "ended")),
    # A run that was at work when the archive was made is at work nowhere here.
    "run": RecordShape(id="id", default="running", statuses=("waiting", "done")),
    "feedback": RecordShape(),
    ARTIFACT_KIND: RecordShape(id="id", bare=True),
    DOCUMENT_KIND: RecordShape(bare=True),
}
"""The kinds of records that can be imported on behalf of a user; all others are passed over."""


def check_thread_import(row: ThreadRow, scope: Scope) -> None:
    """Refuse a thread of an archive that its owner, or the importing user, cannot own.

    Raises:
        InvalidArgument: It is another's, would hold another's memory, or is one of Clew's own.
    """
    check_named_owner(row.id, row.owner)
    if scope.user is None:
        return
    # A fork has the owner of what it was forked from, so a fork of another's thread was made up.
    if any(owner != scope.user for owner in (row.owner, *(segment.owner for segment in row.segments))):
        raise InvalidArgument(problem=f"Thread {row.id!r} of the archive belongs to another owner.")
    if row.id.startswith(RESERVED_THREAD_PREFIXES) and not is_memory_of(row.id, scope.user):
        raise InvalidArgument(problem=f"Thread {row.id!r} of the archive cannot belong to a user.")


def plan_record_import(write: Put, context: PlanContext) -> StoreRead[Plan]:
    """Plan to take in a record of an archive; it writes nothing if the record is passed over.

    Raises:
        InvalidArgument: It names a thread, a user or an id that is not its own.
    """
    if (yield from _is_admitted(write.record, context.scope)):
        return (yield from plan_commit([write], context))
    return Plan()


def _is_admitted(record: Record, scope: Scope) -> StoreRead[bool]:
    """Return whether a record is taken in; a user's only with its thread, which comes before it."""
    shape = IMPORTABLE.get(record.kind)
    if shape is None or (scope.user is None and not shape.is_worked_on):
        return scope.user is None
    owner = owner_for(scope, record.owner, "record")
    thread = _thread_of(record, shape, owner)
    row = yield from ask(AskThread(thread))
    if row is not None and row.owner != owner:
        raise _misfit(record, f"thread {thread!r} has another owner")
    if scope.user is None:
        return True
    status = _body_of(record).get("status", shape.default)
    return row is not None and status in shape.statuses and not thread.startswith(RESERVED_THREAD_PREFIXES)


def _thread_of(record: Record, shape: RecordShape, owner: str | None) -> str:
    """The thread that a record is about, if all of the record is about it and its owner."""
    body = _body_of(record)
    tags = [tag for tag in record.tags if shape.bare or tag.startswith(THREAD_TAG)]
    threads: list[JSON] = [tag if shape.bare else tag.removeprefix(THREAD_TAG) for tag in tags]
    if "thread" in body or not threads:
        threads.append(body.get("thread"))
    if any(thread != threads[0] for thread in threads):
        raise _misfit(record, "it names more than one thread")
    if body.get("user") not in (None, owner):
        raise _misfit(record, "it names another user")
    if shape.id is not None and body.get(shape.id) != record.id:
        raise _misfit(record, "its body has another id")
    return check_id(threads[0], "thread id")


def _body_of(record: Record) -> Mapping[str, JSON]:
    return record.body if isinstance(record.body, dict) else {}


def _misfit(record: Record, problem: str) -> InvalidArgument:
    return InvalidArgument(problem=f"The {record.kind} {record.id!r} does not fit its owner: {problem}.")
