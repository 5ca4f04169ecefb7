"""Tool calls without a result, as the state stores them, and what a person may decide about them."""

from typing import TypeAlias

import msgspec

from clew.core.arguments import check_fields
from clew.core.encoding import JSON

INTENDED, SUSPENDED, DECIDED = "intended", "suspended", "decided"
APPROVAL, INPUT, IN_DOUBT = "approval", "input", "in doubt"


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits for a person, with the question that the person is asked.

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
    """Go ahead: run the call with the arguments that the model gave."""

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
"""A person's decision about a call. An answer to a second question about a call says so,
``Replay(asked=2)``: an answer to the first that is sent again is never taken for it."""


class CallState(msgspec.Struct, frozen=True, kw_only=True):
    """A call without a result. One without a status has left no trace in the state.

    Only a call that may touch the world has a ``key``.
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
        """True if the call may have had its effect, once the run that made it is gone."""
        if self.key is None:
            return False
        if self.status == SUSPENDED:
            return self.why == IN_DOUBT
        return self.was_called

    @property
    def was_called(self) -> bool:
        """True if the tool was called, or was about to be: nothing waits, and no result was decided."""
        return self.status != SUSPENDED and not isinstance(self.decision, UseResult)
