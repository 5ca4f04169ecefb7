"""Turns of a call: recorded once they were spoken, in an episode that lasts as long as the call.

The audio goes between a client and a realtime model, and no stage runs here. What comes back is a finished
transcript, and it is committed whole: what was said, the tools that were called, what was replied.
"""

from collections.abc import Sequence

import msgspec

from clew.core.arguments import check_fields
from clew.core.encoding import JSON, encode
from clew.core.errors import InvalidArgument, InvalidId, RevisionConflict
from clew.core.values import HISTORY, RecordQuery
from clew.database.database import Database, owner_database
from clew.runtime.attempts import Attempts
from clew.runtime.crises import Assessment, checked
from clew.runtime.execution.start import Asked, Spoken
from clew.runtime.model.messages import CALL, RESULT, Message, item_of
from clew.runtime.records.episodes import (
    ACTIVE_ROW,
    LEASED,
    VOICE,
    Episode,
    active_episode,
    episode_of,
    request_end,
    saved,
)
from clew.runtime.records.refusals import REFUSED, Refusals
from clew.runtime.state.inputs import MESSAGE, free_id
from clew.runtime.state.schema import Fold, Schema

ORIGIN, LOST = "voice", "lost"
PAGE = 100
NO_ANSWER = "The call ended before the tool answered."
MARK: dict[str, JSON] = {"modality": VOICE}


class VoiceCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that was called while somebody spoke: its output, or the error that it ended with."""

    name: str
    arguments: JSON = None
    output: JSON = None
    error: str | None = None
    id: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)


def spoken(
    thread: str,
    schema: Schema,
    *,
    said: str,
    replied: str,
    tool_calls: Sequence[VoiceCall] = (),
    crisis: Assessment | None = None,
    user: str | None = None,
    key: str | None = None,
) -> Asked:
    """A turn of a call, as it is to be recorded.

    Raises:
        InvalidId: There is no thread id.
        InvalidArgument: Nothing was said, or the schema has no history to keep it in.
    """
    if not thread:
        raise InvalidId(what="thread id", problem="it is missing, and the runtime never makes one up")
    history = schema.fields.get(HISTORY)
    if history is None or history.fold is not Fold.APPEND:
        raise InvalidArgument(problem=f"{schema.cls.__name__} has no history to keep what was said in.")
    messages = transcript_of(said, replied, tool_calls)
    if not messages:
        raise InvalidArgument(problem="Nothing was said and nothing was called; there is no turn to record.")
    return Asked(
        thread=free_id(thread),
        inputs={MESSAGE: said} if said else {},
        items=tuple(map(item_of, messages)),
        user=user,
        key=key,
        origin=ORIGIN,
        spoken=Spoken(reply=replied, assessed=None if crisis is None else checked(crisis)),
    )


def transcript_of(said: str, replied: str, tool_calls: Sequence[VoiceCall]) -> list[Message]:
    """The messages of a spoken turn, each call with its result right behind it."""
    messages = [Message(role="user", content=said, meta=MARK)] if said else []
    taken: set[str] = set()
    for call in tool_calls:
        id = _free(call.id or "call", taken)
        messages += [
            Message(
                role="assistant", kind=CALL, call=id, name=call.name, arguments=call.arguments, meta=MARK
            ),
            Message(role="tool", kind=RESULT, call=id, content=_outcome(call), meta=MARK),
        ]
    return [*messages, Message(role="assistant", content=replied, meta=MARK)] if replied else messages


def _free(wanted: str, taken: set[str]) -> str:
    """An id for a call that no other call of the turn has."""
    id, number = wanted, 1
    while id in taken:
        number += 1
        id = f"{wanted}-{number}"
    taken.add(id)
    return id


def _outcome(call: VoiceCall) -> JSON:
    if call.error is not None:
        return f"Error: {call.error}"
    if call.output is None:
        return NO_ANSWER
    return call.output if isinstance(call.output, str) else encode(call.output).decode()


async def keep_alive(db: Database, thread: str, *, now: int, seconds: float) -> Episode | None:
    """Note that a call goes on, and until when its client may be silent; None if there is no episode.

    Raises:
        RevisionConflict: Others changed the episode again and again.
    """
    attempts = Attempts()
    while (before := await active_episode(db, thread)) is not None:
        until = now + int(seconds * 1000)
        alive = msgspec.structs.replace(before, modality=VOICE, touched=now, until=until)
        try:
            await db.commit([saved(alive, before.user)])
        except RevisionConflict as conflict:
            attempts.count(conflict)
            continue  # a turn has just touched it, or somebody has just ended it
        return alive
    return None


async def end_lost(db: Database, now: int, refusals: Refusals | None = None) -> None:
    """End the calls whose clients have been silent for longer than they promised, as their owners would."""
    refusals = refusals or Refusals()
    query = RecordQuery(kind=ACTIVE_ROW, tags=(f"modality:{VOICE}", LEASED), limit=PAGE)
    while found := await db.records.find(query):
        for record in found:
            if refusals.covers(record):
                continue
            own = owner_database(db, record.owner)
            try:
                until = episode_of(record).until
                if until is not None and until <= now:
                    await request_end(own, record.id, by=LOST, now=now, untouched_since=record.sort)
            except REFUSED as error:
                refusals.add(record, error)
        query = msgspec.structs.replace(query, after=(found[-1].sort, found[-1].id))
