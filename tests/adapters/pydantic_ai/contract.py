"""What a conversation store of Pydantic AI must do. Its package ships no tests, so it is said here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from copy import deepcopy
from datetime import UTC, datetime

import pytest
from pydantic_ai import Agent, BinaryContent, Conversation, DeferredToolRequests
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage, RunUsage

OpenStore = Callable[[], AbstractAsyncContextManager[ConversationStore]]
"""Opens a store on the storage of the test; a second call opens another one on the same."""

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def request(text: str) -> ModelRequest:
    """What a person said."""
    return ModelRequest(parts=[UserPromptPart(content=text, timestamp=NOON)], timestamp=NOON)


def response(text: str) -> ModelResponse:
    """What a model answered."""
    return ModelResponse(parts=[TextPart(content=text)], timestamp=NOON, usage=RequestUsage(output_tokens=1))


def echo(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """A model that says how many messages it was given."""
    return ModelResponse(parts=[TextPart(content=f"{len(messages)} messages")])


AGENT = Agent(FunctionModel(echo))


def texts(messages: list[ModelMessage] | None) -> list[str]:
    """What was said in some messages."""
    assert messages is not None
    contents = (getattr(part, "content", None) for message in messages for part in message.parts)
    return [content for content in contents if isinstance(content, str)]


async def save_conversation(
    store: ConversationStore, *lines: str, id: str = "c1", scope: str | None = None
) -> Conversation:
    """A stored conversation."""
    messages: list[ModelMessage] = [
        response(text) if number % 2 else request(text) for number, text in enumerate(lines)
    ]
    conversation = Conversation(conversation_id=id, messages=messages)
    await store.save(conversation, scope=scope)
    return conversation


async def load_conversation(
    store: ConversationStore, id: str = "c1", limit: int | None = None
) -> Conversation:
    """A conversation that must be there."""
    conversation = await store.load(id, limit=limit)
    assert conversation is not None
    return conversation


async def turn(store: ConversationStore, text: str, id: str = "c1") -> list[ConversationEntry]:
    """One run of an agent, loaded before and saved after."""
    conversation = await store.load(id) or Conversation(conversation_id=id)
    return await store.save(await AGENT.run(text, conversation=conversation))


class ConversationStoreContract:
    """Subclass it, and give it the fixture ``open_store``."""

    @pytest.fixture
    async def store(self, open_store: OpenStore) -> AsyncIterator[ConversationStore]:
        async with open_store() as store:
            yield store

    @pytest.fixture
    async def other(
        self, open_store: OpenStore, store: ConversationStore
    ) -> AsyncIterator[ConversationStore]:
        async with open_store() as other:
            yield other

    # Save and load.

    async def test_a_conversation_that_is_not_there_is_none(self, store: ConversationStore) -> None:
        assert await store.load("nowhere") is None

    async def test_a_conversation_comes_back_as_it_was(
        self, store: ConversationStore, other: ConversationStore
    ) -> None:
        conversation = Conversation(
            conversation_id="c1",
            messages=[request("Hi"), response("Hello")],
            usage=RunUsage(requests=2, input_tokens=3, details={"cached": 1}),
        )
        await store.save(conversation)

        assert await load_conversation(other) == conversation

    async def test_every_kind_of_part_comes_back_as_it_was(self, store: ConversationStore) -> None:
        request = ModelRequest(
            parts=[
                SystemPromptPart(content="Be kind.", timestamp=NOON),
                UserPromptPart(
                    content=["Look:", BinaryContent(data=b"\x00\xff", media_type="application/pdf")],
                    timestamp=NOON,
                ),
                ToolReturnPart(
                    tool_name="look", content={"n": [1, None, 2.5]}, tool_call_id="t1", timestamp=NOON
                ),
                ToolReturnPart(
                    tool_name="look", content="again", tool_call_id="t2", outcome="retried", timestamp=NOON
                ),
            ],
            instructions="Short answers.",
            timestamp=NOON,
        )
        response = ModelResponse(
            parts=[
                ThinkingPart(content="hm", signature="s"),
                TextPart(content="A cat ☂"),
                ToolCallPart(tool_name="look", args={"at": None}, tool_call_id="t3"),
                ToolCallPart(tool_name="look", args='{"at": 1}', tool_call_id="t4"),
            ],
            usage=RequestUsage(input_tokens=5, output_tokens=2),
            model_name="m",
            timestamp=NOON,
            provider_details={"a": [1]},
            finish_reason="tool_call",
        )
        await store.save(Conversation(conversation_id="c1", messages=[request, response]))

        assert (await load_conversation(store)).messages == [request, response]

    async def test_a_turn_adds_only_its_own_messages(self, store: ConversationStore) -> None:
        first = await turn(store, "one")
        second = await turn(store, "two")

        assert (len(first), len(second)) == (2, 2)
        assert texts((await load_conversation(store)).messages) == ["one", "1 messages", "two", "3 messages"]

    async def test_saving_again_adds_nothing(self, store: ConversationStore) -> None:
        result = await AGENT.run("Hi", conversation=Conversation(conversation_id="c1"))

        assert len(await store.save(result)) == 2
        assert await store.save(result) == []

    async def test_usage_adds_up_over_the_runs(self, store: ConversationStore) -> None:
        await turn(store, "one")
        await turn(store, "two")

        assert (await load_conversation(store)).usage.requests == 2

    async def test_tools_and_their_results_are_kept(self, store: ConversationStore) -> None:
        agent = Agent(TestModel())

        @agent.tool_plain
        def weather(city: str) -> dict[str, str]:
            return {"sky": "blue"}

        result = await agent.run("How is it?", conversation=Conversation(conversation_id="c1"))
        await store.save(result)
        conversation = await load_conversation(store)

        assert conversation.messages == result.all_messages()
        assert conversation.usage.tool_calls == 1

    async def test_a_streamed_run_is_kept(self, store: ConversationStore) -> None:
        agent = Agent(TestModel(custom_output_text="It is blue."))
        async with agent.run_stream("How is it?", conversation=Conversation(conversation_id="c1")) as run:
            parts = [text async for text in run.stream_text()]
            messages, usage = run.all_messages(), run.usage
        await store.save(Conversation(conversation_id="c1", messages=messages, usage=usage))

        assert parts[-1] == "It is blue."
        assert texts((await load_conversation(store)).messages) == ["How is it?", "It is blue."]

    async def test_what_a_paused_run_waits_for_is_kept(self, store: ConversationStore) -> None:
        agent = Agent(TestModel(), output_type=[str, DeferredToolRequests])

        @agent.tool_plain(requires_approval=True)
        def delete_file(path: str) -> str:
            return f"{path} is gone"

        pause = await agent.run("Delete it", conversation=Conversation(conversation_id="c1"))
        await store.save(pause)
        waiting = await load_conversation(store)
        assert waiting.deferred_tool_requests is not None
        results = waiting.deferred_tool_requests.build_results(approve_all=True)
        final = await agent.run(conversation=waiting, deferred_tool_results=results)
        await store.save(final)

        assert "is gone" in str((await load_conversation(store)).messages)
        assert (await load_conversation(store)).deferred_tool_requests is None

    async def test_what_was_loaded_can_be_changed_without_changing_what_is_stored(
        self, store: ConversationStore
    ) -> None:
        await save_conversation(store, "Hi", "Hello")
        conversation = await load_conversation(store)
        part = conversation.messages[0].parts[0]
        assert isinstance(part, UserPromptPart)
        part.content = "changed"

        assert texts((await load_conversation(store)).messages) == ["Hi", "Hello"]

    async def test_an_empty_conversation_can_be_kept(self, store: ConversationStore) -> None:
        await save_conversation(store)

        assert (await load_conversation(store)).messages == []

    # Windows and entries.

    @pytest.mark.parametrize(
        ("limit", "latest"), [(0, []), (1, ["4"]), (3, ["2", "3", "4"]), (9, list("01234"))]
    )
    async def test_a_window_holds_the_last_messages(
        self, store: ConversationStore, limit: int, latest: list[str]
    ) -> None:
        await save_conversation(store, *"01234")

        assert texts((await load_conversation(store, limit=limit)).messages) == latest

    async def test_a_turn_on_a_window_is_added_to_the_whole(self, store: ConversationStore) -> None:
        await save_conversation(store, *"0123")
        await store.save(await AGENT.run("4", conversation=await load_conversation(store, limit=2)))

        assert texts((await load_conversation(store)).messages) == ["0", "1", "2", "3", "4", "3 messages"]

    async def test_entries_are_linked_to_those_before_them(self, store: ConversationStore) -> None:
        turns = await turn(store, "one") + await turn(store, "two")
        entries = await store.load_entries("c1")
        window = await store.load_entries("c1", limit=1)

        assert entries == turns
        assert [entry.parent_id for entry in turns] == [None, *(entry.id for entry in turns[:-1])]
        assert window == turns[-1:]

    async def test_an_entry_can_be_read_by_its_id(
        self, store: ConversationStore, other: ConversationStore
    ) -> None:
        await save_conversation(store, "elsewhere", id="c2")
        entries = await turn(store, "one")

        assert await store.read_entry(entries[1].id) == entries[1]
        assert await other.read_entry(entries[0].id) == entries[0]
        with pytest.raises(LookupError):
            await store.read_entry("nowhere")

    # Conflicts.

    async def test_a_stale_save_is_refused(self, store: ConversationStore, other: ConversationStore) -> None:
        await save_conversation(store, "Hi", "Hello")
        mine, theirs = await load_conversation(store), await load_conversation(other)
        await store.save(await AGENT.run("mine", conversation=mine))
        late = await AGENT.run("theirs", conversation=theirs)

        with pytest.raises(ConversationConflict):
            await other.save(late)
        assert texts((await load_conversation(store)).messages) == ["Hi", "Hello", "mine", "3 messages"]

    async def test_of_several_saves_at_once_one_is_taken(
        self, store: ConversationStore, other: ConversationStore
    ) -> None:
        await save_conversation(store, "Hi", "Hello")
        results = [await AGENT.run(str(n), conversation=await load_conversation(store)) for n in range(6)]
        stores = [store, other] * 3
        outcomes = await asyncio.gather(
            *(each.save(result) for each, result in zip(stores, results, strict=True)), return_exceptions=True
        )
        winners = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, list)]

        assert len(winners) == 1
        assert all(isinstance(outcome, list | ConversationConflict) for outcome in outcomes)
        assert texts((await load_conversation(store)).messages)[2] == str(winners[0])

    async def test_an_id_that_is_taken_is_refused(self, store: ConversationStore) -> None:
        await save_conversation(store, "mine")

        with pytest.raises(ConversationConflict):
            await save_conversation(store, "theirs")
        assert texts((await load_conversation(store)).messages) == ["mine"]

    async def test_a_deleted_conversation_is_gone(self, store: ConversationStore) -> None:
        await save_conversation(store, "Hi")
        await store.delete("c1")
        await store.delete("c1")

        assert await store.load("c1") is None
        assert await store.list_conversations() == []

    async def test_what_was_loaded_before_a_delete_cannot_be_saved_over_what_is_new(
        self, store: ConversationStore
    ) -> None:
        old = await save_conversation(store, "old")
        await store.delete("c1")
        await save_conversation(store, "new")

        with pytest.raises(ConversationConflict):
            await store.save(await AGENT.run("Hm", conversation=old))
        assert texts((await load_conversation(store)).messages) == ["new"]

    async def test_a_stale_delete_is_refused(self, store: ConversationStore) -> None:
        first = (await save_conversation(store, "Hi")).revision or ""
        await turn(store, "one")

        with pytest.raises(ConversationConflict):
            await store.delete_record("c1", expected_revision=first)
        assert await store.load("c1") is not None

    async def test_going_on_from_an_entry_that_is_not_there_is_refused(
        self, store: ConversationStore
    ) -> None:
        record = ConversationRecord(conversation_id="c2", head_id="nowhere", forked_from="c1")

        with pytest.raises(ConversationConflict):
            await store.write_record(record, expected_revision=None)
        assert await store.load("c2") is None

    # Scopes and lists.

    async def test_a_conversation_of_another_scope_is_not_there(self, store: ConversationStore) -> None:
        await save_conversation(store, "Hi", scope="alice")

        assert await store.load("c1", scope="bob") is None
        assert await store.load("c1", scope="alice") is not None
        with pytest.raises(ConversationConflict):
            await store.save(await load_conversation(store), scope="bob")

    async def test_the_one_saved_last_is_the_first_of_a_list(self, store: ConversationStore) -> None:
        for id in ("c1", "c2", "c3"):
            await save_conversation(store, "Hi", id=id, scope="alice" if id != "c2" else None)
        await turn(store, "again", "c1")

        def ids(records: list[ConversationRecord]) -> list[str]:
            return [record.conversation_id for record in records]

        assert ids(await store.list_conversations()) == ["c1", "c3", "c2"]
        assert ids(await store.list_conversations(limit=2)) == ["c1", "c3"]
        assert ids(await store.list_conversations(scope="alice")) == ["c1", "c3"]
        assert ids(await store.list_conversations(scope="bob")) == []

    # Branches and forks.

    async def test_a_branch_goes_on_from_an_earlier_message(self, store: ConversationStore) -> None:
        await save_conversation(store, *"0123")
        branch = await store.branch("c1", at=2, expected_revision=(await load_conversation(store)).revision)
        await store.save(await AGENT.run("other", conversation=branch))

        assert texts((await load_conversation(store)).messages) == ["0", "1", "other", "3 messages"]

    async def test_one_can_switch_back_to_a_branch_and_forth_again(self, store: ConversationStore) -> None:
        await save_conversation(store, *"0123")
        branch = await store.branch("c1", at=1, expected_revision=(await load_conversation(store)).revision)
        await store.save(await AGENT.run("other", conversation=branch))
        [branches] = [record.branches for record in await store.list_conversations()]
        back = await store.branch(
            "c1", from_entry=branches[0], expected_revision=(await load_conversation(store)).revision
        )
        await turn(store, "more")
        lines = texts((await load_conversation(store)).messages)
        [branches] = [record.branches for record in await store.list_conversations()]
        await store.branch(
            "c1", from_entry=branches[0], expected_revision=(await load_conversation(store)).revision
        )

        assert texts(back.messages) == list("0123")
        assert lines == [*"0123", "more", "5 messages"]
        assert texts((await load_conversation(store)).messages)[:2] == ["0", "other"]

    async def test_a_branch_can_begin_at_nothing(self, store: ConversationStore) -> None:
        await save_conversation(store, "0", "1")
        await store.branch("c1", at=0, expected_revision=(await load_conversation(store)).revision)
        await turn(store, "new")

        assert texts((await load_conversation(store)).messages) == ["new", "1 messages"]

    async def test_a_history_that_was_rewritten_is_kept_as_a_branch(self, store: ConversationStore) -> None:
        conversation = await save_conversation(store, *"0123")
        old = await store.load_entries("c1")
        assert old is not None
        rewritten = Conversation(
            conversation_id="c1", messages=[request("summary"), response("4")], revision=conversation.revision
        )
        await store.save(rewritten)
        [record] = await store.list_conversations()

        assert texts((await load_conversation(store)).messages) == ["summary", "4"]
        assert record.branches == [old[-1].id]
        assert await store.read_history(old[-1].id) == old

    async def test_a_fork_goes_its_own_way(self, store: ConversationStore) -> None:
        await save_conversation(store, *"0123")
        fork = await store.fork("c1", at=2, new_conversation_id="c2")
        await store.save(await AGENT.run("fork", conversation=fork))
        await turn(store, "original")

        assert texts((await load_conversation(store, "c2")).messages) == ["0", "1", "fork", "3 messages"]
        assert texts((await load_conversation(store)).messages) == [*"0123", "original", "5 messages"]

    async def test_a_fork_shares_its_entries(self, store: ConversationStore) -> None:
        await turn(store, "one")
        await store.fork("c1", new_conversation_id="c2")
        await store.fork("c2", new_conversation_id="c3")
        [record] = [each for each in await store.list_conversations() if each.conversation_id == "c3"]

        assert await store.load_entries("c3") == await store.load_entries("c1")
        assert record.forked_from == "c2"
        assert (await load_conversation(store, "c3")).usage.requests == 1

    async def test_a_fork_of_a_left_branch_is_possible(self, store: ConversationStore) -> None:
        await save_conversation(store, *"0123")
        entries = await store.load_entries("c1")
        assert entries is not None
        await store.branch("c1", at=1, expected_revision=(await load_conversation(store)).revision)
        await turn(store, "other")
        await store.fork("c1", from_entry=entries[2].id, new_conversation_id="c2")

        assert await store.load_entries("c2") == entries[:3]

    async def test_a_fork_outlives_what_it_came_from(
        self, store: ConversationStore, other: ConversationStore
    ) -> None:
        entries = await turn(store, "one")
        await store.fork("c1", new_conversation_id="c2")
        await store.delete("c1")

        assert await other.load_entries("c2") == entries
        assert await other.read_entry(entries[0].id) == entries[0]

    async def test_a_fork_needs_an_id_that_is_free(self, store: ConversationStore) -> None:
        await save_conversation(store, "0")
        await save_conversation(store, "mine", id="c2")

        with pytest.raises(ConversationConflict):
            await store.fork("c1", new_conversation_id="c2")
        with pytest.raises(UserError):
            await store.fork("nowhere")
        assert texts((await load_conversation(store, "c2")).messages) == ["mine"]

    async def test_what_was_given_can_be_changed_afterwards(self, store: ConversationStore) -> None:
        conversation = await save_conversation(store, "Hi", "Hello")
        before = deepcopy(conversation.messages)
        part = conversation.messages[0].parts[0]
        assert isinstance(part, UserPromptPart)
        part.content = "changed"

        assert (await load_conversation(store)).messages == before
