"""The chat in a real terminal: what a person sees, types, stops and comes back to."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

import pytest

import clew
from clew.cli.chat.commands import COMMANDS
from clew.core.values import RecordQuery
from clew.runtime.records.episodes import EPISODE, episode_of
from clew.runtime.records.feedback import FEEDBACK
from tests.support.embedders import SPELLING
from tests.support.terminal import ROOT, Terminal, terminal

COMMAND = str(Path(sys.executable).with_name("clew"))
SLOW = [sys.executable, "-m", "tests.cli.chat.slow_chat"]
MARK = "›"
WIDE = "我最近很焦虑，因为星期五有考试，所以睡不着，也吃不下。"
OBJECTS = "A mug, a lamp, a chair, a book and my hand"
GREETING = """I should say that I run without a language model just now: I am a small program that listens,
gives back what it hears and knows some exercises."""
Open: TypeAlias = Callable[..., Terminal]

pytestmark = pytest.mark.slow


@pytest.fixture
def open_chat(tmp_path: Path) -> Iterator[Open]:
    """A chat in a terminal of its own, of a size, once it waits for the first line."""
    with ExitStack() as stack:
        count = iter(range(10))

        def open_terminal(
            *arguments: str, width: int = 80, slow: bool = False, **environment: str
        ) -> Terminal:
            directory = tmp_path / f"terminal-{next(count)}"
            directory.mkdir()
            chat = stack.enter_context(terminal(directory, width=width))
            settings = {"GO_ON": str(tmp_path / "go"), "PYTHONPATH": str(ROOT), **environment}
            program = SLOW if slow else [COMMAND]
            chat.start([*program, "chat", "--db", str(tmp_path / "chat.db"), *arguments], settings)
            chat.wait_for(MARK)
            return chat

        yield open_terminal


def say(chat: Terminal, line: str) -> str:
    """Type a line and wait until the next one is asked for; all that stands on the screen then."""
    chat.type(line)
    return chat.wait_for(f"\n{MARK}", after=f"{MARK} {line}")


def answer(screen: str, line: str) -> str:
    """What stands behind a line, as one line."""
    return " ".join(screen.rpartition(f"{MARK} {line}")[2].split()).removesuffix(MARK).strip()


def rows(tmp_path: Path, kind: str) -> list[clew.Record]:
    async def read_records() -> list[clew.Record]:
        async with clew.open(f"sqlite:///{tmp_path / 'chat.db'}") as db:
            return list(await db.records.find(RecordQuery(kind=kind)))

    return asyncio.run(read_records())


@pytest.mark.promise("R-08", "R-18", "R-20", "R-23")
def test_three_turns_a_crash_an_end_and_another_thread_that_knows(open_chat: Open, tmp_path: Path) -> None:
    chat = open_chat("--thread-id", "alice-s1", "--user-id", "alice")
    say(chat, "Hi there")
    say(chat, "I've been feeling anxious about my exam")
    screen = say(chat, "Can we do a grounding exercise?")
    chat.kill()
    again = open_chat("--thread-id", "alice-s1", "--user-id", "alice")
    opening = again.screen()
    goes_on = say(again, OBJECTS)
    again.type("/end")
    again.wait_for("Did this help?")
    again.type("y")
    again.wait_for("The session has ended after 4 turns.")
    again.press("C-d")
    again.wait_for("[ended with 0]")
    second = open_chat("--thread-id", "alice-s2", "--user-id", "alice")

    assert "Tell me five things you can see" in answer(screen, "Can we do a grounding exercise?")
    assert "This session is still open, with 3 turns." in opening
    assert "four things" in answer(goes_on, OBJECTS)
    assert "Last session (anxiety, work): talked about anxiety and work." in " ".join(second.screen().split())
    assert "Last time it was about anxiety" in answer(say(second, "Hey"), "Hey")
    assert [(record.body["label"], record.body["turns"]) for record in rows(tmp_path, FEEDBACK)] == [
        ("positive", 4)
    ]


def test_ctrl_c_stops_the_answer_and_not_the_chat(open_chat: Open, tmp_path: Path) -> None:
    chat = open_chat("--thread-id", "t1", slow=True)
    chat.type("Tell me about your day")
    chat.wait_for("It begins well.")
    chat.press("C-c")
    chat.wait_for("Stopped. Ctrl-C again leaves.\n›")
    (tmp_path / "go").touch()
    screen = say(chat, "And now?")
    history = answer(say(chat, "/history"), "/history")

    assert answer(screen, "And now?") == "It begins well. It goes on. And it ends well."
    assert history == "› Tell me about your day › And now? It begins well. It goes on. And it ends well."


def test_ctrl_c_throws_a_line_away_and_leaves_if_there_is_none(open_chat: Open) -> None:
    chat = open_chat("--thread-id", "t1")
    chat.keys("half a line")
    chat.wait_for("half a line")
    chat.press("C-c")  # readline waits: what was typed shows
    chat.wait_for("\n›", after="half a line")
    chat.interrupt("Ctrl-C again, Ctrl-D or /exit leaves.\n›")

    assert "Goodbye." in chat.interrupt("[ended with 0]")


@pytest.mark.promise("R-20", "R-24")
def test_an_answer_that_a_crash_cut_off_can_be_finished(open_chat: Open, tmp_path: Path) -> None:
    chat = open_chat("--thread-id", "t1", slow=True)
    chat.type("Tell me about your day")
    chat.wait_for("It begins well.")
    chat.kill()
    (tmp_path / "go").touch()
    again = open_chat("--thread-id", "t1", slow=True)

    assert "› Tell me about your day" in again.wait_for("The last answer was cut off.")
    assert answer(say(again, "/resume"), "/resume") == "It begins well. It goes on. And it ends well."


@pytest.mark.promise("R-08", "R-11", "R-23")
def test_ctrl_c_at_the_feedback_and_ctrl_d_end_the_session_all_the_same(
    open_chat: Open, tmp_path: Path
) -> None:
    chat = open_chat("--thread-id", "t1")
    say(chat, "Hello")
    chat.type("/end")
    chat.wait_for("Did this help? y/n/s (Enter skips):")
    chat.press("C-c")
    chat.wait_for("The session has ended after 1 turn.")
    say(chat, "Once more")
    chat.press("C-d")
    chat.wait_for("clew chat --thread-id t1", "[ended with 0]")

    assert sorted(str(episode_of(row).ended_by) for row in rows(tmp_path, EPISODE)) == ["cli", "shutdown"]
    assert rows(tmp_path, FEEDBACK) == []


def test_tab_completes_and_typing_errors_are_understood(open_chat: Open) -> None:
    chat = open_chat("--thread-id", "t1")
    chat.keys("/sta")
    chat.press("Tab", "Enter")
    chat.wait_for("session  none")

    assert "/stauts? Did you mean /status?" in say(chat, "/stauts")


def test_what_is_pasted_is_one_message(open_chat: Open) -> None:
    chat = open_chat("--thread-id", "t1")
    chat.paste("Dear diary,\nit was a grey day\nand I was tired.")
    chat.wait_for("and I was tired.")
    chat.press("Enter")
    chat.wait_for(f"\n{MARK}", after="I was tired.")

    assert "active, 1 turn" in say(chat, "/status")


@pytest.mark.parametrize("width", [40, 80])
def test_no_line_is_broken_inside_a_word(open_chat: Open, width: int) -> None:
    chat = open_chat("--thread-id", "t1", width=width)
    screen = say(chat, "Hi")
    chat.type(WIDE)
    chat.wait_for(f"\n{MARK}", after=WIDE[-4:])
    history = answer(say(chat, "/history"), "/history")
    help_text = say(chat, "/help").rpartition("/help\n")[2]

    assert answer(screen, "Hi").endswith(" ".join(GREETING.split()))
    assert WIDE in "".join(history.split())
    assert " ".join(GREETING.split()) in history
    assert {word for command in COMMANDS for word in command.description.split()} <= set(help_text.split())


@pytest.mark.promise("R-14", "R-17")
def test_a_guest_is_told_so(open_chat: Open, tmp_path: Path) -> None:
    chat = open_chat("--mode", "guest", "--user-id", "alice")
    screen = say(chat, "/status")
    chat.press("C-d")

    assert "You are a guest: nothing you say is written to disk" in screen
    assert "none, as a guest" in screen
    assert "Goodbye. Nothing is kept." in chat.wait_for("[ended with 0]")
    assert not (tmp_path / "chat.db").exists()


@pytest.mark.parametrize(("settings", "has_colours"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colours_are_left_out_for_whoever_wants_none(
    open_chat: Open, settings: dict[str, str], *, has_colours: bool
) -> None:
    chat = open_chat("--mode", "guest", **settings)
    chat.type("/nope")
    chat.wait_for("Did you mean")

    assert ("\x1b[33m" in chat.screen(colours=True)) is has_colours
    assert ("\x1b[1m\x1b[36m" in chat.screen(colours=True)) is has_colours


@pytest.mark.promise("A-04", "R-18")
@pytest.mark.parametrize("width", [80, 120])
def test_the_panel_shows_what_an_answer_was_made_with(open_chat: Open, width: int) -> None:
    first = open_chat("--thread-id", "a1", "--user-id", "alice")
    say(first, "My sister is called Ann. Please keep your answers short.")
    say(first, "/end y")
    chat = open_chat(
        "--thread-id",
        "a2",
        "--user-id",
        "alice",
        "--embedder",
        SPELLING,
        width=width,
    )
    say(chat, "/context on")
    chat.type("How can I help my sister?")
    screen = chat.wait_for("What this answer was made with", f"\n{MARK}", after="How can I help my sister?")
    rows = screen.rpartition("What this answer was made with")[2].splitlines()

    assert max(map(len, screen.splitlines())) <= width
    assert "  route           therapeutic" in rows
    assert "  retrieval       hybrid_rrf" in rows
    assert "  rules           Keep answers short." in rows
    assert '[relationship] sister IS_CALLED Ann — "My sister is called Ann."' in " ".join(
        line.strip() for line in rows
    )
