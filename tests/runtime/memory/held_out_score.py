"""Counts of how a learner of facts does on the held-out statements; no sentence ever leaves this module."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

import msgspec

FOLDER = Path(__file__).parent / "held_out"

Learn = Callable[[Sequence[str]], Sequence[str]]
"""The texts of the current facts after the person's messages in one fresh conversation."""

# A fact that says one of these tells that something ended: it mentions what is gone, and does not keep it.
ENDING = re.compile(
    r"\b(not|no|never|any ?more|longer|instead|after all|from|used to|former(ly)?|ex|until|outgrown|clear"
    r"|quit|stop(ped)?|g[ia]ven? up|gave|left|lost|sold|sell|died|dead|drop(ped)?|off|out of|retired|switched"
    r"|changed|broke|divorced|moved)\b|n['’]t\b",
    re.IGNORECASE,
)


class ExpectedFact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fact told by its decisive words; one word may list alternatives between bars."""

    contains: tuple[str, ...]


class HeldOutStatement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message that states something lasting about the person who says it."""

    kind: str
    text: str
    facts: tuple[ExpectedFact, ...]


class HeldOutNothing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message that states nothing lasting about the person who says it, and why not."""

    text: str
    why: str


class HeldOutDialogue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Messages of which a later one ends or replaces what an earlier one states."""

    messages: tuple[str, ...]
    facts: tuple[ExpectedFact, ...]
    gone: tuple[ExpectedFact, ...]


class KindCount(msgspec.Struct, frozen=True, kw_only=True):
    """The number of messages of one kind, and of those among them that taught something."""

    total: int
    learnt: int


class StatementCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts over the statements; one is learnt when each of its facts is."""

    total: int
    learnt: int
    facts: int
    right_facts: int
    by_kind: dict[str, KindCount]


class NothingCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts over the messages that teach nothing; one is learnt when any fact came of it."""

    total: int
    learnt: int
    false_facts: int
    by_reason: dict[str, KindCount]


class SupersedingCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts over the dialogues.

    In ``learnt_first`` of them the old facts were there before the end, in ``right`` the facts at the end
    are as they should be, and ``superseded`` are those of which both is true.
    """

    total: int
    learnt_first: int
    right: int
    superseded: int


@cache
def statements() -> tuple[HeldOutStatement, ...]:
    """The messages that state something lasting."""
    return tuple(msgspec.json.Decoder(HeldOutStatement).decode_lines(_content("statements.jsonl")))


@cache
def nothings() -> tuple[HeldOutNothing, ...]:
    """The messages that state nothing lasting."""
    return tuple(msgspec.json.Decoder(HeldOutNothing).decode_lines(_content("nothing.jsonl")))


@cache
def dialogues() -> tuple[HeldOutDialogue, ...]:
    """The dialogues in which something ends or is replaced."""
    return tuple(msgspec.json.Decoder(HeldOutDialogue).decode_lines(_content("superseding.jsonl")))


def score_statements(learn: Learn) -> StatementCounts:
    """Count the statements that a learner learns, and print the counts."""
    hits = [_hits(statement.facts, learn([statement.text])) for statement in statements()]
    flags = [all(facts) for facts in hits]
    counts = StatementCounts(
        total=len(hits),
        learnt=sum(flags),
        facts=sum(map(len, hits)),
        right_facts=sum(map(sum, hits)),
        by_kind=_count_kinds((each.kind for each in statements()), flags),
    )
    _print_counts("statements", counts)
    return counts


def score_nothing(learn: Learn) -> NothingCounts:
    """Count what a learner learns from messages that teach nothing, and print the counts."""
    sizes = [len(learn([nothing.text])) for nothing in nothings()]
    flags = [size > 0 for size in sizes]
    counts = NothingCounts(
        total=len(sizes),
        learnt=sum(flags),
        false_facts=sum(sizes),
        by_reason=_count_kinds((each.why for each in nothings()), flags),
    )
    _print_counts("nothing", counts)
    return counts


def score_superseding(learn: Learn) -> SupersedingCounts:
    """Count the dialogues after which a learner holds the new and not the old, and print the counts."""
    outcomes = [_outcome(dialogue, learn) for dialogue in dialogues()]
    counts = SupersedingCounts(
        total=len(outcomes),
        learnt_first=sum(learnt_first for learnt_first, _ in outcomes),
        right=sum(right for _, right in outcomes),
        superseded=sum(map(all, outcomes)),
    )
    _print_counts("superseding", counts)
    return counts


def precision(right: StatementCounts, wrong: NothingCounts) -> float:
    """The share of right facts among these and the false ones; 0 for a learner that learns nothing."""
    learnt = right.right_facts + wrong.false_facts
    return right.right_facts / learnt if learnt else 0.0


def is_told(fact: ExpectedFact, text: str) -> bool:
    """True if a text contains every word of a fact, in any case and with a regular ending."""
    return all(any(_has_word(text, word) for word in words.split("|")) for words in fact.contains)


def _has_word(text: str, word: str) -> bool:
    pattern = rf"(?<!\w){re.escape(word)}(?:\w?ing|e?s|e?d)?(?!\w)"
    return re.search(pattern, text.replace("’", "'"), re.IGNORECASE) is not None


def _hits(facts: Iterable[ExpectedFact], texts: Sequence[str]) -> list[bool]:
    return [any(is_told(fact, text) for text in texts) for fact in facts]


def _outcome(dialogue: HeldOutDialogue, learn: Learn) -> tuple[bool, bool]:
    """Two truths: the old facts were learnt before the end, and all is right at the end."""
    beginnings = [dialogue.messages[:length] for length in range(1, len(dialogue.messages))]
    earlier = [text for messages in beginnings for text in learn(messages)]
    final = learn(dialogue.messages)
    # Words of an ending excuse a text only if it is new: an old text that says "not" is still the old fact.
    current = [text for text in final if text in earlier or not ENDING.search(text)]
    is_right = all(_hits(dialogue.facts, final)) and not any(_hits(dialogue.gone, current))
    return all(_hits(dialogue.gone, earlier)), is_right


def _count_kinds(kinds: Iterable[str], flags: Sequence[bool]) -> dict[str, KindCount]:
    pairs = list(zip(kinds, flags, strict=True))
    totals = Counter(kind for kind, _ in pairs)
    learnt = Counter(kind for kind, flag in pairs if flag)
    return {kind: KindCount(total=total, learnt=learnt[kind]) for kind, total in sorted(totals.items())}


def _print_counts(title: str, counts: msgspec.Struct) -> None:
    sys.stdout.write(f"{title}: {msgspec.json.encode(counts).decode()}\n")


def _content(name: str) -> bytes:
    return (FOLDER / name).read_bytes()
