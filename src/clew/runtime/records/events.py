"""Events: what clients get to know of a run.

A durable event is made from a committed changeset alone, and numbered by its version and its place in it:
every process that reads the log makes the same events. Live ones have no number.
"""

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from clew.core.encoding import JSON
from clew.core.errors import ClewError
from clew.core.ops import Op
from clew.core.values import HISTORY, Changeset
from clew.runtime.model.messages import Message, message_of
from clew.runtime.model.protocol import Usage
from clew.runtime.model.redaction import public_error
from clew.runtime.records.effects import ExternalEffect

Mark: TypeAlias = tuple[int, int]
"""The position of a durable event in its thread: version and index."""

USER_MESSAGE = "UserMessage"
ASSISTANT = "AssistantTurnCommitted"
TOOL_RESULTS = "ToolResultsCommitted"
RUN_FINISHED = "RunFinished"
VOICE_TURN = "VoiceTurn"
EFFECTS = "effects"
"""The key under which the first changeset of a run has the effects of the run that it rolled back."""


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    run: str | None = None
    mark: Mark | None = None


class RunStarted(_Event, frozen=True, tag="run_started"):
    """A run began, or went on after it was suspended or interrupted.

    ``effects`` are those of the run that it rolled back, if it did: they happened all the same.
    """

    origin: str = "user"
    effects: tuple[ExternalEffect, ...] = ()


class MessageAdded(_Event, frozen=True, tag="message"):
    """A message, a tool call or its result is in the history for good."""

    message: Message


class HistoryRewritten(_Event, frozen=True, tag="rewritten"):
    """Messages were taken out of the history, by a rewind or a compaction: read it again."""

    reason: str
    ended: int


class StateChanged(_Event, frozen=True, tag="state"):
    """The stored state changed by these ops."""

    patches: tuple[Op, ...]


class RunFinished(_Event, frozen=True, tag="run_finished"):
    """A run ended, and its end is on disk."""

    termination: str
    problem: str | None = None
    usage: Usage = Usage()


class StageStarted(_Event, frozen=True, tag="stage"):
    """Live: a stage begins. The label is what people read meanwhile, if there is anything to read."""

    name: str
    label: str = ""


class TextDelta(_Event, frozen=True, tag="text"):
    """Live: some more text of a reply that is not yet durable.

    ``offset`` is the number of characters of the text of its step and attempt that come before it. A new
    attempt at a step starts over.
    """

    text: str
    step: int
    attempt: int = 1
    offset: int = 0


class ErrorEvent(_Event, frozen=True, tag="error"):
    """Live: the run cannot go on, or its end could not be made durable."""

    code: str
    problem: str


def error_event(error: ClewError) -> ErrorEvent:
    """Return the event of an error of ours that ends a run."""
    return ErrorEvent(code=error.code, problem=str(public_error(error)))


Event: TypeAlias = (
    RunStarted
    | MessageAdded
    | HistoryRewritten
    | StateChanged
    | RunFinished
    | StageStarted
    | TextDelta
    | ErrorEvent
)


def ignore_event(event: Event) -> None:
    """Ignore an event: the turn has no listener."""


def events_of(change: Changeset) -> list[Event]:
    """Return the durable events of a changeset, in order, numbered."""
    return [
        msgspec.structs.replace(event, mark=(change.version, index))
        for index, event in enumerate(_events(change))
    ]


def _events(change: Changeset) -> Iterator[Event]:
    meta = change.run_meta or {}
    if meta.get("status") == "running":
        effects = msgspec.convert(meta.get(EFFECTS, ()), tuple[ExternalEffect, ...])
        yield RunStarted(run=change.run_id, origin=_text(meta.get("origin"), "user"), effects=effects)
    count = sum(cut.count for cut in change.cuts if cut.log == HISTORY)
    if count:
        yield HistoryRewritten(run=change.run_id, reason=change.reason, ended=count)
    for item in change.items:
        if item.log == HISTORY and item.visibility == "all":
            message = msgspec.structs.replace(message_of(item), thoughts=())
            yield MessageAdded(run=change.run_id, message=message)
    patches = tuple(op for op in change.patches if not str(op.path[0] if op.path else "").startswith("$"))
    if patches:
        yield StateChanged(run=change.run_id, patches=patches)
    if "termination" in meta:
        yield RunFinished(
            run=change.run_id,
            termination=_text(meta.get("termination"), "natural"),
            problem=meta.get("problem"),
            usage=msgspec.convert(meta.get("usage", {}), Usage),
        )


def _text(value: JSON, default: str) -> str:
    return value if isinstance(value, str) else default
