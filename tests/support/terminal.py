"""A real terminal for tests: tmux draws it, types into it, and tells what stands on it."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
PATIENCE = 40.0
RETRY_SECONDS = 5.0
LOOK = 0.05


class Terminal:
    """One window of a terminal of a given size, in which one program runs."""

    def __init__(self, directory: Path, sockets: str, *, width: int, height: int) -> None:
        self._socket = Path(sockets) / "tmux"
        self._size = ("-x", str(width), "-y", str(height))
        self._directory = directory

    def start(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Run a program; when it is over, the window stays and tells its exit code."""
        variables = [f"{name}={value}" for name, value in (environment or {}).items()]
        line = shlex.join(["env", "-u", "COLUMNS", "-u", "LINES", *variables, *command])
        # The shell ignores Ctrl-C, which is meant for the program alone.
        script = f"trap : INT; {line}; echo \"[ended with $?]\"; trap '' INT; exec sleep 1000"
        arguments = ["new-session", "-d", "-s", "t", *self._size, "-c", str(self._directory), script]
        self._tmux("-f", os.devnull, *arguments)

    def type(self, line: str) -> None:
        """Type a line, and Enter."""
        self.keys(line)
        self._tmux("send-keys", "-t", "t", "Enter")

    def keys(self, text: str) -> None:
        """Type some letters."""
        self._tmux("send-keys", "-t", "t", "-l", text)

    def press(self, *names: str) -> None:
        """Press keys by their names: C-c, C-d, Tab."""
        self._tmux("send-keys", "-t", "t", *names)

    def paste(self, text: str) -> None:
        """Paste some text, as a terminal does that tells what is pasted from what is typed."""
        self._tmux("set-buffer", text)
        self._tmux("paste-buffer", "-p", "-t", "t")

    def screen(self, *, colours: bool = False) -> str:
        """What has been written, what has scrolled away too."""
        extra = ["-e"] if colours else []
        text = self._tmux("capture-pane", "-t", "t", "-p", "-S", "-2000", *extra)
        return "\n".join(line.rstrip() for line in text.splitlines()).rstrip()

    def interrupt(self, *texts: str) -> str:
        """Press Ctrl-C at a prompt and wait until something shows.

        One that comes after readline has shown the prompt and before it waits for keys is noticed by Python
        only with the next.
        """
        self.press("C-c")
        try:
            return self.wait_for(*texts, patience=RETRY_SECONDS)
        except AssertionError:
            self.press("C-c")
            return self.wait_for(*texts)

    def wait_for(self, *texts: str, after: str = "", patience: float = PATIENCE) -> str:
        """What stands on the screen once it holds all of these, behind the last of something."""
        until = time.monotonic() + patience
        while time.monotonic() < until:
            screen = self.screen()
            _, separator, part = screen.rpartition(after) if after else ("", "all", screen)
            if separator and all(text in part for text in texts):
                return screen
            time.sleep(LOOK)
        raise AssertionError(f"{texts} did not come; there is:\n{self.screen()}")

    def program(self) -> int:
        """The process id of the program that runs in the window."""
        pane = int(self._tmux("display-message", "-t", "t", "-p", "#{pane_pid}"))
        children = Path(f"/proc/{pane}/task/{pane}/children").read_text(encoding="ascii").split()
        return int(children[0])

    def kill(self) -> None:
        """End the program as a crash would."""
        os.kill(self.program(), signal.SIGKILL)
        self.wait_for("[ended with 137]")

    def close(self) -> None:
        """Close the window and the program with it."""
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], capture_output=True, check=False)

    def _tmux(self, *arguments: str) -> str:
        process = subprocess.run(
            ["tmux", "-u", "-S", self._socket, *arguments], capture_output=True, text=True, check=True
        )
        return process.stdout


@contextmanager
def terminal(directory: Path, *, width: int = 80, height: int = 24) -> Iterator[Terminal]:
    """A terminal of a size. Where there is no tmux it is installed, or the test fails and says why."""
    if shutil.which("tmux") is None:
        subprocess.run([ROOT / "tools" / "install-tmux"], check=True)
    with TemporaryDirectory() as sockets:  # the path of a socket has to be short
        session = Terminal(directory, sockets, width=width, height=height)
        try:
            yield session
        finally:
            session.close()
