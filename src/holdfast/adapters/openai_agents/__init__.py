"""OpenAI Agents: a session of its SDK on a thread of ours."""

from holdfast.core.errors import MissingExtra

try:
    import agents  # noqa: F401 - only to say in time what is missing
except ImportError as error:
    raise MissingExtra(extra="openai-agents", package="openai-agents") from error

from holdfast.adapters.openai_agents.items import FORMAT
from holdfast.adapters.openai_agents.paused import Paused
from holdfast.adapters.openai_agents.session import Session
from holdfast.adapters.openai_agents.usage import Spent, Turn

__all__ = ["FORMAT", "Paused", "Session", "Spent", "Turn"]
