"""A family of processes under a supervisor, as we hold it: one pipe to it, and what it says."""

import asyncio
import importlib.util
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from clew.core.errors import InterpreterFailed
from clew.workbench.interpreter.port import InterpreterLimits

_SYSTEM_PATHS = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/etc/alternatives", "/etc/fonts",
    "/etc/group", "/etc/hosts", "/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types", "/etc/nsswitch.conf",
    "/etc/passwd", "/etc/resolv.conf", "/etc/ssl", "/etc/ca-certificates",
)  # fmt: skip
"""What of the machine is seen where files are confined: programs and libraries, and no one's own files."""

_PROGRAMS = (str(Path(sys.prefix, "bin")), "/usr/local/bin", "/usr/bin", "/bin")

_SUPERVISOR_CODE = """
import runpy, sys, types
for given in sys.argv[1:]:
    name, _, folder = given.partition("=")
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [folder]
runpy.run_module("clew.workbench.interpreter.supervisor", run_name="__main__")
"""
"""Starts the supervisor without the packages around it: it lives as long as a kernel, and should be small."""

_LONGEST_FOLDER = 60
"""Bytes of a path below which there is still room for a socket's name: it may have 107 in all."""
_EXTRA_THREADS = 64
"""How many threads there may be beside the processes, where the system counts them as one."""


class ProcessExit(msgspec.Struct, frozen=True):
    """The reason for the end of a family: ``memory``, ``processes`` or ``died``, in words, and its code."""

    why: str
    detail: str
    code: int | None = None


class SupervisedProcesses:
    """A supervisor and all below it. ``exit_event`` is set once none of it is left."""

    def __init__(self, process: Process, folder: Path, report: Mapping[str, Any]) -> None:
        self._process = process
        self._folder = folder
        self.report = report
        """What the supervisor said about the walls."""
        self.exit_event = asyncio.Event()
        self.exit_reason = ProcessExit("died", "it ended")
        self._reader = asyncio.create_task(self._read_reports())

    @classmethod
    async def start(
        cls, plan: Mapping[str, Any], *, listener_sender: socket.socket | None = None
    ) -> "SupervisedProcesses":
        """Start what a plan says. A ``listener_sender`` is sent a socket that listens behind its walls.

        Raises:
            InterpreterFailed: The supervisor did not come up.
        """
        senders = () if listener_sender is None else (listener_sender.fileno(),)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", "-c", _SUPERVISOR_CODE, *_package_arguments(),
            stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env={}, cwd="/", start_new_session=True,
            pass_fds=senders,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        line = b""
        try:
            process.stdin.write(json.dumps({**plan, "listener_senders": senders}).encode() + b"\n")
            line = await process.stdout.readline()
        finally:
            if not line:
                process.stdin.close()
                await process.wait()
        if not line:
            raise InterpreterFailed("local", "its supervisor did not come up")
        return cls(process, Path(plan["private"]), json.loads(line))

    async def _read_reports(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self.exit_reason = _exit_of(json.loads(line))
        self._close_input()
        await self._process.wait()
        # The supervisor does this too, for when we are not there to do it; here, for when it was killed.
        shutil.rmtree(self._folder, ignore_errors=True)
        self.exit_event.set()

    def _close_input(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def interrupt(self) -> None:
        """Send the process, and what it runs in its group, an interrupt."""
        assert self._process.stdin is not None
        if not self._process.stdin.is_closing():
            self._process.stdin.write(b"interrupt\n")

    async def kill(self, why: str) -> None:
        """Kill all of it, and wait until it is gone."""
        if not self.exit_event.is_set():
            self.exit_reason = ProcessExit("ended", why)
        self._close_input()
        await self.exit_event.wait()


def launch_plan(
    folder: Path,
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    read: Sequence[str] = (),
    write: Sequence[str],
    limits: InterpreterLimits,
    walls: Collection[str],
    needs_walls: bool = False,
) -> dict[str, Any]:
    """The plan of a supervisor: what to run, in the first folder of ``write``, and what it may see and use.

    ``folder`` is a private one. With ``needs_walls`` nothing runs unless its files and network are apart.
    """
    return {
        "argv": list(argv),
        "environment": {**environment, "PATH": os.pathsep.join(_PROGRAMS), "LANG": "C.UTF-8"},
        "folder": write[0],
        "walls": sorted(walls),
        "needs_walls": needs_walls,
        "network": limits.network,
        "limits": {
            "memory": limits.memory, "file_size": limits.file_size,
            "processes": limits.processes, "threads": _EXTRA_THREADS,
        },
        "private": str(folder), "root": str(folder / "root"), "log": str(folder / "run/log"),
        "temporary": str(folder / "temporary"), "shared": str(folder / "shared"),
        "read": [*_SYSTEM_PATHS, *_python_folders(), *read],
        "write": [str(folder / "run"), str(folder / "temporary"), *write],
    }  # fmt: skip


def _package_arguments() -> list[str]:
    here = Path(__file__).parent
    parents = [here, *here.parents][: __name__.count(".")]
    names = [__name__.rsplit(".", depth)[0] for depth in range(1, len(parents) + 1)]
    return [f"{name}={folder}" for name, folder in zip(names, parents, strict=True)]


def make_private_folder(script: Path) -> Path:
    """A new folder that only we can look into, with a copy of a script that is to run behind the walls.

    Its path is so short that sockets in it have a name.
    """
    usual = tempfile.gettempdir()
    short = usual if len(os.fsencode(usual)) <= _LONGEST_FOLDER else "/tmp"
    root = Path(tempfile.mkdtemp(prefix="clew-kernel-", dir=short))
    for name in ("run", "temporary", "shared", "root"):
        (root / name).mkdir(mode=0o700)
    shutil.copyfile(script, root / "run" / script.name)
    return root


def _python_folders() -> list[str]:
    """The folders of this Python and its packages."""
    kernel = importlib.util.find_spec("ipykernel")
    packages = [str(Path(kernel.origin).parents[1])] if kernel is not None and kernel.origin else []
    folders = [sys.prefix, sys.base_prefix, sys.exec_prefix, *packages]
    folders += [os.path.realpath(place) for place in folders]
    # Where one is inside another, the outer one is enough.
    outer = [
        place for place in folders if not any(place.startswith(f"{other}/") for other in ("/usr", *folders))
    ]
    return sorted(set(outer))


def _exit_of(report: dict[str, Any]) -> ProcessExit:
    ending, log = report["ended"], str(report["log"]).strip()
    if ending["why"] != "died":
        return ProcessExit(ending["why"], f"it and what it started used more {ending['why']} than they may")
    code = ending["code"]
    how = f"it exited with code {code}" if code >= 0 else f"it was killed by {_signal_name(-code)}"
    return ProcessExit("died", f"{how}\n{log}" if log else how, code)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
