"""A picture of the figures: plain bars in plain SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from bench.clock import Timing
from bench.verdict import Section

WIDTH, LABELS, BAR, GAP, TITLE = 860, 270, 20, 10, 44
PICTURED = "append one turn"
OURS, OTHERS, FLOOR = "#0b7a75", "#9aa5b1", "#d8dee4"
STYLE = "text{font:13px system-ui,sans-serif;fill:#1f2933}.t{font-weight:600}.n{fill:#52606d}"


def drawn(sections: Sequence[Section]) -> str:
    """Bars of the median for every section about appending one turn; a thin line reaches to p99."""
    parts: list[str] = []
    top = 0
    for section in sections:
        if section.title.endswith(PICTURED):
            parts.append(_group(section, top))
            top += TITLE + len(section.timings) * (BAR + GAP) + GAP
    style = f'<style>{STYLE}</style><rect width="100%" height="100%" fill="#fff"/>'
    size = f'width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}"'
    label = 'role="img" aria-label="Time to append one turn, median and 99th percentile"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {label}>{style}{"".join(parts)}</svg>\n'


def _group(section: Section, top: int) -> str:
    longest = max(timing.p50 for timing in section.timings)
    ordered = sorted(section.timings, key=lambda timing: timing.p50)
    bars = [_bar(timing, top + TITLE + row * (BAR + GAP), longest) for row, timing in enumerate(ordered)]
    title = f"{escape(section.title)}: median, line to the 99th percentile (shorter is better)"
    return f'<text class="t" x="12" y="{top + 28}">{title}</text>' + "".join(bars)


def _bar(timing: Timing, y: int, longest: float) -> str:
    room = WIDTH - LABELS - 90
    length, reach = (max(1.0, room * min(value / longest, 1.12)) for value in (timing.p50, timing.p99))
    middle, colour = y + BAR / 2, _colour(timing.name)
    return (
        f'<text x="{LABELS - 8}" y="{middle + 4:g}" text-anchor="end">{escape(timing.name)}</text>'
        f'<rect x="{LABELS}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2" fill="{colour}"/>'
        f'<path d="M{LABELS + length:.1f} {middle:g}H{LABELS + reach:.1f}" stroke="#52606d"/>'
        f'<text class="n" x="{LABELS + reach + 6:.1f}" y="{middle + 4:g}">{_time(timing.p50)}</text>'
    )


def _colour(name: str) -> str:
    if name == "Holdfast":
        return OURS
    return FLOOR if name.startswith(("raw", "bare")) else OTHERS


def _time(microseconds: float) -> str:
    return f"{microseconds / 1_000:,.2f} ms"
