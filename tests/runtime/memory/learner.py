"""The learner of facts as a person meets it: messages of a conversation, and what is known then."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count

import clew
from clew.database.database import Database
from clew.runtime.memory import memory_of, remember, user_turns
from tests.runtime.memory.held_out_score import Learn


async def _open_database() -> Database:
    return await clew.open("memory://")


@contextmanager
def offline_learner(*, with_quotes: bool = True) -> Iterator[Learn]:
    """A learner without a model, which gives the texts of facts and rules, with or without their quotes."""
    numbers = count()
    with asyncio.Runner() as runner:
        db = runner.run(_open_database())

        async def known_after(messages: Sequence[str]) -> list[str]:
            name = f"person-{next(numbers)}"
            thread = await db.create(name, owner=name)
            for message in messages:
                await thread.append(items=[clew.user(message)])
            memory = memory_of(db, name, name)
            await remember(memory, user_turns(await thread.items(), name))
            facts = (await memory.page(limit=200)).facts
            rules = (await memory.profile()).rules
            if with_quotes:
                return [*(fact.text for fact in facts), *(f"{r.text} {' '.join(r.evidence)}" for r in rules)]
            statements = [f"{fact.subject} {fact.predicate_text} {fact.object}" for fact in facts]
            return [*statements, *(rule.text for rule in rules)]

        yield lambda messages: runner.run(known_after(messages))
        runner.run(db.close())
