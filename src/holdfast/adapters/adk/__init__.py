"""Google ADK on Holdfast: its sessions, events, scoped state and memory, on any store."""

from holdfast.core.errors import MissingExtra

try:
    import google.adk.sessions  # noqa: F401 - asked for here, so that its absence is named once
except ImportError as error:
    raise MissingExtra(extra="adk", package="google-adk") from error

from holdfast.adapters.adk.events import FORMAT, events_of
from holdfast.adapters.adk.memory import MemoryService, memory_thread_of
from holdfast.adapters.adk.scopes import thread_of
from holdfast.adapters.adk.sessions import SessionPage, SessionService

__all__ = [
    "FORMAT",
    "MemoryService",
    "SessionPage",
    "SessionService",
    "events_of",
    "memory_thread_of",
    "thread_of",
]
