"""A LangGraph chat that stores only what changed, goes back in time, and is still there after a restart."""

import tempfile
from pathlib import Path
from typing import Annotated, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

from clew.adapters.langgraph import Checkpointer


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def answer(state: Chat) -> Chat:
    return {"messages": [AIMessage(f"You said: {state['messages'][-1].content}")]}


builder = StateGraph(Chat)
builder.add_node("answer", answer)
builder.add_edge(START, "answer")
alice: RunnableConfig = {"configurable": {"thread_id": "alice-1"}}

with tempfile.TemporaryDirectory() as folder:
    url = f"sqlite:///{Path(folder) / 'agent.db'}"

    with Checkpointer(url) as checkpointer:
        graph = builder.compile(checkpointer=checkpointer)
        for number in range(50):
            graph.invoke({"messages": [HumanMessage(f"This is message {number}.")]}, alice)

    with Checkpointer(url) as checkpointer:  # as another process would
        graph = builder.compile(checkpointer=checkpointer)
        messages = graph.get_state(alice).values["messages"]
        print(len(messages), "messages; the last one:", messages[-1].content)
        past = next(state for state in graph.get_state_history(alice) if len(state.values["messages"]) == 10)
        graph.invoke({"messages": [HumanMessage("Let us try that again.")]}, past.config)
        print("from there on:", graph.get_state(alice).values["messages"][-1].content)
        print("checkpoints:", sum(1 for _ in checkpointer.list(alice)))

    print("kilobytes:", (Path(folder) / "agent.db").stat().st_size // 1024)
