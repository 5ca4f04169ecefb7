"""A kernel: how it is started behind walls, and its messages."""

import asyncio
import json
import re
import secrets
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import zmq
import zmq.asyncio
from jupyter_client.session import Session

from clew.workbench.interpreter.port import (
    DisplayOutput,
    ErrorOutput,
    Isolation,
    Output,
    Sandbox,
    StreamOutput,
)
from clew.workbench.interpreter.processes import SupervisedProcesses, launch_plan

KERNEL_SCRIPT = Path(__file__).with_name("kernel_start.py")


async def start_kernel(sandbox: Sandbox, folder: Path, *, walls: Collection[str]) -> SupervisedProcesses:
    """Start a kernel that listens in a private folder.

    Raises:
        InterpreterFailed: Its supervisor did not come up.
    """
    run = folder / "run"
    argv = [
        sys.executable, "-m", "ipykernel_launcher", "-f", str(run / "connection.json"), "--log-level=50",
        "--HistoryManager.enabled=False", "--InteractiveShell.xmode=Plain",
        f"--IPKernelApp.exec_files={run / KERNEL_SCRIPT.name}",
    ]  # fmt: skip
    plan = launch_plan(
        folder,
        argv,
        environment=_environment(sandbox, folder),
        write=[sandbox.scratch, sandbox.volume],
        limits=sandbox.limits,
        walls=walls,
    )
    return await SupervisedProcesses.start(plan)


def _environment(sandbox: Sandbox, folder: Path) -> Mapping[str, str]:
    """The variables that the kernel has: nothing is inherited."""
    return {
        **sandbox.environment,
        "HOME": sandbox.scratch,
        "TMPDIR": str(folder / "temporary"),
        "IPYTHONDIR": str(folder / "run/ipython"),
        "CLEW_VOLUME": sandbox.volume,
    }


def isolation_of(sandbox: Sandbox, report: Mapping[str, Any]) -> Isolation:
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
