"""A graph with half a tool call in its messages goes on, and its state stays as it is."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.prebuilt import create_react_agent
from pydantic import Field

from clew.adapters.langgraph import Checkpointer, heal_messages, heal_model_input

pytestmark = [
    pytest.mark.promise("B-05", "B-10"),
    pytest.mark.filterwarnings("ignore:create_react_agent has been moved"),
]

ASKED = HumanMessage(content="Where is it?")
ANSWER = AIMessage(content="Fine.")


def call(*ids: str) -> AIMessage:
    return AIMessage(content="", tool_calls=[{"id": id, "name": "look", "args": {}} for id in ids])


def result(id: str, text: str = "found") -> ToolMessage:
    return ToolMessage(content=text, tool_call_id=id)


def halves(messages: list[BaseMessage]) -> list[str]:
    """What messages are, in a few letters."""
    return [_half(message) for message in messages]


def _half(message: BaseMessage) -> str:
    if isinstance(message, ToolMessage):
        return f"result {message.tool_call_id}"
    if isinstance(message, AIMessage) and message.tool_calls:
        return f"call {' '.join(part['id'] or '' for part in message.tool_calls)}"
    return "user" if isinstance(message, HumanMessage) else "assistant"


class ListeningModel(BaseChatModel):
    """Answers, and keeps what it was shown."""

    shown: list[list[Any]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "listening"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.shown.append(list(messages))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content="Yes."))])


@pytest.mark.parametrize(
    ("messages", "healed"),
    [
        ([ASKED, call("a"), result("a"), ANSWER], ["user", "call a", "result a", "assistant"]),
        ([ASKED, call("a"), ASKED], ["user", "call a", "result a", "user"]),
        ([ASKED, call("a", "b"), result("b")], ["user", "call a b", "result a", "result b"]),
        ([result("a"), ANSWER], ["assistant"]),
        ([ASKED, call("a"), result("a"), result("a"), ANSWER], ["user", "call a", "result a", "assistant"]),
        ([ASKED, call("a"), ASKED, result("a")], ["user", "call a", "result a", "user"]),
    ],
)
def test_each_call_is_followed_by_its_result(messages: list[BaseMessage], healed: list[str]) -> None:
    assert halves(heal_messages(messages)) == healed


def test_a_call_id_that_is_used_again_has_the_result_of_its_own() -> None:
    messages: list[BaseMessage] = [
        call("a"),
        result("a", "first"),
        call("a"),
        result("a", "second"),
        call("a"),
    ]
    contents = [message.content for message in heal_messages(messages) if isinstance(message, ToolMessage)]

    assert contents == ["first", "second", "The call was interrupted before there was a result."]


async def test_a_graph_goes_on_and_keeps_its_state(
    saver: Checkpointer, caplog: pytest.LogCaptureFixture
) -> None:
    model = ListeningModel()
    config: Any = {"configurable": {"thread_id": "t"}}
    broken = create_react_agent(model, [], checkpointer=saver)
    await broken.aupdate_state(config, {"messages": [ASKED, call("a"), result("lost")]})
    with pytest.raises(ValueError, match="INVALID_CHAT_HISTORY"):
        await broken.ainvoke({"messages": [HumanMessage(content="Next.")]}, config)
    healing = create_react_agent(model, [], checkpointer=saver, pre_model_hook=heal_model_input)
    with caplog.at_level(logging.WARNING, "clew"):
        result_state = await healing.ainvoke({"messages": [HumanMessage(content="Go on.")]}, config)

    assert halves(model.shown[0]) == ["user", "call a", "result a", "user", "user"]
    assert halves(result_state["messages"]) == ["user", "call a", "result lost", "user", "user", "assistant"]
    assert sorted(record.message.split()[-1] for record in caplog.records) == ["'a'.", "'lost'."]
