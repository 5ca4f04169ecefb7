"""A turn is told the earlier stretches of its user's threads that bear on it, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

import clew
from clew.core.values import Item
from clew.database.database import Database
from clew.runtime.context import MemoryMode
from clew.runtime.memory import CurrentWindow, PassageEntry, Retriever, memory_of, prompt_part
from clew.runtime.settings import MemoryConfig, RuntimeConfig
from clew.testing.scripted_model import ScriptedModel
from tests.support.tenants import db, postgres_url, tenant

__all__ = ["db", "postgres_url", "tenant"]

pytestmark = pytest.mark.promise("B-15")
QUESTION = "What did we say about the lighthouse and its keeper?"
TALK = ("Hello again", "The lighthouse is shut", "Who is its keeper?", "Anselm, he collects clocks", "I see")


async def say(db: Database, thread: str, owner: str | None, texts: Sequence[str] = TALK) -> clew.Thread:
    """A thread in which two take turns."""
    items = [(clew.user, clew.assistant)[n % 2](text) for n, text in enumerate(texts)]
    talk = await db.create(thread, owner=owner, exist_ok=True)
    await talk.append(items=items)
    return talk


async def passages(
    db: Database, *, owner: str | None = "alice", thread: str = "now", length: int = 40, **config: Any
) -> list[PassageEntry]:
    """The passages for the question, in a turn of a thread."""
    await db.create(thread, owner=owner, exist_ok=True)
    retriever = Retriever(memory_of(db, thread, owner))
    memory = await retriever.working_memory(
        QUESTION,
        first_turn=False,
        window=CurrentWindow(thread=thread, length=length),
        config=MemoryConfig(**config),
    )
    return [entry for entry in memory.result.entries if isinstance(entry, PassageEntry)]


def texts_of(entries: Sequence[PassageEntry]) -> list[list[str]]:
    return [[turn.text for turn in entry.turns] for entry in entries]


async def test_a_passage_has_the_turns_around_it_its_day_and_its_thread(db: Database) -> None:
    talk = await say(db, "earlier", "alice")
    (passage,) = await passages(db)
    day = (await talk.items())[0].time

    assert texts_of([passage]) == [list(TALK[1:4])]
    assert passage.thread == "earlier"
    assert passage.date == day_of(day)
    assert [turn.speaker for turn in passage.turns] == ["assistant", "user", "assistant"]


def day_of(time: int) -> str:
    """The day of a time."""
    return datetime.fromtimestamp(time / 1000, UTC).date().isoformat()


async def test_with_recall_off_there_is_none(db: Database) -> None:
    await say(db, "earlier", "alice")
    await memory_of(db, "now", "alice").set_recall(on=False)

    assert await passages(db) == []


async def test_nothing_comes_from_another_user_or_another_tenant(db: Database, tenant: str) -> None:
    await say(db, "bobs", "bob")
    await say(db, "nobodys", None)
    await say(db.scope(tenant=f"{tenant}x"), "theirs", "alice")

    assert await passages(db) == []


async def test_a_thread_of_nobody_recalls_itself_alone(db: Database) -> None:
    await say(db, "nobodys", None)
    await say(db, "now", None, [*TALK, *["so"] * 10])

    assert [entry.thread for entry in await passages(db, owner=None, length=10)] == ["now"]


async def test_what_the_model_sees_anyway_is_not_told_again(db: Database) -> None:
    await say(db, "now", "alice", [*TALK, *["so"] * 10])

    assert await passages(db, length=15) == []
    assert texts_of(await passages(db, length=12)) == [["The lighthouse is shut", "Who is its keeper?"]]


async def test_what_was_hidden_ended_or_deleted_is_not_told(db: Database) -> None:
    cleared = await say(db, "cleared", "alice")
    await cleared.log().clear()
    await (await say(db, "deleted", "alice")).delete()
    hidden = await db.create("hidden", owner="alice")
    await hidden.append(items=[Item(body=text, role="user", visibility="internal") for text in TALK])
    await hidden.append(items=[Item(body=TALK[1] + TALK[2], role="user", kind="note")])

    assert await passages(db) == []


async def test_what_was_erased_is_not_told(db: Database) -> None:
    await say(db, "erased", "alice")
    await db.index()
    await db.erase(thread="erased")

    assert await passages(db) == []


async def test_passages_keep_to_their_number_and_budget(db: Database) -> None:
    for number in range(4):
        await say(db, f"earlier-{number}", "alice", [*TALK[:3], f"{TALK[3]} {number}" + " tick" * 40])

    assert len(await passages(db, passages=3)) == 3
    assert len(await passages(db, passages=3, passage_tokens=70)) == 1
    assert await passages(db, passages=0) == []


async def test_one_common_word_is_not_enough(db: Database) -> None:
    await say(db, "earlier", "alice", ["We say hello", "hello", "we say"])

    assert await passages(db) == []


async def test_a_runtime_tells_its_model_if_it_is_asked_to(db: Database) -> None:
    await say(db, "earlier", "alice")
    model = ScriptedModel("Anselm.", "Anselm.")
    for config in (RuntimeConfig(), RuntimeConfig(memory=MemoryConfig())):
        async with clew.Runtime(db, model=model, instructions="Be brief.", config=config) as runtime:
            await runtime.run_turn("now", QUESTION, user="alice")
    without, told = (request.instructions for request in model.requests)

    assert without == "Be brief."
    assert told.startswith("Be brief.\n\nWhat is known.")
    assert "in earlier: assistant: The lighthouse is shut / user: Who is its keeper? / assistant: An" in told


async def test_an_incognito_turn_is_told_nothing_and_leaves_nothing_to_tell(db: Database) -> None:
    await say(db, "earlier", "alice")
    model = ScriptedModel("I do not know.", "I do not know.")
    config = RuntimeConfig(memory=MemoryConfig())
    async with clew.Runtime(db, model=model, config=config) as runtime:
        await runtime.run_turn("secret", QUESTION, user="alice", mode=MemoryMode.INCOGNITO)
        await runtime.run_turn("now", "The lighthouse and its keeper, what about them?", user="alice")

    assert "Anselm" not in model.requests[0].instructions
    assert "secret" not in model.requests[1].instructions
    assert "Anselm" in model.requests[1].instructions


async def test_a_passage_reads_alike_in_the_prompt_and_as_a_line(db: Database) -> None:
    await say(db, "earlier", "alice")
    (passage,) = await passages(db)

    assert prompt_part([passage], [], recall=True).splitlines()[-1] == (
        f"- Said on {passage.date}, in earlier: assistant: The lighthouse is shut / user: Who is its keeper?"
        " / assistant: Anselm, he collects clocks"
    )
