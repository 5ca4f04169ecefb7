"""The process of a server, or several on one address, from start to stop.

Settings travel to the workers as variables of the environment. When the process is told to stop, streams that
only follow a thread end at once and are taken up elsewhere; turns have a while to come to their end.
"""

import asyncio
import errno
import gc
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import uvicorn
from litestar import Litestar
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.basereload import BaseReload
from uvicorn.supervisors.multiprocess import Process

from clew.agents.options import open_settings
from clew.core.errors import ClewError, InvalidArgument
from clew.database.database import Database
from clew.runtime.records.steps import read_prices
from clew.server.app import Application, create_app
from clew.server.connections import Connection, raise_file_limit
from clew.server.http.client_address import parse_networks
from clew.server.metrics import DIRECTORY_VARIABLE, forget_dead_workers
from clew.server.settings import PREFIX, ServerSettings, as_variables, from_variables
from clew.server.startup_checks import Danger, startup_dangers, startup_settings
from clew.server.tenants.agent import agent_options, find_agents, settings_for_agent
from clew.server.tenants.agents import check_distinct
from clew.server.tenants.realtime import realtime_provider
from clew.server.traces import check_export, exported_traces
from clew.urls import open_store

KEEP_ALIVE_SECONDS = 30
"""How long an idle connection is kept. Clients must give theirs up first, or they send into its end."""
RESTART_SECONDS = 5.0
"""How long a worker that failed is not started again, while others serve."""
RELOAD_DRAIN_SECONDS = 1.0
"""How long turns at work may take before a process is replaced because a file has changed."""
BACKLOG = 2_048
"""How many connections may wait to be taken."""
GARBAGE_THRESHOLD = 20_000
"""How many more objects than before are made until those among them that nobody knows are looked for."""
METRICS_PREFIX = "clew-metrics-"
"""The beginning of the name of a folder that a server made for the metrics of its workers."""
SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def serve(settings: ServerSettings, listener: socket.socket, *, reload: bool = False) -> None:
    """Serve until told to stop. With several workers, or ``reload``, this process only watches over them."""
    if reload:
        # Whoever works on an agent does not want to wait for the answers of the old one.
        drain_seconds = min(settings.drain_seconds, RELOAD_DRAIN_SECONDS)
        settings = msgspec.structs.replace(settings, drain_seconds=drain_seconds)
    os.environ.update(as_variables(settings))
    raise_file_limit()
    config = uvicorn_config(settings)
    if reload:
        config.app = f"{__name__}:worker_in_development"
        reloader = Reloader(config, listener, watched_folders(settings))
        reloader.run()
        if reloader.was_interrupted:
            raise KeyboardInterrupt  # as a server without a reloader does
    elif settings.workers == 1:
        await uvicorn.Server(config).serve([listener])
    else:
        with _metrics_directory():
            workers = Workers(config, sockets=[listener])
            workers.run()
        if workers.have_failed:
            sys.exit(STARTUP_FAILURE)  # as one alone does; they have said why
        if workers.was_interrupted:
            raise KeyboardInterrupt  # as one alone does


@contextmanager
def _metrics_directory() -> Iterator[None]:
    """Make the folder in which workers keep their metrics, so that each gives the sum; unless one is set."""
    if os.environ.get(DIRECTORY_VARIABLE):
        yield
        return
    with tempfile.TemporaryDirectory(prefix=METRICS_PREFIX, ignore_cleanup_errors=True) as folder:
        os.environ[DIRECTORY_VARIABLE] = folder
        try:
            yield
        finally:
            del os.environ[DIRECTORY_VARIABLE]


def _remove_metrics() -> None:
    """Remove the folder of metrics that a parent made which was killed."""
    folder = os.environ.get(DIRECTORY_VARIABLE, "")
    if Path(folder).name.startswith(METRICS_PREFIX):
        shutil.rmtree(folder, ignore_errors=True)


class Workers(Multiprocess):
    """Several processes that serve. One that is gone is replaced; if all of them failed, the server stops.

    Uvicorn asks each whether it is well and waits for its word for as long as one may take to start. Whoever
    was killed just then was missed after a minute, and no signal was heard before. Here it is enough that a
    process is there.
    """

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self.have_failed = False
        self.was_interrupted = False
        self._restart_time = time.monotonic() + RESTART_SECONDS

    def handle_int(self) -> None:
        """Stop for Ctrl-C, and know that it was that."""
        self.was_interrupted = True
        super().handle_int()

    def keep_subprocess_alive(self) -> None:
        """Replace those that are gone."""
        codes = [worker.exitcode for worker in self.processes]
        self.have_failed = all(map(_is_failure, codes))
        if self.have_failed:
            self.should_exit.set()
        if self.should_exit.is_set():
            return
        for index, code in enumerate(codes):
            if code is not None and not (_is_failure(code) and time.monotonic() < self._restart_time):
                self._restart_time = time.monotonic() + RESTART_SECONDS
                self.processes[index] = Process(self.config, self.sockets)
                self.processes[index].start()
        if directory := os.environ.get(DIRECTORY_VARIABLE):
            forget_dead_workers(directory, {worker.pid for worker in self.processes})


class Reloader(BaseReload):
    """One process that serves, and is replaced whenever a Python file in some folders changes.

    Uvicorn's own looks at every file below a folder, also those of an environment that is installed there,
    and forgets a change that is made while it restarts.
    """

    def __init__(self, config: uvicorn.Config, listener: socket.socket, folders: Sequence[Path]) -> None:
        super().__init__(config, uvicorn.Server(config).run, [listener])
        self.reloader_name = "Clew"
        self.was_interrupted = False
        self._folders = folders
        self._times = python_file_times(folders)

    def signal_handler(self, sig: int, frame: FrameType | None) -> None:
        """Stop for a signal, and know whether it was Ctrl-C."""
        self.was_interrupted = sig == signal.SIGINT
        super().signal_handler(sig, frame)

    def should_restart(self) -> list[Path] | None:
        """Return the files that have changed, come or gone since the last look."""
        self.pause()
        before, self._times = self._times, python_file_times(self._folders)
        paths = before.keys() | self._times.keys()
        return sorted(path for path in paths if before.get(path) != self._times.get(path)) or None


def python_file_times(folders: Sequence[Path]) -> dict[Path, int]:
    """Return when each Python file below some folders was changed, but for what is hidden or installed."""
    times: dict[Path, int] = {}
    for top in folders:
        for folder, names, files in os.walk(top):
            names[:] = [name for name in names if not _is_passed_over(Path(folder) / name)]
            for path in (Path(folder) / file for file in files if file.endswith(".py")):
                with suppress(OSError):  # it was deleted just now
                    times[path] = path.stat().st_mtime_ns
    return times


def _is_passed_over(folder: Path) -> bool:
    is_environment = (folder / "pyvenv.cfg").exists()
    return folder.name.startswith((".", "__")) or folder.name == "node_modules" or is_environment


def watched_folders(settings: ServerSettings) -> list[Path]:
    """Return the current folder, and those of the agents' modules that are elsewhere and not installed."""
    folders = [Path.cwd()]
    for reference in (settings.agent or "").split(","):
        module, colon, _ = reference.partition(":")
        spec = find_spec(module.partition(".")[0]) if colon else None
        if spec is None or spec.origin is None:
            continue
        folder = Path(spec.origin).resolve().parent
        if "site-packages" not in folder.parts and not folder.is_relative_to(Path.cwd()):
            folders.append(folder)
    return folders


def _is_failure(code: int | None) -> bool:
    """Return whether a process ended with an error; one that was killed has a code below zero."""
    return code is not None and code > 0


def open_listener(settings: ServerSettings) -> socket.socket:
    """Return a socket that listens at the address of the settings; early clients wait there.

    Raises:
        InvalidArgument: The address is in use, or not of this machine.
    """
    host, port = settings.host, settings.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only where TCP is named does asyncio send at once: else the second piece of an answer waits 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            advice = "Something else listens there. Stop it, or choose another one with --port."
        else:
            advice = f"{error.strerror}."
        raise InvalidArgument(
            problem=f"The server cannot listen on port {port} of {host!r}. {advice}"
        ) from error
    listener.set_inheritable(True)
    return listener


async def check_prerequisites(settings: ServerSettings) -> None:
    """Check that all that a server needs is there, while an error can still be said in a sentence.

    Raises:
        ClewError: Something is missing.
    """
    realtime_provider(settings, os.environ)
    read_prices(settings.prices)
    check_export(os.environ, telemetry=settings.telemetry)
    _check_volume(settings)
    agents = find_agents(settings)
    names: list[str] = []
    async with Database(await open_store(settings.url), owns_store=True) as db:
        for agent in agents:
            options = agent_options(settings_for_agent(settings, agent, agents))
            async with open_settings(agent, options, os.environ) as agent_settings:
                names.append(agent.runtime_name(db, agent_settings))
    check_distinct(names)


def _check_volume(settings: ServerSettings) -> None:
    """Refuse a volume that is not there: its path may be mistyped, and files would be lost in it."""
    if settings.volume is not None and not Path(settings.volume).is_dir():
        problem = (
            f"There is no volume at {settings.volume!r}. Make the folder, or name another one with --volume "
            f"or {PREFIX}VOLUME."
        )
        raise InvalidArgument(problem=problem)


async def dangers_of_start(settings: ServerSettings, environment: Mapping[str, str]) -> list[Danger]:
    """Return the dangers of a start with these settings.

    Raises:
        InvalidArgument: Several processes cannot share this store, or a trusted proxy has no address.
    """
    check_workers(settings)
    parse_networks(settings.trusted_proxies)
    secret = environment.get(f"{PREFIX}SECRET")  # not the settings' own: one made up for this start is none
    start = startup_settings(
        environment, host=settings.host, url=settings.url, cors=settings.cors, secret=secret
    )
    return await startup_dangers(start)


def check_workers(settings: ServerSettings) -> None:
    """Refuse several processes where each would have threads of its own.

    Raises:
        InvalidArgument: They would.
    """
    if settings.workers < 1:
        raise InvalidArgument(problem="A server has at least one worker.")
    if settings.workers > 1 and settings.url.startswith("memory:"):
        raise InvalidArgument(problem="Workers cannot share memory://. Use a SQLite file or PostgreSQL.")


def uvicorn_config(settings: ServerSettings) -> uvicorn.Config:
    """Return the configuration of uvicorn."""
    return uvicorn.Config(
        f"{__name__}:worker",
        factory=True,
        host=settings.host,
        port=settings.port,
        workers=settings.workers,
        log_level="warning",
        log_config=_log_config(json=settings.json_logs, access=settings.access_log),
        access_log=False,
        loop="asyncio",
        lifespan="on",
        server_header=False,
        proxy_headers=False,  # it would trust every proxy on this machine; ours is ``trusted_proxies``
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=max(1, int(settings.drain_seconds)),
        http=Connection,
    )


def worker() -> Application:
    """Return the application of one process, with the settings of the environment."""
    return create_app(
        from_variables(os.environ), lifespan=[_stop_on_signal, _export_traces, collect_less_garbage]
    )


@asynccontextmanager
async def _export_traces(app: Litestar) -> AsyncIterator[None]:
    """Export traces for as long as the application lives."""
    with exported_traces(os.environ, telemetry=app.state.resources.settings.telemetry):
        yield


def worker_in_development() -> Application:
    """Return the application of a process that is replaced when a file changes.

    An agent that cannot be loaded is said in a sentence; the next change is the next attempt.
    """
    try:
        return worker()
    except ClewError as error:
        sys.stderr.write(f"{error}\nNothing is served until that is mended.\n")
        sys.exit(STARTUP_FAILURE)


@asynccontextmanager
async def _stop_on_signal(app: Litestar) -> AsyncIterator[None]:
    """Pass the signal to stop on to the streams, which would otherwise be waited for.

    A worker whose parent was killed takes that for the signal: it would keep the port for ever.
    """
    loop, closing = asyncio.get_running_loop(), app.state.resources.closing
    previous = {number: signal.getsignal(number) for number in SIGNALS}

    def receive_signal(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(closing.set)
        was = previous[signal.Signals(number)]
        if callable(was):
            was(number, frame)

    def stop_orphan(sentinel: int) -> None:
        loop.remove_reader(sentinel)
        _remove_metrics()
        signal.raise_signal(signal.SIGTERM)

    for number in SIGNALS:
        signal.signal(number, receive_signal)
    parent = multiprocessing.parent_process()
    if parent is not None and sys.platform != "win32":
        loop.add_reader(parent.sentinel, stop_orphan, parent.sentinel)
    try:
        yield
    finally:
        for number, was in previous.items():
            signal.signal(number, was)


@asynccontextmanager
async def collect_less_garbage(app: Litestar) -> AsyncIterator[None]:
    """Leave what a process has at its start out of garbage collections, and collect less often.

    Every collection looks at all that lives, and modules, routes and lexicons live as long as the process:
    it took a sixth of the time of a turn.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD)
    yield


def _log_config(*, json: bool, access: bool) -> dict[str, Any]:
    """Return a logging configuration: everything as lines of JSON, or the access log alone as plain lines."""
    access_logger: dict[str, Any] = {"level": "INFO" if access else "WARNING"}
    if json:
        formatter: dict[str, Any] = {"()": "clew.server.metrics.JsonLogFormatter"}
        root = {"root": {"handlers": ["stderr"], "level": "INFO"}}
    else:
        formatter, root = {"format": "%(asctime)s %(message)s"}, {}
        access_logger |= {"handlers": ["stderr"], "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": formatter},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "loggers": {"clew.access": access_logger},
        **root,
    }
