"""An audit of a memory: every fact is checked against its quote, its source turn and the other facts."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Literal, TypeAlias

import msgspec

from clew.core.arguments import check_arguments
from clew.core.errors import ThreadNotFound
from clew.core.messages.projection import plain_messages
from clew.core.text.words import words
from clew.runtime.memory.learn.promotion import is_verbatim
from clew.runtime.memory.memory import Memory
from clew.runtime.memory.merge import exclude_each_other
from clew.runtime.memory.values import Fact, MemorySource

FACTS_PER_PAGE = 200
PROBLEMS = {
    "no_quote": "It has no quote.",
    "quote_not_found": "Its quote is not in the turn that it names.",
    "no_source": "It names no turn that it comes from.",
    "source_gone": "The turn that it comes from is not there.",
    "source_foreign": "The turn that it comes from is not of this memory's owner.",
    "source_erased": "The turn that it comes from was erased; forget or erase the fact too.",
    "contradicted": "Another fact that holds excludes it.",
}
"""The sentence for each kind of finding."""

FindingKind: TypeAlias = Literal[
    "no_quote",
    "quote_not_found",
    "no_source",
    "source_gone",
    "source_foreign",
    "source_erased",
    "contradicted",
]
SourceState: TypeAlias = Literal["no_source", "source_gone", "source_foreign", "source_erased", "present"]
ORPHANED: tuple[FindingKind, ...] = ("no_source", "source_gone", "source_foreign")
BY_HAND = ("user", "exercise")
"""Facts that were learned in these ways need no turn and no quote."""


class MemoryFinding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A problem of one fact. ``others`` are the ids of facts that exclude it."""

    kind: FindingKind
    fact: str
    text: str
    problem: str
    others: tuple[str, ...] = ()


class MemoryCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of an audit. Those from ``with_quote`` on are of facts that hold and of past ones together.

    ``by_hand`` are corrections, which need no turn; ``orphaned`` are those whose turn is not to be found.
    """

    facts: int = 0
    past: int = 0
    superseded: int = 0
    with_quote: int = 0
    quote_found: int = 0
    source_found: int = 0
    source_erased: int = 0
    by_hand: int = 0
    orphaned: int = 0
    contradicted: int = 0


class MemoryAudit(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an audit: counts, and a finding for each problem."""

    owner: str | None
    thread: str
    version: int
    counts: MemoryCounts = MemoryCounts()
    findings: tuple[MemoryFinding, ...] = ()

    @property
    def ok(self) -> bool:
        """True if there is no problem."""
        return not self.findings


class _SourceTurn(msgspec.Struct, frozen=True):
    """The turn that a source names: its state, and its text if it is there."""

    state: SourceState
    text: str = ""


class _FactCheck(msgspec.Struct, frozen=True):
    """A fact, the turn that it names, and its findings."""

    fact: Fact
    turn: _SourceTurn
    findings: tuple[MemoryFinding, ...]


@check_arguments
async def audit_memory(memory: Memory) -> MemoryAudit:
    """Check every fact of a memory, also those that held once: its quote, its turn, and what excludes it.

    A fact that a person corrected by hand needs no turn.
    """
    facts = await _all_facts(memory)
    turns: dict[MemorySource | None, _SourceTurn] = {}
    for fact in facts:
        if fact.source not in turns:
            turns[fact.source] = await _read_turn(memory, fact.source)
    checks = [_check_fact(fact, turns[fact.source]) for fact in facts]
    contradictions = _contradictions(fact for fact in facts if not fact.ended)
    return MemoryAudit(
        owner=memory.owner,
        thread=memory.thread,
        version=(await memory.profile()).version,
        counts=_count(checks, len(contradictions)),
        findings=(*(finding for check in checks for finding in check.findings), *contradictions),
    )


def add_counts(counts: Iterable[MemoryCounts]) -> MemoryCounts:
    """The counts of several audits together."""
    sums: dict[str, int] = defaultdict(int)
    for each in counts:
        for name, number in msgspec.structs.asdict(each).items():
            sums[name] += number
    return MemoryCounts(**sums)


async def _all_facts(memory: Memory) -> list[Fact]:
    page = await memory.page(past=True, limit=FACTS_PER_PAGE)
    facts = list(page.facts)
    while page.next is not None:
        page = await memory.page(past=True, limit=FACTS_PER_PAGE, before=page.next)
        facts += page.facts
    return facts


async def _read_turn(memory: Memory, source: MemorySource | None) -> _SourceTurn:
    """The turn that a source names, if it is there and of the memory's owner."""
    if source is None or not source.place:
        return _SourceTurn("no_source")
    thread = memory.db.thread(source.thread)
    try:
        head = await thread.head()
        window = await thread.items(after=source.place - 1, before=source.place + 1, whole=True)
    except ThreadNotFound:
        return _SourceTurn("source_gone")
    if head.owner != memory.owner:
        return _SourceTurn("source_foreign")
    if any(entry.erased for entry in window.broken):
        return _SourceTurn("source_erased")
    if not window:
        return _SourceTurn("source_gone")
    return _SourceTurn("present", "\n".join(message.text for message in plain_messages(window)))


def _check_fact(fact: Fact, turn: _SourceTurn) -> _FactCheck:
    kinds: list[FindingKind] = []
    is_free_of_source = fact.source is None and fact.how in BY_HAND
    if turn.state != "present" and not is_free_of_source:
        kinds.append(turn.state)
    if not fact.quote and fact.how not in BY_HAND:
        kinds.append("no_quote")
    if fact.quote and turn.state == "present" and not is_verbatim(fact.quote, turn.text):
        kinds.append("quote_not_found")
    return _FactCheck(fact, turn, tuple(_finding(fact, kind) for kind in kinds))


def _finding(fact: Fact, kind: FindingKind, others: tuple[str, ...] = ()) -> MemoryFinding:
    text = f"{fact.subject} {fact.predicate_text} {fact.object}"
    return MemoryFinding(kind=kind, fact=fact.id, text=text, problem=PROBLEMS[kind], others=others)


def _contradictions(facts: Iterable[Fact]) -> list[MemoryFinding]:
    """A finding for each fact that another excludes. Only facts of one subject and predicate can."""
    groups: dict[tuple[str, ...], list[Fact]] = defaultdict(list)
    for fact in facts:
        groups[*words(fact.subject), "", *words(fact.predicate)].append(fact)
    others: dict[str, list[str]] = defaultdict(list)
    by_id: dict[str, Fact] = {}
    for group in groups.values():
        for one, other in combinations(group, 2):
            if exclude_each_other(one, other):
                by_id |= {one.id: one, other.id: other}
                others[one.id].append(other.id)
                others[other.id].append(one.id)
    return [_finding(by_id[id], "contradicted", tuple(ids)) for id, ids in others.items()]


def _count(checks: Sequence[_FactCheck], contradiction_count: int) -> MemoryCounts:
    kinds = [{finding.kind for finding in check.findings} for check in checks]
    quoted = [check for check in checks if check.fact.quote]
    present = [check for check in checks if check.turn.state == "present"]
    return MemoryCounts(
        facts=sum(not check.fact.ended for check in checks),
        past=sum(bool(check.fact.ended) for check in checks),
        superseded=sum(check.fact.end == "superseded" for check in checks),
        with_quote=len(quoted),
        quote_found=sum(is_verbatim(check.fact.quote, check.turn.text) for check in present),
        source_found=len(present),
        source_erased=sum("source_erased" in each for each in kinds),
        by_hand=sum(check.fact.source is None and check.fact.how in BY_HAND for check in checks),
        orphaned=sum(bool(each.intersection(ORPHANED)) for each in kinds),
        contradicted=contradiction_count,
    )
