"""The server for the conformance suite: ours, with the fixture tools and resources that the suite calls.

The suite tests what any server makes of tools and resources with certain names. They are added to the real
server here, behind its real endpoint; those that must be tasks are turns of an agent, and so real runs.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from uuid import uuid4

import mcp_types as types
from litestar import Litestar
from mcp.server import Server
from mcp.server.context import HandlerResult

import clew
from clew.api.turns import NewTurn, TurnView, WhenBusy
from clew.core.errors import ModelFailed
from clew.runtime.model.protocol import ModelRequest, Reply, ReplyPart, ToolCall, Usage
from clew.server.app import create_app
from clew.server.http.callers import Caller
from clew.server.http.views import turn_view
from clew.server.identity.roles import WRITE
from clew.server.protocols.mcp.endpoint import McpEndpoint
from clew.server.protocols.mcp.server import McpContext, build_server
from clew.server.protocols.mcp.tool import McpTool
from clew.server.routes.mcp import caller_of_request
from clew.server.routes.mcp_runs import MCP, BackgroundTurns
from clew.server.routes.mcp_tools import McpArguments, mcp_actions
from clew.server.routes.turns import run_whole_turn
from clew.server.settings import ServerSettings
from tests.server.local_server import listening

T = TypeVar("T")
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
WAV = base64.b64encode(
    b"RIFF\x26\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\2\0\0\0\0\0"
).decode()


# Tasks: turns of an agent that sleeps, asks and fails.


@clew.tool(approval=True)
async def delete_file(name: str) -> str:
    """Delete a file, once a person has agreed."""
    return f"{name} is deleted"


class FixtureModel:
    """A model that does what the last message says: sleep, delete, fail."""

    name = "fixture"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
        """One reply."""
        last = request.messages[-1]
        word, _, rest = last.text.partition(" ")
        if word == "sleep":
            await asyncio.sleep(float(rest))
        if word == "fail":
            raise ModelFailed(model=self.name, problem="it was told to")
        if word == "delete":
            calls = [
                ToolCall(id=f"call-{index}", name="delete_file", arguments={"name": name})
                for index, name in enumerate(rest.split())
            ]
            yield Reply(calls=tuple(calls))
            return
        yield Reply(text=f"Done: {last.text or last.content}")

    async def fill(self, request: ModelRequest, kind: type[T]) -> tuple[T, Usage]:
        """Nothing: it can fill no form."""
        raise ModelFailed(model=self.name, problem="it gives no typed answers")


class FixtureArguments(McpArguments, frozen=True, kw_only=True):
    """The arguments of a fixture that is a turn, on a new thread."""

    key: str | None = None
    busy: WhenBusy = "wait"

    @property
    def thread(self) -> str:
        """A thread that nobody else has."""
        return f"fixture-{uuid4().hex}"

    @property
    def message(self) -> str:
        """What the turn is about."""
        return "Hello"

    def turn(self, busy: WhenBusy) -> NewTurn:
        """The turn."""
        return NewTurn(message=self.message, busy=busy)


class SlowArguments(FixtureArguments, frozen=True, kw_only=True):
    """How long to take."""

    seconds: float = 0
    label: str = ""

    @property
    def message(self) -> str:
        """So long."""
        return f"sleep {self.seconds}"


class DeleteArguments(FixtureArguments, frozen=True, kw_only=True):
    """What to delete."""

    filename: str = "one"

    @property
    def message(self) -> str:
        """That."""
        return f"delete {self.filename}"


class TwoArguments(FixtureArguments, frozen=True, kw_only=True):
    """Nothing."""

    @property
    def message(self) -> str:
        """Two files."""
        return "delete one two"


class FailArguments(FixtureArguments, frozen=True, kw_only=True):
    """Nothing."""

    @property
    def message(self) -> str:
        """A failure."""
        return "fail"


async def run_fixture(caller: Caller, arguments: FixtureArguments) -> TurnView:
    """A fixture for a client that knows no tasks."""
    turn = arguments.turn("wait")
    return turn_view(await run_whole_turn(caller, arguments.thread, turn, key=None, origin=MCP))


TASK_FIXTURES: dict[str, type[FixtureArguments]] = {
    "slow_compute": SlowArguments,
    "confirm_delete": DeleteArguments,
    "multi_input": TwoArguments,
    "protocol_error_job": FailArguments,
}
TASK_TOOLS = tuple(
    McpTool(
        name=name,
        title=name,
        description="A fixture of the suite.",
        arguments=arguments,
        reply=TurnView,
        call=run_fixture,
        scope=WRITE,
        runs_turn=True,
    )
    for name, arguments in TASK_FIXTURES.items()
)


# Tools and resources with contents that the suite knows.


def text(value: str) -> types.TextContent:
    return types.TextContent(type="text", text=value)


def embedded(uri: str, media_type: str, value: str) -> types.EmbeddedResource:
    contents = types.TextResourceContents(uri=uri, mime_type=media_type, text=value)
    return types.EmbeddedResource(type="resource", resource=contents)


IMAGE = types.ImageContent(type="image", data=PNG, mime_type="image/png")
CONTENTS: dict[str, list[types.ContentBlock]] = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [types.AudioContent(type="audio", data=WAV, mime_type="audio/wav")],
    "test_embedded_resource": [
        embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        IMAGE,
        embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ],
    "test_error_handling": [text("This tool intentionally returns an error for testing")],
    "test_tool_with_progress": [text("Progress was reported.")],
    "json_schema_2020_12_tool": [text("Valid.")],
}
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}
GREET_SCHEMA: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}}
DIALECT_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
SCHEMAS = {"json_schema_2020_12_tool": DIALECT_SCHEMA, "greet": GREET_SCHEMA}
RESOURCES: dict[str, types.TextResourceContents | types.BlobResourceContents] = {
    "test://static-text": types.TextResourceContents(
        uri="test://static-text",
        mime_type="text/plain",
        text="This is the content of the static text resource.",
    ),
    "test://static-binary": types.BlobResourceContents(
        uri="test://static-binary", mime_type="image/png", blob=PNG
    ),
}
TEMPLATE = "test://template/{id}/data"


async def call_fixture(ctx: McpContext, params: types.CallToolRequestParams) -> types.CallToolResult:
    """The result of a fixture."""
    if params.name == "greet":
        return types.CallToolResult(content=[text(f"Hello, {(params.arguments or {}).get('name')}!")])
    if params.name == "test_tool_with_progress":
        for progress in (0, 50, 100):
            await ctx.session.report_progress(progress, 100)
    is_error = params.name == "test_error_handling"
    return types.CallToolResult(content=CONTENTS[params.name], is_error=is_error)


def read_fixture(uri: str) -> types.ReadResourceResult | None:
    """A resource of the suite, or one of its template; None for any other."""
    if uri in RESOURCES:
        return types.ReadResourceResult(contents=[RESOURCES[uri]])
    before, after = TEMPLATE.split("{id}")
    if not (uri.startswith(before) and uri.endswith(after)):
        return None
    id = uri.removeprefix(before).removesuffix(after)
    body = f'{{"id":"{id}","templateTest":true,"data":"Data for ID: {id}"}}'
    contents = types.TextResourceContents(uri=uri, mime_type="application/json", text=body)
    return types.ReadResourceResult(contents=[contents])


def add_fixtures(server: Server[Any]) -> Server[Any]:
    """Add the suite's fixtures to a server; whatever has another name is the server's own."""
    own = {
        method: entry.handler
        for method in (
            "tools/list",
            "tools/call",
            "resources/list",
            "resources/read",
            "resources/templates/list",
        )
        if (entry := server.get_request_handler(method)) is not None
    }

    async def list_tools(ctx: McpContext, params: types.PaginatedRequestParams) -> HandlerResult:
        listing = await own["tools/list"](ctx, params)
        assert isinstance(listing, types.ListToolsResult)
        fixtures = [
            types.Tool(name=name, description=name, input_schema=SCHEMAS.get(name, NO_ARGUMENTS))
            for name in (*CONTENTS, "greet")
        ]
        return types.ListToolsResult(tools=[*listing.tools, *fixtures])

    async def call_tool(ctx: McpContext, params: types.CallToolRequestParams) -> HandlerResult:
        is_fixture = params.name in CONTENTS or params.name == "greet"
        return await call_fixture(ctx, params) if is_fixture else await own["tools/call"](ctx, params)

    async def list_resources(ctx: McpContext, params: types.PaginatedRequestParams) -> HandlerResult:
        listing = await own["resources/list"](ctx, params)
        assert isinstance(listing, types.ListResourcesResult)
        fixtures = [types.Resource(uri=uri, name=uri) for uri in RESOURCES]
        return types.ListResourcesResult(
            resources=[*fixtures, *listing.resources], next_cursor=listing.next_cursor
        )

    async def list_templates(ctx: McpContext, params: types.PaginatedRequestParams) -> HandlerResult:
        listing = await own["resources/templates/list"](ctx, params)
        assert isinstance(listing, types.ListResourceTemplatesResult)
        fixture = types.ResourceTemplate(name="fixture", uri_template=TEMPLATE)
        return types.ListResourceTemplatesResult(resource_templates=[*listing.resource_templates, fixture])

    async def read_resource(ctx: McpContext, params: types.ReadResourceRequestParams) -> HandlerResult:
        return read_fixture(str(params.uri)) or await own["resources/read"](ctx, params)

    server.add_request_handler("tools/list", types.PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)
    server.add_request_handler("resources/list", types.PaginatedRequestParams, list_resources)
    server.add_request_handler("resources/templates/list", types.PaginatedRequestParams, list_templates)
    server.add_request_handler("resources/read", types.ReadResourceRequestParams, read_resource)
    return server


@asynccontextmanager
async def _fixture_endpoint(app: Litestar) -> AsyncIterator[None]:
    """Put the fixtures into an application, behind an endpoint like its own."""
    async with BackgroundTurns() as background:
        server = add_fixtures(build_server(mcp_actions(background, TASK_TOOLS), caller_of_request))
        endpoint = McpEndpoint(lambda: server, body_limit=ServerSettings().body)
        app.state.mcp = endpoint
        yield
        await endpoint.close()


@asynccontextmanager
async def serve_fixtures() -> AsyncIterator[str]:
    """Serve the fixtures; the address of the server."""
    async with clew.open("memory://") as db:
        app = create_app(
            ServerSettings(drain_seconds=0.5),
            db=db,
            agent=lambda tenant_db: clew.Runtime(tenant_db, model=FixtureModel(), tools=[delete_file]),
            lifespan=[_fixture_endpoint],
        )
        async with listening(app) as url:
            yield url
