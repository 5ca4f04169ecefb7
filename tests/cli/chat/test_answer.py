"""How an answer looks while it comes, and what is made of it in the end."""

from __future__ import annotations

import io

from rich.console import Console

from clew.cli.chat.answer import ChatReply, ReplyCollector, ReplyWriter
from clew.runtime.model.messages import Message
from clew.runtime.records.events import Event, MessageAdded, RunFinished, RunStarted, StageStarted, TextDelta

LABELS = {"triage": "Understanding"}


def output_of(*events: Event, terminal: bool = False) -> str:
    """What a person sees of an answer."""
    out = io.StringIO()
    width = {"TERM": "xterm", "COLUMNS": "60", "NO_COLOR": "1"}
    live = ReplyWriter(Console(file=out, force_terminal=terminal, _environ=width), LABELS)
    for event in events:
        live.show_event(event)
    live.end()
    return out.getvalue()


def message_event(text: str) -> MessageAdded:
    return MessageAdded(message=Message(role="assistant", content=text))


def test_what_was_streamed_is_not_written_twice() -> None:
    assert (
        output_of(TextDelta(text="Hel", step=0), TextDelta(text="lo.", step=0), message_event("Hello."))
        == "  Hello.\n"
    )


def test_what_was_not_streamed_is_written_whole() -> None:
    assert output_of(message_event("Hello.")) == "  Hello.\n"


def test_what_was_kept_otherwise_than_it_was_streamed_is_written_too() -> None:
    assert output_of(TextDelta(text="Help", step=0), message_event("Hello.")) == "  Help\n  Hello.\n"


def test_a_second_attempt_begins_anew() -> None:
    output = output_of(
        TextDelta(text="Hel", step=0), TextDelta(text="Hello.", step=0, attempt=2), message_event("Hello.")
    )

    assert output == "  Hel\n  (That was cut off. Once more:)\n  Hello.\n"


def test_an_answer_that_breaks_off_ends_its_line() -> None:
    assert output_of(TextDelta(text="Hel", step=0)) == "  Hel\n"


def test_what_is_at_work_is_told_and_taken_away_again() -> None:
    output = output_of(StageStarted(name="triage"), message_event("Hello."), terminal=True)

    assert "Understanding …" in output
    assert output.endswith("\r\x1b[K  Hello.\n")


def test_an_answer_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in output_of(TextDelta(text="\x1b]0;mine\x07", step=0), message_event("\x1b[2J"))


def test_what_was_kept_is_what_was_heard() -> None:
    answer = ReplyCollector()
    for event in (
        RunStarted(run="r1"),
        TextDelta(text="Hel", step=0),
        message_event("Hello."),
        message_event("Bye."),
        RunFinished(run="r1", termination="natural"),
    ):
        answer.add(event)

    assert answer.reply == ChatReply(run="r1", text="Hello.\n\nBye.")


def test_a_reply_that_could_not_be_kept_is_heard_all_the_same() -> None:
    answer = ReplyCollector()
    answer.add(TextDelta(text="You are not alone.", step=0))

    assert answer.reply.text == "You are not alone."
