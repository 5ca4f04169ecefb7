"""Compaction again and again: it never runs out of room, and never parts a call from its result."""

# ruff: noqa: D102 - tests are named by sentences.

import pytest

from clew.core.errors import InvalidArgument, TranscriptBroken
from clew.core.items import call, repair, result, user
from clew.core.values import Item
from clew.database.thread import Thread
from clew.testing.contracts.common import contents_of
from clew.testing.fixtures import StoreFixtures


def guest_item(text: str) -> Item:
    """A summary in the format of a guest, which may be anywhere in the history."""
    return Item(body={"content": text}, format="openai.responses")


class CompactionContract(StoreFixtures):
    """Tests of compacting a log again and again."""

    @pytest.mark.promise("S-03")
    @pytest.mark.parametrize("parts", [1, 2, 5])
    @pytest.mark.parametrize("ended", [1, 2, 3])
    async def test_compactions_and_appends_alternate_for_ever(
        self, thread: Thread, parts: int, ended: int
    ) -> None:
        await thread.append(items=[user(n) for n in range(4)])
        contents: list[object] = [0, 1, 2, 3]
        for turn in range(12):
            summary = [f"{turn}.{part}" for part in range(parts)]
            await thread.log().compact([user(text) for text in summary], keep=len(contents) - ended)
            await thread.append(items=[user(turn)] * ended)
            contents = [*summary, *contents[ended:], *[turn] * ended]
            assert contents_of(await thread.items()) == contents

        assert (await thread.head()).length() == len(contents)
        assert (await thread.verify()).problems == ()

    @pytest.mark.promise("S-03")
    async def test_one_item_is_kept_behind_three_hundred_summaries(self, thread: Thread) -> None:
        await thread.append(items=[user("first"), user("kept")])
        for turn in range(300):
            await thread.log().compact([user(turn)], keep=1)

        assert contents_of(await thread.items()) == [299, "kept"]
        assert contents_of(await thread.items(at=200)) == [198, "kept"]

    @pytest.mark.promise("S-03")
    async def test_a_summary_may_be_longer_than_the_room_between_two_items(self, thread: Thread) -> None:
        await thread.append(items=[user("first"), user("kept", id="k")])
        await thread.log().compact([user(n) for n in range(300)], keep=1)

        assert contents_of(await thread.items()) == [*range(300), "kept"]
        assert contents_of(await thread.items(at=1)) == ["first", "kept"]
        assert (await thread.items(last=1))[0].id == "k"

    @pytest.mark.promise("S-03")
    async def test_a_summary_may_follow_summaries_that_were_popped(self, thread: Thread) -> None:
        await thread.append(items=[user("first")])
        await thread.log().compact([user("a"), user("b"), user("c")], keep=0)
        await thread.log().pop()
        await thread.log().pop()
        await thread.log().compact([user("d")], keep=0)

        assert contents_of(await thread.items()) == ["d"]

    @pytest.mark.promise("S-03")
    async def test_a_summary_may_follow_an_item_that_was_put_between(self, thread: Thread) -> None:
        await thread.append(items=[user("a"), user("c")])
        place = (await thread.items())[0].place + 1
        await thread.append(items=[Item(body={"content": "b"}, place=place)])
        await thread.log().compact([user("summary")], keep=2)

        assert contents_of(await thread.items()) == ["summary", "b", "c"]

    @pytest.mark.promise("S-03", "B-03")
    async def test_a_fork_is_compacted_without_room_and_its_parent_stays(self, thread: Thread) -> None:
        await thread.append(items=[user("a"), user("b"), user("c")])
        await thread.log().compact([user("s"), user("t")], keep=1)
        fork = await thread.fork("fork")
        await fork.log().compact([user("u")], keep=2)

        assert contents_of(await fork.items()) == ["u", "t", "c"]
        assert contents_of(await thread.items()) == ["s", "t", "c"]
        assert (await fork.verify()).problems == ()

    @pytest.mark.promise("B-05")
    @pytest.mark.parametrize("keep", [1, 2, 3])
    async def test_a_call_stays_with_its_result(self, thread: Thread, keep: int) -> None:
        calls = [call("c", "f", {}), call("d", "f", {}), result("d", 1), result("c", 1)]
        await thread.append(items=[user("?"), *calls])
        await thread.log().compact([user("summary")], keep=keep)

        kinds = [item.kind for item in await thread.items()]
        assert kinds == ["message", "call", "call", "result", "result"]

    @pytest.mark.promise("B-05")
    async def test_a_call_stays_with_its_repair(self, thread: Thread) -> None:
        await thread.append(items=[user("?"), call("c", "f", {})])
        await thread.append(items=[repair({"c": None}, "it died")])
        await thread.log().compact([user("summary")], keep=1)

        assert [item.kind for item in await thread.items()] == ["message", "call", "repair"]

    @pytest.mark.promise("B-05")
    async def test_a_call_and_its_result_alone_are_not_parted(self, thread: Thread) -> None:
        await thread.append(items=[call("c", "f", {}), result("c", 1)])

        with pytest.raises(InvalidArgument):
            await thread.log().compact([user("summary")], keep=1)
        assert len(await thread.items()) == 2

    @pytest.mark.promise("B-05")
    async def test_a_call_asked_again_is_another_call(self, thread: Thread) -> None:
        again = [call("c", "f", {}), result("c", 1)]
        await thread.append(items=[*again, *again])
        await thread.log().compact([user("summary")], keep=2)

        assert [item.kind for item in await thread.items()] == ["message", "call", "result"]

    @pytest.mark.promise("B-05")
    async def test_calls_are_as_open_as_before_when_what_is_kept_moves(self, thread: Thread) -> None:
        await thread.append(items=[user("?"), user("!")])
        await thread.log().compact([user("s"), user("t")], keep=1)
        await thread.append(items=[call("c", "f", {}), result("c", 1), call("d", "f", {}, run="r")])
        await thread.log().compact([guest_item("u")], keep=5)
        open_calls = (await thread.head()).counters.open
        await thread.append(items=[result("d", 1, run="r")])

        kinds = [item.kind for item in await thread.items()]
        assert open_calls == {"d": "r"}
        assert kinds == [*["message"] * 3, "call", "result", "call", "result"]

    @pytest.mark.promise("B-05")
    async def test_an_open_call_is_not_ended_whatever_the_summary_is(self, thread: Thread) -> None:
        await thread.append(items=[user("?"), call("c", "f", {})])

        with pytest.raises(TranscriptBroken) as caught:
            await thread.log().compact([guest_item("summary")], keep=0)
        assert (caught.value.call, len(await thread.items())) == ("c", 2)
