"""Types that are not named, or not there any more: a thread goes on with their data, and nothing is lost."""

from __future__ import annotations

import enum
import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple, TypedDict

import pytest
from langchain_core.agents import AgentAction
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from pydantic import BaseModel

import clew
from clew.adapters.langgraph import Checkpointer, UnresolvedValue
from tests.adapters.langgraph.samples import config, put, values_at


class Shop(TypedDict, total=False):
    """A state that says nothing about its types."""

    order: Any
    note: str


def order_types(module: str) -> dict[str, type]:
    """The types of a deployment, one of each kind."""

    @dataclass
    class Order:
        number: int

    class Model(BaseModel):
        number: int

    class Colour(enum.Enum):
        RED = "red"

    class Pair(NamedTuple):
        number: int

    @dataclass
    class Basket:
        order: Any

    types: dict[str, type] = {kind.__name__: kind for kind in (Order, Model, Colour, Pair, Basket)}
    for kind in types.values():
        kind.__module__ = module
    return types


class Deployment:
    """A module with types, that another release may have no more."""

    def __init__(self) -> None:
        self.module = ModuleType("shop_types")
        self.types = order_types("shop_types")

    def install(self) -> None:
        """Have all types."""
        vars(self.module).update(self.types)
        sys.modules["shop_types"] = self.module

    def remove(self, name: str) -> None:
        """Have a type no more."""
        delattr(self.module, name)


@pytest.fixture
def deployment() -> Iterator[Deployment]:
    """The first release."""
    deployment = Deployment()
    deployment.install()
    yield deployment
    del sys.modules["shop_types"]


def saver_of(db: clew.Database, deployment: Deployment) -> Checkpointer:
    """The checkpointer of a new process, which names the types that are there."""
    return Checkpointer(
        db, types=[kind for kind in vars(deployment.module).values() if isinstance(kind, type)]
    )


def shop(saver: Checkpointer) -> Any:
    """A graph that adds a note, and leaves the order alone."""
    builder = StateGraph(Shop)
    builder.add_node("note", lambda state: {"note": "seen"})
    builder.add_edge(START, "note")
    return builder.compile(checkpointer=saver)


VALUES: dict[str, tuple[Any, dict[str, Any]]] = {
    "Order": ({"number": 7}, {"number": 7}),
    "Model": ({"number": 7}, {"number": 7}),
    "Colour": ("red", {"value": "red"}),
    "Pair": ({"number": 7}, {"number": 7}),
}


def value_of(deployment: Deployment, name: str) -> Any:
    """A value of one of the types."""
    arguments = VALUES[name][0]
    kind = deployment.types[name]
    return kind(**arguments) if isinstance(arguments, dict) else kind(arguments)


@pytest.mark.promise("B-10")
@pytest.mark.parametrize("name", VALUES)
async def test_a_thread_goes_on_when_a_type_was_removed(
    db: clew.Database, deployment: Deployment, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    value = value_of(deployment, name)
    await shop(saver_of(db, deployment)).ainvoke({"order": value}, config())
    deployment.remove(name)
    with caplog.at_level(logging.WARNING, "clew.adapters.langgraph"):
        values = await shop(saver_of(db, deployment)).ainvoke({"note": "new"}, config())

    assert isinstance(values["order"], UnresolvedValue)
    assert values["order"] == VALUES[name][1]
    assert values["order"].type_name == ("shop_types", name)
    assert f"shop_types.{name} is left as its data" in caplog.text
    assert (await db.thread("t").head()).state["langgraph"]["unresolved"] == [f"shop_types.{name}"]


@pytest.mark.promise("B-10")
@pytest.mark.parametrize("name", VALUES)
async def test_what_was_put_meanwhile_is_whole_again_when_the_type_is_back(
    db: clew.Database, deployment: Deployment, name: str
) -> None:
    value = value_of(deployment, name)
    await shop(saver_of(db, deployment)).ainvoke({"order": value}, config())
    deployment.remove(name)
    await shop(saver_of(db, deployment)).ainvoke({"note": "new"}, config())
    state = await shop(saver_of(db, deployment)).aget_state(config())
    await shop(saver_of(db, deployment)).ainvoke({"order": state.values["order"]}, config())
    deployment.install()
    values = (await shop(saver_of(db, deployment)).aget_state(config())).values

    assert values["order"] == value
    assert type(values["order"]) is type(value)


async def test_what_is_within_an_object_of_another_type_is_whole_again_too(
    db: clew.Database, deployment: Deployment
) -> None:
    basket = deployment.types["Basket"]
    await put(saver_of(db, deployment), config(), {"order": basket(value_of(deployment, "Order"))})
    deployment.remove("Order")
    value = (await values_at(saver_of(db, deployment), config()))["order"]
    at = await put(saver_of(db, deployment), config(), {"order": basket(value.order)})
    again = (await values_at(saver_of(db, deployment), at))["order"]
    deployment.install()

    assert again.order == {"number": 7}
    assert (await values_at(saver_of(db, deployment), at))["order"] == basket(value_of(deployment, "Order"))


async def test_a_type_whose_fields_changed_is_left_as_its_data(
    db: clew.Database, deployment: Deployment
) -> None:
    at = await put(saver_of(db, deployment), config(), {"order": value_of(deployment, "Order")})

    @dataclass
    class Order:
        name: str

    Order.__module__ = "shop_types"
    vars(deployment.module).update(Order=Order)

    assert (await values_at(saver_of(db, deployment), at))["order"] == {"number": 7}


@pytest.mark.promise("B-10")
async def test_a_type_nobody_named_is_stored_and_not_made(
    db: clew.Database, deployment: Deployment, caplog: pytest.LogCaptureFixture
) -> None:
    order = value_of(deployment, "Order")
    at = await put(Checkpointer(db), config(), {"order": order})

    assert (await values_at(Checkpointer(db), at))["order"] == {"number": 7}
    assert "Checkpointer(db, types=[Order])" in caplog.text
    assert (await values_at(saver_of(db, deployment), at))["order"] == order


async def test_an_action_of_an_agent_is_read_back(saver: Checkpointer) -> None:
    action = AgentAction(tool="search", tool_input="plums", log="")

    at = await put(saver, config(), {"action": action})

    assert (await values_at(saver, at))["action"] == action


class Answer(BaseModel):
    """What a person is asked for."""

    number: int


async def test_an_interrupt_with_a_schema_takes_its_answer(saver: Checkpointer) -> None:
    builder = StateGraph(Shop)
    builder.add_node("ask", lambda state: {"order": interrupt("How many?", response_schema=Answer)})
    builder.add_edge(START, "ask")
    graph: Any = builder.compile(checkpointer=saver)
    await graph.ainvoke({"note": "new"}, config())
    values = await graph.ainvoke(Command(resume={"number": 7}), config())

    assert values["order"] == Answer(number=7)
    assert (await graph.aget_state(config())).values["order"] == {"number": 7}
