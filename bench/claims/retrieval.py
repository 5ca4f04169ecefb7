"""How much of what answers a question is found among the turns of conversations, beside plain searches."""

from __future__ import annotations

import os
from collections.abc import Sequence

import clew
from bench.embedder import WordVectors
from bench.ground import Ground
from bench.retrieval.conversations import Conversation, own_conversations, read_conversations
from bench.retrieval.figures import HEAD, Recall, measure_recall
from bench.retrieval.rankings import (
    SessionClock,
    embedder_alone,
    fill_database,
    our_ranking,
    plain_bm25,
    plain_fts5,
)
from bench.verdict import Bound, Section, Verdict
from clew.runtime.context import EmbeddingProvider
from clew.runtime.memory.vectors.embedders import open_embedder
from clew.stores.sqlite.store import SqliteStore

FIRST, TENTH = 0, 2
BOUNDS = {FIRST: ("turn recall@1", 1.1), TENTH: ("turn recall@10", 1.2)}
"""How many times as much as FTS5 by itself finds."""

NO_FILE = (
    "Other conversations were left out: no file was given. "
    "`make bench BENCH_FLAGS='--only retrieval --conversations FILE'` measures any in the form of LoCoMo."
)


async def measure(ground: Ground) -> Section:
    """Our own conversations always, and those of a file if one is given. Without an embedder, a small one."""
    if ground.embedder is None:
        return await _measure_with(ground, WordVectors())
    async with open_embedder(ground.embedder, os.environ) as embedder:
        return await _measure_with(ground, embedder)


async def _measure_with(ground: Ground, embedder: EmbeddingProvider | None) -> Section:
    sets = {"our own conversations": own_conversations()}
    if ground.conversations is not None:
        sets["the conversations of the file"] = read_conversations(ground.conversations)
    verdicts: list[Verdict] = []
    notes: list[str] = []
    for name, conversations in sets.items():
        recalls = await _recalls(ground, conversations, embedder)
        notes.append(_table(name, conversations, recalls))
        verdicts += _verdicts(name, recalls)
    if ground.conversations is None:
        notes.append(NO_FILE)
    return Section(
        title="Retrieval: the turns that answer a question", timings=[], verdicts=verdicts, notes=tuple(notes)
    )


async def _recalls(
    ground: Ground, conversations: Sequence[Conversation], embedder: EmbeddingProvider | None
) -> dict[str, Recall]:
    clock = SessionClock()
    store = SqliteStore(str(ground.folder() / "turns.db"), clock=clock)
    await store.start()
    async with clew.Database(store, owns_store=True) as db:
        for conversation in conversations:
            await fill_database(db, clock, conversation)
        recalls = {"Clew, by words": await measure_recall([(c, our_ranking(db, c)) for c in conversations])}
    recalls["BM25"] = await measure_recall([(c, plain_bm25(c)) for c in conversations])
    recalls["FTS5"] = await measure_recall([(c, plain_fts5(c)) for c in conversations])
    if embedder is not None:
        pairs = [(c, await embedder_alone(c, embedder)) for c in conversations]
        recalls[f"{embedder.name} alone"] = await measure_recall(pairs)
    return recalls


def _table(name: str, conversations: Sequence[Conversation], recalls: dict[str, Recall]) -> str:
    turns = sum(len(conversation.turns) for conversation in conversations)
    questions = sum(len(conversation.questions) for conversation in conversations)
    title = f"Of {name} ({turns:,} turns, {questions:,} questions), the part of the evidence that is found:"
    return "\n".join([title, "", HEAD, *(recall.row(path) for path, recall in recalls.items())])


def _verdicts(name: str, recalls: dict[str, Recall]) -> list[Verdict]:
    ours, fts5 = recalls["Clew, by words"], recalls["FTS5"]
    return [
        Verdict(
            bound=Bound(what=f"Retrieval: {what} of {name} / FTS5 alone", sign="≥", target=target),
            value=ours.turns[column] / fts5.turns[column],
        )
        for column, (what, target) in BOUNDS.items()
    ]
