"""Merging of candidates into the entries that are stored: decided here, purely."""

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Literal, TypeAlias

import msgspec

from clew.core.text.words import stem, words
from clew.core.values import Item
from clew.runtime.memory.phrases.phrase import FUNCTION_WORDS
from clew.runtime.memory.phrases.tables import lasting_predicates, word_table
from clew.runtime.memory.values import Candidate, EndKind, EntryKind, Fact, FactPattern, MemorySource, Rule


def slot(entry: Candidate | Fact) -> tuple[str, ...]:
    """The slot of a fact: its subject matter, which has one fact; another replaces it.

    Of things that there can be several of, forms of a word are one: nut, nuts.
    """
    about = tuple(" ".join(words(part)) for part in (entry.subject, entry.predicate))
    return about if entry.single else (*about, " ".join(map(stem, words(entry.object))))


def fact_id(entry: Candidate | Fact, salt: str) -> str:
    """The id of the fact of a slot in one memory. The salt keeps it from being guessed from its words."""
    return f"fact-{_digest(salt, *slot(entry))}"


def past_fact(fact: Fact, end: EndKind, *, at: int, salt: str, replaced_by: str = "") -> Fact:
    """The fact as one that held until a time. Its id is its own, with a suffix for what it says and when."""
    ended = max(at, fact.began)
    suffix = _digest(salt, fact.object, str(fact.negated), str(fact.began), str(ended))[:PAST_DIGITS]
    id = f"{fact.id}.{suffix}"
    return msgspec.structs.replace(fact, id=id, ended=ended, end=end, replaced_by=replaced_by)


def is_of_pattern(fact: Fact | Candidate, pattern: FactPattern | Candidate) -> bool:
    """Return whether a fact is one of those that a pattern names; forms of a word are one: nurse, nursing."""
    is_about_same = all(
        not named or words(named) == words(said)
        for named, said in ((pattern.subject, fact.subject), (pattern.predicate, fact.predicate))
    )
    stems = list(map(stem, words(pattern.object)))
    is_of_object = not stems or stems == list(map(stem, words(fact.object)))
    if not is_about_same or fact.negated != pattern.negated or not is_of_object:
        return False
    return isinstance(pattern, Candidate) or not pattern.words or _is_told_by(fact, pattern)


def _is_told_by(fact: Fact | Candidate, pattern: FactPattern) -> bool:
    """Return whether the words of a pattern tell a fact: one has all the words of the other that matter."""
    if not pattern.predicate and fact.predicate in lasting_predicates():
        return False
    stems, object_stems = _telling_stems(pattern.words), _telling_stems(fact.object)
    is_in_fact = bool(stems) and stems <= _telling_stems(f"{fact.subject} {fact.predicate} {fact.object}")
    names = {stem(word) for name in NAME.findall(fact.object) for word in words(name)}
    return is_in_fact or (bool(object_stems) and object_stems <= stems) or not names.isdisjoint(stems)


def _telling_stems(text: str) -> set[str]:
    """The stems of those words of a text that tell one fact from another."""
    common = word_table("common")
    return {
        stem(word)
        for word in words(text)
        if word not in FUNCTION_WORDS and word not in common and not word.isdigit()
    }


NAME = re.compile(r"(?<!^)\b(?!I\b)[A-ZÀ-Þ][\w'\-]+|^[A-ZÀ-Þ][\w'\-]+$")

"""A name in the object of a fact: a word with a capital that does not only begin it."""


def ended_patterns(candidate: Candidate) -> tuple[FactPattern | Candidate, ...]:
    """The patterns of the facts that a candidate ends."""
    return (candidate, *candidate.supersedes) if candidate.ends else candidate.supersedes


def candidates_that_hold(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates, in the order in which they were said, without those that a later one ends."""
    lasting: list[Candidate] = []
    for candidate in candidates:
        patterns = ended_patterns(candidate)
        lasting = [each for each in lasting if not any(is_of_pattern(each, pattern) for pattern in patterns)]
        lasting += [] if candidate.ends else [candidate]
    return lasting


def pattern_ids(pattern: FactPattern | Candidate, salt: str) -> list[str]:
    """The ids that a fact of a pattern with an object can have."""
    entry = Candidate(subject=pattern.subject, predicate=pattern.predicate, object=pattern.object)
    return [fact_id(msgspec.structs.replace(entry, single=single), salt) for single in (False, True)]


def correct_fact(before: Fact, after: Fact, *, changed: int | None, now: int, salt: str) -> list[Fact]:
    """The fact as corrected, and the one before it as past, unless both say the same.

    ``changed`` is the time until when the old one was right. Without it, it was wrong.
    """
    if (before.object, before.negated) == (after.object, after.negated):
        return [after]
    end: EndKind = "corrected" if changed is None else "superseded"
    past = past_fact(before, end, at=now if changed is None else changed, salt=salt, replaced_by=after.id)
    began = before.began if changed is None else changed
    return [msgspec.structs.replace(after, began=began, replaces=(past.id,)), past]


def statement_time(candidate: Candidate, now: int) -> int:
    """The time when something was said; now if that is not known."""
    return (candidate.source.time if candidate.source is not None else 0) or now


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


def exclude_each_other(one: Fact, other: Fact) -> bool:
    """Return whether two facts cannot hold together, though each has a slot of its own.

    That is so if one denies the other, or if both name an object where there can be only one. Slots keep it
    from happening, unless one of the facts was noted as the only one of its kind and the other was not.
    """
    if slot(one)[:2] != slot(other)[:2]:
        return False
    stems = [list(map(stem, words(fact.object))) for fact in (one, other)]
    if one.negated or other.negated:
        return one.negated != other.negated and stems[0] == stems[1]
    return (one.single or other.single) and stems[0] != stems[1]


def is_same_rule(rule: Rule, text: str) -> bool:
    """Return whether a wording says the same as a rule."""
    return words(rule.text) == words(text)


def _digest(*parts: str) -> str:
    data = b"".join(b"%d:%b" % (len(part.encode()), part.encode()) for part in parts)
    return sha256(data).hexdigest()[:20]


PAST_DIGITS = 8
OutcomeKind: TypeAlias = Literal["learned", "merged", "superseded", "ended", "archived"]
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
    """The result of merging candidates: facts and past ones to write, facts that end, and rules."""

    facts: dict[str, Fact]
    past: dict[str, Fact]
    ended_ids: set[str]
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
    ends: Mapping[str, int] | None = None,
) -> MergeResult:
    """Candidates among what is known: a repetition refreshes, a contradiction replaces, the rest is new.

    They are taken in the order in which they were said. ``ends`` has the time when a fact ended that holds no
    longer: what was said before is not learned again.
    """
    result = MergeResult(facts={}, past={}, ended_ids=set(), rules={}, rules_to_archive=[], outcomes=[])
    merge = _FactMerge(result, {id: entry.fact for id, entry in stored_facts.items()}, ends or {}, salt, now)
    for candidate in sorted(candidates, key=lambda each: statement_time(each, now)):
        if candidate.kind == "rule":
            id = rule_id(candidate.subject, salt)
            rule, kind = _merge_rule(id, candidate, {**rules, **result.rules}.get(id), now)
            result.rules[id] = rule
            result.outcomes.append(CandidateOutcome(id=id, what=kind))
        elif candidate.ends:
            for pattern in ended_patterns(candidate):
                merge.end_facts(candidate, pattern, "ended")
        else:
            merge.add(candidate)
    _archive_oldest_rules(result, rules)
    return result


class _FactMerge:
    """The facts that hold while candidates are merged into them, one after the other."""

    def __init__(
        self, result: MergeResult, facts: dict[str, Fact], ends: Mapping[str, int], salt: str, now: int
    ) -> None:
        self._result = result
        self._facts = facts
        self._ends = ends
        self._salt = salt
        self._now = now

    def add(self, candidate: Candidate) -> None:
        """Merge one fact into those that hold."""
        id = fact_id(candidate, self._salt)
        current = self._facts.get(id)
        if current is None and statement_time(candidate, self._now) < self._ends.get(id, 0):
            self._note(id, "merged")
            return
        fact, kind = _merge_fact(id, candidate, current, self._now)
        if kind == "superseded" and current is not None:
            fact = self._replace(current, fact)
        self._hold(fact, kind)
        for pattern in candidate.supersedes:
            self.end_facts(candidate, pattern, "superseded", by=id)

    def end_facts(
        self, candidate: Candidate, pattern: FactPattern | Candidate, end: EndKind, *, by: str = ""
    ) -> None:
        """End the facts that a pattern names, unless they were stated after the candidate."""
        facts = [fact for fact in self._facts.values() if fact.id != by and is_of_pattern(fact, pattern)]
        for fact in facts:
            if _is_earlier(candidate.source, fact.source):
                continue
            del self._facts[fact.id]
            self._result.facts.pop(fact.id, None)
            self._result.ended_ids.add(fact.id)
            if by:
                self._hold(self._replace(fact, self._facts[by], end), None)
            else:
                at = statement_time(candidate, self._now)
                self._keep_past(past_fact(fact, end, at=at, salt=self._salt))
            self._note(fact.id, "superseded" if by else "ended")

    def _replace(self, old: Fact, new: Fact, end: EndKind = "superseded") -> Fact:
        """The new fact in the place of the old one, which is kept as past."""
        past = past_fact(old, end, at=new.began, salt=self._salt, replaced_by=new.id)
        self._keep_past(past)
        return msgspec.structs.replace(new, replaces=(*new.replaces, past.id))

    def _hold(self, fact: Fact, kind: OutcomeKind | None) -> None:
        self._facts[fact.id] = self._result.facts[fact.id] = fact
        self._result.ended_ids.discard(fact.id)
        if kind is not None:
            self._note(fact.id, kind)

    def _keep_past(self, fact: Fact) -> None:
        self._result.past[fact.id] = fact

    def _note(self, id: str, kind: OutcomeKind) -> None:
        self._result.outcomes.append(CandidateOutcome(id=id, what=kind))


def _merge_fact(id: str, candidate: Candidate, current: Fact | None, now: int) -> tuple[Fact, OutcomeKind]:
    began = candidate.began or statement_time(candidate, now)
    if current is not None and is_same_statement(current, candidate):
        repetition = msgspec.structs.replace(
            current,
            last_referenced=max(now, current.last_referenced),
            times=current.times + 1,
            confidence=max(current.confidence, candidate.confidence),
            began=min(began, current.began),
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
        began=began,
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
