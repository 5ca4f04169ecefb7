"""Rankings of the turns of a conversation for a question: ours, plain BM25, FTS5, and an embedder alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

import apsw

import clew
from bench.retrieval.conversations import Conversation, Utterance
from clew.core.text.words import words
from clew.core.values import Item
from clew.runtime.context import EmbeddingProvider
from clew.runtime.search import Search, search_everything

DEPTH = 100
"""How many turns a ranking names."""

Ranking = Callable[[str], Awaitable[Sequence[Utterance]]]
"""The turns for a question, the best first."""


class SessionClock:
    """A clock that is set by hand: it is as late as the session that is written."""

    def __init__(self) -> None:
        self.time = 0

    def __call__(self) -> int:
        return self.time


async def fill_database(db: clew.Database, clock: SessionClock, conversation: Conversation) -> None:
    """Write a conversation: each session is a thread, and each speaker has their name as a role."""
    for session, turns in conversation.sessions.items():
        clock.time = turns[0].time
        thread = await db.create(f"{conversation.name}-{session}", owner=conversation.name)
        await thread.append(items=[Item(body=turn.text, role=turn.speaker, id=turn.id) for turn in turns])
    await db.index()


def our_ranking(db: clew.Database, conversation: Conversation) -> Ranking:
    """Our search over all that was said."""
    by_id = {turn.id: turn for turn in conversation.turns}

    async def rank(question: str) -> list[Utterance]:
        search = Search(query=question, owner=conversation.name, kinds=("items",))
        page = await search_everything(db, search, limit=DEPTH)
        return [by_id[hit.id] for hit in page.hits if hit.id is not None]

    return rank


def plain_bm25(conversation: Conversation) -> Ranking:
    """BM25 as it is in the books (k1 = 1.5, b = 0.75), over the words as they are said."""
    texts = [Counter(_words_of(turn)) for turn in conversation.turns]
    counts = Counter(word for text in texts for word in text)
    average = sum(text.total() for text in texts) / len(texts)

    def score(text: Counter[str], query: Sequence[str]) -> float:
        relative = 0.25 + 0.75 * text.total() / average
        return sum(
            math.log(1 + (len(texts) - counts[word] + 0.5) / (counts[word] + 0.5))
            * (text[word] * 2.5 / (text[word] + 1.5 * relative))
            for word in query
            if text[word]
        )

    async def rank(question: str) -> list[Utterance]:
        query = list(dict.fromkeys(words(question)))
        scores = [score(text, query) for text in texts]
        return _ordered(conversation, scores)

    return rank


def plain_fts5(conversation: Conversation) -> Ranking:
    """An FTS5 table with the Porter stemmer, asked for any of the words and ordered by its own rank."""
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE turns USING fts5 (text, tokenize = 'porter unicode61')")
    rows = [(number, f"{turn.speaker} {turn.text}") for number, turn in enumerate(conversation.turns)]
    connection.executemany("INSERT INTO turns (rowid, text) VALUES (?, ?)", rows)

    async def rank(question: str) -> list[Utterance]:
        match = " OR ".join(f'"{word}"' for word in dict.fromkeys(words(question)))
        statement = "SELECT rowid FROM turns WHERE turns MATCH ? ORDER BY rank LIMIT ?"
        rows = connection.execute(statement, (match, DEPTH)).fetchall()
        return [conversation.turns[int(str(number))] for (number,) in rows]

    return rank


async def embedder_alone(conversation: Conversation, embedder: EmbeddingProvider) -> Ranking:
    """The turns by the likeness of their vectors to that of the question, all of them compared."""
    vectors = await embedder.embed([f"{turn.speaker}: {turn.text}" for turn in conversation.turns])

    async def rank(question: str) -> list[Utterance]:
        (vector,) = await embedder.embed([question])
        return _ordered(conversation, [_likeness(vector, other) for other in vectors])

    return rank


def _words_of(turn: Utterance) -> list[str]:
    return words(f"{turn.speaker} {turn.text}")


def _likeness(one: Sequence[float], other: Sequence[float]) -> float:
    product = math.sumprod(one, other) if hasattr(math, "sumprod") else sum(map(_times, one, other))
    return product / (math.hypot(*one) * math.hypot(*other) or 1.0)


def _times(one: float, other: float) -> float:
    return one * other


def _ordered(conversation: Conversation, scores: Sequence[float]) -> list[Utterance]:
    numbers = [number for number, score in enumerate(scores) if score > 0]
    numbers.sort(key=lambda number: (-scores[number], -number))
    return [conversation.turns[number] for number in numbers[:DEPTH]]
