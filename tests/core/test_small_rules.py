"""Places, jobs, migrations, named queries, words: small rules, held to simple models."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import LogFull, NewerFormat
from clew.core.log import jobs, places
from clew.core.text.words import text_of, words
from clew.core.values import Item, Job
from clew.stores.migrations import migrations_in, pending_migrations
from clew.stores.queries import parse_queries


@given(st.integers(1, places.MOST_ITEMS))
def test_places_of_appended_items_ascend_and_leave_room(number: int) -> None:
    place = places.place_of(number)

    assert places.next_place(place) - place == places.SPACING
    assert places.next_place(place + places.SPACING - 1) == places.next_place(place)


@given(st.integers(1, 100), st.integers(1, 100))
def test_the_last_of_a_run_of_appended_items(first: int, count: int) -> None:
    assert places.last_place(places.place_of(first), count) == places.place_of(first + count - 1)


@given(st.integers(1, 10**6), st.integers(0, 300))
def test_places_between_two_items_are_free_and_in_order(place: int, count: int) -> None:
    try:
        room = places.places_after(place, count, "t", "history")
    except LogFull:
        assert place % places.SPACING + count >= places.SPACING
        return

    assert [place, *room] == list(range(place, place + count + 1))
    assert not room or (room[-1] < places.next_place(place) and places.last_place(room[0], count) == room[-1])


@given(st.integers(0, places.MOST_ITEMS - 1))
def test_a_log_ends_right_before_the_place_of_its_next_item(count: int) -> None:
    end = places.end_of(count)

    assert (end + 1, places.is_inserted(end)) == (places.place_of(count + 1), True)


def test_a_log_is_full_after_its_last_place() -> None:
    places.check_room(places.MOST_ITEMS, "t", "history")

    with pytest.raises(LogFull):
        places.check_room(places.MOST_ITEMS + 1, "t", "history")


def test_the_last_place_fits_into_32_bits() -> None:
    assert places.end_of(places.MOST_ITEMS) < 1 << 32


@given(st.integers(1, 10_000))
def test_the_delay_of_a_job_grows_to_an_hour(attempts: int) -> None:
    delay = jobs.delay_ms(attempts)

    assert delay == min(1000 * 2 ** (attempts - 1), 3_600_000)


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 10**12))
def test_a_failed_job_waits_or_is_dead(attempts: int, limit: int, now: int) -> None:
    job = Job(id="j", kind="k", attempts=attempts, limit=limit, status="running", token="t", until=now + 1)
    after = jobs.fail_job(job, "no luck", now)

    assert (after.token, after.until, after.problem) == (None, 0, "no luck")
    assert after.status == ("dead" if attempts >= limit else "waiting")
    assert jobs.is_due(after, now) is False
    assert jobs.is_due(after, after.due) is (after.status == "waiting")


@given(st.integers(0, 100), st.integers(0, 100))
def test_a_claimed_job_is_due_when_its_claim_runs_out(now: int, lease: int) -> None:
    job = jobs.claim_job(Job(id="j", kind="k"), "token", now + lease)

    assert (job.attempts, job.token, job.status) == (1, "token", "running")
    assert [jobs.is_due(job, time) for time in (now + lease - 1, now + lease)] == [False, True]


def test_migrations_are_files_with_a_number() -> None:
    files = {"0002_b.sql": "B", "0001_a.sql": "A", "README.md": "x", "3_c.sql": "C", "0004.sql": "D"}

    assert list(migrations_in(files).items()) == [(1, "A"), (2, "B")]


@given(st.integers(0, 6))
def test_migrations_left_to_run(version: int) -> None:
    migrations = dict.fromkeys(range(1, 6), "sql")
    if version > 5:
        with pytest.raises(NewerFormat):
            pending_migrations(version, migrations, "store")
        return

    assert list(pending_migrations(version, migrations, "store")) == list(range(version + 1, 6))


def test_named_queries_are_parsed() -> None:
    text = """-- Some words about the file.

-- name: first
-- why
SELECT 1
FROM t;

-- name: second
DELETE FROM t WHERE a = ';';
"""

    assert parse_queries(text) == {"first": "SELECT 1\nFROM t", "second": "DELETE FROM t WHERE a = ';'"}


def test_no_queries_are_no_queries() -> None:
    assert parse_queries("-- nothing\n") == {}


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Hello, World!", ["hello", "world"]),
        ("Café CRÈME", ["cafe", "creme"]),
        ("Straße", ["strasse"]),
        ("ﬁne ①", ["fine", "1"]),
        ("don't stop", ["don", "t", "stop"]),
        ("  ", []),
    ],
)
def test_words_are_folded(text: str, tokens: list[str]) -> None:
    assert words(text) == tokens


@given(st.text(max_size=30))
def test_folding_words_twice_changes_nothing(text: str) -> None:
    once = words(text)

    assert words(" ".join(once)) == once


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("plain", "plain"),
        ({"content": "a"}, "a"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "image", "url": "x"}, "b"]}, "a\nb"),
        ({"name": "tool", "arguments": {"text": "inner"}}, "inner"),
        ({"output": 5}, ""),
        (None, ""),
        (7, ""),
    ],
)
def test_the_text_of_an_item_is_what_a_reader_sees(body: object, text: str) -> None:
    assert text_of(Item(body=body)) == text


def test_bytes_have_no_text() -> None:
    assert text_of(Item(body=b"text", codec="raw")) == ""
