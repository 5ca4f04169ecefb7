"""The tools of MCP, called by a real client over loopback, on every store."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

import clew
from clew.runtime.memory.memory import Memory
from clew.server.app import create_app
from tests.server.local_server import listening
from tests.server.protocols.mcp.clients import McpPeer, McpServer, connect
from tests.server.routes.test_several_agents import cook, make_travel

pytestmark = pytest.mark.promise("B-17")
READ_ONLY = {"search", "recall", "list_threads", "read_thread", "list_memory"}
DESTRUCTIVE = {"correct_memory", "forget_memory", "undo_memory"}


async def test_tools_say_what_they_take_give_and_do(alice: McpPeer) -> None:
    tools = (await alice.client.list_tools()).tools
    schemas = [schema for tool in tools for schema in (tool.input_schema, tool.output_schema)]

    assert {schema["type"] for schema in schemas if schema is not None} == {"object"}
    assert None not in schemas
    assert {tool.name for tool in tools if tool.annotations and tool.annotations.read_only_hint} == READ_ONLY
    assert {
        tool.name for tool in tools if tool.annotations and tool.annotations.destructive_hint
    } == DESTRUCTIVE


async def test_a_turn_answers_and_is_stored(alice: McpPeer, db: clew.Database) -> None:
    turn = await alice.call("run_turn", thread="talk", message="Hello")
    texts = [item.body["content"] for item in await db.thread("talk").items()]

    assert turn["text"] == "You said: Hello"
    assert texts == ["Hello", "You said: Hello"]


async def test_a_turn_with_a_key_runs_once(alice: McpPeer, db: clew.Database) -> None:
    first = await alice.call("run_turn", thread="talk", message="Hello", key="k1")
    second = await alice.call("run_turn", thread="talk", message="Hello", key="k1")

    assert second == first
    assert len(await db.thread("talk").items()) == 2


async def test_a_thread_is_read_by_cursor_to_its_beginning(alice: McpPeer) -> None:
    await alice.call("create_thread", id="long")
    messages = [{"role": "user", "text": f"number {number}"} for number in range(5)]
    await alice.call("append", thread="long", messages=messages)
    texts: list[str] = []
    cursor = None
    while True:
        page = await alice.call("read_thread", thread="long", limit=2, cursor=cursor)
        texts = [*(message["text"] for message in page["messages"]), *texts]
        cursor = page["next"]
        if cursor is None:
            break

    assert texts == [f"number {number}" for number in range(5)]


async def test_an_append_with_a_key_is_made_once(alice: McpPeer) -> None:
    await alice.call("create_thread", id="log", title="A log")
    message = [{"role": "user", "text": "once"}]
    first = await alice.call("append", thread="log", messages=message, key="k1")
    second = await alice.call("append", thread="log", messages=message, key="k1")

    assert second == {**first, "repeated": True}


async def test_an_append_at_another_version_is_refused_with_its_code(alice: McpPeer) -> None:
    await alice.call("create_thread", id="log")

    assert (
        await alice.refusal("append", thread="log", messages=[{"role": "user", "text": "late"}], expect=7)
        == "version_conflict"
    )


async def test_a_fork_goes_its_own_way(alice: McpPeer) -> None:
    await alice.call("run_turn", thread="talk", message="Hello")
    fork = await alice.call("fork_thread", thread="talk", id="other")
    await alice.call("run_turn", thread="other", message="Elsewhere")
    page = await alice.call("read_thread", thread="talk")

    assert fork["parent"]["thread"] == "talk"
    assert len(page["messages"]) == 2


async def test_a_search_finds_what_was_said(alice: McpPeer) -> None:
    await alice.call("run_turn", thread="talk", message="The harbour is blue")
    page = await alice.call("search", query="harbour", kind=["items"])

    assert {hit["thread"] for hit in page["found"]} == {"talk"}


async def test_threads_are_listed(alice: McpPeer) -> None:
    await alice.call("create_thread", id="first", title="One")
    await alice.call("create_thread", id="second", title="Two")
    page = await alice.call("list_threads", search="Two")

    assert [thread["id"] for thread in page["threads"]] == ["second"]


async def test_what_is_remembered_is_recalled_corrected_and_forgotten(alice: McpPeer) -> None:
    await alice.call("remember", object="green tea", predicate="LIKES", quote="I like green tea")
    recalled = await alice.call("recall", text="Which tea?")
    (fact,) = (await alice.call("list_memory"))["facts"]
    corrected = await alice.call("correct_memory", id=fact["id"], object="black tea")
    shown = await alice.call("forget_memory", ids=[corrected["entry"]["id"]])
    forgotten = await alice.call("forget_memory", ids=[corrected["entry"]["id"]], confirmed=True)

    assert recalled["lines"] == ['[context] User LIKES green tea — "I like green tea"']
    assert [target["id"] for target in shown["waiting"]] == [corrected["entry"]["id"]]
    assert forgotten["forgotten"] == [corrected["entry"]["id"]]
    assert (await alice.call("list_memory"))["facts"] == []


async def test_a_change_of_memory_is_undone(alice: McpPeer) -> None:
    await alice.call("remember", object="green tea", predicate="LIKES")
    undo = await alice.call("undo_memory")

    assert len(undo["removed"]) == 1
    assert (await alice.call("list_memory"))["facts"] == []


async def test_something_is_remembered_once_by_its_key(alice: McpPeer) -> None:
    first = await alice.call("remember", object="green tea", predicate="LIKES", key="k1")
    second = await alice.call("remember", object="green tea", predicate="LIKES", key="k1")

    assert (first["repeated"], second["repeated"]) == (False, True)
    assert second["version"] == first["version"]


async def test_nothing_is_recalled_while_recall_is_off(alice: McpPeer, db: clew.Database) -> None:
    await alice.call("remember", object="green tea", predicate="LIKES")
    await Memory(db.scope(tenant=db.tenant, user="alice"), "alice").set_recall(on=False)
    recalled = await alice.call("recall", text="Which tea?")

    assert recalled["lines"] == recalled["entries"] == []


async def test_a_call_that_waits_for_a_person_is_reported(alice: McpPeer) -> None:
    turn = await alice.call("run_turn", thread="talk", message="pay Ann")

    assert turn["termination"] == "suspended"
    assert [call["tool"] for call in turn["waiting"]] == ["pay"]


async def test_a_client_that_can_ask_a_person_does_so_within_the_call(server: McpServer) -> None:
    async with server.peer("alice", elicit=True) as peer:
        turn = await peer.call("run_turn", thread="talk", message="pay Ann")

    assert turn["termination"] == "natural"
    assert "Ann has been paid" in turn["text"]


async def test_a_person_who_decides_later_is_not_asked_again_and_again(server: McpServer) -> None:
    async with server.peer("alice", elicit=True, action="cancel") as peer:
        turn = await peer.call("run_turn", thread="talk", message="pay Ann")

    assert [call["tool"] for call in turn["waiting"]] == ["pay"]


async def test_an_incognito_turn_can_ask_a_person_too(server: McpServer, db: clew.Database) -> None:
    async with server.peer("alice", elicit=True) as peer:
        turn = await peer.call("run_turn", thread="secret", message="pay Ann", mode="incognito")

    assert "Ann has been paid" in turn["text"]
    assert (await db.threads(system=True)).threads == ()


async def test_answers_to_a_run_of_another_user_are_refused(server: McpServer) -> None:
    async with server.peer("alice") as peer:
        turn = await peer.call("run_turn", thread="talk", message="pay Ann")
        (call,) = turn["waiting"]
    async with server.peer("bob") as other:
        arguments = {"thread": "mine", "message": "Hello"}
        answers: Any = {f"{call['call']}.1": {"action": "accept", "content": {}}}
        result = await other.client.session.call_tool(
            "run_turn", arguments, input_responses=answers, request_state=turn["run"]
        )

    assert result.structured_content["code"] == "record_not_found"


async def test_a_turn_may_name_one_of_several_agents(db: clew.Database) -> None:
    app = create_app(db=db, agent=make_travel, agents=[cook])
    async with listening(app) as url, connect(url, {"X-Clew-Tenant": db.tenant}) as peer:
        turn = await peer.call("run_turn", thread="dinner", message="Soup?", agent="cook")
        again = await peer.call("run_turn", thread="dinner", message="More?")
        refusal = await peer.refusal("run_turn", thread="other", message="Soup?", agent="nobody")

    assert turn["text"] == again["text"] == "Soup."
    assert refusal == "invalid_argument"


async def test_a_turn_that_fails_says_so_with_its_code(alice: McpPeer) -> None:
    assert await alice.refusal("run_turn", thread="talk", message="fail") == "model_failed"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"thread": 7},
        {"thread": "talk", "limit": 0},
        {"thread": "talk", "limit": 100_000},
        {"thread": "talk", "unknown": True},
        {"thread": "talk", "cursor": "made up"},
    ],
    ids=str,
)
async def test_arguments_that_are_not_valid_are_refused(alice: McpPeer, arguments: dict[str, object]) -> None:
    assert await alice.refusal("read_thread", **arguments) == "invalid_argument"


async def test_a_tool_that_is_not_there_is_an_error_of_the_protocol(alice: McpPeer) -> None:
    with pytest.raises(MCPError) as caught:
        await alice.client.call_tool("delete_everything", {})

    assert caught.value.error.code == -32602


async def test_a_client_of_the_former_specification_is_served(server: McpServer) -> None:
    async with server.peer("alice", mode="legacy") as peer:
        turn = await peer.call("run_turn", thread="talk", message="Hello")

        assert peer.client.protocol_version == "2025-11-25"
        assert turn["text"] == "You said: Hello"
