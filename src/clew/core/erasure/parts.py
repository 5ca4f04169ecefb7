"""Erasing parts of a thread: what rows say goes, their commitments stay, and a changeset says so.

Forks share rows, or hold copies of them. Every thread of a family that reaches an erased row gets an item in
a log of its own that says so; so each can still be checked from its first changeset to its head.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from clew.core.encoding import as_json
from clew.core.erasure.receipts import FIRST_LINE, STEP_LINE, ErasureStep, Receipt, salted_hash
from clew.core.erasure.subject import ROWS_PER_PAGE, receipt_append
from clew.core.errors import InvalidArgument, RecordNotFound
from clew.core.log import chain
from clew.core.log.codec import PreparedAppend, prepare_append
from clew.core.log.commit import Plan, PlanContext, plan_commit
from clew.core.log.holds import read_hold_guards
from clew.core.log.reader import END_OF_LOG, read_state, read_thread, read_threads, upto_by_key
from clew.core.log.rows import (
    AskChangesets,
    AskItems,
    AskItemsById,
    AskThread,
    EraseParts,
    ItemRow,
    Segment,
    StoreRead,
    StoreWrite,
    ThreadKey,
    ThreadRow,
    UnreadableThread,
    ask,
)
from clew.core.values import HISTORY, Changeset, Exact, Item, Limits

ERASURE_LOG: Final = "$erasures"
"""The log in which a thread notes what of it was erased."""
PARTS_SUBJECT: Final = "items"


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of a thread to erase: items by their ids or between two places, and how its state came about."""

    ids: tuple[str, ...] = ()
    log: str = HISTORY
    after: int | None = None
    before: int | None = None
    state: bool = True

    @property
    def has_range(self) -> bool:
        """True if items are given by their places."""
        return self.after is not None or self.before is not None


class Erasure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The parts of a thread that were erased: items by log, place and version, contents up to a version."""

    receipt: str
    items: tuple[tuple[str, int, int], ...] = ()
    contents: int = 0


def plan_erase_parts(
    id: str, parts: Parts, receipt: str, salt: str, limits: Limits, context: PlanContext
) -> StoreRead[Plan]:
    """Plan to blank rows, to note it in every thread that reaches them, and to write the receipt.

    Raises:
        RecordNotFound: The thread has no item of an id.
        LegalHold: The thread, or another that shares the rows, is held.
    """
    row = yield from read_thread(id)
    family = yield from _read_family(row)
    guards: dict[StoreWrite, None] = {}
    for member in family:
        # A hold on one thread protects the rows that it shares with others.
        guards |= dict.fromkeys((yield from read_hold_guards(member)))
    rows = yield from _read_items(row, parts)
    blanks = yield from _read_blanks(row, family, rows, parts)
    items = tuple(sorted((item.log, item.place, item.version) for item in rows))
    erasure = Erasure(receipt=receipt, items=items)
    appends = yield from _erasure_appends(family, blanks, erasure, limits)
    counts = {"items": len(rows), "changesets": len({v for blank in blanks for v, _ in blank.contents})}
    receipt_append = _receipt_append(
        id, receipt, salt, {name: n for name, n in counts.items() if n}, context.now, limits
    )
    plan = yield from plan_commit([*appends, receipt_append], context)
    return msgspec.structs.replace(plan, writes=[*guards, *blanks, *plan.writes])


def read_family(id: str) -> StoreRead[list[str]]:
    """The threads that may share rows with one, it among them; none if it is gone."""
    row = yield from ask(AskThread(id))
    return [] if row is None else [member.id for member in (yield from _read_family(row))]


def _read_family(row: ThreadRow) -> StoreRead[list[ThreadRow]]:
    """The threads that come from the same root as this one, it among them."""
    root = chain.segments_of(row)[0]

    def member(other: ThreadRow | UnreadableThread) -> ThreadRow | None:
        if isinstance(other, UnreadableThread) or other.owner != row.owner:
            return None
        # By id and time, not by key: a deep fork has copies of its ancestors under a key of its own.
        start = chain.segments_of(other)[0]
        return other if (start.id, start.created) == (root.id, root.created) else None

    # A fork belongs to the owner of its parent, so no other owner has members of the family.
    return (yield from read_threads(row.owner, member))


def _read_items(row: ThreadRow, parts: Parts) -> StoreRead[list[ItemRow]]:
    """The rows of the items that are named and not yet erased."""
    items: list[ItemRow] = []
    ids: set[str | None] = set()
    for key, upto in upto_by_key(row, row.version).items():
        if parts.ids:
            batch = yield from ask(AskItemsById(key, parts.ids, upto))
            ids |= {msgspec.json.decode(item.meta).get("id") for item in batch}
            items += batch
        if parts.has_range:
            items += yield from _read_range(key, upto, parts)
    for id in parts.ids:
        if id not in ids:
            raise RecordNotFound(kind="item", id=id)
    # The items that note what was erased stay: without them the chain would show an alteration.
    return [item for item in items if item.erased is None and item.log != ERASURE_LOG]


def _read_range(key: ThreadKey, upto: int, parts: Parts) -> StoreRead[list[ItemRow]]:
    items: list[ItemRow] = []
    above = -1 if parts.after is None else parts.after
    below = END_OF_LOG if parts.before is None else parts.before
    while above < below - 1:
        batch = yield from ask(
            AskItems(key, parts.log, above, below, upto, ROWS_PER_PAGE, backwards=False, with_salts=True)
        )
        items += batch
        if len(batch) < ROWS_PER_PAGE:
            break
        above = batch[-1].place
    return items


def _read_blanks(
    row: ThreadRow, family: Sequence[ThreadRow], rows: Sequence[ItemRow], parts: Parts
) -> StoreRead[list[EraseParts]]:
    """Read what to erase under each key that has the rows, or copies of them."""
    keys: dict[ThreadKey, int] = {}
    for member in family:
        for key, upto in upto_by_key(member, member.version).items():
            keys[key] = max(upto, keys.get(key, 0))
    own = upto_by_key(row, row.version)
    lineage = chain.segments_of(row)
    blanks: list[EraseParts] = []
    for key, upto in keys.items():
        items = yield from _read_copies(key, upto, rows)
        contents: list[tuple[int, bytes]] = []
        last = own.get(key, _shared_upto(lineage, family, key))
        if parts.state and last:
            contents = yield from _read_contents(key, last)
        if items or contents:
            states = last if parts.state else 0
            blanks.append(EraseParts(key=key, items=tuple(items), contents=tuple(contents), states=states))
    return blanks


def _shared_upto(lineage: Sequence[Segment], family: Iterable[ThreadRow], key: ThreadKey) -> int:
    """The version up to which the rows under another key are copies of this thread's; 0 if they are none."""
    for member in family:
        upto = 0
        for ours, theirs in zip(lineage, chain.segments_of(member), strict=False):
            if (ours.id, ours.created) != (theirs.id, theirs.created):
                break
            if theirs.key == key:
                upto = min(ours.upto, theirs.upto)
        if upto:
            return upto
    return 0


def _read_copies(
    key: ThreadKey, upto: int, rows: Sequence[ItemRow]
) -> StoreRead[list[tuple[str, int, bytes]]]:
    """Read those of the rows that are under a key, the same or as copies: they have the same salt."""
    copies: list[tuple[str, int, bytes]] = []
    for row in rows:
        question = AskItems(
            key, row.log, row.place - 1, row.place + 1, upto, 1, backwards=False, with_salts=True
        )
        copies += [
            (item.log, item.place, chain.commitment(item.salt or b"", item.body))
            for item in (yield from ask(question))
            if item.body is not None and item.version == row.version and item.salt == row.salt
        ]
    return copies


def _read_contents(key: ThreadKey, upto: int) -> StoreRead[list[tuple[int, bytes]]]:
    """The contents under a key up to a version, by their commitments."""
    contents: list[tuple[int, bytes]] = []
    after = 0
    while rows := (yield from ask(AskChangesets(key, after, upto, ROWS_PER_PAGE))):
        contents += [
            (row.version, chain.commitment(row.salt or b"", row.content))
            for row in rows
            if row.content is not None
        ]
        after = rows[-1].version
    return contents


def _erasure_appends(
    family: Iterable[ThreadRow], blanks: Sequence[EraseParts], erasure: Erasure, limits: Limits
) -> StoreRead[list[PreparedAppend]]:
    """The appends that note in threads what was erased; the state stays, if what led to it goes."""
    appends: list[PreparedAppend] = []
    for member in family:
        keys = upto_by_key(member, member.version)
        own_blanks = [blank for blank in blanks if blank.key in keys]
        if not own_blanks:
            continue
        contents = max(min(keys[blank.key], blank.states) for blank in own_blanks)
        # A chained snapshot keeps the state; a cached one would prove nothing once its past is gone.
        state = (yield from read_state(member, member.version)) if contents else None
        body = as_json(msgspec.structs.replace(erasure, contents=contents))
        item = Item(log=ERASURE_LOG, kind="erasure", body=body)
        change = Changeset(items=(item,), snapshot=state, reason="Erase")
        # The rows were read at this version. If the thread has moved on, all of it is planned anew.
        expect = Exact(member.version, member.hash)
        appends.append(prepare_append(member.id, change, expect, limits))
    return appends


def _receipt_append(
    id: str, receipt: str, salt: str, counts: dict[str, int], now: int, limits: Limits
) -> PreparedAppend:
    """The lines of the receipt, all at once: there is one commit only."""
    opening = Receipt(
        id=receipt, time=now, what=PARTS_SUBJECT, subject=salted_hash(salt, PARTS_SUBJECT, id), salt=salt
    )
    return receipt_append(receipt, limits, (FIRST_LINE, opening), (STEP_LINE, ErasureStep(counts=counts)))


def check_parts(parts: Parts) -> Parts:
    """Return the parts if there is something to erase.

    Raises:
        InvalidArgument: Nothing is named, or the log that notes what was erased.
    """
    if not parts.ids and not parts.has_range and not parts.state:
        raise InvalidArgument(
            problem="Say what to erase: items by id, items between two places, or the state."
        )
    if parts.log == ERASURE_LOG:
        raise InvalidArgument(problem=f"The log {ERASURE_LOG!r} keeps what was erased, and stays.")
    return parts


# Checking.


def erasures_of(items: Iterable[ItemRow]) -> list[Erasure]:
    """The erasures that items of a thread note."""
    return [
        msgspec.json.decode(item.body, type=Erasure)
        for item in items
        if item.log == ERASURE_LOG and item.body is not None
    ]


def receipt_for(item: ItemRow | None, version: int, erasures: Iterable[Erasure]) -> str | None:
    """The receipt under which an item, or the content of a version, was erased; None if there is none."""
    for erasure in erasures:
        if item is None and version <= erasure.contents:
            return erasure.receipt
        if item is not None and (item.log, item.place, item.version) in erasure.items:
            return erasure.receipt
    return None
