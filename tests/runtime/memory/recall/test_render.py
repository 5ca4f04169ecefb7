"""Working memory in words: only where a prompt or a panel is built."""

from __future__ import annotations

import pytest

from clew.runtime.memory.recall.render import (
    ONLY_IF_ASKED,
    EpisodicEntry,
    SemanticEntry,
    prompt_part,
    render_entries,
    render_entry,
)
from clew.runtime.memory.values import Rule

BOSS = SemanticEntry(
    category="relationship",
    subject="User",
    predicate="WORRIES_ABOUT",
    object="work",
    evidence_quote="my boss is terrible",
)
GRIEF = EpisodicEntry(
    summary="talked about loss after my dog died.", primary_themes=("grief",), is_catch_up=True
)


@pytest.mark.promise("A-04")
def test_a_fact_and_an_episode_read_as_agreed() -> None:
    assert render_entry(BOSS) == '[relationship] User WORRIES_ABOUT work — "my boss is terrible"'
    assert render_entry(GRIEF) == "Last session (grief): talked about loss after my dog died."


@pytest.mark.promise("A-04")
def test_plain_strings_of_old_checkpoints_pass_through() -> None:
    assert render_entries(["as it was", BOSS])[0] == "as it was"


def test_an_episode_that_is_not_the_last_does_not_say_so() -> None:
    earlier = EpisodicEntry(summary="talked about sleep", primary_themes=("sleep", "work"))

    assert render_entry(earlier) == "Earlier session (sleep, work): talked about sleep."


def test_a_negated_fact_says_so() -> None:
    entry = SemanticEntry(
        category="health", subject="User", predicate="IS_ALLERGIC_TO", object="milk", negated=True
    )

    assert render_entry(entry) == "[health] User NOT IS_ALLERGIC_TO milk"


@pytest.mark.promise("A-05")
def test_rules_are_told_whether_recall_is_on_or_off() -> None:
    rules = [Rule(id="r", about="bullet points", text="Answer without bullet points.")]
    on, off = (prompt_part([BOSS], rules, recall=recall) for recall in (True, False))

    assert all("Answer without bullet points." in part for part in (on, off))
    assert (ONLY_IF_ASKED in on, ONLY_IF_ASKED in off) == (False, True)
    assert prompt_part([], [], recall=True) == ""
