"""Text that comes bit by bit, broken between words where a terminal's line ends."""

from rich.cells import cell_len, set_cell_size

JOINER = "\u200d"
CLOSING = frozenset("、。，．！？：；）」』】》〉・ー…”’)]}")
"""What no line begins with."""


class Wrapping:
    """Lines of so many cells, each indented. A word is held back until it is whole.

    Between wide letters, as in Chinese or Japanese, a line may end too; a word wider than a line is cut.
    """

    def __init__(self, width: int, indent: str = "") -> None:
        self._indent = indent
        self._room = max(width - cell_len(indent), 2)
        self._word = ""
        self._begin()

    def _begin(self) -> None:
        self._column, self._gap, self._is_empty = 0, "", True

    def add(self, text: str) -> str:
        """What can be written now that this has come."""
        return "".join(map(self._letter, text.replace("\r\n", "\n").expandtabs(4)))

    def end(self) -> str:
        """What was held back, and the end of the last line."""
        last = self._whole_word()
        ended = "" if self._is_empty else "\n"
        self._begin()
        return last + ended

    def _letter(self, letter: str) -> str:
        if letter == "\n":
            done = self._whole_word() + "\n"
            self._begin()
        elif letter == " ":
            done = self._whole_word()
            self._gap += " "
        else:
            done = self._whole_word() if self._may_break(letter) else ""
            self._word += letter
        return done

    def _may_break(self, letter: str) -> bool:
        """Whether a line may end before this letter, in the middle of a word."""
        if not self._word or letter in CLOSING or self._word.endswith(JOINER) or cell_len(letter) == 0:
            return False
        return cell_len(letter) > 1 or cell_len(self._word[-1]) > 1

    def _whole_word(self) -> str:
        """The word that was held back, on this line or on the next."""
        if not self._word:
            return ""
        done = ""
        if self._column and self._column + len(self._gap) + cell_len(self._word) > self._room:
            done = "\n"
            self._begin()
        gap = self._gap[: self._room - 1]
        done += (self._indent if self._is_empty else "") + gap
        self._column, self._gap, self._is_empty = self._column + len(gap), "", False
        return done + self._cut()

    def _cut(self) -> str:
        """The word that was held back, in as many lines as it takes."""
        done = ""
        while self._column + cell_len(self._word) > self._room:
            piece = set_cell_size(self._word, self._room - self._column).rstrip(" ")
            done += f"{piece}\n{self._indent}"
            self._word, self._column = self._word[len(piece) :], 0
        done, self._column, self._word = done + self._word, self._column + cell_len(self._word), ""
        return done
