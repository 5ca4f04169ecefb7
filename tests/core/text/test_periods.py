"""The period that a question names, and how close a time is to it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from clew.core.text.periods import DAY_MS, TOLD_LATER_DAYS, NamedPeriod, named_period


def at(text: str) -> int:
    """The milliseconds of a day."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


NOW = at("2024-08-21") + 12 * 3_600_000


@pytest.mark.promise("B-15")
@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("What did I do in May?", "2024-05-01", "2024-05-31"),
        ("what was said in October", "2023-10-01", "2023-10-31"),
        ("Who came in May 2022?", "2022-05-01", "2022-05-31"),
        ("What happened on 7 May 2023?", "2023-05-07", "2023-05-07"),
        ("What happened on May 7th, 2023?", "2023-05-07", "2023-05-07"),
        ("the seventh, or rather the 7th of June", "2024-06-07", "2024-06-07"),
        ("where were we on 2024-02-29", "2024-02-29", "2024-02-29"),
        ("Where did we go last summer?", "2024-06-01", "2024-08-31"),
        ("Where did we go in the winter?", "2023-12-01", "2024-02-29"),
        ("What was so bad about spring 2021?", "2021-03-01", "2021-05-31"),
        ("what did she tell me yesterday", "2024-08-20", "2024-08-20"),
        ("the thing from two weeks ago", "2024-08-04", "2024-08-10"),
        ("what did he say last week", "2024-08-07", "2024-08-20"),
        ("what did he say on Monday?", "2024-08-19", "2024-08-19"),
        ("What did we plan for the garden in 2021?", "2021-01-01", "2021-12-31"),
    ],
)
def test_a_question_names_a_period(question: str, first: str, last: str) -> None:
    period = named_period(question, NOW)

    assert period == NamedPeriod(at(first), at(last) + DAY_MS - 1)


@pytest.mark.parametrize(
    "question",
    [
        "May I ask who called?",
        "They march every year",
        "I fall asleep late",
        "Where did the 30 February joke come from?",
        "room 2024 in the hotel",
        "What does Ann do?",
        "",
    ],
)
def test_a_question_without_a_period_names_none(question: str) -> None:
    assert named_period(question, NOW) is None


@pytest.mark.promise("B-15")
def test_what_is_told_later_is_still_close() -> None:
    period = NamedPeriod(10 * DAY_MS, 20 * DAY_MS)
    times = (9 * DAY_MS, 15 * DAY_MS, 20 * DAY_MS + TOLD_LATER_DAYS * DAY_MS // 2, 99 * DAY_MS)

    assert [period.closeness(time) for time in times] == [0.0, 1.0, 0.5, 0.0]
