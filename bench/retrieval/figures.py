"""Figures of a ranking: how much of what answers a question is among the first turns, and sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.retrieval.conversations import Conversation, Utterance
from bench.retrieval.rankings import Ranking

FIRST = (1, 5, 10, 20)
SESSIONS = 10


@dataclass(frozen=True, kw_only=True)
class Recall:
    """The part of the evidence among the first turns, and of its sessions among the first ten."""

    turns: tuple[float, ...]
    sessions: float

    def row(self, name: str) -> str:
        """A line of a table in Markdown."""
        cells = " | ".join(f"{value:.3f}" for value in (*self.turns, self.sessions))
        return f"| {name} | {cells} |"


HEAD = "| | turn @1 | @5 | @10 | @20 | session @10 |\n|---|---|---|---|---|---|"


async def measure_recall(pairs: Sequence[tuple[Conversation, Ranking]]) -> Recall:
    """The mean over all questions of some conversations."""
    turns: list[tuple[float, ...]] = []
    sessions: list[float] = []
    for conversation, rank in pairs:
        by_id = {turn.id: turn for turn in conversation.turns}
        for question in conversation.questions:
            ranking = await rank(question.text)
            ids = [turn.id for turn in ranking]
            turns.append(tuple(_part(question.evidence, ids[:first]) for first in FIRST))
            of_evidence = {by_id[id].session for id in question.evidence}
            sessions.append(_part(of_evidence, first_sessions(ranking)[:SESSIONS]))
    count = len(sessions) or 1
    means = tuple(sum(column) / count for column in zip(*turns, strict=True))
    return Recall(turns=means, sessions=sum(sessions) / count)


def first_sessions(ranking: Sequence[Utterance]) -> list[int]:
    """The sessions of a ranking, in the order in which it names them."""
    return list(dict.fromkeys(turn.session for turn in ranking))


def _part(wanted: frozenset[str] | set[int], names: Sequence[str] | Sequence[int]) -> float:
    return len(wanted.intersection(names)) / len(wanted)
