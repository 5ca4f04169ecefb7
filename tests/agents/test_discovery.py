"""Agents are found by the name that they are installed under, or by module and attribute."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import clew
from clew.agents import Agent, AgentSettings, find_agent, installed_agents
from clew.agents.discovery import agent_from
from clew.core.errors import InvalidArgument
from tests.agents.conftest import Install

SCRIPT = """
import clew
from clew.agents import Agent

def make_runtime(db):
    return clew.Runtime(db)

async def make_later(db):
    return clew.Runtime(db)

def make_number(db):
    return 7

agent = Agent(name="travel", make_runtime=lambda db, settings: clew.Runtime(db, agent="travel"))
number = 7
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A script in the current directory."""
    (tmp_path / "travel_script.py").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "dividing.py").write_text("\nhalf = 1 / 0\n", encoding="utf-8")
    (tmp_path / "needing.py").write_text("import no_such_package\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("travel_script", None)


# By name.


def test_an_installed_agent_is_found_by_its_name(install: Install) -> None:
    install("travel", "agent = make('travel')")

    assert find_agent("travel").name == "travel"


def test_a_function_may_be_installed_too(install: Install) -> None:
    install("default", "agent = make_runtime")

    assert find_agent("default").brings_model


def test_an_agent_that_cannot_be_loaded_is_listed_with_the_reason(install: Install) -> None:
    install("travel", "agent = 1 / 0")
    listed = {each.name: each for each in installed_agents()}

    assert listed["travel"].agent is None
    assert listed["travel"].problem == "ZeroDivisionError: division by zero (installed_travel.py, line 14)."
    assert listed["plain"].agent is not None


def test_naming_an_agent_that_cannot_be_loaded_says_why_and_what_to_do(install: Install) -> None:
    install("travel", "agent = 1 / 0")

    with pytest.raises(InvalidArgument) as caught:
        find_agent("travel")
    assert "cannot be loaded from installed_travel:agent: ZeroDivisionError" in str(caught.value)
    assert "Repair or remove installed_travel" in str(caught.value)


def test_an_entry_point_has_the_name_of_its_agent(install: Install) -> None:
    install("travel", "agent = make('trips')")
    listed = {each.name: each for each in installed_agents()}

    assert listed["travel"].problem == "The entry point is called 'travel', and its agent 'trips'."


def test_an_unknown_name_is_refused_with_those_that_are_installed(install: Install) -> None:
    install("travel", "agent = make('travel')")

    with pytest.raises(InvalidArgument, match=r"no agent 'trips'\. Installed are: .*travel, plain\."):
        find_agent("trips")


def test_the_companion_answers_where_it_is_installed() -> None:
    assert find_agent().name == "companion"


@pytest.mark.usefixtures("none_installed")
def test_the_plain_agent_answers_where_no_other_is_installed() -> None:
    assert find_agent().name == "plain"
    assert [each.name for each in installed_agents()] == ["plain"]


def test_a_companion_that_cannot_be_loaded_is_not_silently_replaced(install: Install) -> None:
    install("companion", "agent = 1 / 0")

    with pytest.raises(InvalidArgument, match="'companion' cannot be loaded"):
        find_agent()


# By module and attribute.


@pytest.mark.usefixtures("script")
def test_an_agent_of_a_script_in_the_current_directory_is_found() -> None:
    assert find_agent("travel_script:agent").name == "travel"


@pytest.mark.usefixtures("script")
async def test_a_function_that_makes_a_runtime_is_an_agent() -> None:
    agent = find_agent("travel_script:make_runtime")
    async with clew.open("memory://") as db:
        runtime = agent.make_runtime(db, AgentSettings())

    assert isinstance(runtime, clew.Runtime)
    assert agent.brings_model


@pytest.mark.usefixtures("script")
@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ("nowhere:agent", "There is no module 'nowhere', neither installed nor in "),
        ("needing:agent", "it needs 'no_such_package', which is not installed"),
        ("dividing:half", "cannot be imported: ZeroDivisionError: division by zero (dividing.py, line 2)"),
        ("travel_script:trips", "no attribute 'trips'. It has the agent travel_script:agent."),
        ("travel_script:number", "is of type int. Give an Agent, or a function that makes a Runtime"),
        ("travel_script:make_later", "is an async function"),
        (":agent", "Write module:attribute"),
        ("travel_script:", "Write module:attribute"),
    ],
)
def test_a_reference_that_leads_to_no_agent_says_what_is_wrong(reference: str, problem: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        find_agent(reference)
    assert problem in str(caught.value)


@pytest.mark.usefixtures("script")
async def test_a_function_that_makes_something_else_is_refused_when_it_is_called() -> None:
    agent = find_agent("travel_script:make_number")

    async with clew.open("memory://") as db:
        with pytest.raises(InvalidArgument, match="travel_script:make_number returned an object of type int"):
            agent.make_runtime(db, AgentSettings())


async def test_a_runtime_that_is_made_already_is_refused() -> None:
    async with clew.open("memory://") as db:
        with pytest.raises(InvalidArgument, match="Give the function that makes it"):
            agent_from(clew.Runtime(db), "travel:runtime")


# Imports.


@pytest.mark.slow
@pytest.mark.parametrize("module", ["clew", "clew.agents", "clew_companion.entry_point"])
def test_an_agent_is_declared_without_a_server_or_a_command_line(module: str) -> None:
    program = (
        f"import sys, {module}; print(sorted({{'typer', 'litestar', 'rich', 'numpy'}} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


# Names.


@pytest.mark.parametrize("name", ["", "a b", "travel/agent", "../travel", "x" * 65])
def test_a_name_that_no_address_can_hold_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="An agent cannot be called"):
        Agent(name=name, make_runtime=lambda db, settings: clew.Runtime(db))


async def test_a_function_has_the_name_of_its_runtime() -> None:
    agent = agent_from(lambda db: clew.Runtime(db, agent="travel"), "travel:make_runtime")
    async with clew.open("memory://") as db:
        runtime = agent.open_runtime(db, AgentSettings())

    assert runtime.agent == "travel"


@pytest.mark.parametrize("name", ["companion", "plain"])
async def test_a_runtime_of_an_agent_has_its_name(name: str) -> None:
    async with clew.open("memory://") as db:
        runtime = find_agent(name).make_runtime(db, AgentSettings())

    assert runtime.agent == name
