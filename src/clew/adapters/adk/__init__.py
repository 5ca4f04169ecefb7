"""Google ADK on Clew: its sessions, events, scoped state and memory, on any store."""

from clew.core.errors import MissingExtra

try:
    import google.adk.sessions  # noqa: F401 - asked for here, so that its absence is named once
except ImportError as error:
    raise MissingExtra(extra="adk", package="google-adk") from error

from clew.adapters.adk.events import FORMAT, events_of
from clew.adapters.adk.memory import MemoryService, memory_thread_of
from clew.adapters.adk.scopes import thread_of
from clew.adapters.adk.sessions import SessionPage, SessionService

__all__ = [
    "FORMAT",
    "MemoryService",
    "SessionPage",
    "SessionService",
    "events_of",
    "memory_thread_of",
    "thread_of",
]
