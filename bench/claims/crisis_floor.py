"""The companion's crisis floor: what it takes to judge a message, alone and behind the turns before it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.clock import Act, Contestant, one_by_one
from bench.ground import Ground
from bench.verdict import Bound, Section, Verdict
from clew.runtime.model.messages import Message
from clew_companion.crisis.classifier import features, is_for_network, load_weights, score_features
from clew_companion.crisis.concepts import read_message
from clew_companion.crisis.floor import MOST_TURNS, judge_message
from clew_companion.crisis.lexicon import load_lexicon

MILLISECONDS, WITH_NETWORK = 1.0, 20.0
MESSAGES = Path(__file__).parents[2] / "tests" / "companion" / "development" / "messages.jsonl"
"""Messages in nine languages, of one word to a hundred."""


async def measure(ground: Ground) -> Section:
    """Messages that the weights judge, by themselves and behind others, and those that the network reads."""
    messages = [json.loads(line)["text"] for line in MESSAGES.read_text("utf-8").splitlines()]
    doubtful = [text for text in messages if _is_for_network(text)]
    others = [text for text in messages if text not in doubtful]
    new = itertools.count(1)
    contestants = [
        _judging("a message alone", others, 0, new),
        _judging("a message behind others", others, MOST_TURNS, new),
        _judging(f"one of the {len(doubtful)} in {len(messages)} that the network reads", doubtful, 0, new),
    ]
    timings = await one_by_one(contestants, ground.pace(rounds=14, block=50, warmup=50))
    return Section(
        title="The companion's crisis floor",
        timings=timings,
        verdicts=[Verdict(bound=_bound(timing.name), value=timing.p50 / 1000) for timing in timings],
    )


def _is_for_network(text: str) -> bool:
    reading = read_message(text, load_lexicon())
    return is_for_network(reading, score_features(features(reading), load_weights()))


def _bound(name: str) -> Bound:
    target = WITH_NETWORK if "network" in name else MILLISECONDS
    return Bound(what=f"Crisis floor: {name}", sign="≤", target=target, unit="ms")


def _judging(name: str, texts: Sequence[str], turns: int, new: Iterator[int]) -> Contestant:
    """Judge each message. None was met before: blanks behind it make it another."""
    history: list[str] = []

    def ready(number: int) -> Act:
        tabs, blanks = divmod(next(new), 40)
        history.append(texts[number % len(texts)] + " " * blanks + "\t" * tabs)
        before = [Message(role="user", content=text) for text in history[-turns - 1 : -1]] if turns else []
        message = history[-1]

        async def judge() -> object:
            return judge_message(message, before)

        return judge

    return Contestant(name=name, detail=f"{turns} turns before it", ready=ready)
