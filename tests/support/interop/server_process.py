"""``clew serve`` as a process of its own, on one port and one file, which is killed and started again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx

from tests.cli.commands.test_serve import free_port
from tests.server.http.test_sse import up
from tests.support.interop.agent import HOLD_FOLDER
from tests.support.suites import ROOT

AGENT = "tests.support.interop.agent:make_runtime"


class ServerProcess:
    """A server on loopback with the agent of these tests. Its port and its database stay the same."""

    def __init__(self, folder: Path, *, agent: str = AGENT, cors: str | None = None) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.database = f"sqlite:///{folder / 'interop.db'}"
        self._agent = agent
        self._cors = cors
        self._folder = folder
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def api(self) -> str:
        """The address that every route begins with."""
        return f"{self.url}/api/v1"

    async def start(self) -> None:
        """Start the server, and wait until it answers."""
        assert self._child is None
        self._child = self._spawn()
        await up(self.url)

    def _spawn(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "clew.cli", "serve", "--db", self.database, "--agent", self._agent]
        command += ["--port", str(self.port), *([] if self._cors is None else ["--cors", self._cors])]
        environment = {**os.environ, HOLD_FOLDER: str(self._folder), "CLEW_SERVER_SECRET": "s" * 64}
        environment["CLEW_SERVER_SWEEP_SECONDS"] = "0.5"
        with (self._folder / "server.log").open("ab") as log:
            return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)

    def kill(self) -> None:
        """End the server with SIGKILL, in the middle of whatever it does."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None

    async def restart(self) -> None:
        """Kill the server and start it again at the same address."""
        self.kill()
        await self.start()

    def release(self, name: str) -> None:
        """Let the answer to ``hold NAME`` go on; also in a server that is started later."""
        (self._folder / name).touch()

    def client(self, user: str = "alice") -> httpx.AsyncClient:
        """A client of the server, who is this user."""
        headers = {"X-Clew-User": user}
        return httpx.AsyncClient(base_url=self.api, headers=headers, timeout=60)

    def log_text(self) -> str:
        """The output of the server so far."""
        return (self._folder / "server.log").read_text(encoding="utf-8", errors="replace")
