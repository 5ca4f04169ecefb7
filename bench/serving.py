"""`python -m bench.serving`: a server with a model that answers at once, to be measured from outside."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import uvicorn
from uvicorn.supervisors import Multiprocess

from clew.core.errors import ModelFailed
from clew.runtime.model.protocol import ModelRequest, Reply, ReplyPart, TextChunk, Usage
from clew.runtime.runtime import Runtime
from clew.runtime.settings import LeaseConfig, RuntimeConfig, SessionConfig
from clew.server import process
from clew.server.app import Application, create_app
from clew.server.connections import Connection
from clew.server.process import open_listener
from clew.server.settings import ServerSettings, from_variables

T = TypeVar("T")
ANSWER = ["Here is ", "what I ", "have to ", "say about ", "it. ", "No more."]


class PromptModel:
    """Says the same six pieces to everybody, at once."""

    name = "prompt"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
        """The pieces."""
        for piece in ANSWER:
            yield TextChunk(piece)
        yield Reply(text="".join(ANSWER), usage=Usage(calls=1, output_tokens=len(ANSWER)))

    async def fill(self, request: ModelRequest, kind: type[T]) -> tuple[T, Usage]:
        """Nothing."""
        raise ModelFailed(model=self.name, problem="it fills no forms")


def app() -> Application:
    """The application, as the environment says."""
    settings, model = from_variables(os.environ), PromptModel()
    return create_app(
        settings,
        agent=lambda db: Runtime(
            db,
            model=model,
            config=RuntimeConfig(
                leases=LeaseConfig(sweep_seconds=settings.sweep_seconds),
                sessions=SessionConfig(finalize_active_sessions_on_close=False),
            ),
        ),
        lifespan=_process_lifespan(),
    )


def _process_lifespan() -> list[Any]:
    """What the process of a server does beside serving; an older checkout may not do it yet."""
    collect_less_garbage = getattr(process, "collect_less_garbage", None)
    return [] if collect_less_garbage is None else [collect_less_garbage]


def main(program: str) -> None:
    """Serve until ended, and tell the port first."""
    listener = open_listener(ServerSettings(port=0))
    port = listener.getsockname()[1]
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    if program == "granian":
        listener.close()
        _granian(port)
        return
    workers = from_variables(os.environ).workers
    config = uvicorn.Config(
        "bench.serving:app",
        factory=True,
        workers=workers,
        http=Connection if program == "uvicorn" else "httptools",
        log_level="error",
        access_log=False,
        lifespan="on",
        proxy_headers=False,
        loop="uvloop" if program == "uvicorn with uvloop" else "asyncio",
        backlog=4096,
        timeout_keep_alive=120,
    )
    if workers == 1:
        uvicorn.Server(config).run([listener])
    else:
        Multiprocess(config, sockets=[listener]).run()


def _granian(port: int) -> None:
    """The other program, if it is installed."""
    granian: Any = importlib.import_module("granian")
    granian.Granian(
        "bench.serving:app",
        factory=True,
        address="127.0.0.1",
        port=port,
        interface="asgi",
        workers=1,
        log_level="error",
        backlog=4096,
    ).serve()


if __name__ == "__main__":
    main(sys.argv[1])
