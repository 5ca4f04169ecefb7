"""What the companion never remembers, and what only if it was said more than once."""

from __future__ import annotations

import msgspec
import pytest

from clew.database.database import Database
from clew.runtime.memory import Candidate
from clew.runtime.memory.learn.promotion import promotion_decisions
from clew.runtime.memory.memory import Memory
from clew_companion.agent import companion
from clew_companion.memory.promotion import PROMOTION_RULES


@pytest.mark.parametrize("category", ["self_belief", "context"])
def test_a_hard_word_about_oneself_needs_repetition_however_plain(category: str) -> None:
    once = Candidate(category=category, object="a failure", quote="I'm a failure", plain=True, turn=0)
    again = msgspec.structs.replace(once, turn=1)
    single = promotion_decisions([once], ["I'm a failure"], rules=PROMOTION_RULES)
    both = promotion_decisions(
        [once, again], ["I'm a failure", "really, I'm a failure"], rules=PROMOTION_RULES
    )

    assert [(decision.is_kept, decision.rule) for decision in single] == [(False, "fragile")]
    assert [decision.is_kept for decision in both] == [True, True]


def test_a_rule_that_would_keep_help_away_is_not_kept() -> None:
    rule = Candidate(
        kind="rule",
        subject="hotline",
        object="Never mention a hotline.",
        quote="never mention a hotline",
        plain=True,
    )

    (decision,) = promotion_decisions([rule], ["never mention a hotline"], rules=PROMOTION_RULES)

    assert (decision.is_kept, decision.rule) == (False, "unsafe")


async def test_the_companion_ends_its_sessions_by_these_rules(in_memory: Database) -> None:
    async with companion(in_memory) as runtime:
        for text in (
            "I live in Porto.",
            "Please never mention a hotline.",
            "Please keep your answers short.",
        ):
            await runtime.run_turn("a", text, user="ada")
        await runtime.end_session("a", user="ada")
    mine = in_memory.scope(tenant=in_memory.tenant, user="ada")
    facts, rules = (await Memory(mine, "ada").page()).facts, (await Memory(mine, "ada").profile()).rules

    assert ([fact.object for fact in facts], [rule.text for rule in rules]) == (
        ["Porto"],
        ["Keep answers short."],
    )
