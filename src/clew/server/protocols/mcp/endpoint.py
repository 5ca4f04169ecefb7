"""MCP over HTTP: one request, one reply, and nothing kept in between, so that any process answers it."""

import asyncio
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from litestar.types import Message, Receive, Scope, Send

from clew.core.errors import MissingExtra, TooLarge

if TYPE_CHECKING:
    from mcp.server import Server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager


class McpEndpoint:
    """The MCP server of a process. It is loaded with the first request: not everybody needs it.

    ``make_server`` imports what it needs itself, in a thread, for that takes a second.
    """

    def __init__(self, make_server: "Callable[[], Server[Any]]", *, body_limit: int) -> None:
        self._make_server = make_server
        self._body_limit = body_limit
        self._lock = asyncio.Lock()
        self._manager: StreamableHTTPSessionManager | None = None
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request.

        Raises:
            MissingExtra: The package is not installed.
            TooLarge: The body of the request is over the limit.
        """
        manager = self._manager or await self._load()
        # Blanks around the value of a header mean nothing, and the parser leaves those behind it.
        headers = [(name, value.strip()) for name, value in scope["headers"]]
        scope = {**scope, "headers": headers}  # type: ignore[assignment]  # the same scope
        await manager.handle_request(scope, self._limited(receive), send)  # type: ignore[arg-type]  # ASGI

    async def close(self) -> None:
        """End the requests that are still open."""
        self._closing.set()
        if self._task is not None:
            await self._task

    async def _load(self) -> "StreamableHTTPSessionManager":
        async with self._lock:
            if self._manager is None:
                manager = await asyncio.to_thread(self._make_manager)
                ready = asyncio.Event()
                self._task = asyncio.create_task(self._run(manager, ready))
                await ready.wait()
                self._manager = manager
            return self._manager

    def _make_manager(self) -> "StreamableHTTPSessionManager":
        try:
            from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
        except ImportError as error:
            raise MissingExtra(extra="mcp", package="mcp") from error
        # Without a limit of its own: ours names the size, and has a code.
        return StreamableHTTPSessionManager(
            self._make_server(), stateless=True, max_request_body_size=sys.maxsize
        )

    async def _run(self, manager: "StreamableHTTPSessionManager", ready: asyncio.Event) -> None:
        """Hold the manager open in a task of its own, which enters and leaves it."""
        async with manager.run():
            ready.set()
            await self._closing.wait()

    def _limited(self, receive: Receive) -> Receive:
        size = 0

        async def receive_limited() -> Message:
            nonlocal size
            message = await receive()
            if message["type"] == "http.request":
                size += len(message.get("body", b""))
                if size > self._body_limit:
                    raise TooLarge(what="request", size=size, limit=self._body_limit)
            return message  # type: ignore[return-value]  # narrowed to the messages that a request has

        return receive_limited  # type: ignore[return-value]  # the same messages as before
