"""SQLite: a turn of the companion without model time, early and late in a thread."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import clew
from bench.clock import Act, Contestant, turn_by_turn
from bench.ground import Ground
from bench.verdict import Bound, Section, Verdict
from clew.runtime.settings import RuntimeConfig, SessionConfig
from clew_companion.agent import companion

EARLY, LATE = 10, 5_000
MILLISECONDS = 12.0
MESSAGES = (
    "My manager asked me to stay late again today, and I said yes although I did not want to.",
    "I had soup with my sister at noon. She told me about her new flat and the long way to work.",
    "I slept a little better, but I woke up at four and thought about the presentation.",
    "The neighbours were loud, so I read a book until it was quiet.",
    "I called my mother. We talked about the garden and about the summer when we went to the sea.",
    "There is a lot to do this week, and I do not know where to begin.",
    "I went for a walk in the evening, and it was good to be outside for a while.",
)
"""What somebody says in a turn, over and over: a sentence or two of an ordinary day."""


async def measure(ground: Ground) -> Section:
    """Two files, one of which has had many turns, turn by turn; the offline model answers at once."""
    late, folder = ground.count(LATE, 100), ground.folder()
    async with (
        _turns(f"sqlite:///{folder / 'late.db'}", late) as first,
        _turns(f"sqlite:///{folder / 'early.db'}", EARLY) as second,
    ):
        timings = await turn_by_turn((first, second), ground.pace(rounds=10, block=20, warmup=0))
    return Section(
        title="SQLite: a turn of the companion, without model time",
        timings=list(timings),
        verdicts=[Verdict(bound=_bound(timing.name), value=timing.p50 / 1000) for timing in timings],
    )


def _bound(name: str) -> Bound:
    return Bound(what=f"SQLite: a turn of the companion at {name}", sign="≤", target=MILLISECONDS, unit="ms")


@asynccontextmanager
async def _turns(url: str, start: int) -> AsyncIterator[Contestant]:
    """Turns on a thread that has had ``start`` of them; every one belongs to the same session."""
    async with (
        clew.open(url) as db,
        companion(
            db, config=RuntimeConfig(sessions=SessionConfig(finalize_active_sessions_on_close=False))
        ) as runtime,
    ):
        for number in range(start):
            await runtime.run_turn("t", _message(number), user="ada")

        def ready(number: int) -> Act:
            return lambda: runtime.run_turn("t", _message(start + number), user="ada")

        detail = "listen, sort, answer offline, finish; memory of one user"
        yield Contestant(name=f"turn {start:,}", detail=detail, ready=ready)


def _message(number: int) -> str:
    return MESSAGES[number % len(MESSAGES)]
