"""Which candidates are kept when an episode ends: by stated rules, purely, each decision with its reason."""

import re
from collections.abc import Iterable, Sequence

import msgspec

from clew.core.text.words import stem, words
from clew.runtime.memory.merge import is_same, slot
from clew.runtime.memory.phrases.refusals import Refusal, is_refused, refusals
from clew.runtime.memory.values import QUOTE, Candidate

ENOUGH = 2
"""In how many turns, or in one and an earlier episode, something must be said that was not stated plainly."""

SURE = 0.3
"""Below this confidence a candidate is a guess, and not kept."""

FRAGILE = re.compile(
    r"\b(?:worthless|failure|useless|stupid|idiot|loser|burden|unlovable|broken|ugly|hopeless|pathetic|disgusting|"
    r"hate\s+myself|my\s+fault|not\s+(?:good|smart|strong)\s+enough|never\s+be\s+(?:good|happy|loved))\b",
    re.IGNORECASE,
)
CONTROL = re.compile(
    r"\b(?:remember|forget|memory|delete|erase)\b.{0,30}\b(?:me|my|this|that|everything|data)\b",
    re.IGNORECASE,
)
UNSAFE = re.compile(
    r"\b(?:crisis|hotline|helpline|emergency|988|112|911|suicid\w*|self[\s-]?harm|safety|seek(?:ing)?\s+help|"
    r"professional\s+help)\b",
    re.IGNORECASE,
)


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a candidate is kept, and why: ``rule`` is the name of the rule that decided."""

    candidate: Candidate
    kept: bool
    rule: str
    why: str


def decided(
    candidates: Iterable[Candidate], turns: Sequence[str], earlier: Sequence[str] = ()
) -> list[Decision]:
    """What becomes of each candidate of an episode.

    ``turns`` is what the user said in it, ``earlier`` what is known from episodes before.
    """
    held = list(candidates)
    refused = refusals(turns)
    return [_decision(candidate, held, turns, earlier, refused) for candidate in held]


def promoted(decisions: Iterable[Decision]) -> list[Candidate]:
    """The candidates that are kept."""
    return [decision.candidate for decision in decisions if decision.kept]


def _decision(
    candidate: Candidate,
    held: Sequence[Candidate],
    turns: Sequence[str],
    earlier: Sequence[str],
    refused: Sequence[Refusal],
) -> Decision:
    against = _objection(candidate, turns, refused)
    if against is not None:
        return Decision(candidate=candidate, kept=False, rule=against[0], why=against[1])
    support = _support(candidate, held, turns)
    again = support >= ENOUGH or (support >= 1 and _known_before(candidate, earlier))
    if is_fragile(candidate):
        why = "a hard word about oneself is kept only if it was said more than once"
        return Decision(candidate=candidate, kept=again, rule="fragile", why=why)
    if candidate.plain:
        return Decision(candidate=candidate, kept=True, rule="plain", why="it was stated plainly")
    why = f"it was said in {support} turns, and {ENOUGH} are needed, or one and an earlier episode"
    return Decision(candidate=candidate, kept=again, rule="repeated", why=why)


def _objection(
    candidate: Candidate, turns: Sequence[str], refused: Sequence[Refusal]
) -> tuple[str, str] | None:
    """Why a candidate is not kept, however often it was said."""
    said = turns[candidate.turn] if 0 <= candidate.turn < len(turns) else ""
    checks = (
        (is_refused(candidate, refused, said), "refused", "the user asked not to remember it"),
        (candidate.fleeting, "fleeting", "it was meant for the moment"),
        (not is_verbatim(candidate.quote, said), "unquoted", "its quote does not stand in the turn"),
        (candidate.confidence < SURE, "guess", "it is a guess"),
        (_is_control(candidate), "control", "it is about the memory itself"),
        (_is_unsafe(candidate), "unsafe", "it would keep help away in a crisis"),
    )
    return next(((rule, why) for holds, rule, why in checks if holds), None)


def is_verbatim(quote: str, said: str) -> bool:
    """Whether a quote stands in a turn word for word; how it is spaced does not matter."""
    return bool(quote) and len(quote) <= QUOTE and " ".join(quote.split()) in " ".join(said.split())


def is_fragile(candidate: Candidate) -> bool:
    """Whether it is a hard word that somebody has for themselves."""
    about_oneself = candidate.subject.lower() in ("user", "self", "i", "me")
    says = f"{candidate.predicate.replace('_', ' ')} {candidate.object}"
    return candidate.category == "self_belief" or (about_oneself and bool(FRAGILE.search(says)))


def _is_control(candidate: Candidate) -> bool:
    return bool(CONTROL.search(candidate.object)) or candidate.predicate == "MENTIONED_IN"


def _is_unsafe(candidate: Candidate) -> bool:
    return candidate.kind == "rule" and bool(UNSAFE.search(f"{candidate.subject} {candidate.object}"))


def _support(candidate: Candidate, held: Sequence[Candidate], turns: Sequence[str]) -> int:
    """In how many turns of the user it was said: noticed there, or named by its own words."""
    noticed = {other.turn for other in held if _says_the_same(other, candidate)}
    named = {number for number, turn in enumerate(turns) if _names(candidate, turn)}
    return len(noticed | named)


def _says_the_same(one: Candidate, other: Candidate) -> bool:
    return (one.kind, slot(one)) == (other.kind, slot(other)) and is_same(one, other)


def _names(candidate: Candidate, text: str) -> bool:
    """Whether a text holds what a candidate is about. A rule's own words are ours, so its quote counts."""
    if candidate.kind == "rule":
        return bool(candidate.quote) and candidate.quote in text
    wanted = {stem(word) for word in words(candidate.object) if len(word) > 2}
    return bool(wanted) and wanted <= set(map(stem, words(text)))


def _known_before(candidate: Candidate, earlier: Sequence[str]) -> bool:
    return any(_names(candidate, text) for text in earlier)
