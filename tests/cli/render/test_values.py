"""How things look: nothing in a thread can reach the terminal as a command, and JSON is JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import clew
from clew.cli.render import values
from clew.core.errors import ThreadNotFound, VersionConflict
from clew.core.ports import StoreReport
from clew.core.redaction import without_password
from clew.core.values import (
    Changeset,
    Counters,
    Cut,
    Head,
    LogSize,
    Parent,
    SummaryPage,
    ThreadSummary,
    UnreadableItem,
    Window,
)
from clew.database.verify import Verdict

if TYPE_CHECKING:
    from rich.console import RenderableType

NOON = 1_750_000_000_000


def output_of(renderable: RenderableType, width: int = 80) -> str:
    console = Console(width=width, force_terminal=False, highlight=False)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


def a_head(**facts: object) -> Head:
    counters = Counters(logs={"history": LogSize(3, 3, 0)})
    head = Head(
        id="trip",
        owner="alice",
        version=3,
        state={"$thread": {"title": "Lisbon"}},
        counters=counters,
        hash=b"\xab" * 32,
        created=NOON,
        updated=NOON,
        parent=Parent(thread="root", version=1),
    )
    return msgspec.structs.replace(head, **facts)


def test_json_has_hashes_in_hexadecimal_and_bytes_in_base64() -> None:
    value = {"hash": b"\xff", "body": b"\xff", "op": clew.set(["a"], 1)}

    assert json.loads(values.as_json(value)) == {"hash": "ff", "body": "/w==", "op": ["set", ["a"], 1]}


def test_an_error_is_one_sentence_and_a_code() -> None:
    error = ThreadNotFound(thread="x")

    assert "thread 'x'" in output_of(values.error_line(error))
    assert output_of(values.error_line(error)).rstrip().endswith("(thread_not_found)")


def test_an_error_in_json_carries_its_facts() -> None:
    value = values.error_value(VersionConflict(thread="t", expected=1, actual=2))

    assert value["error"]["code"] == "version_conflict"
    assert (value["error"]["expected"], value["error"]["actual"]) == (1, 2)


@given(st.text())
def test_nothing_a_thread_holds_can_steer_the_terminal(text: str) -> None:
    window = Window([clew.user(text)])
    output = output_of(values.thread_detail(a_head(id=text or "x", state={text: text}), window, "history"))

    assert not [
        letter for letter in output if letter != "\n" and (ord(letter) < 32 or 127 <= ord(letter) < 160)
    ]


def test_markup_in_a_thread_is_text() -> None:
    output = output_of(values.transcript(Window([clew.user("[bold]not bold[/bold]")])))

    assert "[bold]not bold[/bold]" in output


def test_threads_show_owner_and_title_only_where_there_are_any() -> None:
    plain = ThreadSummary(id="a", owner=None, version=1, created=NOON, updated=NOON)
    with_title = ThreadSummary(id="b", owner="alice", version=1, created=NOON, updated=NOON, title="Lisbon")

    assert "owner" not in output_of(values.thread_table(SummaryPage(threads=(plain,))))
    assert "Lisbon" in output_of(values.thread_table(SummaryPage(threads=(plain, with_title), next="1:a")))


def test_a_long_id_is_shown_whole() -> None:
    long = ThreadSummary(id="x" * 200, owner=None, version=1, created=NOON, updated=NOON)

    assert output_of(values.thread_table(SummaryPage(threads=(long,)))).count("x") == 200


def test_a_thread_shows_its_state_and_what_cannot_be_read() -> None:
    unreadable = UnreadableItem(log="history", place=512, version=2, problem="it was erased")
    output = output_of(values.thread_detail(a_head(), Window([clew.user("Hi")], [unreadable]), "history"))

    for words in ("trip", "Lisbon", "forked from root at 1", "the last 1 of 3 items", "Hi", "it was erased"):
        assert words in output


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (clew.user("Hi"), "Hi"),
        (clew.call("c", "look", {"at": 1}), 'look({"at": 1})'),
        (clew.result("c", {"seen": True}), '{"seen": true}'),
        (clew.Item(body=b"1234", codec="raw", format="guest"), "4 bytes of guest, raw"),
        (clew.Item(body={"odd": 1}), '{"odd": 1}'),
    ],
)
def test_an_item_of_any_format_says_something(item: clew.Item, words: str) -> None:
    assert words in values.item_text(item)


def test_the_timeline_shows_what_each_changeset_did() -> None:
    first = Changeset(
        items=(clew.user("Hi"),), version=1, time=NOON, hash=b"\x01" * 32, author="bob", run_id="r1"
    )
    second = Changeset(
        patches=(clew.set(["mood"], "calm"), clew.increment(["n"], 2)),
        cuts=(Cut(first=1, last=256, count=1),),
        version=2,
        time=NOON + 1000,
        hash=b"\x02" * 32,
    )
    erasure = Changeset(version=3, time=NOON, hash=b"\x03" * 32, erased=True, reason="Erase")
    output = output_of(values.changeset_table([first, second, erasure]), width=120)

    for words in ("bob", "r1", "+1", "−1", "mood = calm; n + 2", "02020202", "(erased)", "06-15 UTC"):
        assert words in output


def test_a_difference_reads_like_a_diff() -> None:
    difference = values.Difference(
        before="t version 1",
        after="t version 2",
        ops=[clew.set(["mood"], "calm"), clew.delete(["old"]), clew.append(["list"], 3)],
        old={"mood": "tense", "old": 1, "list": [1]},
        added=[clew.user("Hi")],
        removed=[clew.user("Bye")],
    )

    assert output_of(values.difference_detail(difference)).splitlines() == [
        "t version 1 → t version 2",
        "- mood = tense",
        "+ mood = calm",
        "- old = 1",
        "+ list[] = 3",
        "- user: Bye",
        "+ user: Hi",
    ]


def test_verify_tells_erased_from_altered() -> None:
    bad = Verdict(
        tenant="default", thread="a", version=2, hash="ff" * 32, problems=("version 2 was altered",)
    )
    erasure = Verdict(
        tenant="default", thread="b", version=1, hash="ee" * 32, erased=("item 256 of 'history'",)
    )
    output = output_of(values.verdict_table([bad, erasure], ["c: gone"]), width=120)

    for words in ("BAD", "- a: version 2 was altered", "b: erased on purpose: item 256", "- c: gone"):
        assert words in output
    assert "1 with problems, 1 head kept outside not found, 1 part erased on purpose." in output


def test_only_the_first_heads_are_printed() -> None:
    heads = [values.HeadHash(thread=f"t{n}", version=n, hash="00" * 32) for n in range(30)]
    output = output_of(values.head_table("Done.", heads))

    assert "t19" in output
    assert "and 10 more" in output


def test_a_report_lists_facts_and_problems() -> None:
    report = StoreReport(
        store="sqlite", format=1, healthy=True, facts={"bytes": 12345, "wal": True, "role": None}
    )
    output = output_of(values.store_report(report, {"python": "3"}, ["The disk is full. Make room."]))

    for words in ("12,345", "yes", "–", "- The disk is full."):
        assert words in output


def test_emptiness_has_words() -> None:
    assert output_of(values.changeset_table([])) == "There are no changesets yet.\n"
    assert output_of(values.thread_table(SummaryPage(threads=()))) == "There are no threads here.\n"


def test_a_password_is_never_shown() -> None:
    assert without_password("postgresql://me:secret@host/db") == "postgresql://me:…@host/db"


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_table_is_wider_than_the_terminal(width: int) -> None:
    change = Changeset(
        version=10**6, time=NOON, hash=b"1" * 32, author="a" * 50, run_id="r" * 50, reason="x" * 50
    )
    lines = output_of(values.changeset_table([change]), width).splitlines()

    assert max(map(len, lines)) <= width
