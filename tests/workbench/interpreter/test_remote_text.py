"""Results of a remote context: asked for without moving a line, and found again however the text is cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.workbench.interpreter.port import DisplayOutput, Output, StreamOutput
from clew.workbench.interpreter.remote import OutputParser, wrap_last_expression


def value_of(code: str) -> list[object]:
    """What code asks to be shown when it is run."""
    values: list[object] = []
    exec(wrap_last_expression(code), {"__clew_result__": values.append})
    return values


@pytest.mark.parametrize(
    ("code", "values"),
    [
        ("1 + 1", [2]),
        ("a = 2\na * 3", [6]),
        ("a = 2", []),
        ("", []),
        ("# only words", []),
        ("1, 2", [(1, 2)]),
        ("(1 +\n 2)", [3]),
        ("'''two\nlines'''  # and a comment", ["two\nlines"]),
        ("1;", []),
        ("1; 2", [2]),
        ("'☕'; '日本' + '語'", ["日本語"]),
        ("a = 1\r\na", [1]),
        ("if True:\n    1", []),
        ("(lambda: 5)()", [5]),
        ("[x for x in range(2)]", [[0, 1]]),
        ("(y := 4)", [4]),
        ("'\x0c'", ["\x0c"]),
    ],
)
def test_the_last_expression_is_asked_for(code: str, values: list[object]) -> None:
    assert value_of(code) == values


def test_lines_keep_their_numbers() -> None:
    code = "a = 1\n\n\n(a\n + b)\n"

    assert wrap_last_expression(code).count("\n") == code.count("\n")


@pytest.mark.parametrize("code", ["this is (not", "print('a\x00')", "%pwd", "(" * 500])
def test_what_cannot_be_read_here_is_left_as_it_is(code: str) -> None:
    assert wrap_last_expression(code) == code


def message(forms: dict[str, str], *, result: bool) -> str:
    return f"\x1e\x1eclew:{json.dumps({'result': result, 'forms': forms})}\x1e"


def outputs_of(pieces: list[str], most: int = 10_000) -> list[Output]:
    listening = OutputParser(most)
    return [output for piece in pieces for output in listening.take(piece)] + listening.flush()


def join_texts(outputs: list[Output]) -> list[Output]:
    """Outputs with neighbouring texts as one."""
    whole: list[Output] = []
    for output in outputs:
        if whole and isinstance(output, StreamOutput) and isinstance(last := whole[-1], StreamOutput):
            whole[-1] = StreamOutput("stdout", last.text + output.text)
        else:
            whole.append(output)
    return whole


@given(
    parts=st.lists(
        st.text(st.characters(exclude_categories=["Cs"])).filter(lambda t: "\x1e" not in t), max_size=4
    ),
    cuts=st.lists(st.integers(1, 12), min_size=1, max_size=50),
)
def test_however_the_text_is_cut_the_same_comes_out(parts: list[str], cuts: list[int]) -> None:
    whole = message({"text/plain": "x\x1e"}, result=True).join(parts)
    pieces: list[str] = []
    place = 0
    while place < len(whole):
        step = cuts[len(pieces) % len(cuts)]
        pieces.append(whole[place : place + step])
        place += step

    assert join_texts(outputs_of(pieces)) == join_texts(outputs_of([whole]))


def test_a_value_is_found_between_texts() -> None:
    outputs = outputs_of(["before", message({"text/plain": "1"}, result=True), "after"])

    assert outputs == [
        StreamOutput("stdout", "before"),
        DisplayOutput({"text/plain": "1"}, result=True),
        StreamOutput("stdout", "after"),
    ]


@pytest.mark.parametrize(
    "text",
    ["\x1e", "\x1e\x1e", "\x1e\x1eclew:", "\x1e\x1eclew:{}\x1e", "\x1e\x1eclew:no\x1e", "a\x1eb"],
)
def test_what_only_looks_like_a_value_is_text(text: str) -> None:
    assert join_texts(outputs_of([text])) == [StreamOutput("stdout", text)]


def test_a_value_without_end_is_not_held_for_ever() -> None:
    outputs = outputs_of(["\x1e\x1eclew:" + "x" * 50] * 3, most=60)

    assert "".join(output.text for output in outputs if isinstance(output, StreamOutput)).count("x") == 150
