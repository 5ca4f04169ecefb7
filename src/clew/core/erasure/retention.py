"""Retention: threads that have been left alone for so long that they may go, and records with a date."""

from typing import Final

import msgspec

from clew.core.arguments import check_fields
from clew.core.encoding import as_json, check_id
from clew.core.erasure.receipts import RETAINED_KIND, RULE_KIND
from clew.core.errors import InvalidArgument
from clew.core.log.commit import Plan, PlanContext, plan_commit
from clew.core.log.holds import read_holds
from clew.core.log.reader import read_threads
from clew.core.log.rows import AskRecord, StoreRead, ThreadRow, UnreadableThread, ask
from clew.core.values import RESERVED_THREAD_PREFIXES, Put, Record

DAY_MS: Final = 24 * 60 * 60 * 1000
EXTENDED_TAG: Final = "extended:"
"""The prefix of the tag of a retained record that says when it was last extended."""


class RetentionRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rule that lets threads go which were not written to for so many days: all, or those with a label."""

    name: str
    days: float
    label: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)


def check_rule(rule: RetentionRule) -> RetentionRule:
    """Return a rule that can be applied.

    Raises:
        InvalidArgument: It would let everything go.
        InvalidId: Its name cannot be used.
    """
    check_id(rule.name, "rule")
    if not rule.days > 0:
        raise InvalidArgument(problem=f"A rule lets threads go after some days, not after {rule.days}.")
    return rule


def rule_record(rule: RetentionRule) -> Record:
    """The record that a rule is kept as."""
    return Record(kind=RULE_KIND, id=rule.name, body=as_json(rule))


def rule_of(record: Record) -> RetentionRule:
    """The rule behind a record."""
    return msgspec.convert(record.body, RetentionRule)


def read_due_threads(rule: RetentionRule, now: int) -> StoreRead[tuple[list[str], int]]:
    """The threads that a rule lets go at a time, and how many of them are held and stay.

    A thread stays while a fork of it stays. Memories are never due by age: they go with their owner or
    thread.
    """
    holds = yield from read_holds()
    held_names = {(hold.what, hold.name) for hold, _ in holds}

    def facts(row: ThreadRow | UnreadableThread) -> tuple[str, list[str], bool, bool] | None:
        if isinstance(row, UnreadableThread):
            return None
        is_held = ("thread", row.id) in held_names or ("owner", row.owner) in held_names
        return row.id, [segment.id for segment in row.segments], _is_due(row, rule, now), is_held

    threads = yield from read_threads(None, facts)
    # A fork that stays needs the rows of those it was forked from.
    ancestors = {id for _, parents, is_old, is_held in threads if not is_old or is_held for id in parents}
    due = [id for id, _, is_old, is_held in threads if is_old and not is_held and id not in ancestors]
    return due, sum(is_old and is_held for _, _, is_old, is_held in threads)


def _is_due(row: ThreadRow, rule: RetentionRule, now: int) -> bool:
    is_old = row.updated <= now - rule.days * DAY_MS
    return is_old and not row.id.startswith(RESERVED_THREAD_PREFIXES) and rule.label in (None, *row.labels)


def plan_extension(id: str, until: int, now: int, context: PlanContext) -> StoreRead[Plan]:
    """Plan to keep a retained record for longer; nothing if it is gone, or is kept for as long already.

    The record is read by the plan itself, so a purge at the same moment finds it extended, or has won.
    """
    record = yield from ask(AskRecord(RETAINED_KIND, id))
    if record is None or record.sort >= until:
        return Plan()
    tags = [tag for tag in record.tags if not tag.startswith(EXTENDED_TAG)]
    extended = msgspec.structs.replace(record, sort=until, tags=(*tags, f"{EXTENDED_TAG}{now}"))
    return (yield from plan_commit([Put(record=extended, expect=record.revision)], context))


def extension_time(record: Record) -> int | None:
    """The time at which a retained record was last extended, in milliseconds since 1970; None for never."""
    times = [tag.removeprefix(EXTENDED_TAG) for tag in record.tags if tag.startswith(EXTENDED_TAG)]
    return int(times[-1]) if times and times[-1].isdecimal() else None
