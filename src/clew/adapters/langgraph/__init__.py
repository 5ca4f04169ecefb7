"""LangGraph on Clew: a checkpointer that stores what changed, and a store."""

from clew.core.errors import MissingExtra

try:
    import langgraph.checkpoint.base  # noqa: F401 - only to say what is missing
except ImportError as error:
    raise MissingExtra(extra="langgraph", package="langgraph") from error

from clew.adapters.langgraph.checkpointer import Checkpointer
from clew.adapters.langgraph.messages import heal_messages, heal_model_input
from clew.adapters.langgraph.store import Store
from clew.adapters.langgraph.unresolved_value import UnresolvedValue

__all__ = ["Checkpointer", "Store", "UnresolvedValue", "heal_messages", "heal_model_input"]
