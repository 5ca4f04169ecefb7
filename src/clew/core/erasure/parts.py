"""Erasing parts of a thread: what rows say goes, their commitments stay, and a changeset says so.

Forks share rows, or hold copies of them. All threads of a family that reach a row which is erased are told,
each by an item in a log of its own; so each can still be checked from its first changeset to its head.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from clew.core.encoding import plain
from clew.core.erasure.receipts import BEGUN, LOG, STEP, Receipt, Step, mark
from clew.core.erasure.subject import PAGE
from clew.core.errors import InvalidArgument, RecordNotFound
from clew.core.log import chain
from clew.core.log.codec import prepare
from clew.core.log.commit import Plan, Ready, Setting, plan_commit
from clew.core.log.holds import RECEIPTS, free
from clew.core.log.reader import END_OF_LOG, reach, read_state, read_thread
from clew.core.log.rows import (
    AskChangesets,
    Asking,
    AskItems,
    AskNamed,
    AskThread,
    AskThreads,
    Effect,
    EraseParts,
    ItemRow,
    Key,
    Segment,
    ThreadRow,
    ask,
)
from clew.core.values import HISTORY, Anywhere, Changeset, Exact, Item, Limits

ERASURES: Final = "$erasures"
"""The log in which a thread keeps what of it was erased."""
PARTS: Final = "items"


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What to erase of a thread: items by their ids or between two places, and how its state came about."""

    ids: tuple[str, ...] = ()
    log: str = HISTORY
    after: int | None = None
    before: int | None = None
    state: bool = True

    @property
    def between(self) -> bool:
        """Whether items are meant by where they stand."""
        return self.after is not None or self.before is not None


class Erasure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was erased of a thread: items by log, place and version, and contents up to a version."""

    receipt: str
    items: tuple[tuple[str, int, int], ...] = ()
    contents: int = 0


def plan_parts(
    id: str, parts: Parts, receipt: str, salt: str, limits: Limits, setting: Setting
) -> Asking[Plan]:
    """The end of what some rows say, told to every thread that reaches them, with its receipt.

    Raises:
        RecordNotFound: The thread has no item of an id.
        LegalHold: The thread, or another that shares the rows, is held.
    """
    row = yield from read_thread(id)
    family = yield from _family(row)
    guards: dict[Effect, None] = {}
    for member in family:
        guards |= dict.fromkeys((yield from free(member)))
    rows = yield from _chosen(row, parts)
    blanks = yield from _blanks(row, family, rows, parts)
    items = tuple(sorted((item.log, item.place, item.version) for item in rows))
    erasure = Erasure(receipt=receipt, items=items)
    told = yield from _told(family, blanks, erasure, limits)
    counts = {"items": len(rows), "changesets": len({v for blank in blanks for v, _ in blank.contents})}
    lines = _lines(id, receipt, salt, {name: n for name, n in counts.items() if n}, setting.now, limits)
    plan = yield from plan_commit([*told, lines], setting)
    return Plan(effects=[*guards, *blanks, *plan.effects], results=plan.results, known=plan.known)


def read_family(id: str) -> Asking[list[str]]:
    """The threads that may share rows with one, it among them; none if it is gone."""
    row = yield from ask(AskThread(id))
    return [] if row is None else [member.id for member in (yield from _family(row))]


def _family(row: ThreadRow) -> Asking[list[ThreadRow]]:
    """The threads that come from the same root as this one, it among them."""
    root = chain.segments_of(row)[0]
    found: list[ThreadRow] = []
    before: tuple[int, str] | None = None
    while rows := (yield from ask(AskThreads(row.owner, before, PAGE))):
        for other in rows:
            if isinstance(other, ThreadRow) and other.owner == row.owner:
                start = chain.segments_of(other)[0]
                found += [other] if (start.id, start.created) == (root.id, root.created) else []
        before = (rows[-1].created, rows[-1].id)
    return found


def _chosen(row: ThreadRow, parts: Parts) -> Asking[list[ItemRow]]:
    """The rows of the items that are meant and not yet erased."""
    found: list[ItemRow] = []
    ids: set[str | None] = set()
    for key, upto in reach(row, row.version).items():
        if parts.ids:
            named = yield from ask(AskNamed(key, parts.ids, upto))
            ids |= {msgspec.json.decode(item.meta).get("id") for item in named}
            found += named
        if parts.between:
            found += yield from _between(key, upto, parts)
    for id in parts.ids:
        if id not in ids:
            raise RecordNotFound(kind="item", id=id)
    return [item for item in found if item.erased is None and item.log != ERASURES]


def _between(key: Key, upto: int, parts: Parts) -> Asking[list[ItemRow]]:
    found: list[ItemRow] = []
    above = -1 if parts.after is None else parts.after
    below = END_OF_LOG if parts.before is None else parts.before
    while above < below - 1:
        batch = yield from ask(
            AskItems(key, parts.log, above, below, upto, PAGE, backwards=False, whole=True)
        )
        found += batch
        if len(batch) < PAGE:
            break
        above = batch[-1].place
    return found


def _blanks(
    row: ThreadRow, family: Sequence[ThreadRow], rows: Sequence[ItemRow], parts: Parts
) -> Asking[list[EraseParts]]:
    """What to erase under each key at which the rows, or copies of them, lie."""
    keys: dict[Key, int] = {}
    for member in family:
        for key, upto in reach(member, member.version).items():
            keys[key] = max(upto, keys.get(key, 0))
    own = reach(row, row.version)
    lineage = chain.segments_of(row)
    blanks: list[EraseParts] = []
    for key, upto in keys.items():
        items = yield from _copies(key, upto, rows)
        contents: list[tuple[int, bytes]] = []
        last = own.get(key, _shared(lineage, family, key))
        if parts.state and last:
            contents = yield from _contents(key, last)
        if items or contents:
            states = last if parts.state else 0
            blanks.append(EraseParts(key=key, items=tuple(items), contents=tuple(contents), states=states))
    return blanks


def _shared(lineage: Sequence[Segment], family: Iterable[ThreadRow], key: Key) -> int:
    """Up to which version a copy under another key is a copy of this thread's life."""
    for member in family:
        shared = 0
        for ours, theirs in zip(lineage, chain.segments_of(member), strict=False):
            if (ours.id, ours.created) != (theirs.id, theirs.created):
                break
            if theirs.key == key:
                shared = min(ours.upto, theirs.upto)
        if shared:
            return shared
    return 0


def _copies(key: Key, upto: int, rows: Sequence[ItemRow]) -> Asking[list[tuple[str, int, bytes]]]:
    """Which of the rows lie under a key, the same or as copies: they have the same salt."""
    found: list[tuple[str, int, bytes]] = []
    for row in rows:
        question = AskItems(key, row.log, row.place - 1, row.place + 1, upto, 1, backwards=False, whole=True)
        found += [
            (item.log, item.place, chain.commitment(item.salt or b"", item.body))
            for item in (yield from ask(question))
            if item.body is not None and item.version == row.version and item.salt == row.salt
        ]
    return found


def _contents(key: Key, upto: int) -> Asking[list[tuple[int, bytes]]]:
    """The contents under a key up to a version, by their commitments."""
    found: list[tuple[int, bytes]] = []
    after = 0
    while rows := (yield from ask(AskChangesets(key, after, upto, PAGE))):
        found += [
            (row.version, chain.commitment(row.salt or b"", row.content))
            for row in rows
            if row.content is not None
        ]
        after = rows[-1].version
    return found


def _told(
    family: Iterable[ThreadRow], blanks: Sequence[EraseParts], erasure: Erasure, limits: Limits
) -> Asking[list[Ready]]:
    """The changesets that tell threads what was erased; the state stays, if what led to it goes."""
    told: list[Ready] = []
    for member in family:
        keys = reach(member, member.version)
        met = [blank for blank in blanks if blank.key in keys]
        if not met:
            continue
        contents = max(min(keys[blank.key], blank.states) for blank in met)
        state = (yield from read_state(member, member.version)) if contents else None
        body = plain(msgspec.structs.replace(erasure, contents=contents))
        item = Item(log=ERASURES, kind="erasure", body=body)
        change = Changeset(items=(item,), snapshot=state, reason="Erase")
        expect = Exact(member.version, member.hash)
        told.append(Ready(thread=member.id, prepared=prepare(change, limits), expect=expect))
    return told


def _lines(id: str, receipt: str, salt: str, counts: dict[str, int], now: int, limits: Limits) -> Ready:
    """The lines of the receipt, all at once: there is one commit only."""
    begun = Receipt(id=receipt, time=now, what=PARTS, subject=mark(salt, PARTS, id), salt=salt)
    lines = (
        Item(id=receipt, kind=BEGUN, log=LOG, body=plain(begun)),
        Item(id=receipt, kind=STEP, log=LOG, body=plain(Step(counts=counts))),
    )
    change = Changeset(items=lines, reason="Erase")
    return Ready(thread=RECEIPTS, prepared=prepare(change, limits), expect=Anywhere())


def checked(parts: Parts) -> Parts:
    """Parts that are meant.

    Raises:
        InvalidArgument: Nothing is, or the log that keeps what was erased.
    """
    if not parts.ids and not parts.between and not parts.state:
        raise InvalidArgument(
            problem="Say what to erase: items by id, items between two places, or the state."
        )
    if parts.log == ERASURES:
        raise InvalidArgument(problem=f"The log {ERASURES!r} keeps what was erased, and stays.")
    return parts


# Checking.


def erasures_of(items: Iterable[ItemRow]) -> list[Erasure]:
    """What a thread was told of its erased parts."""
    return [
        msgspec.json.decode(item.body, type=Erasure)
        for item in items
        if item.log == ERASURES and item.body is not None
    ]


def receipt_for(item: ItemRow | None, version: int, erasures: Iterable[Erasure]) -> str | None:
    """The receipt under which an item, or the content of a version, was erased; None if there is none."""
    for erasure in erasures:
        if item is None and version <= erasure.contents:
            return erasure.receipt
        if item is not None and (item.log, item.place, item.version) in erasure.items:
            return erasure.receipt
    return None
