"""What makes two facts the same one: their slot. A fact's id is its slot, so nothing is learned twice."""

from hashlib import sha256

from clew.core.text import stem, words
from clew.runtime.memory.values import Candidate, Fact, Kind, Rule


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
