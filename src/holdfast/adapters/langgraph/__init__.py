"""LangGraph on Holdfast: a checkpointer that stores what changed, and a store."""

from holdfast.core.errors import MissingExtra

try:
    import langgraph.checkpoint.base  # noqa: F401 - only to say what is missing
except ImportError as error:
    raise MissingExtra(extra="langgraph", package="langgraph") from error

from holdfast.adapters.langgraph.checkpointer import Checkpointer
from holdfast.adapters.langgraph.store import Store

__all__ = ["Checkpointer", "Store"]
