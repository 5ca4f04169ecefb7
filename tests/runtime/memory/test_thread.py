"""The threads that hold what is remembered: out of the way, there on request, and nobody else's to make."""

from __future__ import annotations

import pytest

from clew.core.errors import InvalidId
from clew.core.log.owners import memory_thread_id
from clew.database.database import Database
from clew.runtime.memory.memory import Memory, memory_of
from clew.runtime.runtime import Runtime
from clew.testing.scripted_model import ScriptedModel
from tests.runtime.memory.candidates import sister


async def chats_and_memories(db: Database) -> None:
    """Three conversations, each followed by the memory of its user."""
    for name in ("a", "b", "c"):
        await db.create(f"chat-{name}", owner=name)
        await Memory(db, name).learn([sister("Ann")])


async def every_page(db: Database, limit: int, *, system: bool) -> list[list[str]]:
    """The ids of all pages, page by page."""
    pages, after = [], None
    while True:
        page = await db.threads(limit=limit, after=after, system=system)
        pages.append(sorted(thread.id for thread in page.threads))
        after = page.next
        if after is None:
            return pages


async def test_lists_show_conversations_and_memories_only_on_request(db: Database) -> None:
    await chats_and_memories(db)
    runtime = Runtime(db, model=ScriptedModel())
    lists = [sorted(thread.id for thread in (await each.threads()).threads) for each in (db, runtime)]
    everything = [thread.id for thread in (await runtime.threads(system=True)).threads]

    assert lists == [["chat-a", "chat-b", "chat-c"]] * 2
    assert len(everything) == 6


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
async def test_a_page_is_full_whatever_is_hidden_between(db: Database, limit: int) -> None:
    await chats_and_memories(db)
    pages = await every_page(db, limit, system=False)
    everything = await every_page(db, limit, system=True)

    assert sorted(id for page in pages for id in page) == ["chat-a", "chat-b", "chat-c"]
    assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)
    assert sum(map(len, everything)) == 6


async def test_a_turn_cannot_be_run_on_a_memory(db: Database) -> None:
    await db.create("s1")
    runtime = Runtime(db, model=ScriptedModel("Hello"))

    with pytest.raises(InvalidId, match="is reserved"):
        await runtime.run_turn("memory/alice", "Hi", user="alice")
    with pytest.raises(InvalidId, match="is reserved"):
        await runtime.fork("s1", "memory/@s1")


@pytest.mark.promise("R-16")
async def test_no_name_leads_into_the_memory_of_a_name_too_long_to_be_written_out(db: Database) -> None:
    long = "ü" * 250
    await Memory(db, long).learn([sister("Ann")])
    imitation = memory_thread_id(long).removeprefix("memory/")

    assert (await memory_of(db, "s1", imitation).page()).facts == ()
