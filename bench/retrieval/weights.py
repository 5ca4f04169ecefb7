"""`python -m bench.retrieval.weights`: recall on our own conversations by the weights of surroundings."""

from __future__ import annotations

import asyncio
import itertools

import clew
from bench.retrieval.conversations import Conversation, own_conversations
from bench.retrieval.figures import HEAD, measure_recall
from bench.retrieval.rankings import Ranking, SessionClock, fill_database, our_ranking
from clew.core.text.turns import TurnWeights
from clew.database.search import SearchIndex
from clew.stores.memory import MemoryStore

GRID = ((0.0, 0.5, 1.0), (0.0, 0.5, 1.0, 1.5), (0.0, 0.5, 1.0, 1.5))
"""The weights of the near window, the wide window and the session that are tried."""


async def main() -> None:
    """Print a row for each choice, the best at the first place first."""
    clock = SessionClock()
    db = clew.Database(MemoryStore(clock=clock))
    conversations = own_conversations()
    for conversation in conversations:
        await fill_database(db, clock, conversation)
    rows = []
    for near, wide, session in itertools.product(*GRID):
        shape = TurnWeights(near=near, wide=wide, session=session)
        recall = await measure_recall([(c, ranking_with(db, c, shape)) for c in conversations])
        rows.append((recall.turns, recall.row(f"near {near}, wide {wide}, session {session}")))
    print(HEAD)
    print("\n".join(row for _, row in sorted(rows, reverse=True)))


def ranking_with(db: clew.Database, conversation: Conversation, shape: TurnWeights) -> Ranking:
    """Our search with other weights than those that ship."""
    return our_ranking(ReshapedDatabase(db, shape), conversation)


class ReshapedDatabase(clew.Database):
    """A database whose search has other weights."""

    def __init__(self, db: clew.Database, shape: TurnWeights) -> None:
        super().__init__(db.store)
        self._shape = shape

    @property
    def search_index(self) -> SearchIndex:
        """The search index, with these weights."""
        return SearchIndex(self.store, self._scope, shape=self._shape)


if __name__ == "__main__":
    asyncio.run(main())
