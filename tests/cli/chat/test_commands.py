"""What a line of the chat means, what is offered to complete it, and what is said of a typing error."""

from __future__ import annotations

import pytest

from clew.cli.chat.commands import COMMANDS, parse_command, unknown_command_message
from clew.cli.chat.keyboard import Completion
from clew.cli.chat.screen import short_ids
from clew.cli.chat.session import ChatMode, Participant, new_participant
from clew.core.errors import InvalidId
from clew.runtime.context import MemoryMode

NAMES = (
    "help status context skills history memory forget undo search export threads resume new feedback end exit"
)


def test_the_commands_are_these() -> None:
    assert [command.name for command in COMMANDS] == [f"/{name}" for name in NAMES.split()]


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("/history 5", ("/history", ["5"])),
        ("/HELP", ("/help", [])),
        ("/quit", ("/exit", [])),
        ("/search train  to lisbon", ("/search", ["train", "to", "lisbon"])),
        ("/etc/hosts is where it stands", None),
        ("/", None),
        ("and/or", None),
        ("/2 of it", None),
        ("Hello /help", None),
    ],
)
def test_a_command_is_one_word_of_letters_behind_a_slash(line: str, command: object) -> None:
    assert parse_command(line) == command


@pytest.mark.parametrize(
    ("word", "reply"),
    [
        ("/stauts", "/stauts? Did you mean /status?"),
        ("/hist", "/hist? Did you mean /history?"),
        ("/memroy", "/memroy? Did you mean /memory?"),
        ("/xyzzy", "There is no /xyzzy. /help lists what there is."),
    ],
)
def test_a_typing_error_is_answered_by_what_was_meant(word: str, reply: str) -> None:
    assert unknown_command_message(word) == reply


@pytest.mark.parametrize(
    ("line", "word", "matches"),
    [
        ("/h", "/h", ["/help ", "/history "]),
        ("/resume al", "al", ["alice-1 ", "alice-2 "]),
        ("/resume ", "", ["alice-1 ", "alice-2 ", "bob "]),
        ("/help ", "", []),
        ("hel", "hel", []),
        ("tell /h", "/h", []),
    ],
)
def test_commands_are_completed_and_what_they_take(line: str, word: str, matches: list[str]) -> None:
    completion = Completion({"/resume": lambda: ["alice-1", "alice-2", "bob"]})

    assert completion.find_matches(line, word) == matches


def test_matches_are_given_one_by_one() -> None:
    completion = Completion({})
    completion.find_matches("/h", "/h")

    assert [completion.match(number) for number in range(3)] == ["/help ", "/history ", None]


def test_ids_are_shortened_as_far_as_they_stay_apart() -> None:
    ids = ["fact-aaaaaa1111", "fact-aaaaaa2222", "rule-bbbbbbbbbb", "arc-episode-cccccccc"]

    assert list(short_ids(ids).values()) == [
        "fact-aaaaaa1",
        "fact-aaaaaa2",
        "rule-bbbbbb",
        "arc-episode-cccccc",
    ]


@pytest.mark.promise("R-17")
@pytest.mark.parametrize(
    ("thread", "user", "mode", "who"),
    [
        (None, None, ChatMode.PERSISTENT, Participant(thread="new")),
        ("t", None, ChatMode.PERSISTENT, Participant(thread="t")),
        ("t", "", ChatMode.PERSISTENT, Participant(thread="t")),
        (None, "alice", ChatMode.PERSISTENT, Participant(thread="new", user="alice")),
        ("t", "alice", ChatMode.GUEST, Participant(thread="t", mode=ChatMode.GUEST)),
    ],
)
def test_who_talks_is_said_by_the_options_or_by_the_table(
    thread: str | None, user: str | None, mode: ChatMode, who: Participant
) -> None:
    assert new_participant(thread=thread, user=user, mode=mode, new_id=lambda: "new") == who


def test_a_guest_is_incognito() -> None:
    modes = [Participant(thread="t", mode=mode).memory_mode for mode in ChatMode]

    assert modes == [MemoryMode.INCOGNITO, None]


def test_no_conversation_has_the_name_of_a_memory() -> None:
    with pytest.raises(InvalidId):
        new_participant(thread="memory/alice", user=None, mode=ChatMode.PERSISTENT, new_id=str)
