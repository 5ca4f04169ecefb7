"""The companion's context: seven dependencies in their order, which no stage can change, and the turn."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

import pytest

from clew.core.errors import RecordNotFound
from clew.core.values import Record
from clew.database.database import Database
from clew.runtime.context import (
    Context,
    EmbeddingProvider,
    MemoryBackend,
    MemoryMode,
    SessionMemoryBuffer,
)
from clew.runtime.execution.stateless import run_agent
from clew.runtime.model.protocol import Model
from clew.runtime.runtime import Runtime
from clew.runtime.state.schema import Conversation
from clew.stores.memory import MemoryStore
from clew.testing.scripted_model import ScriptedModel
from clew_companion import context as companion_context
from clew_companion.agent import companion
from clew_companion.context import CrisisLogBackend, WorkflowContext

FIELDS = [
    ("llm_client", Model | None, dataclasses.MISSING),
    ("memory_store", MemoryBackend, dataclasses.MISSING),
    ("crisis_log_backend", CrisisLogBackend, dataclasses.MISSING),
    ("memory_mode", MemoryMode, dataclasses.MISSING),
    ("response_llm", Model | None, None),
    ("embedding_provider", EmbeddingProvider | None, None),
    ("session_memory_buffer", SessionMemoryBuffer | None, None),
]
CONTROL, WRITER = ScriptedModel(name="control"), ScriptedModel(name="writer")


def workflow_context(**options: Any) -> WorkflowContext:
    """A context with the least that it needs."""
    records = Database(MemoryStore()).records
    arguments: dict[str, Any] = {
        "llm_client": CONTROL,
        "memory_store": records,
        "crisis_log_backend": records,
        "memory_mode": MemoryMode.LOCAL,
        "turn": None,
    }
    return WorkflowContext(**(arguments | options))


@pytest.mark.promise("R-19")
def test_the_context_has_seven_dependencies_in_their_order_and_the_turn() -> None:
    types = typing.get_type_hints(WorkflowContext, vars(companion_context) | {"Turn": object})
    fields = [(each.name, types[each.name], each.default) for each in dataclasses.fields(WorkflowContext)]

    assert fields[:-1] == FIELDS
    assert fields[-1][0] == "turn"


@pytest.mark.promise("R-19")
@pytest.mark.parametrize("name", [*(name for name, _, _ in FIELDS), "turn"])
def test_no_dependency_can_be_changed(name: str) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(workflow_context(), name, None)


@pytest.mark.promise("R-19")
def test_nothing_can_be_added() -> None:
    context = workflow_context()

    assert not hasattr(context, "__dict__")
    with pytest.raises((AttributeError, TypeError)):
        context.extra = 1  # type: ignore[attr-defined]  # that it has none is the point


@pytest.mark.promise("R-19")
def test_the_writing_model_is_the_client_unless_another_is_given() -> None:
    contexts = workflow_context(), workflow_context(response_llm=WRITER)

    assert [(each.control_llm, each.response_llm) for each in contexts] == [
        (CONTROL, CONTROL),
        (CONTROL, WRITER),
    ]


@pytest.mark.promise("R-19")
async def test_every_stage_of_both_layers_gets_the_companions_context(in_memory: Database) -> None:
    contexts: list[Context] = []
    log = Database(MemoryStore()).records

    async def look(state: Conversation, ctx: Context) -> None:
        contexts.append(ctx)

    options: Any = {"stages": [look], "model": CONTROL, "make_context": WorkflowContext.extend}
    async with Runtime(in_memory, **options) as runtime:
        await runtime.run_turn("a", "Hi")
    await run_agent("Hi", record_backend=log, **options)

    assert [(type(each), each.llm_client) for each in contexts] == [(WorkflowContext, CONTROL)] * 2
    stateless = contexts[1]
    assert isinstance(stateless, WorkflowContext)
    assert stateless.crisis_log_backend is log


@pytest.mark.promise("R-14", "R-19")
async def test_incognito_the_crisis_log_is_in_memory_too(in_memory: Database) -> None:
    async def write(state: Conversation, ctx: Context) -> None:
        assert isinstance(ctx, WorkflowContext)
        await ctx.crisis_log_backend.put(Record(kind="note", id="n", body={}))

    runtime = Runtime(in_memory, stages=[write], make_context=WorkflowContext.extend)
    async with runtime:
        await runtime.run_turn("a", "Hi", mode=MemoryMode.INCOGNITO)

    with pytest.raises(RecordNotFound):
        await in_memory.records.get("note", "n")


@pytest.mark.promise("R-19")
async def test_the_companion_has_its_context(in_memory: Database) -> None:
    async with companion(in_memory) as runtime:
        assert runtime._settings.make_context == WorkflowContext.extend
