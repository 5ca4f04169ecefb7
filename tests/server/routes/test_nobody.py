"""Requests that name no user, on every store: a thread is nobody's then, and has a memory of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import clew
from clew.api.voice import NewToolCall, NewUtterance, NewVoiceTurn
from clew.client import AsyncClient
from clew.core.errors import Forbidden, InvalidArgument, NotFound, ThreadExists, UserMissing
from clew.runtime.records.episodes import request_end
from clew.server.app import create_app
from clew.server.settings import ServerSettings
from tests.server.conftest import Users, over_http

pytestmark = pytest.mark.promise("R-16")
LIKING = "I like marmalade"
QUESTION = "What do you remember about me?"


@pytest.fixture
async def users(db: clew.Database) -> AsyncIterator[Users]:
    """The users of a server with the companion, which learns and recalls."""
    app = create_app(ServerSettings(sweep_seconds=3600), db=db)
    async with over_http(app, db) as clients:
        yield clients


@pytest.fixture
async def nobody(users: Users) -> AsyncClient:
    """A client whose credentials name nobody."""
    return users(None)


async def learn(client: AsyncClient, thread: str, *, user: str | None = None) -> None:
    """Let a session say something worth keeping, and end."""
    await client.run_turn(thread, LIKING, user=user)
    await client.end_session(thread)


@pytest.mark.promise("R-17")
async def test_a_missing_user_is_accepted_as_none_and_none_is_made_up(
    nobody: AsyncClient, db: clew.Database
) -> None:
    await nobody.run_turn("t", "Hello")

    assert (await db.thread("t").head()).owner is None
    assert (await nobody.session("t")).user is None


async def test_memory_of_a_thread_that_is_nobodys_belongs_to_the_thread(nobody: AsyncClient) -> None:
    await learn(nobody, "a")
    again = await nobody.run_turn("a", QUESTION)
    other = await nobody.run_turn("b", QUESTION)

    assert "marmalade" in again.text
    assert "marmalade" not in other.text


async def test_it_never_joins_the_memory_of_a_person(users: Users, nobody: AsyncClient) -> None:
    await learn(nobody, "a")
    mine = await users("alice").run_turn("mine", QUESTION)
    on_behalf = await nobody.run_turn("hers", QUESTION, user="alice")

    assert "marmalade" not in mine.text + on_behalf.text
    assert (await users("alice").memory()).facts == []


async def test_it_knows_nothing_of_any_person(users: Users, nobody: AsyncClient) -> None:
    await learn(users("alice"), "hers")
    turn = await nobody.run_turn("a", QUESTION)

    assert "marmalade" not in turn.text


async def test_a_person_neither_sees_nor_continues_it(users: Users, nobody: AsyncClient) -> None:
    await nobody.run_turn("t", LIKING)
    alice = users("alice")
    for call in (
        alice.thread("t"),
        alice.run_turn("t", QUESTION),
        alice.end_session("t"),
        alice.fork("t", "u"),
    ):
        with pytest.raises(NotFound):
            await call

    assert [each.id for each in (await alice.threads()).threads] == []
    assert (await alice.search("marmalade")).found == []
    with pytest.raises(ThreadExists):
        await alice.create_thread("t")


async def test_a_later_request_that_names_a_user_does_not_find_it(
    nobody: AsyncClient, db: clew.Database
) -> None:
    await nobody.run_turn("t", LIKING)
    before = await db.thread("t").head()
    with pytest.raises(NotFound):
        await nobody.run_turn("t", QUESTION, user="alice")

    assert (await db.thread("t").head()).hash == before.hash


async def test_a_request_that_names_nobody_does_not_go_on_with_a_persons_thread(
    users: Users, nobody: AsyncClient, db: clew.Database
) -> None:
    await users("alice").run_turn("hers", LIKING)
    before = await db.thread("hers").head()
    with pytest.raises(UserMissing) as refusal:
        await nobody.run_turn("hers", QUESTION)

    assert (refusal.value.code, refusal.value.thread) == ("user_missing", "hers")
    assert (await db.thread("hers").head()).hash == before.hash


async def test_credentials_that_name_nobody_act_for_a_user_whom_the_request_names(
    users: Users, nobody: AsyncClient, db: clew.Database
) -> None:
    await learn(users("alice"), "hers")
    turn = await nobody.run_turn("program", QUESTION, user="alice")

    assert "marmalade" in turn.text
    assert (await db.thread("program").head()).owner == "alice"


@pytest.mark.promise("B-11")
async def test_its_memory_can_be_seen_corrected_undone_and_carried_away(nobody: AsyncClient) -> None:
    await learn(nobody, "a")
    fact = (await nobody.memory(thread="a")).facts[0]
    changed = await nobody.correct_memory(fact["id"], "honey", thread="a")
    entry = await nobody.memory_entry(changed["id"], thread="a")
    await nobody.undo_memory(thread="a")
    document = await nobody.export_memory(thread="a")
    await nobody.set_recall(on=False, thread="a")
    await nobody.forget_memory([fact["id"]], thread="a")
    await nobody.forget_memory([fact["id"]], confirmed=True, thread="a")

    assert entry["object"] == "honey"
    assert "marmalade" in str(document)
    assert ((await nobody.memory(thread="a")).facts, (await nobody.memory(thread="a")).recall) == ([], False)


async def test_a_memory_is_a_users_or_that_of_a_thread_which_is_nobodys(
    users: Users, nobody: AsyncClient
) -> None:
    await learn(users("alice"), "hers")
    with pytest.raises(InvalidArgument, match="neither"):
        await nobody.memory()
    with pytest.raises(UserMissing):
        await nobody.memory(thread="hers")
    with pytest.raises(InvalidArgument, match="not both"):
        await nobody.memory(thread="hers", user="alice")

    with pytest.raises(InvalidArgument, match="not both"):
        await users("alice").memory(thread="hers")


async def test_its_memory_goes_with_it(nobody: AsyncClient) -> None:
    await learn(nobody, "a")
    await nobody.delete_session("a")
    turn = await nobody.run_turn("a", QUESTION)

    assert "marmalade" not in turn.text


async def test_the_memory_of_a_person_stays_when_one_of_their_threads_goes(users: Users) -> None:
    alice = users("alice")
    await learn(alice, "hers")
    await alice.delete_session("hers")
    turn = await alice.run_turn("another", QUESTION)

    assert "marmalade" in turn.text


async def test_a_sweep_ends_its_sessions_and_keeps_what_was_said_with_the_thread(
    users: Users, nobody: AsyncClient, db: clew.Database
) -> None:
    await nobody.run_turn("a", LIKING)
    await users("alice").run_turn("hers", "Hello")
    for thread in ("a", "hers"):
        await request_end(db, thread, by="timeout", now=db.store.now())
    async with users.app.state.resources.runtimes.runtime_for(db.tenant) as runtime:
        await runtime.sweep()

    assert len((await nobody.memory(thread="a")).facts) == 1
    assert (await users("alice").memory()).facts == []


@pytest.mark.promise("R-21")
async def test_a_call_may_be_nobodys_too(users: Users, nobody: AsyncClient, db: clew.Database) -> None:
    spoken = NewVoiceTurn(said=LIKING, replied="Noted.")
    await nobody.record_voice_turn("call", spoken)
    await users("alice").record_voice_turn("hers", spoken)
    for call in (
        nobody.record_voice_turn("hers", NewVoiceTurn(said=QUESTION)),
        nobody.judge_utterance("hers", NewUtterance(id="u1", said=QUESTION)),
        nobody.call_voice_tool("hers", NewToolCall(id="c1", name="recall", arguments={"about": "marmalade"})),
    ):
        with pytest.raises(UserMissing):
            await call

    assert (await db.thread("call").head()).owner is None


async def test_a_fork_of_it_is_nobodys_and_begins_with_no_memory(
    nobody: AsyncClient, db: clew.Database
) -> None:
    await learn(nobody, "a")
    await nobody.fork("a", "b")

    assert (await db.thread("b").head()).owner is None
    assert (await nobody.memory(thread="b")).facts == []


async def test_nobody_has_no_archive_of_a_person(nobody: AsyncClient) -> None:
    with pytest.raises(InvalidArgument, match="about a user"):
        await nobody.export_person()


async def test_credentials_of_a_person_do_not_become_nobodys(users: Users) -> None:
    turn = await users("alice").run_turn("t", "Hello")
    with pytest.raises(Forbidden):
        await users("alice").run_turn("t", "Hello", user="bob")

    assert turn.termination == "natural"
