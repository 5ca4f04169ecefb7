"""The agent of a thread: named by its first turn, and alone in writing it."""

from typing import Final

from clew.core import patch
from clew.core.errors import GuestThread, ThreadOfAnotherAgent
from clew.core.log.tool_calls import CLEW_FORMAT
from clew.core.ops import Op
from clew.core.values import ABOUT_KEY, AGENT_KEY, HISTORY, Head
from clew.database.thread import Thread

GUESTS: Final = {
    "adk": "Google ADK",
    "langchain": "LangGraph",
    "langgraph": "LangGraph",
    "openai.responses": "OpenAI Agents",
    "pydantic-ai": "Pydantic AI",
}
"""The guest frameworks by the format of their items, which is also the key of what they keep in a state."""


def agent_ops(head: Head | None, agent: str) -> tuple[Op, ...]:
    """Return the op that names the agent of a thread; none if it has a name."""
    if head is not None and head.agent is not None:
        return ()
    return (patch.set([ABOUT_KEY, AGENT_KEY], agent),)


async def check_thread_agent(thread: Thread, head: Head, agent: str) -> None:
    """Refuse to write a thread of another agent, or of a guest framework.

    Raises:
        ThreadOfAnotherAgent: Another agent has run turns on it.
        GuestThread: A guest framework keeps it.
    """
    if head.agent == agent:
        return
    if head.agent is not None:
        raise ThreadOfAnotherAgent(thread=head.id, agent=agent, other=head.agent)
    await check_no_guest(thread, head, agent)


async def check_no_guest(thread: Thread, head: Head, agent: str) -> None:
    """Refuse a thread that a guest framework keeps.

    Raises:
        GuestThread: One does.
    """
    format = next((key for key in GUESTS if key in head.state), None)
    if format is None and HISTORY in head.counters.logs:
        # Also what was taken away since: an empty history may be a guest's all the same.
        for item in await thread.items(last=1, at=head.version, whole=True):
            format = item.format
    if format not in (None, CLEW_FORMAT):
        raise GuestThread(thread=head.id, agent=agent, other=GUESTS.get(format, format))
