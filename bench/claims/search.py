"""A search over what one owner said, short and long, beside the index underneath."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

import clew
from bench.clock import Act, Contestant, Timing, one_by_one
from bench.ground import Ground
from bench.retrieval.conversations import own_conversations
from bench.verdict import Bound, Section, Verdict
from clew.core.text.words import words
from clew.runtime.search import Search, search_everything

SHORT, LONG = 600, 300
TURNS_OF_LONG = 60
TURNS_OF_THREAD = 30
BOUNDS = {"short": 8.0, "long": 20.0}


async def measure(ground: Ground) -> Section:
    """The questions of our own conversations, over their turns, written again and again, or many as one."""
    turns = [turn.text for conversation in own_conversations() for turn in conversation.turns]
    questions = [question.text for conversation in own_conversations() for question in conversation.questions]
    texts = {
        "short": [f"{turns[n % len(turns)]} {n}" for n in range(SHORT)],
        "long": [
            " ".join(turns[(n * 7 + m) % len(turns)] for m in range(TURNS_OF_LONG)) for n in range(LONG)
        ],
    }
    async with clew.open(f"sqlite:///{ground.folder() / 'search.db'}") as db:
        contestants: list[Contestant] = []
        for owner, said in texts.items():
            await _fill(db, owner, said)
            contestants += [_search(db, owner, said, questions), _index(owner, said, questions)]
        timings = await one_by_one(contestants, ground.pace(rounds=10, block=10, warmup=10))
    return Section(
        title="SQLite: a search over what one owner said",
        caption="Search 600 short and 300 long texts of one person by words, in a SQLite file",
        timings=timings,
        verdicts=_verdicts(timings),
        notes=(
            "A page of twenty hits with their excerpts, ranked with the turns around them, for a question of "
            "three to eight words. The index underneath is an FTS5 table that is asked for the best twenty.",
        ),
    )


async def _fill(db: clew.Database, owner: str, texts: Sequence[str]) -> None:
    for first in range(0, len(texts), TURNS_OF_THREAD):
        thread = await db.create(f"{owner}-{first}", owner=owner)
        await thread.append(items=[clew.user(text) for text in texts[first : first + TURNS_OF_THREAD]])
    await db.index()


def _search(db: clew.Database, owner: str, texts: Sequence[str], questions: Sequence[str]) -> Contestant:
    def ready(number: int) -> Act:
        search = Search(query=questions[number % len(questions)], owner=owner)
        return lambda: search_everything(db, search)

    letters = sum(map(len, texts)) // len(texts)
    return Contestant(
        name=f"Clew, {owner} texts", detail=f"{len(texts)} texts of {letters:,} letters", ready=ready
    )


def _index(owner: str, texts: Sequence[str], questions: Sequence[str]) -> Contestant:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE turns USING fts5 (text, tokenize = 'unicode61')")
    connection.executemany("INSERT INTO turns (text) VALUES (?)", [(text,) for text in texts])

    def ready(number: int) -> Act:
        match = " OR ".join(f'"{word}"' for word in words(questions[number % len(questions)]))

        async def find() -> object:
            statement = "SELECT text FROM turns WHERE turns MATCH ? ORDER BY rank LIMIT 20"
            return connection.execute(statement, (match,)).fetchall()

        return find

    return Contestant(name=f"FTS5 alone, {owner} texts", detail="the best twenty of a table", ready=ready)


def _verdicts(timings: Sequence[Timing]) -> list[Verdict]:
    times = {timing.name: timing.p50 / 1_000 for timing in timings}
    return [
        Verdict(
            bound=Bound(
                what=f"SQLite: a search over {count} {kind} texts", sign="≤", target=BOUNDS[kind], unit="ms"
            ),
            value=times[f"Clew, {kind} texts"],
        )
        for kind, count in (("short", SHORT), ("long", LONG))
    ]
