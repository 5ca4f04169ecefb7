"""The events of a thread as events of one AG-UI run, in the order that the protocol asks for.

A client has a list of messages and a state; after every event both are those of the thread. Live text is a
message that is still open: once it is stored, it is closed. If something else was stored instead, the client
gets all messages anew, which takes the text away from it.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import msgspec
from ag_ui.core import (
    BaseEvent,
    Interrupt,
    MessagesSnapshotEvent,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from ag_ui.core.version import PROTOCOL_VERSION

from clew.api.ag_ui import OPTIONS, AgUiMessage
from clew.api.events import StreamEvent
from clew.api.problems import Problem
from clew.core.encoding import JSON, as_json
from clew.core.messages.plain import as_text
from clew.core.ops import Document
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import Usage
from clew.runtime.records.events import (
    Event,
    Mark,
    MessageAdded,
    RunStarted,
    StageStarted,
    StateChanged,
    TextDelta,
)
from clew.runtime.records.runs import ERROR, INTERRUPTED, NATURAL
from clew.server.protocols.ag_ui.state import json_patch, state_after
from clew.server.protocols.ag_ui.transcript import (
    CallPiece,
    Piece,
    ResultPiece,
    TextPiece,
    Transcript,
    comparable,
)

Events: TypeAlias = Iterator[StreamEvent]
TEXT = "message"
"""The kind of a message that is neither a tool call nor its result."""
RUN_INTERRUPTED = "The run was interrupted. Send its message once more to go on with it."


class ClientView(msgspec.Struct, frozen=True, kw_only=True):
    """The messages and the state that a client says it has.

    ``pending`` are the ids of messages of its user at the end that the thread does not have yet. A view that
    is ``trusted`` has no messages or state of its own to compare: the client went on behind an event.
    """

    messages: Sequence[AgUiMessage] = ()
    state: JSON = None
    pending: Sequence[str] = ()
    trusted: bool = False


class _LiveText(msgspec.Struct, kw_only=True):
    """The text of an answer that is not stored yet, as far as the client has it."""

    id: str
    run: str | None
    step: int
    attempt: int
    text: str = ""


class Projection:
    """One AG-UI run over the events of a thread, from a transcript and a state on."""

    def __init__(self, thread: str, run_id: str, transcript: Transcript, state: Document) -> None:
        self.state = state
        self.cursor: Mark | None = None
        self._thread = thread
        self._run_id = run_id
        self._transcript = transcript
        self._pending: list[str] = []
        self._live: _LiveText | None = None
        self._step: str | None = None

    def start(self, client: ClientView, *, run: str | None) -> Events:
        """Open the run, and give the client what it does not have. ``run`` is the runtime's id, if known."""
        yield stream_event(
            RunStartedEvent(
                thread_id=self._thread,
                run_id=self._run_id,
                protocol_version=PROTOCOL_VERSION,
                metadata=self._metadata(run),
            )
        )
        known = client.messages[: len(client.messages) - len(client.pending)]
        self._pending = list(client.pending)
        if not client.trusted and not _are_same(known, self._transcript.messages):
            yield from self._snapshot(client.messages)
        if not client.trusted and client.state != self.state:
            yield stream_event(StateSnapshotEvent(snapshot=self.state))

    def replace(self, transcript: Transcript, state: Document) -> Events:
        """Give the client a history that was rewritten."""
        yield from self._close_live()
        before, self._transcript = self._transcript.messages, transcript
        yield from self._snapshot(before)
        yield from self.set_state(state)

    def set_state(self, state: Document) -> Events:
        """Give the client another state, if it is another."""
        before, self.state = self.state, state
        patch = json_patch(before, state)
        if patch is None:
            yield stream_event(StateSnapshotEvent(snapshot=state), self.cursor)
        elif patch:
            yield stream_event(StateDeltaEvent.model_validate({"delta": patch}), self.cursor)

    def project(self, event: Event) -> Events:
        """Give the events that stand for an event of the thread."""
        self.cursor = event.mark or self.cursor
        match event:
            case RunStarted():
                yield from self._drop_live()  # another process went on with the run, and answers anew
            case MessageAdded():
                yield from self._add_message(event)
            case StateChanged(patches=patches):
                yield from self.set_state(state_after(self.state, patches))
            case StageStarted(name=name):
                yield from self._enter_step(name)
            case TextDelta():
                yield from self._add_text(event)

    def finish(
        self,
        termination: str,
        interrupts: Sequence[Interrupt] = (),
        *,
        usage: Usage | None = None,
        run: str | None,
    ) -> Events:
        """Close a run that has not failed."""
        yield from self._drop_live()
        yield from self._enter_step(None)
        outcome: Any = RunFinishedCancelledOutcome()
        if interrupts:
            outcome = RunFinishedInterruptOutcome(interrupts=list(interrupts))
        elif termination == NATURAL:
            outcome = RunFinishedSuccessOutcome()
        yield stream_event(
            RunFinishedEvent(
                thread_id=self._thread,
                run_id=self._run_id,
                outcome=outcome,
                usage=_token_usage(usage),
                metadata=self._metadata(run),
            ),
            self.cursor,
        )

    def fail(self, termination: str, problem: str | None, *, run: str | None) -> Events:
        """Close a run that has failed; its problem begins with the code of an error."""
        yield from self._drop_live()
        code, colon, text = (problem or "").partition(": ")
        if termination == INTERRUPTED:
            code, text = INTERRUPTED, RUN_INTERRUPTED
        elif not colon:
            code, text = ERROR, code
        yield stream_event(RunErrorEvent(message=text, code=code, metadata=self._metadata(run)), self.cursor)

    def _metadata(self, run: str | None) -> dict[str, Any]:
        cursor = None if self.cursor is None else event_id(self.cursor)
        return {OPTIONS: {"run": run, "lastEventId": cursor}}

    # Messages.

    def _snapshot(self, client: Sequence[AgUiMessage]) -> Events:
        """Replace the client's messages by those of the thread.

        A client keeps messages that it has where they are, and puts new ones behind them. Where that would
        mix up their order, it is first left with those that both begin with.
        """
        messages = self._transcript.messages
        ids = [message.id for message in messages]
        client_ids = [message.id for message in client]
        kept = [id for id in client_ids if id in set(ids)]
        if ids[: len(kept)] != kept:
            common = next((at for at, (a, b) in enumerate(zip(ids, kept, strict=False)) if a != b), 0)
            yield _messages_snapshot(messages[:common])
        self._pending = []
        yield _messages_snapshot(messages)

    def _add_message(self, event: MessageAdded) -> Events:
        message = event.message
        if self._pending and message.id == self._pending[0]:
            self._pending.pop(0)
            self._transcript.add(message)
            return
        if self._live is not None and self._is_stored_text(self._live, message):
            yield from self._end_live(self._live, as_text(message.content), event.mark)
            self._transcript.add(message)
            return
        yield from self._drop_live()
        yield from self._drop_pending()
        pieces = self._transcript.add(message)
        for piece in pieces[:-1]:
            yield from _piece_events(piece, None)
        for piece in pieces[-1:]:
            yield from _piece_events(piece, event.mark)

    def _drop_pending(self) -> Events:
        """Take messages back from the client that the thread gets later than others."""
        if self._pending:
            yield _messages_snapshot(self._transcript.messages)
            self._pending = []

    # Live text.

    def _add_text(self, event: TextDelta) -> Events:
        live = self._live
        if live is None or (live.run, live.step, live.attempt) != (event.run, event.step, event.attempt):
            if event.offset or not event.text:
                return  # the text before it is not known here; the message comes whole once it is stored
            yield from self._drop_live()
            yield from self._drop_pending()
            live = self._live = _LiveText(
                id=self._transcript.next_id(event.run), run=event.run, step=event.step, attempt=event.attempt
            )
            yield stream_event(TextMessageStartEvent(message_id=live.id, role="assistant"))
        new_text = event.text[max(len(live.text) - event.offset, 0) :]
        if new_text and event.offset <= len(live.text):
            live.text += new_text
            yield stream_event(TextMessageContentEvent(message_id=live.id, delta=new_text))

    def _is_stored_text(self, live: _LiveText, message: Message) -> bool:
        """Return whether a message is the one whose text the client has already, or some of it."""
        return (
            message.kind == TEXT
            and message.role == "assistant"
            and message.id is None
            and self._transcript.next_id(message.run) == live.id
            and as_text(message.content).startswith(live.text)
        )

    def _end_live(self, live: _LiveText, text: str, mark: Mark | None) -> Events:
        """Complete live text, which is stored now, and close its message."""
        if rest := text[len(live.text) :]:
            yield stream_event(TextMessageContentEvent(message_id=live.id, delta=rest))
        yield stream_event(TextMessageEndEvent(message_id=live.id), mark)
        self._live = None

    def _close_live(self) -> Events:
        if self._live is not None:
            yield stream_event(TextMessageEndEvent(message_id=self._live.id))
            self._live = None

    def _drop_live(self) -> Events:
        """Take text back from the client that did not become a message."""
        if self._live is not None:
            yield from self._close_live()
            yield _messages_snapshot(self._transcript.messages)

    # Steps.

    def _enter_step(self, name: str | None) -> Events:
        """Close the step that is open, and open the one of a stage."""
        if self._step is not None:
            yield stream_event(StepFinishedEvent(step_name=self._step))
        self._step = name
        if name is not None:
            yield stream_event(StepStartedEvent(step_name=name))


def _piece_events(piece: Piece, mark: Mark | None) -> Events:
    match piece:
        case TextPiece(message=message):
            text = as_text(message.content)
            role: Any = message.role
            yield stream_event(TextMessageStartEvent(message_id=message.id, role=role))
            if text:
                yield stream_event(TextMessageContentEvent(message_id=message.id, delta=text))
            yield stream_event(TextMessageEndEvent(message_id=message.id), mark)
        case CallPiece(parent=parent, call=call):
            yield stream_event(
                ToolCallStartEvent(
                    tool_call_id=call.id, tool_call_name=call.function.name, parent_message_id=parent
                )
            )
            yield stream_event(ToolCallArgsEvent(tool_call_id=call.id, delta=call.function.arguments))
            yield stream_event(ToolCallEndEvent(tool_call_id=call.id), mark)
        case ResultPiece(message=message):
            yield stream_event(
                ToolCallResultEvent(
                    message_id=message.id,
                    tool_call_id=message.tool_call_id or "",
                    content=as_text(message.content),
                    role="tool",
                ),
                mark,
            )


def _messages_snapshot(messages: Sequence[AgUiMessage]) -> StreamEvent:
    return stream_event(MessagesSnapshotEvent.model_validate({"messages": as_json(list(messages))}))


def _are_same(client: Sequence[AgUiMessage], messages: Sequence[AgUiMessage]) -> bool:
    return list(map(comparable, client)) == list(map(comparable, messages))


def _token_usage(usage: Usage | None) -> list[TokenUsage] | None:
    if usage is None or not usage.calls:
        return None
    total = usage.input_tokens + usage.output_tokens
    return [
        TokenUsage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, total_tokens=total)
    ]


def stream_event(event: BaseEvent, mark: Mark | None = None) -> StreamEvent:
    """Return an event of AG-UI as a stream has it; with a mark a client can go on behind it."""
    data: dict[str, JSON] = event.model_dump(mode="json", by_alias=True)
    return StreamEvent(type=event.type.value, data=data, id=None if mark is None else event_id(mark))


def event_id(mark: Mark) -> str:
    """Return the id of an event with a mark."""
    return f"{mark[0]}.{mark[1]}"


def problem_event(problem: Problem) -> StreamEvent:
    """Return an error that ends a stream."""
    return stream_event(RunErrorEvent(message=problem.detail, code=problem.code))
