"""Runs: their records and steps, and decisions about calls that wait."""

from typing import Literal

import msgspec

from clew.api.route import Route
from clew.api.turns import ApprovalView, TurnView, UsageView
from clew.core.encoding import JSON


class NewDecision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A decision about a call: replay it, use a result instead, or pass a value on to the tool."""

    decision: Literal["replay", "result", "pass"]
    value: JSON = None
    asked: int | None = None


class NewDecisions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Decisions by the ids of their calls; with none, an interrupted run goes on.

    With a ``user`` the run must be theirs; credentials of a whole tenant may name one.
    """

    decisions: dict[str, NewDecision] = {}
    user: str | None = None


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """One execution on a thread, as it is recorded."""

    id: str
    thread: str
    status: str
    origin: str
    started: int
    parent: str | None = None
    user: str | None = None
    ended: int | None = None
    termination: str | None = None
    problem: str | None = None
    usage: UsageView = UsageView()
    waiting: list[ApprovalView] = []
    in_doubt: list[str] = []


class RunPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some runs, newest first."""

    runs: list[RunView]
    next: str | None = None


class CancellationView(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a cancellation: false if there was nothing to cancel."""

    cancelled: bool


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a run did: ``model``, ``tool``, ``code``, ``retrieval`` or ``output``.

    ``cost`` is in millionths of a dollar, null if no price is known.
    """

    kind: str
    name: str
    started: int
    ended: int
    ms: float
    stage: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int | None = None
    error: str | None = None


class StepList(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of a run, in the order in which they ended."""

    run: str
    thread: str
    steps: list[StepView]


LIST_RUNS = Route("list_runs", "GET", "/runs", RunPage)
GET_RUN = Route("get_run", "GET", "/runs/{run}", RunView)
LIST_STEPS = Route("list_steps", "GET", "/runs/{run}/steps", StepList)
CANCEL_RUN = Route("cancel_run", "POST", "/runs/{run}/cancel", CancellationView)
DECIDE = Route("decide", "POST", "/runs/{run}/decisions", TurnView, body=NewDecisions, runs_model=True)
