"""Text that comes bit by bit is broken between words, whatever bits it comes in."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from clew.cli.chat.wrap import LineWrapper

TEXTS = st.text(alphabet=st.sampled_from("ab cd.,\n 漢字かな。é—x"), max_size=120)


def wrap(pieces: list[str], width: int = 12, indent: str = "  ") -> str:
    lines = LineWrapper(width, indent)
    return "".join([*(lines.add(piece) for piece in pieces), lines.end()])


def test_a_line_is_broken_between_words() -> None:
    assert wrap(["one two three four"]) == "  one two\n  three four\n"


def test_a_word_is_held_back_until_it_is_whole() -> None:
    lines = LineWrapper(12)

    assert [lines.add("un"), lines.add("do "), lines.end()] == ["", "undo", "\n"]


def test_a_word_wider_than_a_line_is_cut() -> None:
    assert wrap(["abcdefghijklmnop"]) == "  abcdefghij\n  klmnop\n"


def test_wide_letters_are_counted_as_two_and_a_line_may_end_between_them() -> None:
    assert wrap(["我最近很焦虑"]) == "  我最近很焦\n  虑\n"


def test_no_line_begins_with_a_full_stop() -> None:
    assert wrap(["我最近很焦。"]) == "  我最近很\n  焦。\n"


def test_an_emoji_of_several_signs_stays_together() -> None:
    family = "👩\u200d👩\u200d👧"

    assert family in wrap([f"abcdef {family}"])


def test_paragraphs_and_lists_keep_their_shape() -> None:
    assert wrap(["one\n\n - two"]) == "  one\n\n   - two\n"


def test_nothing_is_nothing() -> None:
    assert wrap([""]) == ""


@given(text=TEXTS, cuts=st.lists(st.integers(0, 120), max_size=8))
def test_the_pieces_do_not_matter(text: str, cuts: list[int]) -> None:
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[start:end] for start, end in pairwise(places)]

    assert wrap(pieces) == wrap([text])


@given(text=TEXTS, width=st.integers(6, 30))
def test_no_line_is_too_wide_and_no_letter_is_lost(text: str, width: int) -> None:
    paragraph = wrap([text], width)

    assert all(cell_len(line) <= width for line in paragraph.split("\n"))
    assert "".join(paragraph.split()) == "".join(text.split())
