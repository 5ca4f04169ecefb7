"""The server on loopback: many clients at once, more streams than it takes, memory over many requests."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.bare import Line, head
from bench.clock import Timing
from bench.ground import Ground
from bench.verdict import Bound, Section, Verdict

CLIENTS, SECONDS = 500, 60.0
STREAMS, ALLOWED = 10_000, 1_000
REQUESTS = 100_000
OPENING = 200
"""How many streams are being opened at the same time."""
MIB = 1024 * 1024

NO_ERROR = Bound(what="Server: 500 clients with turns for 60 s, errors", sign="≤", target=0, unit="")
NO_LOSS = Bound(what="Server: 500 clients with turns for 60 s, turns lost", sign="≤", target=0, unit="")
POLITE = Bound(
    what="Server: 10,000 streams asked for, neither opened nor refused with 429", sign="≤", target=0, unit=""
)
FLAT = Bound(
    what="Server: memory after 100,000 requests, against after 10,000", sign="≤", target=1.1, unit="×"
)


async def measure(ground: Ground) -> Section:
    """All three, each on a server of its own."""
    program = os.environ.get("BENCH_SERVER", "uvicorn")
    timing, load = await under_load(ground, program)
    return Section(
        title=f"The server, by {program}",
        timings=[timing],
        verdicts=[
            Verdict(bound=NO_ERROR, measured=load.errors),
            Verdict(bound=NO_LOSS, measured=load.lost),
            await crowded(ground, program),
            await flat(ground, program),
        ],
        notes=("One process serves and another asks; the model answers at once; SQLite.",),
    )


@dataclass
class Served:
    """A server in a process of its own."""

    port: int
    pid: int

    @property
    def memory(self) -> float:
        """What it holds, in MiB."""
        lines = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


@asynccontextmanager
async def serving(ground: Ground, program: str, **settings: object) -> AsyncIterator[Served]:
    """A server on a new file, ready to be asked."""
    told = {
        "url": f"sqlite:///{ground.folder() / 'server.db'}",
        "requests": 10**9,
        "turns": 10**6,
        **settings,
    }
    variables = {f"HOLDFAST_SERVER_{name.upper()}": str(value) for name, value in told.items()}
    child = _started(program, variables)
    assert child.stdout is not None
    try:
        said = await asyncio.to_thread(child.stdout.readline)
        if not said.strip():
            raise NotImplementedError("the server is not installed here")
        served = Served(port=int(said), pid=child.pid)
        await _up(served)
        if program == "granian":  # what serves is its child
            served.pid = _children(child.pid)[-1]
        yield served
    finally:
        child.terminate()
        await asyncio.to_thread(child.wait)
        child.stdout.close()


def _started(program: str, variables: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.serving", program]
    return subprocess.Popen(command, env={**os.environ, **variables}, stdout=subprocess.PIPE, text=True)


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(each) for each in found.split()]


async def _up(served: Served) -> None:
    for _ in range(600):
        line = Line(served.port, "bench")
        with suppress(OSError, asyncio.IncompleteReadError):
            if (await line.ask("GET", "/ready")).status == 200:
                line.close()
                return
        line.close()
        await asyncio.sleep(0.1)
    raise NotImplementedError("the server did not come up")


# Load.


@dataclass
class Load:
    """What the clients saw."""

    samples: list[float] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    errors: int = 0
    lost: int = 0


async def under_load(ground: Ground, program: str) -> tuple[Timing, Load]:
    """Clients that each send one turn after another, and afterwards count what is there."""
    clients, seconds = ground.count(CLIENTS, 50), SECONDS if not ground.quick else 5.0
    load = Load()
    async with serving(ground, program) as served:
        lines = [Line(served.port, f"user-{number}") for number in range(clients)]
        began = time.perf_counter()
        await asyncio.gather(*(_talk(line, f"t-{n}", load, began + seconds) for n, line in enumerate(lines)))
        took = time.perf_counter() - began
        for number, line in enumerate(lines):
            load.lost += await _missing(line, f"t-{number}", load.done[f"t-{number}"])
            line.close()
    return _timing(
        f"{clients} clients", f"turns one after another, {seconds:.0f} s", load.samples, took
    ), load


async def _talk(line: Line, thread: str, load: Load, until: float) -> None:
    body = json.dumps({"message": "What do you have to say?"}).encode()
    while (began := time.perf_counter()) < until:
        try:
            answer = await line.ask("POST", f"/threads/{thread}/turns", body)
        except (OSError, asyncio.IncompleteReadError):
            load.errors += 1
            line.close()
            continue
        load.samples.append((time.perf_counter() - began) * 1e6)
        if answer.status == 200:
            load.done[thread] += 1
        else:
            load.errors += 1


async def _missing(line: Line, thread: str, done: int) -> int:
    """How many turns were answered that are not there, or are there and were not answered."""
    if not done:
        return 0
    found = (await line.ask("GET", f"/threads/{thread}")).json
    return abs(done * 2 - int(found["logs"]["history"]))


def _timing(name: str, detail: str, samples: list[float], took: float) -> Timing:
    ordered = sorted(samples) or [0.0]
    last = len(ordered) - 1
    return Timing(
        name=name,
        detail=detail,
        p50=statistics.median(ordered),
        p99=ordered[min(last, round(last * 0.99))],
        mean=statistics.fmean(ordered),
        count=len(samples),
        per_second=len(samples) / took,
    )


# Streams.


async def crowded(ground: Ground, program: str) -> Verdict:
    """More streams than are allowed, all held open."""
    asked, allowed = ground.count(STREAMS, 300), ground.count(ALLOWED, 200)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    async with serving(ground, program, streams=allowed) as served:
        first = Line(served.port, "user")
        await first.ask("POST", "/threads/t/turns", b'{"message": "hi"}')
        room = asyncio.Semaphore(OPENING)
        lines = [Line(served.port, "user") for _ in range(asked)]
        found = Counter(await asyncio.gather(*(_opened(line, room) for line in lines)))
        after = (await first.ask("POST", "/threads/t/turns", b'{"message": "still there?"}')).status
        for line in (first, *lines):
            line.close()
    wrong = asked - found[200] - found[429] + abs(found[200] - allowed) + (after != 200)
    return Verdict(bound=POLITE, measured=wrong)


async def _opened(line: Line, room: asyncio.Semaphore) -> int:
    async with room:
        try:
            status, _ = await head(await line.begin("GET", "/threads/t/events"))
        except (OSError, asyncio.IncompleteReadError):
            return 0
        return status


# Memory.


async def flat(ground: Ground, program: str) -> Verdict:
    """Reads of all kinds, and what the process holds after a tenth of them and at the end."""
    requests, clients = ground.count(REQUESTS, 2_000), 20
    async with serving(ground, program) as served:
        lines = [Line(served.port, "user") for _ in range(clients)]
        await lines[0].ask("POST", "/threads/t/turns", b'{"message": "hi"}')
        await asyncio.gather(*(_read(line, requests // 10 // clients) for line in lines))
        before = served.memory
        await asyncio.gather(*(_read(line, requests * 9 // 10 // clients) for line in lines))
        after = served.memory
        for line in lines:
            line.close()
    return Verdict(bound=FLAT, measured=after / before)


async def _read(line: Line, count: int) -> None:
    """Each time another of some requests, also for what is not there."""
    for number in range(count):
        asked = ("/threads/t", "/threads/t/items?limit=5", "/threads?limit=5", f"/threads/none-{number}")
        await line.ask("GET", asked[number % len(asked)])
