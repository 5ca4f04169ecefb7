"""Completion: what a line may go on with."""

from collections.abc import Callable, Mapping, Sequence

from clew.cli.chat.commands import NAMES

Words = Callable[[], Sequence[str]]


class Completion:
    """Completes commands, and behind a command what it takes. Matches are asked for one after another."""

    def __init__(self, words: Mapping[str, Words]) -> None:
        self._words = words
        self._found: list[str] = []

    def look(self, line: str, word: str) -> list[str]:
        """What the last word of a line may become."""
        before = line[: len(line) - len(word)].split()
        if before:
            offered: Sequence[str] = self._words[before[0]]() if before[0] in self._words else ()
        else:
            offered = list(NAMES) if word.startswith("/") else ()
        self._found = [f"{each} " for each in offered if each.startswith(word)]
        return self._found

    def match(self, number: int) -> str | None:
        """One of the matches, by its number."""
        return self._found[number] if number < len(self._found) else None
