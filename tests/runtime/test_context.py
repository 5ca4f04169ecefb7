"""What a stage works with: exactly these dependencies, which it cannot change."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from clew.core.values import Record, RecordQuery
from clew.database.database import Database
from clew.runtime.context import Context, MemoryMode
from clew.runtime.execution.stateless import run_agent
from clew.runtime.respond.respond import respond
from clew.runtime.runtime import Runtime
from clew.runtime.state.schema import Conversation
from clew.stores.memory import MemoryStore
from clew.testing.scripted_model import ScriptedModel

FIELDS = {
    "llm_client": dataclasses.MISSING,
    "memory_store": dataclasses.MISSING,
    "memory_mode": dataclasses.MISSING,
    "response_llm": None,
    "embedding_provider": None,
    "session_memory_buffer": None,
}
CONTROL, WRITER = ScriptedModel(name="control"), ScriptedModel(name="writer")


def context_of(**options: Any) -> Context:
    """A context with the least that it needs."""
    records = Database(MemoryStore()).records
    defaults: dict[str, Any] = {
        "llm_client": CONTROL,
        "memory_store": records,
        "memory_mode": MemoryMode.LOCAL,
        "turn": None,
    }
    return Context(**(defaults | options))


@pytest.mark.promise("R-19")
def test_the_context_has_six_dependencies_and_the_turn() -> None:
    fields = {field.name: field.default for field in dataclasses.fields(Context)}

    assert fields == {**FIELDS, "turn": dataclasses.MISSING}


@pytest.mark.promise("R-19")
@pytest.mark.parametrize("name", [*FIELDS, "turn"])
def test_no_dependency_can_be_changed(name: str) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(context_of(), name, None)


@pytest.mark.promise("R-19")
def test_nothing_can_be_added() -> None:
    context = context_of()

    assert not hasattr(context, "__dict__")
    with pytest.raises((AttributeError, TypeError)):
        context.extra = 1  # type: ignore[attr-defined]


@pytest.mark.promise("R-19")
def test_the_deciding_model_is_the_client() -> None:
    assert context_of(response_llm=WRITER).control_llm is CONTROL


@pytest.mark.promise("R-19")
def test_the_writing_model_is_the_client_unless_another_is_given() -> None:
    assert (context_of().response_llm, context_of(response_llm=WRITER).response_llm) == (CONTROL, WRITER)


@pytest.mark.promise("R-19")
def test_there_may_be_no_model_at_all() -> None:
    context = context_of(llm_client=None)

    assert (context.control_llm, context.response_llm) == (None, None)


@pytest.mark.promise("R-19")
async def test_every_stage_of_both_layers_gets_the_same_dependencies(db: Database) -> None:
    contexts: list[Context] = []

    async def one(state: Conversation, ctx: Context) -> None:
        contexts.append(ctx)

    async def two(state: Conversation, ctx: Context) -> None:
        contexts.append(ctx)

    async with Runtime(db, stages=[one, two], model=CONTROL, response_model=WRITER) as runtime:
        await runtime.run_turn("a", "Hi")
    await run_agent("Hi", stages=[one, two], model=CONTROL, response_model=WRITER)

    assert [(ctx.llm_client, ctx.response_llm) for ctx in contexts] == [(CONTROL, WRITER)] * 4
    assert (contexts[0], contexts[2]) == (contexts[1], contexts[3])
    mode = MemoryMode.SYNCED if db.store.name == "postgres" else MemoryMode.LOCAL
    assert [contexts[0].memory_mode, contexts[2].memory_mode] == [mode, MemoryMode.INCOGNITO]


async def test_the_writing_model_words_the_reply(db: Database) -> None:
    control, writer = ScriptedModel("control says"), ScriptedModel("writer says")
    async with Runtime(db, stages=[respond()], model=control, response_model=writer) as runtime:
        result = await runtime.run_turn("a", "Hi")

    assert result.text == "writer says"


async def test_what_a_turn_without_a_store_keeps_is_found_page_by_page() -> None:
    pages: list[list[str]] = []

    async def page_through(state: Conversation, ctx: Context) -> None:
        for number in range(3):
            await ctx.memory_store.put(Record(kind="note", id=f"n{number}", sort=number, body={}))
        query = RecordQuery(kind="note", limit=2, until=2)
        first = await ctx.memory_store.find(query)
        after = (first[-1].sort, first[-1].id)
        rest = await ctx.memory_store.find(RecordQuery(kind="note", limit=2, after=after))
        pages.extend([[record.id for record in page] for page in (first, rest)])

    await run_agent("Hi", stages=[page_through])

    assert pages == [["n0", "n1"], ["n2"]]
