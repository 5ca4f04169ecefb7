"""What requests of the HTTP API carry. The client makes these and the server reads them."""

from typing import Literal

import msgspec

from holdfast.core.encoding import JSON


class NewThread(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks for a new thread."""

    id: str
    title: str | None = None
    labels: list[str] = []


class NewItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An item to append."""

    body: JSON
    role: str = ""
    kind: str = "message"
    id: str | None = None
    log: str = "history"
    call: str | None = None


class NewChangeset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change to append; patches are ops as lists, ``["set", ["mood"], "calm"]``."""

    items: list[NewItem] = []
    patches: list[JSON] = []
    reason: str = "append"


class NewFork(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks for a thread that goes its own way from a version of another."""

    id: str
    at: int | None = None


class NewRewind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks to take back a run, everything after a version, or a compaction; exactly one of them."""

    run: str | None = None
    to: int | None = None
    compaction: int | None = None


class NewTurn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One message to a thread. ``user`` is needed where the credentials name none.

    An ``incognito`` turn needs none and leaves no trace: its thread lives in one process until it is ended.
    """

    message: str
    user: str | None = None
    incognito: bool = False
    message_id: str | None = None
    busy: Literal["wait", "refuse", "queue"] = "wait"


class NewTurnOn(NewTurn, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One message, and the thread it goes to."""

    thread: str


class NewDecision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person decides about a call: replay it, use a result instead, or pass a value on to the tool."""

    decision: Literal["replay", "result", "pass"]
    value: JSON = None
    asked: int | None = None


class NewDecisions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Decisions by the ids of their calls; with none, an interrupted run goes on."""

    decisions: dict[str, NewDecision] = {}
    user: str | None = None


class NewEnd(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks to end the episode that a session is in, with what its user thought of it."""

    feedback: str | None = None


class NewCorrection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Puts right what a fact or a rule says."""

    object: str
    negated: bool = False


class NewForget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be forgotten. Without ``confirmed`` it is only shown, and waits."""

    ids: list[str]
    confirmed: bool = False


class NewUndo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Takes back the last change of the memory, or the one that made a version."""

    version: int | None = None


class NewRecall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether what is recalled may be brought up."""

    on: bool


class NewFeedback(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a user thought: a label, never text."""

    thread: str
    label: Literal["positive", "neutral", "negative"]
