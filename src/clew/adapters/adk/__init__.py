"""Google ADK on Clew: its sessions, events, scoped state and memory, on any store."""

from clew.core.errors import MissingExtra

try:
    import google.adk.sessions  # noqa: F401 - asked for here, so that its absence is named once
except ImportError as error:
    raise MissingExtra(extra="adk", package="google-adk") from error

from clew.adapters.adk.events import FORMAT, events_of
from clew.adapters.adk.memory import MemoryService, memory_thread_id_of
from clew.adapters.adk.scopes import thread_id_of
from clew.adapters.adk.sessions import ListSessionsPage, SessionService

__all__ = [
    "FORMAT",
    "ListSessionsPage",
    "MemoryService",
    "SessionService",
    "events_of",
    "memory_thread_id_of",
    "thread_id_of",
]
