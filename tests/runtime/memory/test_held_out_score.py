"""The held-out statements are whole, and what a learner does with them is counted right."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.runtime.memory.held_out_score import (
    ExpectedFact,
    dialogues,
    is_told,
    nothings,
    precision,
    score_nothing,
    score_statements,
    score_superseding,
    statements,
)

REASONS = {
    "question",
    "about someone else",
    "hypothetical",
    "joke or idiom",
    "passing state",
    "negated",
    "quoted",
    "wish",
    "small talk",
    "story or film",
    "past and over",
    "request",
}


def learn_everything(messages: Sequence[str]) -> Sequence[str]:
    """Take every message for a fact."""
    return messages


def learn_nothing(_: Sequence[str]) -> Sequence[str]:
    """Take no message for a fact."""
    return []


def learn_the_latest(messages: Sequence[str]) -> Sequence[str]:
    """Take each message for a fact that replaces all before it."""
    return messages[-1:]


def test_there_are_statements_enough_of_every_kind_and_none_twice() -> None:
    sizes = [count.total for count in score_statements(learn_nothing).by_kind.values()]

    assert len({statement.text.casefold() for statement in statements()}) == len(statements()) >= 200
    assert len(sizes) >= 12
    assert min(sizes) >= 10


def test_there_are_enough_messages_that_teach_nothing_and_none_twice() -> None:
    texts = {nothing.text.casefold() for nothing in nothings()}

    assert len(texts) == len(nothings()) >= 300
    assert {nothing.why for nothing in nothings()} == REASONS
    assert texts.isdisjoint(statement.text.casefold() for statement in statements())


def test_there_are_dialogues_enough_and_each_says_what_stays_and_what_goes() -> None:
    assert len({dialogue.messages for dialogue in dialogues()}) == len(dialogues()) >= 40
    assert all(dialogue.facts and dialogue.gone for dialogue in dialogues())
    assert {len(dialogue.messages) for dialogue in dialogues()} == {2, 3}


def test_a_learner_of_everything_learns_every_statement_and_every_nothing() -> None:
    right, wrong = score_statements(learn_everything), score_nothing(learn_everything)

    assert (right.learnt, right.right_facts) == (right.total, right.facts)
    assert wrong.learnt == wrong.false_facts == wrong.total
    assert precision(right, wrong) == right.facts / (right.facts + wrong.total)


def test_a_learner_of_nothing_is_neither_right_nor_wrong() -> None:
    right, wrong = score_statements(learn_nothing), score_nothing(learn_nothing)

    assert (right.learnt, right.right_facts, wrong.learnt, wrong.false_facts) == (0, 0, 0, 0)
    assert precision(right, wrong) == 0.0
    assert score_superseding(learn_nothing).right == 0


def test_the_counts_of_the_kinds_add_up_to_the_whole() -> None:
    counts = score_statements(lambda messages: [text for text in messages if "I'm" in text])

    assert 0 < counts.learnt < counts.total
    assert sum(count.learnt for count in counts.by_kind.values()) == counts.learnt
    assert sum(count.total for count in counts.by_kind.values()) == counts.total


def test_a_learner_that_never_forgets_supersedes_nothing() -> None:
    counts = score_superseding(learn_everything)

    assert counts.learnt_first == counts.total
    assert (counts.right, counts.superseded) == (0, 0)


def test_a_learner_that_forgets_all_before_is_right_only_where_nothing_had_to_stay() -> None:
    counts = score_superseding(learn_the_latest)
    stays = [each for each in dialogues() if not all(is_told(fact, each.messages[-1]) for fact in each.facts)]

    assert stays
    assert counts.right == counts.superseded == counts.total - len(stays)


def test_only_counts_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    score_statements(learn_everything)
    score_nothing(learn_everything)
    score_superseding(learn_everything)

    output = capsys.readouterr().out
    sentences = {text for each in dialogues() for text in each.messages}
    sentences |= {each.text for each in statements()} | {each.text for each in nothings()}
    assert output.count("\n") == 3
    assert sum(text in output for text in sentences) == 0


@pytest.mark.parametrize(
    ("words", "text", "expected"),
    [
        (("husband", "Ivo"), "Their HUSBAND is called Ivo.", True),
        (("husband", "Ivo"), "Their husband is called Ivor.", False),
        (("knit",), "knitting", True),
        (("34",), "134", False),
        (("nan|grandmother",), "raised by her grandmother", True),
        (("can't",), "I can’t eat it", True),
    ],
)
def test_a_fact_is_told_by_all_of_its_words(words: tuple[str, ...], text: str, *, expected: bool) -> None:
    assert is_told(ExpectedFact(contains=words), text) is expected
