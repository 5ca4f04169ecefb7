"""What goes to a remote context and comes back is text: results are asked for and found again in it."""

import ast
import re

import msgspec

from clew.workbench.interpreter.port import Output, Printed, Shown

_MARK, _END = "\x1e\x1eclew:", "\x1e"


class _Said(msgspec.Struct):
    result: bool
    forms: dict[str, str]


def asking_for_result(code: str) -> str:
    """The code, with its last expression handed to what shows it; lines keep their numbers."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return code
    if not tree.body or not isinstance(last := tree.body[-1], ast.Expr):
        return code
    assert last.end_lineno is not None
    assert last.end_col_offset is not None
    source = code.encode()
    lines = [0, *(found.end() for found in re.finditer(rb"\r\n|\r|\n", source))]
    start = lines[last.lineno - 1] + last.col_offset
    end = lines[last.end_lineno - 1] + last.end_col_offset
    if source[end:].lstrip().startswith(b";"):
        return code
    spliced = source[:start] + b"__clew_result__((" + source[start:end] + b"))" + source[end:]
    return spliced.decode()


class Listening:
    """Takes what a context prints, piece by piece, and gives texts and shown values."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = ""

    def take(self, text: str) -> list[Output]:
        """What can be told so far; the beginning of a mark is held until the rest has come."""
        self._held += text
        given: list[Output] = []
        while True:
            before, mark, after = self._held.partition(_MARK)
            if not mark:
                keep = _beginning(self._held)
                given += _printed(self._held[: len(self._held) - keep])
                self._held = self._held[len(self._held) - keep :]
                return given
            said, end, rest = after.partition(_END)
            if not end and len(said) <= self._most:
                given += _printed(before)
                self._held = mark + after
                return given
            given += _printed(before)
            given += _shown(said) if end else _printed(mark + said)
            self._held = rest

    def rest(self) -> list[Output]:
        """What is left when nothing more comes."""
        held, self._held = self._held, ""
        return _printed(held)


def _beginning(text: str) -> int:
    """How many characters at the end may be the beginning of a mark."""
    return next((size for size in range(len(_MARK) - 1, 0, -1) if text.endswith(_MARK[:size])), 0)


def _printed(text: str) -> list[Output]:
    return [Printed("stdout", text)] if text else []


def _shown(said: str) -> list[Output]:
    try:
        found = msgspec.json.decode(said, type=_Said)
    except msgspec.DecodeError:
        return _printed(_MARK + said + _END)
    return [Shown(found.forms, result=found.result)]
