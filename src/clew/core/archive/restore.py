"""Putting an archived thread back: every step of its life worked out again from its changesets."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec

from clew.core.archive.admission import check_thread_import
from clew.core.archive.format import ArchivedThread
from clew.core.encoding import decode
from clew.core.errors import InvalidArgument, ThreadExists
from clew.core.log import chain, places
from clew.core.log.codec import Envelope, content_of, envelope_of, fingerprint, meta_of
from clew.core.log.commit import Plan, PlanContext, ThreadHead, advance_head, place_ranges
from clew.core.log.rows import (
    Advance,
    AskThread,
    ChangesetRow,
    ChangesetRows,
    ItemRow,
    RestoreThread,
    Segment,
    StoreRead,
    ThreadRow,
    ask,
)


def plan_restore(thread: ArchivedThread, context: PlanContext) -> StoreRead[Plan]:
    """A thread as an archive holds it: the same versions, times, hashes and salts under a new key."""
    row = thread.row
    check_thread_import(row, context.scope)
    existing = yield from ask(AskThread(row.id))
    if existing is not None:
        raise ThreadExists(thread=row.id)
    key = context.new_key()
    segments = tuple(msgspec.structs.replace(segment, key=key) for segment in row.segments)
    start = msgspec.structs.replace(row, key=key, segments=segments)
    head, advances = replay_log(start, thread.log, thread.states)
    return Plan(writes=[RestoreThread(row=head.row, advances=advances)], heads={row.id: head})


def replay_log(
    row: ThreadRow, log: Sequence[ChangesetRows], states: Mapping[int, bytes]
) -> tuple[ThreadHead, tuple[Advance, ...]]:
    """The head of a thread and the steps that led to it.

    A fork's first own changeset follows the hash of the fork. Its ancestors' idempotency keys stay theirs.
    """
    segments = chain.segments_of(row)
    starts = {before.upto: (segment, before) for before, segment in pairwise(segments)}
    own_start = row.segments[-1].upto if row.segments else 0
    head = ThreadHead(msgspec.structs.replace(row, hash=chain.start_hash(segments[0], None, b"")), {})
    head = _start_segment(head, starts.get(0))
    advances: list[Advance] = []
    for change, items in log:
        advance, head = _replay_changeset(head, change, items, states.get(change.version), own_start)
        head = _start_segment(head, starts.get(change.version))
        advances.append(advance)
    time = head.row.updated if len(log) > own_start else row.created
    head_row = msgspec.structs.replace(head.row, title=row.title, labels=row.labels, updated=time)
    return ThreadHead(head_row, head.state), tuple(advances)


def _start_segment(head: ThreadHead, start: tuple[Segment, Segment] | None) -> ThreadHead:
    """The thread where its next segment begins, if one does."""
    if start is None:
        return head
    hash = chain.start_hash(start[0], start[1], head.row.hash)
    return ThreadHead(msgspec.structs.replace(head.row, hash=hash), head.state)


def _replay_changeset(
    head: ThreadHead, change: ChangesetRow, items: Sequence[ItemRow], state: bytes | None, own_start: int
) -> tuple[Advance, ThreadHead]:
    """One step of a thread's life; an erased one leads to the state that the archive gives."""
    envelope, content = envelope_of(change), content_of(change)
    _check_places(head.row, items)
    facts = [meta_of(item) for item in items]
    advance, after = advance_head(
        head, change, tuple(items), place_ranges(items), facts, envelope.cuts, content
    )
    if envelope.key is not None and change.version > own_start:
        digest = _fingerprint(change, envelope, items)
        advance = msgspec.structs.replace(advance, idempotency_key=envelope.key, fingerprint=digest)
    if change.erased is None:
        return advance, after
    advance = msgspec.structs.replace(advance, anchor=state)
    return advance, ThreadHead(after.row, None if state is None else decode(state))


def _check_places(row: ThreadRow, items: Iterable[ItemRow]) -> None:
    """Refuse items at places that no append would have given them."""
    ends = {log: size.end for log, size in row.counters.logs.items()}
    for item in items:
        end = ends.get(item.log, 0)
        if item.place == places.place_of(end + 1):
            ends[item.log] = end + 1
        elif not places.is_inserted(item.place) or not 0 < item.place <= places.end_of(end):
            raise InvalidArgument(problem=f"Place {item.place} of log {item.log!r} cannot be taken.")


def _fingerprint(change: ChangesetRow, envelope: Envelope, items: Sequence[ItemRow]) -> bytes:
    """The fingerprint of the request that made a changeset; empty once a part was erased: none repeats it."""
    if change.erased is not None or any(item.body is None for item in items):
        return b""
    return fingerprint(
        envelope,
        # Only an inserted item was given its place by the caller.
        [(item.log, item.place if places.is_inserted(item.place) else 0) for item in items],
        change.content,
        [item.meta for item in items],
        [item.body or b"" for item in items],
    )
