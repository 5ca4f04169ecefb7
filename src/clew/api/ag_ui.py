"""Runs as AG-UI has them: the input of a run, which a client of that protocol sends."""

from typing import Literal

import msgspec

from clew.api.events import EVENT_STREAM_TYPE, StreamEvent
from clew.api.route import Route
from clew.api.turns import ChannelName, MemoryModeName, SkillNames, WhenBusy
from clew.core.encoding import JSON

OPTIONS = "clew"
"""The key of ``forwardedProps`` under which a client says what AG-UI has no field for."""


class AgUiFunction(msgspec.Struct, frozen=True, kw_only=True):
    """The name of a tool, and its arguments as a text of JSON."""

    name: str
    arguments: str = ""


class AgUiToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call inside a message of the agent."""

    id: str
    function: AgUiFunction
    type: Literal["function"] = "function"


class AgUiMessage(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One message of a conversation; fields that are not here are ignored."""

    id: str
    role: str
    content: JSON = None
    tool_calls: tuple[AgUiToolCall, ...] | None = None
    tool_call_id: str | None = None


class InterruptAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer of a person to an interrupt, or that there will be none."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: JSON = None


class AgUiOptions(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """Options of a turn, and the last event that a client has seen: the field ``clew`` of forwardedProps."""

    user: str | None = None
    mode: MemoryModeName | None = None
    busy: WhenBusy = "wait"
    channel: ChannelName = "web"
    installed_skills: SkillNames = ()
    agent: str | None = None
    last_event_id: str | None = None


class AgUiInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The input of a run. Of its messages only new ones of the user are taken; the server has the others.

    ``tools`` must be empty: the agent has tools of its own. ``state`` and ``context`` change nothing.
    """

    thread_id: str
    run_id: str
    messages: list[AgUiMessage]
    state: JSON = None
    tools: list[JSON] | None = None
    context: list[JSON] | None = None
    forwarded_props: JSON = None
    resume: list[InterruptAnswer] | None = None


RUN_AG_UI = Route(
    "run_ag_ui",
    "POST",
    "/ag-ui",
    StreamEvent,
    body=AgUiInput,
    media_type=EVENT_STREAM_TYPE,
    commits_key=True,
    runs_model=True,
)
