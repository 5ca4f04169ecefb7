"""Turns of a call: recorded once they were spoken, in an episode that lasts as long as the call.

The audio goes between a client and a realtime model, and no stage runs here. What comes back is a finished
transcript, and it is committed whole: what was said, the tools that were called, what was replied.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from clew.core.arguments import check_fields
from clew.core.encoding import JSON, encode
from clew.core.errors import InvalidArgument, RevisionConflict
from clew.core.values import RecordQuery
from clew.database.database import Database, owner_database
from clew.database.records import record_pages
from clew.runtime.attempts import Attempts
from clew.runtime.execution.start import TurnRequest, VoiceReply
from clew.runtime.model.messages import CALL, RESULT, Message, item_of
from clew.runtime.records.episodes import (
    ACTIVE_EPISODE,
    LEASED,
    VOICE,
    Episode,
    active_episode,
    check_episode_agent,
    episode_of,
    episode_write,
    modality_tag,
    request_end,
)
from clew.runtime.records.refusals import REFUSED, Refusals
from clew.runtime.records.runs import DEFAULT_AGENT
from clew.runtime.records.turn_records import TurnRecord
from clew.runtime.respond.view import free_call_id
from clew.runtime.state.inputs import MESSAGE, check_inputs, check_thread_id
from clew.runtime.state.schema import Schema

ORIGIN, CLIENT_LOST = "voice", "lost"
EPISODES_PER_PAGE = 100
NO_ANSWER = "The call ended before the tool answered."
MARK: dict[str, JSON] = {"modality": VOICE}
FIXED_MARK: dict[str, JSON] = {**MARK, "fixed": True}
"""The mark of a reply in the fixed words that a gate asked for."""


class VoiceCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that was called during a call: its output, or the error that it ended with."""

    name: str
    arguments: JSON = None
    output: JSON = None
    error: str | None = None
    id: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)


def voice_request(
    thread: str,
    schema: Schema,
    *,
    text: str,
    reply: str,
    tool_calls: Sequence[VoiceCall] = (),
    records: Sequence[TurnRecord] = (),
    inputs: Mapping[str, Any] | None = None,
    fixed: bool = False,
    user: str | None = None,
    key: str | None = None,
) -> TurnRequest:
    """A turn of a call, as it is to be recorded.

    Raises:
        InvalidId: There is no thread id, or no conversation can have it.
        InvalidArgument: Nothing was said, or the schema has no history to keep it in.
        StateInvalid: An input is unknown, or of another type.
    """
    check_thread_id(thread)
    if not schema.has_history:
        raise InvalidArgument(problem=f"{schema.cls.__name__} has no history to keep what was said in.")
    messages = voice_messages(text, reply, tool_calls, fixed=fixed)
    if not messages:
        raise InvalidArgument(problem="Nothing was said and nothing was called; there is no turn to record.")
    return TurnRequest(
        thread=thread,
        inputs=_spoken_inputs(schema, text, inputs or {}),
        items=tuple(map(item_of, messages)),
        user=user,
        key=key,
        origin=ORIGIN,
        spoken=VoiceReply(reply=reply, records=tuple(records)),
    )


def _spoken_inputs(schema: Schema, text: str, inputs: Mapping[str, Any]) -> dict[str, JSON]:
    """The inputs of a spoken turn: its words, if there are any, and what else the caller says of it."""
    others = check_inputs(schema, {name: value for name, value in inputs.items() if name != MESSAGE})
    return {MESSAGE: text, **others} if text else others


def voice_messages(
    text: str, reply: str, tool_calls: Sequence[VoiceCall], *, fixed: bool = False
) -> list[Message]:
    """The messages of a spoken turn, each call with its result right behind it."""
    messages = [Message(role="user", content=text, meta=MARK)] if text else []
    used_ids: set[str] = set()
    for call in tool_calls:
        id = free_call_id(call.id or "call", used_ids)
        messages += [
            Message(
                role="assistant", kind=CALL, call=id, name=call.name, arguments=call.arguments, meta=MARK
            ),
            Message(role="tool", kind=RESULT, call=id, content=_output_text(call), meta=MARK),
        ]
    if not reply:
        return messages
    return [*messages, Message(role="assistant", content=reply, meta=FIXED_MARK if fixed else MARK)]


def _output_text(call: VoiceCall) -> JSON:
    if call.error is not None:
        return f"Error: {call.error}"
    if call.output is None:
        return NO_ANSWER
    return call.output if isinstance(call.output, str) else encode(call.output).decode()


async def keep_call_alive(
    db: Database, thread: str, *, now: int, seconds: float, agent: str = DEFAULT_AGENT
) -> Episode | None:
    """Note that a call goes on, and until when its client may be silent; None if there is no episode.

    Raises:
        ThreadOfAnotherAgent: The episode is another agent's.
        RevisionConflict: Others changed the episode again and again.
    """
    attempts = Attempts()
    while (before := await active_episode(db, thread)) is not None:
        check_episode_agent(before, agent)
        until = now + int(seconds * 1000)
        alive = msgspec.structs.replace(before, modality=VOICE, touched=now, until=until)
        try:
            await db.commit([episode_write(alive, before.user)])
        except RevisionConflict as conflict:
            attempts.count(conflict)
            continue  # a turn has just touched it, or it was just ended
        return alive
    return None


async def end_lost_calls(
    db: Database, now: int, refusals: Refusals | None = None, *, agent: str = DEFAULT_AGENT
) -> None:
    """End an agent's calls whose clients were silent for longer than they promised, as their owners would."""
    refusals = refusals or Refusals()
    tags = (modality_tag(VOICE, agent), LEASED)
    query = RecordQuery(kind=ACTIVE_EPISODE, tags=tags, limit=EPISODES_PER_PAGE)
    async for records in record_pages(db.records, query):
        for record in records:
            if refusals.covers(record):
                continue
            own = owner_database(db, record.owner)
            try:
                until = episode_of(record).until
                if until is not None and until <= now:
                    await request_end(
                        own, record.id, by=CLIENT_LOST, now=now, untouched_since=record.sort, agent=agent
                    )
            except REFUSED as error:
                refusals.add(record, error)
