"""A server on a real port of this machine, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from litestar import Litestar

from clew.server.connections import Connection
from clew.server.process import KEEP_ALIVE_SECONDS
from clew.server.process import open_listener as taken
from clew.server.settings import ServerSettings


@asynccontextmanager
async def listening(app: Litestar, http: type[Connection] = Connection) -> AsyncIterator[str]:
    """Serve an application; the address it is at."""
    listener = taken(ServerSettings(port=0))
    config = uvicorn.Config(
        app,
        http=http,
        log_config=None,
        lifespan="on",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve([listener]))
    while not server.started:
        await asyncio.sleep(0.01)
        assert not task.done(), "the server did not start"
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        listener.close()
