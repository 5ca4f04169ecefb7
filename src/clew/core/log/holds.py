"""Legal holds on owners and threads: records that are checked in each commit that would remove something."""

from hashlib import sha256
from typing import Final

import msgspec

from clew.core.encoding import as_json, encode
from clew.core.errors import InvalidArgument, LegalHold
from clew.core.log.rows import AskRecord, AskRecords, CheckRecord, StoreRead, StoreWrite, ThreadRow, ask
from clew.core.values import Record, RecordQuery

HOLD_KIND: Final = "hold"
"""The kind of records that hold something."""
RECEIPTS_THREAD: Final = "clew/receipts"
"""The thread that holds the receipts of what was erased. It is never erased itself."""
HOLDS_PER_PAGE: Final = 1000


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """An owner or a thread that must stay as it is, since when, and why."""

    what: str
    name: str
    reason: str
    since: int


def hold_id(what: str, name: str) -> str:
    """The id of the record that holds an owner or a thread, however long its name is."""
    return sha256(encode([what, name])).hexdigest()


def hold_record(hold: Hold, owner: str | None) -> Record:
    """The record of a hold. It belongs to the owner, so that it is seen wherever the thread is."""
    return Record(
        kind=HOLD_KIND, id=hold_id(hold.what, hold.name), owner=owner, sort=hold.since, body=as_json(hold)
    )


def hold_of(record: Record) -> Hold:
    """The hold behind a record."""
    return msgspec.convert(record.body, Hold)


def read_holds() -> StoreRead[list[tuple[Hold, str | None]]]:
    """Every hold that the scope sees, and its owner."""
    holds: list[tuple[Hold, str | None]] = []
    after: tuple[int, str] | None = None
    while True:
        records = yield from ask(AskRecords(RecordQuery(kind=HOLD_KIND, limit=HOLDS_PER_PAGE, after=after)))
        holds += [(hold_of(record), record.owner) for record in records]
        if len(records) < HOLDS_PER_PAGE:
            return holds
        after = (records[-1].sort, records[-1].id)


def read_hold_guards(row: ThreadRow) -> StoreRead[list[StoreWrite]]:
    """Read the writes that make a commit fail if the thread, or its owner, is held by then.

    Raises:
        LegalHold: One of them is.
        InvalidArgument: It is the thread that holds the receipts.
    """
    if row.id == RECEIPTS_THREAD:
        raise InvalidArgument(
            problem=f"{RECEIPTS_THREAD!r} holds the receipts of what was erased, and stays."
        )
    names = [*([("owner", row.owner)] if row.owner is not None else []), ("thread", row.id)]
    guards: list[StoreWrite] = []
    for what, name in names:
        record = yield from ask(AskRecord(HOLD_KIND, hold_id(what, name)))
        if record is not None:
            raise hold_error(hold_of(record))
        guards.append(CheckRecord(kind=HOLD_KIND, id=hold_id(what, name), before=0))
    return guards


def hold_error(hold: Hold) -> LegalHold:
    """The error that says what is held."""
    return LegalHold(what=hold.what, name=hold.name, reason=hold.reason)
