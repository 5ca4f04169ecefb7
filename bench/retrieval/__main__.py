"""`python -m bench.retrieval`: recall@5 and MRR of each path, over the labelled set."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory

import clew
from bench.retrieval.dataset import Question, facts, questions
from clew.runtime.memory.memory import Memory
from clew.runtime.memory.recall.retrieval import Retriever
from clew.runtime.memory.values import FACTS, fact_of

FIRST = 5
PATHS = ("words",)


async def rank_all() -> dict[str, list[list[str]]]:
    """For each path and question, the quotes of what was found, the best first."""
    with TemporaryDirectory() as folder:
        return await _rank_all(f"sqlite:///{folder}/facts.db")


async def _rank_all(url: str) -> dict[str, list[list[str]]]:
    async with clew.open(url) as db:
        memory = Memory(db, "somebody")
        await memory.learn(facts())
        retriever = Retriever(memory)
        quotes = {item.place: fact_of(item).quote for item in await db.thread(memory.thread).items(log=FACTS)}
        rankings: dict[str, list[list[str]]] = {path: [] for path in PATHS}
        for question in questions():
            by_words = await retriever.places_by_words(question.text)
            rankings["words"].append([quotes[place] for place in by_words])
        return rankings


def recall(questions: Sequence[Question], rankings: Sequence[Sequence[str]]) -> float:
    """Of what answers a question, the part that is among the first five; the mean over all questions."""
    parts = [
        len(question.answers & set(quotes[:FIRST])) / min(len(question.answers), FIRST)
        for question, quotes in zip(questions, rankings, strict=True)
    ]
    return sum(parts) / len(parts)


def reciprocal_rank(questions: Sequence[Question], rankings: Sequence[Sequence[str]]) -> float:
    """One over the rank of the first answer, 0 if there is none; the mean over all questions."""
    ranks = [
        next((1 / rank for rank, quote in enumerate(quotes, start=1) if quote in question.answers), 0.0)
        for question, quotes in zip(questions, rankings, strict=True)
    ]
    return sum(ranks) / len(ranks)


def table(rankings: Mapping[str, Sequence[Sequence[str]]], *, held_out: bool) -> list[str]:
    """The figures as lines of Markdown: one row for each kind of question, and one for all."""
    dataset = questions()
    part = [n for n, question in enumerate(dataset) if question.held_out is held_out]
    kinds = [*dict.fromkeys(dataset[n].kind for n in part)]
    head = "| questions | number | " + " | ".join(f"{path}: recall@5 / MRR" for path in PATHS) + " |"
    lines = [head, "|---|---|" + "---|" * len(PATHS)]
    for kind in [*kinds, "all"]:
        picks = [n for n in part if kind in (dataset[n].kind, "all")]
        cells = []
        for path in PATHS:
            some = [rankings[path][n] for n in picks]
            of = [dataset[n] for n in picks]
            cells.append(f"{recall(of, some):.2f} / {reciprocal_rank(of, some):.2f}")
        lines.append(f"| {kind} | {len(picks)} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    """Print the tables."""
    rankings = asyncio.run(rank_all())
    print(f"{len(facts())} facts, {len(questions())} questions")
    for title, held_out in (("Tuned on", False), ("Held out", True)):
        print(f"\n{title}\n")
        print("\n".join(table(rankings, held_out=held_out)))


if __name__ == "__main__":
    main()
