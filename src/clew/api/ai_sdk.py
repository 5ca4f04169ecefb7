"""The AI SDK's chat: its messages in, a UI message stream out, and a thread as its messages.

The names are those of the protocol, UI message stream v1, as ``DefaultChatTransport`` speaks it.
"""

from typing import Literal, TypeAlias

import msgspec

from clew.api.events import EVENT_STREAM_TYPE
from clew.api.route import Route
from clew.api.turns import ChannelName, MemoryModeName, SkillNames, WhenBusy
from clew.core.encoding import JSON

UiPart: TypeAlias = dict[str, JSON]
"""A part of a message: a text, a tool call with what became of it, or the start of a step."""


class UiMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message as a page shows it. The answer of a run is one message, whose id is that of the run."""

    id: str
    role: Literal["system", "user", "assistant"]
    parts: list[UiPart]
    metadata: dict[str, JSON] | None = None


class UiMessageChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk of a UI message stream; the type says which fields it has besides."""

    type: str


class NewChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request of a chat: its whole list of messages, of which the last is to be answered.

    ``id`` is the thread. The other fields are those of a turn, for the ``body`` of the transport. Fields that
    are not named here are ignored, since each version of the AI SDK may send others.
    """

    id: str
    messages: list[UiMessage]
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    message_id: str | None = msgspec.field(default=None, name="messageId")
    user: str | None = None
    mode: MemoryModeName | None = None
    busy: WhenBusy = "wait"
    channel: ChannelName = "web"
    installed_skills: SkillNames = ()
    agent: str | None = None


class ChatMessages(msgspec.Struct, frozen=True, kw_only=True):
    """The newest messages of a thread, for the first render of a page."""

    thread: str
    messages: list[UiMessage]


POST_CHAT = Route(
    "post_chat",
    "POST",
    "/ai-sdk/chat",
    UiMessageChunk,
    body=NewChatRequest,
    media_type=EVENT_STREAM_TYPE,
    commits_key=True,
    runs_model=True,
)
RESUME_CHAT = Route(
    "resume_chat",
    "GET",
    "/ai-sdk/chat/{id}/stream",
    UiMessageChunk,
    media_type=EVENT_STREAM_TYPE,
    runs_model=True,
    scope="write",
)
LIST_CHAT_MESSAGES = Route("list_chat_messages", "GET", "/ai-sdk/chat/{id}/messages", ChatMessages)
