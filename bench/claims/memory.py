"""SQLite: what one owner's memory of 100,000 facts knows about a message, by words."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence

import clew
from bench.clock import Act, Contestant, Timing, one_by_one
from bench.ground import Ground
from bench.verdict import Bound, Section, Verdict
from clew.runtime.memory.memory import Memory
from clew.runtime.memory.recall.retrieval import Retriever
from clew.runtime.memory.values import Candidate, Fact, item_of
from clew.runtime.search import Search, SearchPage, search_everything

BATCH = 1_000
BOUND = Bound(
    what="SQLite: recall by words among 100,000 facts of one owner, rare and common words mixed",
    sign="≤",
    target=5.0,
    unit="ms",
)
COMMON = ("sister", "work", "sleep", "likes", "tea", "morning", "friend", "walk")
"""Words that stand in thousands of the facts."""


async def measure(ground: Ground) -> Section:
    """Messages of three to six words: two in ten only common ones, the rest with one or two rare ones."""
    count = ground.count(100_000, 5_000)
    url = f"sqlite:///{ground.folder() / 'memory.db'}"
    async with clew.open(url) as db:
        memory = await fill_memory(db, count)
        words = Retriever(memory)
        contestants = [
            contestant("words", f"top 20 of {count:,} facts", words.recall),
            contestant("search", f"first page among {count:,} facts", lambda text: _search(db, text)),
        ]
        timings = await one_by_one(contestants, ground.pace(rounds=20, block=20, warmup=20))
    return Section(
        title=f"SQLite: recall among {count:,} facts of one owner",
        timings=timings,
        verdicts=_verdicts(timings),
        notes=(
            "A message is three to six words; one in five has only words that stand in thousands of facts.",
            "A search looks through everything that one owner has said and that is known of them.",
        ),
    )


async def fill_memory(db: clew.Database, count: int, owner: str = "bench") -> Memory:
    """A memory of so many facts, indexed."""
    memory = Memory(db, owner)
    await memory.learn([Candidate(object="nothing", quote="nothing")])
    thread = db.thread(memory.thread)
    chance = random.Random("facts")
    for first in range(0, count, BATCH):
        numbers = range(first, min(first + BATCH, count))
        await thread.append(items=[item_of(_fact(number, chance)) for number in numbers])
    await db.index()
    return memory


def _fact(number: int, chance: random.Random) -> Fact:
    rare = [f"{_name(chance.randrange(40_000))}" for _ in range(2)]
    common = chance.sample(COMMON, 3)
    quote = f"my {common[0]} {rare[0]} is about {common[1]} and {common[2]} with {rare[1]}"
    return Fact(
        id=f"fact-{number}",
        category="context",
        subject=common[0],
        predicate="KNOWS",
        object=rare[0],
        quote=quote,
        learned=number,
    )


def _name(number: int) -> str:
    """A made-up word for a number."""
    letters = "bcdfghjklmnpqrstvwz"
    vowels = "aeiou"
    word = ""
    for _ in range(4):
        number, letter = divmod(number, len(letters))
        word += letters[letter] + vowels[(letter + number) % 5]
    return word


async def _search(db: clew.Database, text: str) -> SearchPage:
    return await search_everything(db, Search(query=text, owner="bench"))


def contestant(
    name: str, detail: str, find: Callable[[str], Awaitable[object]], share: float = 1.0
) -> Contestant:
    """Somebody who is asked about messages."""
    chance = random.Random("messages")

    def ready(number: int) -> Act:
        text = _message(number, chance)
        return lambda: find(text)

    return Contestant(name=name, detail=detail, ready=ready, share=share)


def _message(number: int, chance: random.Random) -> str:
    words: Sequence[str] = chance.sample(COMMON, chance.randint(2, 4))
    rare = [] if number % 5 == 0 else [_name(chance.randrange(40_000)) for _ in range(chance.randint(1, 2))]
    return f"tell me about my {' '.join([*words, *rare])}"


def _verdicts(timings: Sequence[Timing]) -> list[Verdict]:
    return [
        Verdict(bound=BOUND, value=timing.p50 / 1_000, by_mean=timing.mean / 1_000)
        for timing in timings
        if timing.name == "words"
    ]
