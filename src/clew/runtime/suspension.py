"""Calls that wait for a person: how they are kept, and what may be decided about them."""

from collections.abc import Mapping
from typing import Annotated, TypeAlias

import msgspec

from clew.core.arguments import check_fields
from clew.core.encoding import JSON
from clew.core.errors import InvalidArgument
from clew.core.items import repair
from clew.core.ops import Document
from clew.core.shapes import described
from clew.core.values import Item
from clew.runtime.draft import CALLS

INTENDED, SUSPENDED, DECIDED = "intended", "suspended", "decided"
APPROVAL, INPUT, IN_DOUBT = "approval", "input", "in doubt"


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits, and what a person is asked.

    ``why`` is ``approval`` (may it be called?), ``input`` (the tool asks something) or ``in doubt`` (did it
    have its effect before the process ended?). ``asked`` counts the questions about this call.
    """

    call: str
    tool: str
    arguments: JSON = None
    question: JSON = None
    why: str = APPROVAL
    asked: int = 1


class Replay(msgspec.Struct, frozen=True, omit_defaults=True, tag="replay"):
    """Go ahead: run the call as it was asked for."""

    asked: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)


class UseResult(msgspec.Struct, frozen=True, omit_defaults=True, tag="result"):
    """Do not run the call; this is its result."""

    output: JSON
    asked: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)


class PassOn(msgspec.Struct, frozen=True, omit_defaults=True, tag="pass"):
    """Run the call, and give this to the tool as ``context.decision``."""

    value: JSON
    asked: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)


Decision: TypeAlias = Replay | UseResult | PassOn
"""What a person decides. An answer to a second question about a call says so, ``Replay(asked=2)``: an answer
to the first that is sent again is never taken for it."""


def check_decisions(decisions: object, what: str) -> None:
    """Refuse what is no mapping of calls to decisions; a decision is refused later, with the call it is for.

    Raises:
        InvalidArgument: It is something else.
    """
    if not isinstance(decisions, Mapping):
        problem = f"{what} must be a dict of call ids to decisions, not {described(decisions)}."
        raise InvalidArgument(problem=problem)


Decisions: TypeAlias = Annotated[Mapping[str, Decision], check_decisions]
"""What a person decides of each call, by its id."""


class Suspended(Exception):
    """Ends a run's work until calls are decided. It is no error."""

    def __init__(self, waiting: tuple[Waiting, ...]) -> None:
        super().__init__(", ".join(entry.call for entry in waiting))
        self.waiting = waiting


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What the state keeps of an unresolved call. No status means that nothing was noted.

    Only a call that may touch the world has a key.
    """

    tool: str = ""
    status: str | None = None
    key: str | None = None
    arguments: JSON = None
    question: JSON = None
    why: str = APPROVAL
    asked: int = 0
    decision: Decision | None = None

    @property
    def in_doubt(self) -> bool:
        """Whether it may have had its effect, if the run that made it is gone."""
        if self.key is None:
            return False
        if self.status == SUSPENDED:
            return self.why == IN_DOUBT
        return not isinstance(self.decision, UseResult)


def entries(state: Document) -> dict[str, Entry]:
    """What the state keeps of unresolved calls, by their ids."""
    calls = state.get(CALLS)
    return msgspec.convert(calls, dict[str, Entry]) if isinstance(calls, dict) else {}


def doubtful(state: Document) -> tuple[str, ...]:
    """The calls that may or may not have had their effect, if the run that made them is gone."""
    return tuple(call for call, entry in entries(state).items() if entry.in_doubt)


def closing(open: dict[str, str | None], state: Document, reason: str) -> Item:
    """Closes calls that will never be answered, and names those that may have had their effect anyway."""
    known = entries(state)
    in_doubt = [f"{known[call].tool} ({call})" for call in doubtful(state)]
    if in_doubt:
        reason = f"{reason} Whether these had their effect is not known: {', '.join(in_doubt)}."
    return repair(open, reason)


def suspended_calls(state: Document) -> tuple[Waiting, ...]:
    """The calls that wait, as the state says."""
    return tuple(
        Waiting(
            call=call,
            tool=entry.tool,
            arguments=entry.arguments,
            question=entry.question,
            why=entry.why,
            asked=entry.asked,
        )
        for call, entry in entries(state).items()
        if entry.status == SUSPENDED
    )
