"""The turns every contestant stores: four items of realistic words and a state change, always the same."""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass

import msgspec

SIZES = (400, 700, 700, 800)
"""JSON bytes of the user's message, the tool call, its output and the answer."""

MOODS = ("calm", "curious", "tired", "hopeful", "anxious", "cheerful", "focused", "restless")

VOCABULARY = """
about above across actually after again agenda almost already although always answer appointment around
arrive autumn balance because before begin behind better between bicycle borrow breakfast bridge budget
calendar careful carry certain change child choose clear coffee colleague collect comfortable compare
consider context continue corner correct cost could country couple course daughter decide deliver describe
details different difficult dinner direction discuss distance doctor document during early easier either
enough evening every exactly example except expect explain family favourite festival figure finally finish
first follow forecast forget forward friend further garden general gentle ground happen having headache
health hesitate history holiday however hundred idea imagine important improve include instead interest
invoice journey keep kitchen language later learn leave letter library listen little longer manager maybe
measure medicine meeting member message middle minute moment money month morning mother mountain museum
music narrow nearly necessary neighbour never night notebook notice number offer office often online open
opinion order original other outside package paper parents particular patient perhaps person picture place
please point possible practice prefer prepare present pressure problem project promise question quickly
quiet rather reason receive recent recipe reduce remember remind repeat reply request reserve respond result
return review river schedule school season second seldom sentence separate serious service several should
similar simple since sister situation sleep slowly somebody something sometimes station still story straight
street student suggest summary summer support surprise table teacher telephone thank thing though thought
through ticket together tomorrow toward traffic train travel trouble twelve under understand until useful
usually vegetable village visit waiting walk warm water weather weekend welcome whether while window winter
without wonder world worry would write year yesterday
"""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One user message and all it causes, in no framework's own form."""

    number: int
    question: str
    query: str
    result: str
    answer: str
    mood: str

    @property
    def call_id(self) -> str:
        """Name shared by the tool call and its output."""
        return f"call_{self.number:012d}"


def turn(number: int) -> Turn:
    """The turn of that number: equal on every machine and in every run."""
    chance = random.Random(number)
    question, query, result, answer = (_prose(chance, size - _ENVELOPE[i]) for i, size in enumerate(SIZES))
    mood = chance.choice(MOODS)
    return Turn(number=number, question=question, query=query, result=result, answer=answer, mood=mood)


def plain(turn: Turn) -> list[dict[str, object]]:
    """The four items in the least JSON that says it all."""
    arguments = {"query": turn.query, "limit": 5}
    return [
        {"role": "user", "content": turn.question},
        {"role": "assistant", "call": turn.call_id, "name": "search_notes", "arguments": arguments},
        {"role": "tool", "call": turn.call_id, "output": turn.result},
        {"role": "assistant", "content": turn.answer},
    ]


def responses(turn: Turn) -> list[dict[str, object]]:
    """The four items as the Responses API writes them."""
    arguments = msgspec.json.encode({"query": turn.query, "limit": 5}).decode()
    text = {"type": "output_text", "text": turn.answer, "annotations": []}
    return [
        {"type": "message", "role": "user", "content": turn.question},
        {"type": "function_call", "call_id": turn.call_id, "name": "search_notes", "arguments": arguments},
        {"type": "function_call_output", "call_id": turn.call_id, "output": turn.result},
        {"type": "message", "role": "assistant", "status": "completed", "content": [text]},
    ]


def json_bytes(turn: Turn) -> int:
    """JSON bytes of the whole turn: its items and its state change."""
    patch = {"op": "set", "path": ["mood"], "value": turn.mood}
    return sum(len(msgspec.json.encode(part)) for part in (*plain(turn), patch))


_ENVELOPE = (28, 102, 52, 33)
"""About how much of each size is not prose."""


def _prose(chance: random.Random, size: int) -> str:
    parts: list[str] = []
    length = 0
    while length < size:
        parts.append(chance.choice(_sentences()))
        length += len(parts[-1]) + 1
    return " ".join(parts)[:size].rstrip()


@functools.cache
def _sentences() -> tuple[str, ...]:
    chance = random.Random("sentences")
    vocabulary = VOCABULARY.split()
    return tuple(_sentence(chance, vocabulary) for _ in range(2_000))


def _sentence(chance: random.Random, vocabulary: list[str]) -> str:
    words = chance.choices(vocabulary, k=chance.randint(6, 14))
    return " ".join(words).capitalize() + chance.choice("...?")
