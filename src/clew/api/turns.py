"""Turns: a message to a thread, and its result."""

from typing import Annotated, Literal, TypeAlias

import msgspec

from clew.api.events import EVENT_STREAM_TYPE
from clew.api.route import Route
from clew.core.encoding import JSON

MemoryModeName: TypeAlias = Literal["incognito", "local", "synced"]
WhenBusy: TypeAlias = Literal["wait", "refuse", "queue", "interrupt", "rollback"]
"""What to do with a turn while another one runs on its thread."""

ChannelName: TypeAlias = Literal["test", "web", "voice", "terminal"]
"""The surface that a message came by, as its client says."""

SkillNames: TypeAlias = Annotated[
    tuple[Annotated[str, msgspec.Meta(max_length=64)], ...], msgspec.Meta(max_length=100)
]
"""Names of skills, for one turn."""


class NewTurn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One message to a thread. ``user`` is on whose behalf, where the credentials name nobody.

    If neither names a user, the thread is nobody's, and what is learned belongs to the thread. With the mode
    ``incognito`` no trace is left: the thread lives in one process until it is ended, and without a mode it
    stays as it began. ``installed_skills`` are names of skills that the server has, for agents that take any.
    ``agent`` is the one that answers, where the server has several; a thread that has one needs no name.
    """

    message: str
    user: str | None = None
    mode: MemoryModeName | None = None
    message_id: str | None = None
    busy: WhenBusy = "wait"
    channel: ChannelName = "web"
    installed_skills: SkillNames = ()
    agent: str | None = None


class NewThreadTurn(NewTurn, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One message, and the thread it goes to."""

    thread: str


class SocketRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One message of a client over a WebSocket. ``after`` is the last event that it has seen."""

    type: Literal["turn", "follow", "cancel"]
    thread: str
    ref: str | None = None
    message: str | None = None
    user: str | None = None
    key: str | None = None
    after: str | None = None
    mode: MemoryModeName | None = None
    busy: WhenBusy = "wait"
    channel: ChannelName = "web"
    installed_skills: SkillNames = ()
    agent: str | None = None


class UsageView(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of models; ``cost`` is in millionths of a dollar."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int = 0


class ApprovalView(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits for a decision."""

    call: str
    tool: str
    arguments: JSON = None
    question: JSON = None
    why: str = "approval"
    asked: int = 1


class TurnView(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that is over. ``effects`` are what a run that it rolled back did to the world."""

    thread: str
    run: str
    version: int
    text: str = ""
    output: JSON = None
    termination: str = "natural"
    waiting: list[ApprovalView] = []
    usage: UsageView = UsageView()
    effects: list[JSON] = []


POST_TURN = Route(
    "post_turn",
    "POST",
    "/threads/{id}/turns",
    TurnView,
    body=NewTurn,
    other_media_types=(EVENT_STREAM_TYPE,),
    has_etag=True,
    commits_key=True,
    runs_model=True,
)
POST_TURN_ON = Route(
    "post_turn_on",
    "POST",
    "/turns",
    TurnView,
    body=NewThreadTurn,
    other_media_types=(EVENT_STREAM_TYPE,),
    has_etag=True,
    commits_key=True,
    runs_model=True,
)
