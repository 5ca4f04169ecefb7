"""Promotion: the candidates that are kept when an episode ends, by stated rules, each with its reason."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from clew.core.text.words import stem, words
from clew.runtime.memory.merge import is_same_statement, slot
from clew.runtime.memory.phrases.refusals import Refusal, is_refused, refusals_in
from clew.runtime.memory.values import LONGEST_QUOTE, Candidate

ENOUGH_TURNS = 2
"""In how many turns, or in one and an earlier episode, something must be said that was not stated plainly."""

LEAST_CONFIDENCE = 0.3
"""Below this confidence a candidate is a guess, and not kept."""

MEMORY_COMMAND = re.compile(
    r"\b(?:remember|forget|memory|delete|erase)\b.{0,30}\b(?:me|my|this|that|everything|data)\b",
    re.IGNORECASE,
)


class RuleMatch(msgspec.Struct, frozen=True):
    """The name of a rule that holds for a candidate, and what it says of it."""

    rule: str
    why: str


MatchRule: TypeAlias = Callable[[Candidate], RuleMatch | None]
"""Says whether a rule of an application holds for a candidate."""


def no_match(candidate: Candidate) -> RuleMatch | None:
    """Hold for no candidate."""
    return None


class PromotionRules(msgspec.Struct, frozen=True, kw_only=True):
    """Promotion rules of an application: facts never stored, and facts stored only if said repeatedly."""

    never: MatchRule = no_match
    repeated: MatchRule = no_match


PLAIN_RULES = PromotionRules()


class PromotionDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate, whether it is kept, and why: ``rule`` is the name of the rule that decided."""

    candidate: Candidate
    is_kept: bool
    rule: str
    why: str


def promotion_decisions(
    candidates: Iterable[Candidate],
    turns: Sequence[str],
    earlier: Sequence[str] = (),
    rules: PromotionRules = PLAIN_RULES,
) -> list[PromotionDecision]:
    """Decide what becomes of each candidate of an episode.

    ``turns`` is what the user said in it, ``earlier`` what is known from episodes before.
    """
    candidate_list = list(candidates)
    refusals = refusals_in(turns)
    decisions = []
    for candidate in candidate_list:
        objection = _objection(candidate, turns, refusals) or rules.never(candidate)
        if objection is not None:
            decisions.append(_decision(candidate, objection, is_kept=False))
            continue
        support = _turn_count(candidate, candidate_list, turns)
        is_repeated = support >= ENOUGH_TURNS or (support >= 1 and _is_in_earlier(candidate, earlier))
        fragile = rules.repeated(candidate)
        decisions.append(_decide_by_support(candidate, fragile, support, is_repeated=is_repeated))
    return decisions


def candidates_to_keep(decisions: Iterable[PromotionDecision]) -> list[Candidate]:
    """The candidates that are kept."""
    return [decision.candidate for decision in decisions if decision.is_kept]


def _decide_by_support(
    candidate: Candidate, fragile: RuleMatch | None, support: int, *, is_repeated: bool
) -> PromotionDecision:
    """Decide about a candidate that nothing speaks against, by how often it was said."""
    if fragile is not None:
        return _decision(candidate, fragile, is_kept=is_repeated)
    if candidate.plain:
        return _decision(candidate, RuleMatch("plain", "it was stated plainly"), is_kept=True)
    why = f"it was said in {support} turns, and {ENOUGH_TURNS} are needed, or one and an earlier episode"
    return _decision(candidate, RuleMatch("repeated", why), is_kept=is_repeated)


def _decision(candidate: Candidate, match: RuleMatch, *, is_kept: bool) -> PromotionDecision:
    return PromotionDecision(candidate=candidate, is_kept=is_kept, rule=match.rule, why=match.why)


def _objection(candidate: Candidate, turns: Sequence[str], refusals: Sequence[Refusal]) -> RuleMatch | None:
    """The rule by which a candidate is not kept, however often it was said."""
    text = turns[candidate.turn] if 0 <= candidate.turn < len(turns) else ""
    checks = (
        (is_refused(candidate, refusals, text), "refused", "the user asked not to remember it"),
        (candidate.fleeting, "fleeting", "it was meant for the moment"),
        (not is_verbatim(candidate.quote, text), "unquoted", "its quote is not in the turn"),
        (candidate.confidence < LEAST_CONFIDENCE, "guess", "it is a guess"),
        (_is_control(candidate), "control", "it is about the memory itself"),
    )
    return next((RuleMatch(rule, why) for holds, rule, why in checks if holds), None)


def is_verbatim(quote: str, text: str) -> bool:
    """Return whether a turn contains a quote word for word; how it is spaced does not matter."""
    return bool(quote) and len(quote) <= LONGEST_QUOTE and " ".join(quote.split()) in " ".join(text.split())


def _is_control(candidate: Candidate) -> bool:
    return bool(MEMORY_COMMAND.search(candidate.object)) or candidate.predicate == "MENTIONED_IN"


def _turn_count(candidate: Candidate, candidates: Sequence[Candidate], turns: Sequence[str]) -> int:
    """Count the turns of the user in which it was said: noticed there, or named by its own words."""
    turns_by_candidate = {other.turn for other in candidates if _is_same_candidate(other, candidate)}
    turns_by_words = {number for number, turn in enumerate(turns) if _is_mentioned(candidate, turn)}
    return len(turns_by_candidate | turns_by_words)


def _is_same_candidate(one: Candidate, other: Candidate) -> bool:
    return (one.kind, slot(one)) == (other.kind, slot(other)) and is_same_statement(one, other)


def _is_mentioned(candidate: Candidate, text: str) -> bool:
    """Return whether a text names what a candidate is about; of a rule, whose words are ours, its quote."""
    if candidate.kind == "rule":
        return bool(candidate.quote) and candidate.quote in text
    stems = {stem(word) for word in words(candidate.object) if len(word) > 2}
    return bool(stems) and stems <= set(map(stem, words(text)))


def _is_in_earlier(candidate: Candidate, earlier: Sequence[str]) -> bool:
    return any(_is_mentioned(candidate, text) for text in earlier)
