"""Events of a thread as events of AG-UI, one after another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import httpx
import pytest

from clew.api.ag_ui import AgUiMessage
from clew.api.events import StreamEvent
from clew.core.items import assistant, user
from clew.core.ops import Set
from clew.runtime.model.messages import Message
from clew.runtime.records.events import Event, MessageAdded, RunStarted, StageStarted, StateChanged, TextDelta
from clew.server.protocols.ag_ui.projection import ClientView, Projection
from clew.server.protocols.ag_ui.transcript import Transcript
from tests.support.ag_ui_client import AgUiClient, SentEvent

HISTORY = [user("hi", id="m1", run="r1"), assistant("hello", run="r1")]
CLIENT = [
    {"id": "m1", "role": "user", "content": "hi"},
    {"id": "r1-2", "role": "assistant", "content": "hello"},
]


class Conversation:
    """A projection, and a client that applies what comes of it."""

    def __init__(self, client: Iterable[dict[str, Any]] = CLIENT, *, pending: Iterable[str] = ()) -> None:
        self.transcript = Transcript(HISTORY)
        self.projection = Projection("t", "run", self.transcript, {"mood": "calm"})
        self.client = AgUiClient(http=httpx.AsyncClient(), messages=[dict(each) for each in client])
        self.client.state = {"mood": "calm"}
        messages = [AgUiMessage(**each) for each in client]
        view = ClientView(messages=messages, state={"mood": "calm"}, pending=list(pending))
        self.events = self.apply(self.projection.start(view, run="r2"))

    def apply(self, events: Iterable[StreamEvent]) -> list[SentEvent]:
        """Let the client apply events."""
        sent = [SentEvent(data=event.data, id=event.id) for event in events]
        self.client.apply(sent)
        return sent

    def project(self, *events: Event) -> list[str]:
        """Project events; the types of what comes of them."""
        return [sent.type for event in events for sent in self.apply(self.projection.project(event))]

    def finish(self) -> list[str]:
        """End the run."""
        return [sent.type for sent in self.apply(self.projection.finish("natural", run="r2"))]

    @property
    def texts(self) -> list[str]:
        """The texts that the client has."""
        return [message["content"] for message in self.client.messages]


def answer(text: str, *, step: int = 1, run: str = "r2") -> MessageAdded:
    """An answer that is stored."""
    return MessageAdded(
        run=run, mark=(5, 0), message=Message(role="assistant", content=text, run=run, step=step)
    )


def test_a_client_that_has_everything_gets_nothing_again() -> None:
    assert [event.type for event in Conversation().events] == ["RUN_STARTED"]


@pytest.mark.parametrize(
    "client",
    [
        [],
        CLIENT[:1],
        [CLIENT[0], {**CLIENT[1], "content": "hel"}],
        [CLIENT[0], {"id": "x", "role": "assistant", "content": "made up"}],
        [CLIENT[1], CLIENT[0]],
        [{"id": "z", "role": "user", "content": "of the past"}, *CLIENT],
    ],
)
def test_a_client_that_has_something_else_gets_the_messages_of_the_thread(
    client: list[dict[str, Any]],
) -> None:
    conversation = Conversation(client)

    assert conversation.client.messages == CLIENT


def test_a_new_message_of_the_client_is_not_sent_back() -> None:
    new = {"id": "m2", "role": "user", "content": "again"}
    conversation = Conversation([*CLIENT, new], pending=["m2"])
    message = Message(role="user", content="again", id="m2", run="r2")

    assert conversation.project(MessageAdded(run="r2", mark=(4, 1), message=message)) == []
    assert conversation.client.messages == [*CLIENT, new]


def test_a_new_message_goes_behind_those_that_the_thread_got_before_it() -> None:
    conversation = Conversation([*CLIENT, {"id": "m2", "role": "user", "content": "again"}], pending=["m2"])
    conversation.project(
        MessageAdded(run="r3", mark=(4, 0), message=Message(role="user", content="other", id="m3", run="r3")),
        MessageAdded(run="r2", mark=(5, 0), message=Message(role="user", content="again", id="m2", run="r2")),
    )

    assert conversation.texts == ["hi", "hello", "other", "again"]


def test_live_text_becomes_the_message_that_is_stored() -> None:
    conversation = Conversation()
    types = conversation.project(
        TextDelta(run="r2", text="Good ", step=1),
        TextDelta(run="r2", text="day", step=1, offset=5),
        answer("Good day"),
    )

    assert types == ["TEXT_MESSAGE_START", *["TEXT_MESSAGE_CONTENT"] * 2, "TEXT_MESSAGE_END"]
    assert conversation.client.messages[-1] == {"id": "r2-1", "role": "assistant", "content": "Good day"}


def test_text_that_was_sent_already_is_left_out() -> None:
    conversation = Conversation()
    conversation.project(
        TextDelta(run="r2", text="Good ", step=1),
        TextDelta(run="r2", text="Good day", step=1),
        TextDelta(run="r2", text="day to", step=1, offset=5),
    )

    assert conversation.texts[-1] == "Good day to"


def test_text_whose_beginning_is_unknown_waits_for_the_message() -> None:
    conversation = Conversation()
    types = conversation.project(TextDelta(run="r2", text="day", step=1, offset=5), answer("Good day"))

    assert types == ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]
    assert conversation.texts[-1] == "Good day"


def test_text_that_was_missed_comes_with_the_message() -> None:
    conversation = Conversation()
    conversation.project(TextDelta(run="r2", text="Good ", step=1), answer("Good day"))

    assert conversation.texts[-1] == "Good day"


@pytest.mark.parametrize(
    "event",
    [
        TextDelta(run="r2", text="Anew", step=1, attempt=2),
        TextDelta(run="r2", text="Anew", step=2),
        answer("Anew"),
    ],
)
def test_text_of_an_attempt_that_failed_is_taken_back(event: Event) -> None:
    conversation = Conversation()
    conversation.project(TextDelta(run="r2", text="Good ", step=1), event)

    assert conversation.texts == ["hi", "hello", "Anew"]


@pytest.mark.parametrize("kind", ["another process goes on", "the run ends"])
def test_text_that_is_never_stored_is_taken_back(kind: str) -> None:
    conversation = Conversation()
    conversation.project(TextDelta(run="r2", text="Good ", step=1))
    if kind == "the run ends":
        conversation.finish()
    else:
        conversation.project(RunStarted(run="r2", mark=(5, 0)))

    assert conversation.client.messages == CLIENT


def test_a_message_of_others_while_text_is_live_keeps_its_place() -> None:
    conversation = Conversation()
    other = Message(role="user", content="other", id="m3", run="r3")
    conversation.project(
        TextDelta(run="r2", text="Good ", step=1),
        MessageAdded(run="r3", mark=(4, 0), message=other),
        TextDelta(run="r2", text="day", step=1, offset=5),
        answer("Good day"),
    )

    assert conversation.texts == ["hi", "hello", "other", "Good day"]


def test_the_last_event_of_something_durable_has_its_id() -> None:
    conversation = Conversation()
    events = conversation.apply(conversation.projection.project(answer("Good day")))

    assert [event.id for event in events] == [None, None, "5.0"]


def test_a_change_of_the_state_is_a_patch() -> None:
    conversation = Conversation()
    change = StateChanged(run="r2", mark=(6, 0), patches=(Set(("mood",), "glad"), Set(("a", "b"), 1)))

    assert conversation.project(change) == ["STATE_DELTA"]
    assert conversation.client.state == {"mood": "glad", "a": {"b": 1}}


def test_a_change_that_changes_nothing_is_not_sent() -> None:
    assert Conversation().project(StateChanged(mark=(6, 0), patches=(Set(("mood",), "calm"),))) == []


def test_stages_are_steps_one_after_another() -> None:
    conversation = Conversation()
    types = conversation.project(StageStarted(name="a"), StageStarted(name="b"))

    assert types == ["STEP_STARTED", "STEP_FINISHED", "STEP_STARTED"]
    assert conversation.finish() == ["STEP_FINISHED", "RUN_FINISHED"]
