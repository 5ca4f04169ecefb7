"""The crisis log: what was assessed, when, and how sure that is. Never what a person said.

A row is a retained record that commits with its turn. Only an operator reads the log: a database that is used
for one user is refused.
"""

from collections.abc import AsyncIterator, Sequence

import msgspec

from clew.core.arguments import check_arguments, check_fields
from clew.core.encoding import as_json
from clew.core.erasure.receipts import DOCUMENT_TAG
from clew.core.erasure.retention import extension_time
from clew.core.errors import InvalidArgument, StoreDamaged
from clew.core.text.words import is_label
from clew.core.values import Record
from clew.database.database import Database
from clew.runtime.records.episodes import Episode
from clew.runtime.records.turn_records import TurnRecord
from clew.runtime.turn.turn import Turn
from clew_companion.values import CrisisLevel

CRISIS = "crisis"
CRISIS_TAG = f"{DOCUMENT_TAG}{CRISIS}"
"""The tag by which rows of the log are found among the retained records."""
KEEP_DAYS = 90.0


class Assessment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An assessment of a turn: a level from 0 (nothing) to 3, and how it was found.

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
    """Return an assessment that may be logged.

    Raises:
        InvalidArgument: A number is out of range, or a name is more than one word.
    """
    if not CrisisLevel.NONE <= assessment.level <= CrisisLevel.IMMINENT:
        highest = int(CrisisLevel.IMMINENT)
        raise InvalidArgument(problem=f"A crisis level goes from 0 to {highest}, not to {assessment.level}.")
    if assessment.confidence is not None and not 0 <= assessment.confidence <= 1:
        raise InvalidArgument(problem="The confidence of an assessment goes from 0 to 1.")
    for name in (assessment.path, assessment.override):
        if name is not None and not is_label(name):
            problem = "The crisis log takes names of one word, such as llm_primary, and never what was said."
            raise InvalidArgument(problem=problem)
    return assessment


def crisis_record(assessment: Assessment, *, days: float = KEEP_DAYS) -> TurnRecord | None:
    """The record of an assessment, for a turn to commit; None for level 0, which is nothing to log.

    Raises:
        InvalidArgument: A number is out of range, or a name is more than one word.
    """
    if not check_assessment(assessment).level:
        return None
    body = as_json(assessment)
    del body["level"]
    return TurnRecord(kind=CRISIS, body=body, level=assessment.level, keep_days=days)


def record_crisis(turn: Turn, assessment: Assessment, *, days: float = KEEP_DAYS) -> None:
    """Log an assessment with the next commit of a turn; level 0 is nothing to log.

    Raises:
        InvalidArgument: A number is out of range, or a name is more than one word.
    """
    record = crisis_record(assessment, days=days)
    if record is not None:
        turn.record(record.kind, record.body, level=record.level, keep_days=record.keep_days)


def crisis_of(record: Record) -> Crisis:
    """The row that a retained record is.

    Raises:
        StoreDamaged: It cannot be read.
    """
    dates = {"keep_until": record.sort, "extended": extension_time(record)}
    body = record.body if isinstance(record.body, dict) else {}
    try:
        return msgspec.convert({**body, **dates, "id": record.id}, Crisis)
    except msgspec.ValidationError as error:
        raise StoreDamaged(store=f"crisis {record.id!r}", problem=str(error)) from error


def max_crisis_level(episode: Episode) -> CrisisLevel:
    """The highest level that a turn of an episode was assessed with."""
    return CrisisLevel(min(episode.level, CrisisLevel.IMMINENT))


# For operators.


@check_arguments
async def crises(
    db: Database, *, thread: str | None = None, owner: str | None = None, since: int | None = None
) -> AsyncIterator[Crisis]:
    """Iterate over the rows of the log, those first that are purged first.

    Raises:
        Forbidden: The database is used for one user.
    """
    async for record in db.retention.records(kind=CRISIS, thread=thread, owner=owner):
        crisis = crisis_of(record)
        if since is None or crisis.time >= since:
            yield crisis


@check_arguments
async def purge_expired(db: Database, *, now: int) -> int:
    """Delete the rows whose date has come, and return how many. A row that is extended just now stays.

    Raises:
        Forbidden: The database is used for one user.
    """
    return await db.retention.purge(kind=CRISIS, now=now)


async def count_expired(db: Database, *, now: int) -> int:
    """Count the rows that would be purged."""
    return sum([1 async for _ in db.retention.records(kind=CRISIS, until=now + 1)])


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
    """Keep rows for longer, by their ids, a thread or an owner, and return how many. None is kept for less.

    Raises:
        Forbidden: The database is used for one user.
        InvalidArgument: No row is named.
        RecordNotFound: There is no row of an id.
    """
    return await db.retention.extend(kind=CRISIS, until=until, now=now, ids=ids, thread=thread, owner=owner)
