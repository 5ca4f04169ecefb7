"""Servers and real MCP clients for these tests: over loopback, with headers that say who asks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

import httpx2
import mcp_types as types
from mcp.client import Client, ClientExtension, ResultClaim
from mcp.client.extension import ClaimContext
from mcp.client.streamable_http import streamable_http_client
from pydantic import ConfigDict

import clew
from clew.core.encoding import JSON
from clew.server.app import create_app
from clew.server.identity.identity import Authenticate
from clew.server.protocols.mcp.tasks import TASKS_EXTENSION
from clew.server.settings import ServerSettings
from clew.server.tenants.runtimes import MakeRuntime
from tests.server.local_server import listening
from tests.support.interop.agent import make_runtime

SECRET = "s" * 64
"""The secret that servers of one database share."""


class CreatedTask(types.Result):
    """The result of a call that goes on as a task."""

    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"]


class TaskDetail(types.Result):
    """A task, with every field that it came with."""

    model_config = ConfigDict(extra="allow")


class TaskParams(types.RequestParams):
    """The task that a request is about."""

    task_id: str


class TaskAnswers(TaskParams):
    """The task that a request is about, and answers to it."""

    input_responses: dict[str, Any]


class GetTask(types.Request[TaskParams, Literal["tasks/get"]]):
    """Asks for a task."""

    method: Literal["tasks/get"] = "tasks/get"
    name_param = "taskId"


class CancelTask(types.Request[TaskParams, Literal["tasks/cancel"]]):
    """Asks for the end of a task."""

    method: Literal["tasks/cancel"] = "tasks/cancel"
    name_param = "taskId"


class UpdateTask(types.Request[TaskAnswers, Literal["tasks/update"]]):
    """Answers what a task asks."""

    method: Literal["tasks/update"] = "tasks/update"
    name_param = "taskId"


class TaskClient(ClientExtension):
    """Tells a server that its client knows tasks; what they are is left to the test."""

    identifier = TASKS_EXTENSION

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """The result that a task begins with."""
        return (ResultClaim(result_type="task", model=CreatedTask, resolve=_leave),)


async def _leave(task: CreatedTask, context: ClaimContext) -> types.CallToolResult:
    raise AssertionError("the test asks for the task itself")


def _person(action: Literal["accept", "decline", "cancel"]) -> Any:
    """A person who always answers the same."""

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action=action, content={} if action == "accept" else None)

    return answer


@dataclass(frozen=True, kw_only=True)
class McpPeer:
    """A connected client, and what tests ask of it."""

    client: Client

    async def call(self, name: str, /, **arguments: JSON) -> Any:
        """The structured result of a tool that succeeds."""
        result = await self.client.call_tool(name, arguments)
        assert not result.is_error, result.content
        return result.structured_content

    async def refusal(self, name: str, /, **arguments: JSON) -> str:
        """The code of the error of a tool that fails; its text begins with it."""
        result = await self.client.call_tool(name, arguments)
        assert result.is_error, result.structured_content
        (content,) = result.content
        assert isinstance(content, types.TextContent)
        code = str(result.structured_content["code"])
        assert content.text.startswith(f"{code}: ")
        return code

    async def start(self, **arguments: JSON) -> dict[str, Any]:
        """The task that a turn goes on as."""
        result = await self.client.session.call_tool("run_turn", arguments, allow_claimed=True)
        assert isinstance(result, CreatedTask), result
        return dict(result.model_extra or {})

    async def task(self, id: str) -> dict[str, Any]:
        """A task as it is now."""
        request = GetTask(params=TaskParams(task_id=id))
        detail = await self.client.session.send_request(request, TaskDetail)
        return dict(detail.model_extra or {})

    async def settle(self, id: str, *statuses: str) -> dict[str, Any]:
        """A task once it has one of some statuses."""
        while (task := await self.task(id))["status"] not in statuses:
            assert task["status"] in ("working", "input_required"), task
        return task

    async def cancel(self, id: str) -> None:
        """Ask for the end of a task."""
        await self.client.session.send_request(CancelTask(params=TaskParams(task_id=id)), types.EmptyResult)

    async def answer(self, id: str, **answers: JSON) -> None:
        """Answer what a task asks."""
        params = TaskAnswers(task_id=id, input_responses=answers)
        await self.client.session.send_request(UpdateTask(params=params), types.EmptyResult)


@asynccontextmanager
async def connect(
    url: str,
    headers: Mapping[str, str],
    *,
    tasks: bool = False,
    elicit: bool = False,
    action: Literal["accept", "decline", "cancel"] = "accept",
    mode: str = "auto",
) -> AsyncIterator[McpPeer]:
    """A client of the server at an address."""
    async with httpx2.AsyncClient(headers=dict(headers), timeout=30) as http:
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        async with Client(
            transport,
            mode=mode,
            extensions=[TaskClient()] if tasks else None,
            elicitation_callback=_person(action) if elicit else None,
        ) as client:
            yield McpPeer(client=client)


@dataclass(frozen=True, kw_only=True)
class McpServer:
    """A server on loopback, and the tenant whose users ask."""

    url: str
    tenant: str

    def headers(self, user: str | None = "alice") -> dict[str, str]:
        """What a request of a user says, or of somebody who names nobody."""
        headers = {"X-Clew-Tenant": self.tenant}
        return headers if user is None else {**headers, "X-Clew-User": user}

    @asynccontextmanager
    async def peer(
        self,
        user: str | None = "alice",
        *,
        tasks: bool = False,
        elicit: bool = False,
        action: Literal["accept", "decline", "cancel"] = "accept",
        mode: str = "auto",
    ) -> AsyncIterator[McpPeer]:
        """A client of a user."""
        async with connect(
            self.url, self.headers(user), tasks=tasks, elicit=elicit, action=action, mode=mode
        ) as peer:
            yield peer


@asynccontextmanager
async def serve(
    db: clew.Database,
    *,
    agent: MakeRuntime = make_runtime,
    settings: ServerSettings | None = None,
    authenticate: Authenticate | None = None,
) -> AsyncIterator[McpServer]:
    """A server over a database."""
    settings = settings or ServerSettings(secret=SECRET, sweep_seconds=0.5, drain_seconds=0.5)
    app = create_app(settings, db=db, agent=agent, authenticate=authenticate)
    async with listening(app) as url:
        yield McpServer(url=url, tenant=db.tenant)
