"""Which candidates are kept when an episode ends: by stated rules, purely, each decision with its reason."""

import re
from collections.abc import Iterable, Sequence

import msgspec

from clew.core.text.words import stem, words
from clew.runtime.memory.merge import is_same_statement, slot
from clew.runtime.memory.phrases.refusals import Refusal, is_refused, refusals_in
from clew.runtime.memory.values import LONGEST_QUOTE, Candidate

ENOUGH_TURNS = 2
"""In how many turns, or in one and an earlier episode, something must be said that was not stated plainly."""

LEAST_CONFIDENCE = 0.3
"""Below this confidence a candidate is a guess, and not kept."""

HARSH_WORDS = re.compile(
    r"\b(?:worthless|failure|useless|stupid|idiot|loser|burden|unlovable|broken|ugly|hopeless|pathetic|disgusting|"
    r"hate\s+myself|my\s+fault|not\s+(?:good|smart|strong)\s+enough|never\s+be\s+(?:good|happy|loved))\b",
    re.IGNORECASE,
)
MEMORY_COMMAND = re.compile(
    r"\b(?:remember|forget|memory|delete|erase)\b.{0,30}\b(?:me|my|this|that|everything|data)\b",
    re.IGNORECASE,
)
CRISIS_WORDS = re.compile(
    r"\b(?:crisis|hotline|helpline|emergency|988|112|911|suicid\w*|self[\s-]?harm|safety|seek(?:ing)?\s+help|"
    r"professional\s+help)\b",
    re.IGNORECASE,
)


class PromotionDecision(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a candidate is kept, and why: ``rule`` is the name of the rule that decided."""

    candidate: Candidate
    is_kept: bool
    rule: str
    why: str


def promotion_decisions(
    candidates: Iterable[Candidate], turns: Sequence[str], earlier: Sequence[str] = ()
) -> list[PromotionDecision]:
    """What becomes of each candidate of an episode.

    ``turns`` is what the user said in it, ``earlier`` what is known from episodes before.
    """
    candidate_list = list(candidates)
    refusals = refusals_in(turns)
    return [_decision(candidate, candidate_list, turns, earlier, refusals) for candidate in candidate_list]


def candidates_to_keep(decisions: Iterable[PromotionDecision]) -> list[Candidate]:
    """The candidates that are kept."""
    return [decision.candidate for decision in decisions if decision.is_kept]


def _decision(
    candidate: Candidate,
    candidates: Sequence[Candidate],
    turns: Sequence[str],
    earlier: Sequence[str],
    refusals: Sequence[Refusal],
) -> PromotionDecision:
    objection = _objection(candidate, turns, refusals)
    if objection is not None:
        return PromotionDecision(candidate=candidate, is_kept=False, rule=objection[0], why=objection[1])
    support = _turn_count(candidate, candidates, turns)
    is_repeated = support >= ENOUGH_TURNS or (support >= 1 and _is_in_earlier(candidate, earlier))
    if is_fragile(candidate):
        why = "a hard word about oneself is kept only if it was said more than once"
        return PromotionDecision(candidate=candidate, is_kept=is_repeated, rule="fragile", why=why)
    if candidate.plain:
        return PromotionDecision(candidate=candidate, is_kept=True, rule="plain", why="it was stated plainly")
    why = f"it was said in {support} turns, and {ENOUGH_TURNS} are needed, or one and an earlier episode"
    return PromotionDecision(candidate=candidate, is_kept=is_repeated, rule="repeated", why=why)


def _objection(
    candidate: Candidate, turns: Sequence[str], refusals: Sequence[Refusal]
) -> tuple[str, str] | None:
    """Why a candidate is not kept, however often it was said."""
    text = turns[candidate.turn] if 0 <= candidate.turn < len(turns) else ""
    checks = (
        (is_refused(candidate, refusals, text), "refused", "the user asked not to remember it"),
        (candidate.fleeting, "fleeting", "it was meant for the moment"),
        (not is_verbatim(candidate.quote, text), "unquoted", "its quote does not stand in the turn"),
        (candidate.confidence < LEAST_CONFIDENCE, "guess", "it is a guess"),
        (_is_control(candidate), "control", "it is about the memory itself"),
        (_is_unsafe(candidate), "unsafe", "it would keep help away in a crisis"),
    )
    return next(((rule, why) for holds, rule, why in checks if holds), None)


def is_verbatim(quote: str, text: str) -> bool:
    """Whether a quote stands in a turn word for word; how it is spaced does not matter."""
    return bool(quote) and len(quote) <= LONGEST_QUOTE and " ".join(quote.split()) in " ".join(text.split())


def is_fragile(candidate: Candidate) -> bool:
    """Whether it is a hard word that somebody has for themselves."""
    about_oneself = candidate.subject.lower() in ("user", "self", "i", "me")
    statement = f"{candidate.predicate.replace('_', ' ')} {candidate.object}"
    return candidate.category == "self_belief" or (about_oneself and bool(HARSH_WORDS.search(statement)))


def _is_control(candidate: Candidate) -> bool:
    return bool(MEMORY_COMMAND.search(candidate.object)) or candidate.predicate == "MENTIONED_IN"


def _is_unsafe(candidate: Candidate) -> bool:
    return candidate.kind == "rule" and bool(CRISIS_WORDS.search(f"{candidate.subject} {candidate.object}"))


def _turn_count(candidate: Candidate, candidates: Sequence[Candidate], turns: Sequence[str]) -> int:
    """In how many turns of the user it was said: noticed there, or named by its own words."""
    turns_by_candidate = {other.turn for other in candidates if _is_same_candidate(other, candidate)}
    turns_by_words = {number for number, turn in enumerate(turns) if _is_mentioned(candidate, turn)}
    return len(turns_by_candidate | turns_by_words)


def _is_same_candidate(one: Candidate, other: Candidate) -> bool:
    return (one.kind, slot(one)) == (other.kind, slot(other)) and is_same_statement(one, other)


def _is_mentioned(candidate: Candidate, text: str) -> bool:
    """Whether a text holds what a candidate is about. A rule's own words are ours, so its quote counts."""
    if candidate.kind == "rule":
        return bool(candidate.quote) and candidate.quote in text
    stems = {stem(word) for word in words(candidate.object) if len(word) > 2}
    return bool(stems) and stems <= set(map(stem, words(text)))


def _is_in_earlier(candidate: Candidate, earlier: Sequence[str]) -> bool:
    return any(_is_mentioned(candidate, text) for text in earlier)
