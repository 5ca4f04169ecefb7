"""Utterances of a call, judged before they are answered: the gates of a runtime, on the thread as it is.

The audio goes between a client and a realtime model, so no turn runs. The gates do, on the finished words of
one utterance. What they record is written at once, also if the turn is never recorded. The fixed reply is
kept with that, so a client that asks again gets the same one, whatever the gates have noted since.
"""

import dataclasses
import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from clew.core import patch
from clew.core.arguments import check_fields
from clew.core.encoding import JSON, as_json
from clew.core.erasure.receipts import RETAINED_KIND
from clew.core.errors import InvalidArgument, NotFound, RecordNotFound, StoreFailed, ThreadNotFound
from clew.core.log.owners import check_user_named
from clew.core.values import HISTORY, Head, Item, LogSize, Put, Record
from clew.database.database import Database
from clew.runtime.execution.pipeline import context_of, run_stages
from clew.runtime.execution.safe_reply import GATE, log_text_of
from clew.runtime.execution.start import log_reader
from clew.runtime.model.messages import Message, item_of
from clew.runtime.records.episodes import Episode, active_episode
from clew.runtime.records.events import ignore_event
from clew.runtime.records.runs import Run, run_id_for_key
from clew.runtime.records.turn_records import TurnRecord, level_of, retained_turn_record
from clew.runtime.respond.respond import Stage
from clew.runtime.settings import Settings
from clew.runtime.state.inputs import MESSAGE, check_thread_id, inputs_on_thread
from clew.runtime.state.thread_agent import check_thread_agent
from clew.runtime.state.upgrades import application_state
from clew.runtime.turn.draft import Draft
from clew.runtime.turn.journal import TransientJournal
from clew.runtime.turn.result import REPLY_FIELDS
from clew.runtime.turn.turn import Turn

log = logging.getLogger("clew")
REASON = "Heard"
VERDICT = "heard"
LATE = "late"
"""What the body of a record says if an answer was under way before the utterance was judged."""


class Utterance(msgspec.Struct, frozen=True, kw_only=True):
    """Words of a call, under an id of their own; ``late`` if an answer was under way before they are judged.

    The turn that it belongs to is recorded with the same id as its key. ``inputs`` are those of a turn beside
    the message, such as the channel. ``quick`` asks no model.
    """

    thread: str
    id: str
    text: str
    user: str | None = None
    inputs: Mapping[str, Any] = {}
    late: bool = False
    quick: bool = False

    def __post_init__(self) -> None:
        check_fields(self)


class GateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The stages that judge utterances, and the fields of the state that keep what they note."""

    stages: tuple[Stage, ...] | None = None
    fields: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)


class GateVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The highest level that a gate recorded, and the fixed reply to say instead of an answer, if any."""

    level: int = 0
    say: str = ""


class StoredVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The fixed reply to an utterance, and a hash of its words.

    It is the person's, so it says nothing of the level: that is in the retained records alone.
    """

    say: str
    of: str


async def judge_utterance(
    db: Database, utterance: Utterance, settings: Settings, gates: GateSettings | None = None
) -> GateVerdict:
    """Judge an utterance, and write what the gates record. It always answers, also if the store does not.

    The same words under the same id again are answered alike, and judged once.

    Raises:
        InvalidId: There is no thread id, or no conversation can have it.
        ThreadNotFound: What was recorded under this id belongs to another user.
        ThreadOfAnotherAgent: The thread is not this agent's to write.
        UserMissing: The thread belongs to a user, and the utterance names none.
    """
    gate_settings = gates or GateSettings()
    if utterance.quick:
        settings = dataclasses.replace(settings, model=None)
    stages = gate_settings.stages or [stage for stage in settings.stages if getattr(stage, GATE, False)]
    thread = check_thread_id(utterance.thread)
    verdict = await stored_verdict(db, utterance)
    if verdict is not None:
        return verdict
    head, episode = await _head_and_episode(db, thread)
    if head is not None:
        await check_thread_agent(db.thread(thread), head, settings.agent)
        check_user_named(thread, head.owner, utterance.user or db.user)
    turn = _transient_turn(db, utterance, settings, head, episode)
    try:
        await run_stages(stages, context_of(turn, settings))
    except Exception as error:
        if turn.safe_reply_text is None:
            raise
        log.warning(
            "An utterance on thread %s is answered, though a gate failed: %s", thread, log_text_of(error)
        )
    records = [_with_late(record, utterance) for record in turn.journal.pending_records()]
    values = turn.draft.values()
    reply = next((values[name] for name in REPLY_FIELDS if values.get(name)), "")
    say = turn.safe_reply_text or reply
    await _write_records(db, thread, records, _verdict_record(utterance, say, settings.clock()), settings)
    await _store_fields(db, thread, turn.draft.state, head, gate_settings.fields)
    return GateVerdict(level=max(map(level_of, records), default=0), say=say)


async def judged_record(db: Database, thread: str, id: str) -> TurnRecord | None:
    """Return what was retained of an utterance when it was judged, to be recorded again with its turn."""
    record = await _retained_record(db, thread, id, 1)
    return None if record is None else retained_turn_record(record)


async def _retained_record(db: Database, thread: str, id: str, number: int) -> Record | None:
    """A retained record of an utterance by its number; the run of an utterance has but one epoch."""
    try:
        return await db.records.get(RETAINED_KIND, f"{run_id_for_key(thread, id)}.1.{number}")
    except (RecordNotFound, StoreFailed):
        return None


async def stored_verdict(db: Database, utterance: Utterance) -> GateVerdict | None:
    """Return the earlier verdict on the same words under the same id, if it can be read."""
    try:
        verdict = msgspec.convert((await db.records.get(VERDICT, _record_id(utterance))).body, StoredVerdict)
    except (RecordNotFound, StoreFailed, msgspec.ValidationError):
        return None
    if verdict.of != _text_hash(utterance):
        return None
    level, number = 0, 1
    while (record := await _retained_record(db, utterance.thread, utterance.id, number)) is not None:
        level, number = max(level, level_of(record)), number + 1
    return GateVerdict(level=level, say=verdict.say)


def _verdict_record(utterance: Utterance, say: str, now: int) -> Record:
    return Record(
        kind=VERDICT,
        id=_record_id(utterance),
        owner=utterance.user,
        tags=(f"thread:{utterance.thread}",),
        sort=now,
        body=as_json(StoredVerdict(say=say, of=_text_hash(utterance))),
    )


def _record_id(utterance: Utterance) -> str:
    """The id of the verdict on an utterance: each user has their own, so that nobody learns of another's."""
    return run_id_for_key(
        utterance.thread, utterance.id if utterance.user is None else f"{utterance.user}\0{utterance.id}"
    )


def _text_hash(utterance: Utterance) -> str:
    return hashlib.sha256(utterance.text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


async def _head_and_episode(db: Database, thread: str) -> tuple[Head | None, Episode | None]:
    """Read the head and the episode of a thread; neither if it has none, or the store does not answer."""
    try:
        return await db.thread(thread).head(), await active_episode(db, thread)
    except (NotFound, StoreFailed):
        return None, None


def _transient_turn(
    db: Database, utterance: Utterance, settings: Settings, head: Head | None, episode: Episode | None
) -> Turn:
    """A turn that keeps nothing, on the thread as it is and with the words at its end."""
    id, now = run_id_for_key(utterance.thread, utterance.id), settings.clock()
    run = Run(id=id, thread=utterance.thread, user=utterance.user, started=now)
    journal = TransientJournal(run, {}, clock=settings.clock)
    journal.episode = episode
    item = item_of(Message(role="user", content=utterance.text, run=run.id))
    state, logs = (application_state(head.state), head.counters.logs) if head is not None else ({}, {})
    history = logs.get(HISTORY, LogSize())
    read_stored = log_reader(db.thread(utterance.thread))

    async def read(log: str, count: int | None, *, whole: bool = False) -> Sequence[Item]:
        if log != HISTORY:
            return () if head is None else await read_stored(log, count, whole=whole)
        last = None if count is None else max(count - 1, 0)  # the utterance itself is the newest item
        return [*(() if head is None else await read_stored(log, last, whole=whole)), item]

    sizes = {**logs, HISTORY: LogSize(end=history.end + 1, length=history.length + 1)}
    inputs = inputs_on_thread(
        settings.schema,
        {**utterance.inputs, MESSAGE: utterance.text},
        thread=utterance.thread,
        user=utterance.user,
    )
    return Turn(
        Draft(settings.schema, state, sizes, inputs, read),
        journal,
        settings.config.retry_policy,
        ignore_event,
        deadlines=settings.config.deadlines,
    )


def _with_late(record: Record, utterance: Utterance) -> Record:
    """A record that says whether it came too late to keep an answer back."""
    if not utterance.late or not isinstance(record.body, dict):
        return record
    return msgspec.structs.replace(record, body={**record.body, LATE: True})


async def _write_records(
    db: Database, thread: str, records: Sequence[Record], verdict: Record, settings: Settings
) -> None:
    """Write the records and the verdict; the records that the store does not take are held for it."""
    try:
        await db.commit([Put(record=record) for record in (*records, verdict)])
    except StoreFailed:
        settings.pending_records.add(db, records)
    except InvalidArgument as error:  # another user has a record of this id, and so the thread
        raise ThreadNotFound(thread=thread) from error


async def _store_fields(
    db: Database, thread: str, state: Mapping[str, JSON], head: Head | None, fields: Sequence[str]
) -> None:
    """Keep what the gates remember of an episode, if it is other than before."""
    values = {name: as_json(state[name]) for name in fields if name in state}
    before = {} if head is None else head.state
    patches = [patch.merge([name], value) for name, value in values.items() if before.get(name) != value]
    if head is None or not patches:
        return
    try:
        await db.thread(thread).append(patches=patches, reason=REASON)
    except (NotFound, StoreFailed):
        return  # the records say what matters
