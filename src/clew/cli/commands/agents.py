"""The command that lists the installed agents."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from clew.agents.agent import Agent
from clew.agents.discovery import InstalledAgent, find_agent, installed_agents
from clew.cli.command import CommandCall, CommandResult
from clew.cli.render import values
from clew.core.errors import ClewError

AgentOption = Annotated[
    str | None,
    typer.Option(
        "--agent",
        envvar="CLEW_AGENT",
        metavar="NAME",
        help="The agent: an installed one, or module:attribute.",
    ),
]


async def agents(call: CommandCall) -> CommandResult:
    """List the agents that can be served and talked with.

    An installed distribution declares its agents. One that cannot be loaded is listed with the reason, and
    the exit code is 1.

    Example: clew agents
    """
    entries = installed_agents()
    default = _default_name()
    return CommandResult(
        value={"agents": [_agent_value(entry, default) for entry in entries]},
        display=agent_table(entries, default),
        ok=all(entry.problem is None for entry in entries),
    )


def _default_name() -> str | None:
    """The agent that answers where none is named; None if it cannot be loaded."""
    try:
        return find_agent().name
    except ClewError:
        return None


def _agent_value(entry: InstalledAgent, default: str | None) -> dict[str, object]:
    return {
        "name": entry.name,
        "description": entry.agent.description if entry.agent is not None else "",
        "distribution": entry.distribution,
        "version": entry.version,
        "source": entry.source,
        "default": entry.name == default,
        "uses": list(entry.agent.uses) if entry.agent is not None else [],
        "problem": entry.problem,
    }


def _description(agent: Agent | None) -> str:
    """The description of an agent, and the options that it uses."""
    if agent is None:
        return "cannot be loaded"
    options = ", ".join(f"--{name.replace('_', '-')}" for name in agent.uses)
    return f"{agent.description} Uses {options}." if options else agent.description


def agent_table(entries: Sequence[InstalledAgent], default: str | None) -> RenderableType:
    """The agents one below the other, and the problems of those that cannot be loaded."""
    table = values.empty_table("agent", "from", "description", fold=["description"])
    for entry in entries:
        name = values.clean(entry.name) + (" (default)" if entry.name == default else "")
        description = _description(entry.agent)
        table.add_row(name, values.clean(f"{entry.distribution} {entry.version}"), values.clean(description))
    problems = [
        Text(f"{values.clean(entry.name)}: {values.clean(entry.problem)}", style="yellow")
        for entry in entries
        if entry.problem is not None
    ]
    return Group(table, *problems)
