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
STREAMS, MORE = 10_000, 500
"""How many streams are held open, and how many more are asked for."""
OTHER_FILES = 500
IDLE_SECONDS = 10.0
REQUESTS = 100_000
LOOKS = (0.1, 0.5, 1.0)
"""After which parts of the requests memory is looked at."""
OPENING = 200
"""How many streams are being opened at the same time."""
EVERYBODY = "*"
"""Credentials of the whole tenant, which have no limit of one user."""

NO_ERROR = Bound(what="Server: 500 clients with turns for 60 s, errors", sign="≤", target=0, unit="")
NO_LOSS = Bound(what="Server: 500 clients with turns for 60 s, turns lost", sign="≤", target=0, unit="")
FAIR = Bound(
    what="Server: 500 clients with turns for 60 s, p99 of a turn against all of them served in turn",
    sign="≤",
    target=2,
)
POLITE = Bound(
    what="Server: 10,000 streams held open and 500 more asked for, not opened or not refused with 503",
    sign="≤",
    target=0,
    unit="",
)
FLAT = Bound(
    what="Server: memory after 100,000 mixed requests, against after 10,000", sign="≤", target=1.1, unit="×"
)


async def measure(ground: Ground) -> Section:
    """All three, each on a server of its own."""
    program = os.environ.get("BENCH_SERVER", "uvicorn")
    timing, load = await under_load(ground, program)
    polite, crowd = await run_crowd(ground, program)
    even, sizes = await flat(ground, program)
    return Section(
        title=f"The server, by {program}",
        timings=[timing],
        verdicts=[
            Verdict(bound=NO_ERROR, value=load.errors),
            Verdict(bound=NO_LOSS, value=load.losses),
            Verdict(bound=FAIR, value=timing.p99 / 1e6 * timing.per_second / load.clients),
            polite,
            even,
        ],
        notes=("One process serves and another asks; the model answers at once; SQLite.", crowd, sizes),
    )


@dataclass
class ServerProcess:
    """A server in a process of its own."""

    port: int
    pid: int

    @property
    def memory(self) -> float:
        """What it holds, in MiB."""
        lines = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))

    @property
    def processor(self) -> float:
        """How many seconds it has worked."""
        times = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[11:13]
        return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def serving(ground: Ground, program: str, **settings: object) -> AsyncIterator[ServerProcess]:
    """A server on a new file, ready to be asked."""
    options = {
        "url": f"sqlite:///{ground.folder() / 'server.db'}",
        "requests": 10**9,
        "turns": 10**6,
        **settings,
    }
    variables = {f"CLEW_SERVER_{name.upper()}": str(value) for name, value in options.items()}
    child = _start(program, variables)
    assert child.stdout is not None
    try:
        port = await asyncio.to_thread(child.stdout.readline)
        if not port.strip():
            raise NotImplementedError("the server is not installed here")
        server = ServerProcess(port=int(port), pid=child.pid)
        await _up(server)
        if program == "granian":  # what serves is its child
            server.pid = _children(child.pid)[-1]
        yield server
    finally:
        child.terminate()
        await asyncio.to_thread(child.wait)
        child.stdout.close()


def _start(program: str, variables: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.serving", program]
    return subprocess.Popen(command, env={**os.environ, **variables}, stdout=subprocess.PIPE, text=True)


def _children(pid: int) -> list[int]:
    pids = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(each) for each in pids.split()]


async def _up(server: ServerProcess) -> None:
    for _ in range(600):
        line = Line(server.port, "bench")
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

    clients: int
    samples: list[float] = field(default_factory=list)
    turns: Counter[str] = field(default_factory=Counter)
    errors: int = 0
    losses: int = 0


async def under_load(
    ground: Ground, program: str, *, name: str = "", seconds: float = SECONDS, **settings: object
) -> tuple[Timing, Load]:
    """Clients that each send one turn after another, and afterwards count what is there."""
    clients, seconds = ground.count(CLIENTS, 50), seconds if not ground.quick else 5.0
    load = Load(clients=clients)
    async with serving(ground, program, **settings) as server:
        lines = [Line(server.port, f"user-{number}") for number in range(clients)]
        start = time.perf_counter()
        await asyncio.gather(*(_talk(line, f"t-{n}", load, start + seconds) for n, line in enumerate(lines)))
        duration = time.perf_counter() - start
        for number, line in enumerate(lines):
            load.losses += await _missing(line, f"t-{number}", load.turns[f"t-{number}"])
            line.close()
    return _timing(
        name or f"{clients} clients", f"turns one after another, {seconds:.0f} s", load.samples, duration
    ), load


async def _talk(line: Line, thread: str, load: Load, until: float) -> None:
    body = json.dumps({"message": "What do you have to say?"}).encode()
    while (start := time.perf_counter()) < until:
        try:
            answer = await line.ask("POST", f"/threads/{thread}/turns", body)
        except (OSError, asyncio.IncompleteReadError):
            load.errors += 1
            line.close()
            continue
        load.samples.append((time.perf_counter() - start) * 1e6)
        if answer.status == 200:
            load.turns[thread] += 1
        else:
            load.errors += 1


async def _missing(line: Line, thread: str, turns: int) -> int:
    """How many turns were answered that are not there, or are there and were not answered."""
    if not turns:
        return 0
    body = (await line.ask("GET", f"/threads/{thread}")).json
    return abs(turns * 2 - int(body["logs"]["history"]))


def _timing(name: str, detail: str, samples: list[float], duration: float) -> Timing:
    series = sorted(samples) or [0.0]
    last = len(series) - 1
    return Timing(
        name=name,
        detail=detail,
        p50=statistics.median(series),
        p99=series[min(last, round(last * 0.99))],
        mean=statistics.fmean(series),
        count=len(samples),
        per_second=len(samples) / duration,
    )


# Streams.


async def run_crowd(ground: Ground, program: str) -> tuple[Verdict, str]:
    """As many streams as are allowed, all held open, and more; and what the open ones cost while idle."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    more = ground.count(MORE, 50)
    limit = min(ground.count(STREAMS, 250), hard - OTHER_FILES - more)
    async with serving(ground, program, streams=limit) as server:
        first = Line(server.port, "user")
        await first.ask("POST", "/threads/t/turns", b'{"message": "hi"}')
        empty, room = server.memory, asyncio.Semaphore(OPENING)
        lines = [Line(server.port, EVERYBODY) for _ in range(limit + more)]
        statuses = Counter(await asyncio.gather(*(_open(line, room) for line in lines)))
        each = (server.memory - empty) * 1024 / max(statuses[200], 1)
        share = await _share(server, IDLE_SECONDS if not ground.quick else 2.0)
        after = (await first.ask("POST", "/threads/t/turns", b'{"message": "still there?"}')).status
        for line in (first, *lines):
            line.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    wrong = abs(statuses[200] - limit) + abs(statuses[503] - more) + (after != 200)
    note = f"{statuses[200]:,} idle streams: {each:.0f} KiB each, and {share:.1%} of one processor together."
    return Verdict(bound=POLITE, value=wrong), note


async def _share(server: ServerProcess, seconds: float) -> float:
    """Which part of a processor it uses."""
    before = server.processor
    await asyncio.sleep(seconds)
    return (server.processor - before) / seconds


async def _open(line: Line, room: asyncio.Semaphore) -> int:
    async with room:
        try:
            status, _ = await head(await line.begin("GET", "/threads/t/events"))
        except (OSError, asyncio.IncompleteReadError):
            return 0
        return status


# Memory.


async def flat(ground: Ground, program: str) -> tuple[Verdict, str]:
    """Requests of all kinds, and what the process holds after a tenth of them, after half and at the end."""
    requests, clients, sizes = ground.count(REQUESTS, 2_000), 20, []
    async with serving(ground, program, user_streams=clients) as server:
        lines = [Line(server.port, "user") for _ in range(clients)]
        await lines[0].ask("POST", "/threads/t/turns", b'{"message": "hi"}')
        start = 0
        for part in LOOKS:
            end = round(requests * part) // clients
            await asyncio.gather(*(_send_mixture(line, each, start, end) for each, line in enumerate(lines)))
            start = end
            sizes.append(server.memory)
        for line in lines:
            line.close()
    note = ", ".join(
        f"{size:.0f} MiB after {requests * part:,.0f}" for size, part in zip(sizes, LOOKS, strict=True)
    )
    return Verdict(bound=FLAT, value=sizes[-1] / sizes[0]), f"Memory over mixed requests: {note}."


async def _send_mixture(line: Line, client: int, first: int, upto: int) -> None:
    """Each time another request: most read, also what is not there; some write, stream and delete."""
    reads = (
        "/threads/t",
        "/threads/t/items?limit=5",
        "/threads?limit=5",
        "/search?q=hi",
        "/sessions/t/status",
    )
    for number in range(first, upto):
        name = f"{client}-{number}"
        match number % 20:
            case 0:
                await line.ask("POST", f"/threads/turns-{client}/turns", b'{"message": "hi"}')
            case 1:
                await line.ask("POST", "/threads", b'{"id": "%s"}' % name.encode(), key=name)
            case 2:
                await line.ask("DELETE", f"/threads/{client}-{number - 1}")
            case 3:
                await head(await line.begin("GET", "/threads/t/events"))
                line.close()
            case 4 | 5:
                await line.ask("GET", f"/threads/none-{name}")
            case other:
                await line.ask("GET", reads[other % len(reads)])
