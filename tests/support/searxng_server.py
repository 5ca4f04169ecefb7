"""A local server that speaks SearXNG's JSON format, finds what it was told to find, and fails on purpose."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

NORWAY = {
    "title": "Norway",
    "url": "https://example.org/norway",
    "content": "About 5.6 million people live in Norway.",
    "engine": "almanac",
    "score": 1.0,
}


@dataclass(frozen=True, kw_only=True)
class SearchAnswer:
    """An answer as it goes over the wire.

    With ``cut`` the connection ends before its body does, and with ``is_endless`` the body never ends. It is
    sent when ``before`` is set.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int = 0
    is_endless: bool = False
    before: asyncio.Event | None = None


def results_answer(*results: Mapping[str, object]) -> SearchAnswer:
    """An answer with results, as an instance gives it."""
    document = {"query": "", "number_of_results": 0, "results": results, "answers": [], "infoboxes": []}
    return SearchAnswer(body=json.dumps(document).encode(), headers={"content-type": "application/json"})


class SearxngServer:
    """Gives one answer after another, the last of them again and again, and keeps what it was asked."""

    def __init__(self, answers: Sequence[SearchAnswer]) -> None:
        self.url = ""
        self.paths: list[str] = []
        self.queries: list[dict[str, str]] = []
        self._answers = list(answers)
        self._tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request and close the connection."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = writer
        try:
            target = urlsplit((await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split(" ")[1])
            self.paths.append(target.path)
            self.queries.append({name: values[0] for name, values in parse_qs(target.query).items()})
            await _send(writer, self._answers.pop(0) if len(self._answers) > 1 else self._answers[0])
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away
        finally:
            del self._tasks[task]
            writer.close()

    async def close(self) -> None:
        """Drop every connection."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _send(writer: asyncio.StreamWriter, answer: SearchAnswer) -> None:
    if answer.before is not None:
        await answer.before.wait()
    length = {} if answer.is_endless else {"content-length": str(len(answer.body))}
    headers = {**length, "connection": "close", **answer.headers}
    lines = [f"HTTP/1.1 {answer.status} Answer", *(f"{name}: {value}" for name, value in headers.items())]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
    writer.write(answer.body[: len(answer.body) - answer.cut])
    await writer.drain()
    while answer.is_endless:
        writer.write(b" " * 65_536)
        await writer.drain()


@asynccontextmanager
async def searxng_server(*answers: SearchAnswer) -> AsyncIterator[SearxngServer]:
    """A server on a port of its own, until the block ends; it finds Norway unless it is told otherwise."""
    searxng = SearxngServer(answers or [results_answer(NORWAY)])
    server = await asyncio.start_server(searxng.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    searxng.url = f"http://{host}:{port}"
    try:
        yield searxng
    finally:
        server.close()
        await searxng.close()
        await server.wait_closed()
