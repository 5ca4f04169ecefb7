"""Messages as a page shows them: rebuilt from chunks as the AI SDK rebuilds them, for whole threads."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, Literal

import msgspec

from clew.api.ai_sdk import UiMessage, UiPart
from clew.core.encoding import encode
from clew.core.log.tool_calls import CALL, REPAIR, RESULT
from clew.core.values import HISTORY, Changeset, Cut
from clew.database.thread import CHANGESETS_PER_PAGE, Thread
from clew.runtime.records.events import Event, MessageAdded, events_of
from clew.runtime.state.run_state import starts_run
from clew.server.protocols.ai_sdk.chunks import Chunk, RunChunks
from clew.server.protocols.ai_sdk.facts import facts_of_events

PARTS = (CALL, RESULT, REPAIR)
"""The kinds of items that are never a message by themselves."""
OWN_ROLES = ("user", "system")
"""The roles whose items are messages of their own, also in a run."""


class MessageBuilder:
    """One message, built chunk by chunk."""

    def __init__(self, id: str) -> None:
        self._id = id
        self._metadata: dict[str, Any] | None = None
        self._parts: list[dict[str, Any]] = []

    def add(self, chunks: Iterable[Chunk]) -> None:
        """Add what some chunks say."""
        for chunk in chunks:
            apply = CHUNK_EFFECTS.get(str(chunk["type"]))
            if apply is not None:
                apply(self, chunk)

    @property
    def message(self) -> UiMessage:
        """The message so far."""
        parts: list[UiPart] = [dict(part) for part in self._parts]
        return UiMessage(id=self._id, role="assistant", parts=parts, metadata=self._metadata)

    def is_visible(self, *, was_rewound: bool) -> bool:
        """Return whether there is anything to show, be it that the run has ended with nothing."""
        return bool(self._parts) or (self._metadata is not None and not was_rewound)

    def start_step(self, chunk: Chunk) -> None:
        """Begin a step."""
        self._parts.append({"type": "step-start"})

    def reset_step(self, chunk: Chunk) -> None:
        """Drop what the step has so far."""
        while self._parts and self._parts[-1]["type"] != "step-start":
            self._parts.pop()

    def start_text(self, chunk: Chunk) -> None:
        """Begin a text."""
        self._parts.append({"type": "text", "text": "", "state": "streaming"})

    def add_text(self, chunk: Chunk) -> None:
        """Add to the text that was begun last."""
        self._parts[-1]["text"] += chunk["delta"]

    def end_text(self, chunk: Chunk) -> None:
        """End the text that was begun last."""
        self._parts[-1]["state"] = "done"

    def add_call(self, chunk: Chunk) -> None:
        """Add a tool call."""
        self._parts.append(
            {
                "type": f"tool-{chunk['toolName']}",
                "toolCallId": chunk["toolCallId"],
                "state": "input-available",
                "input": chunk["input"],
            }
        )

    def request_approval(self, chunk: Chunk) -> None:
        """Let a call wait for a person."""
        approval = {"id": chunk["approvalId"]}
        if "reason" in chunk:
            approval["requestReason"] = chunk["reason"]
        self._update_call(chunk, "approval-requested", approval=approval)

    def respond_to_approval(self, chunk: Chunk) -> None:
        """Note what a person has decided."""
        for part in self._parts:
            approval = part.get("approval")
            if approval is not None and approval["id"] == chunk["approvalId"]:
                part["state"] = "approval-responded"
                answer = {key: chunk[key] for key in ("approved", "reason") if key in chunk}
                part["approval"] = {**approval, **answer}

    def add_output(self, chunk: Chunk) -> None:
        """Note the output of a call."""
        self._update_call(chunk, "output-available", output=chunk["output"])

    def add_error(self, chunk: Chunk) -> None:
        """Note that a call failed."""
        self._update_call(chunk, "output-error", errorText=chunk["errorText"])

    def deny_output(self, chunk: Chunk) -> None:
        """Note that a call was declined."""
        self._update_call(chunk, "output-denied")

    def merge_metadata(self, chunk: Chunk) -> None:
        """Merge what is said about the message."""
        metadata = chunk.get("messageMetadata")
        if isinstance(metadata, dict):
            self._metadata = {**(self._metadata or {}), **metadata}

    def _update_call(self, chunk: Chunk, state: str, **fields: Any) -> None:
        for part in reversed(self._parts):
            if part.get("toolCallId") == chunk["toolCallId"]:
                part.update(state=state, **fields)
                return


CHUNK_EFFECTS: dict[str, Callable[[MessageBuilder, Chunk], None]] = {
    "start-step": MessageBuilder.start_step,
    "reset-step": MessageBuilder.reset_step,
    "text-start": MessageBuilder.start_text,
    "text-delta": MessageBuilder.add_text,
    "text-end": MessageBuilder.end_text,
    "tool-input-available": MessageBuilder.add_call,
    "tool-approval-request": MessageBuilder.request_approval,
    "tool-approval-response": MessageBuilder.respond_to_approval,
    "tool-output-available": MessageBuilder.add_output,
    "tool-output-error": MessageBuilder.add_error,
    "tool-output-denied": MessageBuilder.deny_output,
    "message-metadata": MessageBuilder.merge_metadata,
}
"""The chunks that change a message, and how; the others are about the stream or the thread."""


async def read_messages(thread: Thread, *, turns: int) -> list[UiMessage]:
    """Read the newest messages of a thread: those of so many turns, and what was appended between them.

    Raises:
        ThreadNotFound: There is no such thread.
    """
    changes = await _newest_changesets(thread, turns)
    cuts = [cut for change in changes for cut in change.cuts if cut.log == HISTORY]
    visible_changes = [_without_cut_items(change, cuts) for change in changes]
    events = [event for change in visible_changes for event in events_of(change)]
    rewound_runs = _runs_of_items(changes) - _runs_of_items(visible_changes)
    answers: dict[str, tuple[RunChunks, MessageBuilder]] = {}
    messages: dict[str, UiMessage | MessageBuilder] = {}
    async for fact in facts_of_events(_iterate(events), thread, has_state=False):
        if isinstance(fact, MessageAdded) and (message := _whole_message(fact)) is not None:
            messages[message.id] = message
        elif fact.run is not None:
            if fact.run not in answers:
                answers[fact.run] = (RunChunks(fact.run), MessageBuilder(fact.run))
            chunks, builder = answers[fact.run]
            builder.add(chunks.after(fact))
            if builder.is_visible(was_rewound=fact.run in rewound_runs):
                messages.setdefault(fact.run, builder)
    return [each.message if isinstance(each, MessageBuilder) else each for each in messages.values()]


def _whole_message(event: MessageAdded) -> UiMessage | None:
    """Return an event's message, if it is one by itself; None for a part of a run's answer."""
    message = event.message
    if message.kind in PARTS or (message.role not in OWN_ROLES and event.run is not None):
        return None
    id = message.id or ".".join(map(str, event.mark or ()))
    role: Literal["system", "user", "assistant"] = message.role if message.role in OWN_ROLES else "assistant"  # type: ignore[assignment]  # one of them
    text = message.content if isinstance(message.content, str) else encode(message.content).decode()
    return UiMessage(id=id, role=role, parts=[{"type": "text", "text": text}])


def _runs_of_items(changes: Iterable[Changeset]) -> set[str | None]:
    return {item.run for change in changes for item in change.items if item.log == HISTORY}


def _without_cut_items(change: Changeset, cuts: Sequence[Cut]) -> Changeset:
    """Return a changeset without the items of the history that a later one has taken out."""
    items = tuple(
        item
        for item in change.items
        if item.log != HISTORY or not any(cut.first <= item.place <= cut.last for cut in cuts)
    )
    return msgspec.structs.replace(change, items=items)


async def _newest_changesets(thread: Thread, turns: int) -> list[Changeset]:
    """Read the changesets of the newest turns, from the first of a run on."""
    changes: list[Changeset] = []
    upto = (await thread.head()).version
    while upto > 0:
        after = max(upto - CHANGESETS_PER_PAGE, 0)
        changes = await thread.changesets(after=after, upto=upto, limit=CHANGESETS_PER_PAGE) + changes
        starts = [at for at, each in enumerate(changes) if each.run_id and starts_run(each, each.run_id)]
        if len(starts) >= turns:
            return changes[starts[-turns] :]
        upto = after
    return changes


async def _iterate(events: Sequence[Event]) -> AsyncIterator[Event]:
    for event in events:
        yield event
