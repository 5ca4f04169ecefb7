"""What requests of the HTTP API carry. The client makes these and the server reads them."""

from typing import Annotated, Literal, TypeAlias

import msgspec

from clew.core.encoding import JSON

MemoryModeName: TypeAlias = Literal["incognito", "local", "synced"]
FeedbackLabel: TypeAlias = Literal["positive", "neutral", "negative"]


Title: TypeAlias = Annotated[str, msgspec.Meta(max_length=1_000)]
Labels: TypeAlias = Annotated[
    list[Annotated[str, msgspec.Meta(max_length=200)]], msgspec.Meta(max_length=100)
]
"""Both stand in every list of threads, so they are short."""


class NewThread(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks for a new thread."""

    id: str
    title: Title | None = None
    labels: Labels = []


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

    With the mode ``incognito`` nobody is needed and no trace is left: the thread lives in one process until
    it is ended, and without a mode it stays as it began.
    """

    message: str
    user: str | None = None
    mode: MemoryModeName | None = None
    message_id: str | None = None
    busy: Literal["wait", "refuse", "queue"] = "wait"


class NewThreadTurn(NewTurn, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One message, and the thread it goes to."""

    thread: str


class NewDecision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person decides about a call: replay it, use a result instead, or pass a value on to the tool."""

    decision: Literal["replay", "result", "pass"]
    value: JSON = None
    asked: int | None = None


class NewDecisions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Decisions by the ids of their calls; with none, an interrupted run goes on.

    With a ``user`` the run must be theirs; credentials of a whole tenant may name one.
    """

    decisions: dict[str, NewDecision] = {}
    user: str | None = None


class NewSessionEnd(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks to end the episode that a session is in, with what its user thought of it."""

    feedback: FeedbackLabel | None = None


class NewCorrection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Puts right what a fact or a rule says."""

    object: str
    negated: bool = False


class NewForgetRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be forgotten. Without ``confirmed`` it is only shown, and waits."""

    ids: list[str]
    confirmed: bool = False


class NewUndo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Takes back the last change of the memory, or the one that made a version."""

    version: int | None = None


class RecallSetting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether what is recalled may be brought up."""

    on: bool


class NewFeedback(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a user thought: a label, never text."""

    thread: str
    label: FeedbackLabel


# Calls.


class RecordedToolCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool that was called while somebody spoke: its output, or the error that it ended with."""

    name: str
    arguments: JSON = None
    output: JSON = None
    error: str | None = None
    id: str | None = None


class NewAssessment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client found in a spoken turn: a level, and how it was found, in names and never in words.

    What it means, and whether it is recorded, is for the agent to say.
    """

    level: int
    confidence: float | None = None
    path: str | None = None
    override: str | None = None
    llm_failed: bool = False


class NewVoiceTurn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A turn of a call, once it was spoken: what was said, which tools were called, what was replied.

    ``heard`` says that what was said has been judged before.
    """

    said: str = ""
    replied: str = ""
    tool_calls: list[RecordedToolCall] = []
    assessment: NewAssessment | None = None
    heard: bool = False
    user: str | None = None
    mode: MemoryModeName | None = None


class NewVoiceSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call that is to begin. Unless ``gated`` is off, nothing is answered before it was judged."""

    gated: bool = True
    user: str | None = None
    mode: MemoryModeName | None = None


class NewUtterance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody has just said in a call, under an id; ``late`` if it is being answered already."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    said: str
    late: bool = False
    user: str | None = None
    mode: MemoryModeName | None = None


class NewToolCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool that a realtime model calls, under the id that it gave to the call."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    name: str
    arguments: JSON = None
    user: str | None = None
    mode: MemoryModeName | None = None


class NewHeartbeat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sign that a call goes on, and for how long its client may be silent."""

    seconds: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 60.0


# For operators.


class NewErasure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose traces go: all of an owner, or a thread and its forks. A dry run only counts.

    With ``with_retained`` the records go too that have a date and would stay until then. With ``identities``
    the owner's user, memberships, logins and keys go too, so that nobody comes back as them.
    """

    owner: str | None = None
    thread: str | None = None
    with_retained: bool = False
    identities: bool = False
    dry_run: bool = False


class NewHold(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An owner or a thread that must stay, and why."""

    reason: str
    owner: str | None = None
    thread: str | None = None


class NewRetentionRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Threads that nobody has written to for so many days may go: all, or those with a label."""

    days: Annotated[float, msgspec.Meta(gt=0, le=36_500)]
    label: str | None = None


class NewRuleApplication(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks to let go of what the rules in force let go. A dry run only says which threads that is."""

    dry_run: bool = False
