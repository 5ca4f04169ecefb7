"""What a commit will write: decided here, on what is known of the threads; applied by each store.

A plan may rest on a head that has moved since. Every effect carries what it assumes; a store that finds
otherwise applies nothing and asks for a new plan on fresh rows.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter

import msgspec

from clew.core.encoding import encode
from clew.core.errors import (
    ClaimLost,
    ClewError,
    Forbidden,
    InvalidArgument,
    KeyReused,
    LogFull,
    RevisionConflict,
    ThreadExists,
    ThreadNotFound,
    VersionConflict,
)
from clew.core.log import chain, places
from clew.core.log.codec import Content, Meta, Prepared, Run, envelope, fingerprint
from clew.core.log.holds import HOLD
from clew.core.log.jobs import is_lost, latest_ms, tried
from clew.core.log.owners import check_named_owner, owned, owner_for
from clew.core.log.reader import read_state
from clew.core.log.rows import (
    AddJob,
    AddThread,
    Advance,
    AskChangesets,
    AskCuts,
    AskDue,
    Asking,
    AskItems,
    AskJob,
    AskKey,
    AskRecord,
    AskThread,
    ChangesetRow,
    CheckRecord,
    CutRow,
    DropRecord,
    Effect,
    EndJob,
    ItemRow,
    Key,
    MoveJob,
    SaveRecord,
    ThreadRow,
    ask,
)
from clew.core.log.tool_calls import is_talk, open_after
from clew.core.ops import Document, apply
from clew.core.values import (
    ABOUT,
    ERASED,
    Absent,
    AppendTo,
    Changeset,
    Committed,
    Counters,
    Cut,
    Drop,
    Enqueue,
    Exact,
    Expect,
    Finish,
    Item,
    Job,
    LogSize,
    Put,
    Require,
    Result,
    Scope,
    Write,
)


def stand(row: ThreadRow, change: Changeset) -> Asking[list[int]]:
    """The place of each item of a changeset."""
    ends = {log: size.end for log, size in row.counters.logs.items()}
    found: list[int] = []
    for item in change.items:
        if item.place:
            yield from _check_free(row, item, ends.get(item.log, 0), change, found)
            found.append(item.place)
            continue
        ends[item.log] = ends.get(item.log, 0) + 1
        places.check_end(ends[item.log], row.id, item.log)
        found.append(places.at(ends[item.log]))
    return found


def _check_free(row: ThreadRow, item: Item, end: int, change: Changeset, before: list[int]) -> Asking[None]:
    """Refuse a place that is taken, or that lies in a cut: a reader passes over cuts as a whole."""
    log, place = item.log, item.place
    if not 0 < place < places.at(end + 1) or place % places.ROOM == 0:
        raise InvalidArgument(problem=f"Place {place} of log {log!r} is not between two items of {row.id!r}.")
    for segment in chain.segments_of(row):
        taken = yield from ask(
            AskItems(segment.key, log, place - 1, place + 1, segment.upto, 1, backwards=False)
        )
        cut = yield from ask(AskCuts(segment.key, log, place, place, segment.upto))
        if taken or cut:
            raise LogFull(thread=row.id, log=log)
    twice = any(
        other.log == log and stands == place for other, stands in zip(change.items, before, strict=False)
    )
    if twice or any(cut.log == log and cut.first <= place <= cut.last for cut in change.cuts):
        raise LogFull(thread=row.id, log=log)


def runs_of(items: tuple[ItemRow, ...]) -> tuple[Run, ...]:
    """Items that stand one after another, joined."""
    runs: list[Run] = []
    for item in items:
        last = runs[-1] if runs else None
        if last and last.log == item.log and places.last_of(last.first, last.count + 1) == item.place:
            runs[-1] = Run(last.log, last.first, last.count + 1)
        else:
            runs.append(Run(item.log, item.place, 1))
    return tuple(runs)


MIN_ANCHOR = 4096
ROW_WEIGHT = 64


_by_place = attrgetter("log", "place")


class Known(msgspec.Struct, frozen=True):
    """What is known of a thread's head; its state only if somebody needed it."""

    row: ThreadRow
    state: Document | None = None


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan is made in: for whom, when, and where chance comes from."""

    scope: Scope
    now: int
    random: Callable[[int], bytes]
    new_key: Callable[[], Key]
    known: Callable[[str], Known | None]
    fresh: bool = False


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Effects to apply together, what to answer then, and the heads known then (None: forget it)."""

    effects: list[Effect]
    results: list[Result]
    known: dict[str, Known | None]


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """An append whose changeset was checked and encoded before it reached the store."""

    thread: str
    prepared: Prepared
    expect: Expect


def plan_commit(writes: Sequence[Write | Ready], setting: Setting) -> Asking[Plan]:
    """The effects of all writes, in order, or the error of the first that cannot be.

    Writes that go with an append which its key says was made before were made with it: nothing is written.
    """
    may_repeat = len(writes) > 1 and any(_key_of(write) is not None for write in writes)
    if may_repeat and setting.fresh:
        repeated = yield from _repeated(writes)
        if repeated is not None:
            return repeated
    try:
        return (yield from _planned(writes, setting))
    except ClewError:
        repeated = (yield from _repeated(writes)) if may_repeat else None
        if repeated is not None:
            return repeated
        if setting.fresh or not any(_is_believed(write) for write in writes):
            raise
    # A revision that was believed may be wrong too, and then the first thing wrong is what is told.
    return (yield from _planned(writes, msgspec.structs.replace(setting, fresh=True)))


def _planned(writes: Sequence[Write | Ready], setting: Setting) -> Asking[Plan]:
    plan = Plan(effects=[], results=[], known={})
    for write in writes:
        match write:
            case Ready():
                yield from _append(write, setting, plan)
            case AppendTo():
                raise InvalidArgument(problem="An append must be prepared before it is planned.")
            case Put() | Drop() | Require():
                yield from _record(write, setting, plan)
            case Enqueue():
                job = owned(setting.scope, write.job, "job")
                plan.effects.append(AddJob(job))
                plan.results.append(job)
            case Finish():
                yield from _finish(write, plan)
    return plan


def _is_believed(write: Write | Ready) -> bool:
    return isinstance(write, Put | Drop | Require) and write.expect is not None


def _key_of(write: Write | Ready) -> str | None:
    return write.prepared.change.key if isinstance(write, Ready) else None


def _repeated(writes: Sequence[Write | Ready]) -> Asking[Plan | None]:
    """A plan that writes nothing, if every append with a key among the writes was made before."""
    results: list[Result] = []
    for write in writes:
        if not isinstance(write, Ready) or (key := _key_of(write)) is None:
            results.append(None)
            continue
        row = yield from ask(AskThread(write.thread))
        done = (yield from _done_before(row, key, fingerprint(write.prepared))) if row else None
        if done is None:
            return None
        results.append(done)
    return Plan(effects=[], results=results, known={})


# Appends.


def _append(write: Ready, setting: Setting, plan: Plan) -> Asking[None]:
    known, cached = yield from _find(write.thread, setting, plan)
    try:
        yield from _append_to(known, write, setting, plan, asked=setting.fresh)
        return
    except ClewError:
        sure = setting.fresh or not (cached or write.prepared.change.key is not None)
        if sure or write.thread in plan.known:
            raise
    # What was remembered may be out of date, or the append may be one that was made before.
    row = yield from ask(AskThread(write.thread))
    yield from _append_to(Known(row) if row else None, write, setting, plan, asked=True)


def _append_to(
    known: Known | None, write: Ready, setting: Setting, plan: Plan, *, asked: bool
) -> Asking[None]:
    """Append to what is known of a thread; if ``asked``, look first whether the key was used before."""
    key = write.prepared.change.key
    mark = fingerprint(write.prepared) if key is not None else None
    if asked and key is not None and known is not None:
        done = yield from _done_before(known.row, key, mark)
        if done is not None:
            plan.results.append(done)
            return
    refusal = _refusal(write, known)
    if refusal is not None:
        raise refusal
    start = known or _created(write, setting)
    advance, after = yield from _advance(write.prepared, start, setting, mark)
    plan.effects.extend([advance] if known else [AddThread(start.row), advance])
    plan.known[write.thread] = after
    plan.results.append(
        Committed(thread=write.thread, version=after.row.version, time=after.row.updated, hash=after.row.hash)
    )


def _find(id: str, setting: Setting, plan: Plan) -> Asking[tuple[Known | None, bool]]:
    """What is known of a thread, and whether it may be out of date."""
    if id in plan.known:
        return plan.known[id], False
    known = None if setting.fresh else setting.known(id)
    if known is not None and setting.scope.user in (None, known.row.owner):
        return known, True
    row = yield from ask(AskThread(id))
    return (Known(row) if row else None), False


def _refusal(write: Ready, known: Known | None) -> Exception | None:
    """Why the thread is not where the write expects it, if it is not."""
    expect = write.expect
    if isinstance(expect, Absent):
        return None if known is None else ThreadExists(thread=write.thread)
    if known is None:
        return ThreadNotFound(thread=write.thread)
    return misplaced(known.row, expect)


def misplaced(row: ThreadRow, expect: Expect) -> VersionConflict | ThreadExists | None:
    """The conflict, if a thread that exists is not where it is expected."""
    if isinstance(expect, Absent):
        return ThreadExists(thread=row.id)
    if not isinstance(expect, Exact) or (expect.version == row.version and expect.hash in (None, row.hash)):
        return None
    return VersionConflict(thread=row.id, expected=expect.version, actual=row.version)


def _done_before(row: ThreadRow, name: str, mark: bytes | None) -> Asking[Committed | None]:
    """The result of the first append with this idempotency key, if there was one."""
    found = yield from ask(AskKey(row.key, name))
    if found is None:
        return None
    if found.fingerprint != mark:
        raise KeyReused(thread=row.id, key=name)
    changes = yield from ask(AskChangesets(row.key, found.version - 1, found.version, 1))
    return Committed(
        thread=row.id, version=found.version, time=changes[0].time, hash=changes[0].hash, repeated=True
    )


def _created(write: Ready, setting: Setting) -> Known:
    owner = write.expect.owner if isinstance(write.expect, Absent) else None
    return Known(new_thread(write.thread, owner, setting), {})


def new_thread(id: str, owner: str | None, setting: Setting) -> ThreadRow:
    """The row of a thread at version 0."""
    owner = owner_for(setting.scope, owner, "thread")
    check_named_owner(id, owner)
    return ThreadRow(
        key=setting.new_key(),
        id=id,
        owner=owner,
        created=setting.now,
        updated=setting.now,
        version=0,
        hash=chain.genesis(id, owner, setting.now, None),
        counters=Counters(),
    )


def _advance(
    prepared: Prepared, known: Known, setting: Setting, mark: bytes | None
) -> Asking[tuple[Advance, Known]]:
    """The rows of one more changeset."""
    row, change = known.row, prepared.change
    salts = setting.random(chain.SALT_BYTES * (len(prepared.bodies) + 1))
    stands = yield from stand(row, change)
    time = max(setting.now, row.updated)
    items = _item_rows(prepared, stands, salts, row.version + 1, time)
    written = ChangesetRow(
        version=row.version + 1,
        time=time,
        envelope=envelope(change, runs_of(items)),
        content=prepared.content,
        salt=salts[: chain.SALT_BYTES] if prepared.content is not None else None,
        hash=b"",
        counters=row.counters,
    )
    state = known.state
    outgrown = _weight(row, 0) > max(MIN_ANCHOR, row.counters.size)
    if state is None and (prepared.content is not None or outgrown):
        state = yield from read_state(row, row.version)
    if state is not None and ERASED in state and prepared.said.patches and prepared.said.snapshot is None:
        problem = f"What the state of {row.id!r} was at its fork has been erased. Give it one by a snapshot."
        raise InvalidArgument(problem=problem)
    return settle(
        Known(row, state),
        written,
        items,
        prepared.abouts,
        change.cuts,
        prepared.said,
        name=change.key,
        fingerprint=mark,
    )


def _item_rows(
    prepared: Prepared, stands: Sequence[int], salts: bytes, version: int, time: int
) -> tuple[ItemRow, ...]:
    """The rows of a changeset's items; the first salt is for its content, then comes one for each."""
    return tuple(
        ItemRow(
            log=item.log,
            place=place,
            version=version,
            meta=meta,
            body=body,
            salt=salts[at : at + chain.SALT_BYTES],
            id=item.id,
            time=time,
        )
        for item, place, meta, body, at in zip(
            prepared.change.items,
            stands,
            prepared.metas,
            prepared.bodies,
            range(chain.SALT_BYTES, len(salts), chain.SALT_BYTES),
            strict=True,
        )
    )


def settle(
    known: Known,
    written: ChangesetRow,
    items: tuple[ItemRow, ...],
    abouts: Sequence[Meta],
    cuts: Sequence[Cut],
    said: Content,
    *,
    name: str | None = None,
    fingerprint: bytes | None = None,
) -> tuple[Advance, Known]:
    """A changeset in its place: state folded, counters moved, chained, anchored if it is time."""
    row, state = known.row, known.state
    if written.content is not None and state is not None:
        state = apply(state if said.snapshot is None else said.snapshot, said.patches)
    counters = count(row, items, abouts, cuts, len(written.content or b""))
    anchor = None
    if state is not None and (counters.weight > max(MIN_ANCHOR, counters.size) or _late(row, counters)):
        anchor = encode(state)
        counters = msgspec.structs.replace(counters, weight=0, size=len(anchor))
    hash = chain.link(row.hash, written, sorted(items, key=_by_place))
    change = msgspec.structs.replace(written, hash=hash, counters=counters)
    after = msgspec.structs.replace(
        row, version=change.version, hash=hash, counters=counters, updated=change.time
    )
    if state is not None and (ABOUT in state or row.title is not None or row.labels):
        after = titled(after, state)
    advance = Advance(
        before=row,
        after=after,
        change=change,
        items=items,
        cuts=_cut_rows(cuts, change.version),
        anchor=anchor,
        name=name,
        fingerprint=fingerprint,
    )
    return advance, Known(after, state)


def _cut_rows(cuts: Sequence[Cut], version: int) -> tuple[CutRow, ...]:
    return tuple(
        CutRow(log=cut.log, first=cut.first, last=cut.last, version=version, count=cut.count) for cut in cuts
    )


def count(
    row: ThreadRow, items: Sequence[ItemRow], abouts: Sequence[Meta], cuts: Sequence[Cut], content: int
) -> Counters:
    """The counters after a changeset: its cuts first, then its items."""
    logs, open = dict(row.counters.logs), row.counters.open
    for cut in cuts:
        size = logs.get(cut.log, LogSize())
        if not 0 < cut.first <= cut.last < places.at(size.end + 1) or not 0 <= cut.count <= size.length:
            raise InvalidArgument(
                problem=f"The cut {cut.first}–{cut.last} is not within log {cut.log!r} of {row.id!r}."
            )
        logs[cut.log] = LogSize(size.end, size.length - cut.count, size.cuts + 1)
        open = cut.open
    talk = [about for item, about in zip(items, abouts, strict=False) if is_talk(item.log, about)]
    open = open_after(open, talk, row.id)
    for item in items:
        size = logs.get(item.log, LogSize())
        end = size.end if item.place % places.ROOM else item.place // places.ROOM
        logs[item.log] = LogSize(end, size.length + 1, size.cuts)
    return Counters(logs=logs, open=open, weight=_weight(row, content), size=row.counters.size)


def _weight(row: ThreadRow, content: int) -> int:
    """How much must be read to know the state: every changeset since the last anchor, if there is a state."""
    has_state = content or row.counters.weight or row.counters.size
    return row.counters.weight + (content + ROW_WEIGHT if has_state else 0)


def _late(row: ThreadRow, after: Counters) -> bool:
    """Whether a state begins so late that its readers should not look at all that was before."""
    begins = after.weight > 0 and not (row.counters.weight or row.counters.size)
    return begins and row.version * ROW_WEIGHT > MIN_ANCHOR


def titled(row: ThreadRow, state: Document) -> ThreadRow:
    """A row with the title and labels that the state says."""
    about = state.get(ABOUT)
    about = about if isinstance(about, dict) else {}
    title, labels = about.get("title"), about.get("labels")
    return msgspec.structs.replace(
        row,
        title=title if isinstance(title, str) else None,
        labels=tuple(label for label in labels if isinstance(label, str)) if isinstance(labels, list) else (),
    )


# Records and jobs.


def _record(write: Put | Drop | Require, setting: Setting, plan: Plan) -> Asking[None]:
    kind, id = (write.record.kind, write.record.id) if isinstance(write, Put) else (write.kind, write.id)
    if kind == HOLD and setting.scope.user is not None and not isinstance(write, Require):
        raise Forbidden(problem="A legal hold is made and released by operators, not by a user.")
    before = yield from _revision(kind, id, write.expect, setting)
    if isinstance(write, Put):
        record = msgspec.structs.replace(owned(setting.scope, write.record, "record"), revision=before + 1)
        plan.effects.append(SaveRecord(record=record, before=before))
        plan.results.append(record)
        return
    if isinstance(write, Require):
        plan.effects.append(CheckRecord(kind=kind, id=id, before=before))
    elif before:
        plan.effects.append(DropRecord(kind=kind, id=id, before=before))
    plan.results.append(None)


def _revision(kind: str, id: str, expect: int | None, setting: Setting) -> Asking[int]:
    """The revision that a record has. One that is expected is believed: its effect checks it anyway."""
    if expect is not None and not setting.fresh:
        return expect
    found = yield from ask(AskRecord(kind, id))
    before = found.revision if found else 0
    if expect not in (None, before):
        raise RevisionConflict(kind=kind, id=id, expected=expect or 0, actual=before)
    return before


def _finish(write: Finish, plan: Plan) -> Asking[None]:
    job = yield from ask(AskJob(write.job))
    if job is None or job.token != write.token:
        raise ClaimLost(job=write.job)
    plan.effects.append(EndJob(id=write.job, token=write.token))
    plan.results.append(None)


def plan_claim(kinds: Sequence[str], limit: int, lease_ms: int, setting: Setting) -> Asking[Plan]:
    """Jobs that are due, each held by a claim of its own for so long; those tried too often are given up."""
    due: list[Job] = []
    wanted, given_up = 0, 0
    while wanted < limit + given_up and len(due) == wanted:  # those given up are in nobody's way
        wanted = limit + given_up
        due = yield from ask(AskDue(tuple(kinds), setting.now, latest_ms(setting.now), wanted))
        given_up = sum(map(is_lost, due))
    until = setting.now + lease_ms
    effects: list[Effect] = [
        MoveJob(job=tried(job, setting.random(16).hex(), until, setting.now), token=job.token) for job in due
    ]
    return Plan(effects=effects, results=[], known={})
