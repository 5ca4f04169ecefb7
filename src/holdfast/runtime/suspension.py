"""Calls that wait for a person: how they are kept, and what may be decided about them."""

from typing import TypeAlias

import msgspec

from holdfast.core.encoding import JSON
from holdfast.core.ops import Document
from holdfast.runtime.draft import CALLS

INTENDED, SUSPENDED, DECIDED = "intended", "suspended", "decided"


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits, and what a person is asked."""

    call: str
    tool: str
    arguments: JSON = None
    question: JSON = None


class Replay(msgspec.Struct, frozen=True, tag="replay"):
    """Go ahead: run the call as it was asked for."""


class UseResult(msgspec.Struct, frozen=True, tag="result"):
    """Do not run the call; this is its result."""

    output: JSON


class PassOn(msgspec.Struct, frozen=True, tag="pass"):
    """Run the call, and give this to the tool as ``context.decision``."""

    value: JSON


Decision: TypeAlias = Replay | UseResult | PassOn


class Suspended(Exception):
    """Ends a run's work until calls are decided. It is no error."""

    def __init__(self, waiting: tuple[Waiting, ...]) -> None:
        super().__init__(", ".join(entry.call for entry in waiting))
        self.waiting = waiting


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What the state keeps of an unresolved call. No status means that nothing was noted."""

    tool: str = ""
    status: str | None = None
    arguments: JSON = None
    question: JSON = None
    decision: Decision | None = None


def entries(state: Document) -> dict[str, Entry]:
    """What the state keeps of unresolved calls, by their ids."""
    calls = state.get(CALLS)
    return msgspec.convert(calls, dict[str, Entry]) if isinstance(calls, dict) else {}


def entry_of(state: Document, call: str) -> Entry:
    """What the state keeps of one call."""
    return entries(state).get(call, Entry())


def doubtful(state: Document) -> tuple[str, ...]:
    """The calls that may or may not have had their effect, if the run that made them is gone."""
    return tuple(
        call
        for call, entry in entries(state).items()
        if entry.status == INTENDED or (entry.status == DECIDED and not isinstance(entry.decision, UseResult))
    )


def suspended_calls(state: Document) -> tuple[Waiting, ...]:
    """The calls that wait, as the state says."""
    return tuple(
        Waiting(call=call, tool=entry.tool, arguments=entry.arguments, question=entry.question)
        for call, entry in entries(state).items()
        if entry.status == SUSPENDED
    )
