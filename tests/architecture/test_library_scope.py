"""What the library does not know: the crises of the companion."""

from __future__ import annotations

import re
from pathlib import Path

LIBRARY = Path(__file__).parents[2] / "src" / "clew"
CRISIS = re.compile(r"cris[ie]s", re.IGNORECASE)
TEXTS = (".py", ".js", ".html", ".css", ".sql", ".md", ".toml", ".json")


def test_the_library_says_nothing_of_crises() -> None:
    files = [path for path in LIBRARY.rglob("*") if path.suffix in TEXTS]
    mentions = {
        str(path.relative_to(LIBRARY))
        for path in files
        if CRISIS.search(path.name) or CRISIS.search(path.read_text(encoding="utf-8"))
    }

    assert mentions == set()
