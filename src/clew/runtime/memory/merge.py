"""Merging of candidates into the entries that are stored: decided here, purely."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Literal, TypeAlias

import msgspec

from clew.core.text.words import stem, words
from clew.core.values import Item
from clew.runtime.memory.values import Candidate, EntryKind, Fact, MemorySource, Rule


def slot(entry: Candidate | Fact) -> tuple[str, ...]:
    """The slot of a fact: its subject matter, which has one fact; another replaces it.

    Of things that there can be several of, forms of a word are one: nut, nuts.
    """
    about = tuple(" ".join(words(part)) for part in (entry.subject, entry.predicate))
    return about if entry.single else (*about, " ".join(map(stem, words(entry.object))))


def fact_id(entry: Candidate | Fact, salt: str) -> str:
    """The id of the fact of a slot in one memory. The salt keeps it from being guessed from its words."""
    return f"fact-{_digest(salt, *slot(entry))}"


def rule_id(about: str, salt: str) -> str:
    """The id of the rule about something."""
    return f"rule-{_digest(salt, *words(about))}"


def entry_kind(id: str) -> EntryKind | None:
    """The kind of entry that an id belongs to."""
    kinds: dict[str, EntryKind] = {"fact": "fact", "rule": "rule", "arc": "arc"}
    return kinds.get(id.partition("-")[0])


def is_same_statement(entry: Fact | Candidate, candidate: Candidate) -> bool:
    """Return whether two candidates of a slot say the same. In a slot with one value, each letter counts."""
    several = not (entry.single or candidate.single)
    return entry.negated == candidate.negated and (several or words(entry.object) == words(candidate.object))


def is_same_rule(rule: Rule, text: str) -> bool:
    """Return whether a wording says the same as a rule."""
    return words(rule.text) == words(text)


def _digest(*parts: str) -> str:
    data = b"".join(b"%d:%b" % (len(part.encode()), part.encode()) for part in parts)
    return sha256(data).hexdigest()[:20]


OutcomeKind: TypeAlias = Literal["learned", "merged", "superseded", "archived"]
MOST_RULES = 20
MOST_EVIDENCE = 3


class CandidateOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a candidate, or of a rule that had to make room."""

    id: str
    what: OutcomeKind


class LearnResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcomes of some candidates; ``repeated`` if the same key was used before."""

    version: int
    outcomes: tuple[CandidateOutcome, ...] = ()
    repeated: bool = False


class StoredFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact and the place of the item that holds it."""

    fact: Fact
    item: Item


class MergeResult(msgspec.Struct, kw_only=True):
    """The result of merging candidates: facts to write, rules to write, rules to archive."""

    facts: dict[str, Fact]
    rules: dict[str, Rule]
    rules_to_archive: list[Rule]
    outcomes: list[CandidateOutcome]


def merge_candidates(
    candidates: Iterable[Candidate],
    stored_facts: Mapping[str, StoredFact],
    rules: Mapping[str, Rule],
    *,
    salt: str,
    now: int,
) -> MergeResult:
    """Candidates among what is known: a repetition refreshes, a contradiction replaces, the rest is new."""
    result = MergeResult(facts={}, rules={}, rules_to_archive=[], outcomes=[])
    facts = {id: entry.fact for id, entry in stored_facts.items()}
    for candidate in candidates:
        if candidate.kind == "rule":
            id = rule_id(candidate.subject, salt)
            rule, kind = _merge_rule(id, candidate, {**rules, **result.rules}.get(id), now)
            result.rules[id] = rule
        else:
            id = fact_id(candidate, salt)
            fact, kind = _merge_fact(id, candidate, {**facts, **result.facts}.get(id), now)
            result.facts[id] = fact
        result.outcomes.append(CandidateOutcome(id=id, what=kind))
    _archive_oldest_rules(result, rules)
    return result


def _merge_fact(id: str, candidate: Candidate, current: Fact | None, now: int) -> tuple[Fact, OutcomeKind]:
    if current is not None and is_same_statement(current, candidate):
        repetition = msgspec.structs.replace(
            current,
            last_referenced=max(now, current.last_referenced),
            times=current.times + 1,
            confidence=max(current.confidence, candidate.confidence),
        )
        return repetition, "merged"
    if current is not None and _is_earlier(candidate.source, current.source):
        return current, "merged"
    fact = Fact(
        id=id,
        category=candidate.category,
        subject=candidate.subject,
        predicate=candidate.predicate,
        object=candidate.object,
        quote=candidate.quote,
        confidence=candidate.confidence,
        negated=candidate.negated,
        single=candidate.single,
        how=candidate.how,
        source=candidate.source,
        learned=now,
        last_referenced=now,
    )
    return fact, "learned" if current is None else "superseded"


def _is_earlier(source: MemorySource | None, current: MemorySource | None) -> bool:
    """Return whether a candidate is older than the stored fact, which was corrected since."""
    return source is not None and current is not None and source.time < current.time


def _merge_rule(id: str, candidate: Candidate, current: Rule | None, now: int) -> tuple[Rule, OutcomeKind]:
    if current is not None and is_same_rule(current, candidate.object):
        evidence = tuple(dict.fromkeys([*current.evidence, candidate.quote]))[-MOST_EVIDENCE:]
        repetition = msgspec.structs.replace(
            current, evidence=evidence, last_referenced=now, times=current.times + 1
        )
        return repetition, "merged"
    rule = Rule(
        id=id,
        about=candidate.subject,
        text=candidate.object,
        evidence=(candidate.quote,) if candidate.quote else (),
        how=candidate.how,
        source=candidate.source,
        learned=now,
        last_referenced=now,
    )
    return rule, "learned" if current is None else "superseded"


def _archive_oldest_rules(result: MergeResult, rules: Mapping[str, Rule]) -> None:
    """The rules that were not heard for the longest time are archived."""
    all_rules = rules_by_age({**rules, **result.rules}.values())
    for rule in all_rules[: max(len(all_rules) - MOST_RULES, 0)]:
        result.rules.pop(rule.id, None)
        result.rules_to_archive.append(rule)
        result.outcomes.append(CandidateOutcome(id=rule.id, what="archived"))


def rules_by_age(rules: Iterable[Rule]) -> Sequence[Rule]:
    """Rules, the one heard longest ago first."""
    return sorted(rules, key=lambda rule: (rule.last_referenced, rule.learned, rule.id))
