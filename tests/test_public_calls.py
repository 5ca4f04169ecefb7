"""Every public call, from its signature: a misspelled option and a value of another type are named errors."""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import clew
import clew.adapters.adk
import clew.adapters.langgraph
import clew.adapters.openai_agents
import clew.adapters.pydantic_ai
import clew.client
import clew.runtime
import clew.runtime.memory
import clew.sync
from clew.client.call import CallMethod, StreamMethod
from clew.client.clients import OperatorMethods
from clew.client.workbench import WorkbenchMethods
from clew.core.errors import InvalidInput
from clew.database.jobs import Jobs
from clew.database.log import Log
from clew.database.records import Records
from clew.database.retention import Retention
from clew.runtime.model.provider import ProviderModel
from clew.runtime.search import search_everything
from clew.runtime.tools.effects import external_effects
from clew.workbench.agent.agent import WorkbenchAgent
from clew.workbench.agent.questions import Questions
from clew.workbench.artifacts import Artifacts, artifact_tools
from clew.workbench.core_memory import CoreMemory, core_memory_tools
from clew.workbench.documents.documents import Documents
from clew.workbench.documents.tools import document_tools
from clew.workbench.experiments.datasets import every_example, make_dataset
from clew.workbench.experiments.experiments import compare_experiments
from clew.workbench.experiments.runner import run_experiment
from clew.workbench.experiments.subjects import agent_subject
from clew.workbench.interpreter.daytona import RemoteInterpreters
from clew.workbench.interpreter.local import LocalInterpreters
from clew.workbench.session.attachment import read_snapshots
from clew.workbench.session.checkpoints import ManifestCheckpoints
from clew.workbench.session.manifests import export_manifest, import_manifest
from clew.workbench.session.session import Workbench
from clew.workbench.volume.operators import Volumes
from clew.workbench.volume.volume import Volume
from clew_companion.crisis.log import crises, extend_retention, purge_expired

MODULES = [
    clew,
    clew.runtime,
    clew.runtime.memory,
    clew.client,
    clew.adapters.adk,
    clew.adapters.langgraph,
    clew.adapters.openai_agents,
    clew.adapters.pydantic_ai,
]
OTHERS: list[Any] = [
    *(Records, Jobs, Retention, Log, ProviderModel),
    *(
        OperatorMethods,
        WorkbenchMethods,
        search_everything,
        external_effects,
        crises,
        extend_retention,
        purge_expired,
    ),
    *(
        WorkbenchAgent,
        Artifacts,
        artifact_tools,
        ManifestCheckpoints,
        CoreMemory,
        core_memory_tools,
        document_tools,
        Documents,
    ),
    *(
        every_example,
        make_dataset,
        compare_experiments,
        run_experiment,
        agent_subject,
        read_snapshots,
        export_manifest,
        import_manifest,
    ),
    *(LocalInterpreters, RemoteInterpreters, Questions, Workbench, Volume, Volumes),
]
RUNTIME_CLASSES = {"Context", "StateLog", "ToolContext"}
"""Classes with a constructor that a runtime calls, never a program."""


class Nonsense:
    """A value that belongs nowhere."""


@dataclasses.dataclass(frozen=True)
class PublicCall:
    """Something public that can be called, and what it is called on."""

    name: str
    function: Callable[..., Any]
    before: tuple[Any, ...] = ()

    @property
    def parameters(self) -> list[inspect.Parameter]:
        """What a caller gives."""
        parameters = list(inspect.signature(self.function).parameters.values())[len(self.before) :]
        return [each for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]

    def problem_with(self, parameter: inspect.Parameter) -> str | None:
        """The name of an argument, unless a value that belongs nowhere is refused by that name."""
        by_name = parameter.kind is not parameter.POSITIONAL_ONLY
        try:
            arguments = {parameter.name: Nonsense()} if by_name else {}
            result = self.function(*self.before, *(() if by_name else (Nonsense(),)), **arguments)
        except InvalidInput as error:
            is_named = parameter.name.replace("_", " ") in str(error).replace("_", " ")
            return None if is_named else parameter.name
        except TypeError:  # another argument is missing: this one was let through
            return parameter.name
        if inspect.iscoroutine(result):
            result.close()
        return parameter.name


def calls_of(thing: Any) -> Iterator[PublicCall]:
    """What can be called of a public function or class."""
    if isinstance(thing, types.FunctionType):
        yield PublicCall(thing.__name__, thing)
    elif isinstance(thing, type) and not is_value(thing):
        for base in thing.__mro__:
            if base.__module__.startswith("clew."):
                yield from methods_of(base, thing)


def is_value(kind: type) -> bool:
    """Whether a class is data, an interface or an error, without methods that are given anything."""
    is_data = hasattr(kind, "__struct_fields__") or dataclasses.is_dataclass(kind)
    is_interface = getattr(kind, "_is_protocol", False)
    return (
        is_data or is_interface or issubclass(kind, BaseException) or not hasattr(kind.__init__, "__code__")
    )


def methods_of(base: type, kind: type) -> Iterator[PublicCall]:
    """The public methods that a class has from one of its bases."""
    self: object = object.__new__(kind)  # nothing of a method runs before its arguments are checked
    for name, member in vars(base).items():
        if isinstance(member, CallMethod | StreamMethod):
            yield PublicCall(f"{kind.__name__}.{name}", member.call, (self,))
        elif isinstance(member, types.FunctionType) and (name == "__init__" or not name.startswith("_")):
            yield PublicCall(f"{kind.__name__}.{name}", member, (self,))


def public_calls() -> dict[str, PublicCall]:
    """Everything public that can be called, by its name."""
    things = [
        getattr(module, name) for module in MODULES for name in module.__all__ if name not in RUNTIME_CLASSES
    ]
    calls = [call for thing in [*things, *OTHERS] for call in calls_of(thing)]
    return {call.name: call for call in reversed(calls) if call.parameters}  # a class before its bases


CALLS = public_calls()
EXCEPTIONS: dict[str, list[str]] = {
    "append": ["value"],
    "assistant": ["text"],
    "call": ["arguments"],
    "Checkpointer.get_next_version": ["current"],
    "insert": ["value"],
    "remove": ["value"],
    "result": ["output"],
    "set": ["value"],
    "system": ["text"],
    "Session.add_items": ["items", "wrapper"],
    "Session.clear_session": ["wrapper"],
    "Session.get_items": ["limit", "wrapper"],
    "Session.pop_item": ["wrapper"],
    "UnresolvedValue.__init__": ["content"],
    "user": ["text"],
}
"""What takes any JSON value, checked by its path where it is stored; what a framework calls its own way."""


def blocking_calls(db: clew.sync.OwnedDatabase) -> dict[str, PublicCall]:
    """The calls of the blocking façade, on things that are open."""
    thread = db.create("t")
    things: list[Any] = [db, thread, thread.log(), db.records, db.jobs, db.retention]
    return {
        f"{type(thing).__name__}.{name}": PublicCall(name, getattr(thing, name))
        for thing in things
        for name, member in inspect.getmembers(type(thing), inspect.isfunction)
        if not name.startswith("_")
    }


@pytest.mark.promise("B-20")
def test_a_blocking_call_names_an_option_that_there_is_not() -> None:
    with clew.sync.open("memory://") as db:
        for call in blocking_calls(db).values():
            with pytest.raises(TypeError, match="'nonsense'"):
                call.function(nonsense=1)


@pytest.mark.promise("B-20")
def test_a_blocking_call_names_a_value_of_another_type() -> None:
    with clew.sync.open("memory://") as db:
        calls = blocking_calls(db)
        problems = {
            name: names
            for name, call in calls.items()
            if (names := [each for each in map(call.problem_with, call.parameters) if each is not None])
        }

    assert (len(calls) > 40, problems) == (True, {})


def test_the_public_calls_are_all_found() -> None:
    assert {"set", "open", "run_agent", "Thread.append", "Runtime.__init__", "Runtime.run_turn"} <= set(CALLS)
    assert {"AsyncClient.append", "Client.__init__", "Checkpointer.__init__", "Volume.write"} <= set(CALLS)
    assert len(CALLS) > 300


@pytest.mark.promise("B-20")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_option_that_there_is_not_is_named(call: PublicCall) -> None:
    option = f"{call.parameters[-1].name}_"

    with pytest.raises(TypeError, match=f"'{option}'"):
        call.function(*call.before, **{option: None})


@pytest.mark.promise("B-20")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_value_of_another_type_is_named(call: PublicCall) -> None:
    names = [name for name in map(call.problem_with, call.parameters) if name is not None]

    assert names == EXCEPTIONS.get(call.name, [])
