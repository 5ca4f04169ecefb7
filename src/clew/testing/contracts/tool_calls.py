"""Tool calls: transcripts that are valid by construction, guests that are stored as given."""

# ruff: noqa: D102 - tests are named by sentences.

from typing import Final

import pytest

from clew.core.errors import TranscriptBroken
from clew.core.items import assistant, call, result, user
from clew.core.values import Item
from clew.database.thread import Thread
from clew.testing.contracts.common import thread_dump
from clew.testing.fixtures import StoreFixtures

BROKEN_TRANSCRIPTS: Final[dict[str, list[Item]]] = {
    "a result without a call": [result("c", 1)],
    "a result twice": [call("c", "f", {}), result("c", 1), result("c", 1)],
    "a call twice": [call("c", "f", {}), call("c", "f", {})],
    "a message before the result": [call("c", "f", {}), user("Hi"), result("c", 1)],
    "another run before the result": [call("c", "f", {}, run="r1"), call("d", "f", {}, run="r2")],
    "a result of another run": [call("c", "f", {}, run="r1"), result("c", 1, run="r2")],
    "a call without an id": [Item(kind="call", body={})],
    "a result without an id": [call("c", "f", {}), Item(kind="result", body={})],
}


class PairingContract(StoreFixtures):
    """Tests of the pairing of calls and results."""

    @pytest.mark.promise("B-05")
    async def test_a_result_answers_its_call(self, thread: Thread) -> None:
        await thread.append(items=[user("?"), call("c", "f", {"x": 1})])
        between = (await thread.head()).counters.open
        await thread.append(items=[result("c", 2), assistant("!")])

        assert (between, (await thread.head()).counters.open) == ({"c": None}, {})

    @pytest.mark.promise("B-05")
    async def test_parallel_calls_are_answered_in_any_order(self, thread: Thread) -> None:
        await thread.append(items=[call("c", "f", {}, run="r"), call("d", "g", {}, run="r")])
        await thread.append(items=[result("d", 1, run="r")])
        await thread.append(items=[result("c", 1, run="r"), assistant("done", run="r")])

        assert (await thread.head()).counters.open == {}

    @pytest.mark.promise("B-05")
    @pytest.mark.parametrize("items", BROKEN_TRANSCRIPTS.values(), ids=BROKEN_TRANSCRIPTS)
    async def test_a_broken_transcript_is_refused_whole(self, thread: Thread, items: list[Item]) -> None:
        await thread.append(items=[user("before")])
        before = await thread_dump(thread)

        with pytest.raises(TranscriptBroken):
            await thread.append(items=items)
        assert await thread_dump(thread) == before

    @pytest.mark.promise("B-05")
    @pytest.mark.parametrize("items", BROKEN_TRANSCRIPTS.values(), ids=BROKEN_TRANSCRIPTS)
    async def test_a_transcript_broken_across_changesets_is_refused(
        self, thread: Thread, items: list[Item]
    ) -> None:
        refusal = None
        for item in items:
            try:
                await thread.append(items=[item])
            except TranscriptBroken as error:
                refusal = error
                break

        assert refusal is not None
        assert (await thread.head()).version < len(items)

    @pytest.mark.promise("B-05")
    async def test_another_log_goes_on_while_a_call_is_open(self, thread: Thread) -> None:
        await thread.append(items=[call("c", "f", {}, run="r")])
        await thread.append(items=[Item(log="notes", body="seen"), result("c", 1, run="r")])

        assert (await thread.head()).counters.open == {}

    @pytest.mark.promise("B-05")
    async def test_a_guest_is_stored_as_given(self, thread: Thread) -> None:
        bodies = [{"type": "function_call_output", "call_id": "nobody"}, {"any": None}]
        guests = [Item(body=body, kind="result", call="x", format="openai.responses") for body in bodies]
        await thread.append(items=guests)

        assert [item.body for item in await thread.items()] == bodies

    @pytest.mark.promise("B-05")
    @pytest.mark.parametrize("body", [b"", b"\x00", b"\xff\xfe{", bytes(range(256)) * 4], ids=len)
    async def test_the_bytes_of_a_guest_are_stored_as_given(self, thread: Thread, body: bytes) -> None:
        await thread.append(items=[Item(body=body, codec="msgpack", format="langchain")])

        (item,) = await thread.items()
        assert (item.body, item.codec, item.format) == (body, "msgpack", "langchain")

    @pytest.mark.promise("B-05")
    async def test_a_broken_tail_is_repaired_by_one_item_once(self, thread: Thread) -> None:
        await thread.append(items=[call("c", "f", {}, run="r"), call("d", "f", {}, run="r")])
        first = await thread.repair("the process died")
        again = await thread.repair("the process died")
        await thread.append(items=[user("next")])

        kinds = [item.kind for item in await thread.items()]
        assert (first is not None, again) == (True, None)
        assert kinds == ["call", "call", "repair", "message"]

    @pytest.mark.promise("B-05", "S-03")
    async def test_a_pop_opens_and_closes_calls_again(self, thread: Thread) -> None:
        await thread.append(items=[call("c", "f", {}, run="r")])
        await thread.append(items=[result("c", 1, run="r")])
        await thread.log().pop()
        open_calls = (await thread.head()).counters.open
        await thread.log().pop()
        await thread.append(items=[user("next")])

        assert (open_calls, (await thread.head()).counters.open) == ({"c": "r"}, {})

    @pytest.mark.promise("B-05", "S-03")
    async def test_a_pop_of_a_repair_opens_its_calls_again(self, thread: Thread) -> None:
        await thread.append(items=[call("c", "f", {}, run="r")])
        await thread.repair()
        await thread.log().pop()

        assert (await thread.head()).counters.open == {"c": "r"}

    @pytest.mark.promise("B-05")
    async def test_a_compaction_never_ends_an_open_call(self, thread: Thread) -> None:
        await thread.append(items=[user("?"), call("c", "f", {})])

        with pytest.raises(TranscriptBroken):
            await thread.log().compact([user("summary")], keep=0)
        assert len(await thread.items()) == 2

    @pytest.mark.promise("B-05", "S-03")
    async def test_a_clear_leaves_no_call_open(self, thread: Thread) -> None:
        await thread.append(items=[call("c", "f", {}, run="r")])
        await thread.log().clear()
        await thread.append(items=[user("next")])

        assert (await thread.head()).counters.open == {}

    @pytest.mark.promise("B-05", "S-03")
    async def test_a_clear_of_another_log_leaves_calls_open(self, thread: Thread) -> None:
        await thread.append(items=[Item(body={}, log="notes", format="guest"), call("c", "f", {}, run="r")])
        await thread.log("notes").clear()

        assert (await thread.head()).counters.open == {"c": "r"}

    @pytest.mark.promise("B-05", "B-03")
    async def test_a_fork_inherits_the_calls_open_at_its_version(self, thread: Thread) -> None:
        await thread.append(items=[call("c", "f", {})])
        await thread.append(items=[result("c", 1)])
        fork = await thread.fork("fork", at=1)

        with pytest.raises(TranscriptBroken):
            await fork.append(items=[user("Hi")])
        await fork.append(items=[result("c", 2)])
        assert (await fork.head()).counters.open == {}
