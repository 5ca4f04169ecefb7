"""Going on with a run that was suspended or interrupted, in whatever process."""

from collections.abc import Mapping

import msgspec

from holdfast.core import making, ops
from holdfast.core.encoding import JSON
from holdfast.core.errors import DecisionRefused, InvalidArgument, TurnBusy
from holdfast.core.ops import Op
from holdfast.core.values import AppendTo, Changeset, Committed, Exact, Head, Put, Record
from holdfast.runtime.beginning import standing
from holdfast.runtime.draft import CALLS, RUN, Draft
from holdfast.runtime.events import USER_MESSAGE
from holdfast.runtime.holders import this_process
from holdfast.runtime.inputs import MESSAGE
from holdfast.runtime.journal import ThreadJournal
from holdfast.runtime.runs import DONE, KIND, RUNNING, Run, meta_of, record_of, run_of
from holdfast.runtime.settings import Settings
from holdfast.runtime.starting import Started, is_over, reader
from holdfast.runtime.suspension import DECIDED, SUSPENDED, Decision, entries
from holdfast.threads.database import Database
from holdfast.threads.thread import Thread

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
) -> Resumed:
    """Take a run over where it stopped, with what was decided; whichever it is, or this one only.

    Raises:
        DecisionRefused: A decision is about no waiting call, or about one decided otherwise.
        InvalidArgument: There is nothing to resume.
        TurnBusy: The run is still at work somewhere.
    """
    thread = db.thread(id)
    head = await thread.head()
    now = standing(head.state)
    if now.status == DONE or not now.id or only not in (None, now.id):
        refuse_all(id, decisions)
        raise InvalidArgument(problem=f"Thread {id!r} has no run to resume.")
    run = run_of(await db.records.get(KIND, now.id))
    if run.status == RUNNING and not is_over(run, settings.clock()):
        raise TurnBusy(thread=id, run=run.id, retry_after_ms=max(run.until - settings.clock(), 0))
    decided = _decided(id, head, decisions)
    held = _held(run, settings)
    patches = [*decided, making.merge([RUN], {"status": RUNNING, "epoch": held.epoch})]
    change = Changeset(
        patches=tuple(patches), reason=USER_MESSAGE, run_id=run.id, run_meta=meta_of(held, None)
    )
    results = await db.commit(
        [
            AppendTo(thread=id, change=change, expect=Exact(head.version)),
            Put(record=record_of(held, head.owner), expect=run.revision),
        ]
    )
    committed, saved = results[0], results[1]
    assert isinstance(committed, Committed)
    assert isinstance(saved, Record)
    held = msgspec.structs.replace(held, revision=saved.revision)
    journal = ThreadJournal(db, held, version=committed.version, owner=head.owner, clock=settings.clock)
    lengths = {log: size.length for log, size in head.counters.logs.items()}
    inputs = await _inputs(thread, now.id, now.inputs)
    draft = Draft(settings.schema, ops.apply(head.state, patches), lengths, inputs, reader(thread))
    change = msgspec.structs.replace(change, version=committed.version, time=committed.time)
    started = Started(draft=draft, journal=journal, change=change)
    return Resumed(started=started, begun=set(decisions))


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
    )


def _decided(thread: str, head: Head, decisions: Mapping[str, Decision]) -> list[Op]:
    """What the state says once calls are decided; a decision taken twice changes nothing."""
    known = entries(head.state)
    patches: list[Op] = []
    for call, decision in decisions.items():
        entry = known.get(call)
        if entry is None:
            raise DecisionRefused(thread=thread, call=call, problem="no such call waits")
        if entry.decision is not None and entry.decision != decision:
            raise DecisionRefused(thread=thread, call=call, problem="it was decided otherwise before")
        if entry.status != SUSPENDED and entry.decision is None:
            raise DecisionRefused(thread=thread, call=call, problem="it does not wait for a decision")
        said = {"status": DECIDED, "decision": msgspec.to_builtins(decision)}
        patches.append(making.merge([CALLS, call], said))
    return patches


def refuse_all(thread: str, decisions: Mapping[str, Decision]) -> None:
    """Refuse decisions on a thread where nothing waits."""
    for call in decisions:
        raise DecisionRefused(thread=thread, call=call, problem="no such call waits")


async def _inputs(thread: Thread, run: str, kept: Mapping[str, JSON]) -> dict[str, JSON]:
    """The inputs that the run began with."""
    if MESSAGE in kept:
        return dict(kept)
    items = await thread.items(last=RECENT)
    said = next((item for item in reversed(items.items) if item.run == run and item.role == "user"), None)
    message = said.body.get("content") if said is not None and isinstance(said.body, dict) else ""
    return {**kept, MESSAGE: message}
