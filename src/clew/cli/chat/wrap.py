"""Text that comes bit by bit, broken between words where a terminal's line ends."""

from rich.cells import cell_len, set_cell_size

JOINER = "\u200d"
NO_LINE_START = frozenset("、。，．！？：；）」』】》〉・ー…”’)]}")
"""What no line begins with."""


class LineWrapper:
    """Lines of so many cells, each indented. A word is held back until it is whole.

    Between wide letters, as in Chinese or Japanese, a line may end too; a word wider than a line is cut.
    """

    def __init__(self, width: int, indent: str = "") -> None:
        self._indent = indent
        self._room = max(width - cell_len(indent), 2)
        self._word = ""
        self._begin_line()

    def _begin_line(self) -> None:
        self._column, self._gap, self._is_empty = 0, "", True

    def add(self, text: str) -> str:
        """The text that can be written after this piece."""
        return "".join(map(self._add_letter, text.replace("\r\n", "\n").expandtabs(4)))

    def end(self) -> str:
        """The text held back, and the end of the last line."""
        word = self._flush_word()
        line_end = "" if self._is_empty else "\n"
        self._begin_line()
        return word + line_end

    def _add_letter(self, letter: str) -> str:
        if letter == "\n":
            text = self._flush_word() + "\n"
            self._begin_line()
        elif letter == " ":
            text = self._flush_word()
            self._gap += " "
        else:
            text = self._flush_word() if self._may_break(letter) else ""
            self._word += letter
        return text

    def _may_break(self, letter: str) -> bool:
        """Return whether a line may end before this letter, in the middle of a word."""
        if not self._word or letter in NO_LINE_START or self._word.endswith(JOINER) or cell_len(letter) == 0:
            return False
        return cell_len(letter) > 1 or cell_len(self._word[-1]) > 1

    def _flush_word(self) -> str:
        """The word that was held back, on this line or on the next."""
        if not self._word:
            return ""
        text = ""
        if self._column and self._column + len(self._gap) + cell_len(self._word) > self._room:
            text = "\n"
            self._begin_line()
        gap = self._gap[: self._room - 1]
        text += (self._indent if self._is_empty else "") + gap
        self._column, self._gap, self._is_empty = self._column + len(gap), "", False
        return text + self._break_word()

    def _break_word(self) -> str:
        """The word that was held back, in as many lines as it takes."""
        text = ""
        while self._column + cell_len(self._word) > self._room:
            piece = set_cell_size(self._word, self._room - self._column).rstrip(" ")
            text += f"{piece}\n{self._indent}"
            self._word, self._column = self._word[len(piece) :], 0
        text, self._column, self._word = text + self._word, self._column + cell_len(self._word), ""
        return text
