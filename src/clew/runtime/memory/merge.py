"""What becomes of a candidate among what is known already: decided here, purely."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Literal, TypeAlias

import msgspec

from clew.core.text.words import stem, words
from clew.core.values import Item
from clew.runtime.memory.values import Candidate, Fact, Kind, Rule, Source


def slot(entry: Candidate | Fact) -> tuple[str, ...]:
    """What a fact is about. Of that there is one fact; another replaces it.

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


def kind_of(id: str) -> Kind | None:
    """What an id is the id of."""
    kinds: dict[str, Kind] = {"fact": "fact", "rule": "rule", "arc": "arc"}
    return kinds.get(id.partition("-")[0])


def is_same(known: Fact | Candidate, candidate: Candidate) -> bool:
    """Whether a candidate says what another of its slot says. Of a single thing, each letter counts."""
    several = not (known.single or candidate.single)
    return known.negated == candidate.negated and (several or words(known.object) == words(candidate.object))


def is_same_rule(rule: Rule, text: str) -> bool:
    """Whether a wording says what a rule says."""
    return words(rule.text) == words(text)


def _digest(*parts: str) -> str:
    data = b"".join(b"%d:%b" % (len(part.encode()), part.encode()) for part in parts)
    return sha256(data).hexdigest()[:20]


What: TypeAlias = Literal["learned", "merged", "superseded", "archived"]
MOST_RULES = 20
MOST_EVIDENCE = 3


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a candidate, or of a rule that had to make room."""

    id: str
    what: What


class Learned(msgspec.Struct, frozen=True, kw_only=True):
    """What became of some candidates; ``repeated`` if the same key had done it before."""

    version: int
    outcomes: tuple[Outcome, ...] = ()
    repeated: bool = False


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """A fact and the place of the item that holds it."""

    fact: Fact
    item: Item


class Merged(msgspec.Struct, kw_only=True):
    """What a list of candidates comes to: facts to write, rules to write, rules to archive."""

    facts: dict[str, Fact]
    rules: dict[str, Rule]
    archived: list[Rule]
    outcomes: list[Outcome]


def merged(
    candidates: Iterable[Candidate],
    known: Mapping[str, Known],
    rules: Mapping[str, Rule],
    *,
    salt: str,
    now: int,
) -> Merged:
    """Candidates among what is known: a repetition refreshes, a contradiction replaces, the rest is new."""
    done = Merged(facts={}, rules={}, archived=[], outcomes=[])
    facts = {id: entry.fact for id, entry in known.items()}
    for candidate in candidates:
        if candidate.kind == "rule":
            id = rule_id(candidate.subject, salt)
            rule, what = _rule(id, candidate, {**rules, **done.rules}.get(id), now)
            done.rules[id] = rule
        else:
            id = fact_id(candidate, salt)
            fact, what = _fact(id, candidate, {**facts, **done.facts}.get(id), now)
            done.facts[id] = fact
        done.outcomes.append(Outcome(id=id, what=what))
    _make_room(done, rules)
    return done


def _fact(id: str, candidate: Candidate, known: Fact | None, now: int) -> tuple[Fact, What]:
    if known is not None and is_same(known, candidate):
        again = msgspec.structs.replace(
            known,
            last_referenced=max(now, known.last_referenced),
            times=known.times + 1,
            confidence=max(known.confidence, candidate.confidence),
        )
        return again, "merged"
    if known is not None and _is_earlier(candidate.source, known.source):
        return known, "merged"
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
    return fact, "learned" if known is None else "superseded"


def _is_earlier(said: Source | None, known: Source | None) -> bool:
    """Whether something was said before what is known: it was put right since, and is not news."""
    return said is not None and known is not None and said.time < known.time


def _rule(id: str, candidate: Candidate, known: Rule | None, now: int) -> tuple[Rule, What]:
    if known is not None and is_same_rule(known, candidate.object):
        evidence = tuple(dict.fromkeys([*known.evidence, candidate.quote]))[-MOST_EVIDENCE:]
        again = msgspec.structs.replace(known, evidence=evidence, last_referenced=now, times=known.times + 1)
        return again, "merged"
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
    return rule, "learned" if known is None else "superseded"


def _make_room(done: Merged, rules: Mapping[str, Rule]) -> None:
    """The rules that were not heard for the longest time are archived."""
    everything = in_order({**rules, **done.rules}.values())
    for rule in everything[: max(len(everything) - MOST_RULES, 0)]:
        done.rules.pop(rule.id, None)
        done.archived.append(rule)
        done.outcomes.append(Outcome(id=rule.id, what="archived"))


def in_order(rules: Iterable[Rule]) -> Sequence[Rule]:
    """Rules, the one heard longest ago first."""
    return sorted(rules, key=lambda rule: (rule.last_referenced, rule.learned, rule.id))
