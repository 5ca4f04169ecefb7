"""What our conversation store promises beyond the contract, and what it refuses."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest
from pydantic_ai import Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.messages import ModelRequest, ToolReturnPart

import clew
from clew.adapters.pydantic_ai import Conversations
from clew.core.errors import InvalidArgument, InvalidValue
from tests.adapters.pydantic_ai.contract import (
    AGENT,
    load_conversation,
    request,
    response,
    save_conversation,
    texts,
    turn,
)


async def version(db: clew.Database, id: str = "c1") -> int:
    return (await db.thread(id).head()).version


# What it promises.


@pytest.mark.promise("S-02")
async def test_a_save_is_one_changeset_of_what_is_new(db: clew.Database, store: Conversations) -> None:
    await save_conversation(store, *"0123")
    entries = await turn(store, "4")
    [change] = await db.thread("c1").changesets(after=1)

    assert [item.id for item in change.items] == [entry.id for entry in entries]
    assert {item.format for item in change.items} == {"pydantic-ai"}
    assert (change.run_id, change.reason) == (entries[0].message.run_id, "Save")


async def test_usage_is_known_for_every_version(db: clew.Database, store: Conversations) -> None:
    await turn(store, "one")
    await turn(store, "two")
    thread = db.thread("c1")
    requests = [(await thread.state(at=at))["pydantic-ai"]["usage"]["requests"] for at in (1, 2)]

    assert requests == [1, 2]


@pytest.mark.promise("S-03")
async def test_what_a_branch_leaves_stays_readable_by_version(
    db: clew.Database, store: Conversations
) -> None:
    await save_conversation(store, *"0123")
    await store.branch("c1", at=1, expected_revision=(await load_conversation(store)).revision)
    thread = db.thread("c1")

    assert (len(await thread.items()), len(await thread.items(at=1))) == (1, 4)
    assert (await thread.verify()).ok


async def test_a_fork_copies_nothing(db: clew.Database, store: Conversations) -> None:
    await save_conversation(store, *"0123")
    await store.fork("c1", at=3, new_conversation_id="c2")
    changes = await db.thread("c2").changesets(after=1)

    assert [change.items for change in changes] == [()]
    assert (await db.thread("c2").head()).parent is not None


async def test_a_fork_that_was_never_finished_is_nobodys(db: clew.Database, store: Conversations) -> None:
    await save_conversation(store, *"01")
    await db.thread("c1").fork("c2")  # as a process leaves it that ends right here

    assert await store.load("c2") is None
    await save_conversation(store, "mine", id="c2")
    assert texts((await load_conversation(store, "c2")).messages) == ["mine"]
    assert texts((await load_conversation(store)).messages) == ["0", "1"]


async def test_a_thread_made_before_keeps_its_owner(
    db: clew.Database, store: Conversations, tenant: str
) -> None:
    await db.create("c1", owner="alice")
    await save_conversation(store, "Hi")
    alices = Conversations(db.scope(tenant=tenant, user="alice"))

    assert (await db.thread("c1").head()).owner == "alice"
    assert texts((await load_conversation(alices)).messages) == ["Hi"]
    assert [record.conversation_id for record in await alices.list_conversations()] == ["c1"]


async def test_a_save_that_comes_while_a_conversation_is_deleted_is_not_lost(
    db: clew.Database, store: Conversations, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await save_conversation(store, "Hi")
    find = store._listing

    async def find_late(id: str) -> clew.Record | None:
        await turn(Conversations(db), "in between")
        return await find(id)

    monkeypatch.setattr(store, "_listing", find_late)

    with pytest.raises(ConversationConflict):
        await store.delete_record("c1", expected_revision=first.revision or "")
    assert texts((await load_conversation(store)).messages)[:2] == ["Hi", "in between"]


async def test_a_database_of_one_user_keeps_conversations_to_them(db: clew.Database, tenant: str) -> None:
    alice = Conversations(db.scope(tenant=tenant, user="alice"))
    bob = Conversations(db.scope(tenant=tenant, user="bob"))
    await save_conversation(alice, "Hi")

    assert await bob.load("c1") is None
    assert await bob.list_conversations() == []
    with pytest.raises(ConversationConflict):
        await save_conversation(bob, "mine")


@pytest.mark.promise("S-06")
async def test_what_cannot_be_read_hides_nothing_else(
    db: clew.Database, store: Conversations, caplog: pytest.LogCaptureFixture
) -> None:
    await save_conversation(store, "0")
    await db.thread("c1").append(
        items=[clew.Item(body={"kind": "nothing"}, format="pydantic-ai"), clew.user("a note")]
    )
    with caplog.at_level(logging.WARNING):
        await turn(store, "1")

    assert texts((await load_conversation(store)).messages)[:2] == ["0", "1"]


@pytest.mark.promise("S-08")
async def test_the_database_stays_open(db: clew.Database) -> None:
    store = Conversations(db)
    await save_conversation(store, "Hi")
    del store

    assert await version(db) == 1


async def test_a_list_reaches_over_many_pages(store: Conversations, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.adapters.pydantic_ai.conversations.CONVERSATIONS_PER_PAGE", 3)
    for number in range(8):
        await save_conversation(store, "Hi", id=f"c{number}")
    ids = [record.conversation_id for record in await store.list_conversations()]
    some = [record.conversation_id for record in await store.list_conversations(limit=4)]

    assert ids == [f"c{number}" for number in reversed(range(8))]
    assert some == ids[:4]


async def test_a_list_leaves_out_what_was_removed_elsewhere(db: clew.Database, store: Conversations) -> None:
    await save_conversation(store, "Hi")
    await db.thread("c1").delete()

    assert await store.list_conversations() == []


# What it refuses.


async def test_a_thread_of_another_kind_is_left_alone(db: clew.Database, store: Conversations) -> None:
    thread = await db.create("c1")
    await thread.append(items=[clew.user("Hi")])
    new = Conversation(conversation_id="c1", messages=[request("Hi"), response("Hello")])

    for call in (store.load("c1"), store.save(new), store.delete("c1")):
        with pytest.raises(InvalidArgument, match="was not written by Pydantic AI"):
            await call
    assert (await version(db), len(await thread.items())) == (1, 1)


async def test_a_value_that_is_not_json_is_refused_by_its_place(
    db: clew.Database, store: Conversations
) -> None:
    await save_conversation(store, "Hi")
    conversation = await load_conversation(store)
    odd = ToolReturnPart(tool_name="f", content={"x": [1.0, float("inf")]}, tool_call_id="t1")
    conversation.messages.append(ModelRequest(parts=[odd]))

    with pytest.raises(InvalidValue, match=r"content\.x\[1\]"):
        await store.save(conversation)
    assert await version(db) == 1


async def test_an_object_without_a_json_form_is_refused(db: clew.Database, store: Conversations) -> None:
    await save_conversation(store, "Hi")
    conversation = await load_conversation(store)
    conversation.messages.append(
        ModelRequest(parts=[ToolReturnPart(tool_name="f", content=object(), tool_call_id="t1")])
    )

    with pytest.raises(InvalidValue):
        await store.save(conversation)
    assert await version(db) == 1


async def test_a_refused_save_can_be_made_again(store: Conversations) -> None:
    await save_conversation(store, "Hi")
    result = await AGENT.run("one", conversation=await load_conversation(store))
    await turn(store, "zero")
    with pytest.raises(ConversationConflict):
        await store.save(result)
    again = await AGENT.run("one", conversation=await load_conversation(store))
    await store.save(again)

    assert [text for text in texts((await load_conversation(store)).messages) if "messages" not in text] == [
        "Hi",
        "zero",
        "one",
    ]


def test_without_pydantic_ai_one_is_told_what_to_install() -> None:
    code = "import sys; sys.modules['pydantic_ai'] = None; import clew.adapters.pydantic_ai"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert "pydantic-ai-slim (2.66 or newer) is not installed" in process.stderr
    assert "pip install '.[pydantic-ai]'" in process.stderr
