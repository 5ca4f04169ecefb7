"""What makes two facts the same one: their slot. A fact's id is its slot, so nothing is learned twice."""

from hashlib import sha256
from urllib.parse import quote

from holdfast.core.text import words
from holdfast.runtime.memory.values import Candidate, Fact, Kind, Rule

LONGEST = 400


def memory_thread(owner: str, *, of_thread: bool = False) -> str:
    """The id of the thread that holds what is known of a user, or of a thread without one.

    No user and no thread share one, whatever letters are in their ids.
    """
    mark = "@" if of_thread else ""
    name = quote(owner, safe="")
    return f"memory/{mark}{name if len(name) <= LONGEST else '~' + sha256(owner.encode()).hexdigest()}"


def slot(entry: Candidate | Fact) -> tuple[str, ...]:
    """What a fact is about. Of that there is one fact; another replaces it."""
    parts = (entry.subject, entry.predicate, *(() if entry.single else (entry.object,)))
    return tuple(" ".join(words(part)) for part in parts)


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


def is_same(fact: Fact, candidate: Candidate) -> bool:
    """Whether a candidate says what a fact of its slot says."""
    return fact.negated == candidate.negated and words(fact.object) == words(candidate.object)


def is_same_rule(rule: Rule, text: str) -> bool:
    """Whether a wording says what a rule says."""
    return words(rule.text) == words(text)


def _digest(*parts: str) -> str:
    data = b"".join(b"%d:%b" % (len(part.encode()), part.encode()) for part in parts)
    return sha256(data).hexdigest()[:20]
