"""The figures as a Markdown table and a picture; prose about misses is kept from run to run."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from bench.clock import Timing
from bench.picture import draw
from bench.verdict import Section, Verdict

BEGIN = "<!-- bench: begin (written by `make bench`; only the last column is kept) -->"
END = "<!-- bench: end -->"
SKELETON = f"# Performance\n\n![Append, turn and search beside others](performance.svg)\n\n{BEGIN}\n{END}\n"
DRAWN = ("append", "turns", "search")
"""The claims that are in the picture."""

CLAIMS = "| claim | bound | measured (median / mean) | | what bounds it |\n|---|---|---|---|---|"
TIMINGS = "| | p50 | p99 | mean | per second | how |\n|---|---|---|---|---|---|"


def write(sections: Sequence[Section], folder: Path) -> None:
    """Put the figures between the markers of performance.md and draw performance.svg."""
    page = folder / "performance.md"
    folder.mkdir(parents=True, exist_ok=True)
    text = page.read_text() if page.exists() else SKELETON
    head, rest = text.split(BEGIN)
    old, tail = rest.split(END)
    page.write_text(f"{head}{BEGIN}\n{render(sections, _reasons(old))}\n{END}{tail}")
    (folder / "performance.svg").write_text(draw(sections))


def update(sections: Sequence[Section], folder: Path, day: str) -> None:
    """Put the figures of some claims into performance.md, with the day, and leave all others as they are.

    The picture is drawn anew if everything that is in it was measured.
    """
    page = folder / "performance.md"
    head, rest = page.read_text().split(BEGIN)
    old, tail = rest.split(END)
    table, *parts = old.split("\n## ")
    reasons = _reasons(old)
    rows = {line.split("|")[1].strip(): line for line in table.splitlines() if line.startswith("| ")}
    texts = {part.partition("\n")[0]: part for part in parts}
    for section in sections:
        for verdict in section.verdicts:
            rows[verdict.bound.what] = _claim(verdict, reasons.get(verdict.bound.what, ""))
        dated = replace(section, notes=(*section.notes, f"Measured again on {day}."))
        texts[section.title] = _section(dated).removeprefix("\n## ").rstrip("\n")
    rows.pop("claim", None)
    lines = [_machine(), "", CLAIMS, *rows.values(), ""]
    block = "\n## ".join(["\n".join(lines), *(f"{text.rstrip()}\n" for text in texts.values())])
    page.write_text(f"{head}{BEGIN}\n{block}{END}{tail}")
    if len([section for section in sections if section.caption]) == len(DRAWN):
        (folder / "performance.svg").write_text(draw(sections))


def render(sections: Sequence[Section], reasons: dict[str, str]) -> str:
    """The block between the markers."""
    verdicts = [verdict for section in sections for verdict in section.verdicts]
    rows = [_claim(verdict, reasons.get(verdict.bound.what, "")) for verdict in verdicts]
    return "\n".join([_machine(), "", CLAIMS, *rows, *(_section(section) for section in sections)])


def summary(section: Section) -> str:
    """A section as lines for the terminal."""
    lines = [_line(timing) for timing in section.timings]
    lines += [
        f"  {_mark(verdict)} {verdict.bound.what}: {_values(verdict)} ({verdict.bound})"
        for verdict in section.verdicts
    ]
    return "\n".join([*lines, *(f"  {note}" for note in section.notes)])


def _claim(verdict: Verdict, reason: str) -> str:
    return f"| {verdict.bound.what} | {verdict.bound} | {_values(verdict)} | {_mark(verdict)} | {reason} |"


def _values(verdict: Verdict) -> str:
    return " / ".join(f"{value:.2f}" for value in verdict.values) + f" {verdict.bound.unit}".rstrip()


def _mark(verdict: Verdict) -> str:
    return "✓" if verdict.is_kept else "✗"


def _section(section: Section) -> str:
    table = [TIMINGS, *(_timing(timing) for timing in section.timings)] if section.timings else []
    return "\n".join(["", f"## {section.title}", "", *table, *_paragraphs(section.notes)])


def _paragraphs(notes: Iterable[str]) -> list[str]:
    return [line for note in notes for line in ("", note)]


def _timing(timing: Timing) -> str:
    times = " | ".join(_time(value) for value in (timing.p50, timing.p99, timing.mean))
    return f"| {timing.name} | {times} | {timing.per_second:,.0f} | {timing.detail} |"


def _line(timing: Timing) -> str:
    times = "  ".join(f"{_time(value):>9}" for value in (timing.p50, timing.p99, timing.mean))
    return f"  {timing.name:<34} {times}  {timing.per_second:>8,.0f}/s  {timing.detail}"


def _time(microseconds: float) -> str:
    return f"{microseconds:,.0f} µs" if microseconds < 10_000 else f"{microseconds / 1_000:,.1f} ms"


def _machine() -> str:
    return (
        f"Measured with Python {platform.python_version()} on {platform.system()} {platform.machine()}, "
        f"{os.cpu_count()} cores, each claim in one interleaved run. ✗ marks a miss."
    )


def _reasons(block: str) -> dict[str, str]:
    """The last cell of each claim's row, by claim."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
    return {row[0]: row[-1] for row in rows if len(row) == 5}


def as_json(sections: Sequence[Section]) -> str:
    """Everything measured, for machines."""
    return msgspec.json.format(msgspec.json.encode(sections)).decode()


def tell(line: str) -> None:
    """One line of progress."""
    print(line, file=sys.stderr, flush=True)
