"""MCP over standard input and output: the same server for one local client, without HTTP."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from clew.core.errors import MissingExtra, Unauthenticated
from clew.server.app import create_app
from clew.server.http.callers import Caller
from clew.server.http.resources import ServerResources
from clew.server.identity.identity import Identity
from clew.server.routes.mcp_runs import BackgroundTurns
from clew.server.settings import ServerSettings

if TYPE_CHECKING:
    from clew.server.protocols.mcp.server import McpContext


async def serve_stdio(settings: ServerSettings, identity: Identity) -> None:
    """Serve MCP for one identity until standard input ends.

    Raises:
        MissingExtra: The package is not installed.
    """
    try:
        from mcp.server.stdio import stdio_server
    except ImportError as error:
        raise MissingExtra(extra="mcp", package="mcp") from error
    from clew.server.protocols.mcp.server import build_server
    from clew.server.routes.mcp_tools import mcp_actions

    app = create_app(settings, authenticate=_refuse_request)
    async with app.lifespan(), BackgroundTurns() as background:
        caller = _local_caller(identity, app.state.resources)

        async def caller_of_pipe(ctx: "McpContext") -> Caller:
            return caller

        server = build_server(mcp_actions(background), caller_of_pipe)
        async with stdio_server() as (messages_in, messages_out):
            await server.run(messages_in, messages_out, server.create_initialization_options())


async def _refuse_request(headers: Mapping[str, str]) -> Identity:
    raise Unauthenticated(problem="there is nothing to reach by HTTP.")


def _local_caller(identity: Identity, resources: ServerResources) -> Caller:
    """Return whoever started the process, whose rights last as long as it does."""

    async def recheck_access() -> None:
        return

    return Caller(
        identity=identity,
        resources=resources,
        db=resources.db.scope(tenant=identity.tenant, user=identity.user),
        recheck_access=recheck_access,
    )
