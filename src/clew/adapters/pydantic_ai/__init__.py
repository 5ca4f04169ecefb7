"""Pydantic AI on Clew: its conversation store, on any store."""

from clew.core.errors import MissingExtra

try:
    import pydantic_ai.conversation_store  # noqa: F401 - asked for here, so that its absence is named once
except ImportError as error:
    raise MissingExtra(extra="pydantic-ai", package="pydantic-ai-slim (2.66 or newer)") from error

from clew.adapters.pydantic_ai.conversations import Conversations
from clew.adapters.pydantic_ai.entries import FORMAT, history_of

__all__ = ["FORMAT", "Conversations", "history_of"]
