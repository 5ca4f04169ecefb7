"""The companion's crisis floor: what it takes to judge a message, alone and behind the turns before it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from bench.clock import Act, Contestant, one_by_one
from bench.ground import Ground
from bench.verdict import Bound, Section, Verdict
from holdfast.companion.crisis.floor import TURNS, floor
from holdfast.runtime.messages import Message

MILLISECONDS = 1.0
MESSAGES = Path(__file__).parents[2] / "tests" / "companion" / "development" / "messages.jsonl"
"""Messages in nine languages, of one word to a hundred. Each is judged once: nothing is remembered of it."""


async def measure(ground: Ground) -> Section:
    """Every message by itself, and every message behind those before it."""
    said = [json.loads(line)["text"] for line in MESSAGES.read_text("utf-8").splitlines()]
    contestants = [
        _judging("a message alone", said, 0),
        _judging("a message behind others", said, TURNS),
    ]
    timings = await one_by_one(contestants, ground.pace(rounds=14, block=50, warmup=50))
    return Section(
        title="The companion's crisis floor",
        timings=timings,
        verdicts=[Verdict(bound=_bound(timing.name), measured=timing.p50 / 1000) for timing in timings],
    )


def _bound(name: str) -> Bound:
    return Bound(what=f"Crisis floor: {name}", sign="≤", target=MILLISECONDS, unit="ms")


def _judging(name: str, said: Sequence[str], turns: int) -> Contestant:
    def ready(number: int) -> Act:
        before = [Message(role="user", content=text) for text in said[max(number - turns, 0) : number]]

        async def judged() -> object:
            return floor(said[number % len(said)], before)

        return judged

    return Contestant(name=name, detail=f"{turns} turns before it", ready=ready)
