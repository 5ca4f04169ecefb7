"""What cannot be stored or must not be read is refused, in words, and before anything is written."""

from __future__ import annotations

import builtins
import importlib
import sys
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.serde.base import CipherProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph

import clew
from clew.adapters.langgraph import Checkpointer, UnresolvedValue
from clew.adapters.langgraph.serializer import Serializer, type_names
from clew.core.errors import InvalidArgument, InvalidValue, MissingExtra, StoreClosed
from clew.core.values import RecordQuery
from tests.adapters.langgraph.samples import TEXT, chat, config, put, say, values_at


class Mood(Enum):
    """How somebody feels."""

    CALM = "calm"


@dataclass
class Order:
    """Something that only the user's program knows."""

    number: int
    mood: Mood = Mood.CALM


@dataclass
class State:
    """A state that mentions it."""

    order: Order | None = None


class Opaque:
    """Something that nobody can encode."""


def local_order() -> Any:
    """A value whose class has no name in its module."""

    @dataclass
    class LocalOrder:
        number: int

    return LocalOrder(7)


@pytest.mark.promise("B-10")
@pytest.mark.parametrize("is_named", [False, True])
async def test_a_class_within_a_function_is_refused_before_anything_is_written(
    db: clew.Database, *, is_named: bool
) -> None:
    order = local_order()
    saver = Checkpointer(db, types=[type(order)] if is_named else [])

    with pytest.raises(InvalidValue, match=r"channel 'order'.*test_bad_input\.LocalOrder.* top level"):
        await put(saver, config(), {"messages": [AIMessage(TEXT)], "order": order})
    assert (await db.threads()).threads == ()
    assert await db.records.find(RecordQuery(kind="langgraph.thread")) == []


async def test_a_class_within_a_function_is_refused_within_a_message(saver: Checkpointer) -> None:
    class LocalMood(Enum):
        CALM = "calm"

    message = AIMessage(TEXT, additional_kwargs={"mood": LocalMood.CALM})

    with pytest.raises(InvalidValue, match=r"channel 'messages'.*LocalMood would not be found"):
        await put(saver, config(), {"messages": [message]})


async def test_a_write_of_a_class_within_a_function_is_refused(saver: Checkpointer) -> None:
    at = await put(saver, config(), {"plain": 1})

    with pytest.raises(InvalidValue, match="write to 'order'"):
        await saver.aput_writes(at, [("order", local_order())], "task")
    entry = await saver.aget_tuple(at)
    assert entry is not None
    assert entry.pending_writes == []


async def test_what_cannot_be_encoded_is_refused(saver: Checkpointer) -> None:
    with pytest.raises(InvalidValue, match=r"channel 'plain'.*Opaque"):
        await put(saver, config(), {"plain": [Opaque()]})


@pytest.mark.promise("B-10")
@pytest.mark.parametrize("types", [[Order, Mood], [State]])
async def test_a_type_named_by_itself_or_by_a_schema_is_read_back(
    db: clew.Database, types: list[type]
) -> None:
    saver = Checkpointer(db, types=types)

    at = await put(saver, config(), {"order": Order(7)})

    assert await values_at(saver, at) == {"order": Order(7)}


async def test_a_graph_that_lists_its_types_is_understood(db: clew.Database) -> None:
    saver = Checkpointer(db).with_allowlist({(Order.__module__, "Order"), (Mood.__module__, "Mood")})

    at = await put(saver, config(), {"order": Order(7)})

    assert await values_at(saver, at) == {"order": Order(7)}


async def test_a_state_of_dataclasses_runs(db: clew.Database) -> None:
    builder = StateGraph(State)
    builder.add_node("order", lambda state: {"order": Order(7)})
    builder.add_edge(START, "order")
    graph = builder.compile(checkpointer=Checkpointer(db, types=[State]))

    await graph.ainvoke(State(), config())

    assert (await graph.aget_state(config())).values == {"order": Order(7)}


def test_bytes_that_name_something_dangerous_do_not_call_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    import ormsgpack

    commands: list[str] = []
    monkeypatch.setattr(os, "system", commands.append)
    body = ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb(("os", "system", "rm"))))
    envelope = ormsgpack.packb(
        ormsgpack.Ext(2, ormsgpack.packb(("builtins", "set", {"a": ormsgpack.Ext(0, body)})))
    )

    value = Serializer().unpack(body)
    with pytest.raises(InvalidArgument, match="cannot be read"):
        Serializer().unpack(envelope)

    assert isinstance(value, UnresolvedValue)
    assert commands == []


def test_a_method_that_nobody_named_is_not_called() -> None:
    import ormsgpack

    body = ormsgpack.packb(
        ormsgpack.Ext(3, ormsgpack.packb(("datetime", "datetime", "2026-01-01", "strptime")))
    )

    assert Serializer().unpack(body) == {"value": "2026-01-01"}


def test_pickle_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="never pickles"):
        Checkpointer("memory://", serde=JsonPlusSerializer(pickle_fallback=True))


def test_a_serializer_that_cannot_be_checked_is_refused() -> None:
    class Unknown:
        def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
            return "unknown", b""

        def loads_typed(self, data: tuple[str, bytes]) -> Any:
            return None

    with pytest.raises(InvalidArgument, match="Unknown is not a serializer"):
        Checkpointer("memory://", serde=Unknown())


class Backwards(CipherProtocol):
    """A cipher that fools nobody, but shows what went through it."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "backwards", plaintext[::-1]

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        assert ciphername == "backwards"
        return ciphertext[::-1]


async def test_an_encrypting_serializer_encrypts_everything_and_stores_only_changes(
    db: clew.Database,
) -> None:
    graph = chat(Checkpointer(db, serde=EncryptedSerializer(Backwards())))
    for number in range(3):
        await graph.ainvoke(say(f"secret {number}"), {**config(), "metadata": {"who": "secret me"}})

    changes = await db.thread("t").changesets(limit=100)
    bodies = [item.body for change in changes for item in change.items]
    messages = (await graph.aget_state(config())).values["messages"]
    assert [message.content for message in messages][0::2] == ["secret 0", "secret 1", "secret 2"]
    assert len(await db.thread("t").items()) == 6
    assert not any(b"secret" in body for body in bodies)


async def test_what_was_stored_in_clear_is_not_taken_for_encrypted(db: clew.Database) -> None:
    at = await put(Checkpointer(db), config(), {"plain": TEXT})

    with pytest.raises(InvalidArgument, match="a cipher was given"):
        await Checkpointer(db, serde=EncryptedSerializer(Backwards())).aget_tuple(at)


@pytest.mark.promise("B-10")
async def test_a_thread_that_is_not_langgraphs_is_left_alone(db: clew.Database, saver: Checkpointer) -> None:
    thread = await db.create("t")
    await thread.append(items=[clew.user("I was here before.")])

    with pytest.raises(InvalidArgument, match="was not written by LangGraph"):
        await put(saver, config(), {"plain": 1})
    with pytest.raises(InvalidArgument, match="was not written by LangGraph"):
        await saver.aput_writes(config(id="1"), [("plain", 1)], "task")
    await saver.adelete_thread("t")
    assert (await thread.head()).version == 1
    assert await saver.aget_tuple(config()) is None


async def test_a_thread_that_was_made_for_somebody_is_used(db: clew.Database, saver: Checkpointer) -> None:
    await db.create("t", owner="alice")

    await chat(saver).ainvoke(say("Hello"), config())

    assert (await db.thread("t").head()).owner == "alice"
    assert len(await db.thread("t").items()) == 2


async def test_items_that_were_hidden_by_hand_are_missed(db: clew.Database, saver: Checkpointer) -> None:
    await chat(saver).ainvoke(say("Hello"), config())
    await db.thread("t").log().pop()

    with pytest.raises(clew.ClewError, match="hidden or missing"):
        await Checkpointer(db).aget_tuple(config())


async def test_a_thread_without_a_name_is_refused(saver: Checkpointer) -> None:
    with pytest.raises(InvalidArgument, match="thread_id"):
        await saver.aget_tuple({"configurable": {}})


async def test_an_unknown_way_to_prune_is_refused(saver: Checkpointer) -> None:
    with pytest.raises(InvalidArgument, match="keep_latest"):
        await saver.aprune(["t"], strategy="half")


async def test_a_blocking_call_on_its_own_loop_is_refused(saver: Checkpointer) -> None:
    with pytest.raises(InvalidArgument, match="its own event loop"):
        saver.get_tuple(config())


def test_a_closed_checkpointer_says_so() -> None:
    with Checkpointer("memory://") as saver:
        assert saver.get_tuple(config()) is None

    with pytest.raises(StoreClosed):
        saver.get_tuple(config())


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("langgraph"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "clew.adapters.langgraph")
    monkeypatch.setattr(builtins, "__import__", without)

    with pytest.raises(MissingExtra, match=r"\.\[langgraph\]"):
        importlib.import_module("clew.adapters.langgraph")


def test_a_schema_names_what_its_fields_mention() -> None:
    assert type_names([State]) >= {(__name__, "State"), (__name__, "Order"), (__name__, "Mood")}
