"""What somebody said in a call, judged before it is answered: the gates of a runtime, on the thread as it is.

The audio goes between a client and a realtime model, so no turn runs. The gates do, on the finished words of
one utterance. What they find is in the crisis log at once, also if the turn is never recorded. What is said
to it is kept with that, so a client that asks again is told the same, whatever the gates have noted since.
"""

import dataclasses
import hashlib
import logging
from collections.abc import Mapping, Sequence

import msgspec

from clew.core import patch
from clew.core.arguments import check_fields
from clew.core.encoding import JSON, plain
from clew.core.errors import InvalidArgument, NotThere, RecordNotFound, StoreFailed, ThreadNotFound
from clew.core.values import HISTORY, Head, Item, LogSize, Put, Record
from clew.database.database import Database
from clew.runtime.crises import CRISIS, Assessment, Crisis, crisis_of, row_of
from clew.runtime.execution.pipeline import context_of, run_stages
from clew.runtime.execution.safe_reply import GATE, said_of
from clew.runtime.execution.scheduler import nobody
from clew.runtime.execution.start import key_id
from clew.runtime.model.messages import Message, item_of
from clew.runtime.records.episodes import Episode, active_episode
from clew.runtime.records.runs import Run
from clew.runtime.respond.respond import Stage
from clew.runtime.settings import Settings
from clew.runtime.state.inputs import checked_inputs, free_id
from clew.runtime.turn.draft import Draft
from clew.runtime.turn.journal import Nowhere
from clew.runtime.turn.result import REPLIES
from clew.runtime.turn.turn import Turn

log = logging.getLogger("clew")
REASON = "Heard"
HEARD = "heard"
FIRST = "1.1"
"""The end of the id of the first row that a run makes."""


class Utterance(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody said, under an id of its own; ``late`` if an answer was under way before it was judged.

    The turn that it belongs to is recorded with the same id as its key. ``quick`` asks no model.
    """

    thread: str
    id: str
    said: str
    user: str | None = None
    late: bool = False
    quick: bool = False

    def __post_init__(self) -> None:
        check_fields(self)


class Hearing(msgspec.Struct, frozen=True, kw_only=True):
    """How utterances are judged: by which stages, and which fields of the state keep what they find."""

    stages: tuple[Stage, ...] | None = None
    keeps: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """What was found: a level, and fixed words to be said instead of an answer, if there are any."""

    level: int = 0
    say: str = ""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What was said to an utterance, and a mark of its words. The level is in the log alone."""

    say: str
    of: str


async def hear(db: Database, given: Utterance, settings: Settings, hearing: Hearing | None = None) -> Heard:
    """Judge an utterance, and log what was found. It always answers, also if the store does not.

    The same words under the same id again are answered alike, and judged once.

    Raises:
        InvalidId: There is no thread id, or no conversation can have it.
        ThreadNotFound: What was heard under this id is somebody else's.
    """
    how = hearing or Hearing()
    if given.quick:
        settings = dataclasses.replace(settings, model=None)
    stages = how.stages or [stage for stage in settings.stages if getattr(stage, GATE, False)]
    thread = free_id(given.thread)
    told = await _told(db, given)
    if told is not None:
        return told
    head, episode = await _standing(db, thread)
    turn, journal = _turn(db, given, settings, head, episode)
    try:
        await run_stages(stages, context_of(turn, settings))
    except Exception as error:
        if turn.safe is None:
            raise
        log.warning(
            "What was heard on thread %s is answered, though a gate failed: %s", thread, said_of(error)
        )
    rows = _rows([*journal.logged, *journal.unwritten()], given, episode)
    values = turn.draft.values()
    said = next((values[name] for name in REPLIES if values.get(name)), "")
    say = turn.safe or said
    await _kept(db, thread, rows, _row(given, say, settings.clock()), settings)
    await _noted(db, thread, turn.draft.state, head, how.keeps)
    return Heard(level=max([crisis_of(row).level for row in rows], default=0), say=say)


async def heard_before(db: Database, thread: str, id: str) -> Assessment | None:
    """What was found in an utterance when it was judged, if anything was."""
    found = await _logged(db, f"{key_id(thread, id)}.{FIRST}")
    if found is None:
        return None
    names = Assessment.__struct_fields__
    return Assessment(**{name: getattr(found, name) for name in names})


async def _logged(db: Database, id: str) -> Crisis | None:
    try:
        return crisis_of(await db.records.get(CRISIS, id))
    except (RecordNotFound, StoreFailed):
        return None


async def _told(db: Database, given: Utterance) -> Heard | None:
    """What was said to the same words under the same id, if it can be read."""
    id = key_id(given.thread, given.id)
    try:
        told = msgspec.convert((await db.records.get(HEARD, _name(given))).body, Told)
    except (RecordNotFound, StoreFailed, msgspec.ValidationError):
        return None
    if told.of != _mark(given):
        return None
    level, number = 0, 1
    while (row := await _logged(db, f"{id}.1.{number}")) is not None:
        level, number = max(level, row.level), number + 1
    return Heard(level=level, say=told.say)


def _row(given: Utterance, say: str, now: int) -> Record:
    return Record(
        kind=HEARD,
        id=_name(given),
        owner=given.user,
        tags=(f"thread:{given.thread}",),
        sort=now,
        body=plain(Told(say=say, of=_mark(given))),
    )


def _name(given: Utterance) -> str:
    """The id of what was said to an utterance: each user's own, so that nobody learns of another's."""
    return key_id(given.thread, given.id if given.user is None else f"{given.user}\0{given.id}")


def _mark(given: Utterance) -> str:
    return hashlib.sha256(given.said.encode("utf-8", "surrogatepass")).hexdigest()[:24]


async def _standing(db: Database, thread: str) -> tuple[Head | None, Episode | None]:
    """Where a thread stands; nowhere if it has not begun, or the store does not answer."""
    try:
        return await db.thread(thread).head(), await active_episode(db, thread)
    except (NotThere, StoreFailed):
        return None, None


def _turn(
    db: Database, given: Utterance, settings: Settings, head: Head | None, episode: Episode | None
) -> tuple[Turn, Nowhere]:
    """A turn that keeps nothing, on the thread as it is and with the words at its end."""
    id, now = key_id(given.thread, given.id), settings.clock()
    run = Run(id=id, thread=given.thread, user=given.user, started=now)
    journal = Nowhere(run, {}, clock=settings.clock, days=settings.crisis_days)
    journal.episode = episode
    said = item_of(Message(role="user", content=given.said, run=run.id))
    before = head.counters.logs.get(HISTORY, LogSize()) if head is not None else LogSize()
    state = {name: value for name, value in (head.state if head else {}).items() if not name.startswith("$")}

    async def read(log: str, count: int | None, *, whole: bool = False) -> Sequence[Item]:
        wanted = None if count is None else max(count - 1, 1)
        thread = db.thread(given.thread)
        found = [] if head is None else (await thread.items(last=wanted, log=log, whole=whole)).items
        return [*found, said] if log == HISTORY else found

    sizes = {HISTORY: LogSize(end=before.end + 1, length=before.length + 1)}
    inputs = checked_inputs(settings.schema, given.said)
    return Turn(
        Draft(settings.schema, state, sizes, inputs, read), journal, settings.patience, nobody
    ), journal


def _rows(found: Sequence[Record], given: Utterance, episode: Episode | None) -> list[Record]:
    """The rows of the log, with whose they are, which episode they are of, and whether they came late."""
    crises = [crisis_of(row) for row in found]
    of = None if episode is None else episode.id
    return [row_of(msgspec.structs.replace(each, late=given.late, episode=of), given.user) for each in crises]


async def _kept(db: Database, thread: str, rows: Sequence[Record], told: Record, settings: Settings) -> None:
    """Write the rows of the log and what is said; the rows that the store does not take are held for it."""
    try:
        await db.commit([Put(record=row) for row in (*rows, told)])
    except StoreFailed:
        settings.held_crises.hold(db, rows)
    except InvalidArgument as error:  # somebody else has a row of this id, and so the thread
        raise ThreadNotFound(thread=thread) from error


async def _noted(
    db: Database, thread: str, state: Mapping[str, JSON], head: Head | None, keeps: Sequence[str]
) -> None:
    """Keep what the gates remember of an episode, if it is other than before."""
    changed = {name: plain(state[name]) for name in keeps if name in state}
    before = {} if head is None else head.state
    patches = [patch.merge([name], value) for name, value in changed.items() if before.get(name) != value]
    if head is None or not patches:
        return
    try:
        await db.thread(thread).append(patches=patches, reason=REASON)
    except (NotThere, StoreFailed):
        return  # the row of the log says what matters
