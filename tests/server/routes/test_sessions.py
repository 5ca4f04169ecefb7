"""Sessions over HTTP, on every store: the endpoints that a session's user knows."""

from __future__ import annotations

import pytest

import clew
from clew.client import AsyncClient
from clew.core.errors import ArchiveInvalid, InvalidArgument, ThreadExists, ThreadNotFound
from clew.core.values import RecordQuery
from clew.server.http import idempotency
from tests.server.conftest import Users


@pytest.mark.promise("F-11")
async def test_the_state_names_the_sessions_that_are_active(users: Users, alice: AsyncClient) -> None:
    await alice.run_turn("a", "hi")
    await alice.run_turn("b", "hi")
    await alice.end_session("b")
    await users("bob").run_turn("c", "hi")
    state = await alice.sessions_state()

    assert (state.tenant, state.user) == (users.tenant, "alice")
    assert [(each.id, each.turns, each.status) for each in state.active] == [("a", 1, "active")]


@pytest.mark.parametrize("thread", ["x" * 512, "é" * 256], ids=["letters", "of two bytes each"])
async def test_a_thread_with_the_longest_id_has_turns_and_an_end_and_is_erased_whole(
    db: clew.Database, alice: AsyncClient, thread: str
) -> None:
    await alice.create_thread(thread, key="k")
    result = await alice.run_turn(thread, "hi", key="k")
    runs = await alice.runs(thread=thread)
    await alice.record_session_feedback(thread, "positive")
    await alice.end_session(thread)
    kinds = ("run", "episode", "feedback", idempotency.KIND)
    before = [len(await db.records.find(RecordQuery(kind=kind))) for kind in kinds]
    await db.erase(thread=thread)
    after = [len(await db.records.find(RecordQuery(kind=kind))) for kind in kinds]

    assert [run.id for run in runs.runs] == [result.run]
    assert (before, after) == ([1, 1, 1, 1], [0, 0, 0, 0])


async def test_a_thread_that_was_deleted_hides_no_other_session(alice: AsyncClient) -> None:
    await alice.run_turn("a", "hi")
    await alice.run_turn("b", "hi")
    await alice.delete_thread("b")

    assert [each.id for each in (await alice.sessions_state()).active] == ["a"]


async def test_pages_of_a_search_hold_each_once_and_no_more_than_asked(alice: AsyncClient) -> None:
    for number in range(7):
        await alice.create_thread(f"{'walk' if number % 3 else 'talk'}-{number}")
    first = await alice.sessions(search="walk", limit=2)
    second = await alice.sessions(search="walk", limit=2, cursor=first.next)

    assert [len(page.sessions) for page in (first, second)] == [2, 2]
    assert {each.id for each in (*first.sessions, *second.sessions)} == {
        "walk-1",
        "walk-2",
        "walk-4",
        "walk-5",
    }


@pytest.mark.promise("F-11")
async def test_sessions_are_listed_in_pages_and_searched(alice: AsyncClient) -> None:
    for number in range(4):
        await alice.create_thread(f"walk-{number}", title="In the woods" if number % 2 else None)
    first = await alice.sessions(limit=3)
    second = await alice.sessions(limit=3, cursor=first.next)
    page = await alice.sessions(search="WOODS")

    assert sorted(each.id for each in (*first.sessions, *second.sessions)) == [f"walk-{n}" for n in range(4)]
    assert sorted(each.id for each in page.sessions) == ["walk-1", "walk-3"]
    assert (second.next, page.next) == (None, None)


@pytest.mark.promise("F-11")
async def test_a_session_is_told_with_its_episode(alice: AsyncClient) -> None:
    await alice.run_turn("t", "hi")
    before = await alice.session("t")
    end = await alice.end_session("t", feedback="positive")
    after = await alice.session("t")

    assert (before.status, before.turns, before.items) == ("active", 1, 2)
    assert (end.episode, end.status) == (before.episode, "ended")
    assert (after.status, after.episode) == ("idle", None)


@pytest.mark.promise("F-11")
async def test_turns_are_told_in_pages_from_the_newest_back(alice: AsyncClient) -> None:
    for message in ("one", "two", "three"):
        await alice.run_turn("t", message)
    first = await alice.turns("t", limit=2)
    second = await alice.turns("t", limit=2, cursor=first.next)

    assert [turn.user_message for turn in first.turns] == ["two", "three"]
    assert [turn.user_message for turn in second.turns] == ["one"]
    assert "“three”" in first.turns[-1].assistant_message
    assert second.next is None


@pytest.mark.promise("F-11")
async def test_a_deleted_session_is_gone_and_its_id_is_free(alice: AsyncClient) -> None:
    await alice.run_turn("t", "hi")
    await alice.delete_session("t")
    with pytest.raises(ThreadNotFound):
        await alice.session("t")
    again = await alice.run_turn("t", "hello")

    assert again.version == 3
    assert (await alice.session("t")).turns == 1


@pytest.mark.promise("F-11")
async def test_an_export_comes_back_the_same(users: Users, alice: AsyncClient) -> None:
    await alice.run_turn("t", "hi")
    archive = await alice.export_archive("t")
    elsewhere = users("alice", tenant=f"{users.tenant}-2")
    result = await elsewhere.import_sessions(archive)

    assert result.sessions == ["t"]
    assert await elsewhere.export_archive("t") == archive
    assert (await elsewhere.thread("t")).hash == (await alice.thread("t")).hash


async def test_an_import_that_was_broken_off_goes_on(alice: AsyncClient) -> None:
    for thread in ("a", "b"):
        await alice.run_turn(thread, "hi")
    archive = await alice.export_person()
    await alice.delete_thread("a")
    with pytest.raises(ThreadExists):
        await alice.import_sessions(archive, key="k")
    result = await alice.import_sessions(archive, skip_existing=True, key="k")

    assert (result.sessions, result.skipped) == (["a"], ["b"])
    assert [each.text for each in (await alice.messages("a")).messages] == ["hi", "You said: “hi”."]


async def test_an_import_never_merges(alice: AsyncClient) -> None:
    await alice.run_turn("t", "hi")
    archive = await alice.export_archive("t")
    later = await alice.run_turn("t", "more")

    with pytest.raises(ThreadExists):
        await alice.import_sessions(archive)
    assert (await alice.thread("t")).version == later.version


async def test_an_archive_of_somebody_else_is_refused(users: Users, alice: AsyncClient) -> None:
    await alice.run_turn("t", "hi")
    archive = await alice.export_archive("t")
    bob = users("bob", tenant=f"{users.tenant}-2")

    with pytest.raises(ArchiveInvalid):
        await bob.import_sessions(archive)
    assert (await bob.threads()).threads == []


@pytest.mark.parametrize("archive", [b"", b"not an archive", b'{"clew":"archive","format":1}\n'])
async def test_what_is_no_archive_is_refused(alice: AsyncClient, archive: bytes) -> None:
    with pytest.raises(ArchiveInvalid):
        await alice.import_sessions(archive)


async def test_a_cursor_of_another_list_or_user_is_refused(users: Users, alice: AsyncClient) -> None:
    for number in range(2):
        await alice.create_thread(f"t{number}")
    cursor = (await alice.threads(limit=1)).next
    assert cursor is not None
    forgery = cursor[:-1] + ("A" if cursor[-1] != "A" else "B")

    for call in (
        alice.sessions(cursor=cursor),
        users("bob").threads(cursor=cursor),
        users("alice", tenant="elsewhere").threads(cursor=cursor),
        alice.threads(cursor=forgery),
        alice.threads(cursor=f"A{cursor[1:]}" if cursor[0] != "A" else f"B{cursor[1:]}"),
    ):
        with pytest.raises(InvalidArgument):
            await call
