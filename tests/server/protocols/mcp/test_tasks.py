"""Runs as tasks: begun in one request, looked at, answered and cancelled in others, in whatever process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest
from mcp.shared.exceptions import MCPError

import clew
from clew.core.values import RecordQuery
from clew.runtime.records.runs import KIND, Run, run_of
from clew.runtime.settings import LeaseConfig, RuntimeConfig
from tests.server.protocols.mcp.clients import McpServer, serve
from tests.support.interop.agent import WORDS, InteropState, ObedientModel, pay

pytestmark = pytest.mark.promise("B-17")


def quick_runtime(db: clew.Database) -> clew.Runtime[InteropState]:
    """The same agent, whose runs look often whether another process has ended them."""
    config = RuntimeConfig(leases=LeaseConfig(seconds=1.5, sweep_seconds=0.5))
    return clew.Runtime(db, schema=InteropState, model=ObedientModel(), tools=[pay], config=config)


async def test_a_turn_goes_on_as_a_task_whose_id_is_its_run(server: McpServer, db: clew.Database) -> None:
    async with server.peer(tasks=True) as peer:
        created = await peer.start(thread="talk", message="Hello")
        task = await peer.settle(created["taskId"], "completed")
    (run,) = await db.records.find(RecordQuery(kind=KIND))

    assert created["taskId"] == run.id
    assert (created["ttlMs"], created["pollIntervalMs"]) == (None, 1_000)
    assert task["result"]["structuredContent"]["text"] == "You said: Hello"


async def test_a_task_is_at_work_until_its_answer_is_whole(server: McpServer, tmp_path: Path) -> None:
    async with server.peer(tasks=True) as peer:
        created = await peer.start(thread="talk", message="hold x")
        before = await peer.task(created["taskId"])
        (tmp_path / "x").touch()
        after = await peer.settle(created["taskId"], "completed")

    assert (before["status"], "result" in before) == ("working", False)
    assert after["result"]["structuredContent"]["text"] == "".join(WORDS)


async def test_a_task_sent_again_with_its_key_is_the_same_task(server: McpServer) -> None:
    async with server.peer(tasks=True) as peer:
        first = await peer.start(thread="talk", message="Hello", key="k1")
        await peer.settle(first["taskId"], "completed")
        second = await peer.start(thread="talk", message="Hello", key="k1")

    assert (second["taskId"], second["status"]) == (first["taskId"], "completed")


async def test_a_cancelled_task_settles_as_cancelled(server: McpServer) -> None:
    async with server.peer(tasks=True) as peer:
        created = await peer.start(thread="talk", message="hold x")
        await peer.cancel(created["taskId"])
        task = await peer.settle(created["taskId"], "cancelled")
        await peer.cancel(created["taskId"])

        assert await peer.task(created["taskId"]) == task


async def test_a_second_task_waits_behind_the_first(server: McpServer, tmp_path: Path) -> None:
    async with server.peer(tasks=True) as peer:
        first = await peer.start(thread="talk", message="hold x")
        second = await peer.start(thread="talk", message="Hello")
        waiting = await peer.task(second["taskId"])
        (tmp_path / "x").touch()
        task = await peer.settle(second["taskId"], "completed")
        await peer.settle(first["taskId"], "completed")

    assert waiting["status"] == "working"
    assert waiting["statusMessage"].startswith("Another turn")
    assert task["result"]["structuredContent"]["text"] == "You said: Hello"


async def test_a_task_that_is_cancelled_in_the_queue_never_begins(
    server: McpServer, db: clew.Database, tmp_path: Path
) -> None:
    async with server.peer(tasks=True) as peer:
        first = await peer.start(thread="talk", message="hold x")
        second = await peer.start(thread="talk", message="Hello")
        await peer.cancel(second["taskId"])
        task = await peer.task(second["taskId"])
        (tmp_path / "x").touch()
        await peer.settle(first["taskId"], "completed")
        third = await peer.start(thread="talk", message="Third")
        await peer.settle(third["taskId"], "completed")
    texts = [item.body["content"] for item in await db.thread("talk").items() if item.role == "user"]

    assert task["status"] == "cancelled"
    assert texts == ["hold x", "Third"]


async def test_a_task_that_a_newer_message_interrupts_is_cancelled(server: McpServer) -> None:
    async with server.peer(tasks=True) as peer:
        first = await peer.start(thread="talk", message="hold x")
        second = await peer.start(thread="talk", message="Hello", busy="interrupt")
        task = await peer.settle(first["taskId"], "cancelled")
        await peer.settle(second["taskId"], "completed")

    assert task["statusMessage"] == "A newer message has ended it."


async def test_a_task_asks_a_person_and_goes_on_with_the_answer(server: McpServer) -> None:
    async with server.peer(tasks=True, elicit=True) as peer:
        created = await peer.start(thread="talk", message="pay Ann")
        waiting = await peer.settle(created["taskId"], "input_required")
        ((key, question),) = waiting["inputRequests"].items()
        await peer.answer(created["taskId"], **{key: {"action": "accept", "content": {}}})
        task = await peer.settle(created["taskId"], "completed")

    assert question["method"] == "elicitation/create"
    assert question["params"]["message"] == 'May this be done: pay with {"name":"Ann"}?'
    assert "Ann has been paid" in task["result"]["structuredContent"]["text"]


async def test_what_a_person_declines_is_not_done(server: McpServer) -> None:
    async with server.peer(tasks=True, elicit=True) as peer:
        created = await peer.start(thread="talk", message="pay Ann")
        waiting = await peer.settle(created["taskId"], "input_required")
        (key,) = waiting["inputRequests"]
        await peer.answer(created["taskId"], **{key: {"action": "decline"}, "unknown": 7})
        task = await peer.settle(created["taskId"], "completed")

    assert "A person declined this call." in task["result"]["structuredContent"]["text"]


async def test_a_person_may_decide_later(server: McpServer) -> None:
    async with server.peer(tasks=True, elicit=True) as peer:
        created = await peer.start(thread="talk", message="pay Ann")
        waiting = await peer.settle(created["taskId"], "input_required")
        (key,) = waiting["inputRequests"]
        await peer.answer(created["taskId"], **{key: {"action": "cancel"}})

        assert await peer.task(created["taskId"]) == waiting


async def test_a_client_that_cannot_ask_a_person_gets_no_question(server: McpServer) -> None:
    async with server.peer(tasks=True) as peer:
        created = await peer.start(thread="talk", message="pay Ann")
        task = await peer.settle(created["taskId"], "input_required")

    assert task["inputRequests"] == {}
    assert task["statusMessage"] == "A person must decide about: pay."


async def test_an_answer_that_is_none_is_refused(server: McpServer) -> None:
    async with server.peer(tasks=True, elicit=True) as peer:
        created = await peer.start(thread="talk", message="pay Ann")
        waiting = await peer.settle(created["taskId"], "input_required")
        (key,) = waiting["inputRequests"]
        with pytest.raises(MCPError) as caught:
            await peer.answer(created["taskId"], **{key: "yes"})

    assert (caught.value.error.code, caught.value.error.data["code"]) == (-32602, "invalid_argument")


async def test_a_run_that_fails_is_a_failed_task(server: McpServer) -> None:
    async with server.peer(tasks=True) as peer:
        created = await peer.start(thread="talk", message="fail")
        task = await peer.settle(created["taskId"], "failed")

    assert task["error"]["code"] == -32603
    assert "obedient" in task["error"]["message"]


async def test_a_turn_that_cannot_begin_is_no_task(server: McpServer) -> None:
    async with server.peer(tasks=True) as peer:
        await peer.settle((await peer.start(thread="talk", message="pay Ann"))["taskId"], "input_required")

        assert (
            await peer.refusal("run_turn", thread="talk", message="Hello", busy="refuse") == "turn_suspended"
        )


async def test_a_client_that_knows_no_tasks_gets_the_answer_itself(server: McpServer) -> None:
    async with server.peer(tasks=False) as peer:
        turn = await peer.call("run_turn", thread="talk", message="Hello")
        with pytest.raises(MCPError) as caught:
            await peer.task(turn["run"])

    assert caught.value.error.code == -32021
    assert caught.value.error.data == {
        "requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    }


async def test_a_client_that_goes_away_cancels_its_turn(server: McpServer, db: clew.Database) -> None:
    async def runs(status: str) -> list[Run]:
        query = RecordQuery(kind=KIND, tags=(f"status:{status}",))
        while not (records := await db.records.find(query)):  # noqa: ASYNC110 - the server tells of no event
            await asyncio.sleep(0.01)
        return [run_of(record) for record in records]

    async with server.peer() as peer:
        call = asyncio.create_task(peer.client.call_tool("run_turn", {"thread": "talk", "message": "hold x"}))
        await runs("running")
        call.cancel()
        (run,) = await runs("done")

    assert run.termination == "cancelled"


async def test_any_run_is_a_task_also_one_that_came_by_another_way(
    server: McpServer, db: clew.Database
) -> None:
    async with server.peer(tasks=False) as peer:
        turn = await peer.call("run_turn", thread="talk", message="Hello")
    async with server.peer(tasks=True) as peer:
        task = await peer.task(turn["run"])

    assert task["result"]["structuredContent"]["text"] == "You said: Hello"


async def test_an_incognito_turn_is_answered_at_once_and_leaves_no_trace(
    server: McpServer, db: clew.Database
) -> None:
    async with server.peer(tasks=True) as peer:
        turn = await peer.call("run_turn", thread="secret", message="Hello", mode="incognito")
        again = await peer.call("run_turn", thread="secret", message="Again")
        page = await peer.call("read_thread", thread="secret")
        refusal = await peer.refusal("append", thread="secret", messages=[{"role": "user", "text": "trace"}])
        fork = await peer.refusal("fork_thread", thread="secret", id="copy")
        found = await peer.call("search", query="Hello")
        resources = (await peer.client.list_resources()).resources

    assert (turn["text"], again["text"]) == ("You said: Hello", "You said: Again")
    assert len(page["messages"]) == 4
    assert (refusal, fork) == ("mode_refused", "thread_not_found")
    assert (found["found"], resources) == ([], [])
    assert (await db.threads(system=True)).threads == ()
    assert await db.records.find(RecordQuery(kind=KIND)) == []


async def test_two_servers_over_one_database_answer_by_turns(
    db: clew.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEW_TEST_HOLD_FOLDER", str(tmp_path))
    async with (
        serve(db, agent=quick_runtime) as one,
        serve(db, agent=quick_runtime) as other,
        one.peer(tasks=True, elicit=True) as first,
        other.peer(tasks=True, elicit=True) as second,
    ):
        created = await first.start(thread="talk", message="pay Ann")
        waiting = await second.settle(created["taskId"], "input_required")
        (key,) = waiting["inputRequests"]
        await second.answer(created["taskId"], **{key: {"action": "accept", "content": {}}})
        task = await first.settle(created["taskId"], "completed")
        held = await second.start(thread="talk", message="hold x")
        await first.cancel(held["taskId"])
        cancelled = await second.settle(held["taskId"], "cancelled")
        listing = await first.call("read_thread", thread="talk", limit=1)
        older = await second.call("read_thread", thread="talk", limit=1, cursor=listing["next"])

    assert "Ann has been paid" in task["result"]["structuredContent"]["text"]
    assert cancelled["status"] == "cancelled"
    assert older["messages"][0]["place"] < listing["messages"][0]["place"]


@pytest.mark.parametrize("id", ["run-nowhere", "", "a\0b", "x" * 10_000, "clew/audit", "%2e%2e/x"])
async def test_a_task_that_is_not_there_is_not_found(server: McpServer, id: str) -> None:
    async with server.peer(tasks=True) as peer:
        with pytest.raises(MCPError) as caught:
            await asyncio.wait_for(peer.task(id), 10)

    assert caught.value.error.code == -32602


async def test_a_task_of_another_user_is_not_found(server: McpServer) -> None:
    async with server.peer("alice", tasks=True) as peer:
        created = await peer.start(thread=f"diary-{uuid4().hex}", message="pay Ann")
        await peer.settle(created["taskId"], "input_required")
    async with server.peer("bob", tasks=True, elicit=True) as other:
        codes = []
        for attempt in (other.task, other.cancel, other.answer):
            with pytest.raises(MCPError) as caught:
                await attempt(created["taskId"])
            codes.append((caught.value.error.code, caught.value.error.data["code"]))
    async with server.peer("alice", tasks=True) as peer:
        task = await peer.task(created["taskId"])

    assert codes == [(-32602, "record_not_found")] * 3
    assert task["status"] == "input_required"
