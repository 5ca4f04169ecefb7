"""Excerpts: the part of a text with the searched words, and their positions in it."""

import re
from collections.abc import Iterable, Sequence

import msgspec

from clew.core.text.words import WORD, stem, words

WIDTH = 240
MOST_LETTERS = 200_000
"""The letters of a text that are looked through; of words behind them, the beginning is shown."""


class Excerpt(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a text on one line; ``marks`` are where the words begin in it, and where they end."""

    text: str
    marks: tuple[tuple[int, int], ...] = ()


def excerpt(text: str, query_words: Iterable[str], width: int = WIDTH) -> Excerpt:
    """The part of a text that holds most of the searched words, in whatever form; else its beginning."""
    line = " ".join(text[:MOST_LETTERS].split())
    matches = _find_matches(line, {stem(word) for word in query_words})
    start, end = _window(line, matches, width)
    before, after = "…" if start else "", "…" if end < len(line) or len(text) > MOST_LETTERS else ""
    shift = len(before) - start
    marks = tuple(
        (first + shift, last + shift) for first, last, _ in matches if start <= first and last <= end
    )
    return Excerpt(text=f"{before}{line[start:end]}{after}", marks=marks)


def _find_matches(line: str, stems: set[str]) -> list[tuple[int, int, str]]:
    """The positions of the words, and which word is at each."""
    if line.isascii():
        # Every form of a word begins as its stem does, but for the last letter of that: most words of a long
        # text are passed over by the pattern, and no stem is made of them.
        line, pattern = line.lower(), _pattern_of_stems(stems)
        candidates = ((match, [match[0]]) for match in pattern.finditer(line))
    else:
        candidates = ((match, words(match[0])) for match in WORD.finditer(line))
    matches = []
    for match, folded_words in candidates:
        roots = [root for word in folded_words if (root := stem(word)) in stems]
        if roots:
            matches.append((match.start(), match.end(), roots[0]))
    return matches


def _pattern_of_stems(stems: set[str]) -> re.Pattern[str]:
    """Words that may have one of the stems."""
    beginnings = "|".join(sorted(re.escape(root[: max(1, len(root) - 1)]) for root in stems))
    return re.compile(rf"(?<![^\W_])(?:{beginnings})[^\W_]*")


def _window(line: str, matches: Sequence[tuple[int, int, str]], width: int) -> tuple[int, int]:
    """The range to show: around the words that are close together, from word to word."""
    if len(line) <= width:
        return 0, len(line)
    best = _densest(matches, width * 3 // 4)
    begin = max(0, min(best - width // 4, len(line) - width))
    if begin:
        begin = line.find(" ", begin, begin + width // 4) + 1 or begin
    end = min(len(line), begin + width)
    if end < len(line):
        end = max(line.rfind(" ", begin, end), begin + width * 3 // 4)
    return begin, end


def _densest(matches: Sequence[tuple[int, int, str]], width: int) -> int:
    """The start of the match after which most of the words are within a width."""
    best, most = 0, 0
    for index, (start, _, _) in enumerate(matches):
        roots: set[str] = set()
        for _, last, root in matches[index:]:
            if last > start + width:
                break
            roots.add(root)
        if len(roots) > most:
            best, most = start, len(roots)
    return best
