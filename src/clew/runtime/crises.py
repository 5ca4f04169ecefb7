"""The crisis log: what was assessed, when, and how sure of it. Never what anybody said.

A row commits with the turn that it is about. It is found by the date until which it is kept, so what is due
to be purged is read and nothing else. Only an operator reads it: not a database that is used for one user.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress

import msgspec

from clew.core.arguments import check_arguments, check_fields
from clew.core.encoding import as_json
from clew.core.errors import (
    Forbidden,
    InvalidArgument,
    RevisionConflict,
    StoreClosed,
    StoreDamaged,
    StoreFailed,
)
from clew.core.text.words import is_label
from clew.core.values import Put, Record, RecordQuery
from clew.database.database import Database
from clew.runtime.attempts import Attempts
from clew.runtime.records.runs import Run

log = logging.getLogger("clew")
CRISIS = "crisis"
DAY_MS = 24 * 60 * 60 * 1000
KEEP_DAYS = 90.0
HIGHEST_LEVEL = 3
PAGE = 256


class Assessment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How serious a turn is: a level from 0 (nothing) to 3, and how it was found.

    ``confidence`` goes from 0 to 1, ``path`` names the way through the classifier, ``override`` a rule that
    decided instead. Both are names, of one word: nothing that a person said belongs here. ``late`` says that
    an answer was under way before it was found, as can be in a call.
    """

    level: int
    confidence: float | None = None
    path: str | None = None
    override: str | None = None
    llm_failed: bool = False
    late: bool = False

    def __post_init__(self) -> None:
        check_fields(self)


class Crisis(Assessment, frozen=True, kw_only=True, omit_defaults=True):
    """A row of the log. Times are milliseconds since 1970; it is purged after ``keep_until``."""

    id: str
    thread: str
    run: str
    episode: str | None = None
    time: int
    keep_until: int
    extended: int | None = None


def check_assessment(assessment: Assessment) -> Assessment:
    """An assessment that may be logged.

    Raises:
        InvalidArgument: A number is out of range, or a name is more than one.
    """
    if not 0 <= assessment.level <= HIGHEST_LEVEL:
        raise InvalidArgument(
            problem=f"A crisis level goes from 0 to {HIGHEST_LEVEL}, and {assessment.level} does not."
        )
    if assessment.confidence is not None and not 0 <= assessment.confidence <= 1:
        raise InvalidArgument(problem="The confidence of an assessment goes from 0 to 1.")
    for name in (assessment.path, assessment.override):
        if name is not None and not is_label(name):
            problem = "The crisis log takes names of one word, such as llm_primary, and never what was said."
            raise InvalidArgument(problem=problem)
    return assessment


def crisis_record(crisis: Crisis, owner: str | None = None) -> Record:
    """The record that a row is kept as."""
    tags = (f"level:{crisis.level}", f"thread:{crisis.thread}")
    return Record(
        kind=CRISIS, id=crisis.id, owner=owner, tags=tags, sort=crisis.keep_until, body=as_json(crisis)
    )


def crisis_of(record: Record) -> Crisis:
    """The row behind a record."""
    try:
        return msgspec.convert(record.body, Crisis)
    except msgspec.ValidationError as error:
        raise StoreDamaged(store=f"crisis {record.id!r}", problem=str(error)) from error


class CrisisRows:
    """The rows that a run has made and no commit has taken yet."""

    def __init__(self, clock: Callable[[], int], days: float = KEEP_DAYS) -> None:
        self.rows: list[Record] = []
        self._clock = clock
        self._keep = int(days * DAY_MS)
        self._count = 0

    def add(
        self, assessment: Assessment, run: Run, *, episode: str | None = None, owner: str | None = None
    ) -> None:
        """Make a row. Whoever takes the run up makes others: each of them is an assessment of its own."""
        self._count += 1
        now = self._clock()
        crisis = Crisis(
            **msgspec.structs.asdict(assessment),
            id=f"{run.id}.{run.epoch}.{self._count}",
            thread=run.thread,
            run=run.id,
            episode=episode,
            time=now,
            keep_until=now + self._keep,
        )
        self.rows.append(crisis_record(crisis, owner))


# For operators.


@check_arguments
async def crises(
    db: Database, *, thread: str | None = None, owner: str | None = None, since: int | None = None
) -> AsyncIterator[Crisis]:
    """The rows of the log, those first that are purged first.

    Raises:
        Forbidden: The database is used for one user.
    """
    async for record in _records(db, thread=thread, owner=owner):
        crisis = crisis_of(record)
        if since is None or crisis.time >= since:
            yield crisis


@check_arguments
async def purge_expired(db: Database, *, now: int) -> int:
    """Delete the rows whose date has come; how many. A row that is extended just now stays.

    Raises:
        Forbidden: The database is used for one user.
    """
    count = 0
    async for record in _records(db, until=now + 1):
        try:
            await db.records.drop(CRISIS, record.id, expect=record.revision)
        except RevisionConflict:
            continue
        count += 1
    return count


async def count_expired(db: Database, *, now: int) -> int:
    """How many rows would be purged."""
    return sum([1 async for _ in _records(db, until=now + 1)])


async def purge_in_sweep(db: Database, now: int) -> None:
    """Purge as a part of looking around; whoever looks around for one user leaves it to others."""
    if db.user is None:
        await purge_expired(db, now=now)


@check_arguments
async def extend_retention(
    db: Database,
    *,
    until: int,
    now: int,
    ids: Sequence[str] = (),
    thread: str | None = None,
    owner: str | None = None,
) -> int:
    """Keep rows for longer: those of some ids, or of a thread or an owner; how many. None is kept for less.

    Raises:
        Forbidden: The database is used for one user.
        InvalidArgument: It is not said which.
        RecordNotFound: There is no row of an id.
    """
    if not ids and thread is None and owner is None:
        raise InvalidArgument(problem="Say which rows of the crisis log to keep: ids, a thread or an owner.")
    check_operator(db)
    records = [await db.records.get(CRISIS, id) for id in ids]
    if thread is not None or owner is not None:
        records += [record async for record in _records(db, thread=thread, owner=owner)]
    return sum(
        [await _extend_row(db, record.id, until, now) for record in {r.id: r for r in records}.values()]
    )


async def _extend_row(db: Database, id: str, until: int, now: int) -> bool:
    attempts = Attempts()
    while True:
        record = await db.records.get(CRISIS, id)
        crisis = crisis_of(record)
        if crisis.keep_until >= until:
            return False
        new_record = crisis_record(
            msgspec.structs.replace(crisis, keep_until=until, extended=now), record.owner
        )
        try:
            await db.records.put(new_record, expect=record.revision)
        except RevisionConflict as conflict:
            attempts.count(conflict)
            continue  # somebody else has extended it just now
        return True


def check_operator(db: Database) -> None:
    """Refuse a database that is used for one user.

    Raises:
        Forbidden: It is.
    """
    if db.user is not None:
        raise Forbidden(problem="The crisis log is for operators; it is not read on behalf of one user.")


async def _records(
    db: Database, *, thread: str | None = None, owner: str | None = None, until: int | None = None
) -> AsyncIterator[Record]:
    check_operator(db)
    tags = () if thread is None else (f"thread:{thread}",)
    query = RecordQuery(kind=CRISIS, tags=tags, owner=owner, until=until, limit=PAGE)
    while page := await db.records.find(query):
        for record in page:
            yield record
        query = msgspec.structs.replace(query, after=(page[-1].sort, page[-1].id))


# What a store did not take.


class PendingCrises:
    """Rows that a store did not take, in this process's memory until it does."""

    def __init__(self) -> None:
        self._rows: list[tuple[Database, Record]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, db: Database, rows: Iterable[Record]) -> None:
        """Keep rows until they can be written. The log line is a second trace of each."""
        for row in rows:
            crisis = crisis_of(row)
            log.warning(
                "A row of the crisis log is held until the store takes it: %s, level %s, thread %s.",
                *(crisis.id, crisis.level, crisis.thread),
            )
            self._rows.append((db, row))

    async def write(self) -> None:
        """Write what is held, as far as the stores take it. One that is down keeps no other waiting."""
        down: set[int] = set()
        for entry in list(self._rows):
            db, row = entry
            if id(db.store) in down:
                continue
            try:
                await db.commit([Put(record=row, expect=0)])
            except RevisionConflict:
                pass  # it was written after all, and only the answer was lost
            except StoreClosed:
                log.warning("A row of the crisis log is lost with its store: %s.", row.id)
            except StoreFailed:
                down.add(id(db.store))
                continue
            self._rows.remove(entry)

    async def close(self, seconds: float) -> None:
        """Try for a last time, for so long, and say what is lost."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.write()
        for _, row in self._rows:
            log.error("A row of the crisis log is lost, since the store did not take it: %s.", row.id)
