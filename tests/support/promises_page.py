"""Render docs/promises.md from the last full run: ``python -m tests.support.promises_page``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tests.support.promises import (
    NO_STORE,
    STORES,
    Group,
    Promise,
    PromiseResult,
    Report,
    merge,
    read_promises,
)
from tests.support.suites import SUITES, Suite

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
REPORTS = ROOT / "build"
PLAIN = "promises.json"
PAGE = ROOT / "docs" / "promises.md"
COLUMNS = (*STORES, NO_STORE)
SIGNS = {"passed": "✓", "failed": "✗", "skipped": "–"}
HEADING = """\
# Promises

What Clew must keep. This page is written by `make test`, `make interop` and `make ha` from the outcome of the
tests that name each promise, never from the marks alone.

✓ shown by passing tests · ✗ a test of it failed · – no test ran. The last column is for what needs no store.
"""
TABLE_HEAD = "| | promise | memory | SQLite | PostgreSQL | no store |\n|---|---|:-:|:-:|:-:|:-:|"


def page(groups: list[Group], report: Report, not_run: Sequence[Suite] = ()) -> str:
    """The whole page, the same for the same report."""
    promises = [promise for group in groups for promise in group.promises]
    passing = sum(_is_shown(report.promises.get(promise.id, {})) for promise in promises)
    count = f"{passing} of {len(promises)} promises have a passing test and no failing one."
    summary = " ".join([count, *(_not_run(suite) for suite in not_run)])
    sections = [_section(group, report) for group in groups]
    return "\n\n".join([HEADING.strip(), summary, *sections, "## In full", _in_full(promises)]) + "\n"


def _not_run(suite: Suite) -> str:
    return (
        f"Not run: `make {suite.name}`, which needs {suite.needs} and is to show {', '.join(suite.promises)}."
    )


def _section(group: Group, report: Report) -> str:
    title = group.title[:1].upper() + group.title[1:]
    rows = [_row(promise, report.promises.get(promise.id, {})) for promise in group.promises]
    return "\n".join([f"## {title}", "", TABLE_HEAD, *rows])


def _row(promise: Promise, by_store: dict[str, PromiseResult]) -> str:
    signs = [SIGNS[by_store[store].outcome] if store in by_store else "–" for store in COLUMNS]
    return "| " + " | ".join([promise.id, promise.title, *signs]) + " |"


def _in_full(promises: list[Promise]) -> str:
    return "\n".join(f"- **{promise.id}** {promise.text}" for promise in promises)


def _is_shown(by_store: dict[str, PromiseResult]) -> bool:
    outcomes = {result.outcome for result in by_store.values()}
    return "passed" in outcomes and "failed" not in outcomes


def read_reports(folder: Path) -> tuple[Report, list[Suite]]:
    """Merge the reports of a folder, and name the suites that showed nothing."""
    paths = {suite: folder / f"promises-{suite.name}.json" for suite in SUITES}
    by_suite = {suite: _read(path) for suite, path in paths.items() if path.exists()}
    not_run = [suite for suite in SUITES if suite not in by_suite or not by_suite[suite].promises]
    return merge([_read(folder / PLAIN), *by_suite.values()]), not_run


def _read(path: Path) -> Report:
    return msgspec.json.decode(path.read_bytes(), type=Report)


def main() -> int:
    """Write the page, unless a run is missing or lost tests, and so cannot speak for all of them."""
    if not (REPORTS / PLAIN).exists():  # a suite has run alone, and that is no failure
        print("docs/promises.md is left as it was: it needs a run of make test too.", file=sys.stderr)  # noqa: T201
        return 0
    report, not_run = read_reports(REPORTS)
    if report.lost:
        print("docs/promises.md is left as it was; the process died under:", *report.lost, file=sys.stderr)  # noqa: T201
        return 1
    PAGE.write_text(page(read_promises(), report, not_run), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
