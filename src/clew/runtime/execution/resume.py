"""Going on with a run that was suspended or interrupted, in whatever process."""

from collections.abc import Mapping

import msgspec

from clew.core import ops, patch
from clew.core.encoding import JSON
from clew.core.errors import InvalidArgument, RevisionConflict, TurnBusy, VersionConflict
from clew.core.ops import Op
from clew.core.values import AppendTo, Changeset, Committed, Exact, Head, Put, Record
from clew.database.database import Database
from clew.database.thread import Thread
from clew.runtime.attempts import Attempts
from clew.runtime.execution.start import Started, is_over, reader
from clew.runtime.records.episodes import active_episode
from clew.runtime.records.events import USER_MESSAGE
from clew.runtime.records.runs import (
    DONE,
    KIND,
    RUNNING,
    SUSPENDED,
    WAITING,
    Run,
    meta_of,
    record_of,
    run_of,
    this_process,
)
from clew.runtime.settings import Settings
from clew.runtime.stages import remaining
from clew.runtime.state.inputs import MESSAGE
from clew.runtime.state.upgrades import upgraded
from clew.runtime.turn.approvals import Decision, decide, suspended_calls
from clew.runtime.turn.draft import RUN, Draft
from clew.runtime.turn.inbound import Standing, spent, standing
from clew.runtime.turn.journal import ThreadJournal
from clew.runtime.turn.result import Done, done_before

RECENT = 256


class Resumed(msgspec.Struct, frozen=True, kw_only=True):
    """A run that goes on, and the calls that were decided just now."""

    started: Started
    begun: set[str]


async def resume(
    db: Database,
    id: str,
    decisions: Mapping[str, Decision],
    settings: Settings,
    *,
    only: str | None = None,
) -> Resumed | Done:
    """Take a run over where it stopped, with what was decided; whichever it is, or this one only.

    If nothing was decided that was not decided before, and the run waits or has ended, nothing is changed.

    Raises:
        DecisionRefused: A decision is about no waiting call, or about one decided otherwise.
        InvalidArgument: There is nothing to resume.
        StageGone: The run stopped at a stage that is not there any more; nothing was changed.
        TurnBusy: The run is still at work somewhere.
        Conflict: Others wrote again and again.
    """
    thread = db.thread(id)
    attempts = Attempts()
    while True:
        head = await thread.head()
        now = standing(head.state)
        if not now.id or only not in (None, now.id) or (now.status == DONE and not decisions):
            raise InvalidArgument(problem=f"Thread {id!r} has no run to resume.")
        run = run_of(await db.records.get(KIND, now.id))
        if run.thread != id:  # a fork stands in the middle of its parent's, or the state was made up
            raise InvalidArgument(problem=f"Thread {id!r} has no run to resume.")
        if run.status == RUNNING and not is_over(run, settings.clock()):
            raise TurnBusy(thread=id, run=run.id, retry_after_ms=max(run.until - settings.clock(), 0))
        decided = await decide(thread, head, run, decisions)
        if not decided and (now.status == DONE or (now.status == WAITING and suspended_calls(head.state))):
            return await _as_it_is(thread, head, run, settings)
        remaining(settings.stages, now.stage, thread=id, run=run.id)  # before anything is changed
        try:
            started = await _taken(db, head, run, now, list(decided.values()), settings)
        except (VersionConflict, RevisionConflict) as conflict:
            attempts.count(conflict)
            continue  # somebody was faster: what they did decides what is left to do
        return Resumed(started=started, begun=set(decided))


async def _taken(
    db: Database, head: Head, run: Run, now: Standing, decided: list[Op], settings: Settings
) -> Started:
    held = _held(spent(run, now), settings)
    patches = [
        *upgraded(run.thread, head.state, settings.schema, settings.upgrades),
        *decided,
        patch.merge([RUN], {"status": RUNNING, "epoch": held.epoch}),
    ]
    change = Changeset(
        patches=tuple(patches), reason=USER_MESSAGE, run_id=run.id, run_meta=meta_of(held, None)
    )
    results = await db.commit(
        [
            AppendTo(thread=run.thread, change=change, expect=Exact(head.version)),
            Put(record=record_of(held, head.owner), expect=run.revision),
        ]
    )
    committed, saved = results[0], results[1]
    assert isinstance(committed, Committed)
    assert isinstance(saved, Record)
    held = msgspec.structs.replace(held, revision=saved.revision)
    journal = ThreadJournal(
        db,
        held,
        version=committed.version,
        owner=head.owner,
        clock=settings.clock,
        days=settings.crisis_days,
    )
    journal.episode = await active_episode(db, run.thread)
    thread = db.thread(run.thread)
    inputs = await _inputs(thread, run.id, now.inputs)
    draft = Draft(settings.schema, ops.apply(head.state, patches), head.counters.logs, inputs, reader(thread))
    change = msgspec.structs.replace(change, version=committed.version, time=committed.time)
    return Started(draft=draft, journal=journal, change=change)


async def _as_it_is(thread: Thread, head: Head, run: Run, settings: Settings) -> Done:
    """What became of a run, if nothing more is to be done about it now."""
    waiting = suspended_calls(head.state)
    if run.output is not None and not waiting:
        return done_before(run.output, settings.output)
    said = [item.body for item in await thread.items(last=RECENT) if item.run == run.id]
    text = said[-1].get("content") if said and isinstance(said[-1], dict) and not waiting else ""
    return Done(
        thread=run.thread,
        run=run.id,
        version=head.version,
        text=text if isinstance(text, str) else "",
        termination=run.termination or SUSPENDED,
        waiting=waiting,
        usage=run.usage,
    )


def _held(run: Run, settings: Settings) -> Run:
    return msgspec.structs.replace(
        run,
        status=RUNNING,
        epoch=run.epoch + 1,
        holder=this_process(),
        until=settings.clock() + int(settings.lease_seconds * 1000),
        ended=None,
        termination=None,
        problem=None,
        cancel=False,
        awaited=False,
        in_doubt=(),
    )


async def _inputs(thread: Thread, run: str, kept: Mapping[str, JSON]) -> dict[str, JSON]:
    """The inputs that the run began with."""
    if MESSAGE in kept:
        return dict(kept)
    items = await thread.items(last=RECENT)
    said = next((item for item in reversed(items.items) if item.run == run and item.role == "user"), None)
    message = said.body.get("content") if said is not None and isinstance(said.body, dict) else ""
    return {**kept, MESSAGE: message}
