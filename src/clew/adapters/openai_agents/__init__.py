"""OpenAI Agents: a session of its SDK on a thread of ours."""

from clew.core.errors import MissingExtra

try:
    import agents  # noqa: F401 - only to say in time what is missing
except ImportError as error:
    raise MissingExtra(extra="openai-agents", package="openai-agents") from error

from clew.adapters.openai_agents.items import FORMAT, HiddenItem
from clew.adapters.openai_agents.run_states import PausedRun
from clew.adapters.openai_agents.session import Session
from clew.adapters.openai_agents.usage import ConversationTurn, TokenUsage

__all__ = ["FORMAT", "ConversationTurn", "HiddenItem", "PausedRun", "Session", "TokenUsage"]
