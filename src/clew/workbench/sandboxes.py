"""Sandbox snapshots: a record of every interpreter that a session got or lost, when and why."""

import secrets
from collections.abc import Sequence

import msgspec

from clew.core.arguments import check_arguments
from clew.core.encoding import plain
from clew.core.errors import StoreDamaged
from clew.core.values import Put, Record, RecordQuery
from clew.threads.database import Database
from clew.workbench.resetting import Reason, Transition

KIND = "sandbox"


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happened to the interpreter of a session.

    ``started`` is when the interpreter came up, if that is known; ``detail`` is what was said about it.
    """

    session: str
    transition: Transition
    time: int
    provider: str
    sandbox: str | None = None
    reason: Reason | None = None
    volume: str | None = None
    subpath: str | None = None
    started: int | None = None
    detail: str | None = None


def written(snapshot: Snapshot, owner: str | None, number: int = 0) -> Put:
    """The write that keeps a snapshot. ``number`` tells those of one moment apart, in their order."""
    tags = [f"thread:{snapshot.session}"]
    if snapshot.sandbox is not None:
        tags.append(f"sandbox:{snapshot.sandbox}")
    id = f"{snapshot.time:013d}-{number}-{secrets.token_hex(6)}"
    record = Record(kind=KIND, id=id, owner=owner, tags=tuple(tags), sort=snapshot.time, body=plain(snapshot))
    return Put(record=record, expect=0)


@check_arguments
async def snapshots(
    db: Database, *, session: str | None = None, sandbox: str | None = None, limit: int = 100
) -> Sequence[Snapshot]:
    """Snapshots, the newest first; of one session or one interpreter, if it is named.

    Raises:
        StoreDamaged: One cannot be read.
    """
    tags = [f"thread:{session}"] if session is not None else []
    tags += [f"sandbox:{sandbox}"] if sandbox is not None else []
    query = RecordQuery(kind=KIND, tags=tuple(tags), newest=True, limit=limit)
    return [_snapshot(record) for record in await db.records.find(query)]


def _snapshot(record: Record) -> Snapshot:
    try:
        return msgspec.convert(record.body, Snapshot)
    except msgspec.ValidationError as error:
        raise StoreDamaged(store=f"sandbox snapshot {record.id!r}", problem=str(error)) from error
