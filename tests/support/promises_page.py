"""Render docs/promises.md from the last full run: ``python -m tests.support.promises_page``."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from tests.support.promises import NO_STORE, STORES, Group, Promise, Report, Shown, read_promises

ROOT = Path(__file__).parents[2]
REPORT = ROOT / "build" / "promises.json"
PAGE = ROOT / "docs" / "promises.md"
COLUMNS = (*STORES, NO_STORE)
SIGNS = {"passed": "✓", "failed": "✗", "skipped": "–"}
HEADING = """\
# Promises

What Clew must keep. This page is written by `make test` from the outcome of the tests that name each
promise, never from the marks alone.

✓ shown by passing tests · ✗ a test of it failed · – no test ran. The last column is for what needs no store.
"""
TABLE_HEAD = "| | promise | memory | SQLite | PostgreSQL | no store |\n|---|---|:-:|:-:|:-:|:-:|"


def page(groups: list[Group], report: Report) -> str:
    """The whole page, the same for the same report."""
    promises = [promise for group in groups for promise in group.promises]
    shown = sum(_is_shown(report.promises.get(promise.id, {})) for promise in promises)
    count = f"{shown} of {len(promises)} promises have a passing test and no failing one."
    sections = [_section(group, report) for group in groups]
    return "\n\n".join([HEADING.strip(), count, *sections, "## In full", _in_full(promises)]) + "\n"


def _section(group: Group, report: Report) -> str:
    title = group.title[:1].upper() + group.title[1:]
    rows = [_row(promise, report.promises.get(promise.id, {})) for promise in group.promises]
    return "\n".join([f"## {title}", "", TABLE_HEAD, *rows])


def _row(promise: Promise, by_store: dict[str, Shown]) -> str:
    signs = [SIGNS[by_store[store].outcome] if store in by_store else "–" for store in COLUMNS]
    return "| " + " | ".join([promise.id, promise.title, *signs]) + " |"


def _in_full(promises: list[Promise]) -> str:
    return "\n".join(f"- **{promise.id}** {promise.text}" for promise in promises)


def _is_shown(by_store: dict[str, Shown]) -> bool:
    outcomes = {shown.outcome for shown in by_store.values()}
    return "passed" in outcomes and "failed" not in outcomes


def main() -> int:
    """Write the page, unless the run lost tests and so cannot speak for all of them."""
    report = msgspec.json.decode(REPORT.read_bytes(), type=Report)
    if report.lost:
        print("docs/promises.md is left as it was; the process died under:", *report.lost, file=sys.stderr)  # noqa: T201
        return 1
    PAGE.write_text(page(read_promises(), report), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
