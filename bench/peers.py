"""The stores people use today, each at its own defaults, storing the same turns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, TypedDict, cast

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from agents.extensions.memory import SQLAlchemySession
from agents.items import TResponseInputItem, TResponseStreamEvent
from agents.memory import SQLiteSession
from google.adk.events import Event, EventActions
from google.adk.sessions import DatabaseSessionService
from google.genai import types
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from openai.types.responses import ResponseOutputMessage, ResponseOutputText
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from bench.clock import Act, Contestant
from bench.raw import postgres_detail
from bench.turns import Turn, responses, turn

TURNS_PER_THREAD = 100
"""Some of them store or read the whole thread at every turn; longer threads would drown the run."""

PRAGMAS = ("journal_mode", "synchronous")
LEVELS = ("OFF", "NORMAL", "FULL", "EXTRA")


@contextmanager
def openai_sqlite(folder: Path) -> Iterator[Contestant]:
    """OpenAI Agents' SQLiteSession.add_items of the four items."""
    session = SQLiteSession("alice", folder / "openai.db")
    # The level belongs to a connection, so only the session's own can tell it.
    with session._locked_connection() as connection:  # noqa: SLF001
        pragmas = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in PRAGMAS]

    def ready(number: int) -> Act:
        items = cast(list[TResponseInputItem], responses(turn(number)))
        return lambda: session.add_items(items)

    try:
        detail = f"openai-agents {version('openai-agents')}, {_durability(pragmas)}"
        yield Contestant(name="OpenAI Agents SQLiteSession", detail=detail, ready=ready)
    finally:
        session.close()


class _Echo(Model):
    """A model for the runner that answers every request with the same words, without a pause."""

    def __init__(self, answer: str) -> None:
        text = ResponseOutputText(text=answer, type="output_text", annotations=[])
        self._message = ResponseOutputMessage(
            id="message", content=[text], role="assistant", status="completed", type="message"
        )

    async def get_response(self, *_: object, **__: object) -> ModelResponse:
        """The words."""
        return ModelResponse(output=[self._message], usage=Usage(requests=1), response_id=None)

    def stream_response(self, *_: object, **__: object) -> AsyncIterator[TResponseStreamEvent]:
        """Nothing is streamed."""
        raise NotImplementedError


@contextmanager
def openai_runner(folder: Path) -> Iterator[Contestant]:
    """A turn of OpenAI Agents' Runner on a SQLiteSession, a new session every hundred turns."""
    agent = Agent(name="bench", model=_Echo(turn(0).answer))
    config = RunConfig(tracing_disabled=True)
    path = folder / "runner.db"
    sessions: dict[int, SQLiteSession] = {}

    def ready(number: int) -> Act:
        name = number // TURNS_PER_THREAD
        if name not in sessions:
            sessions[name] = SQLiteSession(f"alice-{name}", path)
        return lambda: Runner.run(agent, turn(number).question, session=sessions[name], run_config=config)

    try:
        detail = f"openai-agents {version('openai-agents')}, Runner.run, threads of {TURNS_PER_THREAD} turns"
        yield Contestant(name="OpenAI Agents SQLiteSession", detail=detail, ready=ready)
    finally:
        for session in sessions.values():
            session.close()


@asynccontextmanager
async def openai_sqlalchemy(folder: Path) -> AsyncIterator[Contestant]:
    """OpenAI Agents' SQLAlchemySession.add_items of the four items, on SQLite."""
    url = f"sqlite+aiosqlite:///{folder / 'sqlalchemy.db'}"
    session = SQLAlchemySession.from_url("alice", url=url, create_tables=True)
    await session.get_items()

    def ready(number: int) -> Act:
        items = cast(list[TResponseInputItem], responses(turn(number)))
        return lambda: session.add_items(items)

    try:
        detail = f"openai-agents {version('openai-agents')}, {await _engine_durability(session.engine)}"
        yield Contestant(name="OpenAI Agents SQLAlchemySession", detail=detail, ready=ready, share=0.5)
    finally:
        await session.engine.dispose()


@asynccontextmanager
async def adk_sqlite(folder: Path) -> AsyncIterator[Contestant]:
    """ADK's DatabaseSessionService on SQLite: a turn is four events, each its own commit."""
    async with DatabaseSessionService(f"sqlite+aiosqlite:///{folder / 'adk.db'}") as service:
        session = await service.create_session(app_name="bench", user_id="alice", session_id="alice")

        def ready(number: int) -> Act:
            events = _events(turn(number))

            async def act() -> None:
                for event in events:
                    await service.append_event(session, event)

            return act

        durability = await _engine_durability(service.db_engine)
        detail = f"google-adk {version('google-adk')}, {durability}, one commit per event"
        yield Contestant(name="ADK DatabaseSessionService", detail=detail, ready=ready, share=0.1)


@asynccontextmanager
async def langgraph_sqlite(folder: Path) -> AsyncIterator[Contestant]:
    """LangGraph's AsyncSqliteSaver: one aput of the grown messages channel."""
    async with AsyncSqliteSaver.from_conn_string(str(folder / "langgraph.db")) as saver:
        await saver.setup()
        pragmas = []
        for name in PRAGMAS:
            async with saver.conn.execute(f"PRAGMA {name}") as cursor:
                row = await cursor.fetchone()
                assert row is not None
                pragmas.append(row[0])
        detail = (
            f"langgraph-checkpoint-sqlite {version('langgraph-checkpoint-sqlite')}, {_durability(pragmas)}"
        )
        yield _graph(saver, "LangGraph AsyncSqliteSaver", detail)


@asynccontextmanager
async def langgraph_postgres(url: str) -> AsyncIterator[Contestant]:
    """LangGraph's AsyncPostgresSaver: one aput of the grown messages channel."""
    async with AsyncPostgresSaver.from_conn_string(url) as saver:
        await saver.setup()
        release = version("langgraph-checkpoint-postgres")
        detail = f"langgraph-checkpoint-postgres {release}, {await postgres_detail(url)}"
        yield _graph(saver, "LangGraph AsyncPostgresSaver", detail)


class _Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


@asynccontextmanager
async def langgraph_turns(folder: Path) -> AsyncIterator[Contestant]:
    """A turn of a LangGraph graph of one node on its AsyncSqliteSaver, a new thread every hundred turns."""
    answer = turn(0).answer
    builder = StateGraph(_Chat)
    builder.add_node("answer", lambda state: {"messages": [AIMessage(answer)]})
    builder.add_edge(START, "answer")
    async with AsyncSqliteSaver.from_conn_string(str(folder / "graph.db")) as saver:
        graph = builder.compile(checkpointer=saver)

        def ready(number: int) -> Act:
            config: RunnableConfig = {"configurable": {"thread_id": f"alice-{number // TURNS_PER_THREAD}"}}
            state: _Chat = {"messages": [HumanMessage(turn(number).question)]}
            return lambda: graph.ainvoke(state, config)

        detail = f"langgraph {version('langgraph')}, one node, threads of {TURNS_PER_THREAD} turns"
        yield Contestant(name="LangGraph AsyncSqliteSaver", detail=detail, ready=ready, share=0.2)


def _graph(saver: BaseCheckpointSaver[str], name: str, detail: str) -> Contestant:
    """One put per turn: the least a graph can do (a one-node graph makes three)."""
    messages: list[AnyMessage] = []
    config: RunnableConfig = {}

    def ready(number: int) -> Act:
        new = _messages(turn(number))

        async def act() -> None:
            nonlocal config
            if number % TURNS_PER_THREAD == 0:
                messages.clear()
                config = {"configurable": {"thread_id": f"alice-{number}", "checkpoint_ns": ""}}
            messages.extend(new)
            checkpoint = _checkpoint(saver, messages, number)
            versions = checkpoint["channel_versions"]
            config = await saver.aput(config, checkpoint, {"source": "loop", "step": number}, versions)

        return act

    note = f"one put per turn, threads of {TURNS_PER_THREAD} turns"
    return Contestant(name=name, detail=f"{detail}, {note}", ready=ready, share=0.5)


def _checkpoint(saver: BaseCheckpointSaver[str], messages: Sequence[AnyMessage], number: int) -> Checkpoint:
    checkpoint = empty_checkpoint()
    checkpoint["id"] = str(uuid6(clock_seq=number % 16_384))
    checkpoint["channel_values"] = {"messages": list(messages)}
    checkpoint["channel_versions"] = {"messages": saver.get_next_version(None, None)}
    return checkpoint


def _messages(turn: Turn) -> list[AnyMessage]:
    call = {"name": "search_notes", "args": {"query": turn.query, "limit": 5}, "id": turn.call_id}
    return [
        HumanMessage(turn.question, id=f"{turn.number}-question"),
        AIMessage("", tool_calls=[call], id=f"{turn.number}-call"),
        ToolMessage(turn.result, tool_call_id=turn.call_id, id=f"{turn.number}-found"),
        AIMessage(turn.answer, id=f"{turn.number}-answer"),
    ]


def _events(turn: Turn) -> list[Event]:
    call = types.FunctionCall(id=turn.call_id, name="search_notes", args={"query": turn.query, "limit": 5})
    response = types.FunctionResponse(id=turn.call_id, name="search_notes", response={"result": turn.result})
    return [
        _event("user", types.Part(text=turn.question)),
        _event("agent", types.Part(function_call=call)),
        _event("agent", types.Part(function_response=response)),
        _event("agent", types.Part(text=turn.answer), mood=turn.mood),
    ]


def _event(author: str, part: types.Part, **state: object) -> Event:
    role = "user" if author == "user" else "model"
    content = types.Content(role=role, parts=[part])
    return Event(
        author=author, invocation_id="bench", content=content, actions=EventActions(state_delta=state)
    )


async def _engine_durability(engine: AsyncEngine) -> str:
    async with engine.connect() as connection:
        pragmas = [(await connection.execute(text(f"PRAGMA {name}"))).scalar_one() for name in PRAGMAS]
    return _durability(pragmas)


def _durability(pragmas: Sequence[object]) -> str:
    journal, level = pragmas
    return f"journal_mode={str(journal).upper()}, synchronous={LEVELS[int(str(level))]}"
