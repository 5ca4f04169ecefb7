"""Running the server: one process or several on one address, until it is told to stop.

Settings travel to the workers as variables of the environment. When the process is told to stop, streams that
only follow a thread end at once and are taken up elsewhere; turns have a while to come to their end.
"""

import asyncio
import errno
import os
import signal
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import FrameType
from typing import Any

import uvicorn
from litestar import Litestar
from uvicorn.supervisors import Multiprocess

from holdfast.core.errors import InvalidArgument
from holdfast.opening import open_store
from holdfast.server.app import Application, create_app
from holdfast.server.connections import Connection, make_room
from holdfast.server.guards import Danger, Start, every_danger, start_of
from holdfast.server.settings import PREFIX, ServerSettings, as_variables, from_variables

KEEP_SECONDS = 30
"""How long an idle connection is kept. Clients must give theirs up first, or they send into its end."""
START_SECONDS = 60
"""How long a worker may be silent before it is replaced; on a busy machine one takes long to start."""
WAITING = 2_048
"""How many connections may wait to be taken."""
SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def serve(settings: ServerSettings, listener: socket.socket) -> None:
    """Serve until told to stop. With several workers this process only watches over them."""
    os.environ.update(as_variables(settings))
    make_room()
    config = config_of(settings)
    if settings.workers == 1:
        await uvicorn.Server(config).serve([listener])
    else:
        Multiprocess(config, sockets=[listener]).run()


def listening(settings: ServerSettings) -> socket.socket:
    """The address of the settings, taken: who comes before the server is ready waits for it.

    Raises:
        InvalidArgument: It cannot be had.
    """
    host, port = settings.host, settings.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only where TCP is named does asyncio send at once: else the second piece of an answer waits 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(WAITING)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            advice = "Something else listens there. Stop it, or choose another one with --port."
        else:
            advice = f"{error.strerror}."
        raise InvalidArgument(problem=f"Port {port} of {host!r} cannot be had. {advice}") from error
    listener.set_inheritable(True)
    return listener


async def try_out(settings: ServerSettings) -> None:
    """See that all that a server needs is there, while what is missing can still be said in a sentence.

    Raises:
        HoldfastError: Something is missing.
    """
    store = await open_store(settings.url)
    await store.close()
    if settings.model is not None:
        from holdfast.runtime.provider import ProviderModel

        async with ProviderModel(settings.model):
            pass


async def check(settings: ServerSettings, environment: Mapping[str, str]) -> list[Danger]:
    """What stands against a start.

    Raises:
        InvalidArgument: Several processes cannot share this store.
    """
    check_workers(settings)
    return await every_danger(start_from(settings, environment))


def start_from(settings: ServerSettings, environment: Mapping[str, str]) -> Start:
    """How the server is about to start, for the guards; a secret made up for this start counts as none."""
    return start_of(
        environment,
        host=settings.host,
        url=settings.url,
        cors=settings.cors,
        secret=environment.get(f"{PREFIX}SECRET"),
    )


def check_workers(settings: ServerSettings) -> None:
    """Refuse several processes where each would have threads of its own.

    Raises:
        InvalidArgument: They would.
    """
    if settings.workers < 1:
        raise InvalidArgument(problem="A server has at least one worker.")
    if settings.workers > 1 and settings.url.startswith("memory:"):
        raise InvalidArgument(problem="Workers cannot share memory://. Use a SQLite file or PostgreSQL.")


def config_of(settings: ServerSettings) -> uvicorn.Config:
    """How uvicorn is to run it."""
    return uvicorn.Config(
        f"{__name__}:worker",
        factory=True,
        host=settings.host,
        port=settings.port,
        workers=settings.workers,
        log_level="warning",
        log_config=_json_logs() if settings.json_logs else None,
        access_log=False,
        loop="asyncio",
        lifespan="on",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_SECONDS,
        timeout_worker_healthcheck=START_SECONDS,
        timeout_graceful_shutdown=max(1, int(settings.drain_seconds)),
        http=Connection,
    )


def worker() -> Application:
    """The application of one process, as the environment says."""
    return create_app(from_variables(os.environ), lifespan=[_until_told])


@asynccontextmanager
async def _until_told(app: Litestar) -> AsyncIterator[None]:
    """Pass the signal to stop on to the streams, which would otherwise be waited for."""
    loop, closing = asyncio.get_running_loop(), app.state.serving.closing
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def told(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(closing.set)
        was = before[signal.Signals(number)]
        if callable(was):
            was(number, frame)

    for number in SIGNALS:
        signal.signal(number, told)
    try:
        yield
    finally:
        for number, was in before.items():
            signal.signal(number, was)


def _json_logs() -> dict[str, Any]:
    """One JSON object for each line of the log."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": "holdfast.server.logs.JsonLines"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
        "root": {"handlers": ["stderr"], "level": "INFO"},
    }
