"""Records of a turn on their way to the store: they commit with the turn, or wait until the store answers."""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress

import msgspec

from clew.core.arguments import check_fields
from clew.core.encoding import JSON, encode_checked
from clew.core.erasure.receipts import DOCUMENT_TAG, RETAINED_KIND, document_kind
from clew.core.erasure.retention import DAY_MS
from clew.core.errors import InvalidArgument, RevisionConflict, StoreClosed, StoreFailed
from clew.core.values import Put, Record
from clew.database.database import Database
from clew.runtime.records.runs import Run

log = logging.getLogger("clew")
LEVEL, THREAD, RUN, EPISODE, TIME = "level", "thread", "run", "episode", "time"
PROVENANCE = (THREAD, RUN, EPISODE, TIME)
"""What the body of every record says of the turn that it comes from."""


class TurnRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A document that a turn records.

    ``level`` says how much it matters; the episode keeps the highest. With ``keep_days`` it is retained: kept
    for so long, also if its owner is erased, and then purged.
    """

    kind: str
    body: dict[str, JSON] = {}
    level: int = 0
    tags: tuple[str, ...] = ()
    keep_days: float | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        is_kept = self.keep_days is None or self.keep_days > 0
        # What has the kind of retained records has a date, which this one might not have.
        if self.kind in ("", RETAINED_KIND) or self.level < 0 or not is_kept:
            problem = "A record of a turn has a kind of its own, a level from 0 on, and more than 0 days."
            raise InvalidArgument(problem=problem)
        encode_checked(self.body)  # now, and not when the whole turn is to be committed


def stored_record(
    record: TurnRecord, run: Run, number: int, *, episode: str | None, owner: str | None, now: int
) -> Record:
    """Return a record of a turn as the store has it, under an id of its own.

    ``number`` counts the records of the run. A run that is resumed makes others: its epoch differs.
    """
    id = f"{run.id}.{run.epoch}.{number}"
    provenance: dict[str, JSON] = {THREAD: run.thread, RUN: run.id, EPISODE: episode, TIME: now}
    # An erasure finds what is about a thread by its tag, so every record has one.
    level_tag = (f"{LEVEL}:{record.level}",) if record.level else ()
    tags = (*level_tag, f"{THREAD}:{run.thread}", *record.tags)
    level: dict[str, JSON] = {LEVEL: record.level} if record.level else {}
    body = {**record.body, **level, **provenance}
    if record.keep_days is None:
        return Record(kind=record.kind, id=id, owner=owner, tags=tags, sort=now, body=body)
    kind_tag = f"{DOCUMENT_TAG}{record.kind}"
    date = now + round(record.keep_days * DAY_MS)
    return Record(kind=RETAINED_KIND, id=id, owner=owner, tags=(kind_tag, *tags), sort=date, body=body)


def level_of(record: Record) -> int:
    """The level of a record that a turn has made."""
    level = record.body.get(LEVEL) if isinstance(record.body, dict) else None
    return level if isinstance(level, int) else 0


def retained_turn_record(record: Record) -> TurnRecord:
    """A retained record as the turn gave it, to be recorded again with another turn."""
    body = record.body if isinstance(record.body, dict) else {}
    time = body.get(TIME)
    level_and_thread = (f"{LEVEL}:{level_of(record)}", f"{THREAD}:{body.get(THREAD)}")
    return TurnRecord(
        kind=document_kind(record),
        body={name: value for name, value in body.items() if name not in (LEVEL, *PROVENANCE)},
        level=level_of(record),
        tags=tuple(tag for tag in record.tags[1:] if tag not in level_and_thread),
        keep_days=max(record.sort - (time if isinstance(time, int) else 0), 1) / DAY_MS,
    )


class PendingRecords:
    """Records that a store did not take, in the memory of this process until it does."""

    def __init__(self) -> None:
        self._records: list[tuple[Database, Record]] = []

    def __len__(self) -> int:
        return len(self._records)

    def add(self, db: Database, records: Iterable[Record]) -> None:
        """Keep records until they can be written. The log line is a second trace of each."""
        for record in records:
            log.warning(
                "A record is held until the store takes it: %s (%s).", record.id, ", ".join(record.tags)
            )
            self._records.append((db, record))

    async def write(self) -> None:
        """Write what is held, as far as the stores take it. One that is down keeps no other waiting."""
        down: set[int] = set()
        for entry in list(self._records):
            db, record = entry
            if id(db.store) in down:
                continue
            try:
                await db.commit([Put(record=record, expect=0)])
            except RevisionConflict:
                pass  # it was written after all, and only the answer was lost
            except StoreClosed:
                log.warning("A record is lost with its store: %s.", record.id)
            except StoreFailed:
                down.add(id(db.store))
                continue
            self._records.remove(entry)

    async def close(self, seconds: float) -> None:
        """Try for a last time, for so long, and log what is lost."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.write()
        for _, record in self._records:
            log.error("A record is lost, since the store did not take it: %s.", record.id)
