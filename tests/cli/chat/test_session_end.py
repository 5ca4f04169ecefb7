"""How the end of a session looks: what it leaves behind, in a terminal of any width; and the last words."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, RenderableType

from clew.cli.chat import screen
from clew.cli.chat.conversation import Tally
from clew.cli.chat.session import ChatMode, Participant
from clew.cli.commands.chat import farewell
from clew.runtime.memory.learn.finalizer import EpisodeMemory
from clew.runtime.memory.values import Arc, Fact, Rule

ARC = Arc(id="arc-1", episode="e", summary="talked about work", open_loops=("ask the boss",))
ANN = Fact(
    id="fact-1234567890",
    category="relationship",
    subject="sister",
    predicate="IS_CALLED",
    object="Ann",
    quote="My sister is called Ann.",
)
SHORT = Rule(id="rule-1234567890", about="manner", text="Keep answers short.")
MEMORY = EpisodeMemory(arc=ARC, facts=(ANN,), rules=(SHORT,))
IDS = {ANN.id: "fact-123456", SHORT.id: "rule-123456"}


def lines_of(renderable: RenderableType, width: int = 80) -> list[str]:
    """The lines of something, without colours."""
    console = Console(file=io.StringIO(), width=width, no_color=True)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_an_end_lists_what_was_learned_with_ids() -> None:
    assert lines_of(screen.session_end(3, MEMORY, IDS, is_complete=True)) == [
        "The session has ended after 3 turns.",
        "  Talked about work.",
        "  Still open: ask the boss.",
        "What is remembered of it",
        "  Keep answers short.  rule-123456",
        "  Your sister is called Ann. You said: “My sister is called Ann.”  fact-123456",
        "/forget ID has it forgotten. Your next message begins another session.",
    ]


def test_an_end_that_taught_nothing_says_so() -> None:
    assert lines_of(screen.session_end(1, EpisodeMemory(), {}, is_complete=True)) == [
        "The session has ended after 1 turn.",
        "Nothing new is remembered.",
        "Your next message begins another session.",
    ]


def test_what_is_still_being_made_is_not_called_nothing() -> None:
    text = "\n".join(lines_of(screen.session_end(1, EpisodeMemory(), {}, is_complete=False)))

    assert "made in the background" in text
    assert "Nothing new" not in text


def test_an_end_fits_a_narrow_terminal() -> None:
    lines = lines_of(screen.session_end(3, MEMORY, IDS, is_complete=True), 40)

    assert max(map(len, lines)) <= 40
    assert "fact-123456" in " ".join(lines)


def test_what_was_learned_cannot_steer_the_terminal() -> None:
    wild = Rule(id="rule-1", about="manner", text="\x1b[2JKeep answers short.")

    assert "\x1b" not in "".join(
        lines_of(screen.session_end(1, EpisodeMemory(rules=(wild,)), {}, is_complete=True))
    )


@pytest.mark.parametrize(("width", "lines"), [(120, 2), (60, 3), (40, 4), (20, 5)])
def test_the_last_words_can_be_given_to_a_shell_as_they_are(width: int, lines: int) -> None:
    who = Participant(thread="s1", user="alice", mode=ChatMode.PERSISTENT)
    text = farewell(Tally(thread="s1", has_thread=True), who, "sqlite:///somewhere/else.db", None, width)
    command = text.partition("\n")[2].replace("\\\n", " ")

    assert len(text.splitlines()) == lines
    assert command.split() == [
        *("clew", "chat", "--thread-id", "s1", "--user-id", "alice"),
        *("--db", "sqlite:///somewhere/else.db"),
    ]
