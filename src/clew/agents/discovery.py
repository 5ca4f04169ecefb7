"""Discovery of agents: installed ones by their entry points, those of a module by reference."""

import inspect
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from typing import Any

import msgspec

from clew.agents.agent import Agent, AgentSettings
from clew.agents.plain import plain_agent
from clew.agents.references import ReferenceKind, error_sentence, load_reference
from clew.core.errors import InvalidArgument
from clew.database.database import Database
from clew.runtime.records.runs import DEFAULT_AGENT
from clew.runtime.runtime import Runtime

GROUP = "clew.agents"
"""The entry-point group in which a distribution declares its agents."""
PREFERRED = "companion"
"""The agent that answers where none is named, if it is installed; otherwise the plain one."""
ACCEPTED = "Give an Agent, or a function that makes a Runtime on a database."
AGENT_REFERENCE = ReferenceKind(
    noun="agent", option="--agent", accepted=ACCEPTED, matches=lambda value: isinstance(value, Agent)
)


class InstalledAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that ``--agent`` takes by name, and where it comes from.

    ``problem`` says why it cannot be used; ``agent`` is None then.
    """

    name: str
    source: str
    distribution: str
    version: str
    agent: Agent | None = None
    problem: str | None = None


def installed_agents() -> list[InstalledAgent]:
    """Return the installed agents by name, with the plain one last.

    One that cannot be loaded is listed with its problem: it must not take the others down with it.
    """
    points = {point.name: point for point in reversed(list(entry_points(group=GROUP)))}
    agents = [_installed_agent(points[name]) for name in sorted(points)]
    plain = InstalledAgent(
        name=plain_agent.name,
        source="clew.agents:plain_agent",
        distribution="clew",
        version=_own_version(),
        agent=plain_agent,
    )
    return [*(each for each in agents if each.name != plain.name), plain]


def _own_version() -> str:
    try:
        return version("clew")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return ""


def _installed_agent(point: EntryPoint) -> InstalledAgent:
    distribution = point.dist.name if point.dist is not None else ""
    version = point.dist.version if point.dist is not None else ""
    entry = InstalledAgent(name=point.name, source=point.value, distribution=distribution, version=version)
    try:
        agent = agent_from(point.load(), point.value)
    except Exception as error:  # noqa: BLE001 - the code of others may raise anything; it is reported
        return msgspec.structs.replace(entry, problem=error_sentence(error))
    if agent.name != point.name:
        problem = f"The entry point is called {point.name!r}, and its agent {agent.name!r}."
        return msgspec.structs.replace(entry, problem=problem)
    return msgspec.structs.replace(entry, agent=agent)


def usable_agents() -> list[Agent]:
    """Return the installed agents that could be loaded."""
    return [each.agent for each in installed_agents() if each.agent is not None]


def find_agent(reference: str | None = None) -> Agent:
    """Return the agent of a name or of ``module:attribute``; without either, the preferred one.

    Raises:
        InvalidArgument: There is none of that name, or it cannot be loaded; the error says why.
    """
    if reference is not None and ":" in reference:
        return load_agent(reference)
    installed = {each.name: each for each in installed_agents()}
    default = PREFERRED if PREFERRED in installed else plain_agent.name
    name = reference or default
    entry = installed.get(name)
    if entry is None:
        raise InvalidArgument(
            problem=f"There is no agent {name!r}. Installed are: {', '.join(installed)}. "
            "Name one of your own as module:attribute."
        )
    if entry.agent is None:
        raise InvalidArgument(
            problem=f"The agent {name!r} cannot be loaded from {entry.source}: {entry.problem} Repair or "
            f"remove {entry.distribution or 'it'}, or choose another with --agent."
        )
    return entry.agent


def load_agent(reference: str) -> Agent:
    """Load the agent at ``module:attribute``. The current directory is put on the import path.

    Raises:
        InvalidArgument: The module cannot be imported, has no such attribute, or that is no agent.
    """
    return agent_from(load_reference(reference, AGENT_REFERENCE), reference)


def agent_from(value: object, reference: str) -> Agent:
    """Return an agent as it is, or make one of a function from a database to a runtime.

    Raises:
        InvalidArgument: It is neither.
    """
    if isinstance(value, Agent):
        return value
    if isinstance(value, Runtime):
        problem = f"{reference} is a Runtime on one database. Give the function that makes it."
        raise InvalidArgument(problem=problem)
    if inspect.iscoroutinefunction(value):
        raise InvalidArgument(problem=f"{reference} is an async function. Give a plain one.")
    if not callable(value):
        raise InvalidArgument(problem=f"{reference} is of type {type(value).__name__}. {ACCEPTED}")
    function = value

    def make_runtime(db: Database, settings: AgentSettings) -> Runtime[Any, Any]:
        runtime = function(db)
        if not isinstance(runtime, Runtime):
            kind = type(runtime).__name__
            raise InvalidArgument(problem=f"{reference} returned an object of type {kind}. {ACCEPTED}")
        return runtime

    return Agent(name=DEFAULT_AGENT, make_runtime=make_runtime, brings_model=True)
