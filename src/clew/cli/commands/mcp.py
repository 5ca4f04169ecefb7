"""The command that serves MCP over a pipe, for a client on this machine that starts it."""

from typing import Annotated

import typer
from rich.text import Text

from clew.cli.command import CommandCall, CommandResult
from clew.cli.commands.serve import (
    Model,
    ServedAgentsOption,
    ServerVolume,
    joined_agents,
    server_settings,
)

ReadOnly = Annotated[bool, typer.Option("--read-only", help="Offer only what changes nothing.")]


async def mcp(
    call: CommandCall,
    *,
    agent: ServedAgentsOption = None,
    model: Model = None,
    volume: ServerVolume = None,
    read_only: ReadOnly = False,
) -> CommandResult:
    """Serve threads, memory and turns to an MCP client by a pipe.

    The client starts it and speaks by its standard input and output; it ends with the client. Without --user
    it speaks for all users.

    Example: clew mcp --db sqlite:///agent.db --user alice --read-only
    """
    settings = server_settings(url=call.url, agent=joined_agents(agent), model=model, volume=volume)
    from clew.server import process, stdio
    from clew.server.identity.entries import DEFAULT_WORKSPACE
    from clew.server.identity.identity import Identity
    from clew.server.identity.roles import MEMBER, READ, WRITE

    await process.check_prerequisites(settings)
    identity = Identity(
        tenant=call.scope.tenant,
        user=call.scope.user,
        workspace=DEFAULT_WORKSPACE,
        roles=frozenset({MEMBER}),
        scopes=frozenset({READ} if read_only else {READ, WRITE}),
    )
    await stdio.serve_stdio(settings, identity)
    return CommandResult(value={"stopped": True}, display=Text("Stopped."), to_stderr=True)
