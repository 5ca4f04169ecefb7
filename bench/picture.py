"""A picture of the figures: plain bars in plain SVG, for a reader who has a few seconds."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from bench.clock import Timing
from bench.verdict import Section

WIDTH, LABELS, FIGURES, BAR, GAP, TITLE = 860, 270, 150, 20, 10, 44
LONGEST = 8
"""The longest bar, in bars of ours; the end of a longer one is broken off, or ours could not be seen."""

OURS, OTHERS, FLOOR = "#0b7a75", "#9aa5b1", "#d8dee4"
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1f2933}.t{font-weight:600}.n{fill:#52606d}.o{font-weight:600}"
)


def draw(sections: Sequence[Section]) -> str:
    """Bars of the median for every section that has a caption."""
    parts: list[str] = []
    top = 0
    captions = [section.caption for section in sections if section.caption]
    for section in sections:
        if section.caption:
            parts.append(_group(section, top))
            top += TITLE + len(_timings_of(section)) * (BAR + GAP) + GAP
    style = f'<style>{STYLE}</style><rect width="100%" height="100%" fill="#fff"/>'
    size = f'width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}"'
    label = f'role="img" aria-label="{escape("; ".join(captions))}: medians, shorter is better"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {label}>{style}{"".join(parts)}</svg>\n'


def _group(section: Section, top: int) -> str:
    timings = _timings_of(section)
    limit = min(timings[-1].p50, LONGEST * min(timing.p50 for timing in timings if _is_ours(timing)))
    bars = [_bar(timing, top + TITLE + row * (BAR + GAP), limit) for row, timing in enumerate(timings)]
    title = f"{escape(section.caption)} (median; shorter is better)"
    return f'<text class="t" x="12" y="{top + 28}">{title}</text>' + "".join(bars)


def _timings_of(section: Section) -> list[Timing]:
    """Those that do the whole of it, the quickest first."""
    whole = [timing for timing in section.timings if not timing.name.startswith("bare")]
    return sorted(whole, key=lambda timing: timing.p50)


def _bar(timing: Timing, y: int, limit: float) -> str:
    length = max(1.0, (WIDTH - LABELS - FIGURES) * min(1.0, timing.p50 / limit))
    middle, style, name = y + BAR / 2 + 4, "o" if _is_ours(timing) else "n", escape(timing.name)
    return (
        f'<text class="{style}" x="{LABELS - 8}" y="{middle:g}" text-anchor="end">{name}</text>'
        f'<rect x="{LABELS}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2" fill="{_colour(timing)}"/>'
        f"{_break(LABELS + length, y) if timing.p50 > limit else ''}"
        f'<text class="{style}" x="{LABELS + length + 6:.1f}" y="{middle:g}">{_time(timing.p50)}</text>'
    )


def _break(end: float, y: int) -> str:
    """Two white strokes through a bar that would be longer."""
    strokes = [f"M{end - at:.1f} {y + BAR}l8 -{BAR}" for at in (34, 26)]
    return f'<path d="{"".join(strokes)}" stroke="#fff" stroke-width="3"/>'


def _is_ours(timing: Timing) -> bool:
    return timing.name.startswith("Clew")


def _colour(timing: Timing) -> str:
    if _is_ours(timing):
        return OURS
    return FLOOR if timing.name.startswith("raw") else OTHERS


def _time(microseconds: float) -> str:
    return f"{microseconds / 1_000:,.2f} ms"
