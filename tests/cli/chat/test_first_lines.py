"""The first lines of a chat."""

from __future__ import annotations

from rich.console import Console

from clew.cli.chat.screen import opening
from clew.cli.chat.session import Participant
from clew_companion.values import LIMITS_NOTICE


def test_a_chat_begins_with_what_it_cannot_do() -> None:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(opening(Participant(thread="a", user="ann"), "offline", [LIMITS_NOTICE]))

    assert LIMITS_NOTICE in capture.get()
