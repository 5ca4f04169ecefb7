"""What ``clew.runtime.memory`` offers, and that the reference names all of it."""

from __future__ import annotations

import re
from pathlib import Path

import clew.runtime.memory as memory

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "runtime.md"


def test_every_name_is_there_and_says_what_it_is() -> None:
    assert [name for name in memory.__all__ if not getattr(memory, name).__doc__] == []


def test_every_name_is_in_the_reference() -> None:
    page = REFERENCE.read_text(encoding="utf-8")

    assert [name for name in memory.__all__ if not re.search(rf"^\| `{name}\b", page, re.MULTILINE)] == []
