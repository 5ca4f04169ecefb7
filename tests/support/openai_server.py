"""A local server that speaks the OpenAI protocol, says what it was told to say, and fails on purpose."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Body: TypeAlias = dict[str, Any]
CallFields: TypeAlias = tuple[str, str, str]
"""A tool call as it goes over the wire: its id, the tool, and its arguments as text."""

REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}


@dataclass(frozen=True, kw_only=True)
class ChatReply:
    """An answer. With ``cut`` it breaks off after so many pieces; ``quietly`` without a sign of it.

    ``before`` is waited for before anything of the answer is sent, ``midway`` before its second piece.
    """

    text: str = ""
    calls: Sequence[CallFields] = ()
    tokens: tuple[int, int] = (11, 7)
    finish: str = ""
    pieces: int = 3
    cut: int | None = None
    quietly: bool = False
    before: asyncio.Event | None = None
    midway: asyncio.Event | None = None


@dataclass(frozen=True, kw_only=True)
class ErrorReply:
    """An answer that is an HTTP error."""

    status: int
    message: str = "no"
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Raw:
    """An answer that is not what the protocol says."""

    body: str
    content_type: str = "application/json"


@dataclass(frozen=True, kw_only=True)
class EmbeddingReply:
    """Vectors for the texts of a request, made from their letters.

    ``size`` numbers each, or ``last_size`` in the last; ``missing`` of them are left out. ``cut`` breaks off
    in the middle, and ``before`` is waited for before anything is sent.
    """

    size: int = 4
    last_size: int | None = None
    missing: int = 0
    cut: bool = False
    before: asyncio.Event | None = None


Line: TypeAlias = ChatReply | ErrorReply | Raw | EmbeddingReply


class ChatServer:
    """Plays a script, one line for each request, and keeps every request it got."""

    def __init__(self, script: Sequence[Line | str]) -> None:
        self.url = ""
        self.requests: list[Body] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.arrival = asyncio.Event()
        self.departure = asyncio.Event()
        """A client went away before its answer was whole."""
        self._script = [ChatReply(text=line) if isinstance(line, str) else line for line in script]
        self._serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def add(self, *lines: Line | str) -> None:
        """More to say."""
        self._script += [ChatReply(text=line) if isinstance(line, str) else line for line in lines]

    async def close(self) -> None:
        """Drop every connection."""
        for writer in self._serving.values():
            writer.transport.abort()
        await asyncio.gather(*self._serving)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request and close the connection."""
        task = asyncio.current_task()
        assert task is not None
        self._serving[task] = writer
        try:
            body = await self._read_request(reader)
            line = (
                self._script.pop(0) if self._script else ErrorReply(status=400, message="the script is over")
            )
            self.arrival.set()
            await self._answer_or_stop(reader, _answer(writer, line, body))
        except (ConnectionError, asyncio.IncompleteReadError):
            self.departure.set()
        finally:
            del self._serving[task]
            writer.close()

    async def _read_request(self, reader: asyncio.StreamReader) -> Body:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)
        }
        body: Body = json.loads(await reader.readexactly(int(headers["content-length"])))
        self.paths.append(head[0].split(" ")[1])
        self.headers.append(headers)
        self.requests.append(body)
        return body

    async def _answer_or_stop(self, reader: asyncio.StreamReader, answering: Any) -> None:
        """Answer, and stop at once when the client closes the connection."""
        answer = asyncio.ensure_future(answering)
        departure = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({answer, departure}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                await answer
            else:
                self.departure.set()
        finally:
            for task in (answer, departure):
                task.cancel()
            await asyncio.gather(answer, departure, return_exceptions=True)


@asynccontextmanager
async def chat_server(*script: Line | str) -> AsyncIterator[ChatServer]:
    """A server on a port of its own, until the block ends."""
    chat = ChatServer(script)
    server = await asyncio.start_server(chat.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    chat.url = f"http://{host}:{port}/v1"
    try:
        yield chat
    finally:
        server.close()
        await chat.close()
        await server.wait_closed()


def refusing_url() -> str:
    """An address where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/v1"


async def _answer(writer: asyncio.StreamWriter, line: Line, body: Body) -> None:
    if isinstance(line, ErrorReply):
        error = {"message": line.message, "type": "error", "code": line.code}
        _whole(writer, line.status, json.dumps({"error": error}), "application/json", line.headers)
    elif isinstance(line, Raw):
        _whole(writer, 200, line.body, line.content_type)
    elif isinstance(line, EmbeddingReply):
        await _wait_for(line.before)
        _embeddings(writer, line, body)
    elif not body.get("stream"):
        await _wait_for(line.before)
        _whole(writer, 200, json.dumps(_completion(line, body)), "application/json")
    else:
        await _stream(writer, line, body)
    await writer.drain()


async def _wait_for(event: asyncio.Event | None) -> None:
    if event is not None:
        await event.wait()


def _whole(
    writer: asyncio.StreamWriter, status: int, text: str, kind: str, more: Mapping[str, str] | None = None
) -> None:
    payload = text.encode()
    headers = {
        "content-type": kind,
        "content-length": str(len(payload)),
        "connection": "close",
        **(more or {}),
    }
    writer.write(_head(status, headers) + payload)


def _embeddings(writer: asyncio.StreamWriter, line: EmbeddingReply, body: Body) -> None:
    texts = body["input"][: len(body["input"]) - line.missing]
    sizes = [line.size] * len(texts)
    if line.last_size is not None:
        sizes[-1] = line.last_size
    data = [
        {"object": "embedding", "index": index, "embedding": letters_of(text, size)}
        for index, (text, size) in enumerate(zip(texts, sizes, strict=True))
    ]
    answer = {"object": "list", "model": body["model"], "data": data[::-1], "usage": {"total_tokens": 1}}
    payload = json.dumps(answer).encode()
    headers = {"content-type": "application/json", "content-length": str(len(payload))}
    writer.write(_head(200, headers) + (payload[: len(payload) // 2] if line.cut else payload))


def letters_of(text: str, size: int) -> list[float]:
    """A vector that counts the letters of a text."""
    vector = [0.0] * size
    for letter in text if size else "":
        vector[ord(letter) % size] += 1.0
    return vector


async def _stream(writer: asyncio.StreamWriter, line: ChatReply, body: Body) -> None:
    """Chunked, so that a cut can be seen; quietly, the end of the connection is the end of the answer."""
    await _wait_for(line.before)
    headers = {"content-type": "text/event-stream", "connection": "close"}
    is_chunked = not line.quietly
    writer.write(_head(200, headers | ({"transfer-encoding": "chunked"} if is_chunked else {})))
    for number, event in enumerate([*_events(line, body), "[DONE]"]):
        if number == line.cut:
            return
        if number == 1:
            await _wait_for(line.midway)
        data = f"data: {event}\n\n".encode()
        writer.write(b"%x\r\n%s\r\n" % (len(data), data) if is_chunked else data)
        await writer.drain()
    if is_chunked:
        writer.write(b"0\r\n\r\n")


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Error')}", *(f"{k}: {v}" for k, v in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _finish(line: ChatReply) -> str:
    return line.finish or ("tool_calls" if line.calls else "stop")


def _usage(line: ChatReply) -> Body:
    prompt_tokens, completion_tokens = line.tokens
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }


def _completion(line: ChatReply, body: Body) -> Body:
    message: Body = {"role": "assistant", "content": line.text or None}
    if line.calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for id, name, arguments in line.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": _finish(line)}
    return {**_envelope(body, "chat.completion"), "choices": [choice], "usage": _usage(line)}


def _events(line: ChatReply, body: Body) -> Iterator[str]:
    for delta in _deltas(line):
        yield _chunk(body, [{"index": 0, "delta": delta, "finish_reason": None}])
    yield _chunk(body, [{"index": 0, "delta": {}, "finish_reason": _finish(line)}])
    yield _chunk(body, [], usage=_usage(line))


def _deltas(line: ChatReply) -> Iterator[Body]:
    for piece in _pieces(line.text, line.pieces):
        yield {"role": "assistant", "content": piece}
    for index, (id, name, arguments) in enumerate(line.calls):
        function = {"name": name, "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]}
        for piece in _pieces(arguments, line.pieces):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _chunk(body: Body, choices: list[Body], **more: Any) -> str:
    return json.dumps({**_envelope(body, "chat.completion.chunk"), "choices": choices, **more})


def _envelope(body: Body, kind: str) -> Body:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": body["model"]}


def _pieces(text: str, count: int) -> list[str]:
    size = max(1, -(-len(text) // count))
    return [text[start : start + size] for start in range(0, len(text), size)]
