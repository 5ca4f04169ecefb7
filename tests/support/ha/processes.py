"""Servers of other projects as processes: started in a folder, killed, paused and thawed by their ids."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import psutil

from tests.support.postgres import Account

STOP_SECONDS = 30
# Waits for a line; if the pipe ends without one, its writer has died, and what it started must go.
GUARD = """
read -r _ && exit
for file in "$1"/*/pid "$1"/*/data/postmaster.pid; do
  [ -f "$file" ] && kill -KILL "$(head -n 1 "$file")"
done
for file in "$1"/*/data/postmaster.pid; do [ -f "$file" ] && kill -KILL "$(head -n 1 "$file")"; done
rm -rf "$1"
"""


def post_guard(folder: Path) -> subprocess.Popen[bytes]:
    """Start a process that clears a folder of servers if this process dies without closing it."""
    command = ["sh", "-c", GUARD, "guard", str(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)


class ServerCommand:
    """One command that serves until it is killed. Its folder, its log and its ports stay the same."""

    def __init__(
        self,
        folder: Path,
        command: list[str],
        *,
        account: Account | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.log = folder / "log"
        self._command = command
        self._account: Account = account or {}
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """True if the process is alive, paused or not."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the command, unless it runs."""
        if self.is_running:
            return
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self._environment,
                start_new_session=True,  # so that an interrupt from the keyboard is ours to handle
                **self._account,
            )
        (self.folder / "pid").write_text(f"{self._process.pid}\n", encoding="ascii")

    def kill(self) -> None:
        """End the command and everything that it has started with SIGKILL."""
        processes = self.freeze()
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        if self._process is not None:
            self._process.wait(STOP_SECONDS)
        psutil.wait_procs(processes, STOP_SECONDS)

    def freeze(self) -> list[psutil.Process]:
        """Pause the command and everything that it has started, and return these processes."""
        frozen: list[psutil.Process] = []
        # A process may start another while the list is made: it is made until it has no more.
        while fresh := [process for process in self._processes() if process not in frozen]:
            for process in fresh:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGSTOP)
            frozen += fresh
        return frozen

    def thaw(self) -> None:
        """Let everything that was paused go on."""
        for process in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)

    def _processes(self) -> list[psutil.Process]:
        """The command first, so that it starts nothing while the others are paused."""
        processes: list[psutil.Process] = []
        for pid in self._roots():
            with contextlib.suppress(psutil.NoSuchProcess):
                root = psutil.Process(pid)
                processes += [root, *root.children(recursive=True)]
        return list(dict.fromkeys(processes))

    def _roots(self) -> list[int]:
        """The process itself, and a PostgreSQL that outlived the Patroni which started it."""
        roots = [self._process.pid] if self._process is not None and self.is_running else []
        with contextlib.suppress(FileNotFoundError, IndexError, ValueError):
            pid = int((self.folder / "data" / "postmaster.pid").read_text(encoding="utf-8").split()[0])
            with contextlib.suppress(psutil.NoSuchProcess):
                if str(self.folder) in " ".join(psutil.Process(pid).cmdline()):
                    roots.append(pid)
        return roots
