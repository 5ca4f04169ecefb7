"""A kernel's family of processes, as we hold it: one supervisor with a pipe to it, and what it says."""

import asyncio
import importlib.util
import json
import os
import re
import secrets
import shutil
import signal
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec
import zmq
import zmq.asyncio
from jupyter_client.session import Session

from clew.core.errors import InterpreterFailed
from clew.workbench.interpreter.port import (
    DisplayOutput,
    ErrorOutput,
    Isolation,
    Output,
    Sandbox,
    StreamOutput,
)

_SYSTEM_PATHS = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/etc/alternatives", "/etc/fonts",
    "/etc/group", "/etc/hosts", "/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types", "/etc/nsswitch.conf",
    "/etc/passwd", "/etc/resolv.conf", "/etc/ssl", "/etc/ca-certificates",
)  # fmt: skip
"""What of the machine is seen where files are confined: programs and libraries, and no one's own files."""

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


class KernelExit(msgspec.Struct, frozen=True):
    """The reason for the end of a kernel: ``memory``, ``processes`` or ``died``, and in words."""

    why: str
    detail: str


class KernelProcesses:
    """A supervisor and all below it. :attr:`dead` is set once none of it is left."""

    def __init__(self, process: Process, folder: Path, isolation: Isolation) -> None:
        self._process = process
        self._folder = folder
        self.isolation = isolation
        self.exit_event = asyncio.Event()
        self.exit_reason = KernelExit("died", "it ended")
        self._reader = asyncio.create_task(self._read_reports())

    @classmethod
    async def start(cls, sandbox: Sandbox, folder: Path, *, walls: Collection[str]) -> "KernelProcesses":
        """Start a kernel that listens in this folder."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", "-c", _SUPERVISOR_CODE, *_package_arguments(),
            stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env={}, cwd="/", start_new_session=True,
        )  # fmt: skip
        plan = _launch_plan(sandbox, folder, walls=walls)
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
        """Send the kernel, and what it runs in its group, an interrupt."""
        assert self._process.stdin is not None
        if not self._process.stdin.is_closing():
            self._process.stdin.write(b"interrupt\n")

    async def kill(self, why: str) -> None:
        """Kill all of it, and wait until it is gone."""
        if not self.exit_event.is_set():
            self.exit_reason = KernelExit("ended", why)
        self._close_input()
        await self.exit_event.wait()


def _package_arguments() -> list[str]:
    here = Path(__file__).parent
    parents = [here, *here.parents][: __name__.count(".")]
    names = [__name__.rsplit(".", depth)[0] for depth in range(1, len(parents) + 1)]
    return [f"{name}={folder}" for name, folder in zip(names, parents, strict=True)]


def make_private_folder() -> Path:
    """A new folder that only we can look into, short enough that sockets in it have a name."""
    usual = tempfile.gettempdir()
    short = usual if len(os.fsencode(usual)) <= _LONGEST_FOLDER else "/tmp"
    root = Path(tempfile.mkdtemp(prefix="clew-kernel-", dir=short))
    for name in ("run", "run/ipython", "temporary", "shared", "root"):
        (root / name).mkdir(mode=0o700)
    (root / "run/kernel_start.py").write_text(Path(__file__).with_name("kernel_start.py").read_text())
    return root


def _launch_plan(sandbox: Sandbox, folder: Path, *, walls: Collection[str]) -> dict[str, Any]:
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
            "processes": limits.processes, "threads": _EXTRA_THREADS,
        },
        "private": str(folder), "root": str(folder / "root"), "log": str(run / "log"),
        "temporary": str(folder / "temporary"), "shared": str(folder / "shared"),
        "read": [*_SYSTEM_PATHS, *_python_folders()],
        "write": [str(run), str(folder / "temporary"), sandbox.scratch, sandbox.volume],
    }  # fmt: skip


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


def isolation_of(sandbox: Sandbox, report: dict[str, Any]) -> Isolation:
    """The isolation of a family of processes, as its supervisor reported it."""
    is_alone, is_confined, is_fenced = (report[name] is None for name in ("alone", "confined", "fenced"))
    notes = []
    if not is_alone:
        notes.append(f"no namespaces of its own: {report['alone']}")
    if not is_confined and is_fenced:
        notes.append("files elsewhere cannot be opened, but their names can be asked for")
    if not is_alone and is_fenced:
        notes.append(
            "other processes can be seen; TCP is refused where Landlock knows it, and no more than that"
        )
    if not is_fenced:
        notes.append(f"files are not confined: {report['confined']}; {report['fenced']}")
    if sandbox.limits.network:
        notes.append("the network is allowed")
    network = is_alone and not sandbox.limits.network
    return Isolation(network=network, files=is_fenced, processes=is_alone, notes=tuple(notes))


def _exit_of(report: dict[str, Any]) -> KernelExit:
    ending, log = report["ended"], str(report["log"]).strip()
    if ending["why"] != "died":
        return KernelExit(ending["why"], f"it and what it started used more {ending['why']} than they may")
    code = ending["code"]
    how = f"it exited with code {code}" if code >= 0 else f"it was killed by {_signal_name(-code)}"
    return KernelExit("died", f"{how}\n{log}" if log else how)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


KernelMessage = dict[str, Any]

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_PORTS = {"shell_port": 1, "iopub_port": 2, "stdin_port": 3, "control_port": 4, "hb_port": 5}


def write_connection_file(folder: Path) -> dict[str, Any]:
    """Write the file that tells a kernel where to listen and which key signs: sockets in this folder."""
    connection = {
        **_PORTS,
        "transport": "ipc",
        "ip": str(folder / "socket"),
        "key": secrets.token_hex(32),
        "signature_scheme": "hmac-sha256",
    }
    (folder / "connection.json").write_text(json.dumps(connection))
    return connection


class Channels:
    """The three sockets of a kernel that we speak to: shell, control and what it publishes."""

    def __init__(self, connection: dict[str, Any]) -> None:
        self._session = Session(
            key=connection["key"].encode(), signature_scheme=connection["signature_scheme"]
        )
        self._context = zmq.asyncio.Context()
        self._shell = self._connect(zmq.DEALER, connection, "shell_port")
        self._publications = self._connect(zmq.SUB, connection, "iopub_port")
        self._publications.subscribe(b"")

    def _connect(self, kind: int, connection: dict[str, Any], port: str) -> zmq.asyncio.Socket:
        socket = self._context.socket(kind)
        socket.linger = 0
        socket.connect(f"ipc://{connection['ip']}-{connection[port]}")
        return socket

    def request(self, kind: str, **content: Any) -> KernelMessage:
        """A request, with the id by which what comes of it is known."""
        return self._session.msg(kind, content)

    async def send(self, request: KernelMessage) -> None:
        """Send a request."""
        await self._shell.send_multipart(self._session.serialize(request))

    async def next_reply(self) -> KernelMessage:
        """The next reply to any request."""
        return await self._receive(self._shell)

    async def next_publication(self) -> KernelMessage:
        """The next thing that the kernel publishes."""
        return await self._receive(self._publications)

    async def _receive(self, socket: zmq.asyncio.Socket) -> KernelMessage:
        while True:
            frames = await socket.recv_multipart()
            try:
                _, body = self._session.feed_identities(frames)
                return self._session.deserialize(body)
            except (ValueError, TypeError):
                continue  # Whatever code sends past its kernel is not a message, and nobody's answer.

    async def wait_until_ready(self) -> None:
        """Wait until the kernel answers, and until what it publishes reaches us."""
        publication = asyncio.ensure_future(self.next_publication())
        try:
            while True:
                await self.send(self.request("kernel_info_request"))
                await self.next_reply()
                arrivals, _ = await asyncio.wait({publication}, timeout=0.1)
                if arrivals:
                    return
        finally:
            publication.cancel()

    def close(self) -> None:
        """Let go of the sockets."""
        self._context.destroy(linger=0)


def is_answer_to(message: KernelMessage, request: KernelMessage) -> bool:
    """Return whether a message came because of this request."""
    parent = message.get("parent_header")
    return isinstance(parent, dict) and parent.get("msg_id") == request["header"]["msg_id"]


def is_idle(message: KernelMessage) -> bool:
    """Return whether a message says that the kernel is through with its request."""
    return bool(message["msg_type"] == "status" and message["content"].get("execution_state") == "idle")


def output_of(message: KernelMessage) -> Output | None:
    """A published message as an output, if it is one."""
    content = message["content"]
    match message["msg_type"]:
        case "stream":
            return StreamOutput(str(content.get("name")), str(content.get("text")))
        case "display_data" | "update_display_data":
            return DisplayOutput(_forms(content.get("data")))
        case "execute_result":
            return DisplayOutput(_forms(content.get("data")), result=True)
        case "error":
            lines = content.get("traceback")
            return ErrorOutput(
                name=str(content.get("ename")),
                message=_without_colors(content.get("evalue")),
                traceback=_without_colors("\n".join(map(str, lines)) if isinstance(lines, list) else lines),
            )
        case _:
            return None


def _without_colors(text: object) -> str:
    return _ANSI.sub("", str(text))


def _forms(data: object) -> dict[str, str]:
    if not isinstance(data, dict):
        return {}
    return {str(kind): form if isinstance(form, str) else json.dumps(form) for kind, form in data.items()}
