"""Jupyter's messages: sockets in a private folder on one side, our outputs on the other."""

import asyncio
import json
import re
import secrets
from pathlib import Path
from typing import Any

import zmq
import zmq.asyncio
from jupyter_client.session import Session

from clew.workbench.interpreter.port import Output, Printed, Raised, Shown

Message = dict[str, Any]

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_PORTS = {"shell_port": 1, "iopub_port": 2, "stdin_port": 3, "control_port": 4, "hb_port": 5}


def write_connection(folder: Path) -> dict[str, Any]:
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
        self._published = self._connect(zmq.SUB, connection, "iopub_port")
        self._published.subscribe(b"")

    def _connect(self, kind: int, connection: dict[str, Any], port: str) -> zmq.asyncio.Socket:
        socket = self._context.socket(kind)
        socket.linger = 0
        socket.connect(f"ipc://{connection['ip']}-{connection[port]}")
        return socket

    def request(self, kind: str, **content: Any) -> Message:
        """A request, with the id by which what comes of it is known."""
        return self._session.msg(kind, content)

    async def send(self, request: Message) -> None:
        """Send a request."""
        await self._shell.send_multipart(self._session.serialize(request))

    async def reply(self) -> Message:
        """The next reply to any request."""
        return await self._receive(self._shell)

    async def published(self) -> Message:
        """The next thing that the kernel publishes."""
        return await self._receive(self._published)

    async def _receive(self, socket: zmq.asyncio.Socket) -> Message:
        while True:
            frames = await socket.recv_multipart()
            try:
                _, body = self._session.feed_identities(frames)
                return self._session.deserialize(body)
            except (ValueError, TypeError):
                continue  # Whatever code sends past its kernel is not a message, and nobody's answer.

    async def greet(self) -> None:
        """Wait until the kernel answers, and until what it publishes reaches us."""
        heard = asyncio.ensure_future(self.published())
        try:
            while True:
                await self.send(self.request("kernel_info_request"))
                await self.reply()
                done, _ = await asyncio.wait({heard}, timeout=0.1)
                if done:
                    return
        finally:
            heard.cancel()

    def close(self) -> None:
        """Let go of the sockets."""
        self._context.destroy(linger=0)


def answers(message: Message, request: Message) -> bool:
    """Whether a message came because of this request."""
    parent = message.get("parent_header")
    return isinstance(parent, dict) and parent.get("msg_id") == request["header"]["msg_id"]


def is_idle(message: Message) -> bool:
    """Whether a message says that the kernel is through with its request."""
    return bool(message["msg_type"] == "status" and message["content"].get("execution_state") == "idle")


def output_of(message: Message) -> Output | None:
    """A published message as an output, if it is one."""
    content = message["content"]
    match message["msg_type"]:
        case "stream":
            return Printed(str(content.get("name")), str(content.get("text")))
        case "display_data" | "update_display_data":
            return Shown(_forms(content.get("data")))
        case "execute_result":
            return Shown(_forms(content.get("data")), result=True)
        case "error":
            lines = content.get("traceback")
            return Raised(
                name=str(content.get("ename")),
                message=_plain(content.get("evalue")),
                traceback=_plain("\n".join(map(str, lines)) if isinstance(lines, list) else lines),
            )
        case _:
            return None


def _plain(text: object) -> str:
    return _ANSI.sub("", str(text))


def _forms(data: object) -> dict[str, str]:
    if not isinstance(data, dict):
        return {}
    return {str(kind): form if isinstance(form, str) else json.dumps(form) for kind, form in data.items()}
