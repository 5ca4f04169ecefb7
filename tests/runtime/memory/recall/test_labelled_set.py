"""The labelled set for retrieval is whole, and the figures in the documentation are what it gives."""

from __future__ import annotations

from pathlib import Path

from bench.retrieval.__main__ import rank_all, recall, reciprocal_rank, table
from bench.retrieval.dataset import Question, facts, questions

PAGE = Path(__file__).parents[4] / "docs" / "memory.md"


def test_every_question_is_answered_by_facts_that_are_there() -> None:
    quotes = {fact.quote for fact in facts()}

    assert [
        question.text for question in questions() if not question.answers or not question.answers <= quotes
    ] == []


def test_the_set_is_large_enough_and_says_nothing_twice() -> None:
    assert len({fact.quote for fact in facts()}) == len(facts()) >= 400
    assert len({question.text for question in questions()}) == len(questions()) >= 200
    assert {question.kind for question in questions()} >= {
        "paraphrase",
        "negation",
        "not English",
        "across languages",
        "near-miss",
    }


def test_the_figures_are_counted_right() -> None:
    labels = [Question(text="a", kind="k", answers=frozenset({"x", "y"}))]

    assert (recall(labels, [["z", "x"]]), reciprocal_rank(labels, [["z", "x"]])) == (0.5, 0.5)
    assert (recall(labels, [["z"] * 5 + ["x"]]), reciprocal_rank(labels, [[]])) == (0.0, 0.0)


def test_a_third_and_more_of_what_is_tuned_on_is_held_out() -> None:
    apart = [question for question in questions() if question.held_out]
    tuned_on = {question.text for question in questions()} - {question.text for question in apart}

    assert len(apart) * 3 >= len(tuned_on)


async def test_the_page_shows_the_figures_of_the_set() -> None:
    ranking = await rank_all()

    assert table_on_page("retrieval") == table(ranking, held_out=False)
    assert table_on_page("held out") == table(ranking, held_out=True)


def table_on_page(name: str) -> list[str]:
    """The lines of a table on the page."""
    behind = PAGE.read_text(encoding="utf-8").partition(f"<!-- {name}: begin -->\n")[2]
    return behind.partition(f"\n<!-- {name}: end -->")[0].splitlines()
