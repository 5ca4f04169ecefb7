"""A picture of the figures: plain bars in plain SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from bench.clock import Timing
from bench.verdict import Section

WIDTH, LABELS, FIGURES, BAR, GAP, TITLE = 860, 250, 180, 20, 10, 44
PICTURE_TITLE = "append one turn"
OURS, OTHERS, FLOOR = "#0b7a75", "#9aa5b1", "#d8dee4"
STYLE = "text{font:13px system-ui,sans-serif;fill:#1f2933}.t{font-weight:600}.n{fill:#52606d}"


def draw(sections: Sequence[Section]) -> str:
    """Bars of the median for every section about appending one turn."""
    parts: list[str] = []
    top = 0
    for section in sections:
        if section.title.endswith(PICTURE_TITLE):
            parts.append(_group(section, top))
            top += TITLE + len(_timings_of(section)) * (BAR + GAP) + GAP
    style = f'<style>{STYLE}</style><rect width="100%" height="100%" fill="#fff"/>'
    size = f'width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}"'
    label = 'role="img" aria-label="Time to append one turn, median and 99th percentile"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {label}>{style}{"".join(parts)}</svg>\n'


def _group(section: Section, top: int) -> str:
    timings = _timings_of(section)
    bars = [
        _bar(timing, top + TITLE + row * (BAR + GAP), timings[-1].p50) for row, timing in enumerate(timings)
    ]
    title = f"{escape(section.title)}: median and 99th percentile (shorter is better)"
    return f'<text class="t" x="12" y="{top + 28}">{title}</text>' + "".join(bars)


def _timings_of(section: Section) -> list[Timing]:
    """Those that store a turn, the quickest first."""
    storing = [timing for timing in section.timings if not timing.name.startswith("bare")]
    return sorted(storing, key=lambda timing: timing.p50)


def _bar(timing: Timing, y: int, longest: float) -> str:
    length = max(1.0, (WIDTH - LABELS - FIGURES) * timing.p50 / longest)
    middle, colour = y + BAR / 2 + 4, _colour(timing.name)
    figures = f"{_time(timing.p50)} (p99 {_time(timing.p99)})"
    return (
        f'<text x="{LABELS - 8}" y="{middle:g}" text-anchor="end">{escape(timing.name)}</text>'
        f'<rect x="{LABELS}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2" fill="{colour}"/>'
        f'<text class="n" x="{LABELS + length + 6:.1f}" y="{middle:g}">{figures}</text>'
    )


def _colour(name: str) -> str:
    if name == "Clew":
        return OURS
    return FLOOR if name.startswith("raw") else OTHERS


def _time(microseconds: float) -> str:
    return f"{microseconds / 1_000:,.2f} ms"
