"""Install exactly what locks name, and report progress: ``python tools/install_lock.py LOCK…``.

It is run by the Python of an environment that has pip and nothing else: the standard library must do.
"""

import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

REQUIREMENT = re.compile(r"^[A-Za-z0-9][\w.-]*==", re.MULTILINE)
FETCHED = re.compile(r"^(?:Collecting|Ignoring|Processing) ", re.MULTILINE)
LINE_SECONDS = 3.0
"""How often a log gets a line; a terminal shows each change in place."""


class Progress:
    """One line about what is going on: rewritten on a terminal, repeated now and then elsewhere."""

    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty()
        self._next_line = time.monotonic() + LINE_SECONDS
        self._last_text = ""

    def show(self, text: str) -> None:
        """Show how far the work is."""
        if self._terminal:
            print(f"\r\x1b[K  {text}", end="", flush=True)
        elif time.monotonic() >= self._next_line and text != self._last_text:
            self._next_line = time.monotonic() + LINE_SECONDS
            self._last_text = text
            print(f"  {text}", flush=True)

    def end(self, text: str) -> None:
        """Show how the work ended."""
        print(f"\r\x1b[K  {text}" if self._terminal else f"  {text}", flush=True)


def stage_of(output: str, total: int, packages: Path, installed_before: int) -> str:
    """How far pip is: it fetches everything first, then installs it without another word."""
    if "\nInstalling collected packages" not in output:
        return f"fetched {len(FETCHED.findall(output))} of {total} packages"
    installed = len(list(packages.glob("*.dist-info"))) - installed_before
    return f"installed {installed} packages"


def install(locks: list[str]) -> int:
    """Run pip on the locks and return its exit code; what it prints is shown only if it fails."""
    total = sum(len(REQUIREMENT.findall(Path(lock).read_text(encoding="utf-8"))) for lock in locks)
    packages = Path(sysconfig.get_path("purelib"))
    installed_before = len(list(packages.glob("*.dist-info")))
    # A lock is complete, so --no-deps leaves pip nothing to resolve; that is a third of its time.
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
    command += ["--no-deps", "--require-hashes", *(f"--requirement={lock}" for lock in locks)]
    progress = Progress()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "output"
        with output.open("wb") as sink:
            environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
            pip = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT, env=environment)
            while pip.poll() is None:
                time.sleep(0.2)
                text = output.read_text(encoding="utf-8", errors="replace")
                progress.show(stage_of(text, total, packages, installed_before))
        if pip.returncode:
            progress.end("pip failed:")
            print(output.read_text(encoding="utf-8", errors="replace"), file=sys.stderr)
            return pip.returncode
    installed = len(list(packages.glob("*.dist-info"))) - installed_before
    progress.end(f"installed {installed} packages in {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(install(sys.argv[1:]))
