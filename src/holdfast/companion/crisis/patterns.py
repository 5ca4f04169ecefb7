"""The small language that signs are written in, and finding them in plain words.

``word`` stands for itself and ``word*`` for all that begins with it. ``(a|b c)`` is one of several, ``(a)?``
may be missing, ``<list>`` is one of a named list. ``..`` leaves room for three words, ``...`` for seven, both
within a sentence; ``//`` goes on in the next sentences.
"""

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.companion.crisis.words import simple

_AFTER = r' (?:[,"] )*'
_GAPS = {
    "..": r"((?:[^ .,]+ (?:[,\"] )*){0,3}?)",
    "...": r"((?:[^ .,]+ (?:[,\"] )*){0,7}?)",
    "//": r"((?:[^ ]+ ){0,14}?)",
}
_STRAY = re.compile(r"[()<>]")
_PARTS = re.compile(r"\(([^()]*)\)(\?)?|<(\w+)>(\?)?|(\S+)")


@dataclass(frozen=True)
class Pattern:
    """A compiled pattern, and what must be there for it to be worth trying: a word of each alternative."""

    source: str
    needs: tuple[tuple[str, ...], ...]

    @functools.cached_property
    def expression(self) -> re.Pattern[str]:
        """What finds it. Compiled when it is first tried: most never are."""
        return re.compile(self.source)


def pattern(source: str, lists: Mapping[str, Sequence[str]]) -> Pattern:
    """Compile a pattern.

    Raises:
        ValueError: It cannot be read: a list or a bracket stands within another.
    """
    if _STRAY.search(_PARTS.sub(lambda part: part[5] or part[1] or "", source)):
        raise ValueError(f"The pattern {source!r} cannot be read.")
    expression, needs = ["(?<= )"], []
    for group, optional, name, maybe, word in _PARTS.findall(source):
        if word in _GAPS:
            expression.append(_GAPS[word])
            continue
        choices = [simple(one) for one in (lists[name] if name else (group or word).split("|"))]
        either = "|".join(_sequence(one) for one in sorted(choices, key=len, reverse=True))
        expression.append(f"(?:{either}){'?' if optional or maybe else ''}")
        if not (optional or maybe):
            needs.append(tuple(max(one.split(), key=len) for one in choices))
    return Pattern("".join(expression), tuple(needs))


def _sequence(text: str) -> str:
    return "".join(
        (re.escape(word[:-1]) + "[^ ]*" if word.endswith("*") else re.escape(word)) + _AFTER
        for word in text.split()
    )


def vocabulary(patterns: Iterable[Pattern]) -> set[str]:
    """The words that patterns look for."""
    return {word for one in patterns for words in one.needs for word in words if not word.endswith("*")}


class Index:
    """Patterns by the rarest word that each of them needs, so that few are tried on a message."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self.patterns = patterns
        count = Counter(word for one in patterns for words in one.needs for word in words)
        self._whole: dict[str, set[int]] = defaultdict(set)
        self._begun: dict[str, set[int]] = defaultdict(set)
        for number, one in enumerate(patterns):
            for word in min(one.needs, key=lambda words: sum(count[word] for word in words)):
                if word.endswith("*"):
                    self._begun[word[:-1]].add(number)
                else:
                    self._whole[word].add(number)
        self._lengths = sorted({len(start) for start in self._begun})

    def worth_trying(self, words: Iterable[str]) -> set[int]:
        """The numbers of the patterns whose rarest word is there."""
        found: set[int] = set()
        for word in words:
            found |= self._whole.get(word, _NONE)
            for length in self._lengths:
                if length > len(word):
                    break
                found |= self._begun.get(word[:length], _NONE)
        return found


_NONE: frozenset[int] = frozenset()
