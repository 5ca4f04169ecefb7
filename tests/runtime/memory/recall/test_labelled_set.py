"""The labelled set for retrieval is whole, and the figures in the documentation are what it gives."""

from __future__ import annotations

from pathlib import Path

from bench.retrieval.__main__ import rank_all, recall, reciprocal_rank, table
from bench.retrieval.dataset import Question, facts, questions

PAGE = Path(__file__).parents[4] / "docs" / "memory.md"


def test_every_question_is_answered_by_facts_that_are_there() -> None:
    quotes = {fact.quote for fact in facts()}

    assert [asked.text for asked in questions() if not asked.answers or not asked.answers <= quotes] == []


def test_the_set_is_large_enough_and_says_nothing_twice() -> None:
    assert len({fact.quote for fact in facts()}) == len(facts()) >= 400
    assert len({asked.text for asked in questions()}) == len(questions()) >= 200
    assert {asked.kind for asked in questions()} >= {
        "paraphrase",
        "negation",
        "not English",
        "across languages",
        "near-miss",
    }


def test_the_figures_are_counted_right() -> None:
    asked = [Question(text="a", kind="k", answers=frozenset({"x", "y"}))]

    assert (recall(asked, [["z", "x"]]), reciprocal_rank(asked, [["z", "x"]])) == (0.5, 0.5)
    assert (recall(asked, [["z"] * 5 + ["x"]]), reciprocal_rank(asked, [[]])) == (0.0, 0.0)


def test_a_third_and_more_of_what_is_tuned_on_is_held_out() -> None:
    apart = [asked for asked in questions() if asked.held_out]
    tuned_on = {asked.text for asked in questions()} - {asked.text for asked in apart}

    assert len(apart) * 3 >= len(tuned_on)


async def test_the_page_shows_the_figures_of_the_set() -> None:
    found = await rank_all()

    assert shown("retrieval") == table(found, held_out=False)
    assert shown("held out") == table(found, held_out=True)


def shown(name: str) -> list[str]:
    """The lines of a table on the page."""
    behind = PAGE.read_text(encoding="utf-8").partition(f"<!-- {name}: begin -->\n")[2]
    return behind.partition(f"\n<!-- {name}: end -->")[0].splitlines()
