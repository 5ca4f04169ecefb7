"""Promotion: what the companion never remembers, and what only if it was said more than once."""

import re

from clew.runtime.memory import Candidate, PromotionRules, RuleMatch

HARSH_WORDS = re.compile(
    r"\b(?:worthless|failure|useless|stupid|idiot|loser|burden|unlovable|broken|ugly|hopeless|pathetic|disgusting|"
    r"hate\s+myself|my\s+fault|not\s+(?:good|smart|strong)\s+enough|never\s+be\s+(?:good|happy|loved))\b",
    re.IGNORECASE,
)
CRISIS_WORDS = re.compile(
    r"\b(?:crisis|hotline|helpline|emergency|988|112|911|suicid\w*|self[\s-]?harm|safety|seek(?:ing)?\s+help|"
    r"professional\s+help)\b",
    re.IGNORECASE,
)
UNSAFE = RuleMatch("unsafe", "it would keep help away in a crisis")
FRAGILE = RuleMatch("fragile", "a hard word about oneself is kept only if it was said more than once")


def unsafe_match(candidate: Candidate) -> RuleMatch | None:
    """Hold for a rule that would keep help away in a crisis."""
    is_unsafe = candidate.kind == "rule" and CRISIS_WORDS.search(f"{candidate.subject} {candidate.object}")
    return UNSAFE if is_unsafe else None


def fragile_match(candidate: Candidate) -> RuleMatch | None:
    """Hold for a hard word that a person has for themselves."""
    about_oneself = candidate.subject.lower() in ("user", "self", "i", "me")
    statement = f"{candidate.predicate.replace('_', ' ')} {candidate.object}"
    is_fragile = candidate.category == "self_belief" or (about_oneself and HARSH_WORDS.search(statement))
    return FRAGILE if is_fragile else None


PROMOTION_RULES = PromotionRules(never=unsafe_match, repeated=fragile_match)
