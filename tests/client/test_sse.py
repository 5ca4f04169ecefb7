"""Streams over several connections: what a new one sends again is given out once."""

from __future__ import annotations

import msgspec
import pytest

from clew.api.events import StreamEvent
from clew.client.sse import STREAM_ATTEMPTS, ResumableStream
from clew.core.errors import StoreBusy


def feed(stream: ResumableStream, *events: tuple[str, dict[str, object]]) -> list[StreamEvent]:
    """What a stream gives out for events as a server sends them."""
    lines = [
        line
        for kind, data in events
        for line in (f"event: {kind}", f"data: {msgspec.json.encode(data).decode()}", "")
    ]
    return [event for line in lines for event in stream.feed(line)]


def text(words: str, offset: int = 0, **fields: object) -> tuple[str, dict[str, object]]:
    return "text", {"run": "r", "step": 1, "text": words, "offset": offset, **fields}


def texts(events: list[StreamEvent]) -> list[tuple[object, object]]:
    return [(event.data["text"], event.data["offset"]) for event in events if event.type == "text"]


@pytest.mark.promise("B-09", "B-17")
def test_text_that_comes_again_after_a_lost_connection_is_given_out_once() -> None:
    stream = ResumableStream(None)
    before = feed(stream, text("Hé"), text("l", 2))
    after = feed(stream, text("Héllo"), text(" there", 5))

    assert texts(before) == [("Hé", 0), ("l", 2)]
    assert texts(after) == [("lo", 3), (" there", 5)]


@pytest.mark.promise("B-17")
@pytest.mark.parametrize(
    "again",
    [
        [text("Hello", attempt=2)],
        [text("Hello", step=2)],
        [text("Hello", run="another")],
        [("run_started", {"run": "r"}), text("Hello")],
    ],
    ids=["attempt", "step", "run", "resumed"],
)
def test_another_answer_is_given_out_from_its_beginning(again: list[tuple[str, dict[str, object]]]) -> None:
    stream = ResumableStream(None)
    feed(stream, text("Hel"))

    assert texts(feed(stream, *again)) == [("Hello", 0)]


def test_connections_that_bring_nothing_but_known_text_are_given_up() -> None:
    stream, error = ResumableStream(None), StoreBusy(store="it")
    feed(stream, text("Hel"))
    for _ in range(STREAM_ATTEMPTS - 1):
        stream.count_failure(error)
        feed(stream, text("Hel"))

    with pytest.raises(StoreBusy):
        stream.count_failure(error)
