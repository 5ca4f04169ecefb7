"""Messages of a graph as a provider takes them: each tool call directly followed by its result."""

import logging
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from clew.core.arguments import check_arguments
from clew.core.messages.orphans import find_orphans

INTERRUPTED = "The call was interrupted before there was a result."

_log = logging.getLogger(__name__)


@check_arguments
def heal_model_input(state: dict[str, Any]) -> dict[str, list[BaseMessage]]:
    """A ``pre_model_hook``: the messages of a state without halves of tool calls; the state stays."""
    return {"llm_input_messages": heal_messages(state["messages"])}


@check_arguments
def heal_messages(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages, with a result for each call that has none, and without results that answer no call."""
    orphans = find_orphans((_calls_of(message), _results_of(message)) for message in messages)
    for _, call in sorted(orphans.calls | orphans.results):
        _log.warning("A model is shown no half of the tool call %r.", call)
    results: defaultdict[str, deque[ToolMessage]] = defaultdict(deque)
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage) and (index, message.tool_call_id) not in orphans.results:
            results[message.tool_call_id].append(message)
    healed: list[BaseMessage] = []
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            continue
        healed.append(message)
        for call in _calls_of(message):
            is_open = (index, call) in orphans.calls
            healed.append(_interruption(call) if is_open else results[call].popleft())
    return healed


def _interruption(call: str) -> ToolMessage:
    return ToolMessage(content=INTERRUPTED, tool_call_id=call, status="error")


def _calls_of(message: BaseMessage) -> list[str]:
    return [call["id"] or "" for call in message.tool_calls] if isinstance(message, AIMessage) else []


def _results_of(message: BaseMessage) -> list[str]:
    return [message.tool_call_id] if isinstance(message, ToolMessage) else []
