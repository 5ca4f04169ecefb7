"""A server in a process of its own, whose model speaks slowly; it tells its port on standard output."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from typing import TypeVar

import uvicorn

import clew
from clew.runtime.model.protocol import ModelRequest, Reply, ReplyPart, TextChunk, Usage
from clew.runtime.settings import LeaseConfig, RuntimeConfig
from clew.server.app import create_app
from clew.server.settings import ServerSettings

T = TypeVar("T")
WORDS = [f"word{number} " for number in range(12)]


class SlowModel:
    """Says its words one by one, with a pause between them."""

    name = "slow"

    def __init__(self, pause: float) -> None:
        self._pause = pause

    async def stream(self, request: ModelRequest) -> AsyncIterator[ReplyPart]:
        """The words."""
        for word in WORDS:
            await asyncio.sleep(self._pause)
            yield TextChunk(word)
        yield Reply(text="".join(WORDS))

    async def fill(self, request: ModelRequest, kind: type[T]) -> tuple[T, Usage]:
        """Nothing."""
        raise NotImplementedError


def main(url: str, pause: str) -> None:
    """Serve until killed."""
    model = SlowModel(float(pause))
    settings = ServerSettings(url=url, secret="the same for every process of this test", sweep_seconds=0.5)
    app = create_app(
        settings,
        agent=lambda db: clew.Runtime(
            db, model=model, config=RuntimeConfig(leases=LeaseConfig(seconds=60, sweep_seconds=0.5))
        ),
    )
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on")).run([listener])


if __name__ == "__main__":
    main(*sys.argv[1:])
