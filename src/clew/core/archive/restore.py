"""Putting an archived thread back: every step of its life worked out again from its changesets."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec

from clew.core.archive.admission import check_thread
from clew.core.archive.format import Archived
from clew.core.encoding import decode
from clew.core.errors import InvalidArgument, ThreadExists
from clew.core.log import chain, places
from clew.core.log.codec import Envelope, Prepared, content_of, envelope_of, fingerprint, meta_of
from clew.core.log.commit import Known, Plan, Setting, settle
from clew.core.log.rows import (
    Advance,
    Asking,
    AskThread,
    ChangesetRow,
    ItemRow,
    Restore,
    Segment,
    ThreadRow,
    ask,
)
from clew.core.values import Changeset, Item


def plan_restore(archived: Archived, setting: Setting) -> Asking[Plan]:
    """A thread as an archive holds it: the same versions, times, hashes and salts under a new key."""
    row = archived.row
    check_thread(row, setting.scope)
    found = yield from ask(AskThread(row.id))
    if found is not None:
        raise ThreadExists(thread=row.id)
    key = setting.new_key()
    segments = tuple(Segment(key, s.upto, s.id, s.owner, s.created) for s in row.segments)
    start = msgspec.structs.replace(row, key=key, segments=segments)
    known, steps = restored(start, archived.log, archived.states)
    return Plan(effects=[Restore(row=known.row, steps=steps)], results=[], known={row.id: known})


def restored(
    row: ThreadRow, log: Sequence[tuple[ChangesetRow, tuple[ItemRow, ...]]], states: Mapping[int, bytes]
) -> tuple[Known, tuple[Advance, ...]]:
    """The head of a thread and the steps that led to it.

    A fork's first own changeset follows the hash of the fork. Its ancestors' idempotency keys stay theirs.
    """
    segments = chain.segments_of(row)
    starts = {before.upto: (segment, before) for before, segment in pairwise(segments)}
    own = row.segments[-1].upto if row.segments else 0
    known = Known(msgspec.structs.replace(row, hash=chain.start_of(segments[0], None, b"")), {})
    known = _begun(known, starts.get(0))
    steps: list[Advance] = []
    for change, items in log:
        step, known = _restep(known, change, items, states.get(change.version), own)
        known = _begun(known, starts.get(change.version))
        steps.append(step)
    updated = known.row.updated if len(log) > own else row.created
    head = msgspec.structs.replace(known.row, title=row.title, labels=row.labels, updated=updated)
    return Known(head, known.state), tuple(steps)


def _begun(known: Known, start: tuple[Segment, Segment] | None) -> Known:
    """The thread where its next segment begins, if one does."""
    if start is None:
        return known
    hash = chain.start_of(start[0], start[1], known.row.hash)
    return Known(msgspec.structs.replace(known.row, hash=hash), known.state)


def _restep(
    known: Known, change: ChangesetRow, items: tuple[ItemRow, ...], state: bytes | None, own: int
) -> tuple[Advance, Known]:
    """One step of a thread's life; an erased one leads to the state that the archive gives."""
    about, said = envelope_of(change), content_of(change)
    _check_places(known.row, items)
    step, after = settle(known, change, items, [meta_of(item) for item in items], about.cuts, said)
    if about.key is not None and change.version > own:
        mark = _fingerprint(change, about, items)
        step = msgspec.structs.replace(step, name=about.key, fingerprint=mark)
    if change.erased is None:
        return step, after
    step = msgspec.structs.replace(step, anchor=state)
    return step, Known(after.row, None if state is None else decode(state))


def _check_places(row: ThreadRow, items: Iterable[ItemRow]) -> None:
    """Refuse items that stand where an append would not have put them."""
    ends = {log: size.end for log, size in row.counters.logs.items()}
    for item in items:
        end = ends.get(item.log, 0)
        if item.place == places.at(end + 1):
            ends[item.log] = end + 1
        elif item.place % places.ROOM == 0 or not 0 < item.place < places.at(end + 1):
            raise InvalidArgument(problem=f"Place {item.place} of log {item.log!r} cannot be taken.")


def _fingerprint(change: ChangesetRow, about: Envelope, items: Sequence[ItemRow]) -> bytes:
    """What a repeated request must have in common with this one; nothing can, once a part was erased."""
    if change.erased is not None or any(item.body is None for item in items):
        return b""
    given = tuple(
        Item(body=None, log=item.log, place=item.place if item.place % places.ROOM else 0) for item in items
    )
    asked = Changeset(
        items=given,
        cuts=about.cuts,
        reason=about.reason,
        run_id=about.run_id,
        parent_run_id=about.parent_run_id,
        author=about.author,
    )
    return fingerprint(
        Prepared(
            abouts=(),
            change=asked,
            metas=tuple(item.meta for item in items),
            bodies=tuple(item.body or b"" for item in items),
            content=change.content,
            said=content_of(change),
        )
    )
