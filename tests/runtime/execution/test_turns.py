"""Turns on a thread: the first and the later ones, what each reads, and what they refuse."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import apsw
import pytest

import clew
import clew.runtime.memory
from clew.core.errors import (
    InvalidArgument,
    InvalidId,
    ModelFailed,
    SchemaInvalid,
    StateInvalid,
    ThreadNotFound,
)
from clew.core.values import AppendTo, Changeset
from clew.database.database import Database
from clew.runtime.context import Context
from clew.runtime.model.messages import Message
from clew.runtime.model.protocol import ModelRequest
from clew.runtime.respond.respond import respond
from clew.runtime.runtime import Runtime
from clew.runtime.state.call_state import Replay
from clew.runtime.state.schema import Conversation
from clew.runtime.tools.tool import Effect, tool
from clew.runtime.turn.draft import Delta
from clew.testing.scripted_model import ScriptedModel, calls
from tests.runtime.sample_state import Companion, constant_stage, count, reopen
from tests.support.relay import Relay
from tests.support.shared_postgres import PostgresDatabase


@pytest.mark.promise("R-07")
async def test_the_first_turn_makes_the_thread_with_its_defaults(db: Database) -> None:
    async with Runtime(db, schema=Companion, stages=[]) as runtime:
        await runtime.run_turn("a", "Hi", user="ann")
        state = await runtime.state("a", user="ann")

    head = await db.thread("a").head()
    assert (head.owner, head.length()) == ("ann", 1)
    assert (state.approach, state.session_progress.turn_count, state.session_memory) == ("none", 0, {})


@pytest.mark.promise("R-04", "R-07")
async def test_a_later_turn_emits_only_its_own_message(db: Database, store_url: str) -> None:
    async with Runtime(db, schema=Companion, stages=[count]) as runtime:
        await runtime.run_turn("a", "One")
    before = await db.thread("a").head()
    async with reopen(db, store_url) as again, Runtime(again, schema=Companion, stages=[count]) as runtime:
        await runtime.run_turn("a", "Two")

    head = await db.thread("a").head()
    changes = await db.thread("a").changesets(after=before.version)
    assert [item.body["content"] for change in changes for item in change.items] == ["Two"]
    assert head.state["session_progress"] == {"turn_count": 2}
    assert head.updated >= before.updated


@pytest.mark.promise("R-03")
async def test_a_restart_between_turns_changes_nothing(db: Database, store_url: str) -> None:
    stages = [
        count,
        constant_stage(history=[clew.Message(role="assistant", content="Well.")], approach="act"),
    ]
    async with Runtime(db, schema=Companion, stages=stages) as runtime:
        await runtime.run_turn("together", "One")
        await runtime.run_turn("together", "Two")
        await runtime.run_turn("apart", "One")
    async with reopen(db, store_url) as again, Runtime(again, schema=Companion, stages=stages) as other:
        await other.run_turn("apart", "Two")

    assert await snapshot(db, "together") == await snapshot(db, "apart")


async def snapshot(db: Database, id: str) -> tuple[Any, ...]:
    """What a user can see of a thread."""
    head = await db.thread(id).head()
    items = [(item.role, item.body) for item in await db.thread(id).items()]
    private_names = ("$run", "diagnostics")
    return (
        head.version,
        items,
        {name: value for name, value in head.state.items() if name not in private_names},
    )


# The thread's id.


@pytest.mark.promise("R-17")
@pytest.mark.parametrize("missing", ["", None])
async def test_a_turn_without_a_thread_id_is_refused(db: Database, missing: Any) -> None:
    async with Runtime(db, schema=Companion, stages=[]) as runtime:
        with pytest.raises(InvalidId) as error:
            await runtime.run_turn(missing, "Hi", user="ann")
        with pytest.raises(InvalidId):
            _ = [event async for event in runtime.stream_turn(missing, "Hi", user="ann")]

    assert error.value.what == "thread id"
    assert (await db.threads()).threads == ()


@pytest.mark.promise("R-17")
async def test_the_thread_has_the_id_it_was_given_whoever_the_user_is(db: Database) -> None:
    async with Runtime(db, schema=Companion, stages=[]) as runtime:
        results = [await runtime.run_turn(id, "Hi", user="ann") for id in ("s1", "s2")]

    assert [result.thread for result in results] == ["s1", "s2"]
    assert sorted(thread.id for thread in (await db.threads()).threads) == ["s1", "s2"]


async def test_looking_at_a_thread_that_is_not_there_makes_none(db: Database) -> None:
    async with Runtime(db, schema=Companion, stages=[]) as runtime:
        with pytest.raises(ThreadNotFound):
            await runtime.state("nowhere")
        with pytest.raises(ThreadNotFound):
            await runtime.resume("nowhere")

    assert (await db.threads()).threads == ()


# What comes in.


@pytest.mark.promise("A-01")
@pytest.mark.parametrize(
    ("inputs", "field", "problem"),
    [
        ({}, "message", "the turn needs it"),
        ({"message": 3}, "message", "Expected `str`"),
        ({"message": "Hi", "nope": 1}, "nope", "no such field"),
        ({"message": "Hi", "approach": "act"}, "approach", "not an input"),
    ],
)
async def test_what_the_caller_gives_must_be_inputs(
    db: Database, inputs: dict[str, Any], field: str, problem: str
) -> None:
    async with Runtime(db, schema=Companion, stages=[]) as runtime:
        with pytest.raises(StateInvalid, match=problem) as error:
            await runtime.run_turn("a", inputs)

    assert (error.value.stage, error.value.field) == ("the caller", field)
    assert (await db.threads()).threads == ()


async def test_what_is_no_input_at_all_is_refused(db: Database) -> None:
    async with Runtime(db, schema=Companion, stages=[]) as runtime:
        with pytest.raises(InvalidArgument, match="not int"):
            await runtime.run_turn("a", 3)  # type: ignore[arg-type]


@pytest.mark.promise("A-11")
async def test_an_output_shows_only_what_the_state_has(db: Database) -> None:
    class Output(clew.State):
        route: str = ""
        mood: str = ""

    with pytest.raises(SchemaInvalid) as error:
        Runtime(db, schema=Companion, stages=[], output=Output)
    assert (error.value.schema, error.value.field) == ("Output", "mood")


# What a turn reads.

BEFORE, AFTER, CYCLE = 20, 2_000, 40
"""Turns to compare, and how many in a row: the patches since the last anchor come and go."""


ReadSize: TypeAlias = tuple[int, int]


class RowCounter:
    """Rows and bytes, as somebody outside of Clew counts them."""

    def __init__(self) -> None:
        self.rows = 0
        self.size = 0


@pytest.fixture
def sqlite_rows(monkeypatch: pytest.MonkeyPatch) -> RowCounter:
    """Every row that SQLite hands out, counted by its driver on whatever connection."""
    counter = RowCounter()

    def trace(cursor: apsw.Cursor, row: Any) -> Any:
        counter.rows += 1
        counter.size += sum(len(value) if isinstance(value, bytes | str) else 8 for value in row)
        return row

    def trace_rows(connection: apsw.Connection) -> None:
        connection.set_row_trace(trace)

    monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, trace_rows])
    return counter


async def fill_thread(db: Database, turns: int) -> None:
    """More turns on a thread than one would want to wait for."""
    items = [clew.user("How are you?"), clew.assistant("Well, thank you.")]
    patches = (clew.set(["approach"], "act"),)
    appends = [AppendTo(thread="a", change=Changeset(items=(item,), patches=patches)) for item in items]
    for _ in range(turns // 25):
        await db.commit(appends * 25)


async def largest_read(runtime: Runtime[Companion], read_size: Callable[[], ReadSize]) -> ReadSize:
    """The most rows and bytes that one of some turns in a row reads, from the twentieth on."""
    for _ in range(BEFORE):
        await runtime.run_turn("a", "How are you?")
    sizes: list[ReadSize] = []
    for _ in range(CYCLE):
        rows, size = read_size()
        await runtime.run_turn("a", "How are you?")
        sizes.append((read_size()[0] - rows, read_size()[1] - size))
    return max(rows for rows, _ in sizes), max(size for _, size in sizes)


async def early_and_late(db: Database, read_size: Callable[[], ReadSize]) -> tuple[ReadSize, ReadSize]:
    """What turns read at the beginning of a thread and after thousands."""
    model = ScriptedModel(*["Well, thank you."] * (2 * BEFORE + 2 * CYCLE))
    stages = [count, constant_stage(approach="act"), respond(field="response_text")]
    async with Runtime(db, schema=Companion, stages=stages, model=model) as runtime:
        early = await largest_read(runtime, read_size)
        await fill_thread(db, AFTER - 2 * BEFORE - CYCLE)
        return early, await largest_read(runtime, read_size)


SLACK = 1.01
"""Versions and lengths have more digits in the end."""


@pytest.mark.promise("R-04")
async def test_a_late_turn_reads_no_more_of_a_file_than_an_early_one(
    tmp_path: Path, sqlite_rows: RowCounter
) -> None:
    async with clew.open(f"sqlite:///{tmp_path / 'agent.db'}") as db:
        early, late = await early_and_late(db, lambda: (sqlite_rows.rows, sqlite_rows.size))

    assert (late[0], late[1] <= early[1] * SLACK) == (early[0], True)


@pytest.mark.postgres
@pytest.mark.promise("R-04")
async def test_a_late_turn_reads_no_more_from_a_server_than_an_early_one(
    postgres_database: PostgresDatabase,
) -> None:
    async with Relay(postgres_database.url) as relay, clew.open(relay.url) as db:
        early, late = await early_and_late(db, lambda: (relay.rows, relay.size))

    assert (late[0], late[1] <= early[1] * SLACK) == (early[0], True)


# What the reference says.

REFERENCE = Path(__file__).parents[3] / "docs/reference/runtime.md"
OSLO, BERGEN = ("c1", "weather", {"city": "Oslo"}), ("c2", "weather", {"city": "Bergen"})
ANN = ("c3", "send", {"to": "Ann"})


@tool(effect=Effect.NONE)
async def weather(city: str) -> str:
    """Say what the weather is like."""
    return f"sunny in {city}"


@tool(approval=True)
async def send(to: str) -> str:
    """Send a letter."""
    return to


async def ask(state: Conversation, ctx: Context) -> None:
    await ctx.turn.ask(ctx.control_llm, ModelRequest(messages=[]))


async def note(state: Conversation, ctx: Context) -> None:
    ctx.turn.record("note", {})


async def reply(state: Conversation, ctx: Context) -> Delta:
    return {"history": [Message(role="assistant", content="Hello.")]}


async def rest(state: Conversation, ctx: Context) -> None:
    """Do nothing."""


async def fail_safely(state: Conversation, ctx: Context) -> None:
    ctx.turn.set_safe_reply("Please call somebody.")
    raise ModelFailed(model="m", problem="it is down")


def the_table() -> dict[str, list[str]]:
    """The checkpoints of each case, as the reference says."""
    rows = re.findall(r"^\| ([a-z ,]+) \| (`UserMessage`.*) \|$", REFERENCE.read_text(), re.MULTILINE)
    return {case: re.findall(r"`(\w+)`", words) for case, words in rows}


CASES: dict[str, tuple[list[Any], list[Any]]] = {
    "plain answer": ([respond()], ["Hello."]),
    "one tool": ([respond(tools=[weather])], [calls(OSLO), "Sunny."]),
    "parallel tools": ([respond(tools=[weather])], [calls(OSLO, BERGEN), "Sunny."]),
    "suspension": ([respond(tools=[send])], [calls(ANN)]),
    "error of the model": ([respond()], [ModelFailed(model="m", problem="it is down")]),
    "a stage asks, another answers": ([ask, respond()], ["calm", "Hello."]),
    "a stage records something, another answers": ([note, respond()], ["Hello."]),
    "a stage adds an answer": ([reply], []),
    "a stage adds an answer, another follows": ([reply, rest], []),
    "an error after a safe reply": ([fail_safely], []),
}


@pytest.mark.promise("T-08")
@pytest.mark.parametrize("case", CASES)
async def test_the_table_of_checkpoints_is_what_happens(db: Database, case: str) -> None:
    stages, script = CASES[case]
    async with Runtime(db, stages=stages, model=ScriptedModel(*script)) as runtime:
        with suppress(ModelFailed):
            await runtime.run_turn("a", "Hi")

    assert [change.reason for change in await db.thread("a").changesets()] == the_table()[case]


@pytest.mark.promise("T-08")
async def test_the_table_says_what_happens_when_a_run_is_resumed(db: Database) -> None:
    model = ScriptedModel(calls(ANN), "Sent.")
    async with Runtime(db, model=model, tools=[send]) as runtime:
        before = await runtime.run_turn("a", "Hi")
        await runtime.resume("a", {"c3": Replay()})

    changes = await db.thread("a").changesets(after=before.version)
    assert [change.reason for change in changes] == the_table()["resume"]


async def test_nobody_cancels_the_turn_of_somebody_else(db: Database) -> None:
    start, go_on = asyncio.Event(), asyncio.Event()

    async def wait(state: clew.State, ctx: Context) -> None:
        start.set()
        await go_on.wait()

    async with Runtime(db, stages=[wait]) as runtime:
        turn = asyncio.create_task(runtime.run_turn("a", "Hi", user="ann"))
        await start.wait()
        was_cancelled = await runtime.cancel("a", user="eve")
        go_on.set()

        assert (was_cancelled, (await turn).termination) == (False, "natural")


@pytest.mark.promise("T-08")
async def test_the_table_says_what_happens_when_a_run_is_cancelled(db: Database) -> None:
    call = asyncio.Event()

    @tool(effect=Effect.NONE, name="weather")
    async def endless(city: str) -> None:
        call.set()
        await asyncio.Event().wait()

    async with Runtime(db, model=ScriptedModel(calls(OSLO)), tools=[endless]) as runtime:
        turn = asyncio.create_task(runtime.run_turn("a", "Hi"))
        await call.wait()
        await runtime.cancel("a")
        await turn

    changes = await db.thread("a").changesets()
    assert [change.reason for change in changes] == the_table()["cancel while a tool runs"]


def test_every_name_of_the_runtime_is_in_its_reference() -> None:
    names = re.findall(r"^\| `(\w+)`(?: ●)? \|", REFERENCE.read_text(), re.MULTILINE)

    assert set(names) == {*clew.runtime.__all__, *clew.runtime.memory.__all__}


def test_every_method_of_the_runtime_is_in_its_reference() -> None:
    names = re.findall(r"^\| `(\w+)\(", REFERENCE.read_text(), re.MULTILINE)

    methods = [name for name, member in vars(Runtime).items() if callable(member)]
    assert sorted(names) == sorted(name for name in methods if not name.startswith("_"))


def test_the_names_that_are_in_clew_too_are_marked() -> None:
    names = re.findall(r"^\| `(\w+)` ● \|", REFERENCE.read_text(), re.MULTILINE)

    assert sorted(names) == sorted(set(clew.runtime.__all__) & set(clew.__all__))
