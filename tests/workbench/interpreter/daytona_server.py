"""A stand-in for Daytona on loopback: sandboxes, volumes and contexts as its SDK calls them, with faults."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import WSCloseCode, web

KEY = "key-of-the-stand-in"
INTERRUPT_CODE = 4008
WORKER = Path(__file__).with_name("daytona_worker.py")


@dataclass
class Fault:
    """What goes wrong with a request: it is refused, kept waiting, or cut off after some pieces."""

    status: int = 0
    seconds: float = 0.0
    cut_after: int = -1
    times: int = 1


@dataclass
class Context:
    """A context: a process that runs code."""

    id: str
    cwd: str
    process: asyncio.subprocess.Process
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def description(self) -> dict[str, Any]:
        """The context as the API tells it."""
        active = self.process.returncode is None
        return {"id": self.id, "cwd": self.cwd, "active": active, "createdAt": "now", "language": "python"}

    async def end(self) -> None:
        """Kill the process."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


@dataclass
class Remote:
    """A sandbox: what it was asked for, its state, and its contexts."""

    id: str
    request_body: dict[str, Any]
    state: str = "started"
    contexts: dict[str, Context] = field(default_factory=dict)


class StandIn:
    """The provider. ``faults`` are by a word of the path; ``sandboxes`` is what is there."""

    def __init__(self) -> None:
        self.sandboxes: dict[str, Remote] = {}
        self.volumes: dict[str, list[str]] = {}
        """Each volume's states, told one after the other; the last one stays."""
        self.faults: dict[str, Fault] = {}
        self.first_state = "started"
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen on a free port of this machine."""
        app = web.Application(middlewares=[self._guard])
        context = "/toolbox/{id}/process/interpreter/context"
        app.add_routes(
            [
                web.post("/sandbox", self._create),
                web.get("/sandbox/{id}", self._get),
                web.delete("/sandbox/{id}", self._delete),
                web.get("/volumes/by-name/{name}", self._volume),
                web.post("/volumes", self._create_volume),
                web.get(context, self._contexts),
                web.post(context, self._create_context),
                web.delete(context + "/{context}", self._delete_context),
                web.get("/toolbox/{id}/process/interpreter/execute", self._execute),
                web.post("/toolbox/{id}/process/execute", self._command),
            ]
        )
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        """Stop listening, and end every process."""
        for remote in self.sandboxes.values():
            await _end(remote)
        if self._runner is not None:
            await self._runner.cleanup()

    def _fault(self, path: str) -> Fault | None:
        for word, fault in self.faults.items():
            if word in path and fault.times > 0:
                return fault
        return None

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            return _problem(401, "Invalid credentials")
        fault = self._fault(f"{request.method} {request.path}")
        if fault is not None and fault.cut_after < 0:
            fault.times -= 1
            await asyncio.sleep(fault.seconds)
            if fault.status:
                return _problem(fault.status, "as was asked")
        return await handler(request)

    # --- sandboxes and volumes ------------------------------------------------------------------

    def _description(self, remote: Remote) -> dict[str, Any]:
        body = remote.request_body
        return {
            "id": remote.id, "name": remote.id, "organizationId": "us", "user": "us", "env": body["env"],
            "labels": body["labels"], "public": False, "networkBlockAll": body["networkBlockAll"],
            "kvm": False, "target": "here", "cpu": 1, "gpu": 0, "memory": 1, "disk": 1, "state": remote.state,
            "toolboxProxyUrl": f"{self.url}/toolbox",
        }  # fmt: skip

    def _remote_of(self, request: web.Request) -> Remote:
        remote = self.sandboxes.get(request.match_info["id"])
        if remote is None or remote.state == "destroyed":
            raise web.HTTPNotFound(text=json.dumps({"message": "Sandbox not found"}))
        return remote

    async def _create(self, request: web.Request) -> web.Response:
        remote = Remote(uuid.uuid4().hex, await request.json(), self.first_state)
        self.sandboxes[remote.id] = remote
        return web.json_response(self._description(remote))

    async def _get(self, request: web.Request) -> web.Response:
        remote = self._remote_of(request)
        description = self._description(remote)
        if remote.state == "starting":
            remote.state = "started"
        return web.json_response(description)

    async def _delete(self, request: web.Request) -> web.Response:
        remote = self._remote_of(request)
        await _end(remote)
        remote.state = "destroyed"
        return web.json_response(self._description(remote))

    async def _volume(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self.volumes:
            return _problem(404, "Volume not found")
        return web.json_response(self._told_volume(name))

    async def _create_volume(self, request: web.Request) -> web.Response:
        name = (await request.json())["name"]
        self.volumes.setdefault(name, ["ready"])
        return web.json_response(self._told_volume(name))

    def _told_volume(self, name: str) -> dict[str, Any]:
        states = self.volumes[name]
        state = states.pop(0) if len(states) > 1 else states[0]
        return {
            "id": f"volume-{name}", "name": name, "organizationId": "us", "state": state, "createdAt": "now",
            "updatedAt": "now", "errorReason": None,
        }  # fmt: skip

    # --- contexts -------------------------------------------------------------------------------

    async def _contexts(self, request: web.Request) -> web.Response:
        remote = self._remote_of(request)
        return web.json_response(
            {"contexts": [context.description() for context in remote.contexts.values()]}
        )

    async def _create_context(self, request: web.Request) -> web.Response:
        remote = self._remote_of(request)
        cwd = (await request.json())["cwd"]
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(WORKER), cwd=cwd, env={"PATH": os.defpath, **remote.request_body["env"]},
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=2**24,
        )  # fmt: skip
        context = Context(uuid.uuid4().hex, cwd, process)
        remote.contexts[context.id] = context
        return web.json_response(context.description())

    async def _delete_context(self, request: web.Request) -> web.Response:
        remote = self._remote_of(request)
        context = remote.contexts.pop(request.match_info["context"], None)
        if context is None:
            return _problem(404, "context not found")
        await context.end()
        return web.json_response({"message": "Context deleted successfully"})

    async def _command(self, request: web.Request) -> web.Response:
        self._remote_of(request)
        process = await asyncio.create_subprocess_shell(
            (await request.json())["command"],
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        return web.json_response({"exitCode": process.returncode, "result": output.decode()})

    async def _execute(self, request: web.Request) -> web.WebSocketResponse:
        remote = self._remote_of(request)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        message = json.loads((await socket.receive(timeout=10)).data)
        context = remote.contexts.get(message["contextId"])
        if not message["code"] or context is None or context.process.returncode is not None:
            why = b"code is required" if context else b"context not found: " + message["contextId"].encode()
            if context is not None and context.process.returncode is not None:
                why = b"context is not active"
            await socket.close(code=WSCloseCode.POLICY_VIOLATION, message=why)
            return socket
        async with context.turn:
            await self._stream(request, socket, context, message["code"])
        return socket

    async def _stream(
        self, request: web.Request, socket: web.WebSocketResponse, context: Context, code: str
    ) -> None:
        assert context.process.stdin is not None
        assert context.process.stdout is not None
        context.process.stdin.write(json.dumps({"code": code}).encode() + b"\n")
        fault, cut = self._fault(request.path), False
        async for line in context.process.stdout:
            if fault is not None and fault.cut_after == 0 and request.transport is not None:
                cut, fault.times = True, 0
                request.transport.abort()
            if fault is not None:
                fault.cut_after -= 1
            # The code runs on where nobody listens, and what it says is lost.
            if not cut and not socket.closed:
                await socket.send_str(line.decode())
            piece = json.loads(line)
            if piece["type"] == "control":
                await socket.close(code=INTERRUPT_CODE if piece["text"] == "interrupted" else WSCloseCode.OK)
                return
        await context.process.wait()
        await socket.close(code=WSCloseCode.GOING_AWAY, message=b"worker process ended")


async def _end(remote: Remote) -> None:
    for context in remote.contexts.values():
        await context.end()


def _problem(status: int, message: str) -> web.Response:
    return web.json_response({"message": message, "statusCode": status}, status=status)
