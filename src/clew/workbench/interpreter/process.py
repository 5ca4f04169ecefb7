"""A kernel's family of processes, as we hold it: one supervisor with a pipe to it, and what it says."""

import asyncio
import importlib.util
import json
import os
import shutil
import signal
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from clew.core.errors import InterpreterFailed
from clew.workbench.interpreter.port import Isolation, Sandbox

_SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/etc/alternatives", "/etc/fonts",
    "/etc/group", "/etc/hosts", "/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types", "/etc/nsswitch.conf",
    "/etc/passwd", "/etc/resolv.conf", "/etc/ssl", "/etc/ca-certificates",
)  # fmt: skip
"""What of the machine is seen where files are confined: programs and libraries, and no one's own files."""

_SUPERVISOR = """
import runpy, sys, types
for given in sys.argv[1:]:
    name, _, folder = given.partition("=")
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [folder]
runpy.run_module("clew.workbench.interpreter.supervisor", run_name="__main__")
"""
"""Starts the supervisor without the packages around it: it lives as long as a kernel, and should be small."""

_LONGEST_PLACE = 60
"""Bytes of a path below which there is still room for a socket's name: it may have 107 in all."""
_THREADS = 64
"""How many threads there may be beside the processes, where the system counts them as one."""


class Death(msgspec.Struct, frozen=True):
    """Why a kernel is no more: ``memory``, ``processes`` or ``died``, and in words."""

    why: str
    detail: str


class Family:
    """A supervisor and all below it. :attr:`dead` is set once none of it is left."""

    def __init__(self, process: Process, folder: Path, isolation: Isolation) -> None:
        self._process = process
        self._folder = folder
        self.isolation = isolation
        self.dead = asyncio.Event()
        self.death = Death("died", "it ended")
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, sandbox: Sandbox, folder: Path, *, walls: Collection[str]) -> "Family":
        """Start a kernel that listens in this folder."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", "-c", _SUPERVISOR, *_packages(),
            stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env={}, cwd="/", start_new_session=True,
        )  # fmt: skip
        plan = _plan(sandbox, folder, walls=walls)
        assert process.stdin is not None
        assert process.stdout is not None
        line = b""
        try:
            process.stdin.write(json.dumps(plan).encode() + b"\n")
            line = await process.stdout.readline()
        finally:
            if not line:
                process.stdin.close()
                await process.wait()
        if not line:
            raise InterpreterFailed("local", "its supervisor did not come up")
        return cls(process, folder, isolation_of(sandbox, json.loads(line)))

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self.death = _death(json.loads(line))
        self._hang_up()
        await self._process.wait()
        # The supervisor does this too, for when we are not there to do it; here, for when it was killed.
        shutil.rmtree(self._folder, ignore_errors=True)
        self.dead.set()

    def _hang_up(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def interrupt(self) -> None:
        """Send the kernel, and what it runs in its group, an interrupt."""
        assert self._process.stdin is not None
        if not self._process.stdin.is_closing():
            self._process.stdin.write(b"interrupt\n")

    async def end(self, why: str) -> None:
        """Kill all of it, and wait until it is gone."""
        if not self.dead.is_set():
            self.death = Death("ended", why)
        self._hang_up()
        await self.dead.wait()


def _packages() -> list[str]:
    here = Path(__file__).parent
    parents = [here, *here.parents][: __name__.count(".")]
    names = [__name__.rsplit(".", depth)[0] for depth in range(1, len(parents) + 1)]
    return [f"{name}={folder}" for name, folder in zip(names, parents, strict=True)]


def private_folder() -> Path:
    """A new folder that only we can look into, short enough that sockets in it have a name."""
    usual = tempfile.gettempdir()
    short = usual if len(os.fsencode(usual)) <= _LONGEST_PLACE else "/tmp"
    root = Path(tempfile.mkdtemp(prefix="clew-kernel-", dir=short))
    for name in ("run", "run/ipython", "temporary", "shared", "root"):
        (root / name).mkdir(mode=0o700)
    (root / "run/kernel_start.py").write_text(Path(__file__).with_name("kernel_start.py").read_text())
    return root


def _plan(sandbox: Sandbox, folder: Path, *, walls: Collection[str]) -> dict[str, Any]:
    run = folder / "run"
    limits = sandbox.limits
    return {
        "argv": [
            sys.executable, "-m", "ipykernel_launcher", "-f", str(run / "connection.json"), "--log-level=50",
            "--HistoryManager.enabled=False", "--InteractiveShell.xmode=Plain",
            f"--IPKernelApp.exec_files={run / 'kernel_start.py'}",
        ],
        "environment": _environment(sandbox, folder),
        "folder": sandbox.scratch,
        "walls": sorted(walls),
        "network": limits.network,
        "limits": {
            "memory": limits.memory, "file_size": limits.file_size,
            "processes": limits.processes, "threads": _THREADS,
        },
        "private": str(folder), "root": str(folder / "root"), "log": str(run / "log"),
        "temporary": str(folder / "temporary"), "shared": str(folder / "shared"),
        "read": [*_SYSTEM, *_python()],
        "write": [str(run), str(folder / "temporary"), sandbox.scratch, sandbox.volume],
    }  # fmt: skip


def _python() -> list[str]:
    """Where this Python and its packages are."""
    kernel = importlib.util.find_spec("ipykernel")
    packages = [str(Path(kernel.origin).parents[1])] if kernel is not None and kernel.origin else []
    places = [sys.prefix, sys.base_prefix, sys.exec_prefix, *packages]
    places += [os.path.realpath(place) for place in places]
    # Where one is inside another, the outer one is enough.
    outer = [
        place for place in places if not any(place.startswith(f"{other}/") for other in ("/usr", *places))
    ]
    return sorted(set(outer))


def _environment(sandbox: Sandbox, folder: Path) -> Mapping[str, str]:
    """Every variable that the kernel has: nothing is inherited."""
    programs = [str(Path(sys.prefix, "bin")), "/usr/local/bin", "/usr/bin", "/bin"]
    return {
        **sandbox.environment,
        "PATH": os.pathsep.join(programs),
        "HOME": sandbox.scratch,
        "LANG": "C.UTF-8",
        "TMPDIR": str(folder / "temporary"),
        "IPYTHONDIR": str(folder / "run/ipython"),
        "CLEW_VOLUME": sandbox.volume,
    }


def isolation_of(sandbox: Sandbox, said: dict[str, Any]) -> Isolation:
    """What a family is kept apart from, by what its supervisor said."""
    alone, confined, fenced = (said[name] is None for name in ("alone", "confined", "fenced"))
    notes = []
    if not alone:
        notes.append(f"no namespaces of its own: {said['alone']}")
    if not confined and fenced:
        notes.append("files elsewhere cannot be opened, but their names can be asked for")
    if not alone and fenced:
        notes.append(
            "other processes can be seen; TCP is refused where Landlock knows it, and no more than that"
        )
    if not fenced:
        notes.append(f"files are not confined: {said['confined']}; {said['fenced']}")
    if sandbox.limits.network:
        notes.append("the network is allowed")
    network = alone and not sandbox.limits.network
    return Isolation(network=network, files=fenced, processes=alone, notes=tuple(notes))


def _death(said: dict[str, Any]) -> Death:
    ended, log = said["ended"], str(said["log"]).strip()
    if ended["why"] != "died":
        return Death(ended["why"], f"it and what it started used more {ended['why']} than they may")
    code = ended["code"]
    how = f"it exited with code {code}" if code >= 0 else f"it was killed by {_name(-code)}"
    return Death("died", f"{how}\n{log}" if log else how)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
