"""Feedback: what a person thought of an episode, as a label and numbers, one row for each episode.

Whoever answers again, or answers at the end after having answered before, replaces the row.
"""

from collections.abc import AsyncIterator

import msgspec

from clew.core.encoding import as_json
from clew.core.errors import InvalidArgument, RecordNotFound, StoreDamaged
from clew.core.text.words import is_label
from clew.core.values import Record, RecordQuery
from clew.database.database import Database

FEEDBACK = "feedback"
ROWS_PER_PAGE = 256


class Feedback(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Feedback on one episode, under the episode's id: a label of one word, never text.

    ``turns`` is how many turns the episode had by then, ``source`` where the feedback came from. ``keys`` are
    hashes of the idempotency keys that it was given with, and the label that each of them gave.
    """

    id: str
    thread: str
    user: str | None = None
    label: str
    source: str
    modality: str
    turns: int
    recorded: int
    keys: dict[str, str] = {}
    revision: int = 0


def check_label(label: str) -> None:
    """Refuse what is no label.

    Raises:
        InvalidArgument: It is a text, or empty.
    """
    if not is_label(label):
        raise InvalidArgument(problem="Feedback is a label of one word, such as positive, and never text.")


def feedback_record(feedback: Feedback) -> Record:
    """Return the row of feedback; it is found by the keys that it was given with."""
    fields = as_json(msgspec.structs.replace(feedback, user=None, revision=0))
    return Record(
        kind=FEEDBACK,
        id=feedback.id,
        owner=feedback.user,
        tags=(f"thread:{feedback.thread}", *map(key_tag, feedback.keys)),
        sort=feedback.recorded,
        body={name: value for name, value in fields.items() if name != "id"},
    )


def key_tag(key_hash: str) -> str:
    """Return the tag by which the row of an idempotency key is found."""
    return f"key:{key_hash}"


def feedback_of(record: Record) -> Feedback:
    """Return the feedback of a row.

    Raises:
        StoreDamaged: The row cannot be read.
    """
    try:
        fields = {**record.body, "id": record.id, "user": record.owner, "revision": record.revision}
        return msgspec.convert(fields, Feedback)
    except (msgspec.ValidationError, TypeError) as error:
        raise StoreDamaged(store=f"feedback {record.id!r}", problem=str(error)) from error


async def read_feedback(db: Database, episode: str) -> Feedback | None:
    """Read the feedback on an episode; None if there is none yet."""
    try:
        return feedback_of(await db.records.get(FEEDBACK, episode))
    except RecordNotFound:
        return None


def feedback_query(
    *, thread: str | None = None, owner: str | None = None, since: int | None = None
) -> RecordQuery:
    """Return the query for feedback, the newest first: of a thread, of a user, from a time on."""
    tags = () if thread is None else (f"thread:{thread}",)
    return RecordQuery(kind=FEEDBACK, tags=tags, owner=owner, since=since, newest=True, limit=ROWS_PER_PAGE)


async def feedback_rows(db: Database, query: RecordQuery) -> AsyncIterator[Feedback]:
    """Iterate over all feedback that a query finds."""
    while records := await db.records.find(query):
        for record in records:
            yield feedback_of(record)
        query = msgspec.structs.replace(query, after=(records[-1].sort, records[-1].id))
