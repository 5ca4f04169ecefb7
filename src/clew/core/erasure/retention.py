"""Retention: which threads have been left alone for so long that they may go."""

from typing import Final

import msgspec

from clew.core.arguments import check_fields
from clew.core.encoding import check_id, plain
from clew.core.erasure.receipts import RULE
from clew.core.erasure.subject import PAGE
from clew.core.errors import InvalidArgument
from clew.core.log.holds import read_holds
from clew.core.log.rows import Asking, AskThreads, ThreadRow, ask
from clew.core.values import RESERVED, Record

DAY: Final = 24 * 60 * 60 * 1000


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Threads that nobody has written to for so many days go: all of them, or those with a label."""

    name: str
    days: float
    label: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)


def checked(rule: Rule) -> Rule:
    """A rule that makes sense.

    Raises:
        InvalidArgument: It would let everything go.
        InvalidId: Its name cannot be used.
    """
    check_id(rule.name, "rule")
    if not rule.days > 0:
        raise InvalidArgument(problem=f"A rule lets threads go after some days, not after {rule.days}.")
    return rule


def record_of(rule: Rule) -> Record:
    """The record that a rule is kept as."""
    return Record(kind=RULE, id=rule.name, body=plain(rule))


def rule_of(record: Record) -> Rule:
    """The rule behind a record."""
    return msgspec.convert(record.body, Rule)


def read_due(rule: Rule, now: int) -> Asking[tuple[list[str], int]]:
    """The threads that a rule lets go at a time, and how many of them are held and stay.

    A thread stays while a fork of it stays. What is remembered of people is not old because nothing was
    learned; it goes with its owner or thread.
    """
    holds = yield from read_holds()
    held = {(hold.what, hold.name) for hold, _ in holds}
    due: list[str] = []
    needed: set[str] = set()
    kept = 0
    before: tuple[int, str] | None = None
    while rows := (yield from ask(AskThreads(None, before, PAGE))):
        for row in (row for row in rows if isinstance(row, ThreadRow)):
            old = _is_due(row, rule, now)
            is_held = ("thread", row.id) in held or ("owner", row.owner) in held
            kept += old and is_held
            if old and not is_held:
                due.append(row.id)
            else:
                needed |= {segment.id for segment in row.segments}
        before = (rows[-1].created, rows[-1].id)
    return [id for id in due if id not in needed], kept


def _is_due(row: ThreadRow, rule: Rule, now: int) -> bool:
    old = row.updated <= now - rule.days * DAY
    return old and not row.id.startswith(RESERVED) and rule.label in (None, *row.labels)
