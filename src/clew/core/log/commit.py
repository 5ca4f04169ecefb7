"""Planning of commits: writes, results and heads, decided purely; each store only applies them.

A plan may rest on a head that has moved since. Every write carries what it assumes; a store that finds
otherwise applies nothing and asks for a new plan on fresh rows.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TypeAlias, assert_never

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
from clew.core.log.codec import (
    Content,
    ItemFacts,
    PlaceRange,
    PreparedAppend,
    PreparedWrite,
    encode_envelope,
    fingerprint,
)
from clew.core.log.holds import HOLD_KIND
from clew.core.log.jobs import claim_or_give_up, is_exhausted, latest_ms
from clew.core.log.owners import check_named_owner, owner_for, with_owner
from clew.core.log.reader import read_state
from clew.core.log.rows import (
    AddJob,
    AddThread,
    Advance,
    AskChangesets,
    AskCuts,
    AskDueJobs,
    AskIdempotencyKey,
    AskItems,
    AskJob,
    AskRecord,
    AskThread,
    ChangesetRow,
    CheckRecord,
    CutRow,
    DropRecord,
    EndJob,
    ItemRow,
    MoveJob,
    SaveRecord,
    StoreRead,
    StoreWrite,
    ThreadKey,
    ThreadRow,
    ask,
)
from clew.core.log.tool_calls import is_conversation, open_calls_after
from clew.core.ops import Document, apply_ops
from clew.core.values import (
    ABOUT_KEY,
    ERASED_KEY,
    HISTORY,
    Absent,
    Changeset,
    Committed,
    Counters,
    Cut,
    Drop,
    Enqueue,
    Exact,
    Expectation,
    Finish,
    Item,
    Job,
    LogSize,
    Put,
    Require,
    Scope,
    WriteResult,
)

MIN_ANCHOR_BYTES = 4096
"""A state is cached as an anchor once the changesets since the last one outweigh it, but not below this."""
ROW_WEIGHT = 64
"""The bytes that a row of a changeset counts for beside its content: reading it costs something too."""

NO_ITEMS = LogSize()
"""The size of a log before its first item."""

_by_place = attrgetter("log", "place")
_place_of = attrgetter("place")


class ThreadHead(msgspec.Struct, frozen=True, gc=False):
    """A thread's row with its state, if that is known: what a plan starts from and a store remembers."""

    row: ThreadRow
    state: Document | None = None


class PlanContext(msgspec.Struct, frozen=True, kw_only=True):
    """The scope, the time and the sources of random bytes, keys and heads that a plan is made with."""

    scope: Scope
    now: int
    random: Callable[[int], bytes]
    new_key: Callable[[], ThreadKey]
    find_head: Callable[[str], ThreadHead | None]
    fresh: bool = False


class Plan(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Writes to apply together, the results to give then, and the heads known then (None: forget it)."""

    writes: list[StoreWrite] = []
    results: list[WriteResult] = []
    heads: dict[str, ThreadHead | None] = {}


Planner: TypeAlias = Callable[[PlanContext], StoreRead[Plan]]
"""A plan in the making: called once, and again with ``fresh`` if what it assumed is no longer so."""


def plan_commit(writes: Sequence[PreparedWrite], context: PlanContext) -> StoreRead[Plan]:
    """Plan all writes, in order, or raise the error of the first that cannot be.

    Writes that go with an append which its key says was made before were made with it: nothing is written.
    """
    # Most commits are one append to a remembered head, for which nothing has to be asked.
    plan = _plan_known_append(writes, context)
    if plan is not None:
        return plan
    # An append alone looks for its repetition itself, in _plan_append_to.
    may_repeat = len(writes) > 1 and any(_key_of(write) is not None for write in writes)
    # A used key makes the first plan stale, so a second one looks for a repetition before it writes.
    if may_repeat and context.fresh:
        repeat = yield from _plan_repeat(writes)
        if repeat is not None:
            return repeat
    try:
        return (yield from _plan_writes(writes, context))
    except ClewError:
        # A repetition often fails where the first request went through, at the version it expects.
        # Its answer is that of the first request, not the error.
        repeat = (yield from _plan_repeat(writes)) if may_repeat else None
        if repeat is not None:
            return repeat
        if context.fresh or not any(_has_expected_revision(write) for write in writes):
            raise
    # A revision that was believed may be wrong too; on fresh rows the first write that fails is reported.
    return (yield from _plan_writes(writes, msgspec.structs.replace(context, fresh=True)))


def _plan_writes(writes: Sequence[PreparedWrite], context: PlanContext) -> StoreRead[Plan]:
    plan = Plan()
    for write in writes:
        match write:
            case PreparedAppend():
                yield from _plan_append(write, context, plan)
            case Put() | Drop() | Require():
                yield from _plan_record(write, context, plan)
            case Enqueue():
                job = with_owner(context.scope, write.job, "job")
                plan.writes.append(AddJob(job))
                plan.results.append(job)
            case Finish():
                yield from _plan_finish(write, plan)
            case _:
                assert_never(write)
    return plan


def plan_past_appends(
    writes: Sequence[PreparedAppend], times: Sequence[int], context: PlanContext
) -> StoreRead[Plan]:
    """Plan appends that were made elsewhere, each at the time it was made then, or none of them.

    A time that has not come yet is now.
    """
    plan = Plan()
    for write, time in zip(writes, times, strict=True):
        at_time = msgspec.structs.replace(context, now=min(time, context.now))
        yield from _plan_append(write, at_time, plan)
    return plan


def _has_expected_revision(write: PreparedWrite) -> bool:
    return isinstance(write, Put | Drop | Require) and write.expect is not None


def _key_of(write: PreparedWrite) -> str | None:
    return write.change.key if isinstance(write, PreparedAppend) else None


def _plan_repeat(writes: Sequence[PreparedWrite]) -> StoreRead[Plan | None]:
    """A plan that writes nothing, if every append with a key among the writes was made before."""
    results: list[WriteResult] = []
    for write in writes:
        if not isinstance(write, PreparedAppend) or (key := _key_of(write)) is None:
            results.append(None)
            continue
        row = yield from ask(AskThread(write.thread))
        result = (yield from _earlier_append(row, key, _fingerprint(write))) if row else None
        if result is None:
            return None
        results.append(result)
    return Plan(results=results)


# Appends. What is known is planned by plain functions; the generators fetch what is missing and call them.


def _plan_known_append(writes: Sequence[PreparedWrite], context: PlanContext) -> Plan | None:
    """The plan of one append to a head that is remembered; None if anything has to be asked first."""
    write = writes[0] if len(writes) == 1 and not context.fresh else None
    if not isinstance(write, PreparedAppend):
        return None
    head = _remembered_head(write.thread, context)
    if head is None or _lacks_state(write, head) or _has_inserted(write.change):
        return None
    plan = Plan()
    try:
        _check_expectation(write, head)
        _add_append(write, head, context, plan)
    except ClewError:  # a refusal is never given on a remembered head alone
        return None
    return plan


def _plan_append(write: PreparedAppend, context: PlanContext, plan: Plan) -> StoreRead[None]:
    head, is_cached = yield from _find_head(write.thread, context, plan)
    try:
        yield from _plan_append_to(head, write, context, plan, check_key=context.fresh)
        return
    except ClewError:
        # A refusal is never given on a remembered head alone. But the head that an earlier write of this
        # commit has planned is in no row yet: reading would give an older one.
        is_final = context.fresh or not (is_cached or write.change.key is not None)
        if is_final or write.thread in plan.heads:
            raise
    # What was remembered may be out of date, or the append may be one that was made before.
    row = yield from ask(AskThread(write.thread))
    yield from _plan_append_to(ThreadHead(row) if row else None, write, context, plan, check_key=True)


def _plan_append_to(
    head: ThreadHead | None, write: PreparedAppend, context: PlanContext, plan: Plan, *, check_key: bool
) -> StoreRead[None]:
    """Append to what is known of a thread; if ``check_key``, look first whether the key was used before."""
    key = write.change.key
    # A key is looked for only if the first plan failed: the write finds a used one without a question.
    if check_key and key is not None and head is not None:
        result = yield from _earlier_append(head.row, key, _fingerprint(write))
        if result is not None:
            plan.results.append(result)
            return
    _check_expectation(write, head)
    start = head or _new_head(write, context)
    if _has_inserted(write.change):
        yield from check_inserted_places(start.row, write.change)
    if _lacks_state(write, start):
        start = ThreadHead(start.row, (yield from read_state(start.row, start.row.version)))
    _add_append(write, start, context, plan, is_new=head is None)


def _add_append(
    write: PreparedAppend, head: ThreadHead, context: PlanContext, plan: Plan, *, is_new: bool = False
) -> None:
    """Add an append to a plan: it may be made, and nothing is missing of what it needs of the head."""
    advance, after = _plan_advance(write, head, context)
    if is_new:
        plan.writes.append(AddThread(head.row))
    plan.writes.append(advance)
    plan.heads[write.thread] = after
    row = after.row
    plan.results.append(Committed(thread=write.thread, version=row.version, time=row.updated, hash=row.hash))


def _find_head(id: str, context: PlanContext, plan: Plan) -> StoreRead[tuple[ThreadHead | None, bool]]:
    """Find the head of a thread, and whether it may be out of date."""
    if id in plan.heads:
        return plan.heads[id], False
    head = None if context.fresh else _remembered_head(id, context)
    if head is not None:
        return head, True
    row = yield from ask(AskThread(id))
    return (ThreadHead(row) if row else None), False


def _remembered_head(id: str, context: PlanContext) -> ThreadHead | None:
    head = context.find_head(id)
    # Heads are remembered for the whole tenant; a user's scope must not see those of others.
    return head if head is not None and context.scope.user in (None, head.row.owner) else None


def _lacks_state(write: PreparedAppend, head: ThreadHead) -> bool:
    """Return whether the state has to be read: most appends neither change it nor are due for an anchor."""
    if head.state is not None:
        return False
    needs_anchor = _patch_weight(head.row, 0) > max(MIN_ANCHOR_BYTES, head.row.counters.size)
    return write.encoded_content is not None or needs_anchor


def _has_inserted(change: Changeset) -> bool:
    """Return whether an item names the place that it wants, which may be taken."""
    return any(map(_place_of, change.items))


def _check_expectation(write: PreparedAppend, head: ThreadHead | None) -> None:
    """Refuse a thread that is not where the write expects it."""
    expect = write.expect
    if head is None:
        if not isinstance(expect, Absent):
            raise ThreadNotFound(thread=write.thread)
        return
    error = version_conflict(head.row, expect)
    if error is not None:
        raise error


def version_conflict(row: ThreadRow, expect: Expectation) -> VersionConflict | ThreadExists | None:
    """The conflict, if a thread that exists is not where it is expected."""
    if isinstance(expect, Absent):
        return ThreadExists(thread=row.id)
    if not isinstance(expect, Exact) or (expect.version == row.version and expect.hash in (None, row.hash)):
        return None
    return VersionConflict(thread=row.id, expected=expect.version, actual=row.version)


def _fingerprint(write: PreparedAppend) -> bytes:
    item_places = [(item.log, item.place) for item in write.change.items]
    return fingerprint(write.change, item_places, write.encoded_content, write.metas, write.bodies)


def _earlier_append(row: ThreadRow, key: str, digest: bytes | None) -> StoreRead[Committed | None]:
    """The result of the first append with this idempotency key, if there was one."""
    key_row = yield from ask(AskIdempotencyKey(row.key, key))
    if key_row is None:
        return None
    if key_row.fingerprint != digest:
        raise KeyReused(thread=row.id, key=key)
    changes = yield from ask(AskChangesets(row.key, key_row.version - 1, key_row.version, 1))
    return Committed(
        thread=row.id, version=key_row.version, time=changes[0].time, hash=changes[0].hash, repeated=True
    )


def _new_head(write: PreparedAppend, context: PlanContext) -> ThreadHead:
    owner = write.expect.owner if isinstance(write.expect, Absent) else None
    return ThreadHead(new_thread_row(write.thread, owner, context), {})


def new_thread_row(id: str, owner: str | None, context: PlanContext) -> ThreadRow:
    """The row of a thread at version 0."""
    owner = owner_for(context.scope, owner, "thread")
    check_named_owner(id, owner)
    return ThreadRow(
        key=context.new_key(),
        id=id,
        owner=owner,
        created=context.now,
        updated=context.now,
        version=0,
        hash=chain.genesis(id, owner, context.now, None),
        counters=Counters(),
    )


def _plan_advance(
    write: PreparedAppend, head: ThreadHead, context: PlanContext
) -> tuple[Advance, ThreadHead]:
    """The rows of one more changeset."""
    row, state, change = head.row, head.state, write.change
    salts = context.random(chain.SALT_BYTES * (len(write.bodies) + 1))
    # The times of a thread never run backwards, even if the clock was set back.
    time = max(context.now, row.updated)
    items = _item_rows(write, assign_places(row, change), salts, row.version + 1, time)
    ranges = place_ranges(items)
    content = write.content
    if state is not None and ERASED_KEY in state and content.patches and content.snapshot is None:
        problem = f"What the state of {row.id!r} was at its fork has been erased. Give it one by a snapshot."
        raise InvalidArgument(problem=problem)
    changeset_row = ChangesetRow(
        version=row.version + 1,
        time=time,
        envelope=encode_envelope(change, ranges),
        content=write.encoded_content,
        salt=salts[: chain.SALT_BYTES] if write.encoded_content is not None else None,
        hash=b"",
        counters=row.counters,
    )
    return advance_head(
        head,
        changeset_row,
        items,
        ranges,
        change.items,
        change.cuts,
        content,
        idempotency_key=change.key,
        fingerprint=_fingerprint(write) if change.key is not None else None,
    )


def assign_places(row: ThreadRow, change: Changeset) -> list[int]:
    """The place of each item of a changeset; one that names its own must be checked to be free."""
    # The head knows how many items each log has, so an append reads nothing to find its places.
    ends: dict[str, int] = {}
    item_places: list[int] = []
    for item in change.items:
        if item.place:
            item_places.append(item.place)
            continue
        log = item.log
        ends[log] = number = (ends.get(log) or _log_end(row, log)) + 1
        item_places.append(places.place_of(number))
    for log, end in ends.items():
        places.check_room(end, row.id, log)
    return item_places


def _log_end(row: ThreadRow, log: str) -> int:
    size = row.counters.logs.get(log)
    return size.end if size is not None else 0


def check_inserted_places(row: ThreadRow, change: Changeset) -> StoreRead[None]:
    """Check the places that items of a changeset name themselves."""
    item_places = assign_places(row, change)
    ends: dict[str, int] = {}
    for index, item in enumerate(change.items):
        end = ends.get(item.log, _log_end(row, item.log))
        if item.place:
            yield from _check_place_free(row, item, end, change, item_places[:index])
        else:
            ends[item.log] = end + 1


def _check_place_free(
    row: ThreadRow, item: Item, end: int, change: Changeset, earlier_places: list[int]
) -> StoreRead[None]:
    """Refuse a place that is taken, or that lies in a cut: a reader passes over cuts as a whole."""
    log, place = item.log, item.place
    if not 0 < place <= places.end_of(end) or not places.is_inserted(place):
        raise InvalidArgument(problem=f"Place {place} of log {log!r} is not between two items of {row.id!r}.")
    # Places are shared with ancestors: an item of the parent's may already be there.
    for segment in chain.segments_of(row):
        items = yield from ask(
            AskItems(segment.key, log, place - 1, place + 1, segment.upto, 1, backwards=False)
        )
        cuts = yield from ask(AskCuts(segment.key, log, place, place, segment.upto))
        if items or cuts:
            raise LogFull(thread=row.id, log=log)
    is_taken_twice = any(
        other.log == log and other_place == place
        for other, other_place in zip(change.items, earlier_places, strict=False)
    )
    if is_taken_twice or any(cut.log == log and cut.first <= place <= cut.last for cut in change.cuts):
        raise LogFull(thread=row.id, log=log)


def place_ranges(items: Sequence[ItemRow]) -> tuple[PlaceRange, ...]:
    """Items joined where one follows another."""
    ranges: list[PlaceRange] = []
    log, first, count, step = "", 0, 0, 0
    for item in items:
        if count and item.place == first + count * step and item.log == log:
            count += 1
            continue
        if count:
            ranges.append(PlaceRange(log, first, count))
        log, first, count = item.log, item.place, 1
        step = places.last_place(first, 2) - first
    if count:
        ranges.append(PlaceRange(log, first, count))
    return tuple(ranges)


def _item_rows(
    write: PreparedAppend, item_places: Sequence[int], salts: bytes, version: int, time: int
) -> tuple[ItemRow, ...]:
    """The rows of a changeset's items; the first salt is for its content, then comes one for each."""
    width = chain.SALT_BYTES
    parts = zip(
        write.change.items,
        item_places,
        write.metas,
        write.bodies,
        range(width, len(salts), width),
        strict=True,
    )
    return tuple(
        [
            ItemRow(item.log, place, version, time, meta, body, salts[at : at + width], None, item.id)
            for item, place, meta, body, at in parts
        ]
    )


def advance_head(
    head: ThreadHead,
    changeset_row: ChangesetRow,
    items: tuple[ItemRow, ...],
    ranges: Sequence[PlaceRange],
    facts: Sequence[ItemFacts],
    cuts: Sequence[Cut],
    content: Content,
    *,
    idempotency_key: str | None = None,
    fingerprint: bytes | None = None,
) -> tuple[Advance, ThreadHead]:
    """A changeset in its place: state folded, counters moved, chained, anchored if it is time.

    ``ranges`` are the places of its items, and ``facts`` say what each of them is.
    """
    row, state = head.row, head.state
    if changeset_row.content is not None and state is not None:
        state = apply_ops(state if content.snapshot is None else content.snapshot, content.patches)
    counters = counters_after(row, items, ranges, facts, cuts, len(changeset_row.content or b""))
    # A cache, not part of the chain: it bounds what a reader must fold to about the size of the state.
    anchor = None
    if state is not None and (
        counters.weight > max(MIN_ANCHOR_BYTES, counters.size) or _starts_late(row, counters)
    ):
        anchor = encode(state)
        counters = msgspec.structs.replace(counters, weight=0, size=len(anchor))
    # The chain takes items by place, as they can be read back; the envelope keeps the order they came in.
    ordered_items = items if len(ranges) <= 1 else sorted(items, key=_by_place)
    hash = chain.changeset_hash(row.hash, changeset_row, ordered_items)
    change = msgspec.structs.replace(changeset_row, hash=hash, counters=counters)
    after = msgspec.structs.replace(
        row, version=change.version, hash=hash, counters=counters, updated=change.time
    )
    # A list of threads must not fold states, so the row has a copy of title and labels.
    if state is not None and (ABOUT_KEY in state or row.title is not None or row.labels):
        after = with_title(after, state)
    advance = Advance(
        before=row,
        after=after,
        change=change,
        items=items,
        cuts=_cut_rows(cuts, change.version) if cuts else (),
        anchor=anchor,
        idempotency_key=idempotency_key,
        fingerprint=fingerprint,
    )
    return advance, ThreadHead(after, state)


def _cut_rows(cuts: Sequence[Cut], version: int) -> tuple[CutRow, ...]:
    return tuple(
        CutRow(log=cut.log, first=cut.first, last=cut.last, version=version, count=cut.count) for cut in cuts
    )


def counters_after(
    row: ThreadRow,
    items: Sequence[ItemRow],
    ranges: Sequence[PlaceRange],
    facts: Sequence[ItemFacts],
    cuts: Sequence[Cut],
    content: int,
) -> Counters:
    """The counters after a changeset: its cuts first, then its items."""
    logs, open_calls = dict(row.counters.logs), row.counters.open
    # Cuts come first: a cut ends what was there before its changeset, never the items beside it.
    for cut in cuts:
        size = logs.get(cut.log, NO_ITEMS)
        if not 0 < cut.first <= cut.last <= places.end_of(size.end) or not 0 <= cut.count <= size.length:
            raise InvalidArgument(
                problem=f"The cut {cut.first}–{cut.last} is not within log {cut.log!r} of {row.id!r}."
            )
        logs[cut.log] = LogSize(size.end, size.length - cut.count, size.cuts + 1)
        open_calls = cut.open
    if len(ranges) != 1 or ranges[0].log != HISTORY:
        facts = [meta for item, meta in zip(items, facts, strict=False) if is_conversation(item.log, meta)]
    open_calls = open_calls_after(open_calls, facts, row.id)
    for places_in_log in ranges:
        size = logs.get(places_in_log.log, NO_ITEMS)
        # Inserted items make the log longer, but its end stays where it is.
        last = places.last_place(places_in_log.first, places_in_log.count)
        end = max(size.end, last // places.SPACING)
        logs[places_in_log.log] = LogSize(end, size.length + places_in_log.count, size.cuts)
    return Counters(logs=logs, open=open_calls, weight=_patch_weight(row, content), size=row.counters.size)


def _patch_weight(row: ThreadRow, content: int) -> int:
    """The bytes to read for the state: every changeset since the last anchor, if there is a state."""
    has_state = content or row.counters.weight or row.counters.size
    return row.counters.weight + (content + ROW_WEIGHT if has_state else 0)


def _starts_late(row: ThreadRow, after: Counters) -> bool:
    """Return whether a state begins so late that its readers should not look at all that was before."""
    begins = after.weight > 0 and not (row.counters.weight or row.counters.size)
    return begins and row.version * ROW_WEIGHT > MIN_ANCHOR_BYTES


def with_title(row: ThreadRow, state: Document) -> ThreadRow:
    """A row with the title and labels that the state says."""
    about = state.get(ABOUT_KEY)
    about = about if isinstance(about, dict) else {}
    title, labels = about.get("title"), about.get("labels")
    return msgspec.structs.replace(
        row,
        title=title if isinstance(title, str) else None,
        labels=tuple(label for label in labels if isinstance(label, str)) if isinstance(labels, list) else (),
    )


# Records and jobs.


def _plan_record(write: Put | Drop | Require, context: PlanContext, plan: Plan) -> StoreRead[None]:
    kind, id = (write.record.kind, write.record.id) if isinstance(write, Put) else (write.kind, write.id)
    # A hold is a record like any other, so the rule is kept where records are written.
    if kind == HOLD_KIND and context.scope.user is not None and not isinstance(write, Require):
        raise Forbidden(problem="A legal hold is made and released by operators, not by a user.")
    before = yield from _read_revision(kind, id, write.expect, context)
    if isinstance(write, Put):
        record = msgspec.structs.replace(
            with_owner(context.scope, write.record, "record"), revision=before + 1
        )
        plan.writes.append(SaveRecord(record=record, before=before))
        plan.results.append(record)
        return
    if isinstance(write, Require):
        plan.writes.append(CheckRecord(kind=kind, id=id, before=before))
    elif before:
        plan.writes.append(DropRecord(kind=kind, id=id, before=before))
    plan.results.append(None)


def _read_revision(kind: str, id: str, expect: int | None, context: PlanContext) -> StoreRead[int]:
    """The revision that a record has. One that is expected is believed: the write checks it anyway."""
    if expect is not None and not context.fresh:
        return expect
    record = yield from ask(AskRecord(kind, id))
    before = record.revision if record else 0
    if expect not in (None, before):
        raise RevisionConflict(kind=kind, id=id, expected=expect or 0, actual=before)
    return before


def _plan_finish(write: Finish, plan: Plan) -> StoreRead[None]:
    job = yield from ask(AskJob(write.job))
    if job is None or job.token != write.token:
        raise ClaimLost(job=write.job)
    plan.writes.append(EndJob(id=write.job, token=write.token))
    plan.results.append(None)


def plan_claim(kinds: Sequence[str], limit: int, lease_ms: int, context: PlanContext) -> StoreRead[Plan]:
    """Jobs that are due, each held by a claim of its own for so long; those tried too often are given up."""
    due: list[Job] = []
    count, exhausted_count = 0, 0
    while count < limit + exhausted_count and len(due) == count:  # those given up do not count as claimed
        count = limit + exhausted_count
        due = yield from ask(AskDueJobs(tuple(kinds), context.now, latest_ms(context.now), count))
        exhausted_count = sum(map(is_exhausted, due))
    until = context.now + lease_ms
    writes: list[StoreWrite] = [
        MoveJob(job=claim_or_give_up(job, context.random(16).hex(), until, context.now), token=job.token)
        for job in due
    ]
    return Plan(writes=writes)


def claimed_jobs(plan: Plan) -> list[Job]:
    """The jobs that a plan of ``plan_claim`` gives to their workers, without those that it gives up."""
    jobs = [write.job for write in plan.writes if isinstance(write, MoveJob)]
    return [job for job in jobs if job.status == "running"]
