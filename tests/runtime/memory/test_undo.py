"""Forgetting in two steps, and undoing: what was shown is what goes, and nothing else."""

from __future__ import annotations

import pytest

import clew
from clew.core.errors import InvalidArgument, RecordNotFound, RewindRefused
from clew.database.database import Database
from clew.runtime.memory.memory import Memory, answer_pending
from tests.runtime.memory.candidates import allergic, rule, sister


@pytest.fixture
async def memory(db: Database) -> Memory:
    store = Memory(db, "alice")
    await store.learn([sister("Ann")])
    await store.learn([allergic("nuts"), allergic("milk")])
    return store


async def objects_of(memory: Memory) -> list[str]:
    return sorted(fact.object for fact in (await memory.page()).facts)


async def id_of(memory: Memory, object: str) -> str:
    return next(fact.id for fact in (await memory.page()).facts if fact.object == object)


@pytest.mark.promise("A-06")
async def test_nothing_is_forgotten_before_it_is_confirmed(memory: Memory) -> None:
    pending = await memory.propose_forgetting([await id_of(memory, "nuts")])
    before = await objects_of(memory)
    result = await answer_pending(memory, "Yes, please")

    assert [target.id for target in pending.targets] == list(result.ids)
    assert (before, await objects_of(memory)) == (["Ann", "milk", "nuts"], ["Ann", "milk"])
    assert (await memory.profile()).pending is None


@pytest.mark.promise("A-06")
@pytest.mark.parametrize("reply", ["no", "No thanks.", "what's the weather?", "", "yes but not now", "nein"])
async def test_any_word_but_a_clear_yes_cancels(memory: Memory, reply: str) -> None:
    await memory.propose_forgetting([await id_of(memory, "nuts")])
    result = await answer_pending(memory, reply)

    assert (result.ids, await objects_of(memory)) == ((), ["Ann", "milk", "nuts"])
    assert (await memory.profile()).pending is None


@pytest.mark.promise("A-06")
async def test_a_pending_action_survives_another_process(memory: Memory, db: Database) -> None:
    await memory.propose_forgetting([await id_of(memory, "nuts")])
    await answer_pending(Memory(db, "alice"), "ja")

    assert await objects_of(memory) == ["Ann", "milk"]


@pytest.mark.promise("A-06")
async def test_what_changed_after_it_was_shown_is_not_forgotten(memory: Memory) -> None:
    id = await id_of(memory, "Ann")
    await memory.propose_forgetting([id, await id_of(memory, "nuts")])
    await memory.learn([sister("Beth")])
    result = await memory.confirm_forgetting()

    assert (result.changed, await objects_of(memory)) == ((id,), ["Beth", "milk"])


@pytest.mark.promise("A-06")
async def test_one_of_several_is_chosen_by_its_number(memory: Memory) -> None:
    ids = [await id_of(memory, name) for name in ("nuts", "milk")]
    await memory.propose_forgetting(ids)
    result = await answer_pending(memory, "2")

    assert (result.ids, await objects_of(memory)) == ((ids[1],), ["Ann", "nuts"])


async def test_a_rule_and_an_arc_are_forgotten_too(memory: Memory) -> None:
    await memory.learn([rule("length", "Be brief.")])
    (entry,) = (await memory.profile()).rules
    await memory.propose_forgetting([entry.id])
    await memory.confirm_forgetting()

    assert (await memory.profile()).rules == ()


async def test_what_does_not_wait_cannot_be_confirmed(memory: Memory) -> None:
    with pytest.raises(InvalidArgument):
        await memory.confirm_forgetting()
    assert await memory.cancel_forgetting() is False


async def test_what_is_not_there_cannot_be_proposed(memory: Memory) -> None:
    with pytest.raises(RecordNotFound):
        await memory.propose_forgetting(["fact-nothing"])


@pytest.mark.promise("B-11")
async def test_the_last_change_is_undone_and_then_the_one_before(memory: Memory) -> None:
    first = await memory.undo()
    between = await objects_of(memory)
    second = await memory.undo()

    assert (first, between, second, await objects_of(memory)) == (2, ["Ann"], 1, [])
    with pytest.raises(InvalidArgument):
        await memory.undo()


@pytest.mark.promise("B-11")
async def test_forgetting_can_be_undone(memory: Memory) -> None:
    id = await id_of(memory, "nuts")
    before = await memory.get(id)
    await memory.propose_forgetting([id])
    await memory.confirm_forgetting()
    await memory.undo()

    assert await memory.get(id) == before


@pytest.mark.promise("B-11")
async def test_a_superseded_fact_comes_back_when_that_is_undone(memory: Memory) -> None:
    await memory.learn([sister("Beth"), rule("length", "Be brief.")])
    await memory.undo()

    assert await objects_of(memory) == ["Ann", "milk", "nuts"]
    assert (await memory.profile()).rules == ()


@pytest.mark.promise("B-11")
async def test_a_named_change_is_undone_and_later_ones_stay(memory: Memory) -> None:
    await memory.undo(1)

    assert await objects_of(memory) == ["milk", "nuts"]


@pytest.mark.promise("B-11")
async def test_an_undone_change_can_be_done_again_by_undoing_the_undo(memory: Memory, db: Database) -> None:
    await memory.undo()
    await memory.undo((await db.thread(memory.thread).head()).version)

    assert await objects_of(memory) == ["Ann", "milk", "nuts"]


async def test_what_has_changed_since_is_not_undone(memory: Memory) -> None:
    await memory.learn([sister("Beth")])
    with pytest.raises(RewindRefused):
        await memory.undo(1)

    assert await objects_of(memory) == ["Beth", "milk", "nuts"]


async def test_recall_is_switched_back_by_undo(memory: Memory) -> None:
    await memory.set_recall(on=False)
    await memory.undo()

    assert (await memory.profile()).recall is True


@pytest.mark.promise("A-06")
async def test_a_rule_that_was_replaced_after_it_was_shown_stays(memory: Memory) -> None:
    await memory.learn([rule("length", "Be brief.")])
    (entry,) = (await memory.profile()).rules
    await memory.propose_forgetting([entry.id])
    await memory.learn([rule("length", "Be thorough.")])
    result = await memory.confirm_forgetting()

    assert result.changed == (entry.id,)
    assert [rule.text for rule in (await memory.profile()).rules] == ["Be thorough."]


async def test_a_rule_that_has_changed_since_is_not_undone(memory: Memory) -> None:
    first = await memory.learn([rule("length", "Be brief.")])
    await memory.learn([rule("length", "Be thorough.")])
    with pytest.raises(RewindRefused):
        await memory.undo(first.version)

    assert [rule.text for rule in (await memory.profile()).rules] == ["Be thorough."]


@pytest.mark.promise("B-11")
async def test_what_was_brought_back_is_the_next_to_be_undone(memory: Memory, db: Database) -> None:
    await memory.undo()
    brought_back = await memory.undo((await db.thread(memory.thread).head()).version)
    between = await objects_of(memory)
    undone = await memory.undo()

    assert (brought_back, between, undone) == (3, ["Ann", "milk", "nuts"], 4)
    assert await objects_of(memory) == ["Ann"]
    assert await memory.undo() == 1


@pytest.mark.promise("B-11")
async def test_what_was_forgotten_and_learned_again_is_not_brought_back_a_second_time(memory: Memory) -> None:
    forgotten = await memory.forget(await memory.targets([await id_of(memory, "Ann")]))
    await memory.learn([sister("Beth")])

    with pytest.raises(RewindRefused):
        await memory.undo(forgotten.version)
    assert await objects_of(memory) == ["Beth", "milk", "nuts"]


@pytest.mark.promise("B-11")
async def test_what_only_waits_for_a_word_is_not_what_is_undone(memory: Memory) -> None:
    await memory.propose_forgetting([await id_of(memory, "Ann")])
    await memory.cancel_forgetting()
    await memory.propose_forgetting([await id_of(memory, "Ann")])
    await memory.undo()

    assert await objects_of(memory) == ["Ann"]


async def test_however_often_a_change_was_undone_and_done_again_it_can_be_undone() -> None:
    async with clew.open("memory://") as db:
        memory = Memory(db, "alice")
        version = (await memory.learn([sister("Ann")])).version
        for _ in range(1200):  # more than Python would follow by recursion
            await memory.undo(version)
            version = (await memory.profile()).version
        before = await objects_of(memory)
        undone = await memory.undo()

        assert (before, undone, await objects_of(memory)) == (["Ann"], version, [])


async def test_what_has_no_effect_any_more_is_not_undone_again(memory: Memory) -> None:
    await memory.undo(2)
    with pytest.raises(InvalidArgument, match="no effect any more"):
        await memory.undo(2)

    assert await objects_of(memory) == ["Ann"]


@pytest.mark.promise("A-06")
async def test_what_was_shown_is_forgotten_and_what_changed_meanwhile_stays(memory: Memory) -> None:
    targets = await memory.targets([await id_of(memory, "Ann"), await id_of(memory, "nuts")])
    await memory.learn([sister("Beth")])
    result = await memory.forget(targets)

    assert (list(result.changed), await objects_of(memory)) == ([targets[0].id], ["Beth", "milk"])


@pytest.mark.promise("A-06")
async def test_forgetting_one_thing_leaves_another_waiting(memory: Memory) -> None:
    await memory.propose_forgetting([await id_of(memory, "nuts")])
    await memory.forget(await memory.targets([await id_of(memory, "Ann")]))
    await answer_pending(memory, "yes")

    assert await objects_of(memory) == ["milk"]


async def test_where_all_has_changed_nothing_is_written(memory: Memory) -> None:
    targets = await memory.targets([await id_of(memory, "Ann")])
    update = await memory.learn([sister("Beth")])
    result = await memory.forget(targets)

    assert (result.ids, result.version) == ((), 0)
    assert (await memory.profile()).version == update.version
