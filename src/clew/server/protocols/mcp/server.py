"""The MCP server: tools, resources and tasks over what a caller may do, in whatever process."""

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec
from mcp.server import Server
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    Annotations,
    CallToolRequestParams,
    CallToolResult,
    EmptyResult,
    InputRequiredResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    RequestParams,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

import clew
from clew.api.runs import NewDecision
from clew.api.threads import MessagePage, ThreadPage, ThreadView
from clew.api.turns import TurnView
from clew.core.encoding import JSON, as_json, check_id
from clew.core.errors import ClewError
from clew.server.http.callers import Caller
from clew.server.http.problems import failure_problem, problem_of
from clew.server.identity.roles import READ, WRITE
from clew.server.protocols.mcp.errors import failure_error, protocol_error, tool_error
from clew.server.protocols.mcp.resources import (
    JSON_FORM,
    MEDIA_TYPES,
    TEMPLATES,
    ThreadUri,
    parse_uri,
    render_page,
)
from clew.server.protocols.mcp.tasks import (
    TASKS_EXTENSION,
    TaskRun,
    created_task,
    decisions_of,
    detailed_task,
    input_requests,
)
from clew.server.protocols.mcp.tool import McpTool, object_schema

log = logging.getLogger("clew.server")
McpContext: TypeAlias = ServerRequestContext[Any, Any]
CallerOf: TypeAlias = Callable[[McpContext], Awaitable[Caller]]
"""Gives the caller of a request: the one that HTTP authenticated, or the one that a pipe belongs to."""
INSTRUCTIONS = (
    "Threads are conversations and other logs that are stored for good. Use search for what was said, recall "
    "for what is known of the user, read_thread for a thread itself, run_turn for an answer of its agent."
)
TEMPLATE_TITLES = {"threads": "A thread, as JSON", "transcripts": "A thread, as Markdown"}


class TaskParams(RequestParams):
    """The parameters of a request about a task."""

    task_id: str


class TaskUpdateParams(TaskParams):
    """The answers to what a task waits for."""

    input_responses: dict[str, JSON]


class McpActions(msgspec.Struct, frozen=True, kw_only=True):
    """The actions of the server for a caller: tools, threads as pages, and runs as tasks.

    ``start_turn`` starts what a tool that runs a turn was asked for, and returns the run once it is stored;
    None if it must be answered at once. ``decide`` returns once the decisions are stored, and ``resume_run``
    when the run stops again.
    """

    tools: Mapping[str, McpTool]
    list_threads: Callable[[Caller, str | None], Awaitable[ThreadPage]]
    read_messages: Callable[[Caller, str, str | None], Awaitable[MessagePage]]
    start_turn: Callable[[Caller, Any], Awaitable[str | None]]
    get_run: Callable[[Caller, str], Awaitable[TaskRun]]
    cancel_run: Callable[[Caller, str], Awaitable[None]]
    decide: Callable[[Caller, str, Mapping[str, NewDecision]], Awaitable[None]]
    resume_run: Callable[[Caller, str, Mapping[str, NewDecision]], Awaitable[TurnView]]


def build_server(actions: McpActions, caller_of: CallerOf) -> Server[Any]:
    """Return the MCP server. It keeps nothing between two requests."""
    handlers = _Handlers(actions, caller_of)
    server: Server[Any] = Server(
        "clew",
        version=clew.__version__,
        title="Clew",
        instructions=INSTRUCTIONS,
        get_tool_input_schema=handlers.input_schema,
        on_list_tools=handlers.list_tools,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
    )
    server.add_request_handler("tools/call", CallToolRequestParams, handlers.call_tool)
    server.add_request_handler("tasks/get", TaskParams, handlers.get_task)
    server.add_request_handler("tasks/update", TaskUpdateParams, handlers.update_task)
    server.add_request_handler("tasks/cancel", TaskParams, handlers.cancel_task)
    server.extensions = {TASKS_EXTENSION: {}}
    return server


def tool_result(reply: msgspec.Struct) -> CallToolResult:
    """Return the reply of a tool, for programs and as text."""
    text = TextContent(type="text", text=msgspec.json.encode(reply).decode())
    return CallToolResult(content=[text], structured_content=as_json(reply))


class _Handlers:
    """The requests that the server answers, each by the caller's own rights."""

    def __init__(self, actions: McpActions, caller_of: CallerOf) -> None:
        self._actions = actions
        self._caller_of = caller_of
        self._listings = {tool.name: _tool_listing(tool) for tool in actions.tools.values()}

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the schema of a tool's arguments."""
        listing = self._listings.get(name)
        return None if listing is None else listing.input_schema

    # Tools.

    async def list_tools(self, ctx: McpContext, params: PaginatedRequestParams | None) -> ListToolsResult:
        """List the tools that the caller may use."""
        with _protocol_errors():
            caller = await self._caller_of(ctx)
        tools = [tool for tool in self._actions.tools.values() if tool.scope in caller.identity.scopes]
        return ListToolsResult(tools=[self._listings[tool.name] for tool in tools])

    async def call_tool(self, ctx: McpContext, params: CallToolRequestParams) -> HandlerResult:
        """Call a tool. Its errors are part of its result, so that a model can read them."""
        tool = self._actions.tools.get(params.name)
        if tool is None:
            raise MCPError(code=INVALID_PARAMS, message=f"There is no tool {params.name!r}. List the tools.")
        try:
            caller = await self._caller_of(ctx)
            caller.require_scope(tool.scope)
            arguments = tool.parse_arguments(params.arguments)
            if tool.runs_turn:
                return await self._run_turn(ctx, params, caller, arguments)
            return tool_result(await tool.call(caller, arguments))
        except ClewError as error:
            return _logged_tool_error(error)
        except Exception:
            log.exception("The tool %s failed", params.name)
            return tool_error(failure_problem())

    async def _run_turn(
        self, ctx: McpContext, params: CallToolRequestParams, caller: Caller, arguments: msgspec.Struct
    ) -> HandlerResult:
        """Run a turn as a task if the client knows tasks, or to its end; it asks a client that can be asked.

        A client that was asked sends the call again, with the answers and the run that they are for.
        """
        if _has_extension(ctx):
            run = await self._actions.start_turn(caller, arguments)
            if run is not None:
                return created_task(await self._actions.get_run(caller, run))
        may_ask = _can_elicit(ctx) and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        if params.request_state is None:
            turn = await self._actions.tools[params.name].call(caller, arguments)
        else:
            run = check_id(params.request_state, "run")
            decisions = await self._decisions(params, caller, run)
            turn = await self._actions.resume_run(caller, run, decisions)
            may_ask = may_ask and bool(decisions)  # who leaves it open is not asked again and again
        assert isinstance(turn, TurnView)
        if turn.waiting and may_ask:
            questions = {"inputRequests": input_requests(turn.waiting), "requestState": turn.run}
            return InputRequiredResult.model_validate(questions)
        return tool_result(turn)

    async def _decisions(
        self, params: CallToolRequestParams, caller: Caller, run: str
    ) -> dict[str, NewDecision]:
        task = await self._actions.get_run(caller, run)
        answers = as_json({key: each.model_dump() for key, each in (params.input_responses or {}).items()})
        return decisions_of(task.run.waiting, answers)

    # Resources.

    async def list_resources(
        self, ctx: McpContext, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """List threads, the newest first."""
        with _protocol_errors():
            cursor = None if params is None else params.cursor
            page = await self._actions.list_threads(await self._caller_of(ctx), cursor)
        return ListResourcesResult(
            resources=[_thread_resource(thread) for thread in page.threads], next_cursor=page.next
        )

    async def list_templates(
        self, ctx: McpContext, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """List the forms in which a thread is read."""
        templates = [
            ResourceTemplate(
                name=form,
                title=TEMPLATE_TITLES[form],
                uri_template=template,
                mime_type=MEDIA_TYPES[form],
                description="The newest messages of a thread. What is read names the cursor of older ones.",
            )
            for form, template in TEMPLATES.items()
        ]
        return ListResourceTemplatesResult(resource_templates=templates)

    async def read_resource(self, ctx: McpContext, params: ReadResourceRequestParams) -> ReadResourceResult:
        """Read the messages of a thread."""
        uri_text = str(params.uri)
        with _protocol_errors(uri=uri_text):
            uri = parse_uri(uri_text)
            page = await self._actions.read_messages(await self._caller_of(ctx), uri.thread, uri.cursor)
        text = render_page(page, uri.form)
        contents = TextResourceContents(uri=uri_text, mime_type=MEDIA_TYPES[uri.form], text=text)
        return ReadResourceResult(contents=[contents])

    # Tasks.

    async def get_task(self, ctx: McpContext, params: TaskParams) -> HandlerResult:
        """Return a task: its status, and what there is to ask or to tell."""
        with _protocol_errors():
            task = await self._find_task(await self._task_caller(ctx, params), params)
        result = None if task.turn is None else _turn_result(task.turn)
        return detailed_task(task, result, can_elicit=_can_elicit(ctx))

    async def update_task(self, ctx: McpContext, params: TaskUpdateParams) -> EmptyResult:
        """Take the answers to what a task waits for. It has gone on when this returns."""
        with _protocol_errors():
            caller = await self._task_caller(ctx, params, scope=WRITE)
            task = await self._find_task(caller, params)
            decisions = decisions_of(task.run.waiting, params.input_responses)
            if decisions:
                await self._actions.decide(caller, task.run.id, decisions)
        return EmptyResult()

    async def cancel_task(self, ctx: McpContext, params: TaskParams) -> EmptyResult:
        """Ask for the end of a task. One that is over stays as it is."""
        with _protocol_errors():
            caller = await self._task_caller(ctx, params, scope=WRITE)
            await self._find_task(caller, params)
            await self._actions.cancel_run(caller, params.task_id)
        return EmptyResult()

    async def _task_caller(self, ctx: McpContext, params: TaskParams, *, scope: str = READ) -> Caller:
        """Return the caller of a request about a task, who must know what a task is.

        Raises:
            MCPError: The client does not know the extension, or its headers are about another task.
            Forbidden: The caller lacks the scope.
        """
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(code=METHOD_NOT_FOUND, message="Method not found", data=ctx.method)
        if not _has_extension(ctx):
            required: JSON = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
            message = f"The client must declare the extension {TASKS_EXTENSION}."
            raise MCPError(code=MISSING_REQUIRED_CLIENT_CAPABILITY, message=message, data=required)
        if ctx.request is not None:
            name = decode_header_value(ctx.request.headers.get(MCP_NAME_HEADER))
            if name != params.task_id:
                message = f"The header {MCP_NAME_HEADER} does not name the task of the request."
                raise MCPError(code=HEADER_MISMATCH, message=message)
        caller = await self._caller_of(ctx)
        caller.require_scope(scope)
        return caller

    async def _find_task(self, caller: Caller, params: TaskParams) -> TaskRun:
        return await self._actions.get_run(caller, check_id(params.task_id, "task"))


def _tool_listing(tool: McpTool) -> Tool:
    is_read_only = tool.scope == READ
    return Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=object_schema(tool.arguments),
        output_schema=object_schema(tool.reply),
        annotations=ToolAnnotations(
            title=tool.title,
            read_only_hint=is_read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=is_read_only or tool.idempotent,
            open_world_hint=tool.runs_turn,
        ),
    )


def _thread_resource(thread: ThreadView) -> Resource:
    updated = datetime.fromtimestamp(thread.updated / 1000, UTC).isoformat()
    return Resource(
        uri=str(ThreadUri(thread=thread.id)),
        name=thread.id,
        title=thread.title,
        mime_type=MEDIA_TYPES[JSON_FORM],
        annotations=Annotations(last_modified=updated),
    )


def _turn_result(turn: TurnView) -> JSON:
    return tool_result(turn).model_dump(by_alias=True, mode="json", exclude_none=True)


def _logged_tool_error(error: ClewError) -> CallToolResult:
    problem = problem_of(error)
    if problem.status >= 500:
        log.warning("A tool failed: %s", error)
    return tool_error(problem)


def _has_extension(ctx: McpContext) -> bool:
    """Return whether the client of a request knows tasks."""
    capabilities = ctx.session.client_capabilities
    is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    return is_modern and capabilities is not None and TASKS_EXTENSION in (capabilities.extensions or {})


def _can_elicit(ctx: McpContext) -> bool:
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None


@contextmanager
def _protocol_errors(uri: str | None = None) -> Iterator[None]:
    """Raise errors of ours as errors of the protocol; one about a resource names it."""
    try:
        yield
    except MCPError:
        raise
    except ClewError as error:
        raise protocol_error(error, {} if uri is None else {"uri": uri}) from error
    except Exception as error:
        log.exception("An MCP request failed")
        raise failure_error() from error
