"""MCP over HTTP, at one address: each request is answered by whatever process it reaches."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from litestar import asgi
from litestar.exceptions import MethodNotAllowedException
from litestar.types import Receive, Scope, Send

from clew.server.http.callers import Caller, provide_caller
from clew.server.http.endpoint import REQUIRED_SCOPE
from clew.server.identity.roles import READ
from clew.server.protocols.mcp.endpoint import McpEndpoint
from clew.server.routes.mcp_runs import BackgroundTurns
from clew.server.settings import ServerSettings

if TYPE_CHECKING:
    from mcp.server import Server

    from clew.server.protocols.mcp.server import McpContext

MCP_PATH = "/mcp"


@asgi(MCP_PATH, copy_scope=True, opt={REQUIRED_SCOPE: READ})
async def serve_mcp(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request of an MCP client. Tools that change something need the scope ``write`` besides."""
    if scope.get("method") != "POST":
        raise MethodNotAllowedException(headers={"Allow": "POST"})
    endpoint: McpEndpoint = scope["litestar_app"].state.mcp
    await endpoint.serve(scope, receive, send)


@asynccontextmanager
async def open_endpoint(settings: ServerSettings) -> AsyncIterator[McpEndpoint]:
    """Hold the endpoint of a process open."""
    async with BackgroundTurns() as background:

        def make_server() -> "Server[Any]":
            from clew.server.protocols.mcp.server import build_server
            from clew.server.routes.mcp_tools import mcp_actions

            return build_server(mcp_actions(background), caller_of_request)

        endpoint = McpEndpoint(make_server, body_limit=settings.body)
        try:
            yield endpoint
        finally:
            await endpoint.close()


async def caller_of_request(ctx: "McpContext") -> Caller:
    """Return the caller that the server authenticated before the request came to MCP."""
    assert ctx.request is not None
    scope = ctx.request.scope
    return await provide_caller(scope, scope["litestar_app"].state)


MCP_ROUTES = [serve_mcp]
