"""What was found, for people: where it stands, the words marked, and what to do if there is nothing."""

from __future__ import annotations

from rich.console import Console

from clew.cli.commands.search import hit_page, hit_text
from clew.runtime.search import Hit, Search, SearchPage

HIT = Hit(
    kind="items",
    thread="trip",
    text="the train to Lisbon",
    marks=((4, 9), (13, 19)),
    role="user",
    time=1_767_261_600_000,
    version=3,
)


def output_of(page: SearchPage, search: Search) -> str:
    console = Console(width=80, force_terminal=False, highlight=False)
    with console.capture() as capture:
        console.print(hit_page(page, search))
    return capture.get()


def test_a_hit_says_where_it_stands_and_since_when() -> None:
    text = output_of(SearchPage(hits=(HIT,)), Search(query="train"))

    assert text.splitlines()[:2] == [
        "trip · item · user · version 3 · 2026-01-01 10:00:00",
        "the train to Lisbon",
    ]


def test_the_words_are_marked() -> None:
    line = hit_text(HIT)

    assert [line.plain[span.start : span.end] for span in line.spans] == ["train", "Lisbon"]


def test_a_hit_cannot_steer_the_terminal() -> None:
    hit = Hit(kind="items", thread="t\x1b[2J", text="\x1b[31mred", role="\x07", time=0)

    assert "\x1b" not in output_of(SearchPage(hits=(hit,)), Search(query="red"))


def test_nothing_found_says_what_may_help() -> None:
    search = Search(query="boat", owner="alice", kinds=("facts",))

    assert (
        output_of(SearchPage(), Search(query="boat"))
        == "Nothing found for 'boat'. Try fewer or other words.\n"
    )
    assert "or leave out --owner and --kind." in " ".join(output_of(SearchPage(), search).split())


def test_more_and_trouble_are_told() -> None:
    text = output_of(SearchPage(hits=(HIT,), next="abc", problem="it is down"), Search(query="train"))

    assert text.splitlines()[0] == "By words alone: it is down"
    assert "--cursor abc" in text
